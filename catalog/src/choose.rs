//! Which bundle of a package is to be installed, and why each other one is not. A plain function over values.
//!
//! Catalogs are asked by priority, then by name. With nothing installed, the first that has something to install in the
//! channel decides; with something installed, the one that it is from, as long as that has the package, and where nobody
//! has written down which that is, the first that knows it. Then one edge of the channel is followed at a time: a bundle
//! that replaces the installed one, skips it, or has it in its `skipRange`. Of several, releases come before pre-releases
//! and higher versions before lower ones. Dependencies are not resolved: a bundle that has some is not chosen. A catalog
//! that cannot be asked makes nobody go back, and one whose first reading is under way is waited for where it comes before
//! the one that would decide.
//!
//! No edge leads to a lower version. Where an author has packed the same version anew (`3.6.4` and `3.6.4+0.1649.p`), an
//! edge that names what is installed is followed, unless edges lead back from there.

mod ahead;
mod chooser;
mod decider;
mod display;
mod eligible;
#[cfg(test)]
mod tests;
mod way;

use manifests::{
    openshift::{self, MaxOpenShiftVersion},
    range::Range,
    version::Version,
};

pub use self::ahead::{Ahead, Followed, ahead};
use self::chooser::Chooser;
pub use self::chooser::stands_for;
use crate::model::{Bundle, Channel, Package, Release};

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The package.
    pub package: &'a str,
    /// The channel; the package's default if there is none.
    pub channel: Option<&'a str>,
    /// Versions that are welcome.
    pub range: Option<&'a Range>,
    /// The only minor version that is welcome, major first: another one is not approved yet.
    pub minor: Option<(u64, u64)>,
    /// The newest version that is welcome: what comes after it is not approved yet.
    pub newest: Option<&'a Version>,
    /// What is there already.
    pub installed: Option<&'a Installed>,
    /// The OpenShift that bundles must run on: during an update the higher of both releases. `None` where there is no
    /// OpenShift; then maxima mean nothing.
    pub openshift: Option<openshift::Release>,
    /// The version of Kubernetes; `None` if it is not known, and then it is not compared.
    pub kubernetes: Option<&'a Version>,
    /// The media types that there is somebody to install.
    pub media_types: &'a [&'a str],
    /// What does not count for some images.
    pub overrides: &'a [Override<'a>],
}

/// A constraint that somebody says does not count for one image. It is warned about where it would have counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override<'a> {
    /// Which.
    pub constraint: Constraint,
    /// The digest that the image is named by: `sha256:` and so on.
    pub digest: &'a str,
}

/// What a bundle may demand of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraint {
    /// The max OpenShift version, in any spelling.
    MaxOpenShiftVersion,
    /// The oldest Kubernetes (`minKubeVersion`).
    MinKubeVersion,
}

/// What is there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The bundle's name.
    pub name: String,
    /// Its version, if it is known; without it no `skipRange` speaks of it.
    pub version: Option<Release>,
    /// The catalog it was chosen from, if that is known.
    pub catalog: Option<String>,
}

/// What a catalog has of the package.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The catalog's name.
    pub catalog: &'a str,
    /// Higher ones are asked first.
    pub priority: i64,
    /// What it answered.
    pub answer: Answer<'a>,
}

/// What a catalog answered.
#[derive(Debug, Clone, Copy)]
pub enum Answer<'a> {
    /// All of the package.
    Package(&'a Package),
    /// There is no such package.
    Absent,
    /// The package cannot be used, or the catalog cannot be asked, or has not been read to its end; and why.
    Unknown(&'a str),
    /// The catalog is being read for the first time. There will be another answer soon, so that nothing is decided that it
    /// might have a say in.
    Pending,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The package that was asked for.
    pub package: String,
    /// What is to be done.
    pub verdict: Verdict,
    /// What led there, one step after the other.
    pub steps: Vec<String>,
    /// Bundles of the package that were looked at, the best first: the one that was chosen and as many others as a status
    /// has room for, or all of them where somebody wants it explained.
    pub candidates: Vec<Candidate>,
    /// The number of the others.
    pub more_candidates: usize,
    /// What whoever asked should know of what was chosen.
    pub warnings: Vec<String>,
    /// What comes after the bundle that was chosen, or that stays.
    pub next: Option<Next>,
    /// Catalogs that come before the one that decided, and could not be asked.
    pub unasked: Vec<Unasked>,
}

/// A catalog that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unasked {
    /// Its name.
    pub catalog: String,
    /// Why, in short; for a package that cannot be used the first thing that is wrong with it.
    pub why: String,
    /// Whether it is only being read for the first time.
    pub is_pending: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is there yet: install this.
    Install(Choice),
    /// Something is there: upgrade it to this.
    Upgrade(Choice),
    /// Something is there: leave it as it is; and why.
    Stay(String),
    /// There is nothing to install; and why.
    Nothing(String),
}

/// A bundle that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The catalog it is from.
    pub catalog: String,
    /// The channel it is in.
    pub channel: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Release,
    /// Where its content is.
    pub image: String,
    /// What it is packed like.
    pub media_type: String,
    /// The max OpenShift version that it declares; `None` if it declares none.
    pub max_openshift: Option<MaxOpenShiftVersion>,
}

/// A bundle that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The catalog it is from.
    pub catalog: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Release,
    /// Whether it is the one that was chosen.
    pub is_chosen: bool,
    /// Why it was not; or why it was.
    pub reasons: Vec<String>,
}

/// A bundle that comes later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Release,
    /// Why it is not chosen now; empty if it could be.
    pub reasons: Vec<String>,
}

// === impl Choice ===

impl Choice {
    fn of(bundle: &Bundle, catalog: &str, channel: &Channel) -> Self {
        Self {
            catalog: catalog.to_owned(),
            channel: channel.name.clone(),
            name: bundle.name.clone(),
            version: bundle.version.clone(),
            image: bundle.image.clone(),
            media_type: bundle.media_type().to_owned(),
            max_openshift: bundle.max_openshift.clone(),
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// The bundle to install, if there is one.
    pub fn choice(&self) -> Option<&Choice> {
        match self {
            Self::Install(choice) | Self::Upgrade(choice) => Some(choice),
            Self::Stay(_) | Self::Nothing(_) => None,
        }
    }
}

/// How many candidates are named unless all are wanted.
const FEW: usize = 10;

/// Chooses. The same arguments, in whatever order the offers come, give the same decision.
pub fn choose(request: &Request<'_>, offers: &[Offer<'_>]) -> Decision {
    decide(request, offers, FEW)
}

/// Chooses, and says of every bundle of the package why it was chosen or not, for people who look at one decision.
pub fn explain(request: &Request<'_>, offers: &[Offer<'_>]) -> Decision {
    decide(request, offers, usize::MAX)
}

fn decide(request: &Request<'_>, offers: &[Offer<'_>], most_candidates: usize) -> Decision {
    let mut offers = offers.to_vec();
    offers.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.catalog.cmp(b.catalog)));
    let mut chooser = Chooser {
        request,
        most_candidates,
        decision: Decision {
            package: request.package.to_owned(),
            verdict: Verdict::Nothing(String::new()),
            steps: Vec::new(),
            candidates: Vec::new(),
            more_candidates: 0,
            warnings: Vec::new(),
            next: None,
            unasked: Vec::new(),
        },
    };
    chooser.decision.verdict = match request.installed {
        Some(installed) => chooser.upgrade(installed, &offers),
        None => chooser.install(&offers),
    };
    chooser.decision
}

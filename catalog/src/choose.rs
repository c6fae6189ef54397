//! Selection of the bundle of a package to install, with the reasons why each other one is not selected. Pure; no I/O.
//!
//! Catalogs are considered by priority, then by name. Without an installed bundle, the first catalog that offers an
//! eligible bundle in the channel is authoritative. With an installed bundle, the catalog that it came from is
//! authoritative if it contains the package. If that catalog is not recorded, the first one that contains the installed
//! bundle is authoritative. The resolver then follows one edge of the channel, to a bundle that replaces or skips the
//! installed one, or has it in its `skipRange`. Releases are preferred to pre-releases, and higher versions to lower
//! ones. Dependencies are not resolved: a bundle with dependencies is not chosen. The installed bundle is kept while
//! its catalog is unavailable. A catalog that is being read for the first time delays the decision if it precedes the
//! authoritative one.
//!
//! No edge leads to a lower version. If an author rebuilds a version (`3.6.4` and `3.6.4+0.1649.p`), an edge that names
//! the installed bundle is followed, unless edges lead back from its target to the installed bundle.

mod authority;
mod before_cluster_upgrade;
mod display;
mod eligibility;
mod resolver;
#[cfg(test)]
mod tests;
mod upgrade_path;

use manifests::openshift::{self, MaxOpenShiftVersion};
use manifests::version::Version;
use manifests::version_range::Range;

use self::resolver::Resolver;
pub use self::{
    before_cluster_upgrade::{ChannelScope, RequiredUpgrade, ahead},
    resolver::represents,
};
use crate::model::{Bundle, Channel, Package, Release};

/// Parameters of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Name of the package.
    pub package: &'a str,
    /// Name of the channel; `None` selects the default channel of the package.
    pub channel: Option<&'a str>,
    /// Range of accepted versions; `None` accepts all.
    pub range: Option<&'a Range>,
    /// Accepted minor version, major first, because others are not approved; `None` accepts all.
    pub minor: Option<(u64, u64)>,
    /// Newest accepted version, because later ones are not approved; `None` accepts all.
    pub newest: Option<&'a Version>,
    /// Installed bundle; `None` before the installation.
    pub installed: Option<&'a Installed>,
    /// Required OpenShift release: during an update, the higher of both releases. `None` outside of OpenShift, where
    /// max OpenShift versions are ignored.
    pub openshift: Option<openshift::Release>,
    /// Kubernetes version; `None` if it is unknown, and the constraint is then not evaluated.
    pub kubernetes: Option<&'a Version>,
    /// Media types that a provisioner can install.
    pub media_types: &'a [&'a str],
    /// Constraints that are ignored for some images.
    pub overrides: &'a [Override<'a>],
}

/// An override: a constraint that is ignored for one image. A warning reports it if the constraint would have applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override<'a> {
    /// Constraint that is ignored.
    pub constraint: Constraint,
    /// Digest in the image reference: `sha256:` and the hash.
    pub digest: &'a str,
}

/// Constraint of a bundle on the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraint {
    /// Max OpenShift version, in any spelling.
    MaxOpenShiftVersion,
    /// Minimum Kubernetes version (`minKubeVersion`).
    MinKubeVersion,
}

/// Installed bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Name of the bundle.
    pub name: String,
    /// Version of the bundle; `None` if it is unknown, and no `skipRange` then contains it.
    pub version: Option<Release>,
    /// Catalog that the bundle was chosen from; `None` if it is not recorded.
    pub catalog: Option<String>,
}

/// The package as one catalog offers it.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// Name of the catalog.
    pub catalog: &'a str,
    /// Priority of the catalog; higher ones are considered first.
    pub priority: i64,
    /// Content that the catalog offers.
    pub answer: CatalogAnswer<'a>,
}

/// Answer of a catalog to a query for a package.
#[derive(Debug, Clone, Copy)]
pub enum CatalogAnswer<'a> {
    /// The catalog contains the package.
    Package(&'a Package),
    /// The catalog does not contain the package.
    NotFound,
    /// The package is unusable, or the catalog is unavailable or incomplete, for this reason.
    Unavailable(&'a str),
    /// The catalog is being read for the first time. Decisions that it can affect wait, because its answer will change
    /// soon.
    Pending,
}

/// Result of the resolver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Name of the requested package.
    pub package: String,
    /// Action to take.
    pub verdict: Outcome,
    /// Steps that led to the outcome, in order.
    pub steps: Vec<String>,
    /// Considered bundles of the package, best first. A decision contains the chosen one and as many others as a status
    /// can hold; an explanation contains all.
    pub candidates: Vec<Candidate>,
    /// Number of further candidates.
    pub more_candidates: usize,
    /// Warnings about the chosen bundle.
    pub warnings: Vec<String>,
    /// Bundle that follows the chosen or the installed one.
    pub next: Option<Next>,
    /// Unavailable catalogs that precede the authoritative one.
    pub unavailable: Vec<UnavailableCatalog>,
}

/// A catalog that is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnavailableCatalog {
    /// Name of the catalog.
    pub catalog: String,
    /// Reason in short; for an unusable package, its first problem.
    pub reason: String,
    /// True if the catalog is only being read for the first time.
    pub is_pending: bool,
}

/// Action to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No bundle is installed; install this one.
    Install(Choice),
    /// A bundle is installed; upgrade it to this one.
    Upgrade(Choice),
    /// A bundle is installed and is kept, for this reason.
    NoUpgrade(String),
    /// No bundle can be installed, for this reason.
    NoCandidate(String),
}

/// A bundle that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Name of the catalog.
    pub catalog: String,
    /// Name of the channel.
    pub channel: String,
    /// Name of the bundle.
    pub name: String,
    /// Version of the bundle.
    pub version: Release,
    /// Image reference of the bundle.
    pub image: String,
    /// Media type of the bundle.
    pub media_type: String,
    /// Declared max OpenShift version; `None` if the bundle declares none.
    pub max_openshift: Option<MaxOpenShiftVersion>,
}

/// A bundle that was considered, with the reasons why it is ineligible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the catalog.
    pub catalog: String,
    /// Name of the bundle.
    pub name: String,
    /// Version of the bundle.
    pub version: Release,
    /// True if the bundle was chosen.
    pub is_chosen: bool,
    /// Reasons why the bundle was not chosen, or why it was.
    pub reasons: Vec<String>,
}

/// The bundle that follows another one in the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// Name of the bundle.
    pub name: String,
    /// Version of the bundle.
    pub version: Release,
    /// Reasons why the bundle is ineligible now; empty if it is eligible.
    pub reasons: Vec<String>,
}

// === impl Choice ===

impl Choice {
    fn new(bundle: &Bundle, catalog: &str, channel: &Channel) -> Self {
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

// === impl Outcome ===

impl Outcome {
    /// Returns the bundle to install or upgrade to, if any.
    pub fn choice(&self) -> Option<&Choice> {
        match self {
            Self::Install(choice) | Self::Upgrade(choice) => Some(choice),
            Self::NoUpgrade(_) | Self::NoCandidate(_) => None,
        }
    }
}

/// Maximum number of candidates in a decision.
const MAX_CANDIDATES: usize = 10;

/// Decides which bundle to install. The result does not depend on the order of `offers`.
pub fn choose(request: &Request<'_>, offers: &[Offer<'_>]) -> Decision {
    decide(request, offers, MAX_CANDIDATES)
}

/// Decides like [`choose`], and lists every bundle of the package with the reasons, for people who inspect a decision.
pub fn explain(request: &Request<'_>, offers: &[Offer<'_>]) -> Decision {
    decide(request, offers, usize::MAX)
}

fn decide(request: &Request<'_>, offers: &[Offer<'_>], max_candidates: usize) -> Decision {
    let mut offers = offers.to_vec();
    offers.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.catalog.cmp(b.catalog)));
    let mut resolver = Resolver {
        request,
        max_candidates,
        decision: Decision {
            package: request.package.to_owned(),
            verdict: Outcome::NoCandidate(String::new()),
            steps: Vec::new(),
            candidates: Vec::new(),
            more_candidates: 0,
            warnings: Vec::new(),
            next: None,
            unavailable: Vec::new(),
        },
    };
    resolver.decision.verdict = match request.installed {
        Some(installed) => resolver.upgrade(installed, &offers),
        None => resolver.install(&offers),
    };
    resolver.decision
}

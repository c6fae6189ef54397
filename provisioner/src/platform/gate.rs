//! Whether a cluster may be upgraded to its next minor version, as far as its operators are concerned.
//!
//! On OpenShift an operator's bundle, or the catalog it came from, names the newest release that it runs on. If that is
//! older than the cluster's next release, the upgrade is blocked; if none is named, or what is named is no release, it is
//! not known and does not block. The words for these three outcomes are those of the enhancement "maxOpenShiftVersion".
//! On any cluster an operator may ask not to be upgraded (OperatorCondition), and may use APIs that the next minor version
//! of Kubernetes does not serve; the latter is a warning.
//!
//! The first line of a message is for machines that look for it; what follows says what to do, a line for each operator.
//! OLM v0 judges ClusterServiceVersions, too: the last lines explain where its ClusterOperator differs ([`olm`]).

mod message;
pub mod olm;
mod sources;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use manifests::{
    api::{
        bounds,
        platform_status::{Concern, Effect},
    },
    object::shortened,
    openshift::{Release, maximum},
};

use self::message::{Message, one_line};
pub use self::sources::{Identity, identity, key};

/// The reasons of the condition `Upgradeable`.
pub mod reason {
    /// Nothing speaks against an upgrade.
    pub const AS_EXPECTED: &str = "AsExpected";
    /// Some operators do not say how long they run.
    pub const INDETERMINATE: &str = "IndeterminateOperatorsInstalled";
    /// Some operators will not run.
    pub const INCOMPATIBLE: &str = "IncompatibleOperatorsInstalled";
    /// Some operators ask not to be upgraded now.
    pub const NOT_NOW: &str = "OperatorConditionsNotUpgradeable";
    /// Some operators use APIs that will not be served.
    pub const REMOVED_APIS: &str = "RemovedAPIsInUse";
    /// It could not be found out.
    pub const ERROR: &str = "ErrorCheckingOperatorCompatibility";
}

/// The cluster that may be upgraded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cluster {
    /// An OpenShift, with the release that it has reached, or why that is not known.
    OpenShift(Result<Release, String>),
    /// Any other: releases of OpenShift mean nothing here.
    Kubernetes,
}

/// An operator that is installed, and what is known of its demands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operator {
    /// Where it is installed.
    pub namespace: String,
    /// The BundleInstance, or the ClusterServiceVersion where OLM has installed it.
    pub name: String,
    /// The newest OpenShift release that it runs on, as it was written: by the catalog if that says something, else by the
    /// bundle.
    pub maximum: Option<String>,
    /// What the catalog says of that, if it is no release and the bundle names one.
    pub unread: Option<String>,
    /// Why that does not count, if somebody has said so for just this content.
    pub overridden: Option<String>,
    /// Why the operator asks not to be upgraded: reason and message.
    pub refusal: Option<(String, String)>,
    /// What it uses that Kubernetes will not serve, each in a sentence.
    pub removed: Vec<String>,
    /// What there is to be done if it blocks.
    pub remedy: Remedy,
    /// Whether `maximum` is the value of a catalog.
    pub is_from_catalog: bool,
    /// The release that the catalog of a Subscription declares, if other catalogs do not allow it to count.
    pub ignored: Option<Release>,
    /// Whether the OpenShift release payload contains the operator: then it is upgraded with the cluster, and need not
    /// declare a maximum.
    pub is_payload: bool,
    /// OLM v0's reading of the ClusterServiceVersion; `None` if OLM v0 does not judge the operator.
    pub olm: Option<olm::Reading>,
}

/// What can be done about an operator that will not run on the next release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Remedy {
    /// An upgrade to this version, which is the newest in a catalog that can be reached and runs then.
    Upgrade(String),
    /// No catalog has one.
    #[default]
    None,
    /// It is not known whether there is one, and why: catalogs cannot be read now.
    Unread(String),
    /// What its Subscription does: OLM has installed it.
    Subscription,
}

impl Operator {
    /// What it is called in messages; bounded.
    pub fn label(&self) -> String {
        let name = format!("{}/{}", self.namespace, self.name);
        shortened(&name, bounds::WORD as usize / 4) // characters have up to four bytes
    }

    /// Whether it keeps a cluster of this release from being upgraded, by what is known of the newest one it runs on.
    pub fn blocks(&self, release: Release) -> bool {
        self.overridden.is_none() && matches!(self.outcome(release), Outcome::Blocks(_))
    }

    /// Compares the max OpenShift version with the release after the cluster's.
    fn outcome(&self, release: Release) -> Outcome {
        match self.maximum.as_deref().map(maximum) {
            None if self.is_payload => Outcome::Passes,
            None => Outcome::Undeclared,
            Some(Err(error)) => Outcome::Undetermined(error.to_string()),
            Some(Ok(maximum)) if maximum.outlasts(release) => Outcome::Passes,
            Some(Ok(maximum)) => Outcome::Blocks(maximum),
        }
    }
}

/// The effect of an operator's max OpenShift version on the next upgrade of the cluster.
enum Outcome {
    /// The operator runs on the next release.
    Passes,
    /// The operator declares no max OpenShift version.
    Undeclared,
    /// The value is not a release; holds the error.
    Undetermined(String),
    /// The operator runs on this older release at most.
    Blocks(Release),
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the cluster may be upgraded.
    pub is_upgradeable: bool,
    /// In one word.
    pub reason: &'static str,
    /// In words; bounded.
    pub message: String,
    /// What the message is about, sorted; bounded, and then what is worse stays.
    pub concerns: Vec<Concern>,
    /// How many more there are.
    pub more: usize,
    /// How many there are in all, by what they do.
    pub counts: BTreeMap<Effect, usize>,
}

/// Judges all operators of a cluster. `errors` is what could not be found out: not knowing is no reason to upgrade.
pub fn judge<'a>(
    cluster: &Cluster,
    operators: impl IntoIterator<Item = &'a Operator>,
    errors: &[String],
) -> Verdict {
    let mut errors: Vec<Cow<'_, str>> = errors.iter().map(|error| one_line(error)).collect();
    let release = match cluster {
        Cluster::OpenShift(Ok(release)) => Some(*release),
        Cluster::OpenShift(Err(error)) => {
            errors.insert(0, one_line(error));
            None
        }
        Cluster::Kubernetes => None,
    };
    let mut found = Found::default();
    for operator in operators {
        found.look_at(operator, release);
    }
    let (reason, message) = if errors.is_empty() {
        found.conclusion()
    } else {
        let name = match cluster {
            Cluster::OpenShift(_) => "OpenShift",
            Cluster::Kubernetes => "Kubernetes",
        };
        let first = format!(
            "Encountered errors while checking compatibility with the next minor version of {name}: {}",
            message::joined(&errors, "; ", message::FIRST)
        );
        let mut message = Message::new(first, found.differences.text());
        found.tell(&mut message);
        (reason::ERROR, message)
    };
    let is_upgradeable = !matches!(
        reason,
        reason::ERROR | reason::INCOMPATIBLE | reason::NOT_NOW
    );
    let counts = found.counts();
    let (concerns, more) = found.most();
    Verdict {
        is_upgradeable,
        reason,
        message: message.finish(),
        concerns,
        more,
        counts,
    }
}

/// What all operators together come to.
#[derive(Default)]
struct Found {
    /// Names, by what they have in common.
    names: BTreeMap<Effect, BTreeSet<String>>,
    /// Sorted by operator.
    concerns: BTreeSet<Concern>,
    /// The ClusterServiceVersions that OLM judges differently.
    differences: olm::Differences,
}

impl Found {
    fn look_at(&mut self, operator: &Operator, release: Option<Release>) {
        if let Some(release) = release {
            self.compare(operator, release);
            self.differences.add(operator, release);
        }
        if let Some((reason, message)) = &operator.refusal {
            let said = match (one_line(reason), one_line(message)) {
                (reason, message) if message.is_empty() => reason.into_owned(),
                (reason, message) if reason.is_empty() => message.into_owned(),
                (reason, message) => format!("{reason}: {message}"),
            };
            self.note(operator, Effect::Refuses, &said);
        }
        for removed in &operator.removed {
            self.note(operator, Effect::Warns, &one_line(removed));
        }
    }

    /// Compares what an operator says of itself with the next release.
    fn compare(&mut self, operator: &Operator, release: Release) {
        let next = release.next();
        if let Some(Err(error)) = operator.unread.as_deref().map(maximum) {
            let message = format!(
                "the value of the bundle counts in place of the value of the catalog: {error}; ask the catalog author to \
                 correct olm.maxOpenShiftVersion"
            );
            self.note(operator, Effect::Unknown, &message);
        }
        let ignored = operator.ignored.map_or_else(String::new, |declared| {
            format!(
                "; {declared} of the Subscription's catalog is ignored, because another CatalogSource declares less or \
                 cannot be read: correct or delete that one"
            )
        });
        let maximum = match operator.outcome(release) {
            Outcome::Passes => return,
            Outcome::Undeclared => {
                let message = format!(
                    "it does not say whether it runs on OpenShift {next}: ask its author for olm.maxOpenShiftVersion{ignored}"
                );
                return self.note(operator, Effect::Unknown, &message);
            }
            Outcome::Undetermined(error) => {
                let author = if operator.is_from_catalog {
                    "catalog"
                } else {
                    "bundle"
                };
                let message = format!(
                    "{error}; ask the {author} author to declare a release such as \"{next}\" in olm.maxOpenShiftVersion{ignored}"
                );
                return self.note(operator, Effect::Unknown, &message);
            }
            Outcome::Blocks(maximum) => maximum,
        };
        if let Some(why) = &operator.overridden {
            let message = format!(
                "it runs on OpenShift {maximum} at most, which spec.overrides says does not count: {}",
                one_line(why)
            );
            return self.note(operator, Effect::Overridden, &message);
        }
        let remedy = match &operator.remedy {
            Remedy::Upgrade(version) => {
                format!("upgrade it to {}, which runs on {next}", one_line(version))
            }
            Remedy::None => format!(
                "no version that runs on {next} is known; uninstall it, or say in spec.overrides that this does not count"
            ),
            Remedy::Unread(why) => format!(
                "whether there is a version that runs on {next} is not known, as {}; see to that, or wait",
                one_line(why)
            ),
            Remedy::Subscription => "upgrade it with its Subscription, or uninstall it".to_owned(),
        };
        let message = format!("it runs on OpenShift {maximum} at most: {remedy}{ignored}");
        self.note(operator, Effect::Blocks, &message);
    }

    fn note(&mut self, operator: &Operator, effect: Effect, message: &str) {
        let name = operator.label();
        let longest = bounds::LINE as usize / 4;
        self.names.entry(effect).or_default().insert(name.clone());
        self.concerns.insert(Concern {
            operator: name,
            effect,
            message: shortened(message, longest),
        });
    }

    fn counts(&self) -> BTreeMap<Effect, usize> {
        let mut counts = BTreeMap::new();
        for concern in &self.concerns {
            *counts.entry(concern.effect).or_default() += 1;
        }
        counts
    }

    /// As many as there is room for, the worst of them, sorted; and how many more there are.
    fn most(self) -> (Vec<Concern>, usize) {
        let most = bounds::CONCERNS as usize;
        let more = self.concerns.len().saturating_sub(most);
        let mut concerns: Vec<Concern> = self.concerns.into_iter().collect();
        concerns.sort_by_key(|it| it.effect); // stable
        concerns.truncate(most);
        concerns.sort();
        (concerns, more)
    }

    /// The reason and the message that count, the worst first.
    fn conclusion(&self) -> (&'static str, Message) {
        let names = |effect| self.names.get(&effect);
        let (reason, first) = if let Some(blocking) = names(Effect::Blocks) {
            let names = message::names(blocking);
            let words = "The following operators will not run on the next OpenShift Version:";
            (reason::INCOMPATIBLE, format!("{words} {names}"))
        } else if let Some(refusing) = names(Effect::Refuses) {
            let names = message::names(refusing);
            let words = "The following operators ask not to be upgraded now:";
            (reason::NOT_NOW, format!("{words} {names}"))
        } else if let Some(unknown) = names(Effect::Unknown) {
            let names = message::names(unknown);
            let words = "The following operators may not run on the next OpenShift Version:";
            (reason::INDETERMINATE, format!("{words} {names}"))
        } else if names(Effect::Warns).is_some() {
            (reason::REMOVED_APIS, "Ready for upgrade".to_owned())
        } else {
            (reason::AS_EXPECTED, "Ready for upgrade".to_owned())
        };
        let mut message = Message::new(first, self.differences.text());
        self.tell(&mut message);
        (reason, message)
    }

    /// A line for each concern, what blocks first. What merely is not known comes last.
    fn tell(&self, message: &mut Message) {
        for effect in [
            Effect::Blocks,
            Effect::Refuses,
            Effect::Overridden,
            Effect::Warns,
            Effect::Unknown,
        ] {
            for concern in self.concerns.iter().filter(|it| it.effect == effect) {
                let word = match effect {
                    Effect::Refuses => "asks not to be upgraded: ",
                    Effect::Warns => "Warning: ",
                    _ => "",
                };
                message.line(&format!(
                    "- {}: {word}{}",
                    concern.operator, concern.message
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;

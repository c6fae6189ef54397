//! Upgrade gate: assesses whether the installed operators allow an upgrade of the cluster to its next minor version. Pure;
//! no I/O.
//!
//! On OpenShift, the bundle of an operator or its catalog declares the newest release that the operator supports. If that
//! is older than the cluster's next release, the upgrade is blocked. If no release or an invalid one is declared, support
//! is unknown, and the upgrade is not blocked. The terms for these three outcomes are those of the enhancement
//! "maxOpenShiftVersion". On any cluster an operator may block upgrades with an OperatorCondition. It may also use APIs
//! that the next minor version of Kubernetes removes, which causes a warning.
//!
//! Programs may match the first line of a message. The following lines have the remedies, one line per operator. OLM v0
//! evaluates ClusterServiceVersions too: the last lines explain the differences to its ClusterOperator ([`olm`]).

mod message;
pub mod olm;
mod operators;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use manifests::{
    api::{
        limits,
        platform_status::{Concern, Effect},
    },
    object::truncate,
    openshift::{Release, maximum},
};

use self::message::{Message, one_line};
pub use self::operators::{Identity, identity, key};

/// Reasons of the condition `Upgradeable`.
pub mod reason {
    /// All operators support an upgrade.
    pub const AS_EXPECTED: &str = "AsExpected";
    /// Some operators declare no maximum, or an invalid one.
    pub const INDETERMINATE: &str = "IndeterminateOperatorsInstalled";
    /// Some operators do not support the next release.
    pub const INCOMPATIBLE: &str = "IncompatibleOperatorsInstalled";
    /// Some operators block upgrades with an OperatorCondition.
    pub const NOT_NOW: &str = "OperatorConditionsNotUpgradeable";
    /// Some operators use APIs that the next release removes.
    pub const REMOVED_APIS: &str = "RemovedAPIsInUse";
    /// The operators could not be assessed.
    pub const ERROR: &str = "ErrorCheckingOperatorCompatibility";
}

/// Cluster that is assessed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterKind {
    /// OpenShift, with the release that it has reached, or the reason why that is not known.
    OpenShift(Result<Release, String>),
    /// Another cluster, for which OpenShift releases do not matter.
    Kubernetes,
}

/// An installed operator, and its known constraints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstalledOperator {
    /// Install namespace of the operator.
    pub namespace: String,
    /// Name of the BundleInstance, or of the ClusterServiceVersion if OLM installed the operator.
    pub name: String,
    /// Newest OpenShift release that it supports, as declared: by the catalog if that has a value, or else by the bundle.
    pub max_openshift: Option<String>,
    /// Value of the catalog, if that is not a release and the bundle declares one.
    pub invalid_maximum: Option<String>,
    /// Reason of an override in the spec for exactly this content; `None` without an override.
    pub overridden: Option<String>,
    /// Reason and message of an OperatorCondition that blocks upgrades.
    pub refusal: Option<(String, String)>,
    /// Uses of APIs that the next minor version of Kubernetes removes, one sentence each.
    pub removed_apis: Vec<String>,
    /// Remedy if the operator blocks upgrades.
    pub remedy: UpgradeRemedy,
    /// Whether `maximum` is the value of a catalog.
    pub is_from_catalog: bool,
    /// Release that the catalog of a Subscription declares, if other catalogs do not allow it to count.
    pub ignored: Option<Release>,
    /// Whether the OpenShift release payload contains the operator: then it is upgraded with the cluster, and need not
    /// declare a maximum.
    pub is_payload: bool,
    /// OLM v0's reading of the ClusterServiceVersion; `None` if OLM v0 does not evaluate the operator.
    pub olm: Option<olm::Reading>,
}

/// Remedy for an operator that does not support the next release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UpgradeRemedy {
    /// Upgrade to this version, the newest in an available catalog that supports the next release.
    Upgrade(String),
    /// No available catalog has such a version.
    #[default]
    None,
    /// The remedy is not known, with the reason: catalogs cannot be read now.
    Unknown(String),
    /// Upgrade by its Subscription, since OLM installed the operator.
    Subscription,
}

impl InstalledOperator {
    /// Returns the name of the operator in messages, which is bounded.
    pub fn label(&self) -> String {
        let name = format!("{}/{}", self.namespace, self.name);
        truncate(&name, limits::WORD as usize / 4) // characters have up to four bytes
    }

    /// Reports whether the operator blocks upgrades of a cluster with this release, by its known maximum.
    pub fn blocks(&self, release: Release) -> bool {
        self.overridden.is_none() && matches!(self.outcome(release), Outcome::Blocks(_))
    }

    /// Compares the max OpenShift version with the release after the cluster's.
    fn outcome(&self, release: Release) -> Outcome {
        match self.max_openshift.as_deref().map(maximum) {
            None if self.is_payload => Outcome::Passes,
            None => Outcome::Undeclared,
            Some(Err(error)) => Outcome::Undetermined(error.to_string()),
            Some(Ok(maximum)) if maximum.allows_next(release) => Outcome::Passes,
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

/// Assessment of the next cluster upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeAssessment {
    /// Whether the cluster may be upgraded.
    pub is_upgradeable: bool,
    /// CamelCase reason of the condition.
    pub reason: &'static str,
    /// Message for people, which is bounded.
    pub message: String,
    /// Concerns of the message, sorted. If the limit is exceeded, the most severe ones are listed.
    pub concerns: Vec<Concern>,
    /// Number of omitted concerns.
    pub more: usize,
    /// Number of all concerns, by effect.
    pub counts: BTreeMap<Effect, usize>,
}

/// Assesses all operators of a cluster. `errors` are those of reading the inputs, which block the upgrade.
pub fn assess<'a>(
    cluster: &ClusterKind,
    operators: impl IntoIterator<Item = &'a InstalledOperator>,
    errors: &[String],
) -> UpgradeAssessment {
    let mut errors: Vec<Cow<'_, str>> = errors.iter().map(|error| one_line(error)).collect();
    let release = match cluster {
        ClusterKind::OpenShift(Ok(release)) => Some(*release),
        ClusterKind::OpenShift(Err(error)) => {
            errors.insert(0, one_line(error));
            None
        }
        ClusterKind::Kubernetes => None,
    };
    let mut all = Concerns::default();
    for operator in operators {
        all.check_operator(operator, release);
    }
    let (reason, message) = if errors.is_empty() {
        all.conclusion()
    } else {
        let name = match cluster {
            ClusterKind::OpenShift(_) => "OpenShift",
            ClusterKind::Kubernetes => "Kubernetes",
        };
        let first = format!(
            "Encountered errors while checking compatibility with the next minor version of {name}: {}",
            message::joined(&errors, "; ", message::MAX_FIRST_LINE_LEN)
        );
        let mut message = Message::new(first, all.differences.text());
        all.write_lines(&mut message);
        (reason::ERROR, message)
    };
    let is_upgradeable = !matches!(
        reason,
        reason::ERROR | reason::INCOMPATIBLE | reason::NOT_NOW
    );
    let counts = all.counts();
    let (concerns, more) = all.top_concerns();
    UpgradeAssessment {
        is_upgradeable,
        reason,
        message: message.finish(),
        concerns,
        more,
        counts,
    }
}

/// Concerns of all operators.
#[derive(Default)]
struct Concerns {
    /// Names of the operators, by effect.
    names: BTreeMap<Effect, BTreeSet<String>>,
    /// All concerns, sorted by operator.
    sorted: BTreeSet<Concern>,
    /// ClusterServiceVersions that OLM evaluates differently.
    differences: olm::Differences,
}

impl Concerns {
    fn check_operator(&mut self, operator: &InstalledOperator, release: Option<Release>) {
        if let Some(release) = release {
            self.compare(operator, release);
            self.differences.add(operator, release);
        }
        if let Some((reason, message)) = &operator.refusal {
            let message = match (one_line(reason), one_line(message)) {
                (reason, message) if message.is_empty() => reason.into_owned(),
                (reason, message) if reason.is_empty() => message.into_owned(),
                (reason, message) => format!("{reason}: {message}"),
            };
            self.note(operator, Effect::Refuses, &message);
        }
        for removed in &operator.removed_apis {
            self.note(operator, Effect::Warns, &one_line(removed));
        }
    }

    /// Compares the declared maximum of an operator with the next release.
    fn compare(&mut self, operator: &InstalledOperator, release: Release) {
        let next = release.next();
        if let Some(Err(error)) = operator.invalid_maximum.as_deref().map(maximum) {
            let message = format!(
                "the value of the bundle is used because the value of the catalog is invalid: {error}; ask the catalog \
                 author to correct olm.maxOpenShiftVersion"
            );
            self.note(operator, Effect::Unknown, &message);
        }
        let ignored = operator.ignored.map_or_else(String::new, |declared| {
            format!(
                "; {declared} of the Subscription's catalog is ignored because another CatalogSource declares a lower \
                 value or cannot be read; correct or delete that CatalogSource"
            )
        });
        let maximum = match operator.outcome(release) {
            Outcome::Passes => return,
            Outcome::Undeclared => {
                let message = format!(
                    "does not declare whether it supports OpenShift {next}; ask the author to set \
                     olm.maxOpenShiftVersion{ignored}"
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
                "supports OpenShift up to {maximum} (overridden in spec.overrides: {})",
                one_line(why)
            );
            return self.note(operator, Effect::Overridden, &message);
        }
        let remedy = match &operator.remedy {
            UpgradeRemedy::Upgrade(version) => {
                format!(
                    "upgrade the operator to {}, which supports {next}",
                    one_line(version)
                )
            }
            UpgradeRemedy::None => format!(
                "no known version supports {next}; uninstall the operator, or add an entry to spec.overrides"
            ),
            UpgradeRemedy::Unknown(why) => format!(
                "cannot determine whether a version supports {next}: {}; fix this, or wait",
                one_line(why)
            ),
            UpgradeRemedy::Subscription => {
                "upgrade the operator with its Subscription, or uninstall the operator".to_owned()
            }
        };
        let message = format!("supports OpenShift up to {maximum}; {remedy}{ignored}");
        self.note(operator, Effect::Blocks, &message);
    }

    fn note(&mut self, operator: &InstalledOperator, effect: Effect, message: &str) {
        let name = operator.label();
        let max_len = limits::LINE as usize / 4;
        self.names.entry(effect).or_default().insert(name.clone());
        self.sorted.insert(Concern {
            operator: name,
            effect,
            message: truncate(message, max_len),
        });
    }

    fn counts(&self) -> BTreeMap<Effect, usize> {
        let mut counts = BTreeMap::new();
        for concern in &self.sorted {
            *counts.entry(concern.effect).or_default() += 1;
        }
        counts
    }

    /// Returns the most severe concerns, up to the limit and sorted, and the number of omitted ones.
    fn top_concerns(self) -> (Vec<Concern>, usize) {
        let most = limits::CONCERNS as usize;
        let more = self.sorted.len().saturating_sub(most);
        let mut concerns: Vec<Concern> = self.sorted.into_iter().collect();
        concerns.sort_by_key(|concern| concern.effect); // stable
        concerns.truncate(most);
        concerns.sort();
        (concerns, more)
    }

    /// Returns the most severe reason and its message.
    fn conclusion(&self) -> (&'static str, Message) {
        let names = |effect| self.names.get(&effect);
        let (reason, first) = if let Some(blocking) = names(Effect::Blocks) {
            let names = message::names(blocking);
            let intro = "The following operators will not run on the next OpenShift Version:";
            (reason::INCOMPATIBLE, format!("{intro} {names}"))
        } else if let Some(refusing) = names(Effect::Refuses) {
            let names = message::names(refusing);
            let intro = "The following operators are not upgradeable:";
            (reason::NOT_NOW, format!("{intro} {names}"))
        } else if let Some(unknown) = names(Effect::Unknown) {
            let names = message::names(unknown);
            let intro = "The following operators may not run on the next OpenShift Version:";
            (reason::INDETERMINATE, format!("{intro} {names}"))
        } else if names(Effect::Warns).is_some() {
            (reason::REMOVED_APIS, "Ready for upgrade".to_owned())
        } else {
            (reason::AS_EXPECTED, "Ready for upgrade".to_owned())
        };
        let mut message = Message::new(first, self.differences.text());
        self.write_lines(&mut message);
        (reason, message)
    }

    /// Writes a line for each concern, the blocking ones first and the unknown ones last.
    fn write_lines(&self, message: &mut Message) {
        for effect in [
            Effect::Blocks,
            Effect::Refuses,
            Effect::Overridden,
            Effect::Warns,
            Effect::Unknown,
        ] {
            for concern in self
                .sorted
                .iter()
                .filter(|concern| concern.effect == effect)
            {
                let prefix = match effect {
                    Effect::Refuses => "not upgradeable: ",
                    Effect::Warns => "Warning: ",
                    _ => "",
                };
                message.line(&format!(
                    "- {}: {prefix}{}",
                    concern.operator, concern.message
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;

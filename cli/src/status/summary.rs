//! What there is to say of an instance: a plain function of its status and its Bundles.

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use kube::ResourceExt as _;
use manifests::{
    api::{
        bundle::{Bundle, BundleSource, Phase},
        condition::{self, find, reason},
        instance::{BundleInstance, ready},
        listing,
    },
    object::Identity,
};
use serde::Serialize;

use super::rollout::Rollout;

/// An instance in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) package: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Whether a bundle is in the cluster.
    pub(crate) installed: bool,
    /// `None`: nobody knows.
    pub(crate) healthy: Option<bool>,
    /// In one word: `Ready`, `Reconciling`, `Stalled`, `NotReady`, `Paused` or `Terminating`.
    pub(crate) phase: String,
    /// In one or two words.
    pub(crate) state: String,
    /// The progress of a generation that is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rollout: Option<Rollout>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) install_namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) installed_bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<Problem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) bundles: Vec<Made>,
    /// How many objects there are, whether they are listed or not.
    pub(crate) object_count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) objects: Vec<Member>,
    /// Objects that wait for an API.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting: Vec<String>,
    /// Objects that were left in the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) released: Vec<String>,
}

/// What keeps an instance from being as it should be, in the words of the provisioner, which names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    pub(crate) condition: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// A Bundle of an instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Where it came from, as exactly as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    /// Why it is not unpacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// An object of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Member {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    /// `None`: nobody knows.
    pub(crate) healthy: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

impl Summary {
    /// Says all that is known. `rest` is of the inventory, and not in the status.
    pub(crate) fn of(
        instance: &BundleInstance,
        bundles: &[Bundle],
        rest: Vec<Identity>,
        now: Timestamp,
    ) -> Self {
        let status = instance.status.clone().unwrap_or_default();
        let health = find(&status.conditions, condition::HEALTHY);
        let inventory = status.inventory.unwrap_or_default();
        let objects = members(
            listing::entries(&inventory.kinds)
                .map(|(identity, _)| identity)
                .chain(rest),
            health,
        );
        let count = usize::try_from(inventory.count).unwrap_or_default();
        Self {
            name: instance.name_any(),
            package: status.facts.package,
            version: status.facts.version,
            installed: status.installed_bundle_name.is_some(),
            healthy: truth(health),
            phase: ready::phase(instance, now).to_string(),
            state: state(instance),
            rollout: Rollout::new(instance, now),
            install_namespace: status.install_namespace,
            problem: problem(instance),
            bundles: bundles.iter().map(Made::of).collect(),
            object_count: count.max(objects.len()),
            objects,
            waiting: status.waiting,
            released: status.released,
            installed_bundle: status.installed_bundle_name,
        }
    }
}

impl Made {
    fn of(bundle: &Bundle) -> Self {
        let status = bundle.status.clone().unwrap_or_default();
        let source = status.resolved_source.as_ref();
        let unpacked = find(&status.conditions, condition::UNPACKED);
        Self {
            name: bundle.name_any(),
            phase: phase(status.phase).to_owned(),
            version: status.facts.version,
            source: Some(place(source.unwrap_or(&bundle.spec.source))),
            message: unpacked
                .filter(|it| it.status != "True" && !it.message.is_empty())
                .map(|it| it.message.clone()),
        }
    }
}

fn phase(phase: Option<Phase>) -> &'static str {
    match phase {
        None | Some(Phase::Pending) => "Pending",
        Some(Phase::Unpacking) => "Unpacking",
        Some(Phase::Failing) => "Failing",
        Some(Phase::Unpacked) => "Unpacked",
    }
}

/// Where content comes from, in a line.
fn place(source: &BundleSource) -> String {
    if let Some(image) = &source.image {
        return image.reference.clone();
    }
    if let Some(git) = &source.git {
        let reference = &git.reference;
        let reference = [&reference.commit, &reference.tag, &reference.branch];
        let reference = reference.into_iter().flatten().next();
        let reference = reference.map(|it| format!("#{it}")).unwrap_or_default();
        return format!("git+{}{reference}", git.repository);
    }
    if let Some(http) = &source.http {
        // A query may be a secret.
        let url = http.url.split(['?', '#']).next();
        return url.unwrap_or_default().to_owned();
    }
    source.type_.clone()
}

/// The objects, with what the condition Healthy says of them.
fn members(identities: impl Iterator<Item = Identity>, health: Option<&Condition>) -> Vec<Member> {
    let mut unwell = BTreeMap::new();
    let mut names_all = true;
    for line in health.map_or("", |it| &it.message).lines() {
        match listing::read_unwell(line) {
            Some((identity, message)) => {
                unwell.insert(identity, message.to_owned());
            }
            None => names_all = false,
        }
    }
    let is_judged = match health {
        Some(it) if it.status == "True" => true,
        Some(it) => it.reason == reason::UNHEALTHY && names_all,
        None => false,
    };
    identities
        .map(|identity| match unwell.remove(&identity) {
            Some(message) => Member {
                identity,
                healthy: Some(false),
                message: Some(message),
            },
            None => Member {
                identity,
                healthy: is_judged.then_some(true),
                message: None,
            },
        })
        .collect()
}

fn truth(condition: Option<&Condition>) -> Option<bool> {
    match condition?.status.as_str() {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

/// What goes on.
fn state(instance: &BundleInstance) -> String {
    let Some(status) = &instance.status else {
        return "not looked at".to_owned();
    };
    let progressing = find(&status.conditions, condition::PROGRESSING);
    let installed = find(&status.conditions, condition::INSTALLED);
    let is_behind = status.observed_generation != instance.metadata.generation;
    let words = if instance.metadata.deletion_timestamp.is_some() {
        "being removed"
    } else if is_behind {
        "not looked at"
    } else {
        match progressing.map_or("", |it| it.reason.as_str()) {
            reason::UP_TO_DATE if installed.is_some_and(|it| it.reason == reason::ROLLED_BACK) => {
                "rolled back"
            }
            reason::UP_TO_DATE => "installed",
            reason::APPLYING => "applying",
            reason::UNPACK_PENDING => "unpacking",
            reason::WAITING_FOR_HEALTH => "not ready yet",
            reason::RETRYING => "trying again",
            reason::BLOCKED => "blocked",
            reason::UNPACK_FAILED => "no good bundle",
            reason::UNKNOWN_CLASS => "unknown class",
            reason::FIGHTING => "contested",
            reason::PAUSED => "paused",
            reason::UNINSTALLING => "being removed",
            other => other,
        }
    };
    words.to_owned()
}

/// The problem that has to be solved first.
pub(crate) fn problem(instance: &BundleInstance) -> Option<Problem> {
    let status = instance.status.as_ref()?;
    let of = |condition: &Condition| Problem {
        condition: condition.type_.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    };
    let with = |type_: &str, reasons: &[&str]| {
        find(&status.conditions, type_)
            .filter(|it| reasons.contains(&it.reason.as_str()))
            .map(of)
    };
    if instance.metadata.deletion_timestamp.is_some() {
        return with(
            condition::PROGRESSING,
            &[reason::UNINSTALLING, reason::RETRYING],
        );
    }
    with(
        condition::HAS_VALID_BUNDLE,
        &[
            reason::UNPACK_FAILED,
            reason::UNKNOWN_CLASS,
            reason::RECONCILE_FAILED,
        ],
    )
    .or_else(|| {
        with(
            condition::INSTALLED,
            &[
                reason::INSTALL_FAILED,
                reason::UPGRADE_FAILED,
                reason::RECONCILE_FAILED,
                reason::INSTALLED_BUNDLE_REPLACED,
                reason::ROLLED_BACK,
            ],
        )
    })
    .or_else(|| {
        with(
            condition::PROGRESSING,
            &[reason::RETRYING, reason::FIGHTING, reason::PAUSED],
        )
    })
    .or_else(|| with(condition::STALLED, &[reason::PROGRESS_DEADLINE_EXCEEDED]))
    .or_else(|| with(condition::HAS_VALID_BUNDLE, &[reason::UNPACK_PENDING]))
    .or_else(|| {
        let unknown = find(&status.conditions, condition::HEALTHY)
            .filter(|it| it.status == "Unknown" && status.installed_bundle_name.is_some());
        unknown.map(of)
    })
}

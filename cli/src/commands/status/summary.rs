//! Summary of an instance from its status and its Bundles. Pure; no I/O.

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use kube::ResourceExt as _;
use manifests::{
    api::{
        bundle::{Bundle, BundleSource, Phase},
        bundle_instance::{BundleInstance, ready},
        condition::{self, find, reason},
        inventory_format,
    },
    object::Identity,
};
use serde::Serialize;

use super::rollout::Rollout;

/// Summary of an instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) package: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Whether a bundle is installed.
    pub(crate) installed: bool,
    /// Whether the instance is healthy; `None` if it is unknown.
    pub(crate) healthy: Option<bool>,
    /// Phase of the instance: `Ready`, `Reconciling`, `Stalled`, `NotReady`, `Paused` or `Terminating`.
    pub(crate) phase: String,
    /// State of the instance in one or two words.
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
    pub(crate) bundles: Vec<BundleSummary>,
    /// Number of all objects, including those that are not listed.
    pub(crate) object_count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) objects: Vec<ObjectSummary>,
    /// Objects that are deferred because an API is not served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting: Vec<String>,
    /// Objects that were released and kept in the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) released: Vec<String>,
}

/// Problem of an instance, with the provisioner's message, which contains the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    pub(crate) condition: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// A Bundle of an instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct BundleSummary {
    pub(crate) name: String,
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Source of the Bundle, resolved if possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    /// Reason why the Bundle is not unpacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// An object of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ObjectSummary {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    /// Whether the object is healthy; `None` if it is unknown.
    pub(crate) healthy: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

impl Summary {
    /// Creates a summary. `overflow` are the objects of the inventory that the status does not list.
    pub(crate) fn new(
        instance: &BundleInstance,
        bundles: &[Bundle],
        overflow: Vec<Identity>,
        now: Timestamp,
    ) -> Self {
        let status = instance.status.clone().unwrap_or_default();
        let health = find(&status.conditions, condition::HEALTHY);
        let inventory = status.inventory.unwrap_or_default();
        let objects = object_summaries(
            inventory_format::entries(&inventory.kinds)
                .map(|(identity, _)| identity)
                .chain(overflow),
            health,
        );
        let count = usize::try_from(inventory.count).unwrap_or_default();
        Self {
            name: instance.name_any(),
            package: status.facts.package,
            version: status.facts.version,
            installed: status.installed_bundle_name.is_some(),
            healthy: condition_status(health),
            phase: ready::phase(instance, now).to_string(),
            state: state(instance),
            rollout: Rollout::new(instance, now),
            install_namespace: status.install_namespace,
            problem: problem(instance),
            bundles: bundles.iter().map(BundleSummary::new).collect(),
            object_count: count.max(objects.len()),
            objects,
            waiting: status.waiting,
            released: status.released,
            installed_bundle: status.installed_bundle_name,
        }
    }
}

impl BundleSummary {
    fn new(bundle: &Bundle) -> Self {
        let status = bundle.status.clone().unwrap_or_default();
        let source = status.resolved_source.as_ref();
        let unpacked = find(&status.conditions, condition::UNPACKED);
        Self {
            name: bundle.name_any(),
            phase: phase(status.phase).to_owned(),
            version: status.facts.version,
            source: Some(source_line(source.unwrap_or(&bundle.spec.source))),
            message: unpacked
                .filter(|condition| condition.status != "True" && !condition.message.is_empty())
                .map(|condition| condition.message.clone()),
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

/// Formats the source of a Bundle in one line.
fn source_line(source: &BundleSource) -> String {
    if let Some(image) = &source.image {
        return image.reference.clone();
    }
    if let Some(git) = &source.git {
        let reference = &git.reference;
        let reference = [&reference.commit, &reference.tag, &reference.branch];
        let reference = reference.into_iter().flatten().next();
        let reference = reference
            .map(|reference| format!("#{reference}"))
            .unwrap_or_default();
        return format!("git+{}{reference}", git.repository);
    }
    if let Some(http) = &source.http {
        // A query may contain a secret.
        let url = http.url.split(['?', '#']).next();
        return url.unwrap_or_default().to_owned();
    }
    source.type_.clone()
}

/// Returns the objects with their health from the condition Healthy.
fn object_summaries(
    identities: impl Iterator<Item = Identity>,
    health: Option<&Condition>,
) -> Vec<ObjectSummary> {
    let mut unhealthy = BTreeMap::new();
    let mut names_all = true;
    for line in health.map_or("", |condition| &condition.message).lines() {
        match inventory_format::parse_unhealthy(line) {
            Some((identity, message)) => {
                unhealthy.insert(identity, message.to_owned());
            }
            None => names_all = false,
        }
    }
    let is_evaluated = match health {
        Some(condition) if condition.status == "True" => true,
        Some(condition) => condition.reason == reason::UNHEALTHY && names_all,
        None => false,
    };
    identities
        .map(|identity| match unhealthy.remove(&identity) {
            Some(message) => ObjectSummary {
                identity,
                healthy: Some(false),
                message: Some(message),
            },
            None => ObjectSummary {
                identity,
                healthy: is_evaluated.then_some(true),
                message: None,
            },
        })
        .collect()
}

fn condition_status(condition: Option<&Condition>) -> Option<bool> {
    match condition?.status.as_str() {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

/// Describes the state of an instance.
fn state(instance: &BundleInstance) -> String {
    let Some(status) = &instance.status else {
        return "not reconciled".to_owned();
    };
    let progressing = find(&status.conditions, condition::PROGRESSING);
    let installed = find(&status.conditions, condition::INSTALLED);
    let is_behind = status.observed_generation != instance.metadata.generation;
    let text = if instance.metadata.deletion_timestamp.is_some() {
        "uninstalling"
    } else if is_behind {
        "not reconciled"
    } else {
        match progressing.map_or("", |condition| condition.reason.as_str()) {
            reason::UP_TO_DATE
                if installed.is_some_and(|condition| condition.reason == reason::ROLLED_BACK) =>
            {
                "rolled back"
            }
            reason::UP_TO_DATE => "installed",
            reason::APPLYING => "applying",
            reason::UNPACK_PENDING => "unpacking",
            reason::WAITING_FOR_HEALTH => "not ready yet",
            reason::RETRYING => "retrying",
            reason::BLOCKED => "blocked",
            reason::UNPACK_FAILED => "invalid bundle",
            reason::UNKNOWN_CLASS => "unknown class",
            reason::FIELD_CONFLICT => "contested",
            reason::PAUSED => "paused",
            reason::UNINSTALLING => "uninstalling",
            other => other,
        }
    };
    text.to_owned()
}

/// Returns the problem that must be solved first.
pub(crate) fn problem(instance: &BundleInstance) -> Option<Problem> {
    let status = instance.status.as_ref()?;
    let from_condition = |condition: &Condition| Problem {
        condition: condition.type_.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    };
    let with = |type_: &str, reasons: &[&str]| {
        find(&status.conditions, type_)
            .filter(|condition| reasons.contains(&condition.reason.as_str()))
            .map(from_condition)
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
            &[reason::RETRYING, reason::FIELD_CONFLICT, reason::PAUSED],
        )
    })
    .or_else(|| with(condition::STALLED, &[reason::PROGRESS_DEADLINE_EXCEEDED]))
    .or_else(|| with(condition::HAS_VALID_BUNDLE, &[reason::UNPACK_PENDING]))
    .or_else(|| {
        let unknown = find(&status.conditions, condition::HEALTHY).filter(|condition| {
            condition.status == "Unknown" && status.installed_bundle_name.is_some()
        });
        unknown.map(from_condition)
    })
}

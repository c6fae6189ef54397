//! Upgrades of old objects: objects of APIs that the target no longer serves move to the successor APIs.
//!
//! An upgrade preserves the meaning of an object: it writes defaults that differ explicitly. Where the new API cannot
//! express a restriction, the restriction is relaxed, so that no valid object becomes invalid. Every change is reported,
//! once per rule and object.

mod approval;
mod autoscaler;
mod crd;
mod crd_versions;
mod disruption_budget;
mod endpoint_slice;
mod ingress;
mod json;
mod notes;
mod printer_columns;
mod role_binding;
mod schema;
mod served;
#[cfg(test)]
mod tests;
mod webhook;
mod workload;

use manifests::{path::Path, version::KubeVersion, yaml};
use serde_json::{Map, Value};

pub(crate) use self::served::apis;
pub use self::served::{NotServed, unserved};
use self::{json::text, notes::UpgradeNotes};
use crate::finding::{Level, code::Code};

/// A change by an upgrade, or a problem that prevents it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeNote {
    /// The severity; an error means that the object cannot be upgraded.
    pub level: Level,
    /// The rule that caused the change.
    pub code: Code,
    /// The path in the object before the upgrade.
    pub path: Path,
    /// The change, without the name of the object.
    pub message: String,
    /// The remedy, if any.
    pub remedy: Option<String>,
}

/// Result of an upgrade for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    /// The object is kept, upgraded or unchanged.
    Keep,
    /// The API has no successor, so that the object must be dropped.
    Drop,
}

/// Reports whether [`upgrade`] changes the shape of an object.
pub(crate) fn is_upgraded(object: &Value, target: KubeVersion) -> bool {
    let field = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let reason = unserved(field("apiVersion"), field("kind"), target);
    matches!(reason, Some(NotServed::Removed { .. }))
}

/// Returns the maximum memory that [`upgrade`] adds to an object, in bytes.
///
/// Each mapping may get fields and another mapping: an empty schema gets both. The versions of a CRD get copies of the
/// fields that they share.
pub(crate) fn growth(object: &Value) -> usize {
    const OBJECT: usize = 16 << 10;
    const MAPPING: usize = 2 << 10;
    let added = |value: &Value| mappings(value).saturating_mul(MAPPING);
    let spec = object.get("spec");
    let versions = spec.and_then(|spec| spec.get("versions")?.as_array());
    let copies = versions.map_or(0, |versions| versions.len().saturating_sub(1));
    let shared = |key: &&str| spec.and_then(|spec| spec.get(key));
    let copied: usize = crd::SHARED
        .iter()
        .filter_map(shared)
        .map(|value| yaml::memory(value) + added(value))
        .sum();
    OBJECT + added(object) + copies.saturating_mul(copied)
}

/// Returns the number of mappings in a value.
fn mappings(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(mappings).sum(),
        Value::Object(map) => 1 + map.values().map(mappings).sum::<usize>(),
        _ => 0,
    }
}

/// Upgrades an object to an API that the target serves. An object that the target serves is unchanged.
///
/// ```
/// use convert::api_upgrade::{Disposition, upgrade};
/// use manifests::version::KubeVersion;
/// let mut object = serde_json::json!({
///     "apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "nightly"}
/// });
/// let mut changes = Vec::new();
/// assert_eq!(upgrade(&mut object, KubeVersion::NEWEST, &mut changes), Disposition::Keep);
/// assert_eq!(object["apiVersion"], "batch/v1");
/// assert_eq!(changes.len(), 1);
/// ```
pub fn upgrade(
    object: &mut Value,
    target: KubeVersion,
    changes: &mut Vec<UpgradeNote>,
) -> Disposition {
    let Value::Object(object) = object else {
        return Disposition::Keep;
    };
    let (Some(from), Some(kind)) = (text(object, "apiVersion"), text(object, "kind")) else {
        return Disposition::Keep;
    };
    let (from, kind) = (from.to_owned(), kind.to_owned());
    let mut notes = UpgradeNotes(changes);
    match unserved(&from, &kind, target) {
        None => {
            if from == "apiextensions.k8s.io/v1" && kind == "CustomResourceDefinition" {
                approval::annotate(object, &mut notes);
            }
        }
        Some(NotServed::NotYet { since }) => notes.add(
            Level::Warning,
            Code::UnservedAPI,
            Path::from(["apiVersion"]),
            format!(
                "uses {from}, which Kubernetes {target} does not serve yet (served as of 1.{since})"
            ),
            Some(format!("install on Kubernetes 1.{since} or newer")),
        ),
        Some(NotServed::Removed {
            until,
            successor: Some(to),
        }) => {
            notes.change(
                Code::UpgradedAPI,
                Path::from(["apiVersion"]),
                format!(
                    "moved from {from}, which Kubernetes 1.{until} and later do not serve, to {to}"
                ),
            );
            object.insert("apiVersion".into(), to.into());
            upgrade_shape(object, &from, &kind, &mut notes);
        }
        Some(NotServed::Removed {
            until,
            successor: None,
        }) => return drop_or_reject(&from, &kind, until, &mut notes),
    }
    Disposition::Keep
}

/// Applies changes besides the API version. Most successors have the same shape.
fn upgrade_shape(
    object: &mut Map<String, Value>,
    from: &str,
    kind: &str,
    notes: &mut UpgradeNotes<'_>,
) {
    match (kind, from) {
        ("CustomResourceDefinition", _) => {
            crd::reshape(object, notes);
            approval::annotate(object, notes);
        }
        ("Ingress", _) => ingress::reshape(object, notes),
        ("PodDisruptionBudget", _) => disruption_budget::reshape(object, notes),
        ("Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet", _) => {
            workload::reshape(object, from, kind, notes);
        }
        ("RoleBinding" | "ClusterRoleBinding", "rbac.authorization.k8s.io/v1alpha1") => {
            role_binding::reshape(object, notes);
        }
        ("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration", _) => {
            webhook::reshape(object, notes);
        }
        ("HorizontalPodAutoscaler", "autoscaling/v2beta1") => autoscaler::reshape(object),
        ("EndpointSlice", _) => endpoint_slice::reshape(object),
        // v1beta3 renamed the field, but not its meaning.
        ("PriorityLevelConfiguration", _) => {
            if let Some(limited) = json::object_at(object, &["spec", "limited"]) {
                json::rename(
                    limited,
                    "assuredConcurrencyShares",
                    "nominalConcurrencyShares",
                );
            }
        }
        _ => {}
    }
}

/// Reports an object whose API has no known successor.
fn drop_or_reject(from: &str, kind: &str, until: u64, notes: &mut UpgradeNotes<'_>) -> Disposition {
    let path = Path::from(["apiVersion"]);
    if kind == "PodSecurityPolicy" {
        notes.add(
            Level::Warning,
            Code::DroppedAPI,
            path,
            format!("dropped: Kubernetes 1.{until} and later do not serve {from}, which has no successor"),
            Some("label the namespace with pod-security.kubernetes.io/enforce instead".into()),
        );
        return Disposition::Drop;
    }
    notes.add(
        Level::Warning,
        Code::UnservedAPI,
        path,
        format!("uses {from}, which Kubernetes 1.{until} and later do not serve and which cannot be upgraded"),
        Some("rewrite it for an API that is served, or remove it".into()),
    );
    Disposition::Keep
}

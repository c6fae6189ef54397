//! Old bundles live again: objects in APIs that the target no longer serves move to the APIs that succeeded them.
//!
//! An upgrade keeps the meaning an object had in its old API: defaults that differ are written out, and what the new
//! API cannot express is loosened rather than tightened, so that nothing valid becomes invalid. Whatever changes is
//! told, once per rule and object.

mod approval;
mod autoscaler;
mod binding;
mod columns;
mod crd;
mod disruption;
mod endpoints;
mod ingress;
mod json;
mod notes;
mod schema;
mod served;
#[cfg(test)]
mod tests;
mod versions;
mod webhook;
mod workload;

use manifests::{path::Path, version::KubeVersion};
use serde_json::{Map, Value};

pub(crate) use self::served::apis;
pub use self::served::{Unserved, unserved};
use self::{json::text, notes::Notes};
use crate::{code::Code, report::Level};

/// One thing an upgrade did, or could not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// How much it weighs; an error means that the object cannot be upgraded.
    pub level: Level,
    /// Which rule it comes from.
    pub code: Code,
    /// Where in the object as it was before the upgrade.
    pub path: Path,
    /// What happened to the object, without its name.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Fate {
    /// It stays, upgraded or as it was.
    Keep,
    /// Its API has no successor: it must go.
    Drop,
}

/// Moves an object to an API that the target serves; one that the target serves as it is stays untouched.
///
/// ```
/// use convert::upgrade::{Fate, upgrade};
/// use manifests::version::KubeVersion;
/// let mut object = serde_json::json!({
///     "apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "nightly"}
/// });
/// let mut changes = Vec::new();
/// assert_eq!(upgrade(&mut object, KubeVersion::NEWEST, &mut changes), Fate::Keep);
/// assert_eq!(object["apiVersion"], "batch/v1");
/// assert_eq!(changes.len(), 1);
/// ```
pub fn upgrade(object: &mut Value, target: KubeVersion, changes: &mut Vec<Change>) -> Fate {
    let Value::Object(object) = object else {
        return Fate::Keep;
    };
    let (Some(from), Some(kind)) = (text(object, "apiVersion"), text(object, "kind")) else {
        return Fate::Keep;
    };
    let (from, kind) = (from.to_owned(), kind.to_owned());
    let mut notes = Notes(changes);
    match unserved(&from, &kind, target) {
        None => {
            if from == "apiextensions.k8s.io/v1" && kind == "CustomResourceDefinition" {
                approval::annotate(object, &mut notes);
            }
        }
        Some(Unserved::NotYet { since }) => notes.add(
            Level::Warning,
            Code::UnservedAPI,
            Path::from(["apiVersion"]),
            format!("is in {from}, which Kubernetes serves since 1.{since} and {target} does not"),
            Some(format!("install on Kubernetes 1.{since} or newer")),
        ),
        Some(Unserved::Gone {
            until,
            successor: Some(to),
        }) => {
            notes.change(
                Code::UpgradedAPI,
                Path::from(["apiVersion"]),
                format!(
                    "moved from {from}, which Kubernetes does not serve since 1.{until}, to {to}"
                ),
            );
            object.insert("apiVersion".into(), to.into());
            reshape(object, &from, &kind, &mut notes);
        }
        Some(Unserved::Gone {
            until,
            successor: None,
        }) => return abandon(&from, &kind, until, &mut notes),
    }
    Fate::Keep
}

/// What changes besides the version; most successors have the shape of what they succeeded.
fn reshape(object: &mut Map<String, Value>, from: &str, kind: &str, notes: &mut Notes<'_>) {
    match (kind, from) {
        ("CustomResourceDefinition", _) => {
            crd::reshape(object, notes);
            approval::annotate(object, notes);
        }
        ("Ingress", _) => ingress::reshape(object, notes),
        ("PodDisruptionBudget", _) => disruption::reshape(object, notes),
        ("Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet", _) => {
            workload::reshape(object, from, kind, notes);
        }
        ("RoleBinding" | "ClusterRoleBinding", "rbac.authorization.k8s.io/v1alpha1") => {
            binding::reshape(object, notes);
        }
        ("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration", _) => {
            webhook::reshape(object, notes);
        }
        ("HorizontalPodAutoscaler", "autoscaling/v2beta1") => autoscaler::reshape(object),
        ("EndpointSlice", _) => endpoints::reshape(object),
        // v1beta3 renamed the field without changing what it means.
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

/// What to say of an object whose API is gone without a successor we know.
fn abandon(from: &str, kind: &str, until: u64, notes: &mut Notes<'_>) -> Fate {
    let path = Path::from(["apiVersion"]);
    if kind == "PodSecurityPolicy" {
        notes.add(
            Level::Warning,
            Code::DroppedAPI,
            path,
            format!("dropped: {from} has no successor since Kubernetes 1.{until}"),
            Some("label the namespace with pod-security.kubernetes.io/enforce instead".into()),
        );
        return Fate::Drop;
    }
    notes.add(
        Level::Warning,
        Code::UnservedAPI,
        path,
        format!("is in {from}, which Kubernetes does not serve since 1.{until} and which cannot be upgraded"),
        Some("rewrite it for an API that is served, or remove it".into()),
    );
    Fate::Keep
}

//! Uses of APIs in a bundle that a later Kubernetes version no longer serves.
//!
//! ```text
//! objects ─┬─ of a removed API ──────────────────── Shipped
//!          └─ roles that name its resource ──────── Permitted
//! ```
//!
//! [`api_upgrade::unserved`](crate::api_upgrade::unserved) lists the APIs that were removed. Announced removals are in a table
//! here, copied from Kubernetes' own sources: `APILifecycleRemoved` of each type (k8s.io/api v0.36,
//! `zz_generated.prerelease-lifecycle.go`). Only Kubernetes' own APIs are covered.
//!
//! [`request_counts`] evaluates the requests that a cluster counts. [`kubernetes_of`] returns the Kubernetes version of an OpenShift
//! release.
//!
//! A role does not show which version an operator requests. If another version of the same resource is still served, the
//! operator may use that one. Rules with `*` for groups or resources name no API and are ignored.

mod openshift;
pub mod request_counts;

use std::collections::BTreeSet;

use manifests::{
    object::{Identity, Object, get_path, group_version},
    version::KubeVersion,
};
use serde::Serialize;
use serde_json::Value;

pub use self::openshift::kubernetes_of;
use crate::{
    api_upgrade::{NotServed, apis, unserved},
    permissions::is_role,
};

/// Maximum number of listed uses; real bundles have a handful.
const MAX_USES: usize = 512;
/// Maximum number of examined rule entries. A hostile role has millions.
const MAX_ENTRIES: usize = 1 << 20;

/// An API that is removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedApi {
    /// Group and version of the API.
    pub api_version: &'static str,
    /// Kind of the API.
    pub kind: &'static str,
    /// The first minor version of Kubernetes 1 that does not serve the API.
    pub until: u64,
    /// The API version that serves the same kind afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<&'static str>,
}

/// A use of an API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ApiUse {
    /// An object of the bundle has this API version.
    Shipped(Identity),
    /// A role names the resource of the API.
    Permitted(Identity),
}

/// A use of a removed API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RemovedApiUse {
    /// The removed API.
    #[serde(flatten)]
    pub api: RemovedApi,
    /// The use of the API.
    #[serde(rename = "usedBy")]
    pub by: ApiUse,
}

impl std::fmt::Display for RemovedApiUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RemovedApi {
            api_version,
            kind,
            until,
            instead,
        } = &self.api;
        match (&self.by, instead) {
            (ApiUse::Shipped(object), Some(instead)) => write!(
                f,
                "{object} uses {api_version}, which Kubernetes 1.{until} does not serve; from that version on, the object is \
                 applied as {instead}"
            ),
            (ApiUse::Shipped(object), None) => write!(
                f,
                "{object} uses {api_version}, which Kubernetes 1.{until} does not serve and which has no replacement: the \
                 object is removed in that version"
            ),
            (ApiUse::Permitted(role), Some(instead)) => write!(
                f,
                "{role} refers to the resource of {kind}, and Kubernetes 1.{until} does not serve {api_version}: make \
                 sure that the operator uses {instead}"
            ),
            (ApiUse::Permitted(role), None) => write!(
                f,
                "{role} refers to the resource of {kind}, which Kubernetes 1.{until} no longer serves"
            ),
        }
    }
}

/// All uses of removed APIs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RemovedApiUses {
    /// The uses, sorted, each once.
    pub found: Vec<RemovedApiUse>,
    /// Whether more uses exist than are listed.
    #[serde(rename = "incomplete", skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
}

/// Returns the uses of APIs that one Kubernetes version serves and a later one does not.
///
/// ```
/// use convert::removed_apis::between;
/// use manifests::{object::Object, version::KubeVersion};
/// use serde_json::json;
/// let object = Object::try_from(json!({"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "a"}})).unwrap();
/// let removals = between([&object], KubeVersion::new(1, 24), KubeVersion::new(1, 25));
/// assert_eq!(removals.found[0].api.instead, Some("batch/v1"));
/// ```
pub fn between<'a>(
    objects: impl IntoIterator<Item = &'a Object>,
    from: KubeVersion,
    to: KubeVersion,
) -> RemovedApiUses {
    let mut search = UsageScan::new(from, to);
    for object in objects {
        search.object(object);
        if search.is_full() {
            break;
        }
    }
    search.finish()
}

/// Returns the uses of APIs that each later minor version of Kubernetes no longer serves, as far as removals are announced.
/// Minor versions without a known or possible use are omitted.
pub fn later(objects: &[Object], running: KubeVersion) -> Vec<(KubeVersion, RemovedApiUses)> {
    let announced = ANNOUNCED.iter().map(|announced| announced.removed_in);
    let last = announced.chain([KubeVersion::NEWEST.minor]).max();
    let minors = running.minor..last.unwrap_or_default();
    let removals = minors.map(|minor| {
        let from = KubeVersion::new(running.major, minor);
        (from.next(), between(objects, from, from.next()))
    });
    removals
        .filter(|(_, removals)| !removals.found.is_empty() || removals.is_incomplete)
        .collect()
}

/// Scan of objects for uses of removed APIs.
#[derive(Debug)]
pub struct UsageScan {
    removed: Vec<RemovedApi>,
    found: BTreeSet<RemovedApiUse>,
    remaining: usize,
    is_incomplete: bool,
}

impl UsageScan {
    /// Creates a scan for APIs that one Kubernetes version serves and a later one does not.
    pub fn new(from: KubeVersion, to: KubeVersion) -> Self {
        Self {
            removed: removed_between(from, to),
            found: BTreeSet::new(),
            remaining: MAX_ENTRIES,
            is_incomplete: false,
        }
    }

    /// Reports whether the scan has nothing to find, because no API is removed.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty()
    }

    /// Scans an object; for a role, also its rules.
    pub fn object(&mut self, object: &Object) {
        self.listed(object.api_version(), || object.identity(), object.kind());
        if is_role(object) {
            let rules = get_path(object.value(), &["rules"]);
            self.rules(rules.unwrap_or(&Value::Null), || object.identity());
        }
    }

    /// Scans a list of RBAC rules; `identity` returns their owner.
    pub fn rules(&mut self, rules: &Value, identity: impl Fn() -> Identity) {
        let Self {
            removed,
            found,
            remaining,
            ..
        } = self;
        let is_whole = permitted(rules, identity, removed, remaining, found).is_some();
        self.is_incomplete |= !is_whole;
    }

    /// Scans an object of which only its identity and its API are known.
    pub fn listed(&mut self, api_version: &str, identity: impl FnOnce() -> Identity, kind: &str) {
        if self.is_full() {
            self.is_incomplete = true;
            return;
        }
        let shipped = self
            .removed
            .iter()
            .find(|api| api.api_version == api_version && api.kind == kind);
        if let Some(api) = shipped {
            self.found.insert(RemovedApiUse {
                api: api.clone(),
                by: ApiUse::Shipped(identity()),
            });
        }
    }

    /// Reports whether the scan found more uses than can be listed.
    pub fn is_full(&self) -> bool {
        self.found.len() > MAX_USES
    }

    /// Returns the uses.
    pub fn finish(self) -> RemovedApiUses {
        RemovedApiUses {
            is_incomplete: self.is_incomplete || self.is_full(),
            found: self.found.into_iter().take(MAX_USES).collect(),
        }
    }
}

/// Returns all APIs that one version serves and a later one does not.
fn removed_between(from: KubeVersion, to: KubeVersion) -> Vec<RemovedApi> {
    let removed = apis().filter_map(|(api_version, kind)| {
        let until = match unserved(api_version, kind, to)? {
            NotServed::Removed { until, .. } if unserved(api_version, kind, from).is_none() => {
                until
            }
            _ => return None,
        };
        Some((api_version, kind, until))
    });
    let announced_removals = ANNOUNCED
        .iter()
        .filter(|announced| {
            to.major == 1 && (from.minor < announced.removed_in && announced.removed_in <= to.minor)
        })
        .flat_map(|announced| {
            let kinds = announced.kinds.iter();
            kinds.map(|kind| (announced.api_version, *kind, announced.removed_in))
        });
    removed
        .chain(announced_removals)
        .map(|(api_version, kind, until)| RemovedApi {
            api_version,
            kind,
            until,
            instead: replacement(api_version, kind, to),
        })
        .collect()
}

/// Returns the newest API version that serves the same kind: one of the same group, or of the group to which the kind
/// moved.
fn replacement(api_version: &str, kind: &str, to: KubeVersion) -> Option<&'static str> {
    if let Some(NotServed::Removed {
        successor: Some(successor),
        ..
    }) = unserved(api_version, kind, to)
    {
        return Some(successor);
    }
    let (group, _) = group_version(api_version);
    let is_served = |(api, candidate): &(&str, &str)| {
        let is_announced = ANNOUNCED.iter().any(|announced| {
            announced.api_version == *api
                && announced.kinds.contains(candidate)
                && announced.removed_in <= to.minor
        });
        group_version(api).0 == group
            && *candidate == kind
            && !is_announced
            && unserved(api, candidate, to).is_none()
    };
    // The table lists older versions first.
    apis().filter(is_served).last().map(|(api, _)| api)
}

/// APIs whose removal is announced.
struct Deprecation {
    api_version: &'static str,
    kinds: &'static [&'static str],
    removed_in: u64,
}

const ANNOUNCED: &[Deprecation] = &[
    Deprecation {
        api_version: "networking.k8s.io/v1beta1",
        kinds: &["IPAddress", "ServiceCIDR"],
        removed_in: 37,
    },
    Deprecation {
        api_version: "storage.k8s.io/v1beta1",
        kinds: &["VolumeAttributesClass"],
        removed_in: 37,
    },
    Deprecation {
        api_version: "certificates.k8s.io/v1alpha1",
        kinds: &["ClusterTrustBundle"],
        removed_in: 37,
    },
    Deprecation {
        api_version: "admissionregistration.k8s.io/v1alpha1",
        kinds: &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
        removed_in: 38,
    },
    Deprecation {
        api_version: "coordination.k8s.io/v1alpha2",
        kinds: &["LeaseCandidate"],
        removed_in: 38,
    },
    Deprecation {
        api_version: "resource.k8s.io/v1beta1",
        kinds: &[
            "DeviceClass",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourceSlice",
        ],
        removed_in: 38,
    },
    Deprecation {
        api_version: "resource.k8s.io/v1beta2",
        kinds: &[
            "DeviceClass",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourceSlice",
        ],
        removed_in: 39,
    },
    Deprecation {
        api_version: "coordination.k8s.io/v1beta1",
        kinds: &["LeaseCandidate"],
        removed_in: 39,
    },
    Deprecation {
        api_version: "admissionregistration.k8s.io/v1beta1",
        kinds: &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
        removed_in: 40,
    },
];

/// Adds the rules that name a resource of a removed API. Returns `None` if the rules exceed the budget.
fn permitted(
    rules: &Value,
    identity: impl Fn() -> Identity,
    removed: &[RemovedApi],
    remaining: &mut usize,
    found: &mut BTreeSet<RemovedApiUse>,
) -> Option<()> {
    let mut named = BTreeSet::new();
    let is_complete = collect_named_apis(rules, removed, remaining, &mut named);
    // The identity may be long, so it is copied once for each API, not for each rule.
    found.extend(named.into_iter().map(|api| RemovedApiUse {
        api: api.clone(),
        by: ApiUse::Permitted(identity()),
    }));
    is_complete
}

/// Collects the removed APIs whose resources the rules name. Returns `None` if the rules exceed the budget.
fn collect_named_apis<'a>(
    rules: &Value,
    removed: &'a [RemovedApi],
    remaining: &mut usize,
    named: &mut BTreeSet<&'a RemovedApi>,
) -> Option<()> {
    for rule in rules.as_array().into_iter().flatten() {
        let values = |field: &str| {
            let list = rule.get(field).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_str)
        };
        let (groups, resources) = (values("apiGroups").count(), values("resources").count());
        *remaining = remaining.checked_sub(1 + groups + resources)?;
        // Indexed by name, because a rule names few APIs, but many are removed.
        let groups: BTreeSet<&str> = values("apiGroups").collect();
        let resources: BTreeSet<&str> = values("resources")
            .map(|resource| {
                resource
                    .split_once('/')
                    .map_or(resource, |(whole, _)| whole)
            })
            .collect();
        for api in removed {
            let (group, _) = group_version(api.api_version);
            if groups.contains(group) && resources.contains(plural(api.kind).as_str()) {
                named.insert(api);
            }
        }
    }
    Some(())
}

/// Returns the resource of one of Kubernetes' own kinds.
fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    if let Some(stem) = kind.strip_suffix('y') {
        format!("{stem}ies")
    } else if kind.ends_with('s') {
        format!("{kind}es")
    } else {
        format!("{kind}s")
    }
}

#[cfg(test)]
mod tests;

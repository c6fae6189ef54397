//! What of a bundle uses APIs that a newer Kubernetes no longer serves.
//!
//! ```text
//! objects ─┬─ in an API that goes ───────────────── Shipped
//!          └─ roles that name a resource of it ──── Permitted
//! ```
//!
//! What went by now is told by [`upgrade::unserved`](crate::upgrade::unserved). What will go is announced in Kubernetes'
//! own sources, as `APILifecycleRemoved` of each type (k8s.io/api v0.36, `zz_generated.prerelease-lifecycle.go`), and stands
//! in a table here. APIs that are not Kubernetes' own are not known.
//!
//! What was seen of requests, where a cluster counts them, is in [`calls`]; which Kubernetes a release of OpenShift has, in
//! [`kubernetes_of`].
//!
//! A role does not tell which version an operator asks for. If another version of the same resource is still served, that
//! one may be meant. Rules with `*` for groups or resources name nothing and are left out.

pub mod calls;
mod release;

use std::collections::BTreeSet;

use manifests::{
    object::{Identity, Object, at, group_version},
    version::KubeVersion,
};
use serde::Serialize;
use serde_json::Value;

pub use self::release::kubernetes_of;
use crate::upgrade::{Unserved, apis, unserved};

/// How many uses are listed; real bundles have a handful.
const MOST: usize = 512;
/// How many entries of rules are looked at. A hostile role has millions.
const MOST_ENTRIES: usize = 1 << 20;

/// An API that goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gone {
    /// Group and version.
    pub api_version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// The first minor release of Kubernetes 1 that does not serve it.
    pub until: u64,
    /// The same kind in an API that is served then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<&'static str>,
}

/// How an API is used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Use {
    /// An object of the bundle is written in it.
    Shipped(Identity),
    /// A role names its resource.
    Permitted(Identity),
}

/// A use of an API that goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Removal {
    /// Which API.
    #[serde(flatten)]
    pub gone: Gone,
    /// Where it is used.
    #[serde(rename = "usedBy")]
    pub by: Use,
}

impl std::fmt::Display for Removal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Gone {
            api_version,
            kind,
            until,
            instead,
        } = &self.gone;
        match (&self.by, instead) {
            (Use::Shipped(object), Some(instead)) => write!(
                f,
                "{object} is in {api_version}, which Kubernetes 1.{until} does not serve; it is applied in {instead} then"
            ),
            (Use::Shipped(object), None) => write!(
                f,
                "{object} is in {api_version}, which Kubernetes 1.{until} does not serve, and nothing takes its place: it is \
                 gone then"
            ),
            (Use::Permitted(role), Some(instead)) => write!(
                f,
                "{role} names the resource of {kind}, of which Kubernetes 1.{until} does not serve {api_version} any more: \
                 make sure that the operator uses {instead}"
            ),
            (Use::Permitted(role), None) => write!(
                f,
                "{role} names the resource of {kind}, which Kubernetes 1.{until} does not serve any more"
            ),
        }
    }
}

/// All uses that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Removals {
    /// Sorted, each once.
    pub found: Vec<Removal>,
    /// Whether there is more, too much to list.
    #[serde(rename = "incomplete", skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
}

/// What objects use that is served by one release and not by a later one.
///
/// ```
/// use convert::removal::between;
/// use manifests::{object::Object, version::KubeVersion};
/// use serde_json::json;
/// let object = Object::try_from(json!({"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "a"}})).unwrap();
/// let removals = between([&object], KubeVersion::new(1, 24), KubeVersion::new(1, 25));
/// assert_eq!(removals.found[0].gone.instead, Some("batch/v1"));
/// ```
pub fn between<'a>(
    objects: impl IntoIterator<Item = &'a Object>,
    from: KubeVersion,
    to: KubeVersion,
) -> Removals {
    let mut search = Search::new(from, to);
    for object in objects {
        search.object(object);
        if search.is_full() {
            break;
        }
    }
    search.end()
}

/// Returns the uses of APIs that each later minor version of Kubernetes no longer serves, as far as removals are announced.
/// Minor versions without a known or possible use are left out.
pub fn later(objects: &[Object], running: KubeVersion) -> Vec<(KubeVersion, Removals)> {
    let announced = ANNOUNCED.iter().map(|announced| announced.until);
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

/// A search for uses, object by object.
#[derive(Debug)]
pub struct Search {
    gone: Vec<Gone>,
    found: BTreeSet<Removal>,
    left: usize,
    is_incomplete: bool,
}

impl Search {
    /// For what one release serves and a later one does not.
    pub fn new(from: KubeVersion, to: KubeVersion) -> Self {
        Self {
            gone: gone(from, to),
            found: BTreeSet::new(),
            left: MOST_ENTRIES,
            is_incomplete: false,
        }
    }

    /// Whether there is nothing to be found: all that is served stays.
    pub fn is_idle(&self) -> bool {
        self.gone.is_empty()
    }

    /// Looks at an object, and if it is a role, at what it permits.
    pub fn object(&mut self, object: &Object) {
        self.listed(object.api_version(), || object.identity(), object.kind());
        if is_role(object.group(), object.kind()) {
            let rules = at(object.value(), &["rules"]);
            self.rules(rules.unwrap_or(&Value::Null), || object.identity());
        }
    }

    /// Looks at a list of RBAC rules; `identity` is whose they are.
    pub fn rules(&mut self, rules: &Value, identity: impl Fn() -> Identity) {
        let Self {
            gone, found, left, ..
        } = self;
        let is_whole = permitted(rules, identity, gone, left, found).is_some();
        self.is_incomplete |= !is_whole;
    }

    /// Looks at an object of which no more is known than what it is called and the API that it was applied in.
    pub fn listed(&mut self, api_version: &str, identity: impl FnOnce() -> Identity, kind: &str) {
        if self.is_full() {
            self.is_incomplete = true;
            return;
        }
        let shipped = self
            .gone
            .iter()
            .find(|gone| gone.api_version == api_version && gone.kind == kind);
        if let Some(gone) = shipped {
            self.found.insert(Removal {
                gone: gone.clone(),
                by: Use::Shipped(identity()),
            });
        }
    }

    /// Something could not be looked at.
    pub fn miss(&mut self) {
        self.is_incomplete = true;
    }

    /// Whether there is more than can be listed.
    pub fn is_full(&self) -> bool {
        self.found.len() > MOST
    }

    /// What was found.
    pub fn end(self) -> Removals {
        Removals {
            is_incomplete: self.is_incomplete || self.is_full(),
            found: self.found.into_iter().take(MOST).collect(),
        }
    }
}

/// Whether a kind grants rights, so that a search has to see the object as a whole.
pub fn is_role(group: &str, kind: &str) -> bool {
    group == "rbac.authorization.k8s.io" && matches!(kind, "Role" | "ClusterRole")
}

/// Whether an API that one release serves is gone in a later one.
pub fn of_api(api_version: &str, kind: &str, from: KubeVersion, to: KubeVersion) -> Option<Gone> {
    gone(from, to)
        .into_iter()
        .find(|gone| gone.api_version == api_version && gone.kind == kind)
}

/// All APIs that one release serves and a later one does not.
fn gone(from: KubeVersion, to: KubeVersion) -> Vec<Gone> {
    let went = apis().filter_map(|(api_version, kind)| {
        let until = match unserved(api_version, kind, to)? {
            Unserved::Gone { until, .. } if unserved(api_version, kind, from).is_none() => until,
            _ => return None,
        };
        Some((api_version, kind, until))
    });
    let goes = ANNOUNCED
        .iter()
        .filter(|announced| {
            to.major == 1 && (from.minor < announced.until && announced.until <= to.minor)
        })
        .flat_map(|announced| {
            let kinds = announced.kinds.iter();
            kinds.map(|kind| (announced.api_version, *kind, announced.until))
        });
    went.chain(goes)
        .map(|(api_version, kind, until)| Gone {
            api_version,
            kind,
            until,
            instead: instead(api_version, kind, to),
        })
        .collect()
}

/// The newest API that serves the same kind: one of the same group, or one that the group's kinds have moved to.
fn instead(api_version: &str, kind: &str, to: KubeVersion) -> Option<&'static str> {
    if let Some(Unserved::Gone {
        successor: Some(successor),
        ..
    }) = unserved(api_version, kind, to)
    {
        return Some(successor);
    }
    let (group, _) = group_version(api_version);
    let is_served = |(api, its): &(&str, &str)| {
        let is_announced = ANNOUNCED.iter().any(|announced| {
            announced.api_version == *api
                && announced.kinds.contains(its)
                && announced.until <= to.minor
        });
        group_version(api).0 == group
            && *its == kind
            && !is_announced
            && unserved(api, its, to).is_none()
    };
    // The table lists older versions first.
    apis().filter(is_served).last().map(|(api, _)| api)
}

/// APIs whose end is announced.
struct Announced {
    api_version: &'static str,
    kinds: &'static [&'static str],
    until: u64,
}

const ANNOUNCED: &[Announced] = &[
    Announced {
        api_version: "networking.k8s.io/v1beta1",
        kinds: &["IPAddress", "ServiceCIDR"],
        until: 37,
    },
    Announced {
        api_version: "storage.k8s.io/v1beta1",
        kinds: &["VolumeAttributesClass"],
        until: 37,
    },
    Announced {
        api_version: "certificates.k8s.io/v1alpha1",
        kinds: &["ClusterTrustBundle"],
        until: 37,
    },
    Announced {
        api_version: "admissionregistration.k8s.io/v1alpha1",
        kinds: &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
        until: 38,
    },
    Announced {
        api_version: "coordination.k8s.io/v1alpha2",
        kinds: &["LeaseCandidate"],
        until: 38,
    },
    Announced {
        api_version: "resource.k8s.io/v1beta1",
        kinds: &[
            "DeviceClass",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourceSlice",
        ],
        until: 38,
    },
    Announced {
        api_version: "resource.k8s.io/v1beta2",
        kinds: &[
            "DeviceClass",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourceSlice",
        ],
        until: 39,
    },
    Announced {
        api_version: "coordination.k8s.io/v1beta1",
        kinds: &["LeaseCandidate"],
        until: 39,
    },
    Announced {
        api_version: "admissionregistration.k8s.io/v1beta1",
        kinds: &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
        until: 40,
    },
];

/// Rules that name a resource of an API that goes; nothing when they are too many to look at.
fn permitted(
    rules: &Value,
    identity: impl Fn() -> Identity,
    gone: &[Gone],
    left: &mut usize,
    found: &mut BTreeSet<Removal>,
) -> Option<()> {
    for rule in rules.as_array().into_iter().flatten() {
        let words = |field: &str| {
            let list = rule.get(field).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_str)
        };
        let (groups, resources) = (words("apiGroups").count(), words("resources").count());
        *left = left.checked_sub(1 + groups + resources)?;
        // Looked up by what is named, for a rule names little and there is much that goes.
        let groups: BTreeSet<&str> = words("apiGroups").collect();
        let resources: BTreeSet<&str> = words("resources")
            .map(|resource| {
                resource
                    .split_once('/')
                    .map_or(resource, |(whole, _)| whole)
            })
            .collect();
        for gone in gone {
            let (group, _) = group_version(gone.api_version);
            if groups.contains(group) && resources.contains(plural(gone.kind).as_str()) {
                found.insert(Removal {
                    gone: gone.clone(),
                    by: Use::Permitted(identity()),
                });
            }
        }
    }
    Some(())
}

/// The resource of one of Kubernetes' own kinds.
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

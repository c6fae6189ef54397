//! Kubernetes' own APIs by the versions that serve them, with their successors.

use manifests::version::KubeVersion;

/// Reason why a Kubernetes version does not serve an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotServed {
    /// The API was added in a later version.
    NotYet {
        /// The first minor version that serves the API.
        since: u64,
    },
    /// The API was removed in this or an earlier version.
    Removed {
        /// The first minor version that no longer serves the API.
        until: u64,
        /// The successor API, if the version serves it.
        successor: Option<&'static str>,
    },
}

/// Returns the reason why the target does not serve a kind; `None` for served kinds, and for kinds that are not Kubernetes'
/// own.
///
/// ```
/// use convert::api_upgrade::{NotServed, unserved};
/// use manifests::version::KubeVersion;
/// let removed = unserved("batch/v1beta1", "CronJob", KubeVersion::new(1, 25));
/// assert_eq!(removed, Some(NotServed::Removed { until: 25, successor: Some("batch/v1") }));
/// assert_eq!(unserved("batch/v1beta1", "CronJob", KubeVersion::new(1, 24)), None);
/// ```
pub fn unserved(api_version: &str, kind: &str, target: KubeVersion) -> Option<NotServed> {
    let minor = minor(target);
    let api = find(api_version, kind)?;
    if minor < api.since {
        return Some(NotServed::NotYet { since: api.since });
    }
    let until = api.until.filter(|until| minor >= *until)?;
    Some(NotServed::Removed {
        until,
        successor: successor(api, kind, minor),
    })
}

/// Returns all known API versions and kinds, older versions of a kind first.
pub(crate) fn apis() -> impl Iterator<Item = (&'static str, &'static str)> {
    APIS.iter()
        .flat_map(|api| api.kinds.iter().map(|kind| (api.version, *kind)))
}

/// Returns the next successor API that a version serves, because a successor may also be removed.
fn successor(removed: &Api, kind: &str, minor: u64) -> Option<&'static str> {
    let next = find(removed.successor?, kind)?;
    match next.until {
        Some(until) if minor >= until => successor(next, kind, minor),
        _ => Some(next.version).filter(|_| minor >= next.since),
    }
}

/// Converts a version to a minor version of Kubernetes 1, as in the table. Any later major version serves the same APIs as
/// the newest minor version.
fn minor(target: KubeVersion) -> u64 {
    match target.major {
        0 => 0,
        1 => target.minor,
        _ => u64::MAX,
    }
}

fn find(api_version: &str, kind: &str) -> Option<&'static Api> {
    APIS.iter()
        .find(|api| api.version == api_version && api.kinds.contains(&kind))
}

/// Kinds of one API version that were added and removed together.
struct Api {
    version: &'static str,
    kinds: &'static [&'static str],
    since: u64,
    until: Option<u64>,
    successor: Option<&'static str>,
}

const RBAC: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
const WEBHOOKS: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];
const ADMISSION: [&str; 2] = [
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];
const MUTATION: [&str; 2] = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];
const FLOW: [&str; 2] = ["FlowSchema", "PriorityLevelConfiguration"];
const DEVICES: [&str; 4] = [
    "DeviceClass",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
];

macro_rules! apis {
    ($($version:literal, $kinds:expr, $since:literal..$($until:literal)? $(=> $next:literal)?;)*) => {
        &[$(Api {
            version: $version,
            kinds: &$kinds,
            since: $since,
            until: apis!(@ $($until)?),
            successor: apis!(@ $($next)?),
        }),*]
    };
    (@ $value:literal) => { Some($value) };
    (@) => { None };
}

/// The minor versions of Kubernetes 1 in which its own APIs were added and removed, and their successors if the upgrade is
/// supported.
///
/// APIs that were added before 1.2 and never removed are not listed.
static APIS: &[Api] = apis! {
    "extensions/v1beta1", ["Ingress"], 1..22 => "networking.k8s.io/v1";
    "extensions/v1beta1", ["Deployment", "DaemonSet", "ReplicaSet"], 1..16 => "apps/v1";
    "extensions/v1beta1", ["NetworkPolicy"], 3..16 => "networking.k8s.io/v1";
    "extensions/v1beta1", ["PodSecurityPolicy"], 3..16 => "policy/v1beta1";
    "apps/v1beta1", ["StatefulSet"], 5..16 => "apps/v1";
    "apps/v1beta1", ["Deployment"], 6..16 => "apps/v1";
    "apps/v1beta1", ["ControllerRevision"], 7..16 => "apps/v1";
    "apps/v1beta2", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ControllerRevision"], 8..16 => "apps/v1";
    "apps/v1", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ControllerRevision"], 9..;
    "networking.k8s.io/v1beta1", ["Ingress"], 14..22 => "networking.k8s.io/v1";
    "networking.k8s.io/v1beta1", ["IngressClass"], 18..22 => "networking.k8s.io/v1";
    "networking.k8s.io/v1", ["NetworkPolicy"], 7..;
    "networking.k8s.io/v1", ["Ingress", "IngressClass"], 19..;
    "networking.k8s.io/v1beta1", ["IPAddress", "ServiceCIDR"], 31..;
    "networking.k8s.io/v1", ["IPAddress", "ServiceCIDR"], 33..;
    "policy/v1beta1", ["PodDisruptionBudget"], 5..25 => "policy/v1";
    "policy/v1", ["PodDisruptionBudget"], 21..;
    "policy/v1beta1", ["PodSecurityPolicy"], 10..25;
    "rbac.authorization.k8s.io/v1alpha1", RBAC, 5..23 => "rbac.authorization.k8s.io/v1";
    "rbac.authorization.k8s.io/v1beta1", RBAC, 6..22 => "rbac.authorization.k8s.io/v1";
    "rbac.authorization.k8s.io/v1", RBAC, 8..;
    "scheduling.k8s.io/v1alpha1", ["PriorityClass"], 8..23 => "scheduling.k8s.io/v1";
    "scheduling.k8s.io/v1beta1", ["PriorityClass"], 11..22 => "scheduling.k8s.io/v1";
    "scheduling.k8s.io/v1", ["PriorityClass"], 14..;
    "batch/v2alpha1", ["CronJob"], 4..21 => "batch/v1";
    "batch/v1beta1", ["CronJob"], 8..25 => "batch/v1";
    "batch/v1", ["CronJob"], 21..;
    "batch/v1", ["Job"], 2..;
    "apiextensions.k8s.io/v1beta1", ["CustomResourceDefinition"], 7..22 => "apiextensions.k8s.io/v1";
    "apiextensions.k8s.io/v1", ["CustomResourceDefinition"], 16..;
    "apiregistration.k8s.io/v1beta1", ["APIService"], 7..22 => "apiregistration.k8s.io/v1";
    "apiregistration.k8s.io/v1", ["APIService"], 10..;
    "admissionregistration.k8s.io/v1beta1", WEBHOOKS, 9..22 => "admissionregistration.k8s.io/v1";
    "admissionregistration.k8s.io/v1", WEBHOOKS, 16..;
    "admissionregistration.k8s.io/v1beta1", ADMISSION, 28..34 => "admissionregistration.k8s.io/v1";
    "admissionregistration.k8s.io/v1", ADMISSION, 30..;
    "admissionregistration.k8s.io/v1beta1", MUTATION, 34..;
    "admissionregistration.k8s.io/v1", MUTATION, 36..;
    "storage.k8s.io/v1beta1", ["StorageClass"], 4..22 => "storage.k8s.io/v1";
    "storage.k8s.io/v1beta1", ["VolumeAttachment"], 10..22 => "storage.k8s.io/v1";
    "storage.k8s.io/v1beta1", ["CSIDriver", "CSINode"], 14..22 => "storage.k8s.io/v1";
    "storage.k8s.io/v1beta1", ["CSIStorageCapacity"], 21..27 => "storage.k8s.io/v1";
    "storage.k8s.io/v1beta1", ["VolumeAttributesClass"], 31..;
    "storage.k8s.io/v1", ["StorageClass"], 6..;
    "storage.k8s.io/v1", ["VolumeAttachment"], 13..;
    "storage.k8s.io/v1", ["CSINode"], 17..;
    "storage.k8s.io/v1", ["CSIDriver"], 18..;
    "storage.k8s.io/v1", ["CSIStorageCapacity"], 24..;
    "storage.k8s.io/v1", ["VolumeAttributesClass"], 34..;
    "coordination.k8s.io/v1beta1", ["Lease"], 12..22 => "coordination.k8s.io/v1";
    "coordination.k8s.io/v1", ["Lease"], 14..;
    "autoscaling/v2beta1", ["HorizontalPodAutoscaler"], 8..25 => "autoscaling/v2";
    "autoscaling/v2beta2", ["HorizontalPodAutoscaler"], 12..26 => "autoscaling/v2";
    "autoscaling/v2", ["HorizontalPodAutoscaler"], 23..;
    "autoscaling/v1", ["HorizontalPodAutoscaler"], 2..;
    "discovery.k8s.io/v1beta1", ["EndpointSlice"], 16..25 => "discovery.k8s.io/v1";
    "discovery.k8s.io/v1", ["EndpointSlice"], 21..;
    "node.k8s.io/v1beta1", ["RuntimeClass"], 13..25 => "node.k8s.io/v1";
    "node.k8s.io/v1", ["RuntimeClass"], 20..;
    "events.k8s.io/v1beta1", ["Event"], 8..25;
    "events.k8s.io/v1", ["Event"], 19..;
    "certificates.k8s.io/v1beta1", ["CertificateSigningRequest"], 12..22;
    "certificates.k8s.io/v1", ["CertificateSigningRequest"], 19..;
    "flowcontrol.apiserver.k8s.io/v1beta1", FLOW, 20..26 => "flowcontrol.apiserver.k8s.io/v1beta3";
    "flowcontrol.apiserver.k8s.io/v1beta2", FLOW, 23..29 => "flowcontrol.apiserver.k8s.io/v1";
    "flowcontrol.apiserver.k8s.io/v1beta3", FLOW, 26..32 => "flowcontrol.apiserver.k8s.io/v1";
    "flowcontrol.apiserver.k8s.io/v1", FLOW, 29..;
    "resource.k8s.io/v1beta1", DEVICES, 32..;
    "resource.k8s.io/v1beta2", DEVICES, 33..;
    "resource.k8s.io/v1", DEVICES, 34..;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_lead_to_apis_of_the_newest_release() {
        let mut listed = std::collections::BTreeSet::new();
        for (api, kind) in APIS
            .iter()
            .flat_map(|api| api.kinds.iter().map(move |kind| (api, kind)))
        {
            let (name, until) = (format!("{} {kind}", api.version), api.until);
            assert!(listed.insert(name.clone()), "{name} is listed twice");
            assert!(until.is_none_or(|until| until > api.since), "{name}");
            let Some(successor) = api.successor else {
                continue;
            };
            let next = find(successor, kind);
            assert_rows!(until.is_none_or(|until| next.is_some_and(|next| next.since <= until)) => true, "{name}: {successor}");
            if *kind != "PodSecurityPolicy" {
                let Some(NotServed::Removed { successor, .. }) =
                    unserved(api.version, kind, KubeVersion::NEWEST)
                else {
                    panic!("{name} is still served");
                };
                assert_rows!(successor.map(|successor| unserved(successor, kind, KubeVersion::NEWEST)) => Some(None), "{name}");
            }
        }
    }

    #[test]
    fn releases_serve_their_apis() {
        let removed = |until, successor| Some(NotServed::Removed { until, successor });
        assert_each!(|api, kind, target, expected| unserved(api, kind, KubeVersion::new(target.0, target.1)) => expected;
            "policy/v1beta1", "PodDisruptionBudget", (1, 20) => None;
            "policy/v1beta1", "PodDisruptionBudget", (1, 24) => None;
            "policy/v1beta1", "PodDisruptionBudget", (1, 25) => removed(25, Some("policy/v1"));
            "policy/v1", "PodDisruptionBudget", (1, 20) => Some(NotServed::NotYet { since: 21 });
            "policy/v1beta1", "PodSecurityPolicy", (1, 25) => removed(25, None);
            "extensions/v1beta1", "PodSecurityPolicy", (1, 16) => removed(16, Some("policy/v1beta1"));
            "extensions/v1beta1", "PodSecurityPolicy", (1, 36) => removed(16, None);
            "flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema", (1, 28)
                => removed(26, Some("flowcontrol.apiserver.k8s.io/v1beta3"));
            "flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema", (1, 36) => removed(26, Some("flowcontrol.apiserver.k8s.io/v1"));
            "apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", (1, 21) => None;
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", (1, 15) => Some(NotServed::NotYet { since: 16 });
            "apps/v1", "Deployment", (0, 99) => Some(NotServed::NotYet { since: 9 });
            "batch/v1beta1", "CronJob", (2, 0) => removed(25, Some("batch/v1"));
            "example.com/v1beta1", "Ingress", (1, 36) => None;
            "batch/v1beta1", "Ingress", (1, 36) => None;
            "", "", (1, 36) => None;
        );
    }
}

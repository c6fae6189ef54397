//! Kubernetes APIs that were or will be removed, and their uses in a bundle.

use std::collections::BTreeSet;

use manifests::{
    object::group_version,
    openshift::{MaxOpenShiftVersion, Release},
    path::Path,
    version::KubeVersion,
};

use super::{Input, list, permissions, string_at};
use crate::{
    api_upgrade::{NotServed, unserved},
    csv::Csv,
    finding::{Findings, code::Code},
};

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    shipped(input, findings);
    openshift(input, findings);
    if let Some(csv) = input.csv {
        resources(csv, findings);
    }
    removed_resources(input, findings);
    mentioned_resources(input, findings);
}

/// Returns the minor version that removed an API, if any, and the successor.
fn removed_in(api_version: &str, kind: &str) -> Option<(u64, Option<&'static str>)> {
    match unserved(api_version, kind, KubeVersion::NEWEST)? {
        NotServed::Removed { until, successor } => Some((until, successor)),
        NotServed::NotYet { .. } => None,
    }
}

/// Returns the remedy for a removed API.
fn migrate(successor: Option<&str>) -> String {
    successor.map_or_else(
        || "migrate away from it".to_owned(),
        |to| format!("migrate to {to}"),
    )
}

/// Reports objects that the target still serves, but newer clusters do not. The conversion reports the others.
fn shipped(input: Input<'_>, findings: &mut Findings) {
    for item in input.others {
        let (api, kind) = (item.api_version(), item.kind());
        if unserved(api, kind, input.options.kube_version).is_none()
            && let Some((until, successor)) = removed_in(api, kind)
        {
            findings.warn(
                Code::RemovedAPI,
                item.place.at(&Path::from(["apiVersion"])),
                format!("this bundle is using APIs which were deprecated and removed in v1.{until}: {} in {api}", item.label()),
                &migrate(successor),
            );
        }
    }
}

/// Reports objects of old APIs without a limit on OpenShift, because OLM applies objects unchanged. OpenShift 4.9 has
/// Kubernetes 1.22.
fn openshift(input: Input<'_>, findings: &mut Findings) {
    let first = Release { major: 4, minor: 9 };
    let max = input
        .facts
        .max_open_shift_version
        .as_ref()
        .and_then(MaxOpenShiftVersion::release);
    let is_gone = |api: &str, kind: &str| {
        matches!(
            unserved(api, kind, KubeVersion::new(1, 22)),
            Some(NotServed::Removed { .. })
        )
    };
    // A rejected file may declare the max OpenShift version.
    let is_bounded = max.map_or(findings.are_absences_hidden(), |max| max < first);
    if is_bounded {
        return;
    }
    if let Some(item) = input
        .others
        .iter()
        .find(|item| is_gone(item.api_version(), item.kind()))
    {
        findings.warn(
            Code::OpenShiftRange,
            item.place.at(&Path::from(["apiVersion"])),
            format!(
                "{} uses {}, which OpenShift 4.9 and later do not serve: OLM cannot install the bundle there, and the \
                 bundle does not declare this",
                item.label(),
                item.api_version()
            ),
            "migrate the object, or set the property olm.maxOpenShiftVersion to \"4.8\"",
        );
    }
}

/// Reports removed APIs in the resource lists of the CRD entries in the CSV.
fn resources(csv: Csv<'_>, findings: &mut Findings) {
    const GROUPS: [&str; 16] = [
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "extensions",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
    ];
    for which in ["owned", "required"] {
        for (at, crd) in csv.crds(which).iter().enumerate() {
            for (index, resource) in list(crd, &["resources"]) {
                let (kind, version) = (
                    string_at(resource, &["kind"]),
                    string_at(resource, &["version"]),
                );
                // The version is usually written without its group.
                let candidates: Vec<String> = if version.contains('/') {
                    vec![version.to_owned()]
                } else {
                    GROUPS
                        .iter()
                        .map(|group| format!("{group}/{version}"))
                        .collect()
                };
                let found = candidates
                    .iter()
                    .find_map(|api| Some((api, removed_in(api, kind)?)));
                if let Some((api, (until, successor))) = found {
                    let path = Path::from(["spec", "customresourcedefinitions", which]).index(at);
                    findings.warn(
                        Code::RemovedAPI,
                        csv.path_place(&path.key("resources").index(index)),
                        format!(
                            "CRD {:?} lists {kind} {version} as a resource; {api} was deprecated and removed in v1.{until}",
                            string_at(crd, &["name"])
                        ),
                        &migrate(successor),
                    );
                }
            }
        }
    }
}

/// Reports resources that no version of their group serves, so that the permission has no effect.
fn removed_resources(input: Input<'_>, findings: &mut Findings) {
    const REMOVED: [(&str, &str, u64, &str); 7] = [
        ("extensions", "daemonsets", 16, "apps"),
        ("extensions", "deployments", 16, "apps"),
        ("extensions", "ingresses", 22, "networking.k8s.io"),
        ("extensions", "networkpolicies", 16, "networking.k8s.io"),
        ("extensions", "podsecuritypolicies", 16, ""),
        ("extensions", "replicasets", 16, "apps"),
        ("policy", "podsecuritypolicies", 25, ""),
    ];
    let mut reported = BTreeSet::new();
    for rule in permissions::all(input) {
        for (group, resource, until, successor) in REMOVED {
            if rule.names(group, resource) && reported.insert((group, resource)) {
                findings.warn(
                    Code::RemovedAPI,
                    rule.place(),
                    format!("a permission refers to {resource} of {group:?}, which Kubernetes v1.{until} and later do \
                             not serve"),
                    &if successor.is_empty() { "remove it".to_owned() } else { format!("use {successor:?} only") },
                );
            }
        }
    }
}

/// Reports resources of which an older version was removed. Permissions do not show which version the operator uses.
fn mentioned_resources(input: Input<'_>, findings: &mut Findings) {
    const MENTIONED: [(&str, &str, &str); 7] = [
        ("cronjobs", "batch/v1beta1", "CronJob"),
        (
            "endpointslices",
            "discovery.k8s.io/v1beta1",
            "EndpointSlice",
        ),
        ("events", "events.k8s.io/v1beta1", "Event"),
        (
            "horizontalpodautoscalers",
            "autoscaling/v2beta1",
            "HorizontalPodAutoscaler",
        ),
        (
            "horizontalpodautoscalers",
            "autoscaling/v2beta2",
            "HorizontalPodAutoscaler",
        ),
        (
            "poddisruptionbudgets",
            "policy/v1beta1",
            "PodDisruptionBudget",
        ),
        ("runtimeclasses", "node.k8s.io/v1beta1", "RuntimeClass"),
    ];
    let mut reported = BTreeSet::new();
    for rule in permissions::all(input) {
        for (resource, api, kind) in MENTIONED {
            let (group, _) = group_version(api);
            let Some((until, _)) = removed_in(api, kind).filter(|_| rule.names(group, resource))
            else {
                continue;
            };
            if reported.insert(api) {
                findings.warn(
                    Code::MentionedAPI,
                    rule.place(),
                    format!("a permission refers to {resource} of {group:?}; {api} was deprecated and removed in v1.{until}"),
                    "make sure that the operator uses a newer version",
                );
            }
        }
    }
}

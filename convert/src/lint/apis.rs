//! APIs of Kubernetes that are gone or will go, as far as a bundle tells that it uses them.

use std::collections::BTreeSet;

use manifests::{
    object::group_version,
    openshift::{MaxOpenShiftVersion, Release},
    path::Path,
    version::KubeVersion,
};

use super::{Input, list, permissions, word};
use crate::{
    code::Code,
    csv::Csv,
    report::Findings,
    upgrade::{Unserved, unserved},
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

/// The release that stopped serving an API, if one did.
fn gone(api_version: &str, kind: &str) -> Option<(u64, Option<&'static str>)> {
    match unserved(api_version, kind, KubeVersion::NEWEST)? {
        Unserved::Gone { until, successor } => Some((until, successor)),
        Unserved::NotYet { .. } => None,
    }
}

/// What to do about an API that is gone.
fn migrate(successor: Option<&str>) -> String {
    successor.map_or_else(
        || "migrate away from it".to_owned(),
        |to| format!("migrate to {to}"),
    )
}

/// Objects that the target still serves and newer clusters do not; the conversion tells the others.
fn shipped(input: Input<'_>, findings: &mut Findings) {
    for item in input.others {
        let (api, kind) = (item.api_version(), item.kind());
        if unserved(api, kind, input.options.kube_version).is_none()
            && let Some((until, successor)) = gone(api, kind)
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

/// OLM applies objects as they are, so old ones need an upper bound on OpenShift. 4.9 is Kubernetes 1.22.
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
            Some(Unserved::Gone { .. })
        )
    };
    // A rejected file may declare a maximum.
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
                "{} is in {}, which OpenShift 4.9 and newer do not serve: OLM cannot install the bundle there, and \
                 the bundle does not say so",
                item.label(),
                item.api_version()
            ),
            "migrate the object, or set the property olm.maxOpenShiftVersion to \"4.8\"",
        );
    }
}

/// What an owned CustomResourceDefinition is said to consist of.
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
                let (kind, version) = (word(resource, &["kind"]), word(resource, &["version"]));
                // The version is mostly written without its group.
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
                    .find_map(|api| Some((api, gone(api, kind)?)));
                if let Some((api, (until, successor))) = found {
                    let path = Path::from(["spec", "customresourcedefinitions", which]).index(at);
                    findings.warn(
                        Code::RemovedAPI,
                        csv.at(&path.key("resources").index(index)),
                        format!(
                            "CRD {:?} lists {kind} {version} as a resource; {api} was deprecated and removed in v1.{until}",
                            word(crd, &["name"])
                        ),
                        &migrate(successor),
                    );
                }
            }
        }
    }
}

/// Resources that no version of their group serves any more: the permission permits nothing.
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
    let mut seen = BTreeSet::new();
    for rule in permissions::all(input) {
        for (group, resource, until, successor) in REMOVED {
            if rule.names(group, resource) && seen.insert((group, resource)) {
                findings.warn(
                    Code::RemovedAPI,
                    rule.place(),
                    format!("a permission names {resource} of {group:?}, which Kubernetes does not serve since v1.{until}"),
                    &if successor.is_empty() { "remove it".to_owned() } else { format!("name them in {successor:?} only") },
                );
            }
        }
    }
}

/// Resources of which an older version is gone: permissions do not tell which one the operator uses.
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
    let mut seen = BTreeSet::new();
    for rule in permissions::all(input) {
        for (resource, api, kind) in MENTIONED {
            let (group, _) = group_version(api);
            let Some((until, _)) = gone(api, kind).filter(|_| rule.names(group, resource)) else {
                continue;
            };
            if seen.insert(api) {
                findings.warn(
                    Code::MentionedAPI,
                    rule.place(),
                    format!("a permission names {resource} of {group:?}; {api} was deprecated and removed in v1.{until}"),
                    "make sure that the operator uses a newer version",
                );
            }
        }
    }
}

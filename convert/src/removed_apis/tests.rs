use serde_json::json;

use super::*;

fn object(api_version: &str, kind: &str) -> Object {
    let metadata = json!({"name": "a", "namespace": "b"});
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    object.try_into().unwrap()
}

fn role(rules: &Value) -> Object {
    let (api, metadata) = ("rbac.authorization.k8s.io/v1", json!({"name": "etcd"}));
    let role =
        json!({"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules});
    role.try_into().unwrap()
}

fn kube(minor: u64) -> KubeVersion {
    KubeVersion::new(1, minor)
}

#[test]
fn later_removals_are_found_by_minor_version() {
    let addresses = json!([{"apiGroups": ["networking.k8s.io"], "resources": ["ipaddresses"], "verbs": ["get"]}]);
    let objects = [
        object("policy/v1beta1", "PodDisruptionBudget"),
        object("resource.k8s.io/v1beta1", "ResourceClaim"),
        role(&addresses),
    ];
    for (running, expected) in ::tests::rows![
        kube(24) => &[(25, 1), (37, 1), (38, 1)][..];
        kube(36) => &[(37, 1), (38, 1)];
        kube(60) => &[];
        KubeVersion::new(2, u64::MAX) => &[];
    ] {
        let found = later(&objects, running).into_iter();
        assert_rows!(found.map(|(version, removals)| (version.minor, removals.found.len())).collect::<Vec<_>>() => expected);
    }
}

// parity: check-18
#[test]
fn objects_in_removed_apis_are_found_between_releases() {
    for (api, kind, from, to, expected) in ::tests::rows![
        "policy/v1beta1", "PodDisruptionBudget", 24, 25 => Some((25, Some("policy/v1")));
        "policy/v1beta1", "PodDisruptionBudget", 23, 24 => None;
        // The API is not served already, so that an upgrade loses nothing.
        "policy/v1beta1", "PodDisruptionBudget", 25, 26 => None;
        "policy/v1", "PodDisruptionBudget", 24, 40 => None;
        "policy/v1beta1", "PodSecurityPolicy", 24, 25 => Some((25, None));
        "flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", 31, 32 => Some((32, Some("flowcontrol.apiserver.k8s.io/v1")));
        "networking.k8s.io/v1beta1", "ServiceCIDR", 36, 37 => Some((37, Some("networking.k8s.io/v1")));
        "networking.k8s.io/v1beta1", "ServiceCIDR", 35, 36 => None;
        "networking.k8s.io/v1beta1", "ServiceCIDR", 37, 38 => None;
        "storage.k8s.io/v1beta1", "VolumeAttributesClass", 36, 37 => Some((37, Some("storage.k8s.io/v1")));
        "resource.k8s.io/v1beta1", "ResourceClaim", 36, 38 => Some((38, Some("resource.k8s.io/v1")));
        "coordination.k8s.io/v1beta1", "LeaseCandidate", 38, 39 => Some((39, None));
        "apps/v1", "Deployment", 20, 50 => None;
        "example.com/v1beta1", "PodDisruptionBudget", 24, 25 => None;
        // A downgrade removes no API.
        "policy/v1beta1", "PodDisruptionBudget", 25, 24 => None;
    ] {
        let found = between([&object(api, kind)], kube(from), kube(to));
        let expected = expected.map(|(until, instead)| (api, until, instead));
        let apis = found.found.iter().map(|removal| &removal.api);
        let apis = apis.map(|api| (api.api_version, api.until, api.instead));
        assert_rows!(apis.collect::<Vec<_>>() => Vec::from_iter(expected), "{api} {kind} {from} {to}");
        assert!(!found.is_incomplete);
    }
}

#[test]
fn roles_reveal_the_removed_apis_in_use() {
    for (resource, expected) in ::tests::rows![
        "poddisruptionbudgets/status" => "ClusterRole etcd refers to the resource of PodDisruptionBudget, and Kubernetes \
            1.25 does not serve policy/v1beta1: make sure that the operator uses policy/v1";
        "podsecuritypolicies"
            => "ClusterRole etcd refers to the resource of PodSecurityPolicy, which Kubernetes 1.25 no longer serves";
    ] {
        let rules = json!([{"apiGroups": ["policy"], "resources": [resource], "verbs": ["use"]}]);
        for group in ["rbac.authorization.k8s.io", "authorization.openshift.io"] {
            let mut role = role(&rules);
            role.value_mut()["apiVersion"] = format!("{group}/v1").into();
            let found = between([&role], kube(24), kube(25)).found;
            assert_rows!((found.len(), found[0].to_string()) => (1, expected.to_owned()), "{group}");
            assert_rows!((found[0].api.api_version, found[0].api.until) => ("policy/v1beta1", 25));
            assert_rows!(found[0].by => ApiUse::Permitted(role.identity()));
        }
    }
    let others = json!([
        [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], [{"nonResourceURLs": ["/"], "verbs": ["get"]}],
        [{"apiGroups": ["apps"], "resources": ["poddisruptionbudgets"], "verbs": ["*"]}],
        [{"apiGroups": "policy", "resources": 7}], "rules", null,
    ]);
    for rules in others.as_array().unwrap() {
        assert_rows!(between([&role(rules)], kube(24), kube(25)) => RemovedApiUses::default(), "{rules}");
    }
}

#[test]
fn messages_describe_the_effect_on_objects() {
    assert_each!(|api, kind, message| between([&object(api, kind)], kube(24), kube(25)).found[0].to_string() => message;
        "batch/v1beta1", "CronJob" => "CronJob b/a uses batch/v1beta1, which Kubernetes 1.25 does not serve; from that \
            version on, the object is applied as batch/v1";
        "policy/v1beta1", "PodSecurityPolicy" => "PodSecurityPolicy b/a uses policy/v1beta1, which Kubernetes 1.25 does not \
            serve and which has no replacement: the object is removed in that version";
    );
}

#[test]
fn resource_names_equal_those_of_kubernetes() {
    let kinds = "Ingress ingresses, IngressClass ingressclasses, NetworkPolicy networkpolicies, \
                 PodSecurityPolicy podsecuritypolicies, EndpointSlice endpointslices, CSIStorageCapacity csistoragecapacities, \
                 IPAddress ipaddresses, ServiceCIDR servicecidrs, VolumeAttributesClass volumeattributesclasses, \
                 FlowSchema flowschemas, DeviceClass deviceclasses";
    for (kind, resource) in ::tests::pairs(kinds) {
        assert_eq!(plural(kind), resource);
    }
}

#[test]
fn announced_removals_are_still_served() {
    for announced in ANNOUNCED {
        assert!(announced.removed_in > KubeVersion::NEWEST.minor);
        for kind in announced.kinds {
            assert_rows!(unserved(announced.api_version, kind, KubeVersion::NEWEST) => None);
        }
    }
}

#[test]
fn hostile_roles_are_bounded() {
    let many: Vec<String> = (0..2_000_000).map(|n| n.to_string()).collect();
    let rules = json!([{"apiGroups": ["policy"], "resources": many, "verbs": ["get"]}]);
    let found = between([&role(&rules)], kube(24), kube(25));
    assert!(found.is_incomplete && found.found.is_empty());
    let (api, kind) = ("policy/v1beta1", "PodDisruptionBudget");
    let budget =
        |n: u32| json!({"apiVersion": api, "kind": kind, "metadata": {"name": n.to_string()}});
    let budgets: Vec<Object> = (0..2000).map(|n| budget(n).try_into().unwrap()).collect();
    let found = between(&budgets, kube(24), kube(25));
    assert_eq!((found.is_incomplete, found.found.len()), (true, MAX_USES));
}

#[test]
fn identity_is_copied_once_for_each_api() {
    let rule =
        json!({"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["get"]});
    let (rules, copies) = (json!(vec![rule; 1000]), std::cell::Cell::new(0));
    let mut search = UsageScan::new(kube(24), kube(25));
    search.rules(&rules, || {
        copies.set(copies.get() + 1);
        role(&json!([])).identity()
    });
    assert_eq!((search.finish().found.len(), copies.get()), (1, 1));
}

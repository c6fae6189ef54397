use manifests::api::labels;
use serde_json::{Value, json};

use super::*;
use crate::{
    discovery::DiscoveredKinds,
    inventory::Entry,
    tests::{identity, owner},
};

const NAMESPACE: &str = "operators";

fn object(api_version: &str, kind: &str, name: &str) -> Object {
    let value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    Object::try_from(value).unwrap()
}

fn crd(group: &str, kind: &str, plural: &str) -> Object {
    let value = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {}}, {"name": "v1alpha1", "served": false},
        ]},
    });
    Object::try_from(value).unwrap()
}

/// Returns the kinds of an API server without CRDs.
fn built_in() -> DiscoveredKinds {
    let kinds = ::tests::rows![
        "v1", "Namespace" => false;
        "v1", "ConfigMap" => true;
        "v1", "ServiceAccount" => true;
        "apps/v1", "Deployment" => true;
        "rbac.authorization.k8s.io/v1", "ClusterRole" => false;
        "apiextensions.k8s.io/v1", "CustomResourceDefinition" => false;
        "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration" => false;
    ];
    let kinds = kinds.into_iter().map(|(api_version, kind, namespaced)| {
        let (gvk, kind) = crate::tests::kind(api_version, kind, namespaced);
        (gvk, Some(kind))
    });
    kinds.collect()
}

fn plan_with(objects: Vec<Object>, inventory: &Inventory, optional: &[&str]) -> Plan {
    let optional = optional.iter().map(|&kind| kind.to_owned()).collect();
    let kinds = built_in();
    new(objects, &kinds, inventory, &owner(), NAMESPACE, &optional)
}

fn leaving(plan: &Plan) -> Vec<String> {
    let identities = plan.leaving.iter().map(|leaving| &leaving.identity);
    identities.map(ToString::to_string).collect()
}

fn plan(objects: Vec<Object>) -> Plan {
    plan_with(objects, &Inventory::new(), &[])
}

fn steps(plan: &Plan) -> Vec<String> {
    let line = |ApplyStep { wave, object, .. }: &ApplyStep| {
        format!("{wave:?}: {} {}", object.api_version(), object.identity())
    };
    plan.steps.iter().map(line).collect()
}

fn inventory(identities: impl IntoIterator<Item = Identity>) -> Inventory {
    let with_entry = |identity| (identity, with!(Entry, version: "v1".to_owned()));
    identities.into_iter().map(with_entry).collect()
}

// parity: rukpak-9
#[test]
fn objects_are_applied_in_waves_and_custom_resources_last() {
    let hooks = "ValidatingWebhookConfiguration";
    let plan = plan(vec![
        object("etcd.io/v1", "EtcdCluster", "example"),
        object("apps/v1", "Deployment", "operator"),
        object("admissionregistration.k8s.io/v1", hooks, "hooks"),
        object("rbac.authorization.k8s.io/v1", "ClusterRole", "operator"),
        crd("etcd.io", "EtcdCluster", "etcdclusters"),
        object("v1", "Namespace", "operators"),
        object("v1", "ServiceAccount", "operator"),
    ]);
    let expected = [
        "Namespaces: v1 Namespace operators",
        "Definitions: apiextensions.k8s.io/v1 CustomResourceDefinition etcdclusters.etcd.io",
        "Configuration: v1 ServiceAccount operators/operator",
        "Configuration: rbac.authorization.k8s.io/v1 ClusterRole operator",
        "Workloads: admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration hooks",
        "Workloads: apps/v1 Deployment operators/operator",
        "Resources: etcd.io/v1 EtcdCluster operators/example",
    ];
    assert_eq!(steps(&plan), expected);
    // The API path comes from the CRD, because the API is not served yet.
    let kind = &plan.steps[6].kind;
    assert_rows!((&*kind.resource.plural, kind.namespaced) => ("etcdclusters", true));
}

#[test]
fn version_that_the_bundled_crd_does_not_serve_is_missing() {
    let gvk = GroupVersionKind::gvk("etcd.io", "v1alpha1", "EtcdCluster");
    let mut kinds = built_in();
    let served = kinds[&GroupVersionKind::gvk("", "v1", "ConfigMap")].clone();
    kinds.insert(gvk, served);
    let objects = vec![
        crd("etcd.io", "EtcdCluster", "etcdclusters"),
        object("etcd.io/v1alpha1", "EtcdCluster", "old"),
    ];
    let (applied, optional) = (Inventory::new(), BTreeSet::new());
    let plan = new(objects, &kinds, &applied, &owner(), NAMESPACE, &optional);
    assert_rows!(plan.missing.iter().map(|absent| &*absent.api_version).collect::<Vec<_>>() => ["etcd.io/v1alpha1"]);
}

#[test]
fn objects_get_owner_marks_and_lose_cluster_fields() {
    let foreign = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "a", "namespace": "elsewhere", "uid": "x", "resourceVersion": "7", "creationTimestamp": null,
            "managedFields": [], "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "u", "controller": true}],
            "labels": {"app": "a", labels::OWNER_NAME: "other"},
        },
        "data": {"a": "b"},
    });
    let plan = plan(vec![Object::try_from(foreign).unwrap()]);
    let expected = &json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "annotations": {labels::OBJECT_HASH: plan.steps[0].hash.to_string()}, "name": "a", "namespace": "elsewhere",
            "labels": {"app": "a", labels::OWNER_KIND: "BundleInstance", labels::OWNER_NAME: "etcd"},
            "ownerReferences": [{
                "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "name": "etcd", "uid": "uid-of-etcd",
                "controller": true,
            }],
        },
        "data": {"a": "b"},
    });
    assert_eq!(plan.steps[0].object.value(), expected);
}

#[test]
fn crds_namespaces_and_retained_objects_have_no_owner() {
    let annotated = |keep: Value| {
        let mut object = object("v1", "ConfigMap", "kept");
        object.value_mut()["metadata"]["annotations"] = json!({labels::KEEP: keep});
        object
    };
    for (object, owned) in ::tests::rows![
        object("v1", "Namespace", "n") => false;
        crd("a.io", "A", "as") => false;
        annotated(json!("true")) => false;
        annotated(json!("")) => false;
        annotated(json!("false")) => true;
        annotated(json!(null)) => true;
        object("v1", "ConfigMap", "c") => true;
        object("rbac.authorization.k8s.io/v1", "ClusterRole", "r") => true;
    ] {
        let plan = plan(vec![object]);
        let metadata = &plan.steps[0].object.value()["metadata"];
        assert_rows!(metadata.get("ownerReferences").is_some() => owned, "{metadata}");
        assert_eq!(metadata["labels"][labels::OWNER_NAME], "etcd");
    }
}

// parity: rukpak-29
#[test]
fn namespaces_are_for_namespaced_kinds_only() {
    let mut role = object("rbac.authorization.k8s.io/v1", "ClusterRole", "r");
    role.value_mut()["metadata"]["namespace"] = "nonsense".into();
    let mut broken = object("v1", "ConfigMap", "c");
    broken.value_mut()["metadata"]["labels"] = "nonsense".into();
    let plan = plan(vec![role, broken]);
    let placed = plan.steps.iter().map(|step| step.object.identity());
    assert_rows!(placed.map(|identity| identity.to_string()).collect::<Vec<_>>() => ["ConfigMap operators/c", "ClusterRole r"]);
}

#[test]
fn first_of_two_objects_with_one_identity_is_applied() {
    let mut placed = object("v1", "ConfigMap", "c");
    placed.value_mut()["metadata"]["namespace"] = NAMESPACE.into();
    placed.value_mut()["data"] = json!({"which": "first"});
    let plan = plan(vec![placed, object("v1", "ConfigMap", "c")]);
    assert_rows!((plan.steps.len(), &plan.steps[0].object.value()["data"]["which"]) => (1, &json!("first")));
}

#[test]
fn objects_of_unserved_kinds_are_deferred_or_missing() {
    let objects = vec![
        object("monitoring.coreos.com/v1", "ServiceMonitor", "b"),
        object("monitoring.coreos.com/v1", "ServiceMonitor", "a"),
        object("operators.coreos.com/v1alpha1", "CatalogSource", "c"),
        object("v1", "ConfigMap", "d"),
    ];
    let applied = [
        // Applied while the API was served: the desired object is retained although the API is not served now.
        identity("monitoring.coreos.com", "ServiceMonitor", NAMESPACE, "a"),
        identity("operators.coreos.com", "CatalogSource", "other", "leaves"),
    ];
    let optional = "ServiceMonitor.monitoring.coreos.com";
    let plan = plan_with(objects, &inventory(applied), &[optional]);
    let absent = |kinds: &[MissingKind]| {
        let [kind] = kinds else { panic!("{kinds:?}") };
        let objects = crate::first_few(&kind.needed_by, 9);
        format!("{} {}: {objects}", kind.api_version, kind.kind)
    };
    assert_rows! {
        steps(&plan) => ["Configuration: v1 ConfigMap operators/d"];
        leaving(&plan) => ["CatalogSource other/leaves"];
        absent(&plan.deferred) => "monitoring.coreos.com/v1 ServiceMonitor: ServiceMonitor a, ServiceMonitor b";
        absent(&plan.missing) => "operators.coreos.com/v1alpha1 CatalogSource: CatalogSource c";
    }
}

#[test]
fn cluster_scoped_object_remains_while_its_api_is_not_served() {
    let api_version = "monitoring.coreos.com/v1";
    let mut placed = object(api_version, "ServiceMonitor", "placed");
    placed.value_mut()["metadata"]["namespace"] = "elsewhere".into();
    let objects = vec![placed, object(api_version, "ServiceMonitor", "bare")];
    // The identities under which the objects may have been applied: namespaced or cluster-scoped.
    let applied = ::tests::rows![
        "elsewhere" => "placed"; "" => "placed"; NAMESPACE => "bare"; "" => "bare"; NAMESPACE => "placed";
    ];
    let applied = applied.map(|(namespace, name)| {
        identity("monitoring.coreos.com", "ServiceMonitor", namespace, name)
    });
    assert_rows!(leaving(&plan_with(objects, &inventory(applied), &[])) => ["ServiceMonitor operators/placed"]);
}

#[test]
fn hostile_crds_provide_no_kinds() {
    for (group, plural, version) in [
        ("../../api/v1/secrets", "as", "v1"),
        ("a.io", "../as", "v1"),
        ("a.io", "as", "../v1"),
        ("a.io", "as", ""),
    ] {
        let mut hostile = crd(group, "A", plural);
        hostile.value_mut()["spec"]["versions"][0]["name"] = version.into();
        let resource = object(&format!("{group}/{version}"), "A", "a");
        let plan = plan(vec![hostile, resource]);
        let are_resources = |step: &ApplyStep| step.wave == Wave::Resources;
        assert_rows!((plan.steps.iter().any(are_resources), plan.missing.len()) => (false, 1), "{group} {plural} {version}");
    }
}

#[test]
fn prune_order_is_reversed_with_custom_resources_first() {
    let applied = ::tests::rows![
        "", "Namespace", "" => "n";
        "", "ConfigMap", NAMESPACE => "retained";
        "", "ServiceAccount", NAMESPACE => "operator";
        "rbac.authorization.k8s.io", "ClusterRole", "" => "operator";
        "apps", "Deployment", NAMESPACE => "operator";
        "admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "" => "hooks";
        "apiextensions.k8s.io", "CustomResourceDefinition", "" => "etcdclusters.etcd.io";
        "etcd.io", "EtcdCluster", NAMESPACE => "example";
    ];
    let applied =
        applied.map(|(group, kind, namespace, name)| identity(group, kind, namespace, name));
    let retained = object("v1", "ConfigMap", "retained");
    let expected = "EtcdCluster operators/example, CustomResourceDefinition etcdclusters.etcd.io, \
                    ValidatingWebhookConfiguration hooks, Deployment operators/operator, ClusterRole operator, \
                    ServiceAccount operators/operator, Namespace n";
    assert_rows!(leaving(&plan_with(vec![retained], &inventory(applied), &[])).join(", ") => expected);
}

#[test]
fn ten_thousand_objects_are_planned() {
    let objects = (0..10_000).map(|n| object("v1", "ConfigMap", &format!("c{n}")));
    let objects: Vec<_> = objects.collect();
    let applied = (5_000..15_000).map(|n| identity("", "ConfigMap", NAMESPACE, &format!("c{n}")));
    let applied = inventory(applied);
    let plan = plan_with(objects, &applied, &[]);
    assert_eq!((plan.steps.len(), plan.leaving.len()), (10_000, 5_000));
}

use std::time::{Duration, Instant};

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
        "v1", "Secret" => true;
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

/// Returns the identities of the prune candidates.
fn leaving(plan: &Plan) -> Vec<String> {
    let identities = plan.leaving.iter().map(|leaving| &leaving.identity);
    identities.map(ToString::to_string).collect()
}

fn plan(objects: Vec<Object>) -> Plan {
    plan_with(objects, &Inventory::new(), &[])
}

/// Formats a plan with one line for each object.
fn lines(plan: &Plan) -> String {
    let line = |action, wave, text| format!("{action:<8}{wave:<15}{text}\n");
    let steps = plan.steps.iter().map(|ApplyStep { wave, object, .. }| {
        let text = format!("{} ({})", object.identity(), object.api_version());
        line("apply", format!("{wave:?}"), text)
    });
    let other = |action, text| line(action, String::new(), text);
    let leaving = leaving(plan).into_iter().map(|text| other("delete", text));
    let absent = |action, all: &[MissingKind]| -> String {
        let lines = all.iter().flat_map(|absent| {
            let api = &absent.api_version;
            let line = move |id| other(action, format!("{id} ({api} is not served)"));
            absent.needed_by.iter().map(line)
        });
        lines.collect()
    };
    let waits = absent("waits", &plan.deferred);
    let missing = absent("missing", &plan.missing);
    steps.chain(leaving).chain([waits, missing]).collect()
}

fn inventory(identities: impl IntoIterator<Item = Identity>) -> Inventory {
    let entry = with!(Entry, version: "v1".to_owned());
    let entries = identities
        .into_iter()
        .map(|identity| (identity, entry.clone()));
    entries.collect()
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
    let expected = "apply   Namespaces     Namespace operators (v1)\n\
     apply   Definitions    CustomResourceDefinition etcdclusters.etcd.io (apiextensions.k8s.io/v1)\n\
     apply   Configuration  ServiceAccount operators/operator (v1)\n\
     apply   Configuration  ClusterRole operator (rbac.authorization.k8s.io/v1)\n\
     apply   Workloads      ValidatingWebhookConfiguration hooks (admissionregistration.k8s.io/v1)\n\
     apply   Workloads      Deployment operators/operator (apps/v1)\n\
     apply   Resources      EtcdCluster operators/example (etcd.io/v1)\n";
    assert_eq!(lines(&plan), expected);
    // The API path comes from the CRD, because the API is not served yet.
    let resource = plan.steps.last().unwrap();
    assert_eq!(resource.kind.resource.plural, "etcdclusters");
    assert!(resource.kind.namespaced);
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
            "managedFields": [], "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "gone", "controller": true}],
            "labels": {"app": "a", labels::OWNER_NAME: "somebody-else"},
        },
        "data": {"a": "b"},
    });
    let plan = plan(vec![Object::try_from(foreign).unwrap()]);
    let hash = plan.steps[0].hash.to_string();
    let expected = &json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "annotations": {labels::OBJECT_HASH: hash}, "name": "a", "namespace": "elsewhere",
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
    assert_eq!(plan.steps.len(), 1);
    assert_eq!(plan.steps[0].object.value()["data"]["which"], "first");
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
    let expected = "apply   Configuration  ConfigMap operators/d (v1)\n\
     delete                 CatalogSource other/leaves\n\
     waits                  ServiceMonitor a (monitoring.coreos.com/v1 is not served)\n\
     waits                  ServiceMonitor b (monitoring.coreos.com/v1 is not served)\n\
     missing                CatalogSource c (operators.coreos.com/v1alpha1 is not served)\n";
    assert_eq!(lines(&plan), expected);
    assert_eq!(plan.deferred[0].kind, "ServiceMonitor");
    assert_eq!(plan.steps[0].object.name(), "d");
}

#[test]
fn cluster_scoped_object_remains_while_its_api_is_not_served() {
    let api_version = "monitoring.coreos.com/v1";
    let mut placed = object(api_version, "ServiceMonitor", "placed");
    placed.value_mut()["metadata"]["namespace"] = "elsewhere".into();
    let objects = vec![placed, object(api_version, "ServiceMonitor", "bare")];
    let monitor =
        |namespace, name| identity("monitoring.coreos.com", "ServiceMonitor", namespace, name);
    // The identities under which the objects may have been applied: namespaced or cluster-scoped.
    let applied = inventory([
        monitor("elsewhere", "placed"),
        monitor("", "placed"),
        monitor(NAMESPACE, "bare"),
        monitor("", "bare"),
        monitor(NAMESPACE, "placed"),
    ]);
    assert_rows!(leaving(&plan_with(objects, &applied, &[])) => ["ServiceMonitor operators/placed"]);
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
        "", "ConfigMap", NAMESPACE => "stays";
        "", "ServiceAccount", NAMESPACE => "operator";
        "rbac.authorization.k8s.io", "ClusterRole", "" => "operator";
        "apps", "Deployment", NAMESPACE => "operator";
        "admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "" => "hooks";
        "apiextensions.k8s.io", "CustomResourceDefinition", "" => "etcdclusters.etcd.io";
        "etcd.io", "EtcdCluster", NAMESPACE => "example";
    ];
    let applied =
        applied.map(|(group, kind, namespace, name)| identity(group, kind, namespace, name));
    let retained = object("v1", "ConfigMap", "stays");
    let plan = plan_with(vec![retained], &inventory(applied), &[]);
    let expected = "EtcdCluster operators/example, CustomResourceDefinition etcdclusters.etcd.io, \
                    ValidatingWebhookConfiguration hooks, Deployment operators/operator, ClusterRole operator, \
                    ServiceAccount operators/operator, Namespace n";
    assert_eq!(leaving(&plan).join(", "), expected);
}

#[test]
fn ten_thousand_objects_are_planned_in_five_seconds() {
    let objects = (0..10_000).map(|n| object("v1", "ConfigMap", &format!("c{n}")));
    let objects: Vec<_> = objects.collect();
    let applied = (5_000..15_000).map(|n| identity("", "ConfigMap", NAMESPACE, &format!("c{n}")));
    let applied = inventory(applied);
    let start = Instant::now();
    let plan = plan_with(objects, &applied, &[]);
    assert_eq!((plan.steps.len(), plan.leaving.len()), (10_000, 5_000));
    assert_rows!(start.elapsed() < Duration::from_secs(5) => true, "{:?}", start.elapsed());
}

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;
use crate::{plan::Wave, tests::owner};

fn step(api_version: &str, kind: &str, name: &str) -> ApplyStep {
    crate::tests::step(Wave::Configuration, api_version, kind, name)
}

fn live(metadata: Value) -> ObjectMeta {
    serde_json::from_value(metadata).unwrap()
}

fn labeled(instance: &str) -> ObjectMeta {
    let labels = json!({"core.rukpak.io/owner-kind": "BundleInstance", "core.rukpak.io/owner-name": instance});
    live(json!({"labels": labels}))
}

fn controlled(kind: &str, name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "core.rukpak.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": true}])
}

fn verdict(step: &ApplyStep, live: &ObjectMeta) -> OwnershipDecision {
    let deleted = BTreeSet::from(["gone".to_owned()]);
    decide(
        step,
        live,
        &ObjectOwner::from_metadata(live, &owner()),
        &owner(),
        &deleted,
    )
}

#[track_caller]
fn assert_refused(step: &ApplyStep, live: &ObjectMeta, parts: &[&str]) {
    let (OwnershipDecision::Conflict(message) | OwnershipDecision::Terminating(message)) =
        verdict(step, live)
    else {
        panic!("not refused: {live:?}");
    };
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn holder_is_read_from_the_metadata() {
    let applied = |manager: &str, operation: &str| json!({"managedFields": [{"manager": manager, "operation": operation, "fieldsV1": {}}]});
    let cases = ::tests::rows![
        json!({}) => ObjectOwner::None;
        json!({"ownerReferences": controlled("BundleInstance", "etcd", "uid-of-etcd")}) => ObjectOwner::ThisInstance;
        json!({"ownerReferences": controlled("BundleInstance", "etcd", "another")}) => ObjectOwner::FormerInstance;
        json!({"ownerReferences": controlled("BundleInstance", "other", "another")}) => ObjectOwner::Instance("other".to_owned());
        json!({"ownerReferences": controlled("ReplicaSet", "other", "another")})
            => ObjectOwner::Controller("ReplicaSet other".to_owned());
        // Labels of a pod template, copied to the objects of its controller.
        json!({"ownerReferences": controlled("ReplicaSet", "other", "another"), "labels": {
            "core.rukpak.io/owner-kind": "BundleInstance", "core.rukpak.io/owner-name": "etcd",
        }}) => ObjectOwner::Controller("ReplicaSet other".to_owned());
        json!({"labels": {"core.rukpak.io/owner-kind": "BundleInstance", "core.rukpak.io/owner-name": "etcd"}}) => ObjectOwner::ThisInstance;
        json!({"labels": {"core.rukpak.io/owner-kind": "Bundle", "core.rukpak.io/owner-name": "etcd"}}) => ObjectOwner::None;
        json!({"labels": {"core.rukpak.io/owner-kind": "BundleInstance", "core.rukpak.io/owner-name": ""}}) => ObjectOwner::None;
        json!({"labels": {"olm.owner": "etcd.v1", "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": "operators"}})
            => ObjectOwner::OtherTool("OLM (ClusterServiceVersion operators/etcd.v1)".to_owned());
        json!({"labels": {"operators.coreos.com/etcd.operators": ""}})
            => ObjectOwner::OtherTool("OLM (package etcd.operators)".to_owned());
        json!({"labels": {
            "olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "etcd",
        }}) => ObjectOwner::OtherTool("OLM (ClusterExtension etcd)".to_owned());
        json!({"annotations": {"meta.helm.sh/release-name": "etcd", "meta.helm.sh/release-namespace": "db"}})
            => ObjectOwner::OtherTool("the Helm release db/etcd".to_owned());
        json!({"labels": {"app.kubernetes.io/name": "rukpak", "app.kubernetes.io/part-of": "rukpak"}}) => ObjectOwner::Provisioner;
        // `helm template` sets this label too.
        json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}) => ObjectOwner::None;
        json!({"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:a/b"}})
            => ObjectOwner::OtherTool("the Argo CD application shop".to_owned());
        json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}})
            => ObjectOwner::OtherTool("the Flux Kustomization flux-system/apps".to_owned());
        applied("rukpak", "Apply") => ObjectOwner::Released;
        applied("rukpak", "Update") => ObjectOwner::None;
        applied("kubectl", "Apply") => ObjectOwner::None;
    ];
    for (metadata, expected) in cases {
        assert_rows!(ObjectOwner::from_metadata(&live(metadata.clone()), &owner()) => expected, "{metadata}");
    }
}

#[test]
fn owned_and_released_objects_are_allowed() {
    let crd = step("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a.b");
    let released = json!({"managedFields": [{"manager": "rukpak", "operation": "Apply"}]});
    assert_eq!(verdict(&crd, &live(released)), OwnershipDecision::Allowed);
    assert_eq!(verdict(&crd, &labeled("etcd")), OwnershipDecision::Allowed);
}

#[test]
fn unowned_object_needs_the_adopt_annotation() {
    let config = step("v1", "ConfigMap", "settings");
    let deployment = step("apps/v1", "Deployment", "etcd");
    let adopted = |by: &str| live(json!({"annotations": {"core.rukpak.io/adopt": by}}));
    assert_eq!(
        verdict(&config, &adopted("etcd")),
        OwnershipDecision::Allowed
    );
    let remedy = "kubectl annotate deployments.apps/etcd -n operators core.rukpak.io/adopt=etcd";
    let parts = ["is not managed by a BundleInstance", remedy];
    assert_refused(&deployment, &live(json!({})), &parts);
    let remedy = "kubectl annotate configmaps/settings -n operators core.rukpak.io/adopt=etcd";
    assert_refused(&config, &adopted("other"), &[remedy]);
}

#[test]
fn adopt_annotation_does_not_override_a_controller() {
    let config = step("v1", "ConfigMap", "settings");
    let adopt = json!({"core.rukpak.io/adopt": "etcd"});
    let adopted = |mut object: ObjectMeta| {
        object.annotations = serde_json::from_value(adopt.clone()).unwrap();
        object
    };
    let parts = ["owned by BundleInstance other", "delete that"];
    assert_refused(&config, &adopted(labeled("other")), &parts);
    let parts = ["BundleInstance gone, which no longer exists", "adopt=etcd"];
    assert_refused(&config, &labeled("gone"), &parts);
    assert_eq!(
        verdict(&config, &adopted(labeled("gone"))),
        OwnershipDecision::Allowed
    );
    let owners = controlled("ReplicaSet", "web", "another");
    let controlled = adopted(live(json!({"ownerReferences": owners})));
    assert_refused(&config, &controlled, &["controlled by ReplicaSet web"]);
}

#[test]
fn terminating_object_is_a_conflict_until_it_is_deleted() {
    let config = step("v1", "ConfigMap", "settings");
    let mut terminating = live(json!({"annotations": {"core.rukpak.io/adopt": "etcd"}}));
    terminating.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert_refused(&config, &terminating, &["is being deleted"]);
    let earlier = live(json!({"ownerReferences": controlled("BundleInstance", "etcd", "another")}));
    let part = "an earlier BundleInstance of the same name";
    assert_refused(&config, &earlier, &[part]);
}

#[test]
fn existing_namespaces_and_default_accounts_are_shared() {
    let namespace = step("v1", "Namespace", "operators");
    let account = step("v1", "ServiceAccount", "default");
    let adopted = live(json!({"annotations": {"core.rukpak.io/adopt": "etcd"}}));
    let helm = json!({"meta.helm.sh/release-name": "etcd", "meta.helm.sh/release-namespace": "db"});
    for allowed in [labeled("etcd"), adopted] {
        assert_eq!(verdict(&namespace, &allowed), OwnershipDecision::Allowed);
    }
    for (step, existing, parts) in ::tests::rows![
        &namespace, live(json!({})) => &["used unchanged", "adopt=etcd"][..];
        &namespace, labeled("gone") => &["used unchanged", "adopt=etcd"];
        &namespace, live(json!({"annotations": helm})) => &["used unchanged", "adopt=etcd"];
        &namespace, labeled("other") => &["owned by BundleInstance other"];
        &account, live(json!({})) => &["used unchanged", "adopt=etcd"];
    ] {
        let OwnershipDecision::Shared(message) = verdict(step, &existing) else {
            panic!("not shared: {existing:?}");
        };
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    let own = live(json!({
        "labels": {"app.kubernetes.io/name": "rukpak", "app.kubernetes.io/part-of": "rukpak"},
        "annotations": {"core.rukpak.io/adopt": "etcd"},
    }));
    assert_refused(&namespace, &own, &["the provisioner's own installation"]);
    assert_refused(&account, &labeled("other"), &["BundleInstance other"]);
    let other = step("v1", "ServiceAccount", "etcd");
    assert_refused(&other, &live(json!({})), &["adopt=etcd"]);
}

#[test]
fn object_that_was_never_applied_is_new() {
    use crate::inventory::Entry;
    let step = step("v1", "ConfigMap", "settings");
    let mut inventory = Inventory::new();
    assert!(is_new(&step, &inventory));
    inventory.insert(step.object.identity(), Entry::default());
    assert!(is_new(&step, &inventory));
}

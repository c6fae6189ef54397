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

fn labels(kind: &str, name: &str) -> Value {
    json!({"core.rukpak.io/owner-kind": kind, "core.rukpak.io/owner-name": name})
}

fn labeled(instance: &str) -> ObjectMeta {
    live(json!({"labels": labels("BundleInstance", instance)}))
}

fn adopted(by: &str) -> ObjectMeta {
    live(json!({"annotations": {"core.rukpak.io/adopt": by}}))
}

fn controlled(kind: &str, name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "core.rukpak.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": true}])
}

/// Compares decisions about existing objects with patterns, in which `*` stands for any text.
#[track_caller]
fn assert_decisions<const N: usize>(rows: [(&ApplyStep, ObjectMeta, &str); N]) {
    let deleted = BTreeSet::from(["deleted".to_owned()]);
    for (step, live, pattern) in rows {
        let holder = ObjectOwner::from_metadata(&live, &owner());
        let decision = decide(step, &live, &holder, &owner(), &deleted);
        let matches = ::tests::table::matches(pattern, &format!("{decision:?}"));
        assert!(matches, "{live:?}: {decision:?}, not {pattern}");
    }
}

#[test]
fn holder_is_read_from_the_metadata() {
    let applied = |manager: &str, operation: &str| json!({"managedFields": [{"manager": manager, "operation": operation, "fieldsV1": {}}]});
    let replica_set = controlled("ReplicaSet", "other", "another");
    assert_each!(|metadata, expected| ObjectOwner::from_metadata(&live(metadata), &owner()) => expected;
        json!({}) => ObjectOwner::None;
        json!({"ownerReferences": controlled("BundleInstance", "etcd", "uid-of-etcd")}) => ObjectOwner::ThisInstance;
        json!({"ownerReferences": controlled("BundleInstance", "etcd", "another")}) => ObjectOwner::FormerInstance;
        json!({"ownerReferences": controlled("BundleInstance", "other", "another")}) => ObjectOwner::Instance("other".to_owned());
        json!({"ownerReferences": replica_set}) => ObjectOwner::Controller("ReplicaSet other".to_owned());
        // Labels of a pod template, copied to the objects of its controller.
        json!({"ownerReferences": replica_set, "labels": labels("BundleInstance", "etcd")})
            => ObjectOwner::Controller("ReplicaSet other".to_owned());
        json!({"labels": labels("BundleInstance", "etcd")}) => ObjectOwner::ThisInstance;
        json!({"labels": labels("Bundle", "etcd")}) => ObjectOwner::None;
        json!({"labels": labels("BundleInstance", "")}) => ObjectOwner::None;
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
    );
}

#[test]
fn existing_objects_are_allowed_for_their_owner_or_adopter() {
    let crd = &step("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a.b");
    let config = &step("v1", "ConfigMap", "settings");
    let deployment = &step("apps/v1", "Deployment", "etcd");
    let adopt = |object: ObjectMeta| with!(object => annotations: adopted("etcd").annotations);
    let now = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert_decisions(::tests::rows![
        crd, live(json!({"managedFields": [{"manager": "rukpak", "operation": "Apply"}]})) => "Allowed";
        crd, labeled("etcd") => "Allowed";
        config, adopted("etcd") => "Allowed";
        config, adopted("other") => "Conflict(*kubectl annotate configmaps/settings -n operators core.rukpak.io/adopt=etcd*";
        deployment, live(json!({})) => "Conflict(*is not managed by a BundleInstance*\
            kubectl annotate deployments.apps/etcd -n operators core.rukpak.io/adopt=etcd*";
        // The annotation does not override a controller.
        config, adopt(labeled("other")) => "Conflict(*owned by BundleInstance other*delete that*";
        config, labeled("deleted") => "Conflict(*BundleInstance deleted, which no longer exists*adopt=etcd*";
        config, adopt(labeled("deleted")) => "Allowed";
        config, adopt(live(json!({"ownerReferences": controlled("ReplicaSet", "web", "another")})))
            => "Conflict(*controlled by ReplicaSet web*";
        // A terminating object is a conflict until it is deleted.
        config, with!(adopted("etcd") => deletion_timestamp: now) => "Terminating(*is being deleted*";
        config, live(json!({"ownerReferences": controlled("BundleInstance", "etcd", "another")}))
            => "Terminating(*an earlier BundleInstance of the same name*";
    ]);
}

#[test]
fn existing_namespaces_and_default_accounts_are_shared() {
    let namespace = &step("v1", "Namespace", "operators");
    let account = &step("v1", "ServiceAccount", "default");
    let helm = json!({"meta.helm.sh/release-name": "etcd", "meta.helm.sh/release-namespace": "db"});
    let own = json!({"app.kubernetes.io/name": "rukpak", "app.kubernetes.io/part-of": "rukpak"});
    let shared = "Shared(*used unchanged*adopt=etcd*";
    assert_decisions(::tests::rows![
        namespace, labeled("etcd") => "Allowed";
        namespace, adopted("etcd") => "Allowed";
        namespace, live(json!({})) => shared;
        namespace, labeled("deleted") => shared;
        namespace, live(json!({"annotations": helm})) => shared;
        namespace, labeled("other") => "Shared(*owned by BundleInstance other*";
        namespace, live(json!({"labels": own, "annotations": {"core.rukpak.io/adopt": "etcd"}}))
            => "Conflict(*the provisioner's own installation*";
        account, live(json!({})) => shared;
        account, labeled("other") => "Conflict(*BundleInstance other*";
        &step("v1", "ServiceAccount", "etcd"), live(json!({})) => "Conflict(*adopt=etcd*";
    ]);
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

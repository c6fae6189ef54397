//! Bundles that a BundleInstance owns.

use super::*;
use crate::support::{apply, merge_status};

/// Returns the owner reference of a Bundle to an instance, as the provisioner writes it.
fn reference(instance: &DynamicObject) -> Value {
    json!([{"apiVersion": "core.rukpak.io/v1alpha1", "kind": INSTANCE, "controller": true,
        "name": instance.metadata.name, "uid": instance.metadata.uid}])
}

fn owner_labels(name: &str) -> Value {
    json!({"core.rukpak.io/owner-kind": INSTANCE, "core.rukpak.io/owner-name": name,
        "core.rukpak.io/bundle-template-hash": "0123", "table": "bundles"})
}

// parity: rukpak-11
#[tokio::test]
async fn owned_bundles_are_guarded_in_every_kind_of_request() {
    bundles_are_written_by_the_provisioner().await;
    bundles_are_deleted_with_the_permission_of_the_instance().await;
}

async fn bundles_are_written_by_the_provisioner() {
    const POLICY: &str = "bundle-ownership";
    let cluster = installed().await;
    let admin = cluster.client().unwrap();
    let dora = instance_admin("dora").await;
    let provisioner = client_of(cluster, PROVISIONER, &[]);
    let owner = store(&admin, &instance("doras", &image())).await;
    let mut owned = bundle("doras-1", &image());
    owned["metadata"]["ownerReferences"] = reference(&owner);
    owned["metadata"]["labels"] = owner_labels("doras");
    owned["metadata"]["finalizers"] = json!(["example.com/held"]);
    let free = bundle("free", &image());
    let with = |field: &str, value: Value| {
        let mut object = bundle("other", &image());
        object["metadata"][field] = value;
        object
    };
    let referring = with("ownerReferences", reference(&owner));
    let labeled = with("labels", owner_labels("doras"));
    let map = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]);
    let foreign = with("ownerReferences", map);
    let held = with("finalizers", json!(["example.com/held"]));
    denied(&dora, &Attempt::Create(&referring), POLICY).await;
    allowed(&provisioner, &owned).await;
    store(&provisioner, &owned).await;
    store(&dora, &free).await;
    let [collector, shared] = COLLECTORS.map(|user| upkeep(cluster, user));

    let of = |name: &'static str, metadata: Value| {
        Attempt::Patch(BUNDLE, name, json!({"metadata": metadata}))
    };
    let none = || json!({"finalizers": null});
    let more = || json!({"finalizers": ["example.com/held", "example.com/more"]});
    let released = || json!({"ownerReferences": null});
    let renamed = json!({"labels": {"core.rukpak.io/owner-name": "other"}});
    let unlabeled = json!({"labels": {"core.rukpak.io/bundle-template-hash": null}});
    let altered = |field: &str, value: Value| {
        let mut references = reference(&owner);
        references[0][field] = value;
        of("doras-1", json!({"ownerReferences": references}))
    };
    let with_another = || {
        let mut references = reference(&owner);
        let foreign = foreign["metadata"]["ownerReferences"].as_array().unwrap();
        references.as_array_mut().unwrap().extend(foreign.clone());
        of("doras-1", json!({"ownerReferences": references}))
    };
    let add_reference = || json!({"ownerReferences": reference(&owner)});
    let refers: &[&str] = &[
        "forbidden",
        POLICY,
        "metadata.ownerReferences: dora is not allowed to add, change or remove a reference to a BundleInstance",
        "leave them as they are",
    ];
    let is_labeled: &[&str] = &[
        "forbidden",
        POLICY,
        "metadata.labels: dora is not allowed to add, change or remove core.rukpak.io/owner-kind",
        "leave them as they are",
    ];
    let holds: &[&str] = &[
        "\"doras-1\" is forbidden",
        POLICY,
        "metadata.finalizers: dora is not allowed to change the finalizers",
        "delete the BundleInstance",
    ];
    let changes: &[&str] = &[
        POLICY,
        "is not allowed to add, change or remove a reference",
    ];
    check(&tests::rows![
        "dora creates a free one", &dora, Attempt::Create(&with("labels", json!({"a": "b"}))) => &[];
        "dora creates one of another kind", &dora, Attempt::Create(&foreign) => &[];
        "dora creates one with a reference", &dora, Attempt::Create(&referring) => refers;
        "dora creates one with labels", &dora, Attempt::Create(&labeled) => is_labeled;
        "dora creates one with a finalizer", &dora, Attempt::Create(&held) => &[];
        "dora adds the reference later", &dora, of("free", add_reference()) => refers;
        "dora adds the labels later", &dora, of("free", json!({"labels": owner_labels("doras")})) => is_labeled;
        "dora removes the reference", &dora, of("doras-1", released()) => refers;
        "dora renames the owner", &dora, altered("name", json!("other")) => refers;
        "dora makes it no controller", &dora, altered("controller", json!(false)) => refers;
        "dora makes it another kind", &dora, altered("kind", json!("Other")) => refers;
        "dora adds a reference to another kind", &dora, with_another() => &[];
        "dora changes free ones", &dora, of("free", more()) => &[];
        "dora annotates", &dora, of("doras-1", json!({"annotations": {"a": "b"}})) => &[];
        "dora changes a label", &dora, of("doras-1", renamed) => is_labeled;
        "dora removes a label", &dora, of("doras-1", unlabeled) => is_labeled;
        "dora adds a finalizer", &dora, of("doras-1", more()) => holds;
        "dora removes a finalizer", &dora, of("doras-1", none()) => holds;
        "an admin creates one with a reference", &admin, Attempt::Create(&referring) => changes;
        "the provisioner creates both", &provisioner, Attempt::Create(&referring) => &[];
        "the collector releases", &collector, of("doras-1", released()) => &[];
        "the collector renames the owner", &collector, altered("name", json!("other")) => changes;
        "the collector finalizes", &collector, of("doras-1", none()) => &[];
        "the shared one releases", &shared, of("doras-1", released()) => &[];
        "the shared one finalizes", &shared, of("doras-1", none()) => &[];
    ])
    .await;
    let status = json!({"status": {"phase": "Pending"}});
    merge_status(&api(provisioner, BUNDLE), "doras-1", &status).await;
}

async fn bundles_are_deleted_with_the_permission_of_the_instance() {
    const POLICY: &str = "bundle-deletion";
    let cluster = installed().await;
    let admin = cluster.client().unwrap();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "bundles-only"},
        "rules": [{"apiGroups": ["core.rukpak.io"], "resources": ["bundles"], "verbs": ["*"]}],
    });
    apply(cluster, &role).await;
    bind("emil", "bundles-only", "ClusterRoleBinding").await;
    let emil = client_of(cluster, "emil", &[]);
    let finn = instance_admin("finn").await;
    let provisioner = client_of(cluster, PROVISIONER, &[]);
    let owner = store(&admin, &instance("finns", &image())).await;
    let mut owned = bundle("finns-1", &image());
    owned["metadata"]["ownerReferences"] = reference(&owner);
    owned["metadata"]["labels"] = json!({"table": "deletion"});
    allowed(&provisioner, &owned).await;
    store(&provisioner, &owned).await;
    store(&admin, &bundle("emils", &image())).await;
    denied(&emil, &Attempt::Delete(BUNDLE, "finns-1"), POLICY).await;
    let [collector, shared] = COLLECTORS.map(|user| upkeep(cluster, user));

    let refusal: &[&str] = &[
        "is forbidden",
        POLICY,
        "emil is not allowed to delete Bundle finns-1 of BundleInstance finns; ask for the verb delete",
    ];
    let one = || Attempt::Delete(BUNDLE, "finns-1");
    let all = || Attempt::DeleteAll(BUNDLE, "deletion");
    check(&tests::rows![
        "emil deletes", &emil, one() => refusal;
        "emil deletes all", &emil, all() => refusal;
        "emil deletes a free one", &emil, Attempt::Delete(BUNDLE, "emils") => &[];
        "finn deletes", &finn, one() => &[];
        "finn deletes all", &finn, all() => &[];
        "the provisioner deletes", &provisioner, one() => &[];
        "the collector deletes", &collector, one() => &[];
        "the shared one deletes", &shared, one() => &[];
        "an admin deletes", &admin, one() => &[];
    ])
    .await;
}

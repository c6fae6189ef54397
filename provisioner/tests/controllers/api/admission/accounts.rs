//! BundleInstances that name a service account.

use super::*;
use crate::{
    api::platform::{defined, operator},
    support::{apply, delete, merge_status},
};

fn with_account(name: &str, account: &str) -> Value {
    let account = json!({"name": account, "namespace": "default"});
    tests::with!(instance(name, &image()) => |object| object["spec"]["serviceAccount"] = account)
}

// parity: rukpak-46, openshift-27
#[tokio::test]
async fn named_accounts_are_guarded_in_every_kind_of_request() {
    instances_are_guarded().await;
    platform_operators_are_guarded().await;
}

async fn instances_are_guarded() {
    const POLICY: &str = "bundleinstance-service-account";
    const REFUSAL: &[&str] = &[
        "is forbidden",
        POLICY,
        "BundleInstance annas: spec.serviceAccount: ben is not allowed to impersonate the ServiceAccount default/keeper: ask for the verb \
         impersonate on it (ClusterRole bundle-instance-impersonator, bound in the namespace default)",
    ];
    let cluster = installed().await;
    let admin = cluster.client().unwrap();
    let (anna, ben) = (instance_admin("anna").await, instance_admin("ben").await);
    bind("anna", "bundle-instance-impersonator", "RoleBinding").await;
    let mut annas = with_account("annas", "keeper");
    annas["metadata"]["labels"] = json!({"table": "accounts"});
    allowed(&anna, &annas).await;
    denied(&ben, &Attempt::Create(&annas), POLICY).await;
    let mut stored = annas.clone();
    stored["metadata"]["finalizers"] = json!(["core.rukpak.io/uninstall"]);
    store(&admin, &stored).await;
    store(&admin, &instance("bens", &image())).await;
    let [collector, shared] = COLLECTORS.map(|user| upkeep(cluster, user));
    let provisioner = upkeep(cluster, PROVISIONER);

    let of_annas = |patch: Value| Attempt::Patch(INSTANCE, "annas", patch);
    let metadata = |value: Value| of_annas(json!({"metadata": value}));
    let finalizers = || json!({"finalizers": ["core.rukpak.io/uninstall", "example.com/held"]});
    let owned = || json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]});
    let account =
        || json!({"spec": {"serviceAccount": {"name": "keeper", "namespace": "default"}}});
    let label = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    let away = json!({"spec": {"serviceAccount": null}});
    let annotated = || json!({"annotations": {"core.rukpak.io/retry": "1"}});
    let orphaned = || json!({"annotations": {"core.rukpak.io/orphaned": "1"}});
    let bens_refusal = &[
        "is forbidden",
        POLICY,
        "BundleInstance bens: spec.serviceAccount: ben is not allowed to impersonate the ServiceAccount default/keeper",
    ];
    let other = json!({"spec": {"serviceAccount": {"name": "other"}}});
    check(&tests::rows![
        "anna creates", &anna, Attempt::Create(&with_account("more", "keeper")) => &[];
        "ben creates", &ben, Attempt::Create(&with_account("annas", "keeper")) => REFUSAL;
        "ben adds it to another instance", &ben, Attempt::Patch(INSTANCE, "bens", account()) => bens_refusal;
        "anna changes the spec", &anna, of_annas(label.clone()) => &[];
        "ben changes the spec", &ben, of_annas(label.clone()) => REFUSAL;
        "ben names another account", &ben, of_annas(other)
            => &["is not allowed to impersonate the ServiceAccount default/other"];
        "ben takes the account away", &ben, of_annas(away.clone()) => REFUSAL;
        "anna takes the account away", &anna, of_annas(away) => &[];
        "ben creates one without an account", &ben, Attempt::Create(&instance("free", &image())) => &[];
        "an admin creates", &admin, Attempt::Create(&with_account("more", "keeper")) => &[];
        "ben labels", &ben, metadata(json!({"labels": {"table": "accounts", "a": "b"}})) => &[];
        "ben annotates", &ben, metadata(annotated()) => &[];
        "ben records orphaned objects", &ben, metadata(orphaned()) => REFUSAL;
        "ben adds a finalizer", &ben, metadata(finalizers()) => REFUSAL;
        "ben takes the finalizer off", &ben, metadata(json!({"finalizers": null})) => REFUSAL;
        "ben adds an owner", &ben, metadata(owned()) => REFUSAL;
        "ben deletes", &ben, Attempt::Delete(INSTANCE, "annas") => REFUSAL;
        "ben deletes all", &ben, Attempt::DeleteAll(INSTANCE, "accounts") => REFUSAL;
        "ben deletes another instance", &ben, Attempt::Delete(INSTANCE, "bens") => &[];
        "anna adds a finalizer", &anna, metadata(finalizers()) => &[];
        "anna takes the finalizer off", &anna, metadata(json!({"finalizers": null})) => &[];
        "anna adds an owner", &anna, metadata(owned()) => &[];
        "anna deletes", &anna, Attempt::Delete(INSTANCE, "annas") => &[];
        "anna deletes all", &anna, Attempt::DeleteAll(INSTANCE, "accounts") => &[];
        "the provisioner records orphaned objects", &provisioner, metadata(orphaned()) => &[];
        "the provisioner sets its finalizer", &provisioner, metadata(finalizers()) => &[];
        "the provisioner prunes", &provisioner, Attempt::Delete(INSTANCE, "annas") => &[];
        "the collector deletes", &collector, Attempt::Delete(INSTANCE, "annas") => &[];
        "the collector takes finalizers off", &collector, metadata(json!({"finalizers": null})) => &[];
        "the collector takes owners off", &collector, metadata(owned()) => &[];
        "the shared one deletes", &shared, Attempt::Delete(INSTANCE, "annas") => &[];
        "the shared one takes finalizers off", &shared, metadata(json!({"finalizers": null})) => &[];
        "an admin deletes", &admin, Attempt::Delete(INSTANCE, "annas") => &[];
    ])
    .await;
    let status = json!({"status": {"installedBundleName": "x"}});
    merge_status(&api(provisioner, INSTANCE), "annas", &status).await;
}

/// The provisioner creates the BundleInstance, so the user who names the service account is checked on the
/// PlatformOperator.
async fn platform_operators_are_guarded() {
    const REFUSAL: &[&str] = &[
        "spec.bundle.serviceAccount: carol is not allowed to impersonate the ServiceAccount default/installer",
    ];
    let cluster = defined().await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "platform-admin"},
        "rules": [{"apiGroups": ["platform.openshift.io"], "resources": ["*"], "verbs": ["*"]}],
    });
    apply(cluster, &role).await;
    for user in ["carol", "dave"] {
        bind(user, "platform-admin", "ClusterRoleBinding").await;
    }
    bind("dave", "bundle-instance-impersonator", "RoleBinding").await;
    let [carol, dave] = ["carol", "dave"].map(|user| client_of(cluster, user, &[]));
    let [provisioner, collector, shared] =
        [PROVISIONER, COLLECTORS[0], COLLECTORS[1]].map(|user| upkeep(cluster, user));
    let with = |name: &str, bundle: Value| {
        let spec = json!({"package": {"name": "etcd"}, "bundle": bundle});
        operator(name, &spec)
    };
    let account = json!({"serviceAccount": {"name": "installer", "namespace": "default"}});
    let named = with("named", account);
    denied(&carol, &Attempt::Create(&named), REFUSAL[0]).await;
    allowed(&dave, &named).await;
    store(&dave, &named).await;

    let patch = |patch: Value| Attempt::Patch(OPERATOR, "named", patch);
    let channel = || patch(json!({"spec": {"channel": "other"}}));
    let no_account = || patch(json!({"spec": {"bundle": null}}));
    let held = || patch(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"});
    let owned = || patch(json!({"metadata": {"ownerReferences": [owner]}}));
    let annotated = || patch(json!({"metadata": {"annotations": {"a": "b"}}}));
    let deleted = || Attempt::Delete(OPERATOR, "named");
    let elsewhere = with("unnamed", json!({"installNamespace": "etcd"}));
    check(&tests::rows![
        "carol creates", &carol, Attempt::Create(&named) => REFUSAL;
        "carol changes the spec", &carol, channel() => REFUSAL;
        "carol takes the account away", &carol, no_account() => REFUSAL;
        "carol deletes", &carol, deleted() => REFUSAL;
        "carol adds a finalizer", &carol, held() => REFUSAL;
        "carol adds an owner", &carol, owned() => REFUSAL;
        "carol annotates", &carol, annotated() => &[];
        "carol creates one without an account", &carol, Attempt::Create(&with("unnamed", json!({}))) => &[];
        "carol names a namespace", &carol, Attempt::Create(&elsewhere) => &[];
        "dave changes the spec", &dave, channel() => &[];
        "dave takes the account away", &dave, no_account() => &[];
    ])
    .await;
    for client in [&dave, &provisioner, &collector, &shared] {
        check(&tests::rows![
            "deletes", client, deleted() => &[];
            "adds a finalizer", client, held() => &[];
            "adds an owner", client, owned() => &[];
            "annotates", client, annotated() => &[];
        ])
        .await;
    }
    delete(&api(cluster.client().unwrap(), OPERATOR), "named").await;
}

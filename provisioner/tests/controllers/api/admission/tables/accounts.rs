//! BundleInstances that name an account.

use super::*;
use crate::support::merge_status;

// parity: rukpak-46
#[tokio::test]
async fn an_account_is_guarded_in_every_kind_of_request() {
    const POLICY: &str = "bundleinstance-service-account";
    const REFUSAL: &[&str] = &[
        "is forbidden",
        POLICY,
        "BundleInstance annas: spec.serviceAccount: ben is not allowed to impersonate the ServiceAccount default/keeper: ask for the verb \
         impersonate on it (ClusterRole bundle-instance-impersonator, bound in the namespace default)",
    ];
    let cluster = installed().await;
    let admin = cluster.client().unwrap();
    let (anna, ben) = (somebody("anna").await, somebody("ben").await);
    bind("anna", "bundle-instance-impersonator", "RoleBinding").await;
    let mut annas = with_account("annas", "keeper");
    annas["metadata"]["labels"] = json!({"table": "accounts"});
    let mut bens = annas.clone();
    bens["metadata"]["name"] = json!("bens");
    eventually("anna may name the account", async || {
        create(anna.clone(), &annas, true).await
    })
    .await;
    denied(&ben, &Attempt::Create(&annas), POLICY).await;
    let mut stored = annas.clone();
    stored["metadata"]["finalizers"] = json!(["core.rukpak.io/uninstall"]);
    create(admin.clone(), &stored, false).await.unwrap();
    create(admin.clone(), &instance("bens", &image()), false)
        .await
        .unwrap();
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

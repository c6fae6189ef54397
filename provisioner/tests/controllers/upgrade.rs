//! What installed instances use of APIs that go, with real roles, and with OpenShift's own definition of what counts
//! requests.

use std::{fs, path::Path, sync::Arc};

use cluster::Cluster;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject},
};
use manifests::{api::instance::BundleInstance, yaml};
use provisioner::{context::Context, platform::upgrade, process, settings::Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use unpacker::{Store, store::Budget};

use crate::{
    openshift::module,
    support::{apply, delete, eventually, prepare, without_controllers},
};

const COUNTS: &str = "apirequestcounts.apiserver.openshift.io";

fn context(cluster: &Cluster) -> (Context, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let budget = Budget {
        disk: 1 << 30,
        memory: 1 << 20,
    };
    let store = Store::open(folder.path(), budget).unwrap();
    let settings = Settings {
        follow_openshift: false,
        ..Settings::default()
    };
    let (ctx, _) = process::context(cluster.config().clone(), settings, store).unwrap();
    (ctx, folder)
}

/// Makes an instance with these objects, as the provisioner lists them.
async fn instance(
    cluster: &Cluster,
    name: &str,
    account: Option<&str>,
    kinds: &Value,
) -> BundleInstance {
    let mut object = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance",
        "metadata": {"name": name},
        "spec": {
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"spec": {"source": {"type": "image", "image": {"ref": "a"}}}},
        },
    });
    if let Some(account) = account {
        object["spec"]["serviceAccount"] = json!({"name": account, "namespace": "default"});
    }
    apply(cluster, &object).await;
    object["status"] = json!({
        "installedBundleName": "a", "appliedDigest": "sha256:a", "installNamespace": "default",
        "inventory": {"count": 3, "kinds": kinds},
    });
    let api: Api<BundleInstance> = Api::all(cluster.client().unwrap());
    let params = PatchParams::apply("tests").force();
    let written = api.patch_status(name, &params, &Patch::Apply(object)).await;
    written.unwrap()
}

fn roles(name: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "objects": [format!("{name} 0f1e2d3c4b5a")]})
}

async fn count(cluster: &Cluster, account: &str) {
    let file = "apiserver/v1/zz_generated.crd-manifests/kube-apiserver_apirequestcounts.crd.yaml";
    let folder = module();
    let bytes = fs::read(Path::new(&folder).join(file)).unwrap();
    let definition = yaml::documents(&bytes).next().unwrap().unwrap();
    apply(cluster, &definition).await;
    cluster.wait_established(COUNTS).await.unwrap();
    let resource = ApiResource {
        group: "apiserver.openshift.io".into(),
        version: "v1".into(),
        api_version: "apiserver.openshift.io/v1".into(),
        kind: "APIRequestCount".into(),
        plural: "apirequestcounts".into(),
    };
    let api: Api<DynamicObject> = Api::all_with(cluster.client().unwrap(), &resource);
    // More than a page.
    for number in 0..30 {
        let name = format!("servicecidrs.v1beta{number}.networking.k8s.io");
        let user = json!({"username": format!("system:serviceaccount:{account}"), "userAgent": "x", "requestCount": 3,
                          "byVerb": [{"verb": "get", "requestCount": 3}]});
        let node = json!({"nodeName": "10.0.0.1", "requestCount": 3, "byUser": [user]});
        let hour = json!({"requestCount": 3, "byNode": [node]});
        let removed = if number == 29 { "1.37" } else { "1.38" };
        let mut object = json!({
            "apiVersion": "apiserver.openshift.io/v1", "kind": "APIRequestCount", "metadata": {"name": name},
            "spec": {"numberOfUsersToReport": 10},
        });
        apply(cluster, &object).await;
        object["status"] = json!({
            "conditions": [], "removedInRelease": removed, "requestCount": 3, "currentHour": hour, "last24h": [hour],
        });
        let params = PatchParams::apply("tests").force();
        api.patch_status(&name, &params, &Patch::Apply(object))
            .await
            .unwrap();
    }
}

async fn becomes(ctx: &Context, instance: &BundleInstance, expected: &[&str]) {
    eventually("what is used is told", async || {
        let told = ctx.uses.of(instance).ok_or("nobody has looked")?;
        let is = told.len() == expected.len()
            && told
                .iter()
                .zip(expected)
                .all(|(told, words)| told.contains(words));
        is.then_some(()).ok_or(format!("{told:?}"))
    })
    .await;
}

// parity: max-21
#[tokio::test]
async fn what_goes_with_the_next_kubernetes_is_found_once_and_told() {
    let cluster = without_controllers().await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "tide:reader"},
        "rules": [{"apiGroups": ["networking.k8s.io"], "resources": ["ipaddresses"], "verbs": ["get"]}],
    });
    apply(&cluster, &role).await;
    prepare(&cluster).await;
    count(&cluster, "default:tide").await;
    let (ctx, _folder) = context(&cluster);
    let stop = CancellationToken::new();
    let running = tokio::spawn(upgrade::run(ctx.clone(), stop.clone()));
    let kinds = {
        let (kinds, stop) = (Arc::clone(&ctx.kinds), stop.clone());
        tokio::spawn(async move { kinds.run(stop).await })
    };

    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "objects": ["default/tide"]});
    let cidr = json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "ServiceCIDR", "objects": ["mine"]});
    let tide = instance(
        &cluster,
        "tide",
        None,
        &json!([roles("tide:reader"), account, cidr]),
    )
    .await;
    // An account that may read no roles, and a role that is gone: that is no use of anything, and holds nobody up.
    let tenant = instance(
        &cluster,
        "tenant",
        Some("nobody"),
        &json!([roles("tide:reader")]),
    )
    .await;
    let gone = instance(&cluster, "gone", None, &json!([roles("gone")])).await;
    let mut changes = ctx.uses.changes();
    for it in [&tenant, &gone, &tide] {
        assert_eq!(ctx.uses.of(it), None);
    }
    let words = [
        "ServiceAccount default/tide called servicecidrs.v1beta29.networking.k8s.io 3 times within a day, which Kubernetes 1.37",
        "ClusterRole tide:reader names the resource of IPAddress, of which Kubernetes 1.37 does not serve",
        "ServiceCIDR mine is in networking.k8s.io/v1beta1, which Kubernetes 1.37 does not serve; it is applied in \
         networking.k8s.io/v1 then",
    ];
    becomes(&ctx, &tide, &[words[0], words[1], words[2]]).await;
    changes.changed().await.unwrap();
    becomes(&ctx, &tenant, &[]).await;
    becomes(&ctx, &gone, &[]).await;
    assert_eq!(ctx.uses.count(), 1);
    let metrics = ctx.metrics.render();
    assert!(
        metrics.contains("rukpak_instances_with_apis_that_go 1"),
        "{metrics}"
    );

    // Requests are counted no longer.
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client().unwrap());
    delete(&definitions, COUNTS).await;
    becomes(&ctx, &tide, &[words[1], words[2]]).await;

    ctx.uses.retain(|name| name != "tide");
    assert_eq!(ctx.uses.count(), 0);
    stop.cancel();
    running.await.unwrap();
    kinds.await.unwrap();
}

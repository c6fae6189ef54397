//! The calls to removed APIs that a cluster counts, with the CRD of OpenShift.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::version::KubeVersion;
use provisioner::controllers::cluster_operator::{instance::ObservedInstance, removed_apis};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    catalogs::{context, settings},
    openshift::crd,
    support::{
        apply, define, delete, image, instance, merge_status, prepare, until, without_controllers,
    },
};

const API_REQUEST_COUNT: &str = "apirequestcounts.apiserver.openshift.io";

// parity: max-21
#[tokio::test]
async fn counted_calls_are_followed() {
    let cluster = without_controllers().await;
    prepare(&cluster).await;
    // An account calls APIs that later versions remove.
    let file = "apiserver/v1/zz_generated.crd-manifests/kube-apiserver_apirequestcounts.crd.yaml";
    define(&cluster, &crd((API_REQUEST_COUNT, file))).await;
    let kind = GroupVersionKind::gvk("apiserver.openshift.io", "v1", "APIRequestCount");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(cluster.client().unwrap(), &resource);
    // More than one page.
    for number in 0..30 {
        let name = format!("servicecidrs.v1beta{number}.networking.k8s.io");
        let user = json!({"username": "system:serviceaccount:default:tide", "userAgent": "x", "requestCount": 3,
            "byVerb": [{"verb": "get", "requestCount": 3}]});
        let hour = json!({"requestCount": 3, "byNode": [{"nodeName": "10.0.0.1", "requestCount": 3, "byUser": [user]}]});
        let removed = if number == 29 { "1.37" } else { "1.38" };
        let object = json!({"apiVersion": "apiserver.openshift.io/v1", "kind": "APIRequestCount", "metadata": {"name": name},
            "spec": {"numberOfUsersToReport": 10}});
        apply(&cluster, &object).await;
        let status = json!({
            "conditions": [], "removedInRelease": removed, "requestCount": 3, "currentHour": hour, "last24h": [hour],
        });
        merge_status(&api, &name, &json!({"status": status})).await;
    }
    let (config, dir) = (cluster.config().clone(), tempfile::tempdir().unwrap());
    let ctx = context(config, dir.path(), None, settings());
    let stop = CancellationToken::new();
    let running = tokio::spawn(removed_apis::run(ctx.clone(), stop.clone()));
    let (kinds, end) = (Arc::clone(&ctx.discovery), stop.clone());
    let kinds = tokio::spawn(async move { kinds.run(end).await });
    let mut instance = instance("tide", "plain", image("a"));
    let status = json!({"installedBundleName": "a",
        "inventory": {"count": 1, "kinds": [{"apiVersion": "v1", "kind": "ServiceAccount", "objects": ["default/tide"]}]},
        "revisions": [{"number": 1, "state": "Active", "cause": "Install", "bundle": "a", "digest": "d", "checksum": "c",
            "parts": 1, "created": "2026-01-01T00:00:00Z", "removedApis": []}]});
    instance.status = Some(serde_json::from_value(status).unwrap());
    let instance = ObservedInstance::new(&instance);
    let mut changes = ctx.removed_apis.changes();
    let becomes = async |expected: &[&str]| {
        let version = Some(KubeVersion::new(1, 36));
        let messages = async || ctx.removed_apis.removed(&instance, version).messages;
        let are_expected = |messages: &Vec<String>| messages == expected;
        until("messages about removed APIs", messages, are_expected).await;
    };
    becomes(&[
        "ServiceAccount default/tide called servicecidrs.v1beta29.networking.k8s.io 3 times within a day; Kubernetes 1.37 \
         does not serve this API",
    ])
    .await;
    changes.changed().await.unwrap();

    // The cluster no longer counts calls.
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client().unwrap());
    delete(&crds, API_REQUEST_COUNT).await;
    becomes(&[]).await;
    stop.cancel();
    running.await.unwrap();
    kinds.await.unwrap();
}

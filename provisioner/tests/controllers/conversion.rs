//! CatalogSources of two versions, with the project's CRD of both, and the webhook that converts them.

mod stored_objects;

use std::{net::SocketAddr, time::Duration};

use cluster::Cluster;
use k8s_openapi::{
    api::core::v1::Secret,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use manifests::yaml;
use provisioner::conversion_webhook::{NAME, Options, Webhook};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::support::{SYSTEM, create, delete, eventually, list, merge, until, with_controllers};

const DEFINITION: &str = "catalogsources.operators.coreos.com";
const NAMESPACE: &str = "default";

struct Working {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Working {
    async fn start(client: &Client, port: u16) -> Self {
        let options = Options {
            bind: ([127, 0, 0, 1], port).into(),
            namespace: SYSTEM.to_owned(),
            tls_secret: None,
        };
        let webhook = Webhook::bind(client, options).await.unwrap();
        let (address, stop) = (webhook.address(), CancellationToken::new());
        Self {
            address,
            task: tokio::spawn(webhook.run(stop.clone())),
            stop,
        }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Returns the first document of a file of the project.
fn file(path: &str) -> Value {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests");
    let text = std::fs::read(format!("{dir}/{path}")).unwrap();
    let mut documents = yaml::documents(&text).map(Result::unwrap);
    documents.find(|document| !document.is_null()).unwrap()
}

fn sources(client: &Client, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("operators.coreos.com", version, "CatalogSource");
    Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind))
}

fn source(version: &str, name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": format!("operators.coreos.com/{version}"), "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
    }))
    .unwrap()
}

async fn bundle(crds: &Api<CustomResourceDefinition>) -> Option<Vec<u8>> {
    let crd = crds.get(DEFINITION).await.unwrap();
    Some(crd.spec.conversion?.webhook?.client_config?.ca_bundle?.0)
}

/// Applies the CRD with v1 and the address of the webhook, because the API server of a test resolves no Services.
async fn define(cluster: &Cluster, address: SocketAddr) {
    let mut crd = file("optional/catalogsource-v1/definition.yaml");
    let config = &mut crd["spec"]["conversion"]["webhook"]["clientConfig"];
    assert_eq!(config["service"]["name"], NAME);
    assert_eq!(config["service"]["namespace"], SYSTEM);
    assert_eq!(config["service"]["path"], "/convert");
    *config = json!({"url": format!("https://{address}/convert")});
    crate::support::define(cluster, &crd).await;
}

async fn read_v1(new: &Api<DynamicObject>, name: &str) -> DynamicObject {
    eventually("served in v1", async || {
        new.get(name).await.map_err(|error| error.to_string())
    })
    .await
}

// parity: source-2, source-15
#[tokio::test]
async fn catalog_sources_have_two_versions_and_store_the_old_one() {
    let cluster = with_controllers().await;
    let client = cluster.client().unwrap();
    let mut base = file(&format!("optional/{DEFINITION}.yaml"));
    stored_objects::no_source(&cluster, &base).await;

    // Objects that were stored before.
    let (old, new) = (sources(&client, "v1alpha1"), sources(&client, "v1"));
    let stored = json!({"sourceType": "internal", "configMap": "m", "displayName": "Mine"});
    create(&old, &source("v1alpha1", "before", &stored)).await;

    let webhook = Working::start(&client, 0).await;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    define(&cluster, webhook.address).await;
    let object = read_v1(&new, "before").await;
    tests::assert_rows!(object.data["spec"] => json!({"configMapSource": {"configMap": "m"}, "displayName": "Mine"}));
    assert_eq!(old.get("before").await.unwrap().data["spec"], stored);

    // Clients that know only the old version can read an object that is written in the new one.
    let spec = json!({"catalogImageSource": {
        "catalogImage": "quay.io/example/catalog:v1", "podSpecOverrides": {"priorityClassName": ""},
    }});
    create(&new, &source("v1", "after", &spec)).await;
    let object = old.get("after").await.unwrap();
    let mut expected = json!({
        "sourceType": "grpc", "image": "quay.io/example/catalog:v1", "grpcPodConfig": {"priorityClassName": ""},
    });
    assert_eq!(object.data["spec"], expected);
    tests::assert_rows!(crds.get(DEFINITION).await.unwrap().status.unwrap().stored_versions.unwrap() => ["v1alpha1"]);
    expected["image"] = "quay.io/example/catalog:v2".into();
    let change = json!({"spec": {"catalogImageSource": {"catalogImage": expected["image"]}}});
    merge(&new, "after", &change).await;
    let object = old.get("after").await.unwrap();
    assert_eq!(object.data["spec"], expected);
    assert_eq!(list(&new).await.len(), 3);
    // Contradictions are rejected with the announced messages. Fields that v1 lacks are not dropped silently.
    let one_of = |found: &str| {
        format!("*\"spec\" must validate one and only one schema (oneOf)*Found {found}*")
    };
    let (image, service) = (json!({"catalogImage": "a"}), json!({"address": "a:1"}));
    let map = json!({"configMap": "m"});
    for (spec, pattern) in tests::rows![
        json!({}) => one_of("none valid");
        // The message that the design document quotes.
        json!({"displayName": "a"}) => one_of("none valid, spec.catalogServiceSource: Required value");
        json!({"catalogImageSource": image, "configMapSource": map}) => one_of("2 valid alternatives");
        json!({"catalogImageSource": image, "catalogServiceSource": service}) => one_of("2 valid alternatives");
        json!({"catalogImageSource": image, "catalogServiceSource": service, "configMapSource": map})
            => one_of("3 valid alternatives");
        json!({"catalogImageSource": {}}) => "*spec.catalogImageSource.catalogImage*Required value*".to_owned();
        json!({"catalogServiceSource": {"address": ""}}) => "*spec.catalogServiceSource.address*at least 1 chars*".to_owned();
        json!({"configMapSource": {}}) => "*spec.configMapSource.configMap*Required value*".to_owned();
    ] {
        let contrary = source("v1", "contrary", &spec);
        let created = new.create(&PostParams::default(), &contrary).await;
        tests::table::assert_outcome(created.map(|object| object.data), Err(&pattern), &spec);
    }

    stored_objects::nesting_is_bounded(&new).await;
    stored_objects::unread_fields_are_kept(&client).await;

    let port = webhook.address.port();
    // Without the webhook, objects of the stored version are served, and conversions fail at once.
    webhook.stop().await;
    old.get("after").await.unwrap();
    let begin = Instant::now();
    let failed = new.get("after").await.unwrap_err().to_string();
    assert!(failed.contains("conversion webhook"), "{failed}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{failed}");
    let before = bundle(&crds).await;
    let webhook = Working::start(&client, port).await;
    read_v1(&new, "after").await;
    assert_eq!(bundle(&crds).await, before);
    // A lost CA is created again and written into the CRD.
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
    delete(&secrets, NAME).await;
    let ca = async || bundle(&crds).await;
    until("another CA", ca, |now| *now != before).await;
    read_v1(&new, "after").await;
    webhook.stop().await;

    // The return to the old CRD needs no webhook, and nothing is lost.
    let version = crds.get(DEFINITION).await.unwrap().metadata;
    base["metadata"]["resourceVersion"] = version.resource_version.into();
    let (params, base) = (PostParams::default(), serde_json::from_value(base).unwrap());
    crds.replace(DEFINITION, &params, &base).await.unwrap();
    assert_eq!(old.get("before").await.unwrap().data["spec"], stored);
    eventually("v1 is not served", async || match new.get("after").await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

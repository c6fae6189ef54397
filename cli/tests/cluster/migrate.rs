//! `rukpak catalogsource migrate`.

mod interrupted;

use cluster::Cluster;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use manifests::api::{catalog_source::CatalogSource, crds};
use serde_json::{Value, json};

use crate::environment::{Rukpak as _, apply, bare};

const NAME: &str = "catalogsources.operators.coreos.com";

fn crd(change: impl FnOnce(&mut Value)) -> Value {
    let [_, crd] = crds::optional_crds();
    let mut crd = serde_json::to_value(crd).unwrap();
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    // A version that was stored earlier and is no longer served.
    let mut former = versions[0].clone();
    former["name"] = "v1alpha0".into();
    former["served"] = false.into();
    former["storage"] = false.into();
    versions.push(former);
    change(&mut versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]);
    crd
}

fn crd_api(cluster: &Cluster) -> Api<CustomResourceDefinition> {
    Api::all(cluster.client().unwrap())
}

async fn store_versions(cluster: &Cluster, stored: &[&str]) {
    let status = Patch::Merge(json!({"status": {"storedVersions": stored}}));
    let (crds, params) = (crd_api(cluster), PatchParams::default());
    crds.patch_status(NAME, &params, &status).await.unwrap();
}

async fn stored_versions(cluster: &Cluster) -> Vec<String> {
    let crd = crd_api(cluster).get(NAME).await.unwrap();
    crd.status.unwrap().stored_versions.unwrap()
}

fn source(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

// parity: source-12
#[tokio::test(flavor = "multi_thread")]
async fn stored_sources_are_corrected_despite_killed_runs() {
    let cluster = bare().await;
    tests::assert_runs! { cluster; "catalogsource migrate" => 1, "", "the cluster does not serve CatalogSources"; }
    interrupted::each_run_is_completed_by_the_next_one(&cluster).await;
    unused_fields_are_deleted_only_with_the_rukpak_crd(&cluster).await;
}

async fn unused_fields_are_deleted_only_with_the_rukpak_crd(cluster: &Cluster) {
    // The CRD of OLM has no field for the new sources.
    let both_stored = ["v1alpha0", "v1alpha1"];
    let foreign = crd(|spec| {
        let properties = spec["properties"].as_object_mut().unwrap();
        properties.retain(|name, _| !name.ends_with("Source"));
        let rules = spec.as_object_mut().unwrap();
        rules.remove("x-kubernetes-validations");
    });
    let both = json!({"sourceType": "grpc", "image": "a:1", "address": "b:2", "displayName": "x"});
    let good = json!({"sourceType": "grpc", "image": "a:1"});
    let odd = json!({"sourceType": "foo", "image": "a:1"});
    let sources = [("both", &both), ("good", &good), ("odd", &odd)];
    let sources = sources.map(|(name, spec)| source(name, spec));
    apply(cluster, [foreign].into_iter().chain(sources)).await;
    store_versions(cluster, &both_stored).await;
    let sources: Api<CatalogSource> = Api::namespaced(cluster.client().unwrap(), "default");
    let spec =
        async |name: &str| serde_json::to_value(sources.get(name).await.unwrap().spec).unwrap();
    tests::assert_runs! { cluster;
        "catalogsource migrate" => 1, "", "is not rukpak's because it has no field catalogImageSource; it is probably \
                                           OLM's; no changes were made";
    }
    assert_eq!(spec("both").await, both);
    assert_eq!(stored_versions(cluster).await, both_stored);

    apply(cluster, [crd(|_| {})]).await;
    store_versions(cluster, &both_stored).await;
    let line =
        "catalogsource/default/both: spec.address \"b:2\" dropped: ignored when image is set";
    tests::assert_runs! { cluster; "catalogsource migrate --dry-run=server" => 1, ["{line} (server dry run)\n"]; }
    assert_eq!(spec("both").await, both);
    assert_eq!(stored_versions(cluster).await, both_stored);
    tests::assert_runs! { cluster;
        "catalogsource migrate" => 1, "{line}\ncustomresourcedefinition/{NAME}: stored versions v1alpha0 removed\n",
            "CatalogSource default/odd: unknown sourcetype: foo: must be grpc or configmap; fix its spec";
    }
    let corrected = json!({"sourceType": "grpc", "image": "a:1", "displayName": "x"});
    assert_eq!(spec("both").await, corrected);
    assert_eq!(spec("odd").await["sourceType"], "foo");
    assert_eq!(stored_versions(cluster).await, ["v1alpha1"]);

    // After the last CatalogSource is corrected, no change remains.
    let patch = Patch::Merge(json!({"spec": {"sourceType": "grpc"}}));
    let params = PatchParams::default();
    sources.patch("odd", &params, &patch).await.unwrap();
    let before = sources.get("both").await.unwrap();
    let run = cluster.ok("catalogsource migrate");
    assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""));
    assert_eq!(sources.get("both").await.unwrap().metadata, before.metadata);
}

//! `rukpak catalogsource migrate`.

mod killed;

use std::process::{Command, Stdio};

use cluster::{Cluster, DryRun};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use manifests::api::{catalog_source::CatalogSource, definitions};
use serde_json::{Value, json};

use crate::world::{Run, bare, binary};

const NAME: &str = "catalogsources.operators.coreos.com";

fn definition(of: impl FnOnce(&mut Value)) -> Value {
    let all = definitions::foreign();
    let ours = all.iter().find(|it| it.spec.names.kind == "CatalogSource");
    let mut definition = serde_json::to_value(ours.unwrap()).unwrap();
    // A version that was once stored, and is not served any more.
    let mut former = definition["spec"]["versions"][0].clone();
    former["name"] = "v1alpha0".into();
    former["served"] = false.into();
    former["storage"] = false.into();
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    versions.push(former);
    of(&mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]);
    definition
}

async fn define(cluster: &Cluster, definition: &Value, stored: &[&str]) {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client().unwrap());
    let params = PatchParams::apply("test").force();
    api.patch(NAME, &params, &Patch::Apply(definition))
        .await
        .unwrap();
    cluster.wait_established(NAME).await.unwrap();
    let status = json!({"status": {"storedVersions": stored}});
    api.patch_status(NAME, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

async fn stored_versions(cluster: &Cluster) -> Vec<String> {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client().unwrap());
    let definition = api.get(NAME).await.unwrap();
    definition.status.unwrap().stored_versions.unwrap()
}

fn migrate(cluster: &Cluster, args: &[&str]) -> Run {
    let mut command = Command::new(binary());
    command
        .args(["catalogsource", "migrate", "--kubeconfig"])
        .arg(cluster.kubeconfig_path())
        .args(args);
    command.stdin(Stdio::null()).output().unwrap().into()
}

// parity: source-12
#[tokio::test(flavor = "multi_thread")]
async fn stored_sources_are_corrected_even_by_runs_that_are_killed() {
    let cluster = bare().await;
    migrate(&cluster, &[])
        .exits(1)
        .says("the cluster has no CatalogSources");
    killed::every_run_is_ended_by_the_next_one(&cluster).await;
    unused_fields_are_deleted_from_our_definition_alone(&cluster).await;
}

async fn unused_fields_are_deleted_from_our_definition_alone(cluster: &Cluster) {
    // As OLM's: without the new members.
    let both_stored = ["v1alpha0", "v1alpha1"];
    let foreign = definition(|spec| {
        spec["properties"]
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !name.ends_with("Source"));
        spec.as_object_mut()
            .unwrap()
            .remove("x-kubernetes-validations");
    });
    define(cluster, &foreign, &both_stored).await;
    let both = json!({"sourceType": "grpc", "image": "a:1", "address": "b:2", "displayName": "x"});
    for (name, spec) in [
        ("both", both.clone()),
        ("good", json!({"sourceType": "grpc", "image": "a:1"})),
        ("odd", json!({"sourceType": "foo", "image": "a:1"})),
    ] {
        let object = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        });
        cluster.apply(&object, DryRun::No).await.unwrap();
    }
    let sources: Api<CatalogSource> = Api::namespaced(cluster.client().unwrap(), "default");
    let spec =
        async |name: &str| serde_json::to_value(sources.get(name).await.unwrap().spec).unwrap();
    migrate(cluster, &[])
        .exits(1)
        .says("is not rukpak's, for it knows no catalogImageSource: it is OLM's, most likely, and nothing is changed");
    assert_eq!(spec("both").await, both);
    assert_eq!(stored_versions(cluster).await, both_stored);

    define(cluster, &definition(|_| {}), &both_stored).await;
    let line = "catalogsource/default/both: spec.address \"b:2\" dropped: not read beside image";
    let run = migrate(cluster, &["--dry-run=server"]).exits(1);
    run.out_has(format!("{line} (server dry run)\n"));
    assert_eq!(spec("both").await, both);
    assert_eq!(stored_versions(cluster).await, both_stored);

    let odd = "CatalogSource default/odd: unknown sourcetype: foo: must be grpc or configmap; correct its spec";
    let run = migrate(cluster, &[]).exits(1).says(odd);
    assert_eq!(
        run.out,
        format!("{line}\ncustomresourcedefinition/{NAME}: stored versions v1alpha0 forgotten\n")
    );
    assert_eq!(
        spec("both").await,
        json!({"sourceType": "grpc", "image": "a:1", "displayName": "x"})
    );
    assert_eq!(spec("odd").await["sourceType"], "foo");
    assert_eq!(stored_versions(cluster).await, ["v1alpha1"]);

    // Once the last one is right, there is nothing to do.
    let right = json!({"spec": {"sourceType": "grpc"}});
    sources
        .patch("odd", &PatchParams::default(), &Patch::Merge(right))
        .await
        .unwrap();
    let before = sources.get("both").await.unwrap();
    let run = migrate(cluster, &[]).exits(0);
    assert_eq!((run.out.as_str(), run.err.as_str()), ("", ""));
    assert_eq!(sources.get("both").await.unwrap().metadata, before.metadata);
}

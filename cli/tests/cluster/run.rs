//! `rukpak run bundle`, `rukpak run bundle-upgrade` and `rukpak cleanup` in a cluster without OLM: the stories of the design
//! "FBC support in run bundle-upgrade", and failures.
//!
//! `e2e/olm` covers the same stories with OLM on a real node.

mod failures;
mod olm;
mod preexisting;
mod rejections;
mod secrets;
mod support;

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt as _};
use manifests::api::bundle_instance::BundleInstance;
use serde_json::{Value, json};
use tests::DATABASE_LABEL;

use self::support::Operator;
use crate::environment::{Rukpak as _, World, crd, eventually, plain, unique, world};

const INJECTED: &str = "operators.operatorframework.io/injected-bundles";
const INDEX: &str = "operators.operatorframework.io/index-image";

fn annotation<'i>(instance: &'i BundleInstance, key: &str) -> Option<&'i str> {
    instance.annotations().get(key).map(String::as_str)
}

/// Returns the images of the history. Checks that all are pinned and that the last one is requested.
fn history(instance: &BundleInstance) -> Vec<String> {
    let list: Value = serde_json::from_str(annotation(instance, INJECTED).unwrap()).unwrap();
    let images = list.as_array().unwrap().iter();
    let images = images.map(|entry| entry["imageTag"].as_str().unwrap().to_owned());
    let images: Vec<String> = images.collect();
    let is_pinned = images.iter().all(|image| image.contains("@sha256:"));
    assert!(is_pinned, "{images:?}");
    tests::assert_rows!(images.last() => Some(&instance.spec.template.spec.source.image.as_ref().unwrap().reference));
    images
}

async fn get(name: &str) -> BundleInstance {
    world().await.instances().get(name).await.unwrap()
}

fn installed(instance: &BundleInstance) -> &str {
    let status = instance.status.as_ref().unwrap();
    status.facts.cluster_service_version.as_deref().unwrap()
}

/// Returns the text of the operator's ConfigMap, which differs between versions.
async fn text(operator: &Operator) -> Option<String> {
    let client = world().await.cluster.client().unwrap();
    let maps = Api::<ConfigMap>::namespaced(client, &operator.namespace());
    let map = maps.get_opt(&operator.name).await.unwrap()?;
    map.data.unwrap().remove("text")
}

// parity: run-1, sdk-2, sdk-34, complaint-21
#[tokio::test(flavor = "multi_thread")]
async fn story_1_operator_is_upgraded_version_by_version() {
    let world = world().await;
    let operator = Operator::new(&unique("story"));
    let name = &operator.name;
    let crds = [crd(name)];
    let [first, second, third] =
        ["0.0.1", "0.0.2", "0.0.3"].map(|version| operator.publish_with(version, &crds));
    let run = world.ok(&format!("run bundle {first} --use-http"));
    run.err_lacks("warning");
    run.err_has("Generated a valid File-Based Catalog\n");
    run.err_has(format!("bundleinstance.core.rukpak.io/{name} created"));
    let done = format!("Successfully installed \"{name}.v0.0.1\"\n");
    assert_eq!(run.out, done);
    assert_eq!(text(&operator).await.as_deref(), Some("0.0.1"));
    // A script whose connection was lost repeats the command.
    tests::assert_runs! { world; "run bundle {first} --use-http" => 0, "{done}", "already exists with this bundle"; }
    let instance = get(name).await;
    tests::assert_each!(|key, expected| annotation(&instance, key) => expected;
        INDEX => Some("quay.io/operator-framework/opm:latest");
        "core.rukpak.io/package" => Some(name.as_str());
        "core.rukpak.io/version" => Some("0.0.1");
        "core.rukpak.io/previous-image" => None;
    );
    let mut line = history(&instance);
    assert_eq!(line.len(), 1);
    let image = instance.spec.template.spec.source.image.unwrap();
    assert!(image.insecure_skip_tls_verify);

    for (image, version) in [(second, "0.0.2"), (third.clone(), "0.0.3")] {
        let csv = format!("{name}.v{version}");
        tests::assert_runs! { world;
            "run bundle-upgrade {image} --use-http"
                => 0, "Successfully upgraded to \"{csv}\"\n", "Found existing bundleinstance.core.rukpak.io/{name}\n";
        }
        assert_eq!(text(&operator).await.as_deref(), Some(version));
        let instance = get(name).await;
        assert_eq!(installed(&instance), csv);
        let longer = history(&instance);
        assert_eq!(longer[..longer.len() - 1], line);
        let keys = ["previous-image", "csv-name"].map(|key| format!("core.rukpak.io/{key}"));
        tests::assert_rows! {
            keys.each_ref().map(|key| annotation(&instance, key).unwrap()) => [line.last().unwrap(), &csv];
        }
        line = longer;
    }
    tests::assert_runs! { world;
        "run bundle-upgrade {third} --use-http" => 0, "Successfully upgraded to \"{name}.v0.0.3\"\n", "already has this bundle";
    }
    crds_are_kept_on_request(world, &operator, &third).await;
}

async fn crds_are_kept_on_request(world: &World, operator: &Operator, image: &str) {
    let name = &operator.name;
    let group = format!("{name}.example.com");
    let crd = format!("tides.{group}");
    let metadata = json!({"name": "high", "namespace": "default"});
    let tide = json!({"apiVersion": format!("{group}/v1"), "kind": "Tide", "metadata": metadata});
    world.apply(tide).await;
    tests::assert_runs! { world;
        "cleanup {name} --delete-all=false"
            => 0, _, "Skipping CRD deletion", "CustomResourceDefinition {crd} will be kept (1 custom resource)";
    }
    let crds = Api::<CustomResourceDefinition>::all(world.cluster.client().unwrap());
    let found = crds.get(&crd).await.unwrap();
    assert_eq!(found.metadata.deletion_timestamp, None);

    // The next instance adopts the CRD, and the last cleanup deletes it with all custom resources.
    tests::assert_runs! { world;
        "run bundle {image} --use-http" => 0, _;
        "cleanup {name} --delete-crds=false"
            => 0, _, "Skipping CRD deletion", "CustomResourceDefinition {crd} will be kept (1 custom resource)";
    }
    let found = crds.get(&crd).await.unwrap();
    assert_eq!(found.metadata.deletion_timestamp, None);
    tests::assert_runs! { world;
        "run bundle {image} --use-http" => 0, _;
        "cleanup {name}" => 0, "Operator \"{name}\" uninstalled\n",
            "CustomResourceDefinition {crd} and 1 custom resource will be deleted";
    }
    assert_eq!(text(operator).await, None);
    eventually("deleted", async || {
        let found = crds.get_opt(&crd).await.unwrap();
        found.map_or(Ok(()), |found| Err(format!("{found:?}")))
    })
    .await;
    tests::assert_runs! { world; "cleanup {name}" => 0, "", "warning: package \"{name}\" not found"; }
}

/// `install` changes what `run bundle` has created, also to a source of another type.
#[tokio::test(flavor = "multi_thread")]
async fn install_changes_what_run_bundle_created() {
    let world = world().await;
    let operator = Operator::new(&unique("again"));
    let name = &operator.name;
    let [first, second] = ["0.0.1", "0.0.2"].map(|version| operator.publish(version));
    let install = format!("install {name} {second} --tls-verify=false");
    tests::assert_runs! { world;
        "run bundle {first} --use-http" => 0, _;
        "{install}" => 0, _, "bundleinstance.core.rukpak.io/{name} configured";
        "{install}" => 0, _, "bundleinstance.core.rukpak.io/{name} unchanged";
    }
    let instance = get(name).await;
    assert_eq!(installed(&instance), format!("{name}.v0.0.2"));
    // Fields that `install` does not apply are kept.
    tests::assert_rows!(annotation(&instance, "core.rukpak.io/package") => Some(name.as_str()));

    let dir = plain(&[name], "local");
    let bundle = dir.path().display();
    tests::assert_runs! { world;
        "cleanup {name}" => 0, _;
        "run bundle {first} --use-http" => 0, _;
        "install {name} {bundle}" => 0, _;
    }
    let source = get(name).await.spec.template.spec.source;
    assert_eq!((source.type_.as_str(), source.image), ("upload", None));
    world.remove(name);
}

/// An index, also as a database, is validated with the bundles and recorded.
// parity: run-2, run-3, sdk-23
#[tokio::test(flavor = "multi_thread")]
async fn story_1_indexes_are_checked_and_recorded() {
    let world = world().await;
    let operator = Operator::new(&unique("index"));
    let name = &operator.name;
    let [first, second] = ["0.0.1", "0.0.2"].map(|version| operator.publish(version));
    let index = operator.publish_index("other", "1.0.0");
    let rendering = format!("Rendering a File-Based Catalog of the Index Image \"{index}\"");
    // An image is recorded without the transport.
    tests::assert_runs! { world; "run bundle {first} --use-http --index-image docker://{index}" => 0, _, "{rendering}"; }
    assert_eq!(annotation(&get(name).await, INDEX), Some(index.as_str()));
    tests::assert_runs! { world; "run bundle-upgrade {second} --use-http" => 0, _, "{rendering}"; }
    let instance = get(name).await;
    assert_eq!(annotation(&instance, INDEX), Some(index.as_str()));
    assert_eq!(history(&instance).len(), 2);

    // A bundle of the index is not added again, and a database under another name needs a label.
    let own = operator.publish_index(name, "0.0.1");
    let other = operator.publish_file("other.db", "");
    tests::assert_runs! { world;
        "cleanup {name}" => 0, _;
        "run bundle {first} --use-http --index-image {own} --mode="
            => 1, _, "bundle \"{name}.v0.0.1\" already exists in the index image: {own}";
        "run bundle {second} --use-http --index-image {own} --mode=semver"
            => 1, _, "specifying the bundle add mode is not supported for File-Based Catalog bundles and index images";
        "run bundle {first} --use-http --index-image {other} --mode=" => 1, _, "the image is not a catalog: label";
    }
    assert_eq!(world.instances().get_opt(name).await.unwrap(), None);

    let label = format!("LABEL {DATABASE_LABEL}=/database/labeled.db\n");
    let database = operator.publish_file("labeled.db", &label);
    let old = "SQLite catalogs are deprecated; run \"rukpak catalog migrate\"";
    let assert_recorded = async |index: &str, mode: &str| {
        let instance = get(name).await;
        let end = format!("\"mode\":\"{mode}\"}}]");
        assert!(annotation(&instance, INJECTED).unwrap().ends_with(&end));
        assert_eq!(annotation(&instance, INDEX), Some(index));
    };
    tests::assert_runs! { world;
        "run bundle {first} --use-http --mode=semver --index-image {database}"
            => 0, _, "{old}", "warning: --mode ignored without OLM";
    }
    assert_recorded(&database, "semver").await;
    tests::assert_runs! { world; "run bundle-upgrade {second} --use-http" => 0, _, "{old}"; }
    assert_recorded(&database, "replaces").await;

    // A database under its default name needs no label.
    let unlabeled = operator.publish_file("index.db", "");
    tests::assert_runs! { world;
        "cleanup {name}" => 0, _;
        "run bundle {first} --use-http --index-image {unlabeled}" => 0, _, "{old}";
    }
    assert_recorded(&unlabeled, "replaces").await;
    world.ok(&format!("cleanup {name}"));
}

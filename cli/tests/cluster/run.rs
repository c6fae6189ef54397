//! `rukpak run bundle`, `rukpak run bundle-upgrade` and `rukpak cleanup` in a cluster without OLM: the stories of the design
//! "FBC support in run bundle-upgrade", and what goes wrong.
//!
//! The same stories with OLM are tried on a real node, in `e2e/olm`.

mod indexes;
mod olm;
mod places;
mod refusals;
mod scene;

use kube::{Api, ResourceExt as _};
use manifests::api::instance::BundleInstance;
use serde_json::{Value, json};

use self::scene::Operator;
use crate::world::{eventually, interrupt, unique, until_it_says, world};

const INJECTED: &str = "operators.operatorframework.io/injected-bundles";
const INDEX: &str = "operators.operatorframework.io/index-image";

/// What an instance says, by the end of the annotation's key.
fn said<'i>(instance: &'i BundleInstance, key: &str) -> Option<&'i str> {
    instance.annotations().get(key).map(String::as_str)
}

/// The images of the history, all of which are pinned; the last is what is asked for.
fn history(instance: &BundleInstance) -> Vec<String> {
    let list: Value = serde_json::from_str(said(instance, INJECTED).unwrap()).unwrap();
    let images = list.as_array().unwrap().iter();
    let images: Vec<String> = images
        .map(|it| it["imageTag"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        images.iter().all(|it| it.contains("@sha256:")),
        "{images:?}"
    );
    let asked = instance.spec.template.spec.source.image.as_ref().unwrap();
    assert_eq!(images.last(), Some(&asked.reference));
    images
}

async fn get(name: &str) -> BundleInstance {
    world().await.instances().get(name).await.unwrap()
}

fn installed(instance: &BundleInstance) -> &str {
    let status = instance.status.as_ref().unwrap();
    status.facts.cluster_service_version.as_deref().unwrap()
}

/// What the operator's ConfigMap says, which each version has made its own.
async fn text(operator: &Operator) -> Option<String> {
    let client = world().await.cluster.client().unwrap();
    let maps =
        Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, &operator.namespace());
    let map = maps.get_opt(&operator.name).await.unwrap()?;
    map.data.unwrap().remove("text")
}

// parity: run-1, sdk-2, complaint-21
#[tokio::test(flavor = "multi_thread")]
async fn story_1_an_operator_of_run_bundle_is_upgraded_version_by_version() {
    let world = world().await;
    let operator = Operator::new(&unique("story"));
    let name = &operator.name;
    let images = ["0.0.1", "0.0.2", "0.0.3"].map(|version| operator.publish(version));
    let run = world.ok(&["run", "bundle", &images[0], "--use-http"]);
    assert_eq!(
        run.out,
        format!("Successfully installed \"{name}.v0.0.1\"\n")
    );
    let run = run
        .says("Generated a valid File-Based Catalog\n")
        .says(&format!("bundleinstance.core.rukpak.io/{name} created"));
    assert!(!run.err.contains("warning"), "{run:?}");
    assert_eq!(text(&operator).await.as_deref(), Some("0.0.1"));
    // Once more is what a script does whose connection was lost.
    let again = world.ok(&["run", "bundle", &images[0], "--use-http"]);
    assert_eq!(again.out, run.out);
    again.says("is there already, of this bundle");
    let instance = get(name).await;
    assert_eq!(
        said(&instance, INDEX),
        Some("quay.io/operator-framework/opm:latest")
    );
    assert_eq!(
        said(&instance, "core.rukpak.io/package"),
        Some(name.as_str())
    );
    assert_eq!(said(&instance, "core.rukpak.io/version"), Some("0.0.1"));
    assert_eq!(said(&instance, "core.rukpak.io/previous-image"), None);
    let mut line = history(&instance);
    assert_eq!(line.len(), 1);
    let first = instance.spec.template.spec.source.image.unwrap();
    assert!(first.insecure_skip_tls_verify);

    for (at, version) in ["0.0.2", "0.0.3"].into_iter().enumerate() {
        let image = &images[at + 1];
        let run = world.ok(&format!("run bundle-upgrade {image} --use-http"));
        assert_eq!(
            run.out,
            format!("Successfully upgraded to \"{name}.v{version}\"\n")
        );
        run.says(&format!(
            "Found existing bundleinstance.core.rukpak.io/{name}\n"
        ));
        assert_eq!(text(&operator).await.as_deref(), Some(version));
        let instance = get(name).await;
        assert_eq!(installed(&instance), format!("{name}.v{version}"));
        let longer = history(&instance);
        assert_eq!(longer[..longer.len() - 1], line);
        let before = line.last().map(String::as_str);
        assert_eq!(said(&instance, "core.rukpak.io/previous-image"), before);
        let wanted = format!("{name}.v{version}");
        assert_eq!(
            said(&instance, "core.rukpak.io/csv-name"),
            Some(wanted.as_str())
        );
        line = longer;
    }

    let run = world.ok(&["run", "bundle-upgrade", &images[2], "--use-http"]);
    assert_eq!(
        run.out,
        format!("Successfully upgraded to \"{name}.v0.0.3\"\n")
    );
    run.says("has this bundle already");

    let run = world.ok(&format!("cleanup {name}"));
    assert_eq!(run.out, format!("Operator \"{name}\" uninstalled\n"));
    assert_eq!(text(&operator).await, None);
    let run = world.ok(&format!("cleanup {name}"));
    assert_eq!(run.out, "");
    run.says(&format!("warning: package \"{name}\" not found"));
}

// parity: run-2
#[tokio::test(flavor = "multi_thread")]
async fn story_1_an_index_is_checked_with_the_bundles_and_remembered() {
    let world = world().await;
    let operator = Operator::new(&unique("index"));
    let name = &operator.name;
    let images = ["0.0.1", "0.0.2"].map(|version| operator.publish(version));
    let index = operator.publish_index(&["other"]);
    // An image is remembered without the transport.
    let named = format!("docker://{index}");
    world
        .ok(&format!(
            "run bundle {} --use-http --index-image {named}",
            images[0]
        ))
        .says(&format!(
            "Rendering a File-Based Catalog of the Index Image \"{index}\""
        ));
    assert_eq!(said(&get(name).await, INDEX), Some(index.as_str()));
    world
        .ok(&["run", "bundle-upgrade", &images[1], "--use-http"])
        .says(&format!(
            "Rendering a File-Based Catalog of the Index Image \"{index}\""
        ));
    let instance = get(name).await;
    assert_eq!(said(&instance, INDEX), Some(index.as_str()));
    assert_eq!(history(&instance).len(), 2);
    world.ok(&format!("cleanup {name}"));

    // What the index has is not injected once more.
    let index = operator.publish_index(&["0.0.1"]);
    world
        .fail(&format!(
            "run bundle {} --use-http --index-image {index}",
            images[0]
        ))
        .says(&format!(
            "bundle \"{name}.v0.0.1\" already exists in the index image: {index}"
        ));
    world
        .fail(&["run", "bundle", &images[1], "--use-http", "--index-image", &index, "--mode", "semver"])
        .says("specifying the bundle add mode is not supported for File-Based Catalog bundles and index images");
    assert_eq!(world.instances().get_opt(name).await.unwrap(), None);
}

// parity: run-3, sdk-23
#[tokio::test(flavor = "multi_thread")]
async fn story_1_an_index_may_be_a_database() {
    let world = world().await;
    let operator = Operator::new(&unique("database"));
    let name = &operator.name;
    let images = ["0.0.1", "0.0.2"].map(|version| operator.publish(version));
    let index = operator.publish_database();
    let old = "the catalog is an SQLite database, a form that is not made any more";
    let index_image = ["--index-image", &index];
    let args = ["run", "bundle", &images[0], "--use-http", "--mode=semver"];
    world
        .run(&[&args[..], &index_image].concat())
        .exits(0)
        .says(old)
        .says("warning: --mode means nothing without OLM");
    assert!(
        said(&get(name).await, INJECTED)
            .unwrap()
            .ends_with("\"mode\":\"semver\"}]")
    );
    world
        .run(&["run", "bundle-upgrade", &images[1], "--use-http"])
        .exits(0)
        .says(old);
    let instance = get(name).await;
    assert_eq!(said(&instance, INDEX), Some(index.as_str()));
    assert!(
        said(&instance, INJECTED)
            .unwrap()
            .ends_with("\"mode\":\"replaces\"}]")
    );
    world.run(&["cleanup", name]).exits(0);
}

// parity: run-4
#[tokio::test(flavor = "multi_thread")]
async fn story_2_what_was_installed_in_another_way_is_upgraded_and_remembered() {
    let world = world().await;
    let operator = Operator::new(&unique("other"));
    let name = &operator.name;
    let images = ["0.0.1", "0.0.2", "0.0.3"].map(|version| operator.publish(version));
    // The instance is not even called like the package.
    let own = unique("by-hand");
    world.ok(&["install", &own, &images[0], "--tls-verify=false"]);
    world
        .ok(&["run", "bundle-upgrade", &images[1], "--use-http"])
        .says(&format!(
            "{own} was not installed by \"run bundle\"; \"{name}.v0.0.1\" is upgraded from"
        ));
    let instance = get(&own).await;
    let line = history(&instance);
    assert_eq!(line.len(), 2);
    world.ok(&["run", "bundle-upgrade", &images[2], "--use-http"]);
    let instance = get(&own).await;
    assert_eq!(installed(&instance), format!("{name}.v0.0.3"));
    assert_eq!(history(&instance)[..2], line);
    world.ok(&format!("cleanup {name}"));
    assert_eq!(world.instances().get_opt(&own).await.unwrap(), None);
}

// parity: sdk-28, sdk-29
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_fails_leaves_the_operator_and_can_be_rolled_back() {
    let world = world().await;
    let operator = Operator::new(&unique("fails"));
    let name = &operator.name;
    let first = operator.publish("0.0.1");
    // No node runs its pod.
    let second = operator.publish_with("0.0.2", &[operator.deployment()]);
    world.ok(&format!("run bundle {first} --use-http"));
    let before = get(name).await;

    let upgrade = ["run", "bundle-upgrade", &second, "--use-http"];
    let rolled_back = ["--timeout", "40s", "--rollback-on-failure"];
    let run = world
        .fail(&[&upgrade[..], &rolled_back[..]].concat())
        .says(&format!(
            "Failed to run bundle upgrade: BundleInstance {name} is not ready after 40s"
        ))
        .says(&format!(
            "Kind=Deployment)({}/{name})",
            operator.namespace()
        ))
        .says("rolling back to ")
        .says("\nrolled back to ");
    assert_eq!(run.out, "");
    assert_eq!(text(&operator).await.as_deref(), Some("0.0.1"));
    let after = get(name).await;
    assert_eq!(installed(&after), format!("{name}.v0.0.1"));
    assert_eq!(after.spec, before.spec);
    assert_eq!(after.annotations(), before.annotations());

    // What cannot be applied is given up at once.
    let taken = format!("{name}-taken");
    let map = |space: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": taken, "namespace": space}});
    world.apply(&map(&operator.namespace().into())).await;
    let third = operator.publish_with("0.0.3", &[map(&Value::Null)]);
    let args = [
        "run",
        "bundle-upgrade",
        &third,
        "--use-http",
        "--rollback-on-failure",
    ];
    world
        .fail(&args)
        .says(&format!(
            "Failed to run bundle upgrade: BundleInstance {name} is not as it should be:"
        ))
        .says(&taken)
        .says("\nrolled back to ");
    assert_eq!(get(name).await.spec, before.spec);

    // What runs is gone back to, and not what was wanted and never ran.
    world.fail(&args[..4]).says(&taken);
    assert_eq!(history(&get(name).await).len(), 2);
    // Also by whoever did not begin it.
    world
        .fail(&args)
        .says("has this bundle already")
        .says("\nrolled back to ");
    let after = get(name).await;
    assert_eq!(after.spec, before.spec);
    assert_eq!(after.annotations(), before.annotations());
    world.fail(&args[..4]).says(&taken);
    let fourth = operator.publish_with("0.0.4", &[map(&Value::Null)]);
    let args = args.map(|it| if it == third { &*fourth } else { it });
    world.fail(&args).says("\nrolled back to ");
    let after = get(name).await;
    assert_eq!(after.spec, before.spec);
    assert_eq!(after.annotations(), before.annotations());

    // Without the flag it stays on its way, and the next version comes after the one that worked.
    until_it_says(world.spawn(&upgrade), &format!("/{name} configured\n"));
    let instance = get(name).await;
    assert_eq!(history(&instance).len(), 2);
    until_it_says(world.spawn(&upgrade), "has this bundle already");
    world.ok(&format!("cleanup {name} --timeout 1m"));
}

// parity: sdk-30
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_interrupted_goes_on() {
    let world = world().await;
    let operator = Operator::new(&unique("again"));
    let name = &operator.name;
    let image = operator.publish_with("0.0.1", &[operator.deployment()]);
    let args = ["run", "bundle", &image, "--use-http"];
    world
        .fail(&[&args[..], &["--timeout", "20s"]].concat())
        .says(&format!("Failed to run bundle: BundleInstance {name} is not ready after 20s; its installation goes on"));
    // A signal while it waits.
    let child = world.spawn(&args);
    let pid = child.id().to_string();
    let waits = async || {
        let fields = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = fields
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:\t"));
        let caught = u64::from_str_radix(caught.unwrap(), 16).unwrap();
        if caught & 2 == 0 { Err(fields) } else { Ok(()) }
    };
    eventually("waiting", waits).await;
    interrupt(&child);
    let run: crate::world::Run = child.wait_with_output().unwrap().into();
    let run = run.exits(130);
    assert!(
        run.err.contains("run the same command again") || run.err.contains("nothing was changed"),
        "{run:?}"
    );
    until_it_says(world.spawn(&args), "is there already, of this bundle");
    world.ok(&format!("cleanup {name}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_other_flags_has_the_image_pulled_as_they_say() {
    let world = world().await;
    let operator = Operator::new(&unique("flags"));
    let name = &operator.name;
    let image = operator.publish("0.0.1");
    let run = |secret: &str, said: &str| {
        let flags = ["--use-http", "--pull-secret-name", secret];
        let args = [&["run", "bundle", &image], &flags[..]].concat();
        until_it_says(world.spawn(&args), said);
    };
    let secret = async || {
        let source = get(name).await.spec.template.spec.source;
        source.image.unwrap().pull_secret
    };
    run("first", &format!("/{name} created\n"));
    assert_eq!(secret().await.as_deref(), Some("first"));
    run(
        "second",
        "configured, for its image is to be pulled in another way",
    );
    assert_eq!(secret().await.as_deref(), Some("second"));
    world.ok(&format!("cleanup {name}"));
}

// parity: sdk-30
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_killed_at_any_point_is_gone_on_with() {
    let world = world().await;
    let operator = Operator::new(&unique("killed"));
    let name = &operator.name;
    let first = operator.publish("0.0.1");
    world.ok(&format!("run bundle {first} --use-http"));
    let mut before = "0.0.1".to_owned();
    for (at, millis) in [20, 60, 120, 250, 500].into_iter().enumerate() {
        let version = format!("0.0.{}", at + 2);
        let image = operator.publish(&version);
        let args = ["run", "bundle-upgrade", &image, "--use-http"];
        let mut child = world.spawn(&args);
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        // One of both runs, and image and history are one of both, too.
        let now = text(&operator).await.unwrap();
        assert!(
            [&before, &version].contains(&&now),
            "{now} after {millis} ms"
        );
        let told = history(&get(name).await).len();
        assert!([at + 1, at + 2].contains(&told), "{told} after {millis} ms");
        let run = world.ok(&args);
        assert_eq!(
            run.out,
            format!("Successfully upgraded to \"{name}.v{version}\"\n")
        );
        assert_eq!(text(&operator).await.as_ref(), Some(&version));
        assert_eq!(history(&get(name).await).len(), at + 2);
        before = version;
    }
    world.ok(&format!("cleanup {name}"));
}

// parity: sdk-34
#[tokio::test(flavor = "multi_thread")]
async fn definitions_stay_when_somebody_asks_for_it() {
    let world = world().await;
    let operator = Operator::new(&unique("keeps"));
    let name = &operator.name;
    let group = format!("{name}.example.com");
    let definition = format!("tides.{group}");
    let image = operator.publish_with("0.0.1", &[operator.definition()]);
    world.run(&["run", "bundle", &image, "--use-http"]).exits(0);
    world
        .apply(&json!({
            "apiVersion": format!("{group}/v1"), "kind": "Tide",
            "metadata": {"name": "high", "namespace": "default"},
        }))
        .await;
    world
        .run(&["cleanup", name, "--delete-all=false"])
        .exits(0)
        .says("Skipping CRD deletion")
        .says(&format!(
            "CustomResourceDefinition {definition} stays, with 1 custom resource"
        ));
    let definitions = Api::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >::all(world.cluster.client().unwrap());
    let found = definitions.get(&definition).await.unwrap();
    assert_eq!(found.metadata.deletion_timestamp, None);

    // It is taken up again, and goes with all that there is of it.
    world.run(&["run", "bundle", &image, "--use-http"]).exits(0);
    world.run(&["cleanup", name]).exits(0).says(&format!(
        "CustomResourceDefinition {definition} goes, and 1 custom resource with it"
    ));
    eventually("gone", async || {
        match definitions.get_opt(&definition).await.unwrap() {
            None => Ok(()),
            Some(found) => Err(format!("{found:?}")),
        }
    })
    .await;
}

//! The command with OLM, and the actions of its users beside it.

use std::{path::Path, process::Command};

use cluster::KUBECONFIG;
use serde_json::{Value, json};
use tests::Run;

use super::{super::catalogs, environment::World, index::Version};

/// Asserts that a run succeeded and that its standard output is `last`.
#[track_caller]
pub(crate) fn succeeds(run: Run, last: &str) -> Run {
    assert_eq!((run.code, run.out.as_str()), (Some(0), last), "{run:#?}");
    run
}

/// Asserts like [`succeeds`], and adds OLM's state to the failure.
#[track_caller]
fn assert_done(world: &World, namespace: &str, run: Run, last: &str) -> Run {
    let is_done = (run.code, run.out.as_str()) == (Some(0), last);
    assert!(is_done, "{last:?}: {run:#?}\n{}", world.state(namespace));
    run
}

/// Asserts that a run failed with this message.
#[track_caller]
pub(crate) fn fails(run: Run, message: &str) -> Run {
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:#?}");
    run.err_has(message);
    run
}

/// Returns the command with a kubeconfig, for the registry without TLS.
pub(crate) fn command(kubeconfig: &Path, namespace: &str, args: &[&str]) -> Command {
    let mut command = Command::new("rukpak");
    command
        .args(args)
        .args(["--namespace", namespace, "--timeout", "6m"])
        .env("KUBECONFIG", kubeconfig)
        .env_remove(KUBECONFIG);
    if args.first() == Some(&"run") {
        command.args(["--use-http", "--image-pull-policy", "IfNotPresent"]);
    }
    command
}

/// Runs the command as the cluster admin.
pub(crate) fn rukpak(world: &World, namespace: &str, args: &[&str]) -> Run {
    let mut command = command(world.cluster.kubeconfig_path(), namespace, args);
    command.output().unwrap().into()
}

pub(crate) fn installed(version: &Version) -> String {
    format!("OLM has successfully installed {:?}\n", version.csv())
}

pub(crate) fn upgraded(version: &Version) -> String {
    format!("Successfully upgraded to {:?}\n", version.csv())
}

#[track_caller]
pub(crate) fn install(world: &World, namespace: &str, version: &Version, more: &[&str]) {
    let args = [&["run", "bundle", &version.image], more].concat();
    let run = rukpak(world, namespace, &args);
    assert_done(world, namespace, run, &installed(version));
    world.succeeded(namespace, &version.csv());
}

#[track_caller]
pub(crate) fn upgrade(world: &World, namespace: &str, version: &Version, more: &[&str]) -> Run {
    let args = [&["run", "bundle-upgrade", &version.image], more].concat();
    let run = rukpak(world, namespace, &args);
    let run = assert_done(world, namespace, run, &upgraded(version));
    world.succeeded(namespace, &version.csv());
    run
}

/// Creates a CatalogSource of an image that serves itself, as a user would by hand.
pub(crate) async fn source(world: &World, namespace: &str, name: &str, image: &str) {
    let spec = json!({"sourceType": "grpc", "image": image});
    world.apply(catalogs::source(namespace, name, &spec)).await;
}

/// Creates a Subscription to a package of a CatalogSource. `more` sets the channel and the approval of plans.
pub(crate) async fn subscribe(
    world: &World,
    namespace: &str,
    version: &Version,
    source: &str,
    more: Value,
) {
    let mut spec = json!({
        "name": version.package, "channel": "stable", "source": source, "sourceNamespace": namespace,
    });
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    world
        .apply(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": version.package, "namespace": namespace}, "spec": spec,
        }))
        .await;
}

/// Approves the InstallPlan of a Subscription. One Subscription with manual approval makes all plans of the namespace wait.
pub(crate) fn approve(world: &World, namespace: &str, subscription: &str) {
    let subscription = format!("subscriptions.operators.coreos.com/{subscription}");
    world.wait(namespace, &subscription, ".status.state", "UpgradePending");
    let path = "jsonpath={.status.installPlanRef.name}";
    let plan = world.kubectl(&["-n", namespace, "get", &subscription, "-o", path]);
    let patch = r#"{"spec":{"approved":true}}"#;
    world.kubectl(&format!(
        "-n {namespace} patch installplan {plan} --type=merge -p {patch}"
    ));
}

/// The names of all objects of these kinds in a namespace.
pub(crate) fn names(world: &World, namespace: &str, kinds: &str) -> Vec<String> {
    let output = world.kubectl(&["-n", namespace, "get", kinds, "-o", "name"]);
    output.lines().map(str::to_owned).collect()
}

pub(crate) fn parts(world: &World, namespace: &str, source: &str) -> Vec<String> {
    let mut maps = names(world, namespace, "configmap");
    let start = format!("configmap/{source}-configmap-partition-");
    maps.retain(|name| name.starts_with(&start));
    maps
}

/// An annotation of a CatalogSource that the command writes.
pub(crate) fn annotation(world: &World, namespace: &str, source: &str, key: &str) -> String {
    let path =
        format!(r"jsonpath={{.metadata.annotations.operators\.operatorframework\.io/{key}}}");
    world.kubectl(&["-n", namespace, "get", "catalogsource", source, "-o", &path])
}

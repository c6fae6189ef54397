//! The command, with OLM, and what its users do beside it.

use std::{path::Path, process::Command};

use cluster::KUBECONFIG;
use serde_json::{Value, json};
use tests::Run;

use super::{super::catalogs, index::Version, world::World};

/// Checks that a run has printed this, and nothing else, at its end.
#[track_caller]
pub(crate) fn succeeds(run: Run, last: &str) -> Run {
    assert_eq!((run.code, run.out.as_str()), (Some(0), last), "{run:#?}");
    run
}

/// The same of what OLM has to do something for, with what OLM says if it has not.
#[track_caller]
fn is_done(world: &World, namespace: &str, run: Run, last: &str) -> Run {
    let is_done = (run.code, run.out.as_str()) == (Some(0), last);
    assert!(is_done, "{last:?}: {run:#?}\n{}", world.why(namespace));
    run
}

/// Checks that a run has failed with this message.
#[track_caller]
pub(crate) fn fails(run: Run, told: &str) -> Run {
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:#?}");
    run.err_has(told);
    run
}

/// The command by a kubeconfig, with the registry that speaks no TLS.
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

/// Runs the command as the administrator.
pub(crate) fn rukpak(world: &World, namespace: &str, args: &[&str]) -> Run {
    let mut command = command(world.cluster.kubeconfig_path(), namespace, args);
    command.output().unwrap().into()
}

/// What `run bundle` prints at the end.
pub(crate) fn installed(version: &Version) -> String {
    format!("OLM has successfully installed {:?}\n", version.csv())
}

/// What `run bundle-upgrade` prints at the end.
pub(crate) fn upgraded(version: &Version) -> String {
    format!("Successfully upgraded to {:?}\n", version.csv())
}

#[track_caller]
pub(crate) fn install(world: &World, namespace: &str, version: &Version, more: &[&str]) {
    let args = [&["run", "bundle", &version.image], more].concat();
    let run = rukpak(world, namespace, &args);
    is_done(world, namespace, run, &installed(version));
    world.succeeded(namespace, &version.csv());
}

#[track_caller]
pub(crate) fn upgrade(world: &World, namespace: &str, version: &Version, more: &[&str]) -> Run {
    let args = [&["run", "bundle-upgrade", &version.image], more].concat();
    let run = rukpak(world, namespace, &args);
    let run = is_done(world, namespace, run, &upgraded(version));
    world.succeeded(namespace, &version.csv());
    run
}

/// A CatalogSource that somebody makes by hand, of an image that serves itself.
pub(crate) async fn source(world: &World, namespace: &str, name: &str, image: &str) {
    let spec = json!({"sourceType": "grpc", "image": image});
    world.apply(catalogs::source(namespace, name, &spec)).await;
}

/// Lets OLM install a package from a CatalogSource; `more` is of its channel, and of how plans are approved.
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

/// Approves what OLM plans for a Subscription: with one that waits for that in a namespace, all do.
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

/// Every name of a kind in a namespace.
pub(crate) fn names(world: &World, namespace: &str, kind: &str) -> Vec<String> {
    let told = world.kubectl(&["-n", namespace, "get", kind, "-o", "name"]);
    told.lines().map(str::to_owned).collect()
}

/// The ConfigMaps with a catalog's parts.
pub(crate) fn parts(world: &World, namespace: &str, source: &str) -> Vec<String> {
    let mut maps = names(world, namespace, "configmap");
    let start = format!("configmap/{source}-configmap-partition-");
    maps.retain(|it| it.starts_with(&start));
    maps
}

/// An annotation of a CatalogSource that the command writes.
pub(crate) fn annotation(world: &World, namespace: &str, source: &str, key: &str) -> String {
    let path =
        format!(r"jsonpath={{.metadata.annotations.operators\.operatorframework\.io/{key}}}");
    world.kubectl(&["-n", namespace, "get", "catalogsource", source, "-o", &path])
}

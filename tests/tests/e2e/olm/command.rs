//! The command, with OLM, and what its users do beside it.

use std::{
    path::Path,
    process::{Command, Output},
};

use cluster::KUBECONFIG;
use serde_json::{Value, json};

use super::{index::Version, world::World};

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Run {
    #[track_caller]
    pub(crate) fn succeeds(self, last: &str) -> Self {
        assert_eq!((self.code, self.out.as_str()), (Some(0), last), "{self:#?}");
        self
    }

    /// The same of what OLM has to do something for, with what OLM says if it has not.
    #[track_caller]
    fn done(self, world: &World, namespace: &str, last: &str) -> Self {
        let is_done = (self.code, self.out.as_str()) == (Some(0), last);
        assert!(is_done, "{last:?}: {self:#?}\n{}", world.why(namespace));
        self
    }

    #[track_caller]
    pub(crate) fn fails(self, told: &str) -> Self {
        assert_eq!((self.code, self.out.as_str()), (Some(1), ""), "{self:#?}");
        assert!(self.err.contains(told), "{told:?}: {self:#?}");
        self
    }
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
    run.done(world, namespace, &installed(version));
    world.succeeded(namespace, &version.csv());
}

#[track_caller]
pub(crate) fn upgrade(world: &World, namespace: &str, version: &Version, more: &[&str]) -> Run {
    let args = [&["run", "bundle-upgrade", &version.image], more].concat();
    let run = rukpak(world, namespace, &args).done(world, namespace, &upgraded(version));
    world.succeeded(namespace, &version.csv());
    run
}

/// A CatalogSource that somebody makes by hand, of an image that serves itself.
pub(crate) async fn source(world: &World, namespace: &str, name: &str, image: &str) {
    world
        .apply(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"sourceType": "grpc", "image": image},
        }))
        .await;
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
    world.kubectl(&[
        "-n",
        namespace,
        "patch",
        "installplan",
        &plan,
        "--type=merge",
        "-p",
        patch,
    ]);
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

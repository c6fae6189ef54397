//! A namespace with OLM, in which tests run the command and perform the actions of other users.

use std::{path::Path, process::Command};

use cluster::KUBECONFIG;
use serde_json::{Value, json};
use tests::{Args, Run};

use super::{
    super::environment::{World, kubectl},
    environment::{self, world},
    index::Version,
};

/// The timeout of OLM, which resolves, unpacks in a Job, and installs, one after the other.
const TIMEOUT: &str = "--timeout=6m";
/// The limit of the log lines in [`Space::state`].
const MAX_LINES: usize = 60;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    pub(crate) world: &'static World,
    pub(crate) name: &'static str,
}

impl Space {
    /// Creates a namespace without an OperatorGroup.
    pub(crate) async fn new(name: &'static str) -> Self {
        let world = world().await;
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        world.apply(object).await;
        Self { world, name }
    }

    /// Creates a namespace without an OperatorGroup in which only hardened pods run.
    pub(crate) async fn restricted(name: &'static str) -> Self {
        let space = Self::new(name).await;
        let label = "pod-security.kubernetes.io/enforce=restricted";
        space.kubectl(&["label", "namespace", name, label]);
        space
    }

    /// Creates a namespace whose operators watch all namespaces.
    pub(crate) async fn with_group(name: &'static str) -> Self {
        let space = Self::new(name).await;
        let group = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "all", "namespace": name}, "spec": {},
        });
        space.world.apply(group).await;
        space
    }

    pub(crate) fn kubectl(&self, args: &(impl Args + ?Sized)) -> String {
        let args = [&["-n", self.name], &args.words()[..]].concat();
        kubectl(self.world.cluster, &args)
    }

    /// Waits until an object exists and one of its fields has a value.
    pub(crate) fn wait(&self, object: &str, path: &str, value: &str) {
        self.wait_for(object, "create");
        self.wait_for(object, &format!("jsonpath={{{path}}}={value}"));
    }

    fn wait_for(&self, object: &str, condition: &str) {
        let wait = format!("-n {} wait {object} {TIMEOUT} --for={condition}", self.name);
        let mut command = Command::new("kubectl");
        command.args(wait.words());
        let command = command.env("KUBECONFIG", self.world.cluster.kubeconfig_path());
        let run = Run::from(command.output().unwrap());
        assert_eq!(run.code, Some(0), "{wait}: {run:#?}{}", self.state());
    }

    /// Waits until OLM has deleted a version that another one replaced.
    pub(crate) fn replaced(&self, version: &Version) {
        self.wait_for(&version.object(), "delete");
    }

    pub(crate) fn succeeded(&self, version: &Version) {
        self.wait(&version.object(), ".status.phase", "Succeeded");
    }

    /// The objects and events of the namespace, and OLM's last log lines about it, for the investigation of a failure.
    fn state(&self) -> String {
        let kinds = "subscriptions.operators.coreos.com,installplans,clusterserviceversions,catalogsources,jobs,pods";
        let mut parts = vec![
            self.kubectl(&["get", kinds, "-o", "yaml"]),
            self.kubectl("get events"),
        ];
        for log in environment::logs(self.world.cluster) {
            let lines = log.lines().filter(|line| line.contains(self.name));
            let lines: Vec<&str> = lines.collect();
            parts.push(lines[lines.len().saturating_sub(MAX_LINES)..].join("\n"));
        }
        parts.join("\n---\n")
    }

    /// Returns the command with a kubeconfig, for the registry without TLS.
    pub(crate) fn command(&self, kubeconfig: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("rukpak");
        command
            .args(args)
            .args(["--namespace", self.name, "--timeout", "6m"])
            .env("KUBECONFIG", kubeconfig)
            .env_remove(KUBECONFIG);
        if args.first() == Some(&"run") {
            command.args(["--use-http", "--image-pull-policy", "IfNotPresent"]);
        }
        command
    }

    /// Runs the command as the cluster admin.
    pub(crate) fn rukpak(&self, args: &[&str]) -> Run {
        let mut command = self.command(self.world.cluster.kubeconfig_path(), args);
        command.output().unwrap().into()
    }

    #[track_caller]
    pub(crate) fn install(&self, version: &Version) -> Run {
        let run = self.rukpak(&["run", "bundle", &version.image]);
        self.assert_done(run, version, &installed(version))
    }

    #[track_caller]
    pub(crate) fn upgrade(&self, version: &Version) -> Run {
        let run = self.rukpak(&["run", "bundle-upgrade", &version.image]);
        self.assert_done(run, version, &upgraded(version))
    }

    /// Asserts like [`succeeds`] with OLM's state in the message, and waits until the version has succeeded.
    #[track_caller]
    fn assert_done(&self, run: Run, version: &Version, last: &str) -> Run {
        let is_done = (run.code, run.out.as_str()) == (Some(0), last);
        assert!(is_done, "{last:?}: {run:#?}\n{}", self.state());
        self.succeeded(version);
        run
    }

    /// Creates a Subscription to a package of a CatalogSource. `more` sets the channel and the approval of plans.
    pub(crate) async fn subscribe(&self, version: &Version, source: &str, more: Value) {
        let mut spec = json!({
            "name": version.package, "channel": "stable", "source": source, "sourceNamespace": self.name,
        });
        let fields = spec.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        fields.retain(|_, value| !value.is_null());
        let subscription = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": version.package, "namespace": self.name}, "spec": spec,
        });
        self.world.apply(subscription).await;
    }

    /// Approves the InstallPlan of a Subscription. One Subscription with manual approval makes all plans of the namespace wait.
    pub(crate) fn approve(&self, subscription: &str) {
        let subscription = format!("subscriptions.operators.coreos.com/{subscription}");
        self.wait(&subscription, ".status.state", "UpgradePending");
        let path = "jsonpath={.status.installPlanRef.name}";
        let plan = self.kubectl(&["get", &subscription, "-o", path]);
        let patch = r#"{"spec":{"approved":true}}"#;
        self.kubectl(&format!("patch installplan {plan} --type=merge -p {patch}"));
    }

    pub(crate) fn names(&self, kinds: &str) -> Vec<String> {
        let output = self.kubectl(&["get", kinds, "-o", "name"]);
        output.lines().map(str::to_owned).collect()
    }

    pub(crate) fn parts(&self, source: &str) -> Vec<String> {
        let mut maps = self.names("configmap");
        let start = format!("configmap/{source}-configmap-partition-");
        maps.retain(|name| name.starts_with(&start));
        maps
    }

    /// An annotation of a CatalogSource that the command writes.
    pub(crate) fn annotation(&self, source: &str, key: &str) -> String {
        let path = r"jsonpath={.metadata.annotations.operators\.operatorframework\.io/";
        self.kubectl(&format!("get catalogsource {source} -o {path}{key}}}"))
    }
}

/// Asserts that a run succeeded and that its standard output is `last`.
#[track_caller]
pub(crate) fn succeeds(run: Run, last: &str) -> Run {
    assert_eq!((run.code, run.out.as_str()), (Some(0), last), "{run:#?}");
    run
}

#[track_caller]
pub(crate) fn fails(run: Run, message: &str) -> Run {
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:#?}");
    run.err_has(message);
    run
}

pub(crate) fn installed(version: &Version) -> String {
    format!("OLM has successfully installed {:?}\n", version.csv())
}

pub(crate) fn upgraded(version: &Version) -> String {
    format!("Successfully upgraded to {:?}\n", version.csv())
}

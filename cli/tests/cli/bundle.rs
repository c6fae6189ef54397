//! Small bundles in a temporary directory, and the command that runs in it.

use std::{
    env, fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;
pub(crate) use tests::{Args, Run};

pub(crate) struct Workspace(TempDir);

impl Workspace {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn with_tide() -> Self {
        let workspace = Self::new();
        workspace.good("tide");
        workspace
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        tests::write(self.0.path(), name, text);
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the sorted names in a directory, including hidden ones.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub(crate) fn good(&self, name: &str) {
        self.bundle(name, &csv(name));
    }

    /// Writes a bundle with two problems.
    pub(crate) fn bad(&self, name: &str) {
        let mut csv = csv(name);
        csv["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true}]);
        csv["spec"]["webhookdefinitions"] =
            json!([{"type": "ValidatingAdmissionWebhook", "generateName": "v.acme.io"}]);
        self.bundle(name, &csv);
    }

    pub(crate) fn bundle(&self, name: &str, csv: &Value) {
        let annotations = tests::registry_annotations("tide", "stable,beta");
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: gauges\ndata:\n  answer: \"yes\"\n";
        for (file, text) in [
            ("metadata/annotations.yaml", annotations.to_string()),
            ("manifests/csv.yaml", format!("{csv:#}\n")),
            ("manifests/map.yaml", map.to_owned()),
        ] {
            self.write(&format!("{name}/{file}"), text);
        }
    }

    pub(crate) fn tar(&self, archive: &str, flags: &str, directory: &str, entry: &str) {
        let mut tar = Command::new("tar");
        let tar = tar.current_dir(self.0.path());
        let status = tar.args([flags, archive, "-C", directory, entry]).status();
        assert!(status.unwrap().success());
    }

    pub(crate) fn run(&self, args: &(impl Args + ?Sized)) -> Run {
        self.run_with(args, b"")
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, args: &(impl Args + ?Sized)) -> Run {
        self.run(args).exits(0)
    }

    pub(crate) fn run_with(&self, args: &(impl Args + ?Sized), input: &[u8]) -> Run {
        let mut command = self.command();
        let command = command.args(args.words()).stdin(Stdio::piped());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The command may exit before it has read all input.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap().into()
    }

    /// Returns the output of opm in this directory.
    pub(crate) fn opm(&self, args: &(impl Args + ?Sized)) -> String {
        let output = tests::opm(&self.path(""), &args.words());
        Run::from(output).exits(0).out
    }

    /// Returns a shell with the program in its PATH and no other environment of this process.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let (binary, system) = (binary(), env::var("PATH").unwrap());
        let directory = binary.parent().unwrap().display();
        let mut shell = Command::new("bash");
        shell
            .args(["-c", script])
            .current_dir(self.0.path())
            .env_clear()
            .envs(tests::profile_file())
            .env("HOME", self.path("home"))
            .env("LC_ALL", "C.UTF-8")
            .env("PATH", format!("{directory}:{system}"))
            .stdin(Stdio::null());
        shell
    }

    /// Returns the command with a home directory and without other user configuration.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(binary());
        for name in "CONTAINERS_REGISTRIES_CONF DOCKER_CONFIG REGISTRY_AUTH_FILE XDG_CONFIG_HOME XDG_RUNTIME_DIR".split(' ') {
            command.env_remove(name);
        }
        command.current_dir(self.0.path());
        command.env("HOME", self.path("home"));
        command
    }
}

fn binary() -> PathBuf {
    env!("CARGO_BIN_EXE_rukpak").into()
}

/// Returns a ClusterServiceVersion with one Deployment and permissions that are reported.
pub(crate) fn csv(name: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v1.2.3"), "annotations": {"olm.skipRange": ">=1.0.0 <1.2.3"}},
        "spec": {
            "displayName": "Tide", "version": "1.2.3", "replaces": format!("{name}.v1.2.2"), "minKubeVersion": "1.25.0",
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{"serviceAccountName": "tide", "rules": [
                    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
                    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
                ]}],
                "deployments": [{"name": "tide", "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": {"app": "tide"}},
                    "template": {"metadata": {"labels": {"app": "tide"}}, "spec": {
                        "serviceAccountName": "tide",
                        "containers": [{"name": "tide", "image": "tide.example.com/tide:1.2.3"}],
                    }},
                }}],
            }},
        },
    })
}

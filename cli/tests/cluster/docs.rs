//! User documentation: each command in a `console` block runs, and its output must match the page. The introduction of README
//! and docs/cli.md share one directory and one cluster. docs/run-bundle.md, docs/platform-render.md and
//! docs/cluster-upgrades.md share another one.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use cluster::Cluster;
use manifests::api::install;
use serde_json::json;
use tempfile::{NamedTempFile, TempDir};
use tests::{Names, Page, Provisioner, Registry, root, write_program};

use crate::environment::{apply, binary, provisioner_account};
use crate::upgrade;

/// End of a rule in the manifest of the operator.
const SECRETS: &str = "          - secrets\n          verbs:\n          - get\n";

/// A cluster, and the directory in which the commands of a page run.
struct Stage {
    dir: TempDir,
    cluster: Cluster,
    programs: String,
    _provisioner: Provisioner,
    /// Kubeconfig of the provisioner.
    _account: NamedTempFile,
}

impl Stage {
    /// Starts a separate cluster, because the page lists all installed objects. Its node reports pods as ready.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        prepare(root(), dir.path());
        let options = cluster::Options::default();
        let cluster = Cluster::start_with(&options).await.unwrap();
        cluster.stand_in_node().await.unwrap();
        apply(&cluster, install::objects(&install::Options::default())).await;
        let account = provisioner_account(&cluster).await;
        let provisioner = Provisioner::beside(&binary(), account.path());
        let wrapper = format!(
            "#!/bin/sh\ncase $1 in install | content | adopt) set -- \"$@\" --content-address {} ;; esac\nexec {} \"$@\"\n",
            provisioner.content(),
            binary().display()
        );
        write_program(&path("bin/rukpak"), &wrapper);
        let tools = cluster.tools().unwrap().display();
        let system = std::env::var("PATH").unwrap();
        let programs = format!("{}:{tools}:{system}", path("bin").display());
        Self {
            dir,
            cluster,
            programs,
            _provisioner: provisioner,
            _account: account,
        }
    }

    /// Runs a command and returns its output. A command that fails has to print an error, or differences.
    fn run(&self, command: &str) -> String {
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(self.dir.path())
            .env("PATH", &self.programs)
            .env("KUBECONFIG", self.cluster.kubeconfig_path())
            .env("KUBECACHEDIR", self.dir.path().join("kubectl"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let is_error = |line: &str| line.to_ascii_lowercase().starts_with("error");
        let is_diff = command.starts_with("rukpak diff ") && output.status.code() == Some(1);
        let is_expected = output.status.success() || is_diff || text.lines().any(is_error);
        assert!(is_expected, "{command}: {text}");
        text
    }

    fn play(&self, page: &Page, min: usize) {
        page.play(min, &Names::default(), |command| self.run(command));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_show_what_the_command_does() {
    let stage = Stage::new().await;
    stage.play(&Page::read("README.md", "console").introduction(), 4);
    // Both pages start with a new cluster.
    let deleted = stage.run("kubectl delete namespace tidewatch");
    assert_eq!(deleted, "namespace \"tidewatch\" deleted\n");
    stage.play(&Page::read("docs/cli.md", "console"), 9);
}

// parity: run-5
#[tokio::test(flavor = "multi_thread")]
async fn pages_about_operators_show_what_the_command_does() {
    let stage = Stage::new().await;
    let registry = Registry::plain();
    let names = Names(vec![("localhost:5000", registry.host().to_owned())]);
    Page::read("docs/run-bundle.md", "console").play(8, &names, |command| stage.run(command));
    platform_operators_are_as_their_page_shows(&stage).await;
}

async fn platform_operators_are_as_their_page_shows(stage: &Stage) {
    let dir = stage.dir.path();
    let path = |name: &str| dir.join(name);
    // The operator supports at most this OpenShift and uses an API that the next one removes.
    let properties = path("tidewatch/metadata/properties.yaml");
    replace(&properties, "\"4.20\"", "\"4.23\"");
    let manifest = path("tidewatch/manifests/tidewatch.clusterserviceversion.yaml");
    let cidrs = "        - apiGroups:\n          - networking.k8s.io\n          resources:\n          - servicecidrs\n          \
                 verbs:\n          - list\n";
    replace(&manifest, SECRETS, &format!("{SECRETS}{cidrs}"));
    let catalog = path("catalog/catalog.yaml");
    let example = include_str!("../../../examples/catalog/tidewatch/catalog.yaml");
    tests::write(dir, "catalog/catalog.yaml", example);
    replace(&catalog, "\"4.20\"", "\"4.23\"");
    let range = "  skipRange: '>=1.0.0 <1.4.0'\n";
    let next = "- name: tidewatch.v1.5.0\n  replaces: tidewatch.v1.4.0\n";
    replace(&catalog, range, &format!("{range}{next}"));
    let bundle = json!({
        "schema": "olm.bundle", "package": "tidewatch", "name": "tidewatch.v1.5.0", "image": "quay.io/tidewatch/bundle:v1.5.0",
        "properties": [
            {"type": "olm.package", "value": {"packageName": "tidewatch", "version": "1.5.0"}},
            {"type": "olm.maxOpenShiftVersion", "value": "5.1"},
        ],
    });
    fs::write(path("catalog/next.json"), bundle.to_string()).unwrap();
    upgrade::become_openshift(&stage.cluster, "4.23.1").await;
    let api = "servicecidrs.v1beta1.networking.k8s.io";
    upgrade::count(&stage.cluster, api, "tidewatch:tidewatch-operator", 96).await;
    let printed = stage.run("rukpak install tidewatch tidewatch");
    tests::assert_has(printed, "installed: version 1.4.0");

    stage.play(&Page::read("docs/platform-render.md", "console"), 3);
    stage.play(&Page::read("docs/cluster-upgrades.md", "console"), 1);
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// Writes the example bundle and its next version, with other images, one more permission and one ConfigMap less.
fn prepare(root: &Path, dir: &Path) {
    for (name, version) in [("tidewatch", "1.4.0"), ("next", "1.5.0")] {
        symlink(name, dir.join(format!("tidewatch-{version}"))).unwrap();
        let paths = [root.join("examples/bundles/tidewatch"), dir.join(name)];
        let copied = Command::new("cp").arg("-R").args(paths).status();
        assert!(copied.unwrap().success());
    }
    let manifests = dir.join("next/manifests");
    fs::remove_file(manifests.join("tidewatch-harbours_v1_configmap.yaml")).unwrap();
    let path = manifests.join("tidewatch.clusterserviceversion.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("1.4.0", "1.5.0");
    fs::write(&path, text.replace("v1.3.2", "v1.4.0")).unwrap();
    replace(&path, SECRETS, &format!("{SECRETS}          - list\n"));
    let station = "apiVersion: tidewatch.example.com/v1\nkind: Station\n\
                   metadata: {name: harbour, namespace: default}\nspec: {place: harbour, gauges: 2}\n";
    fs::write(dir.join("station.yaml"), station).unwrap();
}

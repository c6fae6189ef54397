//! The pages for users: each command in a `console` block of docs/cli.md, and before that of the first one in README, is
//! run, in one folder and on one cluster, and has to print what the page shows; those of docs/platform-operators.md and of
//! docs/run-bundle.md on others. A line that is `…` stands for any number of lines.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use cluster::Cluster;
use manifests::api::install;
use serde_json::json;
use tempfile::TempDir;
use tests::{Provisioner, Registry};

use crate::{upgrade, world::binary};

/// A cluster, and the folder in which the commands of a page are run.
struct Stage {
    folder: TempDir,
    cluster: Cluster,
    programs: String,
    _provisioner: Provisioner,
    /// The kubeconfig of the provisioner.
    _account: TempDir,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

impl Stage {
    /// A cluster of its own: the page shows all that is installed. Its node reports pods as ready.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        prepare(root(), folder.path());
        let cluster = Cluster::start_with(&cluster::Options::default())
            .await
            .unwrap();
        cluster.stand_in_node().await.unwrap();
        crate::world::install(&cluster, &install::Options::default()).await;
        let account = crate::world::provisioner_account(&cluster).await;
        let provisioner = Provisioner::beside(&binary(), &account.1);
        fs::create_dir(path("bin")).unwrap();
        let wrapper = format!(
            "#!/bin/sh\ncase $1 in install | content | adopt) set -- \"$@\" --content-address {} ;; esac\nexec {} \"$@\"\n",
            provisioner.content(),
            binary().display()
        );
        fs::write(path("bin/rukpak"), wrapper).unwrap();
        fs::set_permissions(path("bin/rukpak"), fs::Permissions::from_mode(0o755)).unwrap();
        let tools = cluster.tools().unwrap().display();
        let system = std::env::var("PATH").unwrap();
        let programs = format!("{}:{tools}:{system}", path("bin").display());
        Self {
            folder,
            cluster,
            programs,
            _provisioner: provisioner,
            _account: account.0,
        }
    }

    fn run(&self, command: &str) -> String {
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(self.folder.path())
            .env("PATH", &self.programs)
            .env("KUBECONFIG", self.cluster.kubeconfig_path())
            .env("KUBECACHEDIR", self.folder.path().join("kubectl"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs commands, each of which has to print what is shown.
    fn play<'p>(&self, commands: impl IntoIterator<Item = (&'p str, Vec<&'p str>)>) {
        for (command, shown) in commands {
            let printed = self.run(command);
            assert!(
                is_shown(&printed.lines().collect::<Vec<_>>(), &shown),
                "$ {command}\n{printed}\nand not\n{}",
                shown.join("\n")
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_show_what_the_command_does() {
    let stage = Stage::new().await;
    let first = fs::read_to_string(root().join("README.md")).unwrap();
    let first = first.split("\n## ").next().unwrap();
    let page = fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let (first, rest) = (commands(first), commands(&page));
    assert!(first.len() >= 4 && rest.len() > 8, "{first:?} {rest:?}");
    // Both begin in a new cluster.
    let between = (
        "kubectl delete namespace tidewatch",
        vec!["namespace \"tidewatch\" deleted"],
    );
    stage.play(first.into_iter().chain([between]).chain(rest));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_platform_operators_shows_what_the_command_does() {
    let stage = Stage::new().await;
    let path = |name: &str| stage.folder.path().join(name);
    // It runs on this OpenShift at most, and may read what goes with the next one.
    let properties = path("tidewatch/metadata/properties.yaml");
    replace(&properties, "\"4.20\"", "\"4.23\"");
    let manifest = path("tidewatch/manifests/tidewatch.clusterserviceversion.yaml");
    let secrets = "          - secrets\n          verbs:\n          - get\n";
    let cidrs = "        - apiGroups:\n          - networking.k8s.io\n          resources:\n          - servicecidrs\n          \
                 verbs:\n          - list\n";
    replace(&manifest, secrets, &format!("{secrets}{cidrs}"));
    let catalog = path("catalog/catalog.yaml");
    fs::create_dir(path("catalog")).unwrap();
    fs::copy(
        root().join("examples/catalog/tidewatch/catalog.yaml"),
        &catalog,
    )
    .unwrap();
    replace(&catalog, "\"4.20\"", "\"4.23\"");
    replace(
        &catalog,
        "  skipRange: '>=1.0.0 <1.4.0'\n",
        "  skipRange: '>=1.0.0 <1.4.0'\n- name: tidewatch.v1.5.0\n  replaces: tidewatch.v1.4.0\n",
    );
    let bundle = json!({
        "schema": "olm.bundle", "package": "tidewatch", "name": "tidewatch.v1.5.0", "image": "quay.io/tidewatch/bundle:v1.5.0",
        "properties": [
            {"type": "olm.package", "value": {"packageName": "tidewatch", "version": "1.5.0"}},
            {"type": "olm.maxOpenShiftVersion", "value": "5.1"},
        ],
    });
    fs::write(path("catalog/next.json"), bundle.to_string()).unwrap();
    upgrade::become_openshift(&stage.cluster, "4.23.1").await;
    let counted = "servicecidrs.v1beta1.networking.k8s.io";
    upgrade::count(
        &stage.cluster,
        counted,
        "1.37",
        "tidewatch:tidewatch-operator",
        96,
    )
    .await;
    let printed = stage.run("rukpak install tidewatch tidewatch");
    assert!(printed.contains("installed: version 1.4.0"), "{printed}");

    let page = fs::read_to_string(root().join("docs/platform-operators.md")).unwrap();
    let commands = commands(&page);
    assert!(commands.len() >= 4, "{commands:?}");
    stage.play(commands);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_run_bundle_shows_what_the_command_does() {
    let stage = Stage::new().await;
    let registry = Registry::plain();
    let page = fs::read_to_string(root().join("docs/run-bundle.md")).unwrap();
    let page = page.replace("localhost:5000", registry.host());
    let commands = commands(&page);
    assert!(commands.len() >= 8, "{commands:?}");
    stage.play(commands);
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// The bundle of the examples, and the version after it: other images, one more right, and one ConfigMap less.
fn prepare(root: &Path, folder: &Path) {
    for name in ["tidewatch", "next"] {
        let version = match name {
            "next" => "tidewatch-1.5.0",
            _ => "tidewatch-1.4.0",
        };
        symlink(name, folder.join(version)).unwrap();
        let copied = Command::new("cp")
            .arg("-R")
            .arg(root.join("examples/bundles/tidewatch"))
            .arg(folder.join(name))
            .status();
        assert!(copied.unwrap().success());
    }
    let manifests = folder.join("next/manifests");
    fs::remove_file(manifests.join("tidewatch-harbours_v1_configmap.yaml")).unwrap();
    let path = manifests.join("tidewatch.clusterserviceversion.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| {
        if line.contains("tidewatch.v1.3.2") {
            line.replace("tidewatch.v1.3.2", "tidewatch.v1.4.0")
        } else {
            line.replace("1.4.0", "1.5.0")
        }
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let secrets = "          - secrets\n          verbs:\n          - get\n";
    assert!(text.contains(secrets), "{text}");
    let text = text.replace(secrets, &format!("{secrets}          - list\n"));
    fs::write(path, text).unwrap();
    let station = "apiVersion: tidewatch.example.com/v1\nkind: Station\n\
                   metadata: {name: harbour, namespace: default}\nspec: {place: harbour, gauges: 2}\n";
    fs::write(folder.join("station.yaml"), station).unwrap();
}

/// Commands, and what the page shows below them.
fn commands(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            commands.push((command, Vec::new()));
        } else if let Some((_, shown)) = commands.last_mut().filter(|_| is_console) {
            shown.push(line);
        }
    }
    commands
}

fn is_shown(printed: &[&str], shown: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|from| is_shown(&printed[from..], rest)),
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, more)| first == line && is_shown(more, rest)),
    }
}

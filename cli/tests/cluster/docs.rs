//! The pages for users: each command in a `console` block of docs/cli.md, and before that of the first one in README, is
//! run, in one folder and on one cluster, and has to print what the page shows. A line that is `…` stands for any number of lines.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use cluster::Cluster;
use manifests::api::install;
use tests::Provisioner;

use crate::world::binary;

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_show_what_the_command_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    prepare(root, folder.path());

    // A cluster of its own: the page shows all that is installed. Its node reports pods as ready.
    let cluster = Cluster::start_with(&cluster::Options::default())
        .await
        .unwrap();
    cluster.stand_in_node().await.unwrap();
    crate::world::install(&cluster, &install::Options::default()).await;
    let provisioner = Provisioner::beside(&binary(), cluster.kubeconfig_path());
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

    let first = fs::read_to_string(root.join("README.md")).unwrap();
    let first = first.split("\n## ").next().unwrap();
    let page = fs::read_to_string(root.join("docs/cli.md")).unwrap();
    let (first, rest) = (commands(first), commands(&page));
    assert!(first.len() >= 4 && rest.len() > 8, "{first:?} {rest:?}");
    // Both begin in a new cluster.
    let between = (
        "kubectl delete namespace tidewatch",
        vec!["namespace \"tidewatch\" deleted"],
    );
    for (command, shown) in first.into_iter().chain([between]).chain(rest) {
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(folder.path())
            .env("PATH", &programs)
            .env("KUBECONFIG", cluster.kubeconfig_path())
            .env("KUBECACHEDIR", path("kubectl"))
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(
            is_shown(&printed.lines().collect::<Vec<_>>(), &shown),
            "$ {command}\n{printed}\nand not\n{}",
            shown.join("\n")
        );
    }
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

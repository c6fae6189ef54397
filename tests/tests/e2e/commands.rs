//! The command `rukpak` as users have it, uploads and downloads through port-forwards: the rows K of rukpak's tests.

use std::{fs, process::Command};

use cluster::KUBECONFIG;
use tests::Run;

use super::{
    bundle::Operator,
    wait::PATIENCE,
    world::{CORE_POD, World, world},
};

/// Runs the command as the administrator, whose kubeconfig has a client certificate and no token. What it waits for has
/// an end.
fn rukpak(world: &World, args: &[&str]) -> Run {
    let waits = matches!(args.first(), Some(&("install" | "uninstall")));
    let mut command = Command::new("rukpak");
    command
        .args(args)
        .args(waits.then(|| format!("--timeout={}s", PATIENCE.as_secs())))
        .env("KUBECONFIG", world.cluster.kubeconfig_path())
        .env_remove(KUBECONFIG);
    command.output().unwrap().into()
}

// parity: k1
#[tokio::test]
async fn k1_k4_a_folder_is_uploaded_runs_and_can_be_read_again() {
    let world = world().await;
    let _there = CORE_POD.read().await;
    let operator = Operator::new("commands", "1.0.0");
    let folder = operator.folder();
    let run = rukpak(
        world,
        &["install", "commands", folder.path().to_str().unwrap()],
    )
    .exits(0);
    let told = "bundleinstance.core.rukpak.io/commands installed: version 1.0.0,";
    assert!(
        run.out.starts_with(told) && run.out.ends_with("healthy\n"),
        "{run:?}"
    );
    let instance = world.healthy("commands", "1.0.0").await;
    let bundle = instance.status.unwrap().installed_bundle_name.unwrap();

    let tree = rukpak(world, &["status", "commands"]).exits(0).out;
    assert!(
        tree.starts_with("BundleInstance commands 1.0.0 in "),
        "{tree}"
    );
    assert!(tree.contains("✓ Deployment "), "{tree}");

    let run = rukpak(world, &["content", &bundle]).exits(0);
    let kinds: Vec<String> = manifests::yaml::documents(run.out.as_bytes())
        .map(|document| {
            document.unwrap()["kind"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    for kind in ["CustomResourceDefinition", "Deployment", "ServiceAccount"] {
        assert!(kinds.iter().any(|it| it == kind), "{kinds:?}");
    }
    let to = tempfile::tempdir().unwrap();
    let to = to.path().join("copy");
    let to = to.to_str().unwrap();
    rukpak(world, &["content", &bundle, "--original", "-o", to]).exits(0);
    let read = |root: &str| fs::read(format!("{root}/manifests/csv.yaml")).unwrap();
    assert_eq!(read(to), read(folder.path().to_str().unwrap()));

    let run = rukpak(world, &["diff", "commands", to]).exits(0);
    assert_eq!(run.out, "", "the same bundle changes nothing");
    rukpak(world, &["uninstall", "commands", "--yes"]).exits(0);
}

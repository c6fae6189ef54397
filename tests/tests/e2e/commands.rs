//! The command `rukpak` as users run it, with uploads and downloads through port-forwards: the rows K of rukpak's tests.

use std::{fs, process::Command};

use cluster::KUBECONFIG;
use tests::Run;

use super::{
    bundle::Operator,
    environment::{CORE_POD, World, world},
};

/// Runs the command as the cluster admin, whose kubeconfig has a client certificate and no token.
fn rukpak(world: &World, args: &[&str]) -> Run {
    let mut command = Command::new("rukpak");
    command
        .args(args)
        .env("KUBECONFIG", world.cluster.kubeconfig_path())
        .env_remove(KUBECONFIG);
    command.output().unwrap().into()
}

// parity: k1
#[tokio::test]
async fn k1_k4_directory_is_uploaded_runs_and_is_downloaded() {
    let world = world().await;
    let _unchanged = CORE_POD.read().await;
    let operator = Operator::new("commands", "1.0.0");
    let dir = operator.dir();
    let path = dir.path().to_str().unwrap();
    let run = rukpak(world, &["install", "commands", path, "--timeout=4m"]).exits(0);
    run.out_starts_with("bundleinstance.core.rukpak.io/commands installed: version 1.0.0,");
    assert!(run.out.ends_with("healthy\n"), "{run:?}");
    let instance = world.healthy("commands", "1.0.0").await;
    let bundle = instance.status.unwrap().installed_bundle_name.unwrap();

    let copy = tempfile::tempdir().unwrap();
    let copy = copy.path().join("copy");
    let copy = copy.to_str().unwrap();
    rukpak(world, &["content", &bundle, "--original", "-o", copy]).exits(0);
    let read = |root: &str| fs::read(format!("{root}/manifests/csv.yaml")).unwrap();
    assert_eq!(read(copy), read(path));

    rukpak(world, &["uninstall", "commands", "--yes", "--timeout=4m"]).exits(0);
}

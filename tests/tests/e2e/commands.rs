//! The command `rukpak` as users have it, uploads and downloads through port-forwards: the rows K of rukpak's tests.

use std::{fs, process::Command};

use cluster::KUBECONFIG;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::{
    bundle::Operator,
    wait::PATIENCE,
    world::{CORE_POD, World, world},
};

/// What a run left behind.
#[derive(Debug)]
struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs the command as the administrator, whose kubeconfig has a client certificate and no token. What it waits for has
/// an end.
fn rukpak(world: &World, args: &[&str]) -> Run {
    let waits = matches!(args.first(), Some(&("install" | "uninstall")));
    let output = Command::new("rukpak")
        .args(args)
        .args(waits.then(|| format!("--timeout={}s", PATIENCE.as_secs())))
        .env("KUBECONFIG", world.cluster.kubeconfig_path())
        .env_remove(KUBECONFIG)
        .output()
        .unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Run {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

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

#[tokio::test]
async fn k2_k3_k5_k6_what_cannot_be_had_is_told() {
    let world = world().await;
    let _there = CORE_POD.read().await;
    let run = rukpak(world, &["install", "nothing", "/no/such/folder"]).exits(1);
    assert!(
        run.err.to_lowercase().contains("no such file or directory"),
        "{run:?}"
    );
    let bad = tempfile::tempdir().unwrap();
    fs::create_dir(bad.path().join("manifests")).unwrap();
    fs::write(bad.path().join("manifests/bad.yaml"), "kind: [").unwrap();
    let run = rukpak(world, &["install", "nothing", bad.path().to_str().unwrap()]).exits(1);
    assert!(run.err.contains("nothing was changed"), "{run:?}");
    assert_eq!(world.instances().get_opt("nothing").await.unwrap(), None);

    let run = rukpak(world, &["content", "badname"]).exits(1);
    let told = "content command failed: bundles.core.rukpak.io \"badname\" not found";
    assert!(run.err.contains(told), "{run:?}");
    let image = world.image("no-such-bundle:v1");
    let run = rukpak(world, &["install", "nothing", &image, "--tls-verify=false"]).exits(1);
    assert!(run.err.contains("no-such-bundle"), "{run:?}");
    let bundles = world
        .bundles()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let bundle = bundles
        .into_iter()
        .filter_map(|it| it.metadata.name)
        .find(|name| name.starts_with("nothing-"))
        .unwrap();
    let run = rukpak(world, &["content", &bundle]).exits(1);
    assert!(
        run.err
            .contains("content command failed: error: url is not available"),
        "{run:?}"
    );
    rukpak(world, &["uninstall", "nothing", "--yes"]).exits(0);
}

#[tokio::test]
async fn an_object_that_exists_is_adopted_through_the_content_service() {
    let world = world().await;
    let _there = CORE_POD.read().await;
    let map = |text: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "adopted", "namespace": "default"},
            "data": {text: text},
        })
    };
    world.apply(map("old")).await;
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("manifests")).unwrap();
    fs::write(
        folder.path().join("manifests/map.yaml"),
        map("new").to_string(),
    )
    .unwrap();
    let bundle = folder.path().to_str().unwrap();
    rukpak(world, &["install", "adopter", bundle]).exits(1);
    // The tests' own manager is none of those that put objects into clusters.
    let flags = ["--yes", "--field-manager", "cluster-tests"];
    rukpak(world, &[&["adopt", "adopter"][..], &flags].concat()).exits(0);
    rukpak(world, &["install", "adopter", bundle]).exits(0);
    let maps = world.of::<ConfigMap>("default");
    let data = maps.get("adopted").await.unwrap().data.unwrap();
    assert_eq!(json!(data), json!({"new": "new"}));
    rukpak(world, &["uninstall", "adopter", "--yes"]).exits(0);
}

//! Who may, and what is said to those who may not, or are nowhere.

use std::{fs, process::Command};

use crate::world::{binary, eventually, plain, text, unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_missing_are_named() {
    let world = world().await;
    let name = unique("rights");
    let bundle = plain(&[&name], "one");
    let (_nobody, nobody) = world.somebody(&unique("nobody"), &[]).await;
    for args in [
        &["status"][..],
        &["status", &name],
        &["install", &name, text(&bundle)],
        &["pause", &name],
        &["uninstall", &name],
        &["content", &name],
    ] {
        world
            .run_as(&nobody, args)
            .exits(1)
            .says("is forbidden")
            .says("ask an administrator");
    }
    // Installing is one right, sending content another.
    let (_author, author) = world
        .somebody(&unique("author"), &["bundleinstances-admin"])
        .await;
    world
        .run_as(&author, &["install", &name, text(&bundle)])
        .exits(1)
        .says("rukpak-ca");
    let (_viewer, viewer) = world
        .somebody(&unique("viewer"), &["bundleinstances-view"])
        .await;
    // What is passing may not be in the status at once.
    eventually("looked at", async || {
        let run = world.run_as(&viewer, &["status", &name]).exits(0);
        let is_told = run.out.contains("UnpackPending");
        is_told.then_some(()).ok_or(run.out)
    })
    .await;
    world.run_as(&viewer, &["resume", &name]).exits(0); // there is nothing to change
    world
        .run_as(&viewer, &["pause", &name])
        .exits(1)
        .says("is forbidden");
    world.remove(&name);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_kubeconfig_is_used_and_has_to_have_the_right() {
    let world = world().await;
    let name = unique("token");
    let bundle = plain(&[&name], "one");
    let system = |role: &str| {
        serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": format!("{name}-{role}"), "namespace": "rukpak-system"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        })
    };
    let (_folder, kubeconfig) = world.somebody(&name, &["bundleinstances-admin"]).await;
    world.apply(&system("content-client")).await;
    world
        .run_as(&kubeconfig, &["install", &name, text(&bundle)])
        .exits(1)
        .says("bundle-uploader")
        .says("is not allowed to update bundles.core.rukpak.io/content of Bundle");
    let (_folder, kubeconfig) = world.somebody(&name, &["bundle-uploader"]).await;
    world
        .run_as(&kubeconfig, &["install", &name, text(&bundle)])
        .exits(0);
    world.remove(&name);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impersonated_user_counts() {
    let world = world().await;
    world
        .fail("status --as somebody --as-group nobody")
        .says("User \"somebody\"");
}

#[test]
fn a_cluster_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = |server: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: a, user: {{token: t}}}}]\n"
        )
    };
    // Nobody listens there.
    fs::write(path("closed"), config("http://127.0.0.1:1")).unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("bad"), "contexts: 12\n").unwrap();
    let run = |args: &[&str], environment: &str| {
        let output = Command::new(binary())
            .arg("status")
            .args(args)
            .env("KUBECONFIG", environment)
            .env("HOME", folder.path())
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output();
        crate::world::Run::from(output.unwrap()).exits(1)
    };
    run(&[], "").says("there is no kubeconfig");
    run(&[], &path("no-such")).says("$KUBECONFIG names no file that exists");
    run(&["--kubeconfig", &path("no-such")], "").says("no-such");
    run(&[], &path("empty")).says("no current context");
    run(&[], &path("bad")).says("cannot be used");
    let closed = path("closed");
    run(&[], &closed)
        .says("cannot be reached")
        .says("Connection refused");
    run(&["--context", "b"], &closed)
        .says("no context \"b\"")
        .says("it has a");
    // The first of several wins, and one that does not exist is no harm.
    let several = format!("{}:{}:{closed}", path("no-such"), path("empty"));
    run(&[], &several).says("cannot be reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_rukpak_is_told() {
    let bare = crate::world::bare().await;
    let output = Command::new(binary())
        .args(["status", "--kubeconfig"])
        .arg(bare.kubeconfig_path())
        .output();
    crate::world::Run::from(output.unwrap())
        .exits(1)
        .says("rukpak is not installed there");
}

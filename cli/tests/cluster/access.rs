//! Rights that the commands need, and the servers that they trust.

use serde_json::json;

use crate::world::{World, eventually, plain, text, unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_and_untrusted_servers_are_reported() {
    let world = world().await;
    let name = unique("rights");
    let bundle = plain(&[&name], "one");
    let install = ["install", &name, text(&bundle)];
    world
        .fail("status --as somebody --as-group nobody")
        .says("User \"somebody\"");
    let (_nobody, nobody) = world.somebody(&unique("nobody"), &[]).await;
    for args in [
        &["status"][..],
        &["status", &name],
        &install,
        &["pause", &name],
        &["uninstall", &name],
        &["content", &name],
        &["upgrade-check"],
    ] {
        world
            .run_as(&nobody, args)
            .exits(1)
            .says("is forbidden")
            .says("ask an administrator");
    }
    // Installing is one right, reading the authority of the content service another, and sending content a third one.
    let (_author, author) = world.somebody(&name, &["bundleinstances-admin"]).await;
    world.run_as(&author, &install).exits(1).says("rukpak-ca");
    viewers_only_read(world, &name).await;
    world
        .apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": "rukpak-system"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "content-client"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        }))
        .await;
    world
        .run_as(&author, &install)
        .exits(1)
        .says("bundle-uploader")
        .says("is not allowed to update bundles.core.rukpak.io/content of Bundle");
    // The API server has TLS as well, and the certificate of another authority.
    let server = world.cluster.config().cluster_url.to_string();
    world
        .run_at(&server, &install)
        .exits(1)
        .says("the content service cannot be believed");
    let (_uploader, uploader) = world.somebody(&name, &["bundle-uploader"]).await;
    world.run_as(&uploader, &install).exits(0);
    world.remove(&name);
}

async fn viewers_only_read(world: &World, name: &str) {
    let (_viewer, viewer) = world
        .somebody(&unique("viewer"), &["bundleinstances-view"])
        .await;
    // The status reports the pending upload a moment later.
    eventually("looked at", async || {
        let run = world.run_as(&viewer, &["status", name]).exits(0);
        let is_reported = run.out.contains("UnpackPending");
        is_reported.then_some(()).ok_or(run.out)
    })
    .await;
    world.run_as(&viewer, &["resume", name]).exits(0); // there is nothing to change
    world
        .run_as(&viewer, &["pause", name])
        .exits(1)
        .says("is forbidden");
}

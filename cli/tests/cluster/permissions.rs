//! Permissions that the commands need, and servers that they trust.

use crate::environment::{
    Rukpak as _, World, account, binding, eventually, plain, text, unique, world,
};

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_and_untrusted_servers_are_reported() {
    let world = world().await;
    let name = unique("permissions");
    let dir = plain(&[&name], "one");
    let bundle = text(&dir);
    let no_roles = world.kubeconfig(&unique("bare"), None).await;
    let no_roles = no_roles.path().display();
    // Installing, reading the CA of the content service, and uploading content need separate permissions.
    let author = world.kubeconfig(&name, Some("bundleinstances-admin")).await;
    let author = author.path().display();
    tests::assert_runs! { world;
        "status --as ann --as-group readers" => 1, "", "User \"ann\"";
        "status --kubeconfig {no_roles}" => 1, "", "is forbidden", "ask a cluster admin";
        "status {name} --kubeconfig {no_roles}" => 1, "", "is forbidden", "ask a cluster admin";
        "install {name} {bundle} --kubeconfig {no_roles}" => 1, "", "is forbidden", "ask a cluster admin";
        "pause {name} --kubeconfig {no_roles}" => 1, "", "is forbidden", "ask a cluster admin";
        "uninstall {name} --kubeconfig {no_roles}" => 1, "", "is forbidden", "ask a cluster admin";
        "content {name} --kubeconfig {no_roles}" => 1, "", "is forbidden", "ask a cluster admin";
        "upgrade-check --kubeconfig {no_roles}" => 1, "", "is forbidden", "ask a cluster admin";
        "install {name} {bundle} --kubeconfig {author}" => 1, "", "rukpak-ca";
    }
    viewers_only_read(world, &name).await;
    let role = ("Role", "content-client");
    let bound = binding(&name, Some("rukpak-system"), role, &account(&name));
    world.apply(bound).await;
    // The API server also uses TLS, with a certificate of another CA.
    let server = &world.cluster.config().cluster_url;
    tests::assert_runs! { world;
        "install {name} {bundle} --kubeconfig {author}"
            => 1, "", "bundle-uploader", "is not allowed to update bundles.core.rukpak.io/content of Bundle";
        "install {name} {bundle} --content-address {server}" => 1, "", "failed to verify the content service";
    }
    let uploader = world.kubeconfig(&name, Some("bundle-uploader")).await;
    let uploader = uploader.path().display();
    world.ok(&format!("install {name} {bundle} --kubeconfig {uploader}"));
    world.remove(&name);
}

async fn viewers_only_read(world: &World, name: &str) {
    let role = Some("bundleinstances-view");
    let viewer = world.kubeconfig(&unique("viewer"), role).await;
    let viewer = viewer.path().display();
    // The status reports the pending upload a moment later.
    eventually("pending", async || {
        let run = world.ok(&format!("status {name} --kubeconfig {viewer}"));
        let is_reported = run.out.contains("UnpackPending");
        is_reported.then_some(()).ok_or(run.out)
    })
    .await;
    tests::assert_runs! { world;
        "resume {name} --kubeconfig {viewer}" => 0, _; // there is nothing to change
        "pause {name} --kubeconfig {viewer}" => 1, "", "is forbidden";
    }
}

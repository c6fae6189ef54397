//! Uninstalls, in every state of an instance.

mod offline;

use std::net::{Ipv4Addr, TcpListener};

use kube::api::PropagationPolicy;

use super::*;

fn orphaning() -> DeleteParams {
    tests::with!(DeleteParams, propagation_policy: Some(PropagationPolicy::Orphan))
}

async fn request_deletion(world: &World, name: &str, params: &DeleteParams) {
    let api: Api<BundleInstance> = world.api();
    api.delete(name, params).await.unwrap();
}

// parity: rukpak-9, i9, platform-19, openshift-10, g4, rukpak-32, rukpak-40, rukpak-41
#[tokio::test]
async fn uninstall_in_both_modes_keeps_only_namespaces() {
    let world = running().await;
    for params in [DeleteParams::background(), DeleteParams::foreground()] {
        let name = unique("removal");
        let group = format!("{name}.example.com");
        let objects = [
            widget(&group, &name, "a", 1),
            support::namespace_object(&name),
            support::crd(&group, "Widget"),
            map(&name, "a", &[]),
            deployment(&name, "operator", 1, "1", "ready"),
            cluster_role(&name),
        ];
        let source = declare(world, &name, &objects).await;
        tests::assert_rows!(world.wait_instance(&name, "Installed", "True").await.status.unwrap().inventory.unwrap().count => 6);

        // Orphaned objects are adopted by an instance of the same name.
        let api = maps(world, &name);
        let before = api.get("a").await.unwrap().uid();
        request_deletion(world, &name, &orphaning()).await;
        wait_deleted::<BundleInstance>(world.api(), &name).await;
        no_bundles(world, &name).await;
        let orphan = api.get("a").await.unwrap();
        assert_eq!(orphan.uid(), before);
        assert_eq!(orphan.metadata.owner_references, None);
        assert_eq!(orphan.metadata.deletion_timestamp, None);
        world.instance(&name, "plain", source).await;
        world.wait_instance(&name, "Installed", "True").await;
        tests::assert_rows!(api.get("a").await.unwrap().uid() => before);

        request_deletion(world, &name, &params).await;
        wait_deleted(world.api::<BundleInstance>(), &name).await;
        let crd = format!("widgets.{group}");
        wait_deleted(world.api::<CustomResourceDefinition>(), &crd).await;
        wait_deleted(api, "a").await;
        wait_deleted(deployments(world, &name), "operator").await;
        wait_deleted(world.api::<ClusterRole>(), &name).await;
        no_bundles(world, &name).await;

        let namespaces: Api<Namespace> = world.api();
        let namespace = namespaces.get(&name).await.unwrap();
        assert_eq!(namespace.metadata.deletion_timestamp, None);
        assert_eq!(namespace.labels().get(labels::OWNER_NAME), None);
        support::delete(&namespaces, &name).await;
    }
}

#[tokio::test]
async fn instances_are_removed_in_every_state() {
    let world = running().await;
    // The Bundle of the instance is being unpacked. The server accepts connections and never answers.
    let name = unique("pending");
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let source = json!({"type": "http", "http": {"url": format!("http://{}/bundle.tgz", silent.local_addr().unwrap())}});
    let source = serde_json::from_value(source).unwrap();
    world.instance(&name, "plain", source).await;
    wait_reason(world, &name, "HasValidBundle", "UnpackPending").await;
    assert_eq!(bundles(world, &name).await.len(), 1);
    world.uninstall(&name).await;
    no_bundles(world, &name).await;

    // A part of the bundle is applied.
    let (name, space) = fresh(world, "half").await;
    let mut invalid = deployment(space.name(), "operator", 1, "1", "ready");
    invalid["spec"]["selector"]["matchLabels"]["app"] = "another".into();
    let crd = support::crd(&format!("{name}.example.com"), "Widget");
    declare(world, &name, &[map(space.name(), "a", &[]), crd, invalid]).await;
    wait_message(world, &name, "Installed InstallFailed", &["operator"]).await;
    // It belongs to an earlier wave.
    maps(world, space.name()).get("a").await.unwrap();
    world.uninstall(&name).await;
    wait_deleted(maps(world, space.name()), "a").await;
    let crd = format!("widgets.{name}.example.com");
    wait_deleted(world.api::<CustomResourceDefinition>(), &crd).await;
    no_bundles(world, &name).await;
}

// parity: rukpak-32
#[tokio::test]
async fn finalizer_delays_the_uninstall_and_no_object_is_recreated() {
    let (world, name, space) = start("held").await;
    let objects = ["held", "free"].map(|object| map(space.name(), object, &[]));
    install(world, &name, &objects).await;
    let api = maps(world, space.name());
    let hold = json!({"metadata": {"finalizers": ["example.com/rival"]}});
    patch_as_other(&api, "held", hold).await;

    request_deletion(world, &name, &DeleteParams::default()).await;
    let parts = [
        "waiting for 1 object to be deleted",
        &format!("ConfigMap {space}/held: is being deleted"),
        "example.com/rival",
        "remove the finalizers",
    ];
    wait_message(world, &name, "Progressing Uninstalling", &parts).await;
    assert_eq!(api.get_opt("free").await.unwrap(), None);

    // Neither another template nor another object causes a write.
    upgrade(world, &name, "v2", &[map(space.name(), "comes", &[])]).await;
    observed(world, &name).await;
    patch_as_other(&api, "held", json!({"data": {"more": "text"}})).await;
    finalize(&api, "held").await;
    wait_deleted(world.api::<BundleInstance>(), &name).await;
    no_bundles(world, &name).await;
    let left = api.list(&ListParams::default()).await.unwrap();
    let left: Vec<String> = left.iter().map(kube::ResourceExt::name_any).collect();
    assert!(left.iter().all(|map| map == "kube-root-ca.crt"), "{left:?}");
}

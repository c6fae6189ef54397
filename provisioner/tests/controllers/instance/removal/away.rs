//! Removals that began while no provisioner ran.

use cluster::Cluster;
use kube::{
    Client, Resource,
    api::{Patch, PatchParams},
};

use super::*;
use crate::{
    catalogs::denied::{allow, deny_unless},
    support::Provisioner,
};

const RESOURCE: (&str, &str) = ("core.rukpak.io", "bundleinstances");

fn api<K: Resource<DynamicType = ()>>(client: &Client) -> Api<K> {
    Api::all(client.clone())
}

/// An instance of two ConfigMaps and a definition.
struct Installed {
    maps: Api<ConfigMap>,
    name: String,
    definition: String,
}

async fn install(client: &Client, instances: &Api<BundleInstance>, prefix: &str) -> Installed {
    // Only the registry is shared: another provisioner would take part in the removal.
    let world = world().await;
    let name = unique(prefix);
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let params = kube::api::PostParams::default();
    let namespaces: Api<Namespace> = api(client);
    namespaces.create(&params, &namespace).await.unwrap();
    let group = format!("{name}.example.com");
    let objects = [
        map(&name, "held", &[]),
        map(&name, "free", &[]),
        support::crd(&group, "Widget"),
    ];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    let instance = support::instance(&name, "plain", source);
    instances.create(&params, &instance).await.unwrap();
    let is_healthy = |instance: &BundleInstance| {
        support::has(&instance.status.as_ref()?.conditions, "Healthy", "True").then_some(())
    };
    support::wait_for(instances.clone(), &name, "Healthy", is_healthy).await;
    Installed {
        maps: Api::namespaced(client.clone(), &name),
        definition: format!("widgets.{group}"),
        name,
    }
}

async fn kill(provisioner: Provisioner) {
    provisioner.signal("KILL").await;
    provisioner.ended().await;
}

/// Deletes an instance whose objects are orphaned, and waits until the garbage collector has released the objects.
async fn orphan(instances: &Api<BundleInstance>, installed: &Installed) {
    let params = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    instances.delete(&installed.name, &params).await.unwrap();
    let is_released =
        |instance: &BundleInstance| (instance.finalizers() == [labels::UNINSTALL]).then_some(());
    support::wait_for(
        instances.clone(),
        &installed.name,
        "released by the garbage collector",
        is_released,
    )
    .await;
}

/// Denies the removal of the finalizer of an instance.
async fn retain_finalizer(cluster: &Cluster, instances: &Api<BundleInstance>, name: &str) {
    let expression = format!(
        "object.metadata.name != '{name}' || '{}' in object.metadata.?finalizers.orValue([])",
        labels::UNINSTALL
    );
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let removal = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let attempt = async || instances.patch(name, &dry_run, &removal).await;
    deny_unless(&expression, cluster, "UPDATE", RESOURCE, attempt).await;
}

#[tokio::test]
async fn instances_deleted_during_an_outage_are_removed_or_orphaned() {
    let cluster = support::with_controllers().await;
    let client = cluster.client().unwrap();
    let instances: Api<BundleInstance> = api(&client);
    let first = Provisioner::start(&cluster, support::Options::default()).await;
    let orphaned = install(&client, &instances, "orphaned").await;
    let deleted = install(&client, &instances, "deleted").await;
    kill(first).await;

    orphan(&instances, &orphaned).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/rival"]}});
    meddle(&deleted.maps, "held", hold).await;
    let params = DeleteParams::default();
    instances.delete(&deleted.name, &params).await.unwrap();
    // The provisioner would repair both ConfigMaps of an instance that is not deleted.
    deleted.maps.delete("free", &params).await.unwrap();
    let waiting = instances.get(&deleted.name).await.unwrap();
    assert!(waiting.metadata.deletion_timestamp.is_some());

    // The second process begins with both removals, and is killed before the end.
    retain_finalizer(&cluster, &instances, &orphaned.name).await;
    let second = Provisioner::start(&cluster, support::Options::default()).await;
    support::wait_for(
        instances.clone(),
        &deleted.name,
        "waiting for the held ConfigMap",
        |instance: &BundleInstance| {
            let found = condition(&instance.status.as_ref()?.conditions, "Progressing")?;
            found.message.contains("example.com/rival").then_some(())
        },
    )
    .await;
    assert_eq!(deleted.maps.get_opt("free").await.unwrap(), None);
    let bundles: Api<Bundle> = api(&client);
    let has_prefix = |bundle: &Bundle| bundle.name_any().starts_with(&orphaned.name);
    support::eventually("the orphaned instance has no Bundle", async || {
        let found = bundles.list(&ListParams::default()).await.unwrap().items;
        let left = found.iter().find(|bundle| has_prefix(bundle));
        left.map_or(Ok(()), |left| Err(format!("{left:?}")))
    })
    .await;
    kill(second).await;
    allow(&cluster, RESOURCE.1).await;
    let released = json!({"metadata": {"finalizers": null}});
    meddle(&deleted.maps, "held", released).await;

    let _third = Provisioner::start(&cluster, support::Options::default()).await;
    support::gone(instances.clone(), &deleted.name).await;
    support::gone(deleted.maps.clone(), "held").await;
    assert_eq!(deleted.maps.get_opt("free").await.unwrap(), None);
    let definitions = api::<CustomResourceDefinition>(&client);
    support::gone(definitions.clone(), &deleted.definition).await;

    support::gone(instances.clone(), &orphaned.name).await;
    for name in ["held", "free"] {
        let left = orphaned.maps.get(name).await.unwrap();
        assert_eq!(left.metadata.owner_references, None);
        assert_eq!(left.metadata.deletion_timestamp, None);
    }
    let left = definitions.get(&orphaned.definition).await.unwrap();
    assert_eq!(left.metadata.deletion_timestamp, None);
    support::eventually("there are no Bundles", async || {
        let left = bundles.list(&ListParams::default()).await.unwrap().items;
        left.is_empty()
            .then_some(())
            .ok_or_else(|| format!("{left:?}"))
    })
    .await;
}

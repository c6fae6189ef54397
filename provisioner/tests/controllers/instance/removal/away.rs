//! Removing what was to go while nobody was there.

use cluster::{Cluster, Lease};
use kube::{Client, Resource};

use super::*;
use crate::support::Provisioner;

fn api<K: Resource<DynamicType = ()>>(client: &Client) -> Api<K> {
    Api::all(client.clone())
}

/// A cluster whose provisioner has installed two ConfigMaps and a definition, and is gone.
struct Away {
    cluster: Lease,
    instances: Api<BundleInstance>,
    maps: Api<ConfigMap>,
    name: String,
    definition: String,
}

async fn away() -> Away {
    // The registry only; the provisioner of the others would have a hand in this.
    let world = world().await;
    let cluster = support::with_controllers().await;
    let client = cluster.client().unwrap();
    let name = unique("away");
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let params = kube::api::PostParams::default();
    let namespaces: Api<Namespace> = api(&client);
    namespaces.create(&params, &namespace).await.unwrap();
    let group = format!("{name}.example.com");
    let objects = [
        map(&name, "held", &[]),
        map(&name, "free", &[]),
        support::crd(&group, "Widget"),
    ];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    let provisioner = Provisioner::start(&cluster, support::Options::default()).await;
    let instances: Api<BundleInstance> = api(&client);
    let instance = support::instance(&name, "plain", source);
    instances.create(&params, &instance).await.unwrap();
    let is_healthy = |it: &BundleInstance| {
        support::has(&it.status.as_ref()?.conditions, "Healthy", "True").then_some(())
    };
    support::wait_for(instances.clone(), &name, "Healthy", is_healthy).await;
    provisioner.signal("KILL").await;
    provisioner.ended().await;
    Away {
        instances,
        maps: Api::namespaced(client, &name),
        definition: format!("widgets.{group}"),
        name,
        cluster,
    }
}

async fn no_bundles_at_all(cluster: &Cluster) {
    let bundles: Api<Bundle> = api(&cluster.client().unwrap());
    support::eventually("there are no Bundles", async || {
        let left = bundles.list(&ListParams::default()).await.unwrap().items;
        left.is_empty()
            .then_some(())
            .ok_or_else(|| format!("{left:?}"))
    })
    .await;
}

#[tokio::test]
async fn what_was_orphaned_while_no_provisioner_ran_stays() {
    let away = away().await;
    let params = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    away.instances.delete(&away.name, &params).await.unwrap();
    let has_no_mark = |it: &BundleInstance| (it.finalizers() == [labels::UNINSTALL]).then_some(());
    support::wait_for(
        away.instances.clone(),
        &away.name,
        "the garbage collector's mark is off",
        has_no_mark,
    )
    .await;

    let _provisioner = Provisioner::start(&away.cluster, support::Options::default()).await;
    support::gone(away.instances.clone(), &away.name).await;
    no_bundles_at_all(&away.cluster).await;
    for name in ["held", "free"] {
        let left = away.maps.get(name).await.unwrap();
        assert_eq!(left.metadata.owner_references, None);
        assert_eq!(left.metadata.deletion_timestamp, None);
    }
    let definitions = api::<CustomResourceDefinition>(&away.cluster.client().unwrap());
    let left = definitions.get(&away.definition).await.unwrap();
    assert_eq!(left.metadata.deletion_timestamp, None);
}

#[tokio::test]
async fn an_instance_goes_that_was_deleted_while_no_provisioner_ran() {
    let away = away().await;
    let Away {
        cluster,
        instances,
        maps,
        name,
        definition,
    } = &away;
    let hold = json!({"metadata": {"finalizers": ["example.com/rival"]}});
    meddle(maps, "held", hold).await;
    instances
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    // Both would have been repaired, were it not for the removal.
    maps.delete("free", &DeleteParams::default()).await.unwrap();
    let waiting = instances.get(name).await.unwrap();
    assert!(waiting.metadata.deletion_timestamp.is_some());

    // The second one begins with the removal, and is stopped amid it.
    let second = Provisioner::start(cluster, support::Options::default()).await;
    support::wait_for(
        instances.clone(),
        name,
        "waiting for what is held",
        |it: &BundleInstance| {
            let found = condition(&it.status.as_ref()?.conditions, "Progressing")?;
            found.message.contains("example.com/rival").then_some(())
        },
    )
    .await;
    assert_eq!(maps.get_opt("free").await.unwrap(), None);
    second.signal("KILL").await;
    second.ended().await;
    meddle(maps, "held", json!({"metadata": {"finalizers": null}})).await;

    let _third = Provisioner::start(cluster, support::Options::default()).await;
    support::gone(instances.clone(), name).await;
    support::gone(maps.clone(), "held").await;
    assert_eq!(maps.get_opt("free").await.unwrap(), None);
    let definitions = api::<CustomResourceDefinition>(&cluster.client().unwrap());
    support::gone(definitions, definition).await;
    no_bundles_at_all(cluster).await;
}

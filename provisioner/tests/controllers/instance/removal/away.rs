//! Removing what was to go while nobody was there.

use cluster::{Cluster, Options};
use kube::{Client, Resource};

use super::*;
use crate::support::Provisioner;

fn api<K: Resource<DynamicType = ()>>(client: &Client) -> Api<K> {
    Api::all(client.clone())
}

#[tokio::test]
async fn an_instance_goes_that_was_deleted_while_no_provisioner_ran() {
    // The registry only; the provisioner of the others would have a hand in this.
    let world = world().await;
    let cluster = Cluster::start_with(&Options::default()).await.unwrap();
    support::prepare(&cluster).await;
    let client = cluster.client().unwrap();
    let space = cluster.temp_namespace("away").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), space.name());
    let name = unique("away");
    let group = format!("{name}.example.com");
    let objects = [
        map(space.name(), "held", &[]),
        map(space.name(), "free", &[]),
        support::crd(&group, "Widget"),
    ];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    let first = Provisioner::start(&cluster, support::Options::default()).await;
    let instances: Api<BundleInstance> = api(&client);
    let instance = support::instance(&name, "plain", source);
    instances
        .create(&kube::api::PostParams::default(), &instance)
        .await
        .unwrap();
    support::wait_for(
        instances.clone(),
        &name,
        "Healthy",
        |it: &BundleInstance| {
            support::has(&it.status.as_ref()?.conditions, "Healthy", "True").then_some(())
        },
    )
    .await;
    let hold = json!({"metadata": {"finalizers": ["example.com/rival"]}});
    meddle(&maps, "held", hold).await;
    first.signal("KILL").await;
    first.ended().await;

    instances
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    // Both would have been repaired, were it not for the removal.
    maps.delete("free", &DeleteParams::default()).await.unwrap();
    let waiting = instances.get(&name).await.unwrap();
    assert!(waiting.metadata.deletion_timestamp.is_some());

    // The second one begins with the removal, and is stopped amid it.
    let second = Provisioner::start(&cluster, support::Options::default()).await;
    support::wait_for(
        instances.clone(),
        &name,
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
    meddle(&maps, "held", json!({"metadata": {"finalizers": null}})).await;

    let _third = Provisioner::start(&cluster, support::Options::default()).await;
    support::gone(instances, &name).await;
    support::gone(maps.clone(), "held").await;
    assert_eq!(maps.get_opt("free").await.unwrap(), None);
    let definition = format!("widgets.{group}");
    support::gone(api::<CustomResourceDefinition>(&client), &definition).await;
    support::eventually("there are no Bundles", async || {
        let left = api::<Bundle>(&client).list(&ListParams::default()).await;
        let left = left.unwrap().items;
        left.is_empty()
            .then_some(())
            .ok_or_else(|| format!("{left:?}"))
    })
    .await;
}

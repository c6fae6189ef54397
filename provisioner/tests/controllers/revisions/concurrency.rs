//! Slow rollouts leave workers to the repair and the deletion of other instances.

use std::collections::BTreeSet;

use kube::api::ListParams;
use manifests::api::bundle::{Bundle, Phase};
use tokio::time::sleep;

use super::*;
use crate::faults::support::empty;
use crate::support::{Fault, Provisioner, Relay, namespace_object};

/// The number of objects that the controller reconciles at once.
const SLOW: usize = 16;

// Rollouts take a part of the workers: those that wait for the API server delay neither the repair nor the deletion of
// another instance.
#[tokio::test]
async fn slow_rollouts_delay_no_other_instance() {
    let (cluster, _audit, _lease) = empty().await;
    let relay = Relay::new(cluster).await;
    let provisioner = Provisioner::start(cluster, relay.options()).await;
    let world = World::with_provisioner(cluster, provisioner);
    let other = Fixture::new(&world, "kept").await;
    other.install(&[other.map("kept", "1")]).await;
    let deleted = Fixture::new(&world, "deleted").await;
    deleted.install(&[deleted.map("deleted", "1")]).await;

    // The API server answers no request for objects in the namespace of the slow instances.
    let slow = unique("slow");
    world.apply(&namespace_object(&slow)).await;
    let path: &'static str = format!("/namespaces/{slow}/").leak();
    relay.fails(Fault::Silent(vec![path].leak()));
    for number in 0..SLOW {
        let name = format!("{slow}-{number}");
        let bundle = plain(&[config_map(&slow, &name, "1")]);
        let pushed = world.push(&format!("{name}:v1"), &bundle).await;
        world.instance(&name, "plain", image(&pushed)).await;
    }
    let unpacked = async || {
        let bundles: Api<Bundle> = world.api();
        let bundles = bundles.list(&ListParams::default()).await.unwrap();
        let unpacked = bundles.iter().filter(|bundle| {
            let phase = bundle.status.as_ref().and_then(|status| status.phase);
            bundle.name_any().starts_with(&slow) && phase == Some(Phase::Unpacked)
        });
        unpacked.count()
    };
    becomes("all slow Bundles unpacked", unpacked, |count| {
        *count == SLOW
    })
    .await;
    // The rollouts begin.
    sleep(Duration::from_secs(1)).await;

    other.alter("kept").await;
    let instances: Api<BundleInstance> = world.api();
    delete(&instances, &deleted.name).await;
    let mut delayed = BTreeSet::from(["deletion", "repair"]);
    let end = Instant::now() + REPAIR_TIMEOUT;
    while !delayed.is_empty() && Instant::now() < end {
        sleep(Duration::from_millis(50)).await;
        if other.text("kept").await.as_deref() == Some("1") {
            delayed.remove("repair");
        }
        if instances.get_opt(&deleted.name).await.unwrap().is_none() {
            delayed.remove("deletion");
        }
    }
    assert!(
        delayed.is_empty(),
        "delayed for more than {REPAIR_TIMEOUT:?} by {SLOW} slow rollouts: {delayed:?}"
    );

    relay.mend();
    let slow: Vec<_> = (0..SLOW).map(|number| format!("{slow}-{number}")).collect();
    for name in &slow {
        delete(&instances, name).await;
    }
    for name in &slow {
        wait_deleted(instances.clone(), name).await;
    }
    other.uninstall().await;
}

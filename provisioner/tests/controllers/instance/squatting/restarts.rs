//! Bundles that are replaced while the provisioner cannot write its records, and during its downtime.

use super::{records::forget_records, upgrades::replaced_bundles_are_not_installed, *};
use crate::faults::support::empty;
use crate::support::{Fault, Relay};

/// The API server fails to store the status of this instance.
fn unwritable(name: &str) -> Fault {
    let path: &'static str = format!("/bundleinstances/{name}/status").leak();
    Fault::Failed(vec![path].leak())
}

/// Waits until the provisioner has created a Bundle that is unpacked and not recorded in the status.
async fn unrecorded(squatter: &Squatter<'_>, recorded_uids: &[String]) -> Bundle {
    let (world, name) = (squatter.world, &squatter.name);
    eventually("an unpacked Bundle without a record", async || {
        let all = bundles(world, name).await;
        let status = read(world, name).await.status.unwrap();
        let found = all.iter().find(|bundle| {
            let uid = bundle.uid().unwrap();
            bundle.spec.source != squatter.content
                && !recorded_uids.contains(&uid)
                && status.bundles.iter().all(|created| created.uid != uid)
                && is_unpacked(bundle)
        });
        found.cloned().ok_or_else(|| format!("{all:?} {status:?}"))
    })
    .await
}

async fn unrecorded_bundles_are_not_installed(cluster: &'static Cluster, relay: &Relay) {
    let options = relay.options();
    let world = World::bare(cluster);
    let mut provisioner = Provisioner::start(cluster, options.clone()).await;
    let (name, space, squatter, observer) = squatted(&world, "unrecorded", only_a).await;
    let mut recorded_uids = vec![installed_is_recorded(&world, &name).await.uid];
    for (version, is_squatted) in [("2", false), ("3", true)] {
        relay.fails(unwritable(&name));
        upgrade(&world, &name, version, &[a(space.name(), version)]).await;
        let created = unrecorded(&squatter, &recorded_uids).await;
        provisioner.kill().await;
        let mut left = created.clone();
        if is_squatted {
            left = squatter.replace(&created).await.unwrap();
        }
        relay.restore();

        provisioner = Provisioner::start(cluster, options.clone()).await;
        let recorded = is_installed(&world, &name, space.name(), version).await;
        assert_ne!(Some(&recorded.uid), created.uid().as_ref());
        assert_ne!(Some(&recorded.uid), left.uid().as_ref());
        is_deleted(&world, &name, &left).await;
        recorded_uids.push(recorded.uid);
    }
    observer.finish(&["a=2", "a=3"]).await;
    world.uninstall(&name).await;
}

async fn unrecorded_adoption_trusts_no_other_bundle(cluster: &'static Cluster, relay: &Relay) {
    let options = relay.options();
    let world = World::bare(cluster);
    let provisioner = Provisioner::start(cluster, options.clone()).await;
    let (name, space, squatter, observer) = squatted(&world, "unadopted", only_a).await;
    let before = installed_is_recorded(&world, &name).await;
    provisioner.kill().await;
    forget_records(&world, &name).await;
    let has_record = async || {
        let status = read(&world, &name).await.status;
        status.unwrap().installed.is_some()
    };
    let api = maps(&world, space.name());

    // The installed Bundle is adopted, and repairs use the Bundle although the record is not written.
    relay.fails(unwritable(&name));
    let provisioner = Provisioner::start(cluster, options.clone()).await;
    let failure = "failed to record the installed Bundle; retrying";
    provisioner.wait_log(failure).await;
    support::delete(&api, "a").await;
    has_value(&world, space.name(), "a", "v", "1").await;
    assert!(!has_record().await);

    // Another Bundle replaces the installed one. Repairs use the recorded revision, and neither that Bundle nor one without
    // a record.
    let foreign = squatter.replace_recorded(&before).await;
    support::delete(&api, "a").await;
    let created = unrecorded(&squatter, std::slice::from_ref(&before.uid)).await;
    has_value(&world, space.name(), "a", "v", "1").await;
    assert!(!has_record().await);
    provisioner.kill().await;

    // The installation continues after a restart, from a Bundle that is recorded.
    relay.restore();
    let _provisioner = Provisioner::start(cluster, options).await;
    let recorded = is_installed(&world, &name, space.name(), "1").await;
    assert_eq!(recorded.content_digest, before.content_digest);
    assert_ne!(recorded.uid, before.uid);
    for other in [&foreign, &created] {
        assert_ne!(Some(&recorded.uid), other.uid().as_ref());
    }
    is_deleted(&world, &name, &foreign).await;
    observer.finish(&[]).await;
    world.uninstall(&name).await;
}

async fn bundles_replaced_during_downtime_are_not_installed(cluster: &'static Cluster) {
    let world = World::bare(cluster);
    let mut provisioner = Some(Provisioner::start(cluster, Options::default()).await);
    let (name, space, squatter, observer) = squatted(&world, "down", only_a).await;
    let replace = async || {
        provisioner.take().unwrap().kill().await;
        for bundle in bundles(&world, &name).await {
            squatter.replace(&bundle).await.unwrap();
        }
        provisioner = Some(Provisioner::start(cluster, Options::default()).await);
    };
    replaced_bundles_are_not_installed(&world, &name, space.name(), replace).await;
    observer.finish(&[]).await;
    world.uninstall(&name).await;
    delete_stored(&world, &name).await;
}

#[tokio::test]
async fn restarts_install_no_foreign_bundle() {
    let (cluster, _audit, _lease) = empty().await;
    let relay = Relay::new(cluster).await;
    Box::pin(unrecorded_bundles_are_not_installed(cluster, &relay)).await;
    Box::pin(unrecorded_adoption_trusts_no_other_bundle(cluster, &relay)).await;
    Box::pin(bundles_replaced_during_downtime_are_not_installed(cluster)).await;
}

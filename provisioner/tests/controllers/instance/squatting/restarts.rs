//! Bundles that are replaced while the provisioner cannot write its records, and during its downtime.

use cluster::Cluster;

use super::{records::forget_records, *};
use crate::faults::support::empty;
use crate::support::{Fault, Options, Provisioner, Relay, eventually};

/// The API server fails to store the status of this instance.
fn unwritable(name: &str) -> Fault {
    let path: &'static str = format!("/bundleinstances/{name}/status").leak();
    Fault::Failed(vec![path].leak())
}

/// Waits until the provisioner has created a Bundle that is unpacked and not recorded in the status.
async fn unrecorded(
    world: &World,
    name: &str,
    squatter: &Squatter,
    recorded_uids: &[&str],
) -> Bundle {
    eventually("an unpacked Bundle without a record", async || {
        let all = bundles(world, name).await;
        let status = read(world, name).await.status.unwrap();
        let found = all.iter().find(|bundle| {
            let uid = bundle.uid().unwrap();
            let unpacked = bundle.status.as_ref();
            bundle.spec.source != squatter.content
                && !recorded_uids.contains(&uid.as_str())
                && status.bundles.iter().all(|created| created.uid != uid)
                && unpacked.is_some_and(|status| status.content_digest.is_some())
        });
        found.cloned().ok_or_else(|| format!("{all:?} {status:?}"))
    })
    .await
}

/// A Bundle that is not recorded is not installed after a kill.
async fn unrecorded_bundles_are_not_installed(cluster: &'static Cluster, relay: &Relay) {
    let options = relay.options();
    let world = World::bare(cluster);
    let mut provisioner = Provisioner::start(cluster, options.clone()).await;
    let (name, space, squatter, observer) = squatted(&world, "unrecorded", only_a).await;
    let installed = installed_is_recorded(&world, &name).await;

    let mut recorded_uids = vec![installed.uid];
    for (version, is_squatted) in [("2", false), ("3", true)] {
        relay.fails(unwritable(&name));
        upgrade(&world, &name, version, &[a(space.name(), version)]).await;
        let uids: Vec<&str> = recorded_uids.iter().map(String::as_str).collect();
        let created = unrecorded(&world, &name, &squatter, &uids).await;
        provisioner.kill().await;
        let left = if is_squatted {
            squatter.replace(&created).await.unwrap()
        } else {
            created.clone()
        };
        relay.mend();

        provisioner = Provisioner::start(cluster, options.clone()).await;
        has_value(&world, space.name(), "a", "v", version).await;
        wait_reason(&world, &name, "Installed", "InstallationSucceeded").await;
        let recorded = installed_is_recorded(&world, &name).await;
        assert_ne!(Some(&recorded.uid), created.uid().as_ref());
        assert_ne!(Some(&recorded.uid), left.uid().as_ref());
        is_deleted(&world, &name, &left).await;
        recorded_uids.push(recorded.uid);
    }
    let entries = observer.finish().await;
    assert!(
        entries.contains("a=2") && entries.contains("a=3"),
        "{entries:?}"
    );
    delete(&world, &name).await;
}

/// An adoption that cannot be recorded trusts no other Bundle.
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
    provisioner
        .says("failed to record the installed Bundle; retrying")
        .await;
    support::delete(&api, "a").await;
    has_value(&world, space.name(), "a", "v", "1").await;
    assert!(!has_record().await);

    // Another Bundle replaces the installed one. Repairs use the recorded revision, and neither that Bundle nor one without
    // a record.
    let all = bundles(&world, &name).await;
    let installed = all.iter().find(|bundle| before.is(bundle)).unwrap();
    let foreign = squatter.replace(installed).await.unwrap();
    // The provisioner may delete the foreign Bundle before it is unpacked.
    eventually("the foreign Bundle is unpacked or deleted", async || {
        let all = bundles(&world, &name).await;
        let existing = all.iter().find(|bundle| bundle.uid() == foreign.uid());
        let is_done = existing.is_none_or(|bundle| {
            let status = bundle.status.as_ref();
            status.is_some_and(|status| status.content_digest.is_some())
        });
        is_done.then_some(()).ok_or_else(|| format!("{all:?}"))
    })
    .await;
    support::delete(&api, "a").await;
    let created = unrecorded(&world, &name, &squatter, &[&before.uid]).await;
    has_value(&world, space.name(), "a", "v", "1").await;
    assert!(!has_record().await);
    provisioner.kill().await;

    // The installation continues after a restart, from a Bundle that is recorded.
    relay.mend();
    let _provisioner = Provisioner::start(cluster, options).await;
    has_value(&world, space.name(), "a", "v", "1").await;
    wait_reason(&world, &name, "Installed", "InstallationSucceeded").await;
    let recorded = installed_is_recorded(&world, &name).await;
    assert_eq!(recorded.content_digest, before.content_digest);
    for other in [installed, &foreign, &created] {
        assert_ne!(Some(&recorded.uid), other.uid().as_ref());
    }
    is_deleted(&world, &name, &foreign).await;
    observer.finish().await;
    delete(&world, &name).await;
}

/// A Bundle that was replaced while no provisioner ran is not installed.
async fn bundles_replaced_during_downtime_are_not_installed(cluster: &'static Cluster) {
    let world = World::bare(cluster);
    let mut provisioner = Provisioner::start(cluster, Options::default()).await;
    let (name, space, squatter, observer) = squatted(&world, "down", only_a).await;
    let restart = async |provisioner: Provisioner| {
        provisioner.kill().await;
        for bundle in bundles(&world, &name).await {
            squatter.replace(&bundle).await.unwrap();
        }
    };

    // Installed.
    let before = installed_is_recorded(&world, &name).await;
    restart(provisioner).await;
    support::delete(&maps(&world, space.name()), "a").await;
    provisioner = Provisioner::start(cluster, Options::default()).await;
    has_value(&world, space.name(), "a", "v", "1").await;
    let after = installed_is_recorded(&world, &name).await;
    assert_ne!(before.uid, after.uid);
    assert_eq!(before.content_digest, after.content_digest);

    // Recorded, and not unpacked.
    point_at(&world, &name, &stored_in(&name)).await;
    wait_reason(&world, &name, "HasValidBundle", "UnpackFailed").await;
    restart(provisioner).await;
    store(&world, &name, &[a(space.name(), "2")]).await;
    provisioner = Provisioner::start(cluster, Options::default()).await;
    has_value(&world, space.name(), "a", "v", "2").await;
    installed_is_recorded(&world, &name).await;

    // Unpacked, and not applied: a namespace is missing.
    let missing = format!("{name}-later");
    let objects = [a(space.name(), "3"), map(&missing, "b", &[])];
    let source = publish(&world, &format!("{name}:v3"), &objects).await;
    point_at(&world, &name, &source).await;
    wait_reason(&world, &name, "Installed", "UpgradeFailed").await;
    restart(provisioner).await;
    world.apply(&support::namespace_object(&missing)).await;
    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    has_value(&world, space.name(), "a", "v", "3").await;
    wait_reason(&world, &name, "Installed", "InstallationSucceeded").await;
    installed_is_recorded(&world, &name).await;

    observer.finish().await;
    delete(&world, &name).await;
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

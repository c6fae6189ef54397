//! Outages of bundle sources and of the content store.

use std::{fs, time::Duration};

use tokio::time::{Instant, sleep};

use super::support::{stage, took};
use crate::support::{Line, Options, Play, config_map, image, plain, storage, unique};

/// Time in which a test counts retries.
const WHILE: Duration = Duration::from_secs(5);

// parity: rukpak-14
#[tokio::test]
async fn outages_of_registry_and_storage_are_waited_for() {
    let dir = storage();
    let storage = Some(dir.path().join("store"));
    let stage = stage(tests::with!(Options, storage)).await;
    // An unavailable registry is retried with growing delays.
    let world = &stage.world;
    let name = unique("down");
    let bundle = plain(&[config_map("default", &name, "1")]);
    let pushed = world.push(&format!("{name}:v1"), &bundle).await;
    let mut line = Line::new(world.registry.host()).await;
    let source = image(&pushed.replace(world.registry.host(), &line.host()));
    line.cut();
    let mark = stage.audit.mark();
    world.instance(&name, "plain", source).await;
    let failed = "HasValidBundle UnpackFailed";
    world.wait_message(&name, failed, &[&line.host()]).await;
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(60, "a registry is down");

    line.restore().await;
    let mended = Instant::now();
    world.wait_instance(&name, "Healthy", "True").await;
    took("from the registry's return to the installation", mended);
    world.uninstall(&name).await;

    // A content directory that cannot be written is reported and retried.
    let store = dir.path().join("store");
    let play = Play::installed(world, "stored").await;
    // Root cannot write below a regular file either.
    let away = dir.path().join("away");
    fs::rename(&store, &away).unwrap();
    fs::write(&store, "a regular file").unwrap();
    let mark = stage.audit.mark();
    play.upgrade(world, 2).await;
    let parts = [store.to_str().unwrap()];
    world.wait_message(&play.name, failed, &parts).await;
    sleep(WHILE).await;
    stage.audit.since(&mark).at_most(80, "an unusable store");

    fs::remove_file(&store).unwrap();
    fs::rename(&away, &store).unwrap();
    play.settled(world, 2).await;
    assert!(!stage.world.provisioner().await.has_ended());
    play.uninstall(world).await;
}

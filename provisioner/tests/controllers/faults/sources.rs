//! Outages of bundle sources and of the content store.

use std::{fs, path::Path, time::Duration};

use tokio::time::{Instant, sleep};

use super::support::{Stage, stage, took};
use crate::support::{Line, Options, Play, config_map, image, message, plain, storage, unique};

/// Time in which a test counts retries.
const WHILE: Duration = Duration::from_secs(5);

/// An unavailable registry is retried with growing delays.
async fn registry_is_waited_for(stage: &Stage) {
    let world = &stage.world;
    let name = unique("down");
    let bundle = plain(&[config_map("default", &name, "1")]);
    let pushed = world.push(&format!("{name}:v1"), &bundle).await;
    let mut line = Line::new(world.registry.host()).await;
    let source = image(&pushed.replace(world.registry.host(), &line.host()));
    line.cut();
    let mark = stage.audit.mark();
    world.instance(&name, "plain", source).await;
    let message = fails(stage, &name).await;
    assert!(message.contains(&line.host()), "{message}");
    sleep(WHILE).await;
    let requests = stage.audit.since(&mark);
    requests.at_most(60, "a registry that is down");

    line.mend().await;
    let mended = Instant::now();
    world.wait_instance(&name, "Healthy", "True").await;
    took("from the registry's return to the installation", mended);
    world.uninstall(&name).await;
}

/// A content directory that cannot be written is reported and retried.
async fn storage_is_waited_for(stage: &Stage, dir: &Path) {
    let store = dir.join("store");
    let world = &stage.world;
    let play = Play::new(world, "stored").await;
    play.install(world, 1).await;
    play.settled(world, 1).await;

    // Root cannot write below a regular file either.
    let away = dir.join("away");
    fs::rename(&store, &away).unwrap();
    fs::write(&store, "in the way").unwrap();
    let mark = stage.audit.mark();
    play.upgrade(world, 2).await;
    let message = fails(stage, &play.name).await;
    assert!(message.contains(store.to_str().unwrap()), "{message}");
    sleep(WHILE).await;
    let requests = stage.audit.since(&mark);
    requests.at_most(80, "a folder that is no folder");

    fs::remove_file(&store).unwrap();
    fs::rename(&away, &store).unwrap();
    play.settled(world, 2).await;
    assert!(!stage.provisioner().await.has_ended());
    play.remove(world).await;
    play.wait_deleted(world).await;
}

// parity: rukpak-14
#[tokio::test]
async fn outages_of_registry_and_storage_are_waited_for() {
    let dir = storage();
    let options = Options {
        storage: Some(dir.path().join("store")),
        ..Options::default()
    };
    let stage = stage(options).await;
    registry_is_waited_for(&stage).await;
    storage_is_waited_for(&stage, dir.path()).await;
}

/// Waits until an instance reports why its content is missing, and returns the message.
async fn fails(stage: &Stage, name: &str) -> String {
    let (world, failed) = (&stage.world, "HasValidBundle UnpackFailed");
    let instance = world.says(name, failed, &[]).await;
    message(&instance, "HasValidBundle").to_owned()
}

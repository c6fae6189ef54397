//! `rukpak pause` and `rukpak resume`.

use crate::world::{plain, text, unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_paused_and_resumed() {
    let world = world().await;
    let name = unique("pause");
    let bundle = plain(&[&name], "one");
    world.run(&["install", &name, text(&bundle)]).exits(0);
    let told = format!("bundleinstance.core.rukpak.io/{name}");
    let is_paused = async || world.instances().get(&name).await.unwrap().spec.paused;

    let run = world.run(&["pause", &name, "--dry-run=server"]).exits(0);
    assert_eq!(run.out, format!("{told} paused (server dry run)\n"));
    assert!(!is_paused().await);
    let run = world.run(&["resume", &name]).exits(0);
    assert_eq!(run.out, format!("{told} was not paused\n"));
    let run = world.run(&["pause", &name]).exits(0);
    assert_eq!(run.out, format!("{told} paused\n"));
    assert!(is_paused().await);
    let run = world.run(&["pause", &name, "-o", "json"]).exits(0);
    assert_eq!(run.json()["spec"]["paused"], true);

    // What waits for a paused instance would wait for ever.
    let other = plain(&[&name], "two");
    world
        .run(&["install", &name, text(&other), "--timeout", "20s"])
        .exits(1)
        .says("paused");
    let run = world.run(&["resume", &name, "-o", "name"]).exits(0);
    assert_eq!(run.out, format!("{told}\n"));
    assert!(!is_paused().await);
    world
        .run(&["pause", "no-such"])
        .exits(1)
        .says("\"no-such\" not found");
    world.remove(&name);
}

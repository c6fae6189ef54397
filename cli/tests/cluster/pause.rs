//! `rukpak pause` and `rukpak resume`.

use crate::world::{plain, text, unique, world};

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_paused_and_resumed() {
    let world = world().await;
    let name = unique("pause");
    let bundle = plain(&[&name], "one");
    world.ok(&format!("install {name} {}", text(&bundle)));
    let told = format!("bundleinstance.core.rukpak.io/{name}");
    let is_paused = async || world.instances().get(&name).await.unwrap().spec.paused;

    let run = world.ok(&format!("pause {name} --dry-run=server"));
    assert_eq!(run.out, format!("{told} paused (server dry run)\n"));
    assert!(!is_paused().await);
    let run = world.ok(&format!("resume {name}"));
    assert_eq!(run.out, format!("{told} was not paused\n"));
    let run = world.ok(&format!("pause {name}"));
    assert_eq!(run.out, format!("{told} paused\n"));
    assert!(is_paused().await);
    let run = world.ok(&format!("pause {name} -o json"));
    assert_eq!(run.json()["spec"]["paused"], true);

    // What waits for a paused instance would wait for ever.
    let other = plain(&[&name], "two");
    world
        .fail(&format!("install {name} {} --timeout 20s", text(&other)))
        .says("paused");
    let run = world.ok(&format!("resume {name} -o name"));
    assert_eq!(run.out, format!("{told}\n"));
    assert!(!is_paused().await);
    world.fail("pause no-such").says("\"no-such\" not found");
    world.remove(&name);
}

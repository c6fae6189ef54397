//! Upgrades that fail, and runs that are interrupted.

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{get, history, installed, scene::Operator, text};
use crate::world::{unique, until_it_listens, until_it_says, world};

// parity: sdk-28, sdk-29
#[tokio::test(flavor = "multi_thread")]
async fn failed_upgrades_leave_the_operator_and_can_be_rolled_back() {
    let world = world().await;
    let operator = Operator::new(&unique("fails"));
    let name = &operator.name;
    let first = operator.publish("0.0.1");
    // No node runs its pod.
    let second = operator.publish_with("0.0.2", &[operator.deployment()]);
    world.run_bundle(&first, &[]).exits(0);
    let before = get(name).await;
    let is_as_before = async || {
        let after = get(name).await;
        assert_eq!(after.spec, before.spec);
        assert_eq!(after.annotations(), before.annotations());
        after
    };
    let run = world
        .upgrade_bundle(&second, &["--timeout", "20s", "--rollback-on-failure"])
        .exits(1)
        .says(&format!(
            "Failed to run bundle upgrade: BundleInstance {name} is not ready after 20s"
        ))
        .says(&format!(
            "Kind=Deployment)({}/{name})",
            operator.namespace()
        ))
        .says("rolling back to ")
        .says("\nrolled back to ");
    assert_eq!(run.out, "");
    assert_eq!(text(&operator).await.as_deref(), Some("0.0.1"));
    assert_eq!(installed(&is_as_before().await), format!("{name}.v0.0.1"));

    // An upgrade that cannot be applied fails at once.
    let taken = format!("{name}-taken");
    let map = |space: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": taken, "namespace": space}});
    world.apply(&map(&operator.namespace().into())).await;
    let third = operator.publish_with("0.0.3", &[map(&Value::Null)]);
    let back = ["--rollback-on-failure"];
    world
        .upgrade_bundle(&third, &back)
        .exits(1)
        .says(&format!(
            "Failed to run bundle upgrade: BundleInstance {name} is not as it should be:"
        ))
        .says(&taken)
        .says("\nrolled back to ");
    is_as_before().await;

    // A rollback restores the version that runs, not one that was never ready.
    world.upgrade_bundle(&third, &[]).exits(1).says(&taken);
    assert_eq!(history(&get(name).await).len(), 2);
    // A second command rolls back as well.
    world
        .upgrade_bundle(&third, &back)
        .exits(1)
        .says("has this bundle already")
        .says("\nrolled back to ");
    is_as_before().await;
    world.upgrade_bundle(&third, &[]).exits(1).says(&taken);
    let fourth = operator.publish_with("0.0.4", &[map(&Value::Null)]);
    world
        .upgrade_bundle(&fourth, &back)
        .exits(1)
        .says("\nrolled back to ");
    is_as_before().await;

    // Without the flag the upgrade continues, and the history has the version that worked and the next one.
    let upgrade = ["run", "bundle-upgrade", &second, "--use-http"];
    until_it_says(world.spawn(&upgrade), &format!("/{name} configured\n"));
    assert_eq!(history(&get(name).await).len(), 2);
    until_it_says(world.spawn(&upgrade), "has this bundle already");
    world.ok(&format!("cleanup {name} --timeout 1m"));
}

// parity: sdk-30
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_and_killed_runs_are_continued() {
    let world = world().await;
    let operator = Operator::new(&unique("again"));
    let name = &operator.name;
    let image = operator.publish_with("0.0.1", &[operator.deployment()]);
    world
        .run_bundle(&image, &["--timeout", "20s"])
        .exits(1)
        .says(&format!("Failed to run bundle: BundleInstance {name} is not ready after 20s; its installation goes on"));
    let args = ["run", "bundle", &image, "--use-http"];
    let run = until_it_listens(world.spawn(&args)).await;
    assert!(
        run.err.contains("run the same command again") || run.err.contains("nothing was changed"),
        "{run:?}"
    );
    until_it_says(world.spawn(&args), "is there already, of this bundle");
    world.ok(&format!("cleanup {name}"));

    let first = operator.publish("0.0.1");
    world.run_bundle(&first, &[]).exits(0);
    let mut before = "0.0.1".to_owned();
    for (at, millis) in [20, 60, 120, 250, 500].into_iter().enumerate() {
        let version = format!("0.0.{}", at + 2);
        let image = operator.publish(&version);
        let mut child = world.spawn(&["run", "bundle-upgrade", &image, "--use-http"]);
        tokio::time::sleep(Duration::from_millis(millis)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        // The old version runs or the new one, and image and history belong to one of them.
        let now = text(&operator).await.unwrap();
        assert!(
            [&before, &version].contains(&&now),
            "{now} after {millis} ms"
        );
        let length = history(&get(name).await).len();
        assert!(
            [at + 1, at + 2].contains(&length),
            "{length} after {millis} ms"
        );
        let run = world.upgrade_bundle(&image, &[]).exits(0);
        assert_eq!(
            run.out,
            format!("Successfully upgraded to \"{name}.v{version}\"\n")
        );
        assert_eq!(text(&operator).await.as_ref(), Some(&version));
        assert_eq!(history(&get(name).await).len(), at + 2);
        before = version;
    }
    world.ok(&format!("cleanup {name}"));
}

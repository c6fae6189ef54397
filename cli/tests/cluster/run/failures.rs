//! Upgrades that fail, and runs that are interrupted.

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{get, history, installed, support::Operator, text};
use crate::environment::{
    Rukpak as _, interrupt_after_output, interrupt_when_listening, unique, world,
};

// parity: sdk-28, sdk-29
#[tokio::test(flavor = "multi_thread")]
async fn failed_upgrades_leave_the_operator_and_can_be_rolled_back() {
    let world = world().await;
    let operator = Operator::new(&unique("fails"));
    let (name, namespace) = (&operator.name, operator.namespace());
    let first = operator.publish("0.0.1");
    // Without a node, its pod never runs.
    let second = operator.publish_with("0.0.2", &[operator.deployment()]);
    world.ok(&format!("run bundle {first} --use-http"));
    let before = get(name).await;
    let is_as_before = async || {
        let after = get(name).await;
        assert_eq!(after.spec, before.spec);
        assert_eq!(after.annotations(), before.annotations());
        after
    };
    tests::assert_runs! { world;
        "run bundle-upgrade {second} --use-http --timeout 40s --rollback-on-failure"
            => 1, "", "Failed to run bundle upgrade: timed out after 40s: BundleInstance {name} is not ready",
            "Kind=Deployment)({namespace}/{name})", "rolling back to ", "\nrolled back to ";
    }
    assert_eq!(text(&operator).await.as_deref(), Some("0.0.1"));
    assert_eq!(installed(&is_as_before().await), format!("{name}.v0.0.1"));

    // An upgrade that cannot be applied fails at once.
    let taken = format!("{name}-taken");
    let map = |space: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": taken, "namespace": space}});
    world.apply(map(namespace.into())).await;
    let third = operator.publish_with("0.0.3", &[map(Value::Null)]);
    tests::assert_runs! { world;
        "run bundle-upgrade {third} --use-http --rollback-on-failure"
            => 1, "", "Failed to run bundle upgrade: BundleInstance {name} is not ready:", "{taken}",
            "\nrolled back to ";
    }
    is_as_before().await;

    // A second command rolls back as well.
    tests::assert_runs! { world;
        "run bundle-upgrade {third} --use-http" => 1, "", "{taken}";
        "run bundle-upgrade {third} --use-http --rollback-on-failure" => 1, "", "already has this bundle", "\nrolled back to ";
    }
    is_as_before().await;

    // Without the flag the upgrade continues, and the history has the version that worked and the next one.
    let upgrade = format!("run bundle-upgrade {second} --use-http");
    interrupt_after_output(world.spawn(&upgrade), &format!("/{name} configured\n"));
    assert_eq!(history(&get(name).await).len(), 2);
    interrupt_after_output(world.spawn(&upgrade), "already has this bundle");
    world.ok(&format!("cleanup {name} --timeout 1m"));
}

// parity: sdk-30
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_and_killed_runs_are_continued() {
    let world = world().await;
    let operator = Operator::new(&unique("again"));
    let name = &operator.name;
    let image = operator.publish_with("0.0.1", &[operator.deployment()]);
    let bundle = format!("run bundle {image} --use-http");
    tests::assert_runs! { world;
        "{bundle} --timeout 20s"
            => 1, "", "Failed to run bundle: timed out after 20s: BundleInstance {name} is not ready; the installation \
                       continues";
    }
    let run = interrupt_when_listening(world.spawn(&bundle)).await;
    let results = ["run the same command again", "no changes were made"];
    assert!(results.iter().any(|text| run.err.contains(text)), "{run:?}");
    interrupt_after_output(world.spawn(&bundle), "already exists with this bundle");
    let first = operator.publish("0.0.1");
    tests::assert_runs! { world;
        "cleanup {name}" => 0, _;
        "run bundle {first} --use-http" => 0, _;
    }
    let mut before = "0.0.1".to_owned();
    for (at, millis) in [20, 60, 120, 250, 500].into_iter().enumerate() {
        let version = format!("0.0.{}", at + 2);
        let image = operator.publish(&version);
        let mut child = world.spawn(&format!("run bundle-upgrade {image} --use-http"));
        tokio::time::sleep(Duration::from_millis(millis)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        // The old version runs or the new one, and image and history belong to one of them.
        let now = text(&operator).await.unwrap();
        let length = history(&get(name).await).len();
        let is_known = [&before, &version].contains(&&now) && [at + 1, at + 2].contains(&length);
        assert!(is_known, "{now}, {length} after {millis} ms");
        tests::assert_runs! { world;
            "run bundle-upgrade {image} --use-http" => 0, "Successfully upgraded to \"{name}.v{version}\"\n";
        }
        assert_eq!(text(&operator).await.as_ref(), Some(&version));
        assert_eq!(history(&get(name).await).len(), at + 2);
        before = version;
    }
    world.ok(&format!("cleanup {name}"));
}

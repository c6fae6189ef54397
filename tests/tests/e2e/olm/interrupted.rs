//! Interrupted commands: the next run continues, and the running operator is not affected.

use std::collections::BTreeSet;

use super::{
    availability::Guard,
    command::{fails, installed, names, rukpak, succeeds, upgrade, upgraded},
    environment::{World, world},
    index::Version,
    write_proxy::{Interruption, interrupted},
};

/// Two more than an upgrade may have writes.
const NUMBERS: [&str; 10] = [
    "0.0.1", "0.0.2", "0.0.3", "0.0.4", "0.0.5", "0.0.6", "0.0.7", "0.0.8", "0.0.9", "0.0.10",
];
/// The writes of every run: parts, a pod, the CatalogSource, the former objects, the InstallPlan.
const MIN_WRITES: usize = 5;

/// Runs the same command until it succeeds. Each run is interrupted one write later than the previous one.
fn step_by_step(world: &World, namespace: &str, args: &[&str], how: Interruption, last: &str) {
    let mut done = BTreeSet::new();
    let mut runs = 0;
    loop {
        let before = done.len();
        // The first run is interrupted before its first write.
        let writes = usize::from(how == Interruption::Kill && runs > 0);
        let attempt = interrupted(world, namespace, args, (writes, how), &mut done);
        if !attempt.is_interrupted {
            succeeds(attempt.run, last);
            break;
        }
        match how {
            Interruption::Kill => assert_eq!(done.len(), before + writes, "{attempt:#?}"),
            Interruption::Cut => {
                assert_eq!(done.len(), before + 1, "{attempt:#?}");
                fails(attempt.run, "run the same command again");
            }
        }
        runs += 1;
    }
    assert!(runs >= MIN_WRITES, "{done:#?}");
}

/// The command that installs the first version is killed before each of its writes. For every further version, the upgrade is
/// killed before another write, and a second run completes it.
// parity: sdk-30
#[tokio::test]
async fn killed_command_resumes_at_every_write() {
    let world = world().await;
    let space = "run-killed";
    world.bare_namespace(space).await;
    let first = Version::publish("crab", NUMBERS[0]);
    let args = ["run", "bundle", &first.image];
    let kill = Interruption::Kill;
    step_by_step(world, space, &args, kill, &installed(&first));
    world.succeeded(space, &first.csv());

    let guard = Guard::start(world, space, "crab-operator");
    let mut writes = 0;
    let mut before = first;
    loop {
        let version = Version::publish("crab", NUMBERS[writes + 1]);
        let args = ["run", "bundle-upgrade", &version.image];
        let killed = interrupted(world, space, &args, (writes, kill), &mut BTreeSet::new());
        if !killed.is_interrupted {
            succeeds(killed.run, &upgraded(&version));
            break;
        }
        assert_eq!((killed.run.code, killed.run.out.as_str()), (None, ""));
        // The former version keeps running until the InstallPlan is approved.
        world.succeeded(space, &before.csv());
        world.runs(space, "crab-operator").await;
        upgrade(world, space, &version, &[]);
        before = version;
        writes += 1;
    }
    assert!(writes >= MIN_WRITES, "{writes}");
    guard.assert_unharmed();
    let last = "Operator \"crab\" uninstalled\n";
    step_by_step(world, space, &["cleanup", "crab"], kill, last);
    let left = names(world, space, "csv,catalogsource,operatorgroup");
    assert_eq!(left, [""; 0]);
}

/// Every write is executed, but its answer is lost, and no later request reaches the API server. `cleanup` removes the objects
/// of an installation that is not continued.
// parity: sdk-30
#[tokio::test]
async fn disconnected_command_resumes_at_every_write() {
    let world = world().await;
    let space = "run-cut";
    world.bare_namespace(space).await;
    let versions = ["0.0.1", "0.0.2", "0.0.3"].map(|number| Version::publish("lobster", number));
    let cut = Interruption::Cut;
    let args = ["run", "bundle", &versions[0].image];
    let limit = (MIN_WRITES - 1, cut);
    let begun = interrupted(world, space, &args, limit, &mut BTreeSet::new());
    fails(begun.run, "rukpak cleanup lobster");
    let cleaned = rukpak(world, space, &["cleanup", "lobster"]);
    succeeds(cleaned, "Operator \"lobster\" uninstalled\n");
    let left = names(world, space, "catalogsource,operatorgroup");
    assert_eq!(left, [""; 0]);
    step_by_step(world, space, &args, cut, &installed(&versions[0]));
    world.succeeded(space, &versions[0].csv());

    let guard = Guard::start(world, space, "lobster-operator");
    let args = ["run", "bundle-upgrade", &versions[1].image];
    step_by_step(world, space, &args, cut, &upgraded(&versions[1]));
    world.succeeded(space, &versions[1].csv());
    upgrade(world, space, &versions[2], &[]);
    guard.assert_unharmed();
}

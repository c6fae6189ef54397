//! Interrupted commands: the next run continues, and the running operator is not affected.

use std::collections::BTreeSet;

use super::{
    availability::Guard,
    command::{Space, fails, installed, succeeds, upgraded},
    index::Version,
    write_proxy::{Interruption, interrupted},
};

/// The first version, and one for each upgrade: an upgrade is killed before every other write, and the last one completes.
const NUMBERS: [&str; 6] = ["0.0.1", "0.0.2", "0.0.3", "0.0.4", "0.0.5", "0.0.6"];
/// The writes of every run: parts, a pod, the CatalogSource, the former objects, the InstallPlan.
const MIN_WRITES: usize = 5;

/// Runs the same command until it succeeds. Each run is interrupted one write later than the previous one.
async fn step_by_step(space: &Space, args: &[&str], how: Interruption, last: &str) {
    let mut done = BTreeSet::new();
    let mut runs = 0;
    loop {
        let before = done.len();
        // The first run is interrupted before its first write.
        let writes = usize::from(how == Interruption::Kill && runs > 0);
        let run = match interrupted(space, args, (writes, how), &mut done).await {
            Ok(run) => {
                succeeds(run, last);
                break;
            }
            Err(run) => run,
        };
        match how {
            Interruption::Kill => assert_eq!(done.len(), before + writes, "{run:#?}"),
            Interruption::Cut => {
                assert_eq!(done.len(), before + 1, "{run:#?}");
                fails(run, "run the same command again");
            }
        }
        runs += 1;
    }
    assert!(runs >= MIN_WRITES, "{done:#?}");
}

/// The command that installs the first version is killed before each of its writes, and upgrades before every other write.
// parity: sdk-30
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn killed_command_is_completed_by_the_next_run() {
    let space = Space::new("run-killed").await;
    let first = Version::publish("crab", NUMBERS[0]);
    let args = ["run", "bundle", &first.image];
    let last = installed(&first);
    step_by_step(&space, &args, Interruption::Kill, &last).await;
    kill_upgrades(space, "crab-operator", first, 0).await;
}

/// Upgrades are killed before the remaining writes, and `cleanup` before each of its writes.
// parity: sdk-30
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn killed_cleanup_is_completed_by_the_next_run() {
    let space = Space::new("cleanup-killed").await;
    let first = Version::publish("shrimp", NUMBERS[0]);
    let run = space.rukpak(&["run", "bundle", &first.image]);
    succeeds(run, &installed(&first));
    kill_upgrades(space, "shrimp-operator", first, 1).await;
    let last = "Operator \"shrimp\" uninstalled\n";
    step_by_step(&space, &["cleanup", "shrimp"], Interruption::Kill, last).await;
    let left = space.names("csv,catalogsource,operatorgroup");
    assert_eq!(left, [""; 0]);
}

/// Upgrades to one version after the other. The first upgrade is killed after `writes` writes, and each further one two writes
/// later than the previous one. A second run completes each killed upgrade.
async fn kill_upgrades(space: Space, deployment: &'static str, first: Version, mut writes: usize) {
    space.succeeded(&first);
    let guard = Guard::start(space, deployment).await;
    let mut before = first;
    for number in &NUMBERS[1..] {
        let version = Version::publish(before.package, number);
        let args = ["run", "bundle-upgrade", &version.image];
        let kill = (writes, Interruption::Kill);
        match interrupted(&space, &args, kill, &mut BTreeSet::new()).await {
            Ok(run) => {
                succeeds(run, &upgraded(&version));
                assert!(writes >= MIN_WRITES, "{writes}");
                return guard.assert_unharmed().await;
            }
            Err(killed) => assert_eq!((killed.code, killed.out.as_str()), (None, "")),
        }
        // The former version keeps running until the InstallPlan is approved.
        space.succeeded(&before);
        space.world.runs(space.name, deployment).await;
        space.upgrade(&version);
        before = version;
        writes += 2;
    }
    panic!("an upgrade has more than {writes} writes");
}

/// Every write is executed, but its answer is lost, and no later request reaches the API server. `cleanup` removes the objects
/// of an installation that is not continued.
// parity: sdk-30
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn disconnected_command_resumes_at_every_write() {
    let space = Space::new("run-cut").await;
    let versions = ["0.0.1", "0.0.2", "0.0.3"].map(|number| Version::publish("lobster", number));
    let cut = Interruption::Cut;
    let args = ["run", "bundle", &versions[0].image];
    let limit = (MIN_WRITES - 1, cut);
    let begun = interrupted(&space, &args, limit, &mut BTreeSet::new()).await;
    fails(begun.unwrap_err(), "rukpak cleanup lobster");
    let cleaned = space.rukpak(&["cleanup", "lobster"]);
    succeeds(cleaned, "Operator \"lobster\" uninstalled\n");
    let left = space.names("catalogsource,operatorgroup");
    assert_eq!(left, [""; 0]);
    step_by_step(&space, &args, cut, &installed(&versions[0])).await;
    space.succeeded(&versions[0]);

    let guard = Guard::start(space, "lobster-operator").await;
    let args = ["run", "bundle-upgrade", &versions[1].image];
    step_by_step(&space, &args, cut, &upgraded(&versions[1])).await;
    space.succeeded(&versions[1]);
    space.upgrade(&versions[2]);
    guard.assert_unharmed().await;
}

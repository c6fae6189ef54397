//! Commands that are interrupted: the next run goes on, and the operator that runs does not notice.

use std::collections::BTreeSet;

use super::{
    command::{fails, installed, names, rukpak, succeeds, upgrade, upgraded},
    gate::{Interruption, interrupted},
    guard::Guard,
    index::Version,
    world::{World, world},
};

/// As many as there may be writes in an upgrade, and two more.
const NUMBERS: [&str; 10] = [
    "0.0.1", "0.0.2", "0.0.3", "0.0.4", "0.0.5", "0.0.6", "0.0.7", "0.0.8", "0.0.9", "0.0.10",
];
/// Parts, a pod, the CatalogSource, what was before, the InstallPlan.
const FEWEST: usize = 5;

/// Runs the same command again and again; each time it is interrupted, one write further on, until none is left.
fn step_by_step(world: &World, namespace: &str, args: &[&str], how: Interruption, last: &str) {
    let mut done = BTreeSet::new();
    let mut runs = 0;
    loop {
        let before = done.len();
        // Before the first write, too.
        let writes = usize::from(how == Interruption::Kill && runs > 0);
        let again = interrupted(world, namespace, args, (writes, how), &mut done);
        if !again.is_interrupted {
            succeeds(again.run, last);
            break;
        }
        match how {
            Interruption::Kill => assert_eq!(done.len(), before + writes, "{again:#?}"),
            Interruption::Cut => {
                assert_eq!(done.len(), before + 1, "{again:#?}");
                fails(again.run, "run the same command again");
            }
        }
        runs += 1;
    }
    assert!(runs >= FEWEST, "{done:#?}");
}

/// The first version is installed by a command that is killed before each of its writes. Every further version is upgraded to
/// by a command that is killed before another write, and by a second run that ends.
// parity: sdk-30
#[tokio::test]
async fn a_command_that_is_killed_at_any_write_is_gone_on_with() {
    let world = world().await;
    let space = "run-killed";
    world.bare_namespace(space).await;
    let first = Version::publish("crab", NUMBERS[0]);
    let args = ["run", "bundle", &first.image];
    let kill = Interruption::Kill;
    step_by_step(world, space, &args, kill, &installed(&first));
    world.succeeded(space, &first.csv());

    let guard = Guard::of(world, space, "crab-operator");
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
        // What ran before runs on until OLM is told to go on.
        world.succeeded(space, &before.csv());
        world.available(space, "crab-operator");
        upgrade(world, space, &version, &[]);
        before = version;
        writes += 1;
    }
    assert!(writes >= FEWEST, "{writes}");
    guard.assert_unharmed();
    let last = "Operator \"crab\" uninstalled\n";
    step_by_step(world, space, &["cleanup", "crab"], kill, last);
    for kind in ["csv", "catalogsource", "operatorgroup"] {
        assert_eq!(names(world, space, kind), [""; 0], "{kind}");
    }
}

/// Every write is done, but its answer is lost, and nothing else reaches the apiserver. Whoever does not want to go on removes what
/// was made.
// parity: sdk-30
#[tokio::test]
async fn a_command_that_loses_its_connection_at_any_write_is_gone_on_with() {
    let world = world().await;
    let space = "run-cut";
    world.bare_namespace(space).await;
    let versions = ["0.0.1", "0.0.2", "0.0.3"].map(|it| Version::publish("lobster", it));
    let cut = Interruption::Cut;
    let args = ["run", "bundle", &versions[0].image];
    let begun = interrupted(world, space, &args, (FEWEST - 1, cut), &mut BTreeSet::new());
    fails(begun.run, "rukpak cleanup lobster");
    let cleaned = rukpak(world, space, &["cleanup", "lobster"]);
    succeeds(cleaned, "Operator \"lobster\" uninstalled\n");
    for kind in ["catalogsource", "operatorgroup"] {
        assert_eq!(names(world, space, kind), [""; 0], "{kind}");
    }
    step_by_step(world, space, &args, cut, &installed(&versions[0]));
    world.succeeded(space, &versions[0].csv());

    let guard = Guard::of(world, space, "lobster-operator");
    let args = ["run", "bundle-upgrade", &versions[1].image];
    step_by_step(world, space, &args, cut, &upgraded(&versions[1]));
    world.succeeded(space, &versions[1].csv());
    upgrade(world, space, &versions[2], &[]);
    guard.assert_unharmed();
}

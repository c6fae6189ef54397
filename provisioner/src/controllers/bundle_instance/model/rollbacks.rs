//! Rollbacks that restore no object or have no record. Each ends without a change of the spec, in a state whose conditions
//! give the reason.

use manifests::api::bundle_instance::{RevisionState, Rollback};

use super::{
    operations::{heal, set_template},
    *,
};

/// The time after which every back-off and the default deadline have passed, in seconds.
const MAX_DELAY_SECONDS: i64 = 2000;

type Objects = &'static [(&'static str, u8)];

/// Installs the first bundle, and changes the template to the second one.
fn upgraded(policy: Rollback, bundles: [Objects; 2]) -> World {
    let mut world = World::new(bundles.map(Content::new).into());
    world.server.instance.spec.rollback = policy;
    world.reconcile();
    assert_eq!(states(&world), [(1, RevisionState::Active)]);
    set_template(&mut world.server.instance, 1);
    change(&mut world, |_| {});
    world
}

/// Changes the spec.
fn change(world: &mut World, change: impl FnOnce(&mut BundleInstance)) {
    let instance = &mut world.server.instance;
    change(instance);
    let generation = instance.metadata.generation.unwrap();
    instance.metadata.generation = Some(generation + 1);
}

/// Makes an object unhealthy in the form that the second bundle declares.
fn break_form(server: &mut Server, name: &str) {
    let objects = server.registry.contents[1].objects(0);
    let object = objects.iter().find(|object| object.name() == name);
    let object = object.unwrap();
    let form = (content::placed(object), ObjectHash::new(object));
    server.broken.insert(form);
}

fn lose_record(server: &mut Server, number: i64) {
    server.records.remove(&number).unwrap();
    server.lost.insert(number);
}

/// Reconciles after some time.
fn reconcile_later(world: &mut World, seconds: i64) {
    world.server.now += seconds;
    world.reconcile();
    world.verdict().unwrap();
}

fn states(world: &World) -> Vec<(i64, RevisionState)> {
    let revisions = world.server.status().revisions.into_iter();
    let states = revisions.map(|revision| (revision.number, revision.state));
    states.collect()
}

/// Returns the reason and the message of a condition.
fn condition_of(world: &World, type_: &str) -> (String, String) {
    let status = world.server.status();
    let found = condition::find(&status.conditions, type_).unwrap();
    (found.reason.clone(), found.message.clone())
}

#[test]
fn failed_upgrade_without_an_earlier_record_becomes_active() {
    use RevisionState::{Active, RollingOut};
    let bundles: [Objects; 2] = [&[("operator", 1)], &[("operator", 2)]];
    let mut world = upgraded(Rollback::OnFailure, bundles);
    break_form(&mut world.server, "operator");
    lose_record(&mut world.server, 1);
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), [(2, RollingOut)]);
    let (_, message) = condition_of(&world, condition::INSTALLED);
    assert!(message.contains("change spec.template"), "{message}");

    reconcile_later(&mut world, 1);
    reconcile_later(&mut world, MAX_DELAY_SECONDS);
    assert_eq!(states(&world), [(2, Active)]);
    let (reason, message) = condition_of(&world, condition::INSTALLED);
    assert_eq!(reason, "UpgradeFailed", "{message}");
    assert!(message.contains("cannot be rolled back"), "{message}");
    assert_eq!(condition_of(&world, condition::STALLED).0, "Unhealthy");

    heal(&mut world.server);
    reconcile_later(&mut world, 1);
    reconcile_later(&mut world, 1);
    assert_eq!(condition_of(&world, condition::READY).0, "UpToDate");
    assert_eq!(world.server.status().failed_template_hash, None);
}

#[test]
fn rejected_upgrade_without_an_earlier_record_is_continued() {
    let bundles: [Objects; 2] = [
        &[("map-0", 1), ("definition", 1), ("widget", 1)],
        &[("map-0", 2), ("definition", 1), ("widget", 2)],
    ];
    let mut world = upgraded(Rollback::OnFailure, bundles);
    let objects = world.server.registry.contents[1].objects(0);
    let mut identities = objects.iter().map(content::placed);
    let widget = identities.find(content::is_widget).unwrap();
    let denied = &mut world.server.denied;
    denied.insert(widget, ssa::FailureKind::Invalid);
    lose_record(&mut world.server, 1);
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), [(2, RevisionState::RollingOut)]);

    world.server.denied.clear();
    reconcile_later(&mut world, MAX_DELAY_SECONDS);
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), [(2, RevisionState::Active)]);
    assert_eq!(condition_of(&world, condition::READY).0, "UpToDate");
}

#[test]
fn rollback_that_restores_nothing_ends_the_rollout() {
    use RevisionState::{Active, Archived, RollingOut};
    // A CRD does not lose its storage version.
    let bundles: [Objects; 2] = [&[("definition", 1)], &[("definition", 2)]];
    let mut world = upgraded(Rollback::OnFailure, bundles);
    break_form(&mut world.server, CRD_NAME);
    reconcile_later(&mut world, 1);
    let expected = [(1, Active), (2, Archived), (3, RollingOut)];
    assert_eq!(states(&world), expected);
    assert_eq!(condition_of(&world, condition::INSTALLED).0, "RolledBack");

    reconcile_later(&mut world, MAX_DELAY_SECONDS);
    let expected = [(1, Archived), (2, Archived), (3, Active)];
    assert_eq!(states(&world), expected);
    heal(&mut world.server);
    reconcile_later(&mut world, MAX_DELAY_SECONDS);
    assert_eq!(states(&world), expected);
    assert_eq!(condition_of(&world, condition::STALLED).0, "RolledBack");
}

#[test]
fn pinned_revision_without_a_record_is_reported() {
    let bundles: [Objects; 2] = [&[("map-0", 1)], &[("map-0", 2)]];
    let mut world = upgraded(Rollback::Never, bundles);
    reconcile_later(&mut world, 1);
    lose_record(&mut world.server, 1);
    change(&mut world, |instance| instance.spec.rollback_to = Some(1));
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), [(2, RevisionState::Active)]);

    reconcile_later(&mut world, 1);
    let (_, message) = condition_of(&world, condition::INSTALLED);
    let expected = "is not recorded (recorded: 2)";
    assert!(message.contains(expected), "{message}");
    assert_eq!(condition_of(&world, condition::STALLED).0, "Blocked");
}

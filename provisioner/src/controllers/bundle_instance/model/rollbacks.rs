//! Rollbacks that restore no object or have no record. Each ends without a change of the spec, in a state whose conditions
//! give the reason.

use manifests::api::{
    bundle,
    bundle_instance::{InstanceConfig, RevisionState, Rollback},
};

use super::{
    operations::{heal, set_template},
    *,
};
use crate::fixtures;

/// The time after which every back-off and the default deadline have passed, in seconds.
pub(super) const MAX_DELAY_SECONDS: i64 = 2000;

pub(super) type Objects = &'static [(&'static str, u8)];

/// Contents that differ only in the operator.
const OPERATOR_CHANGES: [Objects; 2] = [
    &[("map-0", 1), ("operator", 1)],
    &[("map-0", 1), ("operator", 2)],
];

/// Installs the first bundle, and changes the template to the second one.
pub(super) fn upgraded(policy: Rollback, bundles: [Objects; 2]) -> World {
    let mut world = World::new(bundles.map(Content::new).into());
    world.server.instance.spec.rollback = policy;
    world.reconcile();
    assert_eq!(states(&world), [(1, RevisionState::Active)]);
    set_template(&mut world.server.instance, 1);
    change(&mut world, |_| {});
    world
}

/// Changes the spec.
pub(super) fn change(world: &mut World, change: impl FnOnce(&mut BundleInstance)) {
    let instance = &mut world.server.instance;
    change(instance);
    let generation = instance.metadata.generation.unwrap();
    instance.metadata.generation = Some(generation + 1);
}

/// Makes an object unhealthy in the form that a bundle declares.
pub(super) fn break_form(server: &mut Server, bundle: usize, name: &str) {
    let objects = server.registry.contents[bundle].objects(0);
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
pub(super) fn reconcile_later(world: &mut World, seconds: i64) {
    world.server.now += seconds;
    world.reconcile();
    world.verdict().unwrap();
}

pub(super) fn states(world: &World) -> Vec<(i64, RevisionState)> {
    let revisions = world.server.status().revisions.into_iter();
    let states = revisions.map(|revision| (revision.number, revision.state));
    states.collect()
}

/// Returns the reason and the message of a condition.
pub(super) fn condition_of(world: &World, type_: &str) -> (String, String) {
    let status = world.server.status();
    let found = condition::find(&status.conditions, type_).unwrap();
    (found.reason.clone(), found.message.clone())
}

#[test]
fn failed_upgrade_without_an_earlier_record_becomes_active() {
    use RevisionState::{Active, RollingOut};
    let bundles: [Objects; 2] = [&[("operator", 1)], &[("operator", 2)]];
    let mut world = upgraded(Rollback::OnFailure, bundles);
    break_form(&mut world.server, 1, "operator");
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
    break_form(&mut world.server, 1, CRD_NAME);
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

/// Upgrades to a bundle whose operator fails, and enables rollbacks after that.
fn failed_without_rollback() -> World {
    let bundles: [Objects; 2] = [&[("operator", 1)], &[("operator", 2)]];
    let mut world = upgraded(Rollback::Never, bundles);
    break_form(&mut world.server, 1, "operator");
    reconcile_later(&mut world, 1);
    let expected = [(1, RevisionState::Active), (2, RevisionState::RollingOut)];
    assert_eq!(states(&world), expected);
    change(&mut world, |instance| {
        instance.spec.rollback = Rollback::OnFailure;
    });
    world
}

#[test]
fn rejected_configuration_does_not_hide_a_failed_upgrade() {
    use RevisionState::{Active, Archived, RollingOut};
    let mut world = failed_without_rollback();
    let operator = fixtures::identity("apps", "Deployment", NAMESPACE, "operator");
    let denied = &mut world.server.denied;
    denied.insert(operator, ssa::FailureKind::Invalid);
    change(&mut world, |instance| {
        let deployment_config = Some(json!(1));
        instance.spec.config = Some(InstanceConfig { deployment_config });
    });
    for seconds in [1, MAX_DELAY_SECONDS] {
        reconcile_later(&mut world, seconds);
        let failed = world.server.status().failed_template_hash;
        let hash = template::hash(&world.server.instance);
        assert_eq!(failed, Some(hash), "{seconds}");
        assert_eq!(states(&world), [(1, Active), (2, RollingOut)]);
    }

    world.server.denied.clear();
    reconcile_later(&mut world, MAX_DELAY_SECONDS);
    let expected = [(1, Archived), (2, Archived), (3, Active)];
    assert_eq!(states(&world), expected);
}

#[test]
fn failed_upgrade_is_rolled_back_while_its_bundle_is_pending() {
    use RevisionState::{Active, Archived};
    let mut world = failed_without_rollback();
    world.server.registry.is_reachable = false;
    for bundle in &mut world.server.registry.bundles {
        let status = bundle.status.as_mut().unwrap();
        status.phase = Some(bundle::Phase::Pending);
    }
    reconcile_later(&mut world, 1);
    let expected = [(1, Archived), (2, Archived), (3, Active)];
    assert_eq!(states(&world), expected);
}

#[test]
fn lost_record_of_a_rollback_is_recorded_again() {
    use RevisionState::{Active, Archived};
    let mut world = upgraded(Rollback::OnFailure, OPERATOR_CHANGES);
    break_form(&mut world.server, 1, "operator");
    reconcile_later(&mut world, 1);
    let expected = [(1, Archived), (2, Archived), (3, Active)];
    assert_eq!(states(&world), expected);
    let failed = world.server.status().failed_template_hash;
    assert_eq!(failed, Some(template::hash(&world.server.instance)));

    let map = fixtures::identity("", "ConfigMap", NAMESPACE, "map-0");
    lose_record(&mut world.server, 3);
    world.server.remove(&map);
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), [(1, Archived), (2, Archived)]);
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), expected);
    assert_eq!(world.server.status().failed_template_hash, failed);
    assert!(world.server.objects.contains_key(&map));
}

#[test]
fn failed_template_is_not_retried_if_its_rollback_is_lost() {
    use RevisionState::{Active, Archived, RollingOut};
    let mut world = upgraded(Rollback::OnFailure, OPERATOR_CHANGES);
    // The rollback does not become active.
    for bundle in [0, 1] {
        break_form(&mut world.server, bundle, "operator");
    }
    reconcile_later(&mut world, 1);
    let expected = [(1, Active), (2, Archived), (3, RollingOut)];
    assert_eq!(states(&world), expected);
    let failed = world.server.status().failed_template_hash;

    let map = fixtures::identity("", "ConfigMap", NAMESPACE, "map-0");
    lose_record(&mut world.server, 3);
    world.server.remove(&map);
    for seconds in [1, 1, 1, MAX_DELAY_SECONDS] {
        reconcile_later(&mut world, seconds);
        assert_eq!(states(&world), [(1, Active), (2, Archived)], "{seconds}");
        assert_eq!(world.server.status().failed_template_hash, failed);
    }
    assert!(world.server.objects.contains_key(&map));
    assert_eq!(condition_of(&world, condition::INSTALLED).0, "RolledBack");
}

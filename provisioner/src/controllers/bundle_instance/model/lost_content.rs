//! Tests of rollouts after a restart with an empty content store and an unreachable registry. The records contain the objects.

use manifests::api::bundle_instance::{
    InstanceConfig,
    RevisionState::{Active, Archived, RollingOut},
    Rollback,
};

use super::{
    operations::set_template,
    rollbacks::{
        MAX_DELAY_SECONDS, Objects, break_form, change, condition_of, reconcile_later, states,
        upgraded,
    },
    *,
};

const OLD_AND_NEW: [Objects; 2] = [
    &[("map-0", 1), ("operator", 1)],
    &[("map-0", 2), ("operator", 2)],
];

fn installed() -> World {
    let mut world = World::new(OLD_AND_NEW.map(Content::new).into());
    world.reconcile();
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), [(1, Active)]);
    world
}

/// Restarts the process with an empty content store, and makes the registry unreachable.
fn restart(world: &mut World) {
    use Operation::{LoseContent, Registry, Restart};
    for operation in [Restart, LoseContent, Registry(false)] {
        operation.run(&mut world.server, &mut world.controller);
    }
}

/// Kills the process after the first of two objects of a revision was applied, and restarts it.
fn interrupt(world: &mut World) {
    Operation::Kill(3).run(&mut world.server, &mut world.controller);
    assert!(!world.reconcile());
    let status = world.server.status();
    assert!(status.applied_digest.is_none() && status.rolling_out().is_some());
    restart(world);
}

/// Returns the reason of the condition Ready.
fn ready(world: &World) -> String {
    condition_of(world, condition::READY).0
}

#[test]
fn reverted_template_is_rolled_out_from_its_record() {
    let mut world = upgraded(Rollback::Never, OLD_AND_NEW);
    interrupt(&mut world);
    assert_eq!(states(&world), [(1, Active), (2, RollingOut)]);
    set_template(&mut world.server.instance, 0);
    change(&mut world, |_| {});
    reconcile_later(&mut world, 1);
    let expected = [(1, Archived), (2, Archived), (3, Active)];
    assert_eq!(states(&world), expected);
    assert_eq!(ready(&world), "UpToDate");
}

#[test]
fn template_is_rolled_out_from_its_record_after_a_pin() {
    let mut world = upgraded(Rollback::Never, OLD_AND_NEW);
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), [(1, Archived), (2, Active)]);
    change(&mut world, |instance| instance.spec.rollback_to = Some(1));
    interrupt(&mut world);
    change(&mut world, |instance| instance.spec.rollback_to = None);
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world).last(), Some(&(4, Active)));
    assert_eq!(ready(&world), "UpToDate");
}

#[test]
fn active_revision_is_applied_again_from_its_record() {
    let mut world = installed();
    // The process was killed while it applied objects whose API was not served before.
    let status = world.server.instance.status.as_mut();
    status.unwrap().applied_digest = None;
    restart(&mut world);
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), [(1, Active)]);
    assert!(world.server.status().applied_digest.is_some());
    assert_eq!(ready(&world), "UpToDate");
}

#[test]
fn reverted_template_ends_a_rollback() {
    let mut world = upgraded(Rollback::OnFailure, OLD_AND_NEW);
    break_form(&mut world.server, 1, "operator");
    reconcile_later(&mut world, 1);
    let expected = [(1, Archived), (2, Archived), (3, Active)];
    assert_eq!(states(&world), expected);
    restart(&mut world);
    set_template(&mut world.server.instance, 0);
    change(&mut world, |_| {});
    reconcile_later(&mut world, 1);
    assert_eq!(states(&world), expected);
    assert_eq!(world.server.status().failed_template_hash, None);
    assert_eq!(ready(&world), "UpToDate");
}

#[test]
fn lost_content_is_no_reason_for_a_rollback() {
    let mut world = upgraded(Rollback::Never, OLD_AND_NEW);
    interrupt(&mut world);
    // No record has the objects of this configuration.
    change(&mut world, |instance| {
        let spec = &mut instance.spec;
        spec.rollback = Rollback::OnFailure;
        spec.progress_deadline_seconds = Some(60);
        let deployment_config = Some(json!(1));
        spec.config = Some(InstanceConfig { deployment_config });
    });
    // The next attempt is delayed after each failure.
    for seconds in [MAX_DELAY_SECONDS, 0, MAX_DELAY_SECONDS] {
        reconcile_later(&mut world, seconds);
        assert_eq!(states(&world), [(1, Active), (2, RollingOut)], "{seconds}");
        assert_eq!(world.server.status().failed_template_hash, None);
    }
    world.server.registry.is_reachable = true;
    reconcile_later(&mut world, MAX_DELAY_SECONDS);
    let expected = [(1, Archived), (2, Archived), (3, Active)];
    assert_eq!(states(&world), expected);
}

#[test]
fn lost_content_changes_no_condition_of_installed_objects() {
    let mut world = installed();
    restart(&mut world);
    world.server.registry.minor += 1;
    let conditions = world.server.status().conditions;
    // The second reconcile comes before the next attempt.
    for seconds in [1, 0, MAX_DELAY_SECONDS] {
        reconcile_later(&mut world, seconds);
        assert_eq!(world.server.status().conditions, conditions, "{seconds}");
    }
    assert_eq!(ready(&world), "UpToDate");
}

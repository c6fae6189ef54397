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
use crate::fixtures;

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

/// Reports whether the condition Ready is True.
fn is_ready(world: &World) -> bool {
    let status = world.server.status();
    let ready = condition::find(&status.conditions, condition::READY);
    ready.unwrap().status == "True"
}

/// Returns the status, the reason and the message of each condition.
fn conditions(world: &World) -> BTreeMap<String, [String; 3]> {
    let conditions = world.server.status().conditions.into_iter();
    let conditions = conditions.map(|c| (c.type_, [c.status, c.reason, c.message]));
    conditions.collect()
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
fn interrupted_rollout_ends_with_the_inputs_of_its_record() {
    let mut world = upgraded(Rollback::Never, OLD_AND_NEW);
    interrupt(&mut world);
    world.server.registry.minor += 1;
    reconcile_later(&mut world, 1);
    let expected = [(1, Archived), (2, Active)];
    assert_eq!(states(&world), expected);
    let applied = world.server.status().applied_digest;
    reconcile_later(&mut world, 1);
    assert!(is_ready(&world));
    assert_eq!(world.server.status().applied_digest, applied);

    world.server.registry.is_reachable = true;
    reconcile_later(&mut world, MAX_DELAY_SECONDS);
    assert_eq!(states(&world), expected);
    assert!(is_ready(&world));
    assert_ne!(world.server.status().applied_digest, applied);
}

#[test]
fn changed_spec_follows_an_interrupted_rollout() {
    let deployment_config = Some(json!(1));
    let config = Some(InstanceConfig { deployment_config });
    let account = Some(ServiceAccountRef {
        name: "installer".to_owned(),
        namespace: NAMESPACE.to_owned(),
    });
    for (config, account) in [(config, None), (None, account)] {
        let mut world = upgraded(Rollback::Never, OLD_AND_NEW);
        interrupt(&mut world);
        world.server.registry.minor += 1;
        // Lost content does not cause a rollback.
        change(&mut world, |instance| {
            let spec = &mut instance.spec;
            spec.rollback = Rollback::OnFailure;
            spec.progress_deadline_seconds = Some(60);
            spec.config = config;
            spec.service_account = account;
        });
        // The next attempt is delayed after each failure.
        for seconds in [MAX_DELAY_SECONDS, 0, MAX_DELAY_SECONDS] {
            reconcile_later(&mut world, seconds);
            let expected = [(1, Archived), (2, Active)];
            assert_eq!(states(&world), expected, "{seconds}");
            assert_eq!(world.server.status().failed_template_hash, None);
            assert!(!is_ready(&world), "{seconds}");
        }
        world.server.registry.is_reachable = true;
        reconcile_later(&mut world, MAX_DELAY_SECONDS);
        let expected = [(1, Archived), (2, Archived), (3, Active)];
        assert_eq!(states(&world), expected);
        assert!(is_ready(&world));
        let newest = world.server.status().newest().cloned();
        assert_eq!(newest.unwrap().cause, Cause::Configuration);
    }
}

#[test]
fn rejected_objects_of_an_earlier_spec_cause_no_rollback() {
    let mut world = upgraded(Rollback::OnFailure, OLD_AND_NEW);
    interrupt(&mut world);
    change(&mut world, |instance| {
        let deployment_config = Some(json!(1));
        instance.spec.config = Some(InstanceConfig { deployment_config });
    });
    let operator = fixtures::identity("apps", "Deployment", NAMESPACE, "operator");
    let denied = &mut world.server.denied;
    denied.insert(operator, ssa::FailureKind::Invalid);
    // The second reconcile comes before the next attempt.
    for seconds in [1, 0, MAX_DELAY_SECONDS] {
        reconcile_later(&mut world, seconds);
        assert_eq!(states(&world), [(1, Active), (2, RollingOut)], "{seconds}");
        assert_eq!(world.server.status().failed_template_hash, None);
    }
    world.server.denied.clear();
    world.server.registry.is_reachable = true;
    reconcile_later(&mut world, MAX_DELAY_SECONDS);
    let expected = [(1, Archived), (2, Archived), (3, Active)];
    assert_eq!(states(&world), expected);
}

#[test]
fn configuration_hash_follows_changes_without_an_effect() {
    type Change<'a> = &'a dyn Fn(&mut World);
    // The configuration changes only the operator. The version of Kubernetes changes no object.
    let configure = |world: &mut World| {
        change(world, |instance| {
            let deployment_config = Some(json!(1));
            instance.spec.config = Some(InstanceConfig { deployment_config });
        });
    };
    let upgrade = |world: &mut World| world.server.registry.minor += 1;
    let pin = |world: &mut World| {
        change(world, |instance| instance.spec.rollback_to = Some(1));
        reconcile_later(world, 1);
        change(world, |instance| instance.spec.rollback_to = None);
        set_template(&mut world.server.instance, 0);
    };
    let changes: [&[Change]; 4] = [
        &[&upgrade],
        &[&configure],
        &[&configure, &upgrade],
        &[&pin, &upgrade],
    ];
    for (number, changes) in changes.into_iter().enumerate() {
        let mut world = upgraded(Rollback::Never, [&[("map-0", 1)], &[("map-0", 2)]]);
        reconcile_later(&mut world, 1);
        for change in changes {
            change(&mut world);
            reconcile_later(&mut world, 1);
            reconcile_later(&mut world, 1);
        }
        assert!(is_ready(&world), "{number}");
        restart(&mut world);
        world.server.registry.minor += 1;
        let before = conditions(&world);
        reconcile_later(&mut world, 1);
        assert_eq!(conditions(&world), before, "{number}");
    }
}

#[test]
fn lost_content_changes_no_condition_of_installed_objects() {
    let map = || fixtures::identity("", "ConfigMap", NAMESPACE, "map-0");
    let nothing = |_: &mut World| {};
    let pause = |world: &mut World| {
        change(world, |instance| instance.spec.paused = true);
        reconcile_later(world, 1);
        assert_eq!(ready(world), "Paused");
        change(world, |instance| instance.spec.paused = false);
    };
    let limit_history = |world: &mut World| {
        change(world, |instance| {
            instance.spec.revision_history_limit = Some(1);
        });
    };
    let fail_repair = |world: &mut World| {
        let denied = &mut world.server.denied;
        denied.insert(map(), ssa::FailureKind::Transient);
        world.server.remove(&map());
        reconcile_later(world, 1);
        let (reason, _) = condition_of(world, condition::INSTALLED);
        assert_eq!(reason, "ReconcileFailed");
        world.server.denied.clear();
    };
    let disturbances: [&dyn Fn(&mut World); 4] = [&nothing, &pause, &limit_history, &fail_repair];
    for (number, disturb) in disturbances.into_iter().enumerate() {
        let mut world = installed();
        restart(&mut world);
        world.server.registry.minor += 1;
        let before = conditions(&world);
        disturb(&mut world);
        // The second reconcile comes before the next attempt.
        for seconds in [1, 0, MAX_DELAY_SECONDS] {
            reconcile_later(&mut world, seconds);
            assert_eq!(conditions(&world), before, "{number} {seconds}");
        }
        assert!(is_ready(&world));
    }
}

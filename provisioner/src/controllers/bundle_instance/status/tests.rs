use std::time::Duration;

mod truth;

use super::*;
use crate::controllers::bundle_instance::{
    outcome::{CompletedRollout, Remedy, RepairedInventory, RolledBack},
    revisions::tests::revision,
    rollout::unchanged,
};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn done(bundle: &str) -> CompletedRollout {
    let instance = object!({"metadata": {"name": "a"}});
    let nothing = unchanged(&instance, &BundleInstanceStatus::default());
    with!(nothing => content: Some(format!("sha256:content of {bundle}")), bundle: bundle.to_owned(),
        uid: format!("uid of {bundle}"), namespace: "etcd".to_owned(), digest: format!("sha256:{bundle}"))
}

fn outcome(valid: TemplateState, install: RolloutState, health: HealthState) -> Outcome {
    with!(Outcome::of_bundle(valid) => install: install, is_declared: true, health: health)
}

fn declared(generation: i64) -> Declaration {
    with!(Declaration::default() => generation: Some(generation), deadline: Some(Duration::from_secs(600)))
}

fn unpacked(bundle: &str) -> TemplateState {
    let bundle = bundle.to_owned();
    TemplateState::Unpacked { bundle }
}

/// The installation of bundle `new` failed.
fn failed(touched: bool) -> Failure {
    Failure {
        bundle: "new".to_owned(),
        message: "Deployment etcd/operator is invalid".to_owned(),
        touched,
        retry: RetryClass::Backoff,
        remedy: Remedy::Own,
    }
}

fn failure(touched: bool) -> RolloutState {
    RolloutState::Failed(failed(touched))
}

/// `type status reason message` of every condition.
fn lines(status: &BundleInstanceStatus) -> Vec<String> {
    let lines = status.conditions.iter().map(|condition| {
        let (type_, status) = (&condition.type_, &condition.status);
        let (reason, message) = (&condition.reason, &condition.message);
        format!("{type_} {status} {reason} {message}")
    });
    lines.collect()
}

fn after(before: &BundleInstanceStatus, outcome: &Outcome) -> BundleInstanceStatus {
    build(before, &declared(1), outcome, NOW)
}

fn installs(done: CompletedRollout) -> RolloutState {
    RolloutState::Done(Box::new(done))
}

/// All objects of a bundle were applied, and are not observed yet.
fn applied(bundle: &str) -> Outcome {
    let done = installs(done(bundle));
    outcome(unpacked(bundle), done, HealthState::NotObserved)
}

fn pending() -> TemplateState {
    let (bundle, message) = ("new".to_owned(), String::new());
    TemplateState::Pending { bundle, message }
}

fn unpacking_failed(remedy: Remedy) -> TemplateState {
    TemplateState::Failed {
        bundle: "new".to_owned(),
        message: "no such image".to_owned(),
        remedy,
    }
}

fn unknown(remedy: Remedy) -> TemplateState {
    let message = "failed to list".to_owned();
    TemplateState::Unknown { message, remedy }
}

fn unknown_class() -> TemplateState {
    TemplateState::UnknownClass("example.com/helm".to_owned())
}

fn first(outcome: &Outcome) -> BundleInstanceStatus {
    after(&BundleInstanceStatus::default(), outcome)
}

fn installed() -> BundleInstanceStatus {
    let done = installs(done("old"));
    first(&outcome(unpacked("old"), done, HealthState::Healthy))
}

/// Returns the status after this, if the bundle `old` was installed.
fn then(valid: TemplateState, install: RolloutState, health: HealthState) -> BundleInstanceStatus {
    after(&installed(), &outcome(valid, install, health))
}

// parity: rukpak-3
#[test]
fn installation_reports_the_installed_bundle() {
    assert_rows! {
        lines(&installed()) => [
            "HasValidBundle True UnpackSuccessful Successfully unpacked the old Bundle",
            "Installed True InstallationSucceeded instantiated bundle old successfully",
            "Healthy True Healthy BundleInstance is healthy",
            "Progressing False UpToDate all objects are applied",
            "Ready True UpToDate all objects are applied",
        ];
        // Pending is not valid.
        lines(&first(&Outcome::of_bundle(pending()))) => [
            "HasValidBundle False UnpackPending Waiting for the new Bundle to be unpacked",
            "Installed False NotInstalled no bundle is installed; see condition HasValidBundle",
            "Healthy False InstallationStatusFalse Installed condition is false",
            "Progressing True UnpackPending the Bundle is being unpacked; see condition HasValidBundle",
            "Ready Unknown UnpackPending Waiting for the new Bundle to be unpacked",
            "Reconciling True Progressing Waiting for the new Bundle to be unpacked",
        ];
    }
}

#[test]
fn failing_bundle_keeps_the_installed_one() {
    let valid = unpacking_failed(Remedy::World);
    let status = then(valid, RolloutState::Unchanged, HealthState::Healthy);
    let lines = lines(&status);
    assert_rows! {
        status.installed_bundle_name.as_deref() => Some("old");
        &lines[..3] => [
            "HasValidBundle False UnpackFailed Failed to unpack the new Bundle: no such image",
            "Installed True InstallationSucceeded instantiated bundle old successfully",
            "Healthy True Healthy BundleInstance is healthy",
        ];
        lines[3].starts_with("Progressing False UnpackFailed") => true, "{}", lines[3];
    }
}

// parity: rukpak-4
#[test]
fn failed_upgrade_reports_both_bundles() {
    for (touched, expected) in [(false, "is still installed"), (true, "is partly replaced")] {
        let status = then(unpacked("new"), failure(touched), HealthState::Healthy);
        let failed = "failed to install bundle new: Deployment etcd/operator is invalid";
        assert_rows! {
            lines(&status)[1] => format!("Installed True UpgradeFailed bundle old {expected}; {failed}");
            status.installed_bundle_name.as_deref() => Some("old");
            status.applied_digest.as_deref() => Some("sha256:old");
        }
    }
}

// parity: rukpak-5
#[test]
fn a_failed_installation_is_not_installed() {
    let failed = outcome(unpacked("new"), failure(true), HealthState::NotObserved);
    let failed = lines(&first(&failed));
    let unserved = lines(&first(&Outcome::of_bundle(unknown_class())));
    assert_rows! {
        failed[1] => "Installed False InstallFailed Deployment etcd/operator is invalid";
        failed[2] => "Healthy False InstallationStatusFalse Installed condition is false";
        failed[3].starts_with("Progressing False Blocked") => true, "{}", failed[3];
        // A class that no provisioner serves is answered.
        unserved[0].starts_with("HasValidBundle False UnknownProvisionerClass no provisioner handles class \
                                 \"example.com/helm\"")
            => true, "{}", unserved[0];
        unserved[3].starts_with("Progressing False UnknownProvisionerClass") => true, "{}", unserved[3];
    }
}

#[test]
fn rollback_is_reported_and_recorded() {
    let [template_hash, why] = ["hash", "Deployment is stuck"].map(|text| Some(text.to_owned()));
    let back = with!(done("old") => rolled_back: Some(RolledBack { template_hash, why, to: 1 }));
    let status = then(unpacked("new"), installs(back), HealthState::Healthy);
    assert_eq!(status.failed_template_hash.as_deref(), Some("hash"));
    let start = "Installed True RolledBack rolled back to bundle old: the bundle of spec.template failed: Deployment is stuck";
    assert_rows!(lines(&status)[1].starts_with(start) => true, "{status:?}");
}

#[test]
fn failed_template_is_reported_until_its_objects_are_healthy() {
    let before = with!(installed() => failed_template_hash: Some("hash-2".to_owned()));
    let broken = || HealthState::Failed(vec!["Job etcd/a failed".to_owned()]);
    let succeeded = "InstallationSucceeded instantiated bundle new";
    let failed = "UpgradeFailed bundle new of spec.template failed and cannot be rolled back";
    for (health, number, (hash, reason)) in ::tests::rows![
        broken(), 2 => (Some("hash-2"), failed);
        HealthState::NotObserved, 2 => (Some("hash-2"), failed);
        HealthState::Healthy, 2 => (None, succeeded);
        // The template was changed.
        broken(), 3 => (None, succeeded);
    ] {
        let done = with!(done("new") => revisions: vec![revisions::tests::revision(number)]);
        let status = after(&before, &outcome(unpacked("new"), installs(done), health));
        let expected = format!("Installed True {reason}");
        assert_eq!(status.failed_template_hash.as_deref(), hash);
        assert!(lines(&status)[1].starts_with(&expected), "{status:?}");
    }
}

#[test]
fn health_is_progressing_until_objects_are_observed() {
    let not_observed = || HealthState::NotObserved;
    let waiting = vec!["Deployment etcd/operator: 0 of 1 ready".to_owned()];
    let waiting = HealthState::Progressing(waiting);
    let waiting = then(unpacked("old"), RolloutState::Unchanged, waiting);
    let (valid, install) = (TemplateState::Unchanged, RolloutState::Paused);
    let paused = then(valid, install, not_observed());
    // A paused instance keeps its conditions.
    assert_eq!(lines(&paused)[..3], lines(&installed())[..3]);
    assert!(lines(&paused)[3].starts_with("Progressing False Paused"));
    let unobserved =
        "Progressing True WaitingForHealth all objects are applied, but have not been observed yet";
    let up_to_date = lines(&installed())[3].clone();
    // The status before, the condition after a restart, and after a rollout without new objects.
    for (before, [unchanged, applied]) in ::tests::rows![
        &waiting => [lines(&waiting)[3].as_str(); 2];
        &installed() => [up_to_date.as_str(); 2];
        &paused => [unobserved, &up_to_date];
        &BundleInstanceStatus::default() => [unobserved; 2];
    ] {
        assert_each!(|install, expected| lines(&after(before, &outcome(unpacked("old"), install, not_observed())))[3] => expected;
            RolloutState::Unchanged => unchanged;
            installs(done("old")) => applied;
        );
    }
}

#[test]
fn health_of_former_objects_is_not_that_of_new_ones() {
    let upgraded = after(&installed(), &applied("new"));
    let declared = declared(2);
    let applying = applying(&installed(), &declared, "new", 3, Inventory::default(), NOW);
    for status in [upgraded, after(&applying, &applied("old"))] {
        assert_rows! {
            lines(&status)[2..4] => [
                "Healthy Unknown HealthUnknown the applied objects have not been observed yet",
                "Progressing True WaitingForHealth all objects are applied, but have not been observed yet",
            ];
        }
    }
}

#[test]
fn objects_that_were_unhealthy_before_a_rollout_remain_so() {
    let later = NOW.checked_add(Duration::from_secs(60)).unwrap();
    let broken = HealthState::Failed(vec!["Job etcd/a failed".to_owned()]);
    let broken = then(unpacked("old"), RolloutState::Unchanged, broken);
    let status = build(&broken, &declared(2), &applied("new"), later);
    // The rollouts of platform changes and the ClusterOperator compare the transition time.
    assert_rows! {
        lines(&status)[2] => "Healthy False Unhealthy Job etcd/a failed";
        status.conditions[2].last_transition_time.0 => NOW;
        lines(&status)[3].starts_with("Progressing True WaitingForHealth") => true;
    }
}

#[test]
fn rollout_of_the_spec_follows_one_with_earlier_inputs() {
    for health in [HealthState::Healthy, HealthState::NotObserved] {
        let outdated = installs(with!(done("new") => is_outdated: true));
        let status = then(unpacked("new"), outdated, health);
        let expected =
            "the interrupted rollout is complete; the rollout of the present spec follows";
        assert_rows! {
            lines(&status)[3] => format!("Progressing True Applying {expected}");
            lines(&status)[4] => format!("Ready Unknown Applying {expected}");
        }
    }
}

#[test]
fn revision_without_a_hash_records_that_the_spec_has_changed() {
    use RolloutState::{Queued, Unchanged};
    let outdated =
        || installs(with!(done("new") => is_outdated: true, revisions: vec![revision(1)]));
    let current = || installs(with!(done("new") => revisions: vec![revision(1)]));
    assert_each!(|hash, observed, install, expected| {
        let newest = with!(revision(1) => configuration_hash: hash.map(str::to_owned));
        let before = with!(installed() => observed_generation: Some(observed), revisions: vec![newest]);
        let outcome = outcome(unpacked("new"), install, HealthState::Healthy);
        build(&before, &declared(2), &outcome, NOW).newest().unwrap().configuration_hash.clone()
    } => expected.map(str::to_owned);
        None, 1, Queued => Some("");
        None, 1, outdated() => Some("");
        None, 1, current() => None;
        None, 2, Queued => None;
        None, 2, Unchanged => None;
        Some("a"), 1, Queued => Some("a");
    );
}

#[test]
fn transition_times_change_only_with_the_status() {
    let later = NOW.checked_add(Duration::from_secs(60)).unwrap();
    let waits = HealthState::Progressing(vec!["0 of 1 ready".to_owned()]);
    let unwell = outcome(unpacked("old"), RolloutState::Unchanged, waits);
    let status = build(&installed(), &declared(2), &unwell, later);
    // HasValidBundle and Installed, Healthy and Progressing, Ready and Reconciling.
    assert_rows! {
        status.conditions.iter().map(|c| c.last_transition_time.0).collect::<Vec<_>>() => [NOW, NOW, later, later, later, later];
        status.conditions.iter().all(|c| c.observed_generation == Some(2)) => true;
        // The same again changes nothing, so that nothing is written.
        build(&status, &declared(2), &unwell, later.checked_add(Duration::from_secs(1)).unwrap()) => status;
    }
}

#[test]
fn messages_are_bounded() {
    let install = RolloutState::Failed(with!(failed(false) => message: "ü".repeat(100_000)));
    let status = then(unpacked("new"), install, HealthState::Healthy);
    // The API server limits the number of characters.
    assert_rows!(status.conditions.iter().map(|c| c.message.chars().count()).max() => Some(MAX_MESSAGE_LEN + 1));
}

#[test]
fn repair_during_failed_upgrade_updates_only_the_inventory() {
    let inventory = with!(Inventory::default() => count: 7);
    let waiting = vec!["Widget example.com/v1 a".to_owned()];
    let repaired = with!(done("old") => inventory: inventory, waiting: waiting);
    let repaired = Some(RepairedInventory::from_done(&repaired));
    let failed = outcome(unpacked("new"), failure(false), HealthState::Healthy);
    let before = installed();
    let status = after(&before, &with!(failed => repaired: repaired));
    assert_rows! {
        status.inventory.as_ref().map(|inventory| inventory.count) => Some(7);
        status.waiting => ["Widget example.com/v1 a"];
        status.installed_bundle_name => before.installed_bundle_name;
        status.applied_digest => before.applied_digest;
        lines(&status)[1].starts_with("Installed True UpgradeFailed bundle old is still installed") => true;
    }
}

#[test]
fn an_installation_records_uid_and_digest() {
    let record = |bundle: &str| {
        Some(InstalledBundle {
            name: bundle.to_owned(),
            uid: format!("uid of {bundle}"),
            content_digest: format!("sha256:content of {bundle}"),
        })
    };
    let upgraded = installs(with!(done("new") => previous: Some("old".to_owned())));
    let upgraded = then(unpacked("new"), upgraded, HealthState::NotObserved);
    let unchanged = RolloutState::Unchanged;
    let healthy = outcome(unpacked("new"), unchanged, HealthState::Healthy);
    let healthy = after(&upgraded, &healthy);
    let bare = installs(with!(done("bare") => content: None));
    assert_rows! {
        installed().installed => record("old");
        (upgraded.installed, upgraded.previous) => (record("new"), record("old"));
        // A Bundle without a digest cannot be compared later.
        after(&healthy, &outcome(unpacked("bare"), bare, HealthState::NotObserved)).installed => None;
        (healthy.installed, healthy.previous) => (record("new"), None);
    }
}

#[test]
fn a_replaced_bundle_is_reported_until_another_is_installed() {
    const MISSING: &str = "Installed True ReconcileFailed the installed Bundle old is missing; its objects are \
                           repaired from the recorded revision, and the Bundle of spec.template is installed once it \
                           is unpacked; see condition HasValidBundle";
    const REPLACED: &str = "Installed True InstalledBundleReplaced Bundle old was replaced";
    let replaced = |valid: TemplateState, install: RolloutState| {
        let replaced = Some("Bundle old was replaced".to_owned());
        let outcome = outcome(valid, install, HealthState::Healthy);
        after(&installed(), &with!(outcome => replaced: replaced))
    };
    for (valid, install, expected, progress) in ::tests::rows![
        pending(), RolloutState::Unchanged, REPLACED => "Progressing True UnpackPending";
        unpacked("new"), RolloutState::Unchanged, REPLACED
            => "Progressing False Blocked the installed Bundle was replaced by another client; see condition Installed";
        unpacked("new"), failure(false), &format!("{REPLACED}\nDeployment etcd/operator is invalid")
            => "Progressing False Blocked";
        unpacked("new"), installs(done("new")), "Installed True InstallationSucceeded instantiated bundle new successfully"
            => "Progressing False UpToDate";
    ] {
        let lines = lines(&replaced(valid, install));
        assert_eq!(lines[1], expected);
        assert_rows!(lines[3].starts_with(progress) => true, "{lines:?}");
    }
    // A replaced Bundle that was deleted is missing.
    let before = replaced(pending(), RolloutState::Unchanged);
    let installed_line = |outcome| lines(&after(&before, &outcome))[1].clone();
    assert_each!(|valid, install, expected| installed_line(outcome(valid, install, HealthState::Healthy)) => expected;
        pending(), RolloutState::Unchanged => MISSING;
        unpacked("new"), RolloutState::Waiting(Remedy::World) => MISSING;
        unknown(Remedy::World), RolloutState::Unchanged => MISSING;
        TemplateState::Unchanged, RolloutState::Paused => REPLACED;
        unknown_class(), RolloutState::Unchanged => REPLACED;
    );
    // A bundle that was not replaced keeps its reason.
    let status = then(pending(), RolloutState::Unchanged, HealthState::Healthy);
    assert!(lines(&status)[1].starts_with("Installed True InstallationSucceeded"));
}

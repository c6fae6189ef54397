use serde_json::{Value, json};

use super::*;

/// A ClusterServiceVersion with the given history of phases and reasons, oldest first.
pub(crate) fn csv(name: &str, replaces: &str, past: &[(&str, &str)]) -> ClusterServiceVersion {
    let conditions = past.iter();
    let conditions: Vec<Value> = conditions
        .map(|(phase, reason)| json!({"phase": phase, "reason": reason}))
        .collect();
    let (phase, reason) = past.last().copied().unwrap_or_default();
    object!({
        "metadata": {"name": name}, "spec": {"replaces": replaces},
        "status": {"phase": phase, "reason": reason, "message": "m", "conditions": conditions},
    })
}

const PENDING: (&str, &str) = ("Pending", "RequirementsUnknown");
const READY: (&str, &str) = ("InstallReady", "AllRequirementsMet");
const INSTALLING: (&str, &str) = ("Installing", "InstallSucceeded");
const WAITING: (&str, &str) = ("Installing", "InstallWaiting");
const TIMEOUT: (&str, &str) = ("Failed", "InstallCheckFailed");
const REINSTALL: (&str, &str) = ("Pending", "NeedsReinstall");
const SUCCEEDED: (&str, &str) = ("Succeeded", "InstallSucceeded");
const UNHEALTHY: (&str, &str) = ("Failed", "ComponentUnhealthy");

// parity: sdk-10
#[test]
fn retried_version_has_failed_in_every_phase() {
    ::tests::assert_each!(|past, expected| has_failed(&csv("tide.v1", "", past)) => expected;
        &[][..] => false;
        &[PENDING] => false;
        &[PENDING, READY, INSTALLING, WAITING] => false;
        &[PENDING, READY, INSTALLING, SUCCEEDED] => false;
        &[PENDING, READY, INSTALLING, WAITING, TIMEOUT] => true;
        &[PENDING, READY, INSTALLING, WAITING, TIMEOUT, REINSTALL] => true;
        &[WAITING, TIMEOUT, REINSTALL, READY, INSTALLING, WAITING] => true;
        // OLM has removed the oldest conditions.
        &[TIMEOUT, REINSTALL, READY, INSTALLING] => true;
        &[REINSTALL, READY, INSTALLING, WAITING, TIMEOUT] => true;
        // The version succeeded before it became unhealthy.
        &[TIMEOUT, REINSTALL, READY, INSTALLING, SUCCEEDED] => false;
        &[TIMEOUT, REINSTALL, READY, SUCCEEDED, UNHEALTHY] => false;
        &[SUCCEEDED, UNHEALTHY, REINSTALL, READY, INSTALLING, WAITING] => false;
        &[SUCCEEDED, UNHEALTHY, REINSTALL, READY, INSTALLING, WAITING, TIMEOUT, REINSTALL] => true;
        &[SUCCEEDED, TIMEOUT] => true;
        &[SUCCEEDED, ("Failed", "RequirementsNotMet")] => false;
        &[PENDING, ("Failed", "OwnerConflict")] => true;
        &[PENDING, ("Failed", "OwnerConflict"), REINSTALL, READY] => true;
        // The cause of the failure was fixed by a user.
        &[("Failed", "NoOperatorGroup")] => true;
        &[("Failed", "NoOperatorGroup"), PENDING, READY, INSTALLING] => false;
    );
}

#[test]
fn version_to_replace_comes_from_target_or_subscription() {
    let subscription = |installed: &str, current: &str| -> Subscription {
        object!({"status": {"installedCSV": installed, "currentCSV": current}})
    };
    let target = |past: &[(&str, &str)]| Some(csv("tide.v3", "tide.v2", past));
    let both = subscription("tide.v1", "tide.v2");
    ::tests::assert_each!(|target, subscription, expected| replaced(target.as_ref(), subscription) => expected;
        // OLM sets installedCSV some time after it creates the ClusterServiceVersion.
        None, &both => ["tide.v2", "tide.v1"];
        target(&[]), &both => ["tide.v2", ""];
        target(&[PENDING]), &both => ["tide.v2", ""];
        target(&[PENDING, READY]), &both => ["", ""];
        target(&[TIMEOUT]), &both => ["", ""];
        target(&[SUCCEEDED]), &both => ["", ""];
        None, &subscription("", "tide.v1") => ["tide.v1", ""];
    );
    ::tests::assert_each!(|phase, expected| is_blocking(&csv("tide.v1", "", &[(phase, "")])) => expected;
        "" => true;
        "Pending" => true;
        "Failed" => true;
        "Succeeded" => false;
        "Replacing" => false;
        "Deleting" => false;
    );
}

#[test]
fn stall_reason_names_the_command_that_resumes_olm() {
    let subscription =
        object!({"metadata": {"name": "tide-sub", "namespace": "tides"}, "spec": {"name": "tide"}});
    let group: OperatorGroup = object!({"metadata": {"name": "og"}});
    let forward: OperatorGroup = object!({"metadata": {"name": "og"}, "spec": {"upgradeStrategy": OperatorGroup::FAIL_FORWARD}});
    let name = crate::args::name();
    let reinstall = format!(
        "remove it with \"{name} cleanup tide --namespace tides\" and run the bundle with \"{name} run bundle IMAGE\""
    );
    let patch = format!(
        "make OLM continue from the failed version: kubectl patch operatorgroups.operators.coreos.com og --namespace tides \
         --type merge --patch '{{\"spec\":{{\"upgradeStrategy\":\"TechPreviewUnsafeFailForward\"}}}}'; then run the same \
         command again; or {reinstall}"
    );
    let denied = ("Failed", "InstallComponentFailedNoRetry");
    let failed = |phase: &str, reason: &str, remedy: &str| {
        Some(format!(
            "tide.v1, which is to be replaced, has failed and is in phase {phase}: {reason}: m; OLM replaces only versions \
             that succeeded; make sure that it becomes healthy, or {remedy}"
        ))
    };
    let one = std::slice::from_ref(&group);
    let two = [group.clone(), group.clone()];
    let waits = [TIMEOUT, REINSTALL, READY, WAITING];
    for (past, groups, expected, is_first) in ::tests::rows![
        &[WAITING][..], one, None => true;
        &[TIMEOUT], one, failed("Failed", "InstallCheckFailed", &patch) => true;
        &waits, one, failed("Installing", "InstallWaiting", &patch) => true;
        // OLM continues automatically after the next failure.
        &[TIMEOUT], std::slice::from_ref(&forward), None => false;
        &waits, std::slice::from_ref(&forward), None => false;
        // OLM does not check the strategy for this reason.
        &[denied], std::slice::from_ref(&forward), failed("Failed", denied.1, &reinstall) => true;
        &[denied], one, failed("Failed", denied.1, &reinstall) => true;
        &[TIMEOUT], &two, failed("Failed", "InstallCheckFailed", &reinstall) => true;
        &[TIMEOUT], &[], failed("Failed", "InstallCheckFailed", &reinstall) => true;
    ] {
        let csv = ReplacedCsv::new(csv("tide.v1", "", past), groups);
        ::tests::assert_rows!((csv.stall_reason(&subscription), csv.is_first()) => (expected, is_first), "{past:?} {groups:?}");
    }
}

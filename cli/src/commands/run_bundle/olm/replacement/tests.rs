use serde_json::json;

use super::*;

/// A ClusterServiceVersion with the given history of phases and reasons, oldest first.
pub(crate) fn csv(name: &str, replaces: &str, past: &[(&str, &str)]) -> Value {
    let conditions = past.iter();
    let conditions: Value = conditions
        .map(|(phase, reason)| json!({"phase": phase, "reason": reason}))
        .collect();
    let (phase, reason) = past.last().copied().unwrap_or_default();
    json!({
        "metadata": {"name": name}, "spec": {"replaces": replaces},
        "status": {"phase": phase, "reason": reason, "message": "m", "conditions": conditions},
    })
}

/// The replaced version, with the OperatorGroups of its namespace.
pub(crate) fn replaced_csv(csv: &Value, groups: &[Value]) -> ReplacedCsv {
    ReplacedCsv::from_csv(csv, groups)
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
    for (past, expected) in ::tests::rows![
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
    ] {
        let csv = csv("tide.v1", "", past);
        assert_eq!(has_failed(&csv), expected, "{past:?}");
    }
}

#[test]
fn version_to_replace_comes_from_target_or_subscription() {
    let subscription = json!({"status": {"installedCSV": "tide.v1", "currentCSV": "tide.v2"}});
    let target = |past: &[(&str, &str)]| Some(csv("tide.v3", "tide.v2", past));
    for (target, subscription, expected) in ::tests::rows![
        // OLM sets installedCSV some time after it creates the ClusterServiceVersion.
        None, &subscription => ["tide.v2", "tide.v1"];
        target(&[]), &subscription => ["tide.v2", ""];
        target(&[PENDING]), &subscription => ["tide.v2", ""];
        target(&[PENDING, READY]), &subscription => ["", ""];
        target(&[TIMEOUT]), &subscription => ["", ""];
        target(&[SUCCEEDED]), &subscription => ["", ""];
        None, &json!({"status": {"currentCSV": "tide.v1"}}) => ["tide.v1", ""];
        None, &json!({}) => ["", ""];
    ] {
        let replaced = replaced(target.as_ref(), subscription);
        assert_eq!(replaced, expected, "{target:?}");
    }
    let blocks = |past: &[(&str, &str)]| is_blocking(&csv("tide.v1", "", past));
    ::tests::assert_rows! {
        blocks(&[]) => true;
        blocks(&[PENDING]) => true;
        blocks(&[TIMEOUT]) => true;
        blocks(&[SUCCEEDED]) => false;
        blocks(&[TIMEOUT, ("Replacing", "BeingReplaced")]) => false;
        blocks(&[SUCCEEDED, ("Deleting", "Replaced")]) => false;
    }
}

#[test]
fn stall_reason_names_the_command_that_resumes_olm() {
    let subscription =
        json!({"metadata": {"name": "tide-sub", "namespace": "tides"}, "spec": {"name": "tide"}});
    let group = json!({"metadata": {"name": "og"}, "spec": {}});
    let forward = json!({"metadata": {"name": "og"}, "spec": {"upgradeStrategy": FORWARD}});
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
        let replaced_csv = replaced_csv(&csv("tide.v1", "", past), groups);
        assert_eq!(
            replaced_csv.stall_reason(&subscription),
            expected,
            "{past:?} {groups:?}"
        );
        assert_eq!(replaced_csv.is_first(), is_first, "{past:?} {groups:?}");
    }
    let describe = |past: &[(&str, &str)], group: &Value| {
        replaced_csv(&csv("tide.v1", "", past), std::slice::from_ref(group)).describe()
    };
    ::tests::assert_rows! {
        describe(&[WAITING], &group) => "tide.v1, which is to be replaced, is in phase Installing: InstallWaiting: m; OLM \
                                   replaces only versions that succeeded";
        describe(&[TIMEOUT], &forward) => "tide.v1, which is to be replaced, is in phase Failed: InstallCheckFailed: m; OLM \
                                       replaces only versions that succeeded or failed";
    }
}

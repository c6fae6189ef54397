use serde_json::json;

use super::*;

/// A version by what it has gone through: phases and reasons, oldest first.
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

/// What is said of it, given the OperatorGroups of its namespace.
pub(crate) fn replaced_csv(csv: &Value, groups: &[Value]) -> ReplacedCsv {
    ReplacedCsv::from_csv(csv, groups)
}

const PENDING: (&str, &str) = ("Pending", "RequirementsUnknown");
const READY: (&str, &str) = ("InstallReady", "AllRequirementsMet");
const BEGUN: (&str, &str) = ("Installing", "InstallSucceeded");
const WAITS: (&str, &str) = ("Installing", "InstallWaiting");
const TIMEOUT: (&str, &str) = ("Failed", "InstallCheckFailed");
const AGAIN: (&str, &str) = ("Pending", "NeedsReinstall");
const DONE: (&str, &str) = ("Succeeded", "InstallSucceeded");
const UNWELL: (&str, &str) = ("Failed", "ComponentUnhealthy");

// parity: sdk-10
#[test]
fn a_version_that_goes_round_has_failed_in_every_phase() {
    for (past, expected) in ::tests::rows![
        &[][..] => false;
        &[PENDING] => false;
        &[PENDING, READY, BEGUN, WAITS] => false;
        &[PENDING, READY, BEGUN, DONE] => false;
        &[PENDING, READY, BEGUN, WAITS, TIMEOUT] => true;
        &[PENDING, READY, BEGUN, WAITS, TIMEOUT, AGAIN] => true;
        &[WAITS, TIMEOUT, AGAIN, READY, BEGUN, WAITS] => true;
        // The oldest conditions are gone.
        &[TIMEOUT, AGAIN, READY, BEGUN] => true;
        &[AGAIN, READY, BEGUN, WAITS, TIMEOUT] => true;
        // It was well at last, whatever it was before, and has become unwell.
        &[TIMEOUT, AGAIN, READY, BEGUN, DONE] => false;
        &[TIMEOUT, AGAIN, READY, DONE, UNWELL] => false;
        &[DONE, UNWELL, AGAIN, READY, BEGUN, WAITS] => false;
        &[DONE, UNWELL, AGAIN, READY, BEGUN, WAITS, TIMEOUT, AGAIN] => true;
        &[DONE, TIMEOUT] => true;
        &[DONE, ("Failed", "RequirementsNotMet")] => false;
        &[PENDING, ("Failed", "OwnerConflict")] => true;
        &[PENDING, ("Failed", "OwnerConflict"), AGAIN, READY] => true;
        // Somebody has corrected what kept it.
        &[("Failed", "NoOperatorGroup")] => true;
        &[("Failed", "NoOperatorGroup"), PENDING, READY, BEGUN] => false;
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
        target(&[DONE]), &subscription => ["", ""];
        None, &json!({"status": {"currentCSV": "tide.v1"}}) => ["tide.v1", ""];
        None, &json!({}) => ["", ""];
    ] {
        let replaced = replaced(target.as_ref(), subscription);
        assert_eq!(replaced, expected, "{target:?}");
    }
    let keeps = |past: &[(&str, &str)]| is_blocking(&csv("tide.v1", "", past));
    ::tests::assert_rows! {
        keeps(&[]) => true;
        keeps(&[PENDING]) => true;
        keeps(&[TIMEOUT]) => true;
        keeps(&[DONE]) => false;
        keeps(&[TIMEOUT, ("Replacing", "BeingReplaced")]) => false;
        keeps(&[DONE, ("Deleting", "Replaced")]) => false;
    }
}

#[test]
fn what_has_olm_go_on_is_told_with_its_command() {
    let subscription =
        json!({"metadata": {"name": "tide-sub", "namespace": "tides"}, "spec": {"name": "tide"}});
    let group = json!({"metadata": {"name": "og"}, "spec": {}});
    let forward = json!({"metadata": {"name": "og"}, "spec": {"upgradeStrategy": FORWARD}});
    let name = crate::args::name();
    let anew = format!(
        "remove it with \"{name} cleanup tide --namespace tides\" and run the bundle with \"{name} run bundle IMAGE\""
    );
    let asks = format!(
        "make OLM continue from the failed version: kubectl patch operatorgroups.operators.coreos.com og --namespace tides \
         --type merge --patch '{{\"spec\":{{\"upgradeStrategy\":\"TechPreviewUnsafeFailForward\"}}}}'; then run the same \
         command again; or {anew}"
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
    let waits = [TIMEOUT, AGAIN, READY, WAITS];
    for (past, groups, expected, is_first) in ::tests::rows![
        &[WAITS][..], one, None => true;
        &[TIMEOUT], one, failed("Failed", "InstallCheckFailed", &asks) => true;
        &waits, one, failed("Installing", "InstallWaiting", &asks) => true;
        // OLM goes on by itself as soon as it has failed again.
        &[TIMEOUT], std::slice::from_ref(&forward), None => false;
        &waits, std::slice::from_ref(&forward), None => false;
        // It does not look whether it may.
        &[denied], std::slice::from_ref(&forward), failed("Failed", denied.1, &anew) => true;
        &[denied], one, failed("Failed", denied.1, &anew) => true;
        &[TIMEOUT], &two, failed("Failed", "InstallCheckFailed", &anew) => true;
        &[TIMEOUT], &[], failed("Failed", "InstallCheckFailed", &anew) => true;
    ] {
        let replaced_csv = replaced_csv(&csv("tide.v1", "", past), groups);
        assert_eq!(
            replaced_csv.stall_reason(&subscription),
            expected,
            "{past:?} {groups:?}"
        );
        assert_eq!(replaced_csv.is_first(), is_first, "{past:?} {groups:?}");
    }
    let told = |past: &[(&str, &str)], group: &Value| {
        replaced_csv(&csv("tide.v1", "", past), std::slice::from_ref(group)).describe()
    };
    ::tests::assert_rows! {
        told(&[WAITS], &group) => "tide.v1, which is to be replaced, is in phase Installing: InstallWaiting: m; OLM \
                                   replaces only versions that succeeded";
        told(&[TIMEOUT], &forward) => "tide.v1, which is to be replaced, is in phase Failed: InstallCheckFailed: m; OLM \
                                       replaces only versions that succeeded or failed";
    }
}

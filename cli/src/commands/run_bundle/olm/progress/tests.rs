use ::tests::table::matches;
use serde_json::{Value, json};

use super::{super::replacement, *};
use crate::testing::set;

static NO_FAILURES: PriorFailures = PriorFailures {
    failed_plan: None,
    unpacking: None,
};
static ALL_UNPACKED: UnpackFailures = UnpackFailures::None;

fn plan(approved: bool, status: &Value) -> Option<InstallPlan> {
    object!({"metadata": {"name": "install-1", "namespace": "tides"}, "spec": {"approved": approved}, "status": status})
}

fn csv(phase: &str) -> Option<ClusterServiceVersion> {
    object!({"status": {"phase": phase, "reason": "R", "message": "m"}})
}

fn subscription(status: &Value) -> Subscription {
    object!({"metadata": {"name": "tide-sub", "namespace": "tides"}, "spec": {"name": "tide"}, "status": status})
}

/// The observation of a Subscription without other objects.
fn observed(subscription: &Subscription) -> OlmState<'_> {
    OlmState {
        target: "tide.v2",
        subscription,
        plan: None,
        before: &NO_FAILURES,
        image: "a.io/tide:2",
        failed_unpack: &ALL_UNPACKED,
        csv: None,
        replaced_csv: None,
    }
}

#[track_caller]
fn assert_next(state: OlmState<'_>, expected: &str) {
    let step = match next(state) {
        NextStep::Wait(event) => format!("wait: {event}"),
        NextStep::Approve(plan) => format!("approve: {plan}"),
        NextStep::Done => "done".to_owned(),
        NextStep::Failed(reason) => format!("failed: {reason}"),
    };
    ::tests::assert_rows!(matches(expected, &step) => true, "{step}, not {expected}: {state:?}");
}

// parity: sdk-7, sdk-9
#[test]
fn plans_are_approved_until_the_version_is_installed() {
    let installed = |name: &str| json!({"installedCSV": name});
    let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "m"});
    let unresolved = condition("ResolutionFailed", "Unresolved");
    let busy = condition("BundleUnpackFailed", "EnsureInstallPlanFailed");
    let healthy = json!({"type": "CatalogSourcesUnhealthy", "status": "False", "reason": "x", "message": "y"});
    let in_phase = |phase: &str| plan(true, &json!({"phase": phase}));
    let with_message =
        |phase: &str, message: &str| plan(true, &json!({"phase": phase, "message": message}));
    let with_condition = |phase: &str, reason: &str| {
        let condition =
            json!({"type": "Installed", "status": "False", "reason": reason, "message": "denied"});
        plan(true, &json!({"phase": phase, "conditions": [condition]}))
    };
    for (status, plan, csv, expected) in ::tests::rows![
        json!({}), None, None => "wait: OLM to create an InstallPlan";
        json!({"conditions": [healthy, unresolved]}), None, None => "wait: Subscription tide-sub: Unresolved: m";
        // Both conditions are reported because the older one may still apply.
        json!({"conditions": [unresolved, busy]}), None, None
            => "wait: Subscription tide-sub: Unresolved: m; EnsureInstallPlanFailed: m";
        json!({}), plan(false, &json!({"phase": "RequiresApproval"})), None => "approve: install-1";
        json!({}), in_phase("Installing"), None => "wait: InstallPlan install-1: Installing";
        json!({}), with_condition("Failed", "Broken"), None => "failed: InstallPlan install-1 failed: Broken: denied";
        json!({}), in_phase("Failed"), None => "failed: InstallPlan install-1 failed: no reason given";
        // The plan failed after it created the ClusterServiceVersion: another object is missing permanently.
        installed("tide.v2"), with_message("Failed", "denied"), csv("Succeeded") => "failed: InstallPlan install-1 failed: denied";
        // The command waits while OLM retries.
        json!({}), with_message("Installing", "retrying: denied"), None => "wait: InstallPlan install-1: retrying: denied";
        json!({}), with_condition("RequiresApproval", "InstallCheckFailed"), None
            => "wait: InstallPlan install-1: InstallCheckFailed: denied";
        json!({}), with_condition("Installing", "Unknown"), None => "wait: InstallPlan install-1: Installing";
        // OLM is still creating the last objects.
        installed("tide.v2"), plan(true, &json!({"phase": "Installing", "plan": [{"resolving": "tide.v2"}]})), csv("Succeeded")
            => "wait: InstallPlan install-1: Installing";
        // A plan that installs other versions is ignored.
        installed("tide.v2"), in_phase("Installing"), csv("Succeeded") => "done";
        installed("tide.v2"), plan(false, &json!({})), csv("Succeeded") => "done";
        // The previous version was installed; OLM continues automatically.
        installed("tide.v1"), in_phase("Complete"), None => "wait: OLM to continue from tide.v1";
        installed("tide.v1"), plan(false, &json!({})), None => "approve: install-1";
        installed("tide.v1"), None, csv("Succeeded") => "wait: OLM to continue from tide.v1";
        json!({}), in_phase("Complete"), csv("Pending") => "wait: ClusterServiceVersion tide.v2: Pending: m";
        json!({}), None, csv("Failed") => "failed: csv failed: reason: \"R\", message: \"m\"";
    ] {
        let subscription = subscription(&status);
        let state = ::tests::with!(OlmState, plan: plan.as_ref(), csv: csv.as_ref(); ..observed(&subscription));
        assert_next(state, expected);
    }
}

// parity: sdk-29
#[test]
fn earlier_failures_do_not_end_the_wait() {
    let condition = json!({"type": "BundleUnpackFailed", "status": "True", "reason": "BundleUnpackFailed", "message": "m"});
    let subscription = subscription(&json!({"installedCSV": "tide.v1", "conditions": [condition]}));
    let plan = plan(true, &json!({"phase": "Failed"}));
    let before = PriorFailures::new(&subscription, plan.as_ref());
    ::tests::assert_rows!(before.unpacking.as_ref() => subscription.status.conditions.first());
    let fails = "failed: InstallPlan install-1 failed: no reason given";
    let waits = "wait: Subscription tide-sub: BundleUnpackFailed: m";
    for (before, expected) in [(&NO_FAILURES, fails), (&before, waits)] {
        let state =
            ::tests::with!(OlmState, plan: plan.as_ref(), before; ..observed(&subscription));
        assert_next(state, expected);
    }
}

// parity: sdk-9
#[test]
fn unpack_failures_that_olm_does_not_retry_are_final() {
    let condition = |reason: &str, message: &str| -> OlmCondition {
        object!({"type": "BundleUnpackFailed", "status": "True", "reason": reason, "message": message})
    };
    let failed = |message: &str| condition("BundleUnpackFailed", message);
    let images = |images: &[&str]| Some(set(images));
    let groups = [
        OperatorGroup::default(),
        object!({"metadata": {"annotations": {"operatorframework.io/bundle-unpack-min-retry-interval": "5m"}}}),
    ];
    let own = "failed: OLM failed to unpack a bundle: BundleUnpackFailed: m; the bundle is a.io/tide:2; OLM does not retry; \
               publish a bundle that OLM can pull, and upgrade to it with \"* run bundle-upgrade IMAGE\"; *";
    let any = "failed: OLM failed to unpack a bundle: *: m; a failing bundle of any package in the namespace blocks this one; \
               OLM does not retry; publish *";
    let wait = "wait: Subscription tide-sub: BundleUnpackFailed: m";
    for (reported, plan, before, tries_again, jobs, expected) in ::tests::rows![
        failed("m"), None, None, false, images(&["a.io/tide:2"]) => own;
        failed("m"), None, None, false, None => any;
        failed("m"), plan(true, &json!({"phase": "Complete"})), None, false, None => any;
        failed("m"), None, Some(failed("n")), false, None => any;
        // The Job succeeded.
        condition("ErrorPreventedUnpacking", "m"), None, None, false, images(&[]) => any;
        // The failure belongs to another bundle.
        failed("m"), None, None, false, images(&["a.io/coral:1", "b.io/x"])
            => "failed: *: m; it is not the bundle of tide.v2 *; failed Jobs of: a.io/coral:1, b.io/x; *";
        failed("m"), None, None, false, images(&[]) => "failed: *: m; it is not the bundle of tide.v2 *; failed Jobs of: none; *";
        // The same condition is reported for this bundle now.
        failed("m"), None, Some(failed("m")), false, images(&["a.io/tide:1", "a.io/tide:2"]) => own;
        // OLM retries, or reported the failure before.
        condition("EnsureInstallPlanFailed", "m"), None, None, false, images(&["a.io/tide:2"])
            => "wait: Subscription tide-sub: EnsureInstallPlanFailed: m";
        failed("m"), None, None, true, images(&["a.io/tide:2"]) => wait;
        failed("m"), None, Some(failed("m")), false, images(&["a.io/tide:1"]) => wait;
        failed("m"), None, Some(failed("m")), false, None => wait;
        // OLM has continued since.
        failed("m"), plan(false, &json!({})), None, false, images(&["a.io/tide:2"]) => "approve: install-1";
    ] {
        let mut subscription = subscription(&json!({"installedCSV": "tide.v1"}));
        subscription.status.conditions.push(reported);
        let before = ::tests::with!(PriorFailures, unpacking: before);
        let groups = &groups[..=usize::from(tries_again)];
        let failed_unpack = UnpackFailures::new(&subscription, groups, jobs);
        let state = ::tests::with!(OlmState, plan: plan.as_ref(), before: &before, failed_unpack: &failed_unpack; ..observed(&subscription));
        assert_next(state, expected);
    }
}

// parity: sdk-9
#[test]
fn failed_or_deleted_plan_blocks_further_plans() {
    let named = |state: &str, installed: &str, plan: &str| {
        subscription(&json!({
            "state": state, "installedCSV": installed, "currentCSV": "tide.v2", "installPlanRef": {"name": plan},
        }))
    };
    let tide = |state: &str| named(state, "tide.v1", "install-1");
    let pending = "UpgradePending";
    let idle = named("AtLatestKnown", "reef.v1", "install-0");
    let failed = plan(true, &json!({"phase": "Failed", "message": "denied"}));
    let forward: OperatorGroup =
        object!({"spec": {"upgradeStrategy": OperatorGroup::FAIL_FORWARD}});
    let first = named(pending, "", "install-1");
    let cleanup = "*; OLM does not retry; *cleanup tide --namespace tides\"*";
    let patch = "*; OLM does not retry; fix the reported problem and make OLM create a new plan: kubectl patch \
                 subscriptions.operators.coreos.com tide-sub --namespace tides --subresource status --type merge --patch \
                 '{\"status\":{\"state\":\"AtLatestKnown\",\"currentCSV\":\"tide.v1\",\"installPlanRef\":null,\"installplan\":null}}'; \
                 then run the same command again";
    let (denied, deleted) = (Some("failed: denied"), Some("was deleted"));
    for (own, others, plan, has_current, groups, target, problem, expected) in ::tests::rows![
        tide(pending), vec![], failed.clone(), false, vec![OperatorGroup::default()], "tide.v3", denied => Some(patch);
        first.clone(), vec![], failed.clone(), false, vec![], "tide.v3", denied => Some(cleanup);
        // All Subscriptions wait.
        tide(pending), vec![first.clone()], failed.clone(), false, vec![], "tide.v3", denied => Some(patch);
        // Another Subscription makes OLM resolve again, but not for a version that is already requested.
        tide(pending), vec![idle.clone()], failed.clone(), false, vec![], "tide.v3", denied => None;
        tide(pending), vec![named("", "", "")], failed.clone(), false, vec![], "tide.v3", denied => None;
        tide(pending), vec![idle], failed.clone(), false, vec![], "tide.v2", denied => Some(patch);
        // OLM continues automatically.
        tide(pending), vec![], failed.clone(), false, vec![forward.clone()], "tide.v3", denied => None;
        tide("UpgradeFailed"), vec![], failed.clone(), false, vec![forward.clone()], "tide.v3", denied => None;
        tide(pending), vec![], failed, true, vec![], "tide.v3", None => None;
        tide(pending), vec![], plan(true, &json!({"phase": "Installing"})), false, vec![], "tide.v3", None => None;
        // The plan was deleted by another client.
        tide(pending), vec![], None, false, vec![forward], "tide.v3", deleted => Some(patch);
        first, vec![], None, false, vec![], "tide.v3", deleted => Some(cleanup);
        tide(pending), vec![], None, true, vec![], "tide.v3", None => None;
        named("", "tide.v1", ""), vec![], None, false, vec![], "tide.v3", None => None;
    ] {
        let stall_check = StallCheck {
            target,
            subscription: &own,
            plan: plan.as_ref(),
            has_current,
            all: [others, vec![own.clone()]].concat(),
            groups,
        };
        let problem = problem.map(|problem| format!("InstallPlan install-1 {problem}"));
        assert_eq!(stall_check.failure(), problem, "{stall_check:?}");
        let reason = stall_check.stall_reason();
        assert_eq!(reason.is_some(), expected.is_some(), "{stall_check:?}");
        if let (Some(reason), Some(expected)) = (reason, expected) {
            assert!(reason.starts_with(&problem.unwrap_or_default()), "{reason}");
            assert!(matches(expected, &reason), "{reason}, not {expected}");
        }
    }
}

// parity: sdk-9
#[test]
fn plan_that_fails_half_way_names_reason_and_remedy() {
    let subscription = subscription(&json!({"installedCSV": "tide.v2"}));
    let resume = "failed: InstallPlan install-1 failed: denied; OLM does not retry; fix the reported problem and make OLM \
                  resume the plan: kubectl patch installplans.operators.coreos.com install-1 --namespace tides --subresource \
                  status --type merge --patch '{\"status\":{\"phase\":\"Installing\",\"startTime\":null}}'; then run the same \
                  command again";
    let pending = "wait: ClusterServiceVersion tide.v2: Pending: m";
    let retrying = "wait: InstallPlan install-1: denied; ClusterServiceVersion tide.v2: Pending: m";
    let earlier = ::tests::with!(PriorFailures, failed_plan: Some("install-1".to_owned()));
    for (installs, phase, before, expected) in [
        ("tide.v2", "Failed", &NO_FAILURES, resume),
        // A repeated command reports the same.
        ("tide.v2", "Failed", &earlier, resume),
        ("tide.v2", "Installing", &NO_FAILURES, retrying),
        // The plan installs another version.
        ("tide.v1", "Failed", &earlier, pending),
        ("tide.v1", "Installing", &NO_FAILURES, pending),
    ] {
        let status =
            json!({"phase": phase, "message": "denied", "plan": [{"resolving": installs}]});
        let (plan, csv) = (plan(true, &status), csv("Pending"));
        let state = ::tests::with!(OlmState, plan: plan.as_ref(), before, csv: csv.as_ref(); ..observed(&subscription));
        assert_next(state, expected);
    }
}

// parity: sdk-10
#[test]
fn upgrade_waits_until_the_replaced_version_succeeded() {
    let subscription = subscription(&json!({"installedCSV": "tide.v1"}));
    let (healthy, broken) = ([("Installing", "Waiting")], [("Failed", "Check")]);
    let fails =
        "failed: tide.v1, which is to be replaced, has failed and is in phase Failed: Check: m; *";
    let unapproved = plan(false, &json!({}));
    let ended = plan(true, &json!({"phase": "Failed", "message": "denied"}));
    for (plan, csv, past, strategy, expected) in ::tests::rows![
        &unapproved, None, healthy, "Default" => "wait: the approval of InstallPlan install-1: tide.v1, which is to be \
                                                  replaced, is in phase Installing: Waiting: m; OLM replaces only versions \
                                                  that succeeded";
        &unapproved, None, broken, "Default" => fails;
        &unapproved, None, broken, OperatorGroup::FAIL_FORWARD => "approve: install-1";
        // OLM does not create a plan.
        &None, None, healthy, "Default" => "wait: OLM to continue from tide.v1; tide.v1, which is to be replaced, *";
        &None, None, broken, "Default" => fails;
        // The plan was already approved.
        &None, csv("Pending"), healthy, "Default" => "wait: ClusterServiceVersion tide.v2: Pending: m; tide.v1, which *";
        &None, csv("Pending"), broken, "Default" => fails;
        &None, csv("Pending"), broken, OperatorGroup::FAIL_FORWARD => "wait: *; OLM replaces only versions that succeeded or failed";
        // A plan that failed for another reason is reported with that reason.
        &ended, None, broken, "Default" => "failed: InstallPlan install-1 failed: denied";
    ] {
        let replaced_csv = replacement::tests::csv("tide.v1", "", &past);
        let group: OperatorGroup = object!({"spec": {"upgradeStrategy": strategy}});
        let replaced_csv = ReplacedCsv::new(replaced_csv, &[group]);
        let state = ::tests::with!(OlmState, plan: plan.as_ref(), csv: csv.as_ref(), replaced_csv: Some(&replaced_csv); ..observed(&subscription));
        assert_next(state, expected);
    }
}

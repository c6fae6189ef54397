use serde_json::json;

use super::{super::replacement, *};

#[expect(clippy::unnecessary_wraps, reason = "there may be none")]
fn plan(approved: bool, status: &Value) -> Option<Value> {
    Some(
        json!({"metadata": {"name": "install-1"}, "spec": {"approved": approved}, "status": status}),
    )
}

#[expect(clippy::unnecessary_wraps, reason = "there may be none")]
fn csv(phase: &str) -> Option<Value> {
    Some(json!({"status": {"phase": phase, "reason": "R", "message": "m"}}))
}

/// The observation of a Subscription without a status, and the requested version.
const OBSERVED: OlmState<'_> = OlmState {
    target: "tide.v2",
    subscription: &Value::Null,
    plan: None,
    before: &NO_FAILURES,
    image: "a.io/tide:2",
    failed_unpack: &UnpackFailures::None,
    csv: None,
    replaced_csv: None,
};
const NO_FAILURES: PriorFailures = PriorFailures {
    failed_plan: None,
    unpacking: None,
};

// parity: sdk-7, sdk-9
#[test]
fn plans_are_approved_until_the_version_is_installed() {
    let wait = |text: &str| NextStep::Wait(text.to_owned());
    let failed = |text: &str| NextStep::Failed(text.to_owned());
    let installed = |name: &str| json!({"installedCSV": name});
    for (status, plan, csv, expected) in ::tests::rows![
        json!({}), None, None => wait("OLM to create an InstallPlan");
        json!({"conditions": [
            {"type": "CatalogSourcesUnhealthy", "status": "False", "reason": "x", "message": "y"},
            {"type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable", "message": "no"},
        ]}), None, None => wait("Subscription tide: ConstraintsNotSatisfiable: no");
        // Both conditions are reported because the older one may still apply.
        json!({"conditions": [
            {"type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable", "message": "no"},
            {"type": "BundleUnpackFailed", "status": "True", "reason": "EnsureInstallPlanFailed", "message": "busy"},
        ]}), None, None => wait("Subscription tide: ConstraintsNotSatisfiable: no; EnsureInstallPlanFailed: busy");
        json!({}), plan(false, &json!({})), None => NextStep::Approve("install-1".to_owned());
        json!({}), plan(false, &json!({"phase": "RequiresApproval"})), None => NextStep::Approve("install-1".to_owned());
        json!({}), plan(true, &json!({"phase": "Installing", "bundleLookups": [
            {"path": "p", "conditions": [{"type": "BundleLookupPending", "reason": "JobIncomplete", "message": "unpack job not completed"}]},
        ]})), None => wait("InstallPlan install-1: JobIncomplete: unpack job not completed");
        json!({}), plan(true, &json!({"phase": "Installing"})), None => wait("InstallPlan install-1: Installing");
        json!({}), plan(true, &json!({"phase": "Failed", "conditions": [
            {"type": "Installed", "status": "False", "reason": "InstallComponentFailed", "message": "denied"},
        ]})), None => failed("InstallPlan install-1 failed: InstallComponentFailed: denied");
        json!({}), plan(true, &json!({"phase": "Failed"})), None => failed("InstallPlan install-1 failed: no reason given");
        json!({}), plan(true, &json!({"phase": "Failed", "message": "denied", "bundleLookups": [
            {"conditions": [{"type": "BundleLookupFailed", "status": "True", "reason": "r"}]},
        ]})), None => failed("InstallPlan install-1 failed: denied");
        // The plan failed after it created the ClusterServiceVersion: another object is missing permanently.
        installed("tide.v2"), plan(true, &json!({"phase": "Failed", "message": "denied"})), csv("Succeeded")
            => failed("InstallPlan install-1 failed: denied");
        // Older OLM versions unpack after they create the plan.
        json!({}), plan(true, &json!({"phase": "Installing", "bundleLookups": [
            {"conditions": [
                {"type": "BundleLookupPending", "status": "True", "reason": "JobIncomplete"},
                {"type": "BundleLookupFailed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"},
            ]},
            {"conditions": [{"type": "BundleLookupPending", "status": "True", "reason": "JobIncomplete"}]},
        ]})), None => failed("InstallPlan install-1 failed: DeadlineExceeded: too long");
        // The command waits while OLM retries.
        json!({}), plan(true, &json!({"phase": "Installing", "message": "retrying execution due to error: denied"})), None
            => wait("InstallPlan install-1: retrying execution due to error: denied");
        json!({}), plan(true, &json!({"phase": "RequiresApproval", "conditions": [
            {"type": "Installed", "status": "False", "reason": "InstallCheckFailed", "message": "no operator group"},
        ]})), None => wait("InstallPlan install-1: InstallCheckFailed: no operator group");
        json!({}), plan(true, &json!({"phase": "Installing", "conditions": [
            {"type": "Installed", "status": "False", "reason": "Unknown", "message": ""},
        ]})), None => wait("InstallPlan install-1: Installing");
        // OLM is still creating the last objects.
        installed("tide.v2"), Some(json!({
            "metadata": {"name": "install-1"},
            "spec": {"approved": true, "clusterServiceVersionNames": ["tide.v2"]},
            "status": {"phase": "Installing"},
        })), csv("Succeeded") => wait("InstallPlan install-1: Installing");
        // A plan that installs other versions is ignored.
        installed("tide.v2"), plan(true, &json!({"phase": "Installing"})), csv("Succeeded") => NextStep::Done;
        // The previous version was installed; OLM continues automatically.
        installed("tide.v1"), plan(true, &json!({"phase": "Complete"})), None => wait("OLM to continue from tide.v1");
        installed("tide.v1"), plan(false, &json!({})), None => NextStep::Approve("install-1".to_owned());
        json!({}), plan(true, &json!({"phase": "Complete"})), csv("Pending")
            => wait("ClusterServiceVersion tide.v2: Pending: m");
        json!({}), None, csv("Failed") => failed("csv failed: reason: \"R\", message: \"m\"");
        installed("tide.v1"), None, csv("Succeeded") => wait("OLM to continue from tide.v1");
        installed("tide.v2"), plan(true, &json!({"phase": "Complete"})), csv("Succeeded") => NextStep::Done;
        // A pending plan for another version is ignored.
        installed("tide.v2"), plan(false, &json!({})), csv("Succeeded") => NextStep::Done;
        // A malformed status does not end the command.
        json!({"conditions": "x"}), Some(json!([])), Some(json!(1)) => wait("OLM to create an InstallPlan");
    ] {
        let subscription = json!({"metadata": {"name": "tide"}, "status": status});
        let state = ::tests::with!(OlmState, subscription: &subscription, plan: plan.as_ref(), csv: csv.as_ref(); ..OBSERVED);
        assert_eq!(next(state), expected, "{state:?}");
    }
}

// parity: sdk-29
#[test]
fn earlier_failures_do_not_end_the_wait() {
    let failed = json!({"type": "BundleUnpackFailed", "status": "True", "reason": "BundleUnpackFailed", "message": "m"});
    let subscription = json!({
        "metadata": {"name": "tide"},
        "status": {"installedCSV": "tide.v1", "conditions": [failed]},
    });
    let plan = plan(true, &json!({"phase": "Failed"}));
    let step = |before| {
        next(
            ::tests::with!(OlmState, subscription: &subscription, plan: plan.as_ref(), before; ..OBSERVED),
        )
    };
    let failures = prior_failures(&subscription, plan.as_ref());
    assert_eq!(failures.failed_plan.as_deref(), Some("install-1"));
    assert_eq!(failures.unpacking, Some(failed));
    let waits = "Subscription tide: BundleUnpackFailed: m".to_owned();
    assert_eq!(step(&failures), NextStep::Wait(waits));
    let fails = "InstallPlan install-1 failed: no reason given".to_owned();
    assert_eq!(step(&NO_FAILURES), NextStep::Failed(fails));
}

// parity: sdk-9
#[test]
fn unpack_failures_that_olm_does_not_retry_are_final() {
    let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "m"});
    let unpack = |reason: &str| condition("BundleUnpackFailed", reason);
    let other = json!({"type": "BundleUnpackFailed", "status": "True", "reason": "BundleUnpackFailed", "message": "n"});
    let remedy = format!(
        "OLM does not retry; publish a bundle that OLM can pull, and upgrade to it with \"{} run bundle-upgrade IMAGE\"; \
         the failed bundle is then skipped, and the running operator is not changed",
        crate::args::name()
    );
    let failed = |reason: &str, scope: &str| {
        NextStep::Failed(format!(
            "OLM failed to unpack a bundle: {reason}: m; {scope}; {remedy}"
        ))
    };
    let (own, any) = (
        "the bundle is a.io/tide:2",
        "a failing bundle of any package in the namespace blocks this one",
    );
    let others = |images: &str| {
        NextStep::Failed(format!(
            "OLM failed to unpack a bundle: BundleUnpackFailed: m; it is not the bundle of tide.v2 and may belong to \
             another package; failed Jobs of: {images}; OLM installs nothing in the namespace until this is fixed; make \
             sure that these images can be pulled, or remove the Subscriptions that need them, and run the same command \
             again"
        ))
    };
    let wait = |reason: &str| NextStep::Wait(format!("Subscription tide: {reason}: m"));
    let job = "BundleUnpackFailed";
    let images = |images: &[&str]| {
        let images = images.iter().map(|image| (*image).to_owned());
        Some(images.collect::<BTreeSet<String>>())
    };
    let interval = json!({"metadata": {"annotations": {
        "operatorframework.io/bundle-unpack-min-retry-interval": "5m",
    }}});
    let groups = [json!({}), interval];
    for (reported, plan, before, tries_again, jobs, expected) in ::tests::rows![
        unpack(job), None, None, false, images(&["a.io/tide:2"]) => failed(job, own);
        unpack(job), None, None, false, None => failed(job, any);
        unpack(job), plan(true, &json!({"phase": "Complete"})), None, false, None => failed(job, any);
        unpack(job), None, Some(other), false, None => failed(job, any);
        // The Job succeeded.
        unpack("ErrorPreventedUnpacking"), None, None, false, images(&[]) => failed("ErrorPreventedUnpacking", any);
        // The failure belongs to another bundle.
        unpack(job), None, None, false, images(&["a.io/coral:1", "b.io/x"]) => others("a.io/coral:1, b.io/x");
        unpack(job), None, None, false, images(&[]) => others("none");
        // The same condition is reported for this bundle now.
        unpack(job), None, Some(unpack(job)), false, images(&["a.io/tide:1", "a.io/tide:2"]) => failed(job, own);
        // OLM retries, or reported the failure before.
        unpack("EnsureInstallPlanFailed"), None, None, false, images(&["a.io/tide:2"]) => wait("EnsureInstallPlanFailed");
        unpack(job), None, None, true, images(&["a.io/tide:2"]) => wait(job);
        unpack(job), None, Some(unpack(job)), false, images(&["a.io/tide:1"]) => wait(job);
        unpack(job), None, Some(unpack(job)), false, None => wait(job);
        condition("ResolutionFailed", "ConstraintsNotSatisfiable"), None, None, false, images(&["a.io/tide:2"])
            => wait("ConstraintsNotSatisfiable");
        // OLM has continued since.
        unpack(job), plan(false, &json!({})), None, false, images(&["a.io/tide:2"]) => NextStep::Approve("install-1".to_owned());
    ] {
        let subscription = json!({"metadata": {"name": "tide"}, "status": {"installedCSV": "tide.v1", "conditions": [reported]}});
        let before = ::tests::with!(PriorFailures, unpacking: before; ..NO_FAILURES);
        let failed_unpack =
            failed_unpack(&subscription, &groups[..=usize::from(tries_again)], jobs);
        let state = ::tests::with!(OlmState, subscription: &subscription, plan: plan.as_ref(), before: &before, failed_unpack: &failed_unpack; ..OBSERVED);
        assert_eq!(next(state), expected, "{state:?}");
    }
    let group = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    let interval = json!({"operatorframework.io/bundle-unpack-min-retry-interval": "5m"});
    for (groups, expected) in ::tests::rows![
        vec![] => false;
        vec![group(json!({"other": "5m"})), group(json!(null))] => false;
        vec![group(interval)] => true;
    ] {
        assert_eq!(unpacks_again(&groups), expected, "{groups:?}");
    }
}

// parity: sdk-9
#[test]
fn failed_or_deleted_plan_blocks_further_plans() {
    let subscription = |name: &str, state: &str, installed: &str, plan: &str| {
        json!({
            "metadata": {"name": name, "namespace": "tides"}, "spec": {"name": "tide"},
            "status": {
                "state": state, "installedCSV": installed, "currentCSV": "tide.v2", "installPlanRef": {"name": plan},
            },
        })
    };
    let tide = |state: &str| subscription("tide-sub", state, "tide.v1", "install-1");
    let pending = "UpgradePending";
    let (waits, idle) = (
        subscription("reef", pending, "", "install-1"),
        subscription("reef", "AtLatestKnown", "reef.v1", "install-0"),
    );
    let unresolved = subscription("reef", "", "", "");
    let failed = plan(true, &json!({"phase": "Failed", "message": "denied"}));
    let forward = json!({"spec": {"upgradeStrategy": "TechPreviewUnsafeFailForward"}});
    let patch = "kubectl patch subscriptions.operators.coreos.com tide-sub --namespace tides --subresource status --type merge \
                 --patch '{\"status\":{\"state\":\"AtLatestKnown\",\"currentCSV\":\"tide.v1\",\"installPlanRef\":null,\"installplan\":null}}'";
    let first = subscription("tide-sub", pending, "", "install-1");
    let cleanup = "cleanup tide --namespace tides\"";
    let denied = "failed: denied";
    for (own, others, plan, has_current, groups, target, given_up, expected) in ::tests::rows![
        tide(pending), vec![], failed.clone(), false, vec![json!({})], "tide.v3", Some(denied) => Some(patch);
        first.clone(), vec![], failed.clone(), false, vec![], "tide.v3", Some(denied) => Some(cleanup);
        // All Subscriptions wait.
        tide(pending), vec![waits], failed.clone(), false, vec![], "tide.v3", Some(denied) => Some(patch);
        // Another Subscription makes OLM resolve again, but not for a version that is already requested.
        tide(pending), vec![idle.clone()], failed.clone(), false, vec![], "tide.v3", Some(denied) => None;
        tide(pending), vec![unresolved], failed.clone(), false, vec![], "tide.v3", Some(denied) => None;
        tide(pending), vec![idle], failed.clone(), false, vec![], "tide.v2", Some(denied) => Some(patch);
        // OLM continues automatically.
        tide(pending), vec![], failed.clone(), false, vec![forward.clone()], "tide.v3", Some(denied) => None;
        tide("UpgradeFailed"), vec![], failed.clone(), false, vec![forward.clone()], "tide.v3", Some(denied) => None;
        tide(pending), vec![], failed, true, vec![], "tide.v3", None => None;
        tide(pending), vec![], plan(true, &json!({"phase": "Installing"})), false, vec![], "tide.v3", None => None;
        // The plan was deleted by another client.
        tide(pending), vec![], None, false, vec![forward], "tide.v3", Some("was deleted") => Some(patch);
        first, vec![], None, false, vec![], "tide.v3", Some("was deleted") => Some(cleanup);
        tide(pending), vec![], None, true, vec![], "tide.v3", None => None;
        subscription("tide-sub", "", "tide.v1", ""), vec![], None, false, vec![], "tide.v3", None => None;
    ] {
        let mut all = others;
        all.push(own.clone());
        let stall_check = StallCheck {
            target,
            subscription: &own,
            plan: plan.as_ref(),
            has_current,
            all: &all,
            groups: &groups,
        };
        let given_up = given_up.map(|problem| format!("InstallPlan install-1 {problem}"));
        assert_eq!(stall_check.failure(), given_up, "{stall_check:?}");
        assert_eq!(stall_check.has_failed_for_good(), given_up.is_some());
        let reason = stall_check.stall_reason();
        assert_eq!(reason.is_some(), expected.is_some(), "{stall_check:?}");
        if let (Some(reason), Some(part), Some(failure)) = (reason, expected, given_up) {
            let start = format!("{failure}; OLM does not retry; ");
            assert!(
                reason.starts_with(&start) && reason.contains(part),
                "{reason}"
            );
        }
    }
}

// parity: sdk-9
#[test]
fn plan_that_fails_half_way_names_reason_and_remedy() {
    let subscription = json!({"metadata": {"name": "tide"}, "status": {"installedCSV": "tide.v2"}});
    let further = "InstallPlan install-1 failed: denied; OLM does not retry; fix the reported problem and make OLM resume \
                   the plan: kubectl patch installplans.operators.coreos.com install-1 --namespace tides --subresource \
                   status --type merge --patch '{\"status\":{\"phase\":\"Installing\",\"startTime\":null}}'; then run the \
                   same command again";
    let pending = "ClusterServiceVersion tide.v2: Pending: m";
    let retrying =
        "InstallPlan install-1: retrying: denied; ClusterServiceVersion tide.v2: Pending: m";
    let failed = json!({"phase": "Failed", "message": "denied"});
    let attempts = json!({"phase": "Installing", "message": "retrying: denied"});
    let earlier =
        ::tests::with!(PriorFailures, failed_plan: Some("install-1".to_owned()); ..NO_FAILURES);
    let none = NO_FAILURES;
    for (names, status, csv, before, expected) in [
        ("tide.v2", &failed, csv("Pending"), &none, Err(further)),
        // A repeated command reports the same.
        ("tide.v2", &failed, csv("Pending"), &earlier, Err(further)),
        ("tide.v2", &attempts, csv("Pending"), &none, Ok(retrying)),
        // The plan installs another version.
        ("tide.v1", &failed, csv("Pending"), &earlier, Ok(pending)),
        ("tide.v1", &attempts, csv("Pending"), &none, Ok(pending)),
    ] {
        let plan = json!({
            "metadata": {"name": "install-1", "namespace": "tides"},
            "spec": {"approved": true, "clusterServiceVersionNames": [names]}, "status": status,
        });
        let found = next(
            ::tests::with!(OlmState, subscription: &subscription, plan: Some(&plan), before, csv: csv.as_ref(); ..OBSERVED),
        );
        let expected = match expected {
            Ok(waits) => NextStep::Wait(waits.to_owned()),
            Err(fails) => NextStep::Failed(fails.to_owned()),
        };
        assert_eq!(found, expected, "{plan}");
    }
}

// parity: sdk-10
#[test]
fn upgrade_waits_until_the_replaced_version_succeeded() {
    let subscription = json!({
        "metadata": {"name": "tide-sub", "namespace": "tides"}, "spec": {"name": "tide"},
        "status": {"installedCSV": "tide.v1"},
    });
    let (healthy, broken) = ([("Installing", "Waiting")], [("Failed", "Check")]);
    let strategy =
        |name: &str| json!({"metadata": {"name": "og"}, "spec": {"upgradeStrategy": name}});
    let waits = "tide.v1, which is to be replaced, is in phase Installing: Waiting: m; OLM replaces only versions that \
                 succeeded";
    let fails = "tide.v1, which is to be replaced, has failed and is in phase Failed: Check: m; ";
    let forward = "tide.v1, which is to be replaced, is in phase Failed: Check: m; OLM replaces only versions that \
                   succeeded or failed";
    let unapproved = plan(false, &json!({}));
    let ended = plan(true, &json!({"phase": "Failed", "message": "denied"}));
    for (plan, csv, past, group, expected) in ::tests::rows![
        &unapproved, None, healthy, "Default" => NextStep::Wait(format!("the approval of InstallPlan install-1: {waits}"));
        &unapproved, None, broken, "Default" => NextStep::Failed(fails.to_owned());
        &unapproved, None, broken, FORWARD => NextStep::Approve("install-1".to_owned());
        // OLM does not create a plan.
        &None, None, healthy, "Default" => NextStep::Wait(format!("OLM to continue from tide.v1; {waits}"));
        &None, None, broken, "Default" => NextStep::Failed(fails.to_owned());
        // The plan was already approved.
        &None, csv("Pending"), healthy, "Default" => NextStep::Wait(format!("ClusterServiceVersion tide.v2: Pending: m; {waits}"));
        &None, csv("Pending"), broken, "Default" => NextStep::Failed(fails.to_owned());
        &None, csv("Pending"), broken, FORWARD => NextStep::Wait(format!("ClusterServiceVersion tide.v2: Pending: m; {forward}"));
        // A plan that failed for another reason is reported with that reason.
        &ended, None, broken, "Default" => NextStep::Failed("InstallPlan install-1 failed: denied".to_owned());
    ] {
        let replaced_csv = replacement::tests::csv("tide.v1", "", &past);
        let replaced_csv = replacement::tests::replaced_csv(&replaced_csv, &[strategy(group)]);
        let state = ::tests::with!(OlmState, subscription: &subscription, plan: plan.as_ref(), csv: csv.as_ref(), replaced_csv: Some(&replaced_csv); ..OBSERVED);
        match (next(state), expected) {
            (NextStep::Failed(problem), NextStep::Failed(start)) => {
                assert!(problem.starts_with(&start), "{problem}");
            }
            (found, expected) => assert_eq!(found, expected, "{state:?}"),
        }
    }
}

//! What the cluster-version operator makes of what is written: its rules, and statuses that come from here.
//!
//! It waits for the ClusterOperators of its release payload, and reads of them no more than this.

use super::*;

const RELEASE: &str = "4.12.0";

fn status_of<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> Option<&'a str> {
    let mut conditions = status.conditions.iter();
    Some(&conditions.find(|one| one.type_ == type_)?.status)
}

/// Reports whether the installation of a cluster goes on: being available is all that counts.
fn installs(status: &ClusterOperatorStatus) -> bool {
    !status.versions.is_empty() && status_of(status, "Available") == Some("True")
}

/// Whether an update to a version is complete as far as this operator goes. Who does not say that it is not degraded is.
fn completes_update(status: &ClusterOperatorStatus, version: &str) -> bool {
    let mut versions = status.versions.iter();
    let runs = versions.find(|it| it.name == "operator");
    installs(status)
        && status_of(status, "Degraded") == Some("False")
        && runs.is_some_and(|it| it.version == version)
}

/// Reports whether the cluster-version operator starts an update: within a minor version and back always, else unless
/// Upgradeable is False. An admin can force the update.
fn allows(status: &ClusterOperatorStatus, is_next_minor: bool, is_forced: bool) -> bool {
    is_forced || !is_next_minor || status_of(status, "Upgradeable") != Some("False")
}

/// What is written: of these operators, on top of what was written when all was well, if it was.
fn of(operators: &[PlatformOperator], is_day_0: bool) -> ClusterOperatorStatus {
    let calm = (!is_day_0).then(|| written(None, &input(&[], 0)));
    written(calm.as_ref(), &input(operators, 60))
}

fn core(listed: Result<(), &str>) -> ClusterOperatorStatus {
    super::core(None, listed, "system", Some(RELEASE), at(0)).status
}

// parity: max-10, openshift-23
#[test]
fn a_closed_gate_holds_the_next_version_and_nothing_else() {
    for (gate, opens) in [(&closed(), false), (&*OPEN, true)] {
        let status = written(None, &with!(input(&[], 0) => gate: gate));
        assert_rows! {
            status_of(&status, "Upgradeable") => Some(if opens { "True" } else { "False" });
            allows(&status, true, false) => opens;
            allows(&status, false, false) => true;
            allows(&status, true, true) => true;
            // It is about the next version; one that was begun goes on to its end.
            completes_update(&status, RELEASE) => true;
        }
    }
    // The manager itself holds nothing.
    for listed in [Ok(()), Err("connection refused")] {
        assert_eq!(status_of(&core(listed), "Upgradeable"), Some("True"));
    }
}

// parity: openshift-23
#[test]
fn an_installation_or_an_update_waits_for_failing_platform_operators() {
    let failing = || operator("b", Some(("False", "SourceFailed", 0)));
    let pending = || operator("new", Some(("False", "Unpacking", 59)));
    let lost = known("a", Some(("False", "InstallFailed", 0)));
    let well = of(&[good("a"), pending()], false);
    let without = |type_: &str| with!(well.clone() => |status| status.conditions.retain(|it| it.type_ != type_));
    for (status, installs_, completes) in ::tests::rows![
        of(&[], true), true => true;
        of(&[good("a")], true), true => true;
        of(&[good("a"), failing()], true), false => false;
        of(&[operator("a", None)], true), false => false;
        // Progressing is no obstacle.
        well.clone(), true => true;
        of(&[good("a"), failing()], false), true => false;
        of(&[lost], false), false => false;
        core(Ok(())), true => true;
        core(Err("connection refused")), false => false;
        // What the cluster-version operator makes before anybody has written to it, and what others may take away.
        ClusterOperatorStatus::default(), false => false;
        without("Degraded"), true => false;
        without("Available"), false => false;
        with!(well.clone() => |status| status.versions.clear()), false => false;
    ] {
        let found = (installs(&status), completes_update(&status, RELEASE));
        assert_eq!(found, (installs_, completes), "{status:?}");
    }
    assert_eq!(brief(&well), "T T F");
    // A release that says it is another one.
    assert!(!completes_update(&well, "4.12.1"));
}

//! The rules by which the cluster-version operator evaluates the written statuses.
//!
//! It waits for the ClusterOperators of its release payload, and reads only the fields used below.

use super::*;

const RELEASE: &str = "4.12.0";

fn status_of<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> Option<&'a str> {
    let mut conditions = status.conditions.iter();
    Some(&conditions.find(|one| one.type_ == type_)?.status)
}

/// Reports whether the installation of a cluster continues: only Available counts.
fn installs(status: &ClusterOperatorStatus) -> bool {
    !status.versions.is_empty() && status_of(status, "Available") == Some("True")
}

/// Reports whether this operator has completed an update to a version. It must report that it is not degraded.
fn completes_update(status: &ClusterOperatorStatus, version: &str) -> bool {
    let mut versions = status.versions.iter();
    let runs = versions.find(|version| version.name == "operator");
    installs(status)
        && status_of(status, "Degraded") == Some("False")
        && runs.is_some_and(|running| running.version == version)
}

/// Reports whether the cluster-version operator starts an update: within a minor version and back always, else unless
/// Upgradeable is False. An admin can force the update.
fn allows(status: &ClusterOperatorStatus, is_next_minor: bool, is_forced: bool) -> bool {
    is_forced || !is_next_minor || status_of(status, "Upgradeable") != Some("False")
}

/// Returns the status for these operators, based on a healthy status unless the cluster is being installed.
fn status_for(operators: &[PlatformOperator], is_day_0: bool) -> ClusterOperatorStatus {
    let calm = (!is_day_0).then(|| written(None, &input(&[], 0)));
    written(calm.as_ref(), &input(operators, 60))
}

fn core(listed: Result<(), &str>) -> ClusterOperatorStatus {
    super::core(None, listed, "system", Some(RELEASE), at(0)).status
}

// parity: max-10, openshift-23
#[test]
fn closed_gate_blocks_only_the_next_minor_version() {
    for (gate, opens) in [(&closed(), false), (&*OPEN, true)] {
        let status = written(None, &with!(input(&[], 0) => gate: gate));
        assert_rows! {
            status_of(&status, "Upgradeable") => Some(if opens { "True" } else { "False" });
            allows(&status, true, false) => opens;
            allows(&status, false, false) => true;
            allows(&status, true, true) => true;
            // The gate affects the next version; an update that has begun continues.
            completes_update(&status, RELEASE) => true;
        }
    }
    // The manager's own ClusterOperator blocks nothing.
    for listed in [Ok(()), Err("connection refused")] {
        assert_eq!(status_of(&core(listed), "Upgradeable"), Some("True"));
    }
}

// parity: openshift-23
#[test]
fn failing_operators_delay_installation_and_update() {
    let failing = || operator("b", Some(("False", "SourceFailed", 0)));
    let pending = || operator("new", Some(("False", "Unpacking", 59)));
    let lost = installed_operator("a", Some(("False", "InstallFailed", 0)));
    let well = status_for(&[good("a"), pending()], false);
    let without = |type_: &str| with!(well.clone() => |status| status.conditions.retain(|condition| condition.type_ != type_));
    for (status, installs_, completes) in ::tests::rows![
        status_for(&[], true), true => true;
        status_for(&[good("a")], true), true => true;
        status_for(&[good("a"), failing()], true), false => false;
        status_for(&[operator("a", None)], true), false => false;
        // Progressing does not block.
        well.clone(), true => true;
        status_for(&[good("a"), failing()], false), true => false;
        status_for(&[lost], false), false => false;
        core(Ok(())), true => true;
        core(Err("connection refused")), false => false;
        // The status that the cluster-version operator creates, and fields that other clients may remove.
        ClusterOperatorStatus::default(), false => false;
        without("Degraded"), true => false;
        without("Available"), false => false;
        with!(well.clone() => |status| status.versions.clear()), false => false;
    ] {
        let found = (installs(&status), completes_update(&status, RELEASE));
        assert_eq!(found, (installs_, completes), "{status:?}");
    }
    assert_eq!(brief(&well), "T T F");
    // The reported release is another one.
    assert!(!completes_update(&well, "4.12.1"));
}

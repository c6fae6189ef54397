//! After the installation of the cluster, alerts fire only if an admin must act.

use super::*;

pub(super) fn calm() -> ClusterOperatorStatus {
    written(None, &input(&[good("old")], 0))
}

// parity: platform-6, openshift-7
#[test]
fn single_failing_operator_keeps_the_cluster_available() {
    let before = calm();
    let pending = |since| operator("new", Some(("False", "Unpacking", since)));
    let failing = |since| operator("new", Some(("False", "SourceFailed", since)));
    let output = |new, minute| {
        let operators = [good("old"), new];
        cluster_operator(Some(&before), &input(&operators, minute), "", None)
    };
    let summary = |output: Output<ClusterOperatorStatus>| (brief(&output.status), output.recheck);
    assert_each!(|new, minute, letters, recheck| summary(output(new, minute)) => (letters.to_owned(), recheck.map(at));
        // An operator has ten minutes, in every state.
        pending(20), 21, "T T F" => Some(30);
        failing(20), 21, "T T F" => Some(30);
        operator("new", None), 9, "T T F" => Some(10);
        failing(20), 29, "T T F" => Some(30);
        failing(20), 30, "T F T" => None;
        pending(20), 500, "T F T" => None;
        operator("new", None), 10, "T F T" => None;
        // An operator that was installed before has a stricter limit.
        installed_operator("new", Some(("False", "InstallFailed", 20))), 29, "T T F" => Some(30);
        installed_operator("new", Some(("False", "InstallFailed", 20))), 30, "F F T" => None;
    );
    let status = output(failing(20), 40).status;
    let error = "encountered the failing new platform operator with reason \"SourceFailed\"\n- new: SourceFailed it is";
    let terminating = with!(failing(20) => metadata.deletion_timestamp: Some(Time(at(41))));
    assert_rows! {
        reported(&status, "Available") => ("True", "AsExpected", "1 of 2 platform operators are installed");
        reported(&status, "Degraded") => ("True", "PlatformOperatorError", error);
        reported(&status, "Progressing").1 => "PlatformOperatorError";
        // A terminating operator is ignored.
        brief(&written(Some(&status), &input(&[good("old"), terminating], 42))) => "T F F";
    }
}

#[test]
fn day_2_persists_after_an_outage() {
    let installed = Some(("False", "InstallFailed", 10));
    let lost = [installed_operator("old", installed)];
    let down = written(Some(&calm()), &input(&lost, 60));
    let new = operator("new", Some(("False", "Unpacking", 60)));
    let new = [good("old"), new];
    let after = |before| brief(&written(Some(before), &input(&new, 61)));
    assert_rows! {
        brief(&down) => "F F T";
        after(&down) => "T T F";
        // Also if another client removed the recorded state.
        after(&with!(calm() => extension: None)) => "T T F";
    }
}

#[test]
fn list_failure_keeps_the_reported_status() {
    let failed = |minute| with!(input(&[], minute) => operators: Err("connection refused"));
    // The operators were never listed.
    let first = written(None, &failed(0));
    assert_eq!(brief(&first), "F T F");
    for type_ in ["Available", "Progressing", "Degraded"] {
        let (_, reason, message) = reported(&first, type_);
        assert_eq!(reason, "PlatformOperatorsUnknown");
        assert_rows!(message => "Failed to list the platform operators: connection refused");
    }
    // The reported status is kept.
    let well = calm();
    let failing = operator("new", Some(("False", "SourceFailed", 0)));
    let degraded = written(Some(&well), &input(&[good("old"), failing], 30));
    assert_eq!(brief(&degraded), "T F T");
    assert_eq!(written(Some(&well), &failed(30)), well);
    assert_eq!(written(Some(&degraded), &failed(60)), degraded);
}

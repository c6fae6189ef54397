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
    for (new, minute, brief_, recheck) in ::tests::rows![
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
    ] {
        let operators = [good("old"), new];
        let now = input(&operators, minute);
        let output = cluster_operator(Some(&before), &now, "platform-system", Some("4.12.0"));
        assert_eq!(brief(&output.status), brief_, "{minute} {operators:?}");
        assert_eq!(output.recheck, recheck.map(at), "{minute}");
    }
    let operators = [good("old"), failing(20)];
    let status = written(Some(&before), &input(&operators, 40));
    for (type_, reason, message) in ::tests::rows![
        "Available", "AsExpected" => "1 of 2 platform operators are installed";
        "Degraded", "PlatformOperatorError"
            => "encountered the failing new platform operator with reason \"SourceFailed\"\n- new: SourceFailed it is";
    ] {
        assert_eq!(reported(&status, type_), ("True", reason, message));
    }
    assert_eq!(reported(&status, "Progressing").1, "PlatformOperatorError");
    // A terminating operator is ignored.
    let going = with!(failing(20) => metadata.deletion_timestamp: Some(Time(at(41))));
    assert_rows!(brief(&written(Some(&status), &input(&[good("old"), going], 42))) => "T F F");
}

#[test]
fn day_2_persists_after_an_outage() {
    let lost = [installed_operator(
        "old",
        Some(("False", "InstallFailed", 10)),
    )];
    let down = written(Some(&calm()), &input(&lost, 60));
    assert_eq!(brief(&down), "F F T");
    let new = operator("new", Some(("False", "Unpacking", 60)));
    let new = [good("old"), new];
    let after = |before| brief(&written(Some(before), &input(&new, 61)));
    assert_eq!(after(&down), "T T F");
    // Also if another client removed the recorded state.
    assert_rows!(after(&with!(calm() => extension: None)) => "T T F");
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
    let before = calm();
    assert_eq!(written(Some(&before), &failed(30)), before);
    let failing = operator("new", Some(("False", "SourceFailed", 0)));
    let broken = [good("old"), failing];
    let before = written(Some(&before), &input(&broken, 30));
    assert_eq!(brief(&before), "T F T");
    assert_eq!(written(Some(&before), &failed(60)), before);
}

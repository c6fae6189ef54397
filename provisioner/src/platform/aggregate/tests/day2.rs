//! After the cluster is installed, nobody is alarmed before there is something to do.

use super::*;

pub(super) fn calm() -> ClusterOperatorStatus {
    written(None, &input(&[good("old")], 0))
}

// parity: platform-6, openshift-7
#[test]
fn one_operator_does_not_take_the_cluster_down() {
    let before = calm();
    let pending = |since| operator("new", Some(("False", "Unpacking", since)));
    let failing = |since| operator("new", Some(("False", "SourceFailed", since)));
    for (new, minute, brief_, recheck) in ::tests::rows![
        // It has ten minutes, whatever its state is called.
        pending(20), 21, "T T F" => Some(30);
        failing(20), 21, "T T F" => Some(30);
        operator("new", None), 9, "T T F" => Some(10);
        failing(20), 29, "T T F" => Some(30);
        failing(20), 30, "T F T" => None;
        pending(20), 500, "T F T" => None;
        operator("new", None), 10, "T F T" => None;
        // Something that was installed is worth more.
        known("new", Some(("False", "InstallFailed", 20))), 29, "T T F" => Some(30);
        known("new", Some(("False", "InstallFailed", 20))), 30, "F F T" => None;
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
        assert_eq!(told(&status, type_), ("True", reason, message));
    }
    assert_eq!(told(&status, "Progressing").1, "PlatformOperatorError");
    // Who is about to go does no harm any more.
    let going = with!(failing(20) => metadata.deletion_timestamp: Some(Time(at(41))));
    assert_rows!(brief(&written(Some(&status), &input(&[good("old"), going], 42))) => "T F F");
}

#[test]
fn after_an_outage_it_is_still_day_2() {
    let lost = [known("old", Some(("False", "InstallFailed", 10)))];
    let down = written(Some(&calm()), &input(&lost, 60));
    assert_eq!(brief(&down), "F F T");
    let new = operator("new", Some(("False", "Unpacking", 60)));
    let new = [good("old"), new];
    let after = |before| brief(&written(Some(before), &input(&new, 61)));
    assert_eq!(after(&down), "T T F");
    // Also when somebody has removed what is remembered.
    assert_rows!(after(&with!(calm() => extension: None)) => "T T F");
}

#[test]
fn who_cannot_list_says_nothing_new() {
    let failed = |minute| with!(input(&[], minute) => operators: Err("connection refused"));
    // Nothing was ever known.
    let first = written(None, &failed(0));
    assert_eq!(brief(&first), "F T F");
    for type_ in ["Available", "Progressing", "Degraded"] {
        let (_, reason, message) = told(&first, type_);
        assert_eq!(reason, "PlatformOperatorsUnknown");
        assert_rows!(message => "Failed to list the platform operators: connection refused");
    }
    // What is known stays.
    let before = calm();
    assert_eq!(written(Some(&before), &failed(30)), before);
    let failing = operator("new", Some(("False", "SourceFailed", 0)));
    let broken = [good("old"), failing];
    let before = written(Some(&before), &input(&broken, 30));
    assert_eq!(brief(&before), "T F T");
    assert_eq!(written(Some(&before), &failed(60)), before);
}

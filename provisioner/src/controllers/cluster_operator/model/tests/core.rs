//! The manager's own ClusterOperator.

use super::*;

fn core_at(
    before: Option<&ClusterOperatorStatus>,
    listed: Result<(), &str>,
    minute: i64,
) -> Output<ClusterOperatorStatus> {
    let system = "platform-system";
    super::core(before, listed, system, Some("4.12.0"), at(minute))
}

#[test]
fn core_is_available_while_operators_can_be_listed() {
    let output = core_at(None, Ok(()), 0);
    for type_ in ["Available", "Progressing", "Degraded"] {
        let message = "The platform operator manager is available at 4.12.0";
        assert_rows!((reported(&output.status, type_).1, reported(&output.status, type_).2) => ("AsExpected", message));
    }
    assert_rows! {
        brief(&output.status) => "T F F";
        reported(&output.status, "Upgradeable").0 => "True";
        output.status.versions[0].version => "4.12.0";
        output.recheck => None;
        core_at(Some(&output.status), Ok(()), 60) => output;
    }
}

// parity: openshift-20
#[test]
fn list_failure_degrades_and_is_unavailable_after_five_minutes() {
    let well = core_at(None, Ok(()), 0).status;
    let error = Err("connection refused");
    let first = core_at(Some(&well), error, 10);
    assert_eq!(brief(&first.status), "T F T");
    assert_rows!(first.recheck => Some(at(15).checked_add(Duration::from_secs(1)).unwrap()));
    let still = core_at(Some(&first.status), error, 15);
    assert_eq!(still.status, first.status);
    let away = core_at(Some(&still.status), error, 16);
    assert_eq!(brief(&away.status), "F F T");
    for type_ in ["Available", "Progressing"] {
        let reason = "ExceededUnavailabilityThreshold";
        assert_rows!(reported(&away.status, type_) => ("False", reason, "Exceeded platform operator availability timeout"));
    }
    assert_eq!(since(&away.status, "Degraded"), at(10));
    assert_eq!(core_at(Some(&away.status), error, 60).status, away.status);
    assert_rows!(brief(&core_at(Some(&away.status), Ok(()), 61).status) => "T F F");
}

// parity: openshift-20
#[test]
fn first_list_failure_ignores_the_former_status() {
    let error = Err("connection refused");
    // No status was written before.
    assert_eq!(brief(&core_at(None, error, 0).status), "F F T");
    // Degraded is missing, or was False for a long time.
    let bare = with!(core_at(None, Ok(()), 0).status => |bare| bare.conditions.retain(|one| one.type_ != "Degraded"));
    let first = core_at(Some(&bare), error, 500).status;
    assert_eq!(brief(&first), "T F T");
    assert_eq!(since(&first, "Degraded"), at(500));
    // A reason is never empty.
    let edited =
        with!(core_at(None, Ok(()), 0).status => |edited| edited.conditions[0].reason = None);
    let status = core_at(Some(&edited), error, 1).status;
    let message = "The platform operator manager is available at 4.12.0";
    assert_rows!(reported(&status, "Available") => ("True", "PlatformOperatorsUnknown", message));
}

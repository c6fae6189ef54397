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
    let message = "The platform operator manager is available at 4.12.0";
    assert_rows! {
        reported(&output.status, "Available") => ("True", "AsExpected", message);
        reported(&output.status, "Progressing") => ("False", "AsExpected", message);
        reported(&output.status, "Degraded") => ("False", "AsExpected", message);
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
    let Output { status, recheck } = core_at(Some(&well), error, 10);
    let away = core_at(Some(&status), error, 16).status;
    let reason = "ExceededUnavailabilityThreshold";
    let message = "Exceeded platform operator availability timeout";
    let exceeded = ("False", reason, message);
    assert_rows! {
        brief(&status) => "T F T";
        recheck => Some(at(15).checked_add(Duration::from_secs(1)).unwrap());
        core_at(Some(&status), error, 15).status => status;
        brief(&away) => "F F T";
        reported(&away, "Available") => exceeded;
        reported(&away, "Progressing") => exceeded;
        reported(&away, "Upgradeable").0 => "True";
        since(&away, "Degraded") => at(10);
        core_at(Some(&away), error, 60).status => away;
        brief(&core_at(Some(&away), Ok(()), 61).status) => "T F F";
    }
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
    let edited =
        with!(core_at(None, Ok(()), 0).status => |status| status.conditions[0].reason = None);
    let status = core_at(Some(&edited), error, 1).status;
    let message = "The platform operator manager is available at 4.12.0";
    assert_rows! {
        brief(&first) => "T F T";
        since(&first, "Degraded") => at(500);
        // A reason is never empty.
        reported(&status, "Available") => ("True", "PlatformOperatorsUnknown", message);
    }
}

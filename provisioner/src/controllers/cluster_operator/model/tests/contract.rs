//! The rules by which the cluster-version operator evaluates the written statuses.
//!
//! It waits for the ClusterOperators of its release payload, and reads only the fields used below.

use super::*;

const RELEASE: &str = "4.12.0";

/// Reports whether the installation of the cluster continues, whether an update to this version is complete, and whether
/// an update to the next minor version begins. `Upgradeable` blocks neither patches nor updates that an admin forces.
fn evaluate(status: &ClusterOperatorStatus, version: &str) -> [bool; 3] {
    let has_status = |type_: &str, expected: &str| {
        let mut conditions = status.conditions.iter();
        conditions.any(|condition| condition.type_ == type_ && condition.status == expected)
    };
    let mut versions = status.versions.iter();
    let runs = versions.any(|operand| operand.name == "operator" && operand.version == version);
    let installs = !status.versions.is_empty() && has_status("Available", "True");
    let completes = installs && runs && has_status("Degraded", "False");
    [installs, completes, !has_status("Upgradeable", "False")]
}

// parity: max-10, openshift-23
#[test]
fn cluster_version_operator_waits_for_failing_operators() {
    let failing = || operator("b", Some(("False", "SourceFailed", 0)));
    let pending = || operator("new", Some(("False", "Unpacking", 59)));
    let lost = installed_operator("a", Some(("False", "InstallFailed", 0)));
    let calm = written(None, &input(&[], 0));
    let day_0 = |operators: &[PlatformOperator]| written(None, &input(operators, 60));
    let day_2 = |operators: &[PlatformOperator]| written(Some(&calm), &input(operators, 60));
    let core =
        |listed: Result<(), &str>| super::core(None, listed, "system", Some(RELEASE), at(0)).status;
    let well = day_2(&[good("a"), pending()]);
    let without = |type_: &str| with!(well.clone() => |status| status.conditions.retain(|condition| condition.type_ != type_));
    let closed = closed();
    assert_each!(|status, expected| evaluate(&status, RELEASE) => expected;
        day_0(&[]) => [true, true, true];
        day_0(&[good("a")]) => [true, true, true];
        day_0(&[good("a"), failing()]) => [false, false, true];
        day_0(&[operator("a", None)]) => [false, false, true];
        // Progressing does not block.
        well.clone() => [true, true, true];
        day_2(&[good("a"), failing()]) => [true, false, true];
        day_2(&[lost]) => [false, false, true];
        // The gate affects the next version; an update that has begun continues.
        written(None, &Input { gate: &closed, ..input(&[], 0) }) => [true, true, false];
        // The manager's own ClusterOperator blocks no upgrade.
        core(Ok(())) => [true, true, true];
        core(Err("connection refused")) => [false, false, true];
        // The status that the cluster-version operator creates, and fields that other clients may remove.
        ClusterOperatorStatus::default() => [false, false, true];
        without("Degraded") => [true, false, true];
        without("Available") => [false, false, true];
        with!(well.clone() => |status| status.versions.clear()) => [false, false, true];
    );
    assert_eq!(brief(&well), "T T F");
    // The reported release is another one.
    assert_eq!(evaluate(&well, "4.12.1"), [true, false, true]);
}

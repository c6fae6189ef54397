//! Recorded choices that are not known to be installed.

use super::*;
use crate::controllers::platform_operator::fixtures::condition;

const LINE: [&str; 3] = ["1.0.0", "1.0.1", "1.1.0"];

fn is_not(type_: &str, reason: &str) -> Value {
    json!({"conditions": [condition(type_, "False", reason)]})
}

#[test]
fn a_first_installation_is_no_newer_than_what_is_approved() {
    let manual = |approved: Option<&str>| {
        let spec = json!({"upgradeApproval": "Manual", "approvedVersion": approved});
        Case::new(package(&LINE)).spec(&spec).plan()
    };
    // A new PlatformOperator implies the approval of an installation.
    assert_eq!(brief(&manual(None)), "have 1.1.0");
    for (approved, expected) in [
        ("1.0.0", "have 1.0.0"),
        ("1.0.5", "have 1.0.1"),
        ("2.0.0", "have 1.1.0"),
    ] {
        assert_eq!(brief(&manual(Some(approved))), expected, "{approved}");
    }
    let pattern = "*is newer than the approved version 0.9.0*";
    assert_plan(&manual(Some("0.9.0")), "refuse SourceFailed", pattern);
    let pattern = "invalid spec.approvedVersion*";
    assert_plan(&manual(Some("latest")), "refuse InstallPending", pattern);
    // Other policies ignore the field.
    for approval in ["WithCluster", "Automatic"] {
        let spec = json!({"upgradeApproval": approval, "approvedVersion": "1.0.0"});
        assert_rows!(brief(&Case::new(package(&LINE)).spec(&spec).plan()) => "have 1.1.0", "{approval}");
    }
}

/// After a restore without statuses, or an edit of the status, the bundle may be installed.
#[test]
fn instance_without_status_keeps_its_bundle() {
    for (status, expected) in ::tests::rows![
        json!({}) => "have 1.0.0";
        json!({"conditions": []}) => "have 1.0.0";
        is_not("HasValidBundle", "Unpacking") => "have 1.0.0";
        is_not("Installed", "NotInstalled") => "have 1.0.0";
        json!({"installedBundleName": "tide-1", "conditions": [condition("Installed", "False", "InstallFailed")]}) => "have 1.0.0";
        // The installation failed.
        is_not("HasValidBundle", "UnpackFailed") => "have 1.1.0";
        is_not("Installed", "InstallFailed") => "have 1.1.0";
    ] {
        let live = instance(&chosen("1.0.0", None), &status);
        let case = || Case::new(package(&LINE)).with(live.clone());
        assert_rows! {
            brief(&case().plan()) => expected, "{status}";
            brief(&case().spec(&json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.0"})).plan())
                => "have 1.0.0", "{status}";
        }
    }
    // A bundle outside of the requested range is replaced, unless its progress is unknown.
    let spec = json!({"version": "<1.1.0"});
    let plan_of_status = |status: &Value| {
        let live = instance(&chosen("1.1.0", None), status);
        Case::new(package(&LINE)).with(live).spec(&spec).plan()
    };
    assert_eq!(brief(&plan_of_status(&json!({}))), "have 1.1.0");
    assert_rows!(brief(&plan_of_status(&is_not("HasValidBundle", "Unpacking"))) => "have 1.0.1");
}

#[test]
fn cluster_upgrade_between_choice_and_installation_counts() {
    let new = Case::new(package(&LINE)).on("4.12").plan();
    assert_eq!(minors_to_record(&new), "4.12 1.1");
    // During the installation the record is kept, and written again if it was lost.
    let unpacking = is_not("HasValidBundle", "Unpacking");
    let live = || instance(&chosen("1.1.0", None), &unpacking);
    let case = || Case::new(package(&LINE)).with(live()).on("4.13");
    assert_eq!(
        minors_to_record(&case().recorded_minors("4.12 1.1").plan()),
        "4.12 1.1"
    );
    assert_eq!(minors_to_record(&case().plan()), "4.13 1.1");
    // After that, the next minor version may follow the cluster.
    assert_rows!(brief(&Case::at("1.0.1", &LINE).on("4.13").recorded_minors("4.12 1.0").plan()) => "have 1.1.0");
}

#[test]
fn unfinished_upgrade_can_be_cancelled() {
    let live = || instance(&chosen("1.0.1", Some("1.0.0")), &status("1.0.0", true));
    let case = |package: Package| Case::new(package).with(live());
    let with_spec = |spec: Value| case(package(&["1.0.0", "1.0.1"])).spec(&spec);
    for (spec, expected) in ::tests::rows![
        json!({}) => "have 1.0.1";
        json!({"version": "<1.0.1"}) => "have 1.0.0, next 1.0.1";
        json!({"upgradeApproval": "Manual"}) => "have 1.0.0, next 1.0.1";
        json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.0"}) => "have 1.0.0, next 1.0.1";
        json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.1"}) => "have 1.0.1";
    ] {
        assert_eq!(brief(&with_spec(spec.clone()).plan()), expected, "{spec}");
    }
    // The result is the installed bundle.
    assert_rows! {
        with_spec(json!({"version": "<1.0.1"})).plan().act => InstanceAction::Apply(Box::new(chosen("1.0.0", None)));
        // The catalog has withdrawn this bundle, or the installed one as well.
        brief(&case(package(&["1.0.0"])).plan()) => "have 1.0.0";
        case(package(&["2.0.0"])).plan().act => InstanceAction::Apply(Box::new(chosen("1.0.0", None)));
        // The bundle is withdrawn, and its replacement waits.
        brief(&case(package(&["1.0.0", "1.1.0"])).on("4.12").recorded_minors("4.12 1.0").plan()) => "have 1.0.0, next 1.1.0";
    }
    // An unavailable catalog does not cancel the upgrade.
    for offer in [Err("away"), Err(PENDING), Ok(without(&package(&[])))] {
        let away =
            with!(with_spec(json!({"version": "<1.0.1"})) => offers: vec![("c/mine", 0, offer)]);
        assert_eq!(brief(&away.plan()), "have 1.0.1", "{:?}", away.offers);
    }
    let mut broken = package(&["1.0.0", "1.0.1"]);
    let bundle = broken.bundles.get_mut("tide.v1.0.1").unwrap();
    bundle.invalid_properties = Some("broken off".into());
    assert_eq!(brief(&case(broken).plan()), "have 1.0.1, next 1.0.1");
}

#[test]
fn unfinished_minor_upgrade_stays_approved() {
    let live = instance(&chosen("1.1.0", Some("1.0.1")), &status("1.0.1", true));
    let case = |cluster: &str| {
        let case = Case::new(package(&LINE)).with(live.clone());
        case.on(cluster).recorded_minors("4.12 1.0")
    };
    assert_eq!(brief(&case("4.13").plan()), "have 1.1.0");
    let automatic = json!({"upgradeApproval": "Automatic"});
    assert_eq!(brief(&case("4.12").spec(&automatic).plan()), "have 1.1.0");
    // The policy changes back to WithCluster.
    assert_eq!(brief(&case("4.12").plan()), "have 1.0.1, next 1.1.0");
}

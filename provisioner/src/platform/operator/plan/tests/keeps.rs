//! What was chosen before, while it is not known to be installed.

use super::{super::super::fixtures::condition, *};

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
    // Whoever makes a PlatformOperator wants it installed.
    assert_eq!(brief(&manual(None)), "have 1.1.0");
    for (approved, expected) in [
        ("1.0.0", "have 1.0.0"),
        ("1.0.5", "have 1.0.1"),
        ("2.0.0", "have 1.1.0"),
    ] {
        assert_eq!(brief(&manual(Some(approved))), expected, "{approved}");
    }
    let words = "*is newer than the approved version 0.9.0*";
    assert_plan(&manual(Some("0.9.0")), "refuse SourceFailed", words);
    let words = "invalid spec.approvedVersion*";
    assert_plan(&manual(Some("latest")), "refuse InstallPending", words);
    // It says nothing to anybody else.
    for approval in ["WithCluster", "Automatic"] {
        let spec = json!({"upgradeApproval": approval, "approvedVersion": "1.0.0"});
        assert_rows!(brief(&Case::new(package(&LINE)).spec(&spec).plan()) => "have 1.1.0", "{approval}");
    }
}

/// After a restore without statuses, or when somebody has edited one, it may be in the cluster.
#[test]
fn who_has_no_status_is_not_installed_anew() {
    for (status, expected) in ::tests::rows![
        json!({}) => "have 1.0.0";
        json!({"conditions": []}) => "have 1.0.0";
        is_not("HasValidBundle", "Unpacking") => "have 1.0.0";
        is_not("Installed", "NotInstalled") => "have 1.0.0";
        json!({"installedBundleName": "tide-1", "conditions": [condition("Installed", "False", "InstallFailed")]}) => "have 1.0.0";
        // It is known to have failed.
        is_not("HasValidBundle", "UnpackFailed") => "have 1.1.0";
        is_not("Installed", "InstallFailed") => "have 1.1.0";
    ] {
        let there = instance(&chosen("1.0.0", None), &status);
        let case = || Case::new(package(&LINE)).with(there.clone());
        assert_rows! {
            brief(&case().plan()) => expected, "{status}";
            brief(&case().spec(&json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.0"})).plan())
                => "have 1.0.0", "{status}";
        }
    }
    // What is wanted no more is not waited for, unless nobody knows how far it is.
    let spec = json!({"version": "<1.1.0"});
    let there = |status: &Value| {
        let there = instance(&chosen("1.1.0", None), status);
        Case::new(package(&LINE)).with(there).spec(&spec).plan()
    };
    assert_eq!(brief(&there(&json!({}))), "have 1.1.0");
    assert_rows!(brief(&there(&is_not("HasValidBundle", "Unpacking"))) => "have 1.0.1");
}

#[test]
fn a_move_between_choosing_and_installing_counts() {
    let new = Case::new(package(&LINE)).on("4.12").plan();
    assert_eq!(kept(&new), "4.12 1.1");
    // On its way, it is kept; and written once more if that was lost.
    let unpacking = is_not("HasValidBundle", "Unpacking");
    let there = || instance(&chosen("1.1.0", None), &unpacking);
    let case = || Case::new(package(&LINE)).with(there()).on("4.13");
    assert_eq!(kept(&case().kept("4.12 1.1").plan()), "4.12 1.1");
    assert_eq!(kept(&case().plan()), "4.13 1.1");
    // Then the next minor version may follow the cluster at once.
    assert_rows!(brief(&Case::at("1.0.1", &LINE).on("4.13").kept("4.12 1.0").plan()) => "have 1.1.0");
}

#[test]
fn an_upgrade_on_its_way_can_be_called_off() {
    let there = || instance(&chosen("1.0.1", Some("1.0.0")), &status("1.0.0", true));
    let case = |package: Package| Case::new(package).with(there());
    let wanted = |spec: Value| case(package(&["1.0.0", "1.0.1"])).spec(&spec);
    for (spec, expected) in ::tests::rows![
        json!({}) => "have 1.0.1";
        json!({"version": "<1.0.1"}) => "have 1.0.0, next 1.0.1";
        json!({"upgradeApproval": "Manual"}) => "have 1.0.0, next 1.0.1";
        json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.0"}) => "have 1.0.0, next 1.0.1";
        json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.1"}) => "have 1.0.1";
    ] {
        assert_eq!(brief(&wanted(spec.clone()).plan()), expected, "{spec}");
    }
    // It is the very thing that is installed.
    assert_rows! {
        wanted(json!({"version": "<1.0.1"})).plan().act => InstanceAction::Apply(Box::new(chosen("1.0.0", None)));
        // The catalog has withdrawn it, or the installed one as well.
        brief(&case(package(&["1.0.0"])).plan()) => "have 1.0.0";
        case(package(&["2.0.0"])).plan().act => InstanceAction::Apply(Box::new(chosen("1.0.0", None)));
        // It is withdrawn, and what comes instead waits.
        brief(&case(package(&["1.0.0", "1.1.0"])).on("4.12").kept("4.12 1.0").plan()) => "have 1.0.0, next 1.1.0";
    }
    // What cannot be asked calls nothing off.
    for offer in [Err("away"), Err(PENDING), Ok(without(&package(&[])))] {
        let away =
            with!(wanted(json!({"version": "<1.0.1"})) => offers: vec![("c/mine", 0, offer)]);
        assert_eq!(brief(&away.plan()), "have 1.0.1", "{:?}", away.offers);
    }
    let mut broken = package(&["1.0.0", "1.0.1"]);
    let bundle = broken.bundles.get_mut("tide.v1.0.1").unwrap();
    bundle.unreadable = Some("broken off".into());
    assert_eq!(brief(&case(broken).plan()), "have 1.0.1, next 1.0.1");
}

#[test]
fn a_minor_version_on_its_way_stays_approved() {
    let there = instance(&chosen("1.1.0", Some("1.0.1")), &status("1.0.1", true));
    let case = |cluster: &str| {
        let case = Case::new(package(&LINE)).with(there.clone());
        case.on(cluster).kept("4.12 1.0")
    };
    assert_eq!(brief(&case("4.13").plan()), "have 1.1.0");
    let automatic = json!({"upgradeApproval": "Automatic"});
    assert_eq!(brief(&case("4.12").spec(&automatic).plan()), "have 1.1.0");
    // Somebody wants it with the cluster after all.
    assert_eq!(brief(&case("4.12").plan()), "have 1.0.1, next 1.1.0");
}

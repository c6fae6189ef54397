//! Recorded choices that are not known to be installed.

use super::*;

#[test]
fn a_first_installation_is_no_newer_than_what_is_approved() {
    for (approval, approved, short, pattern) in ::tests::rows![
        // A new PlatformOperator implies the approval of an installation.
        "Manual", None, "have 1.1.0" => "*";
        "Manual", Some("1.0.0"), "have 1.0.0" => "*";
        "Manual", Some("1.0.5"), "have 1.0.1" => "*";
        "Manual", Some("2.0.0"), "have 1.1.0" => "*";
        "Manual", Some("0.9.0"), "refuse SourceFailed" => "*is newer than the approved version 0.9.0*";
        "Manual", Some("latest"), "refuse InstallPending" => "invalid spec.approvedVersion*";
        // Other policies ignore the field.
        "WithCluster", Some("1.0.0"), "have 1.1.0" => "*";
        "Automatic", Some("1.0.0"), "have 1.1.0" => "*";
    ] {
        let spec = json!({"upgradeApproval": approval, "approvedVersion": approved});
        let plan = Case::new(package(&LINE)).spec(&spec).plan();
        assert_plan(&plan, short, pattern);
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
            case().brief() => expected, "{status}";
            case().spec(&json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.0"})).brief()
                => "have 1.0.0", "{status}";
        }
    }
    // A bundle outside of the requested range is replaced, unless its progress is unknown.
    let ranged = |status: Value| {
        let case = Case::new(package(&LINE)).with(instance(&chosen("1.1.0", None), &status));
        case.spec(&json!({"version": "<1.1.0"})).brief()
    };
    assert_eq!(ranged(json!({})), "have 1.1.0");
    assert_rows!(ranged(is_not("HasValidBundle", "Unpacking")) => "have 1.0.1");
}

#[test]
fn cluster_upgrade_between_choice_and_installation_counts() {
    let new = Case::new(package(&LINE));
    let unpacking = is_not("HasValidBundle", "Unpacking");
    let live = instance(&chosen("1.1.0", None), &unpacking);
    let unpacking = new.clone().with(live).on("4.13");
    assert_rows! {
        new.on("4.12").minors() => "4.12 1.1";
        // During the installation the record is kept, and written again if it was lost.
        unpacking.minors() => "4.13 1.1";
        unpacking.recorded_minors("4.12 1.1").minors() => "4.12 1.1";
    }
}

#[test]
fn unfinished_upgrade_can_be_cancelled() {
    let live = || instance(&chosen("1.0.1", Some("1.0.0")), &status("1.0.0", true));
    let case = |package: Package| Case::new(package).with(live());
    let with_spec = |spec: Value| case(package(&["1.0.0", "1.0.1"])).spec(&spec);
    assert_each!(|spec, expected| with_spec(spec).brief() => expected;
        json!({"version": "<1.0.1"}) => "have 1.0.0, next 1.0.1";
        json!({"upgradeApproval": "Manual"}) => "have 1.0.0, next 1.0.1";
        json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.0"}) => "have 1.0.0, next 1.0.1";
        json!({"upgradeApproval": "Manual", "approvedVersion": "1.0.1"}) => "have 1.0.1";
    );
    assert_rows! {
        // The declaration is unchanged; the status contains the reasons.
        with_spec(json!({})).plan().act => InstanceAction::Apply(Box::new(chosen("1.0.1", Some("1.0.0"))));
        // The result is the installed bundle.
        with_spec(json!({"version": "<1.0.1"})).plan().act => InstanceAction::Apply(Box::new(chosen("1.0.0", None)));
        // The catalog has withdrawn this bundle, or the installed one as well.
        case(package(&["1.0.0"])).brief() => "have 1.0.0";
        case(package(&["2.0.0"])).plan().act => InstanceAction::Apply(Box::new(chosen("1.0.0", None)));
        // The bundle is withdrawn, and its replacement waits.
        case(package(&["1.0.0", "1.1.0"])).on("4.12").recorded_minors("4.12 1.0").brief() => "have 1.0.0, next 1.1.0";
    }
    // An unavailable catalog does not cancel the upgrade.
    for offer in [Err("away"), Err(PENDING), Ok(without(&package(&[])))] {
        let away = with_spec(json!({"version": "<1.0.1"})).offered(vec![("c/mine", 0, offer)]);
        assert_eq!(away.brief(), "have 1.0.1", "{:?}", away.offers);
    }
    let mut broken = package(&["1.0.0", "1.0.1"]);
    let bundle = broken.bundles.get_mut("tide.v1.0.1").unwrap();
    bundle.invalid_properties = Some("broken off".into());
    assert_eq!(case(broken).brief(), "have 1.0.1, next 1.0.1");
}

#[test]
fn unfinished_minor_upgrade_stays_approved() {
    let live = instance(&chosen("1.1.0", Some("1.0.1")), &status("1.0.1", true));
    let case = Case::new(package(&LINE)).with(live);
    let case = |cluster| case.clone().on(cluster).recorded_minors("4.12 1.0");
    let automatic = json!({"upgradeApproval": "Automatic"});
    assert_rows! {
        case("4.13").brief() => "have 1.1.0";
        case("4.12").spec(&automatic).brief() => "have 1.1.0";
        // The policy changes back to WithCluster.
        case("4.12").brief() => "have 1.0.1, next 1.1.0";
    }
}

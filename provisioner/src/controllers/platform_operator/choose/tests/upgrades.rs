//! Upgrades follow one edge at a time, and wait for the cluster or for approvals.

use super::*;

const LINE: [&str; 4] = ["1.0.0", "1.0.1", "1.1.0", "1.2.0"];

/// Returns the checked new permissions of a version with a pinned image.
fn gains(version: &str, permissions: Option<NewRights>) -> CheckedPermissions {
    CheckedPermissions {
        image: image(version),
        checked_at: image(version),
        permissions: Ok(permissions),
    }
}

#[test]
fn patches_do_not_wait_and_minor_versions_follow_the_cluster() {
    for (installed, kept_, cluster, expected, keep) in ::tests::rows![
        // The first reconcile records the installed version and the cluster version.
        "1.0.0", "", "4.12", "have 1.0.1" => "4.12 1.0";
        "1.0.1", "", "4.12", "have 1.0.1, next 1.1.0" => "4.12 1.0";
        "1.0.1", "4.12 1.0", "4.13", "have 1.1.0" => "4.12 1.0";
        // During a cluster update, the completed version counts.
        "1.0.1", "4.12 1.0", "4.12->4.13", "have 1.0.1, next 1.1.0" => "4.12 1.0";
        "1.2.0", "4.12 1.0", "4.13", "have 1.2.0" => "4.13 1.2";
    ] {
        let mut case = Case::at(installed, &LINE).on(cluster);
        if !kept_.is_empty() {
            case = case.recorded_minors(kept_);
        }
        let plan = case.plan();
        assert_rows!((&*brief(&plan), &*minors_to_record(&plan)) => (expected, keep), "{installed} {kept_} {cluster}");
    }
    let plan = Case::at("1.0.1", &LINE).on("4.12").plan();
    assert_has(waits_for(&plan), "1.1.0 is a new minor version");
    // Without OpenShift, the minor version of Kubernetes counts.
    let brief_with_minors =
        |minors: &str| brief(&Case::at("1.0.1", &LINE).recorded_minors(minors).plan());
    assert_eq!(brief_with_minors("1.35 1.0"), "have 1.1.0");
    assert_eq!(brief_with_minors("1.36 1.0"), "have 1.0.1, next 1.1.0");
}

#[test]
fn unavailable_catalog_keeps_a_cluster_upgrade_pending() {
    // Another version may be available, but the catalog is unavailable now.
    let new = |offer| {
        let case = Case::at("1.1.0", &[]).on("4.13");
        case.offered(vec![("c/mine", 0, offer)])
    };
    let at = |offer| new(offer).recorded_minors("4.12 1.0");
    assert_eq!(minors_to_record(&at(Err("away")).plan()), "");
    assert_eq!(minors_to_record(&at(Ok(without(&package(&[])))).plan()), "");
    assert_eq!(
        minors_to_record(&at(Ok(package(&["1.1.0"]))).plan()),
        "4.13 1.1"
    );
    // The first record is that of the current versions.
    assert_eq!(minors_to_record(&new(Err("away")).plan()), "4.13 1.1");
}

#[test]
fn patches_continue_while_a_minor_version_waits() {
    // 1.1.0 comes first, and replaces both 1.0.0 and 1.0.1.
    let mut forked = package(&["1.0.0", "1.0.1", "1.1.0"]);
    let channel = forked.channels.get_mut("stable").unwrap();
    channel.entries[2].skips = vec!["tide.v1.0.0".into()];
    let case = || Case::installed(forked.clone(), "1.0.0").on("4.12");
    let plan = case().plan();
    assert_eq!(brief(&plan), "have 1.0.1, next 1.1.0");
    assert_rows!(why(&plan).last().unwrap() => "1.0.1 belongs to the installed minor version 1.0");
    // The same with permissions that must be checked, one bundle after the other.
    let mut case = case()
        .spec(&json!({"approveNewRights": "Manual"}))
        .recorded_minors("4.11 1.0");
    assert_eq!(brief(&case.plan()), "look 110");
    let gained = |digest: &str| NewRights {
        digest: digest.into(),
        rules: vec!["everything".into()],
    };
    case.gains.push(gains("1.1.0", Some(gained("sha256:a"))));
    assert_eq!(brief(&case.plan()), "look 101, next 1.1.0");
    case.gains.push(gains("1.0.1", None));
    let plan = case.plan();
    assert_eq!(brief(&plan), "have 1.0.1, next 1.1.0");
    assert_eq!(plan.new_rights, Some(gained("sha256:a")));
    assert_has(waits_for(&plan), "set spec.approvedRights: sha256:a");
    let mut case = case.spec(&json!({"approveNewRights": "Manual", "approvedRights": "sha256:a"}));
    assert_eq!(brief(&case.plan()), "have 1.1.0");
    // An uncheckable bundle does not block a patch.
    case.gains[0].permissions = Err("the registry is away".into());
    let plan = case.plan();
    assert_rows! {
        brief(&plan) => "have 1.0.1, next 1.1.0";
        waits_for(&plan) => "cannot determine the permissions of 1.1.0: the registry is away";
        { case.gains[1].permissions = Err("the registry is away".into()); brief(&case.plan()) } => "have 1.0.0, next 1.1.0";
    }
}

#[test]
fn permissions_are_checked_only_for_manual_approval() {
    let manual = json!({"approveNewRights": "Manual"});
    let case = || Case::at("1.0.0", &["1.0.0", "1.0.1"]);
    assert_rows! {
        brief(&case().plan()) => "have 1.0.1";
        brief(&case().spec(&manual).plan()) => "look 101";
        // The permissions of a first installation, or of an unapproved version, are not checked.
        brief(&Case::new(package(&["1.0.0"])).spec(&manual).plan()) => "have 1.0.0";
        brief(&Case::at("1.0.0", &["1.0.0", "1.1.0"]).spec(&manual).on("4.12").plan()) => "have 1.0.0, next 1.1.0";
    }
    let checked_case = with!(case().spec(&manual) => |checked_case| checked_case.gains.push(gains("1.0.1", Some(NewRights::default()))));
    let plan = checked_case.plan();
    assert_eq!(brief(&plan), "have 1.0.0, next 1.0.1");
    assert_eq!(plan.new_rights, Some(NewRights::default()));
}

#[test]
fn checked_digest_is_installed() {
    let mut tagged = package(&["1.0.0", "1.0.1"]);
    let bundle = tagged.bundles.get_mut("tide.v1.0.1").unwrap();
    bundle.image = "r.example/tide:v1".into();
    let case = |live| {
        let mut case = Case::new(tagged.clone()).with(live);
        let gains = gains("1.0.1", None);
        case.gains
            .push(with!(gains => image: "r.example/tide:v1".into()));
        case
    };
    let live = || instance(&chosen("1.0.0", None), &status("1.0.0", true));
    let manual = json!({"approveNewRights": "Manual"});
    let pinned = have(&case(live()).spec(&manual).plan()).clone();
    assert_eq!(pinned.bundle.image, image("1.0.1"));
    assert_eq!(pinned.named(), "r.example/tide:v1");
    let as_named = case(live()).plan();
    assert_eq!(have(&as_named).bundle.image, "r.example/tide:v1");
    // An unfinished upgrade needs no other check.
    let case = with!(case(instance(&pinned, &status("1.0.0", true))).spec(&manual) => |case| case.gains.clear());
    assert_eq!(brief(&case.plan()), "have 1.0.1");
}

// parity: openshift-19
#[test]
fn next_bundle_waits_until_the_installed_one_is_healthy() {
    let sick = |chosen_: BundleChoice| instance(&chosen_, &status("1.0.0", false));
    let offered = || package(&["1.0.0", "1.0.1", "1.0.2"]);
    let case = Case::new(offered()).with(sick(chosen("1.0.0", None)));
    let expected = "have 1.0.0, next 1.0.1";
    assert_plan(&case.plan(), expected, "*is not healthy yet*\n*");
    // Without a recorded choice, the installed bundle waits as well.
    let case = Case::new(offered()).with(forget(sick(chosen("1.0.0", None))));
    assert_eq!(brief(&case.plan()), "have 1.0.0, next 1.0.1");
    // An unfinished upgrade continues, and yields to a better bundle.
    assert_rows!(brief(&Case::new(offered()).with(sick(chosen("1.0.1", Some("1.0.0")))).plan()) => "have 1.0.1");
    let mut mended = offered();
    let entries = &mut mended.channels.get_mut("stable").unwrap().entries;
    entries[2].replaces = Some("tide.v1.0.0".into());
    entries[2].skips = vec!["tide.v1.0.1".into()];
    assert_rows!(brief(&Case::new(mended).with(sick(chosen("1.0.1", Some("1.0.0")))).plan()) => "have 1.0.2");
}

#[test]
fn unfinished_upgrade_keeps_its_declared_choice() {
    let live = instance(&chosen("1.0.1", Some("1.0.0")), &status("1.0.0", true));
    let plan = Case::new(package(&LINE)).with(live).plan();
    // The declaration is unchanged; the status contains the reasons.
    assert_rows!(plan.act => InstanceAction::Apply(Box::new(chosen("1.0.1", Some("1.0.0")))));
}

#[test]
fn blocking_maximum_allows_an_upgrade_that_unblocks() {
    let at = |package| {
        Case::installed(package, "1.0.0")
            .on("4.12")
            .recorded_minors("4.12 1.0")
    };
    let with = |maxima: &[(&str, &str)]| at(limited(&["1.0.0", "1.1.0"], maxima));
    let waits = "have 1.0.0, next 1.1.0";
    for (maxima, expected) in ::tests::rows![
        &[][..] => waits;
        &[("1.0.0", "\"4.12\"")][..] => "have 1.1.0";
        &[("1.0.0", "\"4.12\""), ("1.1.0", "\"4.13\"")][..] => "have 1.1.0";
        // The upgrade would block the cluster as well.
        &[("1.0.0", "\"4.12\""), ("1.1.0", "\"4.12\"")][..] => waits;
        &[("1.0.0", "\"4.13\"")][..] => waits;
        &[("1.0.0", "garbage")][..] => waits;
    ] {
        assert_eq!(brief(&with(maxima).plan()), expected, "{maxima:?}");
    }
    // The path to an unblocking version may have several edges, as long as this cluster supports them.
    for (maxima, expected) in [
        (["4.12", "4.12", "4.12", "4.13"], "have 1.1.0"),
        (["4.12", "4.12", "4.12", "4.12"], waits),
        (["4.12", "4.12", "4.11", "4.13"], waits),
        (["4.13", "4.12", "4.12", "4.13"], waits),
    ] {
        let versions = ["1.0.0", "1.1.0", "1.2.0", "1.3.0"];
        let each: Vec<_> = versions.into_iter().zip(maxima).collect();
        let package = limited(&versions, &each);
        let case = || at(package.clone());
        assert_eq!(brief(&case().plan()), expected, "{maxima:?}");
        // Only within the requested version range.
        assert_rows!(brief(&case().spec(&json!({"version": "<1.3.0"})).plan()) => waits, "{maxima:?}");
    }
    // Without a valid release in the catalog, the value of the bundle counts.
    let status =
        with!(status("1.0.0", true) => |status| status["maxOpenShiftVersion"] = "\"4.12\"".into());
    for (maxima, expected) in [
        (&[][..], "have 1.1.0"),
        (&[("1.0.0", "\"4.13.0\"")][..], "have 1.1.0"),
        (&[("1.0.0", "\"4.13\"")][..], waits),
    ] {
        assert_rows! {
            brief(&Case { instance: Some(Box::new(instance(&chosen("1.0.0", None), &status))), ..with(maxima) }.plan())
                => expected, "{maxima:?}";
        }
    }
}

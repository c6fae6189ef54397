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
    let at = |installed| Case::at(installed, &LINE);
    let recorded = |minors| at("1.0.1").recorded_minors(minors);
    assert_each!(|expected, minors, case| (&*case.brief(), &*case.minors()) => (expected, minors);
        // The first reconcile records the installed version and the cluster version.
        "have 1.0.1", "4.12 1.0" => at("1.0.0").on("4.12");
        "have 1.0.1, next 1.1.0", "4.12 1.0" => at("1.0.1").on("4.12");
        "have 1.1.0", "4.12 1.0" => recorded("4.12 1.0").on("4.13");
        // During a cluster update, the completed version counts.
        "have 1.0.1, next 1.1.0", "4.12 1.0" => recorded("4.12 1.0").on("4.12->4.13");
        "have 1.2.0", "4.13 1.2" => at("1.2.0").on("4.13").recorded_minors("4.12 1.0");
        // Without OpenShift, the minor version of Kubernetes counts.
        "have 1.1.0", "1.35 1.0" => recorded("1.35 1.0");
        "have 1.0.1, next 1.1.0", "1.36 1.0" => recorded("1.36 1.0");
    );
    let plan = at("1.0.1").on("4.12").plan();
    assert_has(waits_for(&plan), "1.1.0 is a new minor version");
}

#[test]
fn unavailable_catalog_keeps_a_cluster_upgrade_pending() {
    let new = |offer| {
        let case = Case::at("1.1.0", &[]).on("4.13");
        case.offered(vec![("c/mine", 0, offer)])
    };
    assert_each!(|expected, case| case.minors() => expected;
        // Another version may be available, but the catalog is unavailable now.
        "" => new(Err("away")).recorded_minors("4.12 1.0");
        "" => new(Ok(without(&package(&[])))).recorded_minors("4.12 1.0");
        "4.13 1.1" => new(Ok(package(&["1.1.0"]))).recorded_minors("4.12 1.0");
        // The first record is that of the current versions.
        "4.13 1.1" => new(Err("away"));
    );
}

#[test]
fn patches_continue_while_a_minor_version_waits() {
    // 1.1.0 comes first, and replaces both 1.0.0 and 1.0.1.
    let mut forked = package(&["1.0.0", "1.0.1", "1.1.0"]);
    forked.channels.get_mut("stable").unwrap().entries[2].skips = vec!["tide.v1.0.0".into()];
    let case = Case::installed(forked, "1.0.0").on("4.12");
    let plan = case.plan();
    assert_eq!(brief(&plan), "have 1.0.1, next 1.1.0");
    assert_rows!(why(&plan).last().unwrap() => "1.0.1 belongs to the installed minor version 1.0");
    // The same with permissions that must be checked, one bundle after the other.
    let manual = json!({"approveNewRights": "Manual"});
    let mut case = case.spec(&manual).recorded_minors("4.11 1.0");
    let (digest, rules) = ("sha256:a".into(), vec!["everything".into()]);
    let gained = Some(NewRights { digest, rules });
    assert_rows! {
        case.brief() => "look 110";
        { case.gains.push(gains("1.1.0", gained.clone())); case.brief() } => "look 101, next 1.1.0";
        { case.gains.push(gains("1.0.1", None)); case.brief() } => "have 1.0.1, next 1.1.0";
        case.plan().new_rights => gained;
    }
    assert_has(waits_for(&case.plan()), "set spec.approvedRights: sha256:a");
    let mut case = case.spec(&json!({"approveNewRights": "Manual", "approvedRights": "sha256:a"}));
    assert_eq!(case.brief(), "have 1.1.0");
    // An uncheckable bundle does not block a patch.
    case.gains[0].permissions = Err("the registry is away".into());
    let plan = case.plan();
    assert_rows! {
        brief(&plan) => "have 1.0.1, next 1.1.0";
        waits_for(&plan) => "cannot determine the permissions of 1.1.0: the registry is away";
        { case.gains[1].permissions = Err("the registry is away".into()); case.brief() } => "have 1.0.0, next 1.1.0";
    }
}

#[test]
fn permissions_are_checked_only_for_manual_approval() {
    let manual = json!({"approveNewRights": "Manual"});
    let case = || Case::at("1.0.0", &["1.0.0", "1.0.1"]);
    assert_rows! {
        case().brief() => "have 1.0.1";
        case().spec(&manual).brief() => "look 101";
        // The permissions of a first installation, or of an unapproved version, are not checked.
        Case::new(package(&["1.0.0"])).spec(&manual).brief() => "have 1.0.0";
        Case::at("1.0.0", &["1.0.0", "1.1.0"]).spec(&manual).on("4.12").brief() => "have 1.0.0, next 1.1.0";
    }
    let gained = gains("1.0.1", Some(NewRights::default()));
    let plan = with!(case().spec(&manual) => gains: vec![gained]).plan();
    assert_eq!(brief(&plan), "have 1.0.0, next 1.0.1");
    assert_eq!(plan.new_rights, Some(NewRights::default()));
}

#[test]
fn checked_digest_is_installed() {
    let tag = || "r.example/tide:v1".to_owned();
    let mut tagged = package(&["1.0.0", "1.0.1"]);
    tagged.bundles.get_mut("tide.v1.0.1").unwrap().image = tag();
    let checked = with!(gains("1.0.1", None) => image: tag());
    let case = with!(Case::installed(tagged, "1.0.0") => gains: vec![checked]);
    let manual = case.clone().spec(&json!({"approveNewRights": "Manual"}));
    let pinned = have(&manual.plan()).clone();
    let unfinished = instance(&pinned, &status("1.0.0", true));
    assert_rows! {
        pinned.bundle.image => image("1.0.1");
        pinned.named() => tag();
        have(&case.plan()).bundle.image => tag();
        // An unfinished upgrade needs no other check.
        with!(manual.with(unfinished) => gains: vec![]).brief() => "have 1.0.1";
    }
}

// parity: openshift-19
#[test]
fn next_bundle_waits_until_the_installed_one_is_healthy() {
    let sick = |version, after| instance(&chosen(version, after), &status("1.0.0", false));
    let offered = || Case::new(package(&["1.0.0", "1.0.1", "1.0.2"]));
    let mut mended = package(&["1.0.0", "1.0.1", "1.0.2"]);
    let entries = &mut mended.channels.get_mut("stable").unwrap().entries;
    entries[2].replaces = Some("tide.v1.0.0".into());
    entries[2].skips = vec!["tide.v1.0.1".into()];
    for (short, pattern, case) in ::tests::rows![
        "have 1.0.0, next 1.0.1", "*is not healthy yet*\n*" => offered().with(sick("1.0.0", None));
        // Without a recorded choice, the installed bundle waits as well.
        "have 1.0.0, next 1.0.1", "*" => offered().with(forget(sick("1.0.0", None)));
        // An unfinished upgrade continues, and yields to a better bundle.
        "have 1.0.1", "*" => offered().with(sick("1.0.1", Some("1.0.0")));
        "have 1.0.2", "*" => Case::new(mended).with(sick("1.0.1", Some("1.0.0")));
    ] {
        assert_plan(&case.plan(), short, pattern);
    }
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
    let installed = |package| Case::installed(package, "1.0.0").on("4.12");
    let at = |package| installed(package).recorded_minors("4.12 1.0");
    let with = |maxima: &[(&str, &str)]| at(limited(&["1.0.0", "1.1.0"], maxima));
    let waits = "have 1.0.0, next 1.1.0";
    assert_each!(|maxima, expected| with(maxima).brief() => expected;
        &[][..] => waits;
        &[("1.0.0", "\"4.12\"")] => "have 1.1.0";
        &[("1.0.0", "\"4.12\""), ("1.1.0", "\"4.13\"")] => "have 1.1.0";
        // The upgrade would block the cluster as well.
        &[("1.0.0", "\"4.12\""), ("1.1.0", "\"4.12\"")] => waits;
        &[("1.0.0", "\"4.13\"")] => waits;
        &[("1.0.0", "garbage")] => waits;
    );
    // The path to an unblocking version may have several edges, as long as this cluster supports them.
    let maxima = ["1.0.0 4.12", "1.1.0 4.12", "1.2.0 4.12", "1.3.0 4.13"];
    let maxima = maxima.map(|pair| pair.split_once(' ').unwrap());
    let line = at(limited(&maxima.map(|(version, _)| version), &maxima));
    assert_rows! {
        line.brief() => "have 1.1.0";
        // Only within the requested version range.
        line.spec(&json!({"version": "<1.3.0"})).brief() => waits;
    }
    // Without a valid release in the catalog, the value of the bundle counts.
    let status =
        with!(status("1.0.0", true) => |status| status["maxOpenShiftVersion"] = "\"4.12\"".into());
    let live = || instance(&chosen("1.0.0", None), &status);
    assert_each!(|maxima, expected| with(maxima).with(live()).brief() => expected;
        &[][..] => "have 1.1.0";
        &[("1.0.0", "\"4.13.0\"")] => "have 1.1.0";
        &[("1.0.0", "\"4.13\"")] => waits;
    );
}

//! One edge at a time, and what waits for whom.

use super::*;

const LINE: [&str; 4] = ["1.0.0", "1.0.1", "1.1.0", "1.2.0"];

/// The rights that a version has gained, of which the image is known.
fn gains(version: &str, rights: Option<NewRights>) -> CheckedPermissions {
    CheckedPermissions {
        image: image(version),
        checked_at: image(version),
        rights: Ok(rights),
    }
}

#[test]
fn patches_come_at_once_and_minor_versions_with_the_cluster() {
    for (installed, kept_, cluster, expected, keep) in ::tests::rows![
        // The first look keeps what was installed for which cluster.
        "1.0.0", "", "4.12", "have 1.0.1" => "4.12 1.0";
        "1.0.1", "", "4.12", "have 1.0.1, next 1.1.0" => "4.12 1.0";
        "1.0.1", "4.12 1.0", "4.13", "have 1.1.0" => "4.12 1.0";
        // The cluster is on its way; what counts is where it has arrived.
        "1.0.1", "4.12 1.0", "4.12->4.13", "have 1.0.1, next 1.1.0" => "4.12 1.0";
        "1.2.0", "4.12 1.0", "4.13", "have 1.2.0" => "4.13 1.2";
    ] {
        let mut case = Case::at(installed, &LINE).on(cluster);
        if !kept_.is_empty() {
            case = case.kept(kept_);
        }
        let plan = case.plan();
        assert_rows!((&*brief(&plan), &*kept(&plan)) => (expected, keep), "{installed} {kept_} {cluster}");
    }
    let plan = Case::at("1.0.1", &LINE).on("4.12").plan();
    assert_has(waits_for(&plan), "1.1.0 is a new minor version");
    // Without OpenShift it is Kubernetes' minor version that counts.
    let kept = |minors: &str| brief(&Case::at("1.0.1", &LINE).kept(minors).plan());
    assert_eq!(kept("1.35 1.0"), "have 1.1.0");
    assert_eq!(kept("1.36 1.0"), "have 1.0.1, next 1.1.0");
}

#[test]
fn a_catalog_that_is_away_ends_no_move() {
    // There is more to follow the cluster with, but nobody can tell now.
    let new = |offer| {
        let case = Case::at("1.1.0", &[]).on("4.13");
        case.offered(vec![("c/mine", 0, offer)])
    };
    let at = |offer| new(offer).kept("4.12 1.0");
    assert_eq!(kept(&at(Err("away")).plan()), "");
    assert_eq!(kept(&at(Ok(without(&package(&[])))).plan()), "");
    assert_eq!(kept(&at(Ok(package(&["1.1.0"]))).plan()), "4.13 1.1");
    // What was never kept is kept from the beginning.
    assert_eq!(kept(&new(Err("away")).plan()), "4.13 1.1");
}

#[test]
fn a_patch_goes_on_while_a_minor_version_waits() {
    // 1.1.0 comes first, and replaces 1.0.0 as well as 1.0.1 does.
    let mut forked = package(&["1.0.0", "1.0.1", "1.1.0"]);
    let channel = forked.channels.get_mut("stable").unwrap();
    channel.entries[2].skips = vec!["tide.v1.0.0".into()];
    let case = || Case::of(forked.clone(), "1.0.0").on("4.12");
    let plan = case().plan();
    assert_eq!(brief(&plan), "have 1.0.1, next 1.1.0");
    assert_rows!(why(&plan).last().unwrap() => "1.0.1 is of the installed minor version 1.0");
    // The same with rights that somebody has to look at, one bundle after the other.
    let mut case = case()
        .spec(&json!({"approveNewRights": "Manual"}))
        .kept("4.11 1.0");
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
    // What nobody can look at keeps no patch from going on.
    case.gains[0].rights = Err("the registry is away".into());
    let plan = case.plan();
    assert_rows! {
        brief(&plan) => "have 1.0.1, next 1.1.0";
        waits_for(&plan) => "cannot determine the permissions of 1.1.0: the registry is away";
        { case.gains[1].rights = Err("the registry is away".into()); brief(&case.plan()) } => "have 1.0.0, next 1.1.0";
    }
}

#[test]
fn rights_are_looked_at_only_when_somebody_wants_to_know() {
    let manual = json!({"approveNewRights": "Manual"});
    let case = || Case::at("1.0.0", &["1.0.0", "1.0.1"]);
    assert_rows! {
        brief(&case().plan()) => "have 1.0.1";
        brief(&case().spec(&manual).plan()) => "look 101";
        // Not those of the first installation, nor of what is not approved.
        brief(&Case::new(package(&["1.0.0"])).spec(&manual).plan()) => "have 1.0.0";
        brief(&Case::at("1.0.0", &["1.0.0", "1.1.0"]).spec(&manual).on("4.12").plan()) => "have 1.0.0, next 1.1.0";
    }
    let seen = with!(case().spec(&manual) => |seen| seen.gains.push(gains("1.0.1", Some(NewRights::default()))));
    let plan = seen.plan();
    assert_eq!(brief(&plan), "have 1.0.0, next 1.0.1");
    assert_eq!(plan.new_rights, Some(NewRights::default()));
}

#[test]
fn what_was_looked_at_is_what_is_installed() {
    let mut tagged = package(&["1.0.0", "1.0.1"]);
    let bundle = tagged.bundles.get_mut("tide.v1.0.1").unwrap();
    bundle.image = "r.example/tide:v1".into();
    let case = |there| {
        let mut case = Case::new(tagged.clone()).with(there);
        let gains = gains("1.0.1", None);
        case.gains
            .push(with!(gains => image: "r.example/tide:v1".into()));
        case
    };
    let there = || instance(&chosen("1.0.0", None), &status("1.0.0", true));
    let manual = json!({"approveNewRights": "Manual"});
    let pinned = have(&case(there()).spec(&manual).plan()).clone();
    assert_eq!(pinned.bundle.image, image("1.0.1"));
    assert_eq!(pinned.named(), "r.example/tide:v1");
    let as_named = case(there()).plan();
    assert_eq!(have(&as_named).bundle.image, "r.example/tide:v1");
    // On its way nobody has to look again.
    let case = with!(case(instance(&pinned, &status("1.0.0", true))).spec(&manual) => |case| case.gains.clear());
    assert_eq!(brief(&case.plan()), "have 1.0.1");
}

// parity: openshift-19
#[test]
fn the_next_bundle_waits_until_what_is_installed_is_healthy() {
    let sick = |chosen_: BundleChoice| instance(&chosen_, &status("1.0.0", false));
    let offered = || package(&["1.0.0", "1.0.1", "1.0.2"]);
    let case = Case::new(offered()).with(sick(chosen("1.0.0", None)));
    let expected = "have 1.0.0, next 1.0.1";
    assert_plan(&case.plan(), expected, "*is not healthy yet*\n*");
    // Nobody knows what was chosen; what is installed waits alike.
    let case = Case::new(offered()).with(forget(sick(chosen("1.0.0", None))));
    assert_eq!(brief(&case.plan()), "have 1.0.0, next 1.0.1");
    // What is on its way goes on, and gives way to something better.
    assert_rows!(brief(&Case::new(offered()).with(sick(chosen("1.0.1", Some("1.0.0")))).plan()) => "have 1.0.1");
    let mut mended = offered();
    let entries = &mut mended.channels.get_mut("stable").unwrap().entries;
    entries[2].replaces = Some("tide.v1.0.0".into());
    entries[2].skips = vec!["tide.v1.0.1".into()];
    assert_rows!(brief(&Case::new(mended).with(sick(chosen("1.0.1", Some("1.0.0")))).plan()) => "have 1.0.2");
}

#[test]
fn what_is_on_its_way_keeps_the_reasons_it_was_chosen_for() {
    let there = instance(&chosen("1.0.1", Some("1.0.0")), &status("1.0.0", true));
    let plan = Case::new(package(&LINE)).with(there).plan();
    // As it was declared; the status has the reasons.
    assert_rows!(plan.act => InstanceAction::Apply(Box::new(chosen("1.0.1", Some("1.0.0")))));
}

#[test]
fn a_maximum_that_blocks_the_cluster_lets_the_way_out_pass() {
    let at = |package| Case::of(package, "1.0.0").on("4.12").kept("4.12 1.0");
    let with = |maxima: &[(&str, &str)]| at(limited(&["1.0.0", "1.1.0"], maxima));
    let waits = "have 1.0.0, next 1.1.0";
    for (maxima, expected) in ::tests::rows![
        &[][..] => waits;
        &[("1.0.0", "\"4.12\"")][..] => "have 1.1.0";
        &[("1.0.0", "\"4.12\""), ("1.1.0", "\"4.13\"")][..] => "have 1.1.0";
        // It would block as well.
        &[("1.0.0", "\"4.12\""), ("1.1.0", "\"4.12\"")][..] => waits;
        &[("1.0.0", "\"4.13\"")][..] => waits;
        &[("1.0.0", "garbage")][..] => waits;
    ] {
        assert_eq!(brief(&with(maxima).plan()), expected, "{maxima:?}");
    }
    // The way out may be several edges long, as far as today's cluster can go.
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
        // Only as far as versions are welcome.
        assert_rows!(brief(&case().spec(&json!({"version": "<1.3.0"})).plan()) => waits, "{maxima:?}");
    }
    // Where the catalog says nothing, or nothing that is a release, the bundle does.
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

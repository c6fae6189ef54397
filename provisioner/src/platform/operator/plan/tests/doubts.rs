//! What is not known, and whose word counts.

use catalog::model::Need;

use super::*;

fn digest(version: &str) -> String {
    image(version).rsplit_once('@').unwrap().1.to_owned()
}

fn overridden(version: &str) -> Value {
    json!({"bundle": {"overrides": [{"constraint": "maxOpenShiftVersion", "digest": digest(version), "reason": "tested"}]}})
}

// parity: serve-16
#[test]
fn a_catalog_that_is_gone_hands_nothing_to_another_one() {
    let others = |own: Option<Package>| {
        let mut offers = vec![("c/other", 9, Ok(package(&["1.0.0", "1.0.1"])))];
        offers.extend(own.map(|own| ("c/mine", 0, Ok(own))));
        Case::at("1.0.0", &[]).offered(offers)
    };
    // Gone, or without the package.
    for own in [None, Some(without(&package(&[])))] {
        let plan = others(own).plan();
        assert_plan(
            &plan,
            "have 1.0.0",
            "*\n*set spec.catalog to use another catalog*",
        );
    }
    // An admin may say so.
    let named = others(None).spec(&json!({"catalog": {"name": "other", "namespace": "c"}}));
    assert_eq!(brief(&named.plan()), "have 1.0.1");
}

/// A namespace whose catalogs nobody may list says nothing about them.
#[test]
fn a_catalog_that_nobody_may_see_is_not_gone() {
    let case = |hidden| {
        let other = ("d/other", 9, Ok(package(&["1.0.0", "1.0.1"])));
        Case::at("1.0.0", &[]).offered(vec![(hidden, 0, Err("403")), other])
    };
    let plan = case("c/*").plan();
    assert_eq!(brief(&plan), "have 1.0.0");
    let warnings = plan.warnings.join("; ");
    assert_rows! {
        warnings.starts_with("catalog c/*, the source of tide.v1.0.0, is unavailable (403)") => true, "{warnings}";
    }
    let warnings = case("b/*").plan().warnings.join("; ");
    assert_has(&warnings, "set spec.catalog to use another catalog");
}

#[test]
fn a_catalog_without_a_namespace_stays_the_one_that_it_was() {
    let there = instance(&chosen("1.0.0", None), &json!({}));
    let asked = |spec: Value, there| {
        let CatalogRef { name, namespace } = requested_catalog(&operator(&spec), there)?;
        Some(format!("{}/{name}", namespace.as_deref().unwrap_or("?")))
    };
    for (spec, expected) in ::tests::rows![
        json!({}) => None;
        json!({"catalog": {"name": "mine"}}) => Some("c/mine");
        json!({"catalog": {"name": "other"}}) => Some("?/other");
        json!({"catalog": {"name": "mine", "namespace": "d"}}) => Some("d/mine");
    ] {
        assert_eq!(asked(spec, Some(&there)).as_deref(), expected);
    }
    let spec = json!({"catalog": {"name": "mine"}});
    assert_eq!(asked(spec.clone(), None).as_deref(), Some("?/mine"));
    assert_rows!(asked(spec, Some(&forget(there.clone()))).as_deref() => Some("?/mine"));
}

#[test]
fn a_default_channel_that_strands_somebody_moves_nothing() {
    let mut moved = package(&["1.0.0", "1.0.1"]);
    let mut other = package(&["2.0.0"]);
    let channel = with!(other.channels.remove("stable").unwrap() => name: "next".into());
    moved.channels.insert("next".into(), channel);
    moved.bundles.append(&mut other.bundles);
    moved.default_channel = "next".into();
    let case = || {
        let case = Case::of(moved.clone(), "1.0.0");
        case.on("4.13").kept("4.12 0.9")
    };
    let plan = case().plan();
    let words = "*channel next of package tide in catalog c/mine contains neither tide.v1.0.0*set spec.channel to a channel that does: \
                 stable";
    assert_plan(&plan, "have 1.0.0", words);
    assert_eq!(plan.keep, None);
    assert_rows!(brief(&case().spec(&json!({"channel": "stable"})).plan()) => "have 1.0.1");
}

#[test]
fn another_package_is_no_upgrade() {
    // An edge that matches by the version alone.
    let mut tide = package(&["1.9.0"]);
    let entries = &mut tide.channels.get_mut("stable").unwrap().entries;
    entries[0].skip_range = Some(">=1.0.0 <2.0.0".into());
    let mut etcd = chosen("1.5.0", None);
    etcd.package = "etcd".into();
    etcd.bundle.name = "etcd.v1.5.0".into();
    let mut told = status("1.5.0", true);
    told["package"] = "etcd".into();
    told["clusterServiceVersion"] = "etcd.v1.5.0".into();
    let there = instance(&etcd, &told);
    for there in [there.clone(), forget(there), instance(&etcd, &json!({}))] {
        let plan = Case::new(tide.clone()).with(there).plan();
        let message = "BundleInstance tide has package etcd, which cannot be upgraded to another package; set \
                       spec.package.name to etcd again, and create another PlatformOperator for tide";
        assert_plan(&plan, "refuse SourceFailed", message);
    }
    // What was written down by somebody who knew no package goes on.
    let nameless = with!(chosen("1.5.0", None) => package: String::new());
    assert_rows! {
        brief(&Case::new(tide).with(instance(&nameless, &plain_status("1.5.0"))).plan()) => "have 1.5.0, next 1.9.0";
    }
}

#[test]
fn what_is_approved_is_found_where_something_newer_is_not() {
    let mut wide = package(&["1.0.0", "1.0.1", "1.1.0", "2.0.0"]);
    for entry in &mut wide.channels.get_mut("stable").unwrap().entries {
        entry.skip_range = Some(">=1.0.0".to_owned());
    }
    let case = |approved: &str| {
        let spec = json!({"upgradeApproval": "Manual", "approvedVersion": approved});
        Case::of(wide.clone(), "1.0.0").spec(&spec)
    };
    for (approved, expected) in [
        ("2.0.0", "have 2.0.0"),
        ("1.1.0", "have 1.1.0, next 2.0.0"),
        ("1.0.9", "have 1.0.1, next 2.0.0"),
        ("1.0.0", "have 1.0.0, next 2.0.0"),
        ("0.9.0", "have 1.0.0, next 2.0.0"),
    ] {
        assert_eq!(brief(&case(approved).plan()), expected, "{approved}");
    }
}

#[test]
fn a_move_of_the_cluster_counts_until_the_channel_has_ended() {
    // Where nothing comes after it, the package has followed.
    let at = |package: Package| Case::of(package, "1.1.0").on("4.13").kept("4.12 1.0");
    assert_eq!(kept(&at(package(&["1.1.0"])).plan()), "4.13 1.1");
    // What comes next may be mended tomorrow.
    let mut needy = package(&["1.1.0", "1.2.0"]);
    let needs = vec![Need::Constraint(Some("no GPU".into()))];
    needy.bundles.get_mut("tide.v1.2.0").unwrap().needs = needs;
    let plan = at(needy).plan();
    assert_eq!(brief(&plan), "have 1.1.0, next 1.2.0");
    assert_eq!(kept(&plan), "");
}

#[test]
fn an_override_is_about_one_image() {
    let too_new = || limited(&["1.0.0"], &[("1.0.0", "4.11")]);
    let new = Case::new(too_new()).on("4.12");
    assert_eq!(brief(&new.plan()), "refuse SourceFailed");
    let allowed = Case::new(too_new()).on("4.12").spec(&overridden("1.0.0"));
    let plan = allowed.plan();
    assert_eq!(brief(&plan), "have 1.0.0");
    assert!(!plan.warnings.is_empty());
    assert_rows!(brief(&Case::new(too_new()).on("4.12").spec(&overridden("1.0.1")).plan()) => "refuse SourceFailed");
    // What does not count keeps nobody from an upgrade, and is no reason for one.
    let blocks = || {
        let package = limited(&["1.0.0", "1.1.0"], &[("1.0.0", "4.12")]);
        Case::of(package, "1.0.0").on("4.12").kept("4.12 1.0")
    };
    assert_eq!(brief(&blocks().plan()), "have 1.1.0");
    assert_rows!(brief(&blocks().spec(&overridden("1.0.0")).plan()) => "have 1.0.0, next 1.1.0");
}

#[test]
fn a_maximum_is_that_of_the_installed_image_in_the_first_catalog() {
    let waits = "have 1.0.0, next 1.1.0";
    let package = |max: &str| limited(&["1.0.0", "1.1.0"], &[("1.0.0", max)]);
    let case = |offers| {
        let case = Case::at("1.0.0", &[]).on("4.12").kept("4.12 1.0");
        case.offered(offers)
    };
    let mut rebuilt = package("4.12");
    rebuilt.bundles.get_mut("tide.v1.0.0").unwrap().image = image("7");
    assert_eq!(brief(&case(vec![("c/mine", 0, Ok(rebuilt))]).plan()), waits);
    let low = ("c/mine", 0, Ok(package("4.12")));
    let high = |priority| ("c/other", priority, Ok(package("4.20")));
    assert_rows!(brief(&case(vec![low.clone(), high(-1)]).plan()) => "have 1.1.0");
    assert_eq!(brief(&case(vec![low, high(1)]).plan()), waits);
}

//! Decisions with missing or contradicting information.

use catalog::model::Requirement;

use super::*;

fn digest(version: &str) -> String {
    image(version).rsplit_once('@').unwrap().1.to_owned()
}

fn overridden(version: &str) -> Value {
    json!({"bundle": {"overrides": [{"constraint": "maxOpenShiftVersion", "digest": digest(version), "reason": "tested"}]}})
}

// parity: serve-16
#[test]
fn removed_catalog_is_not_replaced_by_another() {
    let others = |own: Option<Package>| {
        let mut offers = vec![("c/other", 9, Ok(package(&["1.0.0", "1.0.1"])))];
        offers.extend(own.map(|own| ("c/mine", 0, Ok(own))));
        Case::at("1.0.0", &[]).offered(offers)
    };
    // The catalog was removed, or lacks the package.
    for own in [None, Some(without(&package(&[])))] {
        let plan = others(own).plan();
        assert_plan(
            &plan,
            "have 1.0.0",
            "*\n*set spec.catalog to use another catalog*",
        );
    }
    // An admin may select another catalog.
    let named = others(None).spec(&json!({"catalog": {"name": "other", "namespace": "c"}}));
    assert_eq!(brief(&named.plan()), "have 1.0.1");
}

/// A namespace that cannot be listed does not prove that its catalog was removed.
#[test]
fn forbidden_catalog_does_not_count_as_removed() {
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
fn unqualified_catalog_keeps_its_namespace() {
    let live = instance(&chosen("1.0.0", None), &json!({}));
    let asked = |spec: Value, live| {
        let CatalogRef { name, namespace } = requested_catalog(&operator(&spec), live)?;
        Some(format!("{}/{name}", namespace.as_deref().unwrap_or("?")))
    };
    for (spec, expected) in ::tests::rows![
        json!({}) => None;
        json!({"catalog": {"name": "mine"}}) => Some("c/mine");
        json!({"catalog": {"name": "other"}}) => Some("?/other");
        json!({"catalog": {"name": "mine", "namespace": "d"}}) => Some("d/mine");
    ] {
        assert_eq!(asked(spec, Some(&live)).as_deref(), expected);
    }
    let spec = json!({"catalog": {"name": "mine"}});
    assert_eq!(asked(spec.clone(), None).as_deref(), Some("?/mine"));
    assert_rows!(asked(spec, Some(&forget(live.clone()))).as_deref() => Some("?/mine"));
}

#[test]
fn changed_default_channel_without_an_edge_changes_nothing() {
    let mut moved = package(&["1.0.0", "1.0.1"]);
    let mut other = package(&["2.0.0"]);
    let channel = with!(other.channels.remove("stable").unwrap() => name: "next".into());
    moved.channels.insert("next".into(), channel);
    moved.bundles.append(&mut other.bundles);
    moved.default_channel = "next".into();
    let case = || {
        let case = Case::installed(moved.clone(), "1.0.0");
        case.on("4.13").recorded_minors("4.12 0.9")
    };
    let plan = case().plan();
    let pattern = "*channel next of package tide in catalog c/mine contains neither tide.v1.0.0*set spec.channel to a channel that does: \
                 stable";
    assert_plan(&plan, "have 1.0.0", pattern);
    assert_eq!(plan.keep, None);
    assert_rows!(brief(&case().spec(&json!({"channel": "stable"})).plan()) => "have 1.0.1");
}

#[test]
fn bundle_of_another_package_is_no_upgrade() {
    // An edge that matches by the version alone.
    let mut tide = package(&["1.9.0"]);
    let entries = &mut tide.channels.get_mut("stable").unwrap().entries;
    entries[0].skip_range = Some(">=1.0.0 <2.0.0".into());
    let mut etcd = chosen("1.5.0", None);
    etcd.package = "etcd".into();
    etcd.bundle.name = "etcd.v1.5.0".into();
    let mut etcd_status = status("1.5.0", true);
    etcd_status["package"] = "etcd".into();
    etcd_status["clusterServiceVersion"] = "etcd.v1.5.0".into();
    let live = instance(&etcd, &etcd_status);
    for live in [live.clone(), forget(live), instance(&etcd, &json!({}))] {
        let plan = Case::new(tide.clone()).with(live).plan();
        let message = "BundleInstance tide contains package etcd, which cannot be upgraded to another package; set \
                       spec.package.name to etcd again, and create another PlatformOperator for tide";
        assert_plan(&plan, "refuse SourceFailed", message);
    }
    // A recorded choice without a package is still used.
    let nameless = with!(chosen("1.5.0", None) => package: String::new());
    assert_rows! {
        brief(&Case::new(tide).with(instance(&nameless, &plain_status("1.5.0"))).plan()) => "have 1.5.0, next 1.9.0";
    }
}

#[test]
fn approved_version_is_chosen_among_newer_ones() {
    let mut wide = package(&["1.0.0", "1.0.1", "1.1.0", "2.0.0"]);
    for entry in &mut wide.channels.get_mut("stable").unwrap().entries {
        entry.skip_range = Some(">=1.0.0".to_owned());
    }
    let case = |approved: &str| {
        let spec = json!({"upgradeApproval": "Manual", "approvedVersion": approved});
        Case::installed(wide.clone(), "1.0.0").spec(&spec)
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
fn cluster_upgrade_counts_until_the_channel_head_is_reached() {
    // At the channel head, the package has followed the cluster.
    let at = |package: Package| {
        Case::installed(package, "1.1.0")
            .on("4.13")
            .recorded_minors("4.12 1.0")
    };
    assert_eq!(
        minors_to_record(&at(package(&["1.1.0"])).plan()),
        "4.13 1.1"
    );
    // The ineligible next bundle may become eligible.
    let mut needy = package(&["1.1.0", "1.2.0"]);
    let needs = vec![Requirement::Constraint(Some("no GPU".into()))];
    needy.bundles.get_mut("tide.v1.2.0").unwrap().requires = needs;
    let plan = at(needy).plan();
    assert_eq!(brief(&plan), "have 1.1.0, next 1.2.0");
    assert_eq!(minors_to_record(&plan), "");
}

#[test]
fn override_applies_to_one_image() {
    let too_new = || limited(&["1.0.0"], &[("1.0.0", "4.11")]);
    let new = Case::new(too_new()).on("4.12");
    assert_eq!(brief(&new.plan()), "refuse SourceFailed");
    let allowed = Case::new(too_new()).on("4.12").spec(&overridden("1.0.0"));
    let plan = allowed.plan();
    assert_eq!(brief(&plan), "have 1.0.0");
    assert!(!plan.warnings.is_empty());
    assert_rows!(brief(&Case::new(too_new()).on("4.12").spec(&overridden("1.0.1")).plan()) => "refuse SourceFailed");
    // An overridden maximum neither blocks an upgrade nor causes one.
    let blocks = || {
        let package = limited(&["1.0.0", "1.1.0"], &[("1.0.0", "4.12")]);
        Case::installed(package, "1.0.0")
            .on("4.12")
            .recorded_minors("4.12 1.0")
    };
    assert_eq!(brief(&blocks().plan()), "have 1.1.0");
    assert_rows!(brief(&blocks().spec(&overridden("1.0.0")).plan()) => "have 1.0.0, next 1.1.0");
}

#[test]
fn maximum_is_that_of_the_installed_image_in_first_catalog() {
    let waits = "have 1.0.0, next 1.1.0";
    let package = |max: &str| limited(&["1.0.0", "1.1.0"], &[("1.0.0", max)]);
    let case = |offers| {
        let case = Case::at("1.0.0", &[])
            .on("4.12")
            .recorded_minors("4.12 1.0");
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

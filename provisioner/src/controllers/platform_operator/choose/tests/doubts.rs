//! Decisions with missing or contradicting information.

use catalog::model::Requirement;

use super::*;
use crate::controllers::platform_operator::instance_manifest::MANAGER;

// parity: serve-16
#[test]
fn removed_catalog_is_not_replaced_by_another() {
    let others = |own: Option<Package>| {
        let mut offers = vec![("c/other", 9, Ok(package(&["1.0.0", "1.0.1"])))];
        offers.extend(own.map(|own| ("c/mine", 0, Ok(own))));
        Case::at("1.0.0", &[]).offered(offers)
    };
    // The catalog was removed, or lacks the package.
    let pattern = "*\n*set spec.catalog to use another catalog*";
    for own in [None, Some(without(&package(&[])))] {
        assert_plan(&others(own).plan(), "have 1.0.0", pattern);
    }
    // An admin may select another catalog.
    assert_rows!(others(None).spec(&json!({"catalog": {"name": "other", "namespace": "c"}})).brief() => "have 1.0.1");
}

/// A namespace that cannot be listed does not prove that its catalog was removed.
#[test]
fn forbidden_catalog_does_not_count_as_removed() {
    let case = |hidden| {
        let other = ("d/other", 9, Ok(package(&["1.0.0", "1.0.1"])));
        Case::at("1.0.0", &[]).offered(vec![(hidden, 0, Err("403")), other])
    };
    let warnings = |hidden| case(hidden).plan().warnings.join("; ");
    let unavailable = "catalog c/*, the source of tide.v1.0.0, is unavailable (403)";
    assert_rows! {
        case("c/*").brief() => "have 1.0.0";
        warnings("c/*").starts_with(unavailable) => true, "{}", warnings("c/*");
    }
    assert_has(warnings("b/*"), "set spec.catalog to use another catalog");
}

#[test]
fn unqualified_catalog_keeps_its_namespace() {
    let live = instance(&chosen("1.0.0", None), &json!({}));
    let requested = |spec: Value, live| {
        let CatalogRef { name, namespace } = requested_catalog(&operator(&spec), live)?;
        Some(format!("{}/{name}", namespace.as_deref().unwrap_or("?")))
    };
    let mine = || json!({"catalog": {"name": "mine"}});
    assert_each!(|spec, live, expected| requested(spec, live).as_deref() => expected;
        json!({}), Some(&live) => None;
        mine(), Some(&live) => Some("c/mine");
        json!({"catalog": {"name": "other"}}), Some(&live) => Some("?/other");
        json!({"catalog": {"name": "mine", "namespace": "d"}}), Some(&live) => Some("d/mine");
        mine(), None => Some("?/mine");
        mine(), Some(&forget(live.clone())) => Some("?/mine");
    );
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
    assert_rows!(case().spec(&json!({"channel": "stable"})).brief() => "have 1.0.1");
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
        Case::new(tide).with(instance(&nameless, &plain_status("1.5.0"))).brief() => "have 1.5.0, next 1.9.0";
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
    assert_each!(|approved, expected| case(approved).brief() => expected;
        "2.0.0" => "have 2.0.0";
        "1.1.0" => "have 1.1.0, next 2.0.0";
        "1.0.9" => "have 1.0.1, next 2.0.0";
        "1.0.0" => "have 1.0.0, next 2.0.0";
        "0.9.0" => "have 1.0.0, next 2.0.0";
    );
}

#[test]
fn cluster_upgrade_counts_until_the_channel_head_is_reached() {
    // At the channel head, the package has followed the cluster.
    let at = |package: Package| {
        let case = Case::installed(package, "1.1.0").on("4.13");
        case.recorded_minors("4.12 1.0")
    };
    assert_eq!(at(package(&["1.1.0"])).minors(), "4.13 1.1");
    // The ineligible next bundle may become eligible.
    let mut needy = package(&["1.1.0", "1.2.0"]);
    let needs = vec![Requirement::Constraint(Some("no GPU".into()))];
    needy.bundles.get_mut("tide.v1.2.0").unwrap().requires = needs;
    let needy = at(needy);
    assert_rows!((&*needy.brief(), &*needy.minors()) => ("have 1.1.0, next 1.2.0", ""));
}

#[test]
fn override_applies_to_one_image() {
    let new = Case::new(limited(&["1.0.0"], &[("1.0.0", "4.11")])).on("4.12");
    let spec = |version| new.clone().spec(&overridden(version));
    let blocks = limited(&["1.0.0", "1.1.0"], &[("1.0.0", "4.12")]);
    let blocks = Case::installed(blocks, "1.0.0").on("4.12");
    let blocks = blocks.recorded_minors("4.12 1.0");
    assert_rows! {
        new.brief() => "refuse SourceFailed";
        spec("1.0.0").brief() => "have 1.0.0";
        spec("1.0.0").plan().warnings.is_empty() => false;
        spec("1.0.1").brief() => "refuse SourceFailed";
        // An overridden maximum neither blocks an upgrade nor causes one.
        blocks.brief() => "have 1.1.0";
        blocks.spec(&overridden("1.0.0")).brief() => "have 1.0.0, next 1.1.0";
    }
}

#[test]
fn override_of_content_or_in_the_instance_causes_no_upgrade() {
    let content = format!("sha256:{}", "c".repeat(64));
    let installed =
        with!(status("1.0.0", true) => |status| status["contentDigest"] = content.clone().into());
    let live = instance(&chosen("1.0.0", None), &installed);
    let case = |live: &BundleInstance| {
        let package = limited(&["1.0.0", "1.1.0"], &[("1.0.0", "4.12")]);
        let case = Case::new(package).with(live.clone()).on("4.12");
        case.recorded_minors("4.12 1.0")
    };
    let overrides = |digest: &str| json!([{"constraint": "maxOpenShiftVersion", "digest": digest, "reason": "tested"}]);
    let waits = "have 1.0.0, next 1.1.0";
    let of_content = json!({"bundle": {"overrides": overrides(&content)}});
    assert_rows! {
        case(&live).brief() => "have 1.1.0";
        case(&live).spec(&of_content).brief() => waits;
    }
    let of_image = image("1.0.0");
    for digest in [content.as_str(), of_image.rsplit_once('@').unwrap().1] {
        let mut live = live.clone();
        live.spec.overrides = serde_json::from_value(overrides(digest)).unwrap();
        assert_rows!(case(&live).brief() => waits, "{digest}");
        // A copy of overrides that the PlatformOperator no longer declares.
        let own = json!([{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:overrides": {}}}}]);
        live.metadata.managed_fields = serde_json::from_value(own).unwrap();
        assert_rows!(case(&live).brief() => "have 1.1.0", "{digest}");
    }
}

#[test]
fn maximum_is_that_of_the_installed_image_in_first_catalog() {
    let package = |max: &str| limited(&["1.0.0", "1.1.0"], &[("1.0.0", max)]);
    let case = Case::at("1.0.0", &[]).on("4.12");
    let case = |offers| case.clone().recorded_minors("4.12 1.0").offered(offers);
    let mut rebuilt = package("4.12");
    rebuilt.bundles.get_mut("tide.v1.0.0").unwrap().image = image("7");
    let low = || ("c/mine", 0, Ok(package("4.12")));
    let high = |priority| ("c/other", priority, Ok(package("4.20")));
    assert_rows! {
        case(vec![("c/mine", 0, Ok(rebuilt))]).brief() => "have 1.0.0, next 1.1.0";
        case(vec![low(), high(-1)]).brief() => "have 1.1.0";
        case(vec![low(), high(1)]).brief() => "have 1.0.0, next 1.1.0";
    }
}

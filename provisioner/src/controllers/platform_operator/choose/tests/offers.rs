//! Offers of catalogs.

use catalog::model::Bundle;

use super::*;

#[test]
fn unfinished_installation_survives_an_unavailable_catalog() {
    let failed = is_not("HasValidBundle", "UnpackFailed");
    let live = || instance(&chosen("1.1.0", None), &failed);
    let beside = |catalog, priority, answer, other| {
        let other = (other, 0, Ok(package(&["1.0.0"])));
        let offers = vec![(catalog, priority, answer), other];
        Case::new(package(&[])).with(live()).offered(offers)
    };
    let removed = with!(chosen("1.1.0", None) => bundle.catalog: "c/removed".into());
    assert_each!(|expected, case| case.brief() => expected;
        "have 1.1.0" => beside("c/mine", 5, Err("timeout"), "c/other");
        // Nothing is installed yet, so the catalog may offer another bundle now.
        "have 1.1.1" => beside("c/mine", 5, Ok(package(&["1.0.0", "1.1.1"])), "c/other");
        // A removed catalog does not block.
        "have 1.0.0" => Case::new(package(&["1.0.0"])).with(instance(&removed, &failed));
        // Its namespace cannot be listed.
        "have 1.1.0" => beside("c/*", 0, Err("403"), "d/other");
    );
}

// parity: openshift-18, complaint-1
#[test]
fn bundles_that_cannot_be_installed_are_named_with_the_reason() {
    let one = |change: &dyn Fn(&mut Bundle)| {
        let mut package = package(&["1.0.0"]);
        change(package.bundles.get_mut("tide.v1.0.0").unwrap());
        Case::new(package).on("4.12")
    };
    for (case, expected) in ::tests::rows![
        one(&|bundle| bundle.max_openshift = max_openshift("4.11")) => "requires OpenShift <= 4.11 but the cluster is 4.12";
        one(&|bundle| bundle.min_kube = Some("1.40.0".into())) => "requires Kubernetes >= 1.40.0 but the cluster is 1.36.3";
        one(&|bundle| bundle.media_type = Some("helm+v3".into())) => "has unsupported media type \"helm+v3\"";
        one(&|_| ()).spec(&json!({"version": ">=2.0.0"})) => "is not in the requested version range";
    ] {
        let pattern = format!("*tide.v1.0.0 *{expected}*: failed to run sourcing logic");
        assert_plan(&case.plan(), "refuse SourceFailed", &pattern);
    }
    // During a cluster update, the higher release counts.
    let max = one(&|bundle| bundle.max_openshift = max_openshift("4.12"));
    assert_eq!(max.clone().on("4.12").brief(), "have 1.0.0");
    assert_eq!(max.on("4.12->4.13").brief(), "refuse SourceFailed");
    // Excess bundles are counted.
    let versions = ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"];
    let many = limited(&versions, &versions.map(|version| (version, "4.11")));
    let plan = Case::new(many).on("4.12").plan();
    assert_has(refusal(&plan), "; and 2 more");
}

#[test]
fn deprecations_are_reported_without_effect() {
    let deprecated = with!(package(&["1.0.0"]) => deprecation: Some("use surf".into()));
    let leaks = |version: &str| {
        let mut package = package(&["1.0.0", "1.1.0"]);
        let bundle = package.bundles.get_mut(&format!("tide.v{version}"));
        bundle.unwrap().deprecation = Some("leaks".into());
        Case::installed(package, "1.0.0")
    };
    let automatic = json!({"upgradeApproval": "Automatic"});
    assert_each!(|expected, warnings, case| (&*case.brief(), case.plan().warnings.join("; ")) => (expected, warnings.to_owned());
        "have 1.0.0", "package tide is deprecated: use surf" => Case::new(deprecated.clone());
        "have 1.0.0", "package tide is deprecated: use surf" => Case::installed(deprecated, "1.0.0");
        "have 1.0.0, next 1.1.0", "bundle tide.v1.0.0 is deprecated: leaks" => leaks("1.0.0");
        // A waiting bundle is not the installed one.
        "have 1.0.0, next 1.1.0", "" => leaks("1.1.0");
        "have 1.1.0", "bundle tide.v1.1.0 is deprecated: leaks" => leaks("1.1.0").spec(&automatic);
        "have 1.1.0", "" => leaks("1.0.0").spec(&automatic);
    );
}

#[test]
fn missing_upgrade_paths_are_explained() {
    for (pattern, case) in ::tests::rows![
        "\n*catalog c/mine, the source of tide.v1.0.0, contains neither it nor an upgrade from it*" => Case::at("1.0.0", &["2.0.0"]);
        "\n*catalog c/mine, the source of tide.v1.0.0, is unavailable*"
            => Case::at("1.0.0", &[]).offered(vec![("c/mine", 0, Err("away"))]);
        "\n*has no channel \"other\"; it has stable*" => Case::at("1.0.0", &["1.0.0"]).spec(&json!({"channel": "other"}));
        "\n" => Case::at("1.0.0", &["1.0.0"]);
        // After a start, the catalog is read soon.
        "\n" => Case::at("1.0.0", &[]).offered(vec![("c/mine", 0, Err(PENDING))]);
    ] {
        assert_plan(&case.plan(), "have 1.0.0", pattern);
    }
}

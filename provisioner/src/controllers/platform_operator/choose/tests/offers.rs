//! Offers of catalogs.

use catalog::model::Bundle;

use super::*;
use crate::controllers::platform_operator::fixtures::condition;

#[test]
fn unfinished_installation_survives_an_unavailable_catalog() {
    let failed = json!({"conditions": [condition("HasValidBundle", "False", "UnpackFailed")]});
    let live = || instance(&chosen("1.1.0", None), &failed);
    let beside = |catalog, priority, answer, other| {
        let offers = vec![
            (catalog, priority, answer),
            (other, 0, Ok(package(&["1.0.0"]))),
        ];
        let case = Case::new(package(&[])).with(live()).offered(offers);
        brief(&case.plan())
    };
    assert_rows!(beside("c/mine", 5, Err("nobody is there"), "c/other") => "have 1.1.0");
    // Nothing is installed yet, so the catalog may offer another bundle now.
    assert_rows!(beside("c/mine", 5, Ok(package(&["1.0.0", "1.1.1"])), "c/other") => "have 1.1.1");
    // A removed catalog does not block.
    let mut gone = chosen("1.1.0", None);
    gone.bundle.catalog = "c/gone".into();
    let gone = Case::new(package(&["1.0.0"])).with(instance(&gone, &failed));
    assert_eq!(brief(&gone.plan()), "have 1.0.0");
    // Its namespace cannot be listed.
    assert_eq!(beside("c/*", 0, Err("403"), "d/other"), "have 1.1.0");
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
        let plan = case.plan();
        assert_eq!(brief(&plan), "refuse SourceFailed", "{expected}");
        let message = refusal(&plan);
        assert_has(message, "tide.v1.0.0 ");
        assert_has(message, expected);
        assert!(
            message.ends_with(": failed to run sourcing logic"),
            "{message}"
        );
    }
    // During a cluster update, the higher release counts.
    let max =
        |release: &str| one(&|bundle| bundle.max_openshift = max_openshift("4.12")).on(release);
    assert_eq!(brief(&max("4.12").plan()), "have 1.0.0");
    assert_eq!(brief(&max("4.12->4.13").plan()), "refuse SourceFailed");
    // Excess bundles are counted.
    let versions = ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"];
    let many = limited(&versions, &versions.map(|version| (version, "4.11")));
    let plan = Case::new(many).on("4.12").plan();
    assert_has(refusal(&plan), "; and 2 more");
}

#[test]
fn deprecations_are_reported_without_effect() {
    let deprecated = with!(package(&["1.0.0"]) => deprecation: Some("use surf".into()));
    let expected = ["package tide is deprecated: use surf"];
    assert_eq!(Case::new(deprecated.clone()).plan().warnings, expected);
    assert_eq!(
        Case::installed(deprecated, "1.0.0").plan().warnings,
        expected
    );
    // A waiting bundle is not the installed one.
    let mut next = package(&["1.0.0", "1.1.0"]);
    let leaks = |package: &mut Package, version: &str| {
        let bundle = package.bundles.get_mut(&format!("tide.v{version}"));
        bundle.unwrap().deprecation = Some("leaks".into());
    };
    leaks(&mut next, "1.1.0");
    let at = |package: Package| Case::installed(package, "1.0.0");
    assert_eq!(brief(&at(next.clone()).plan()), "have 1.0.0, next 1.1.0");
    assert!(at(next.clone()).plan().warnings.is_empty());
    leaks(&mut next, "1.0.0");
    let expected = ["bundle tide.v1.0.0 is deprecated: leaks"];
    assert_eq!(at(next.clone()).plan().warnings, expected);
    let expected = ["bundle tide.v1.1.0 is deprecated: leaks"];
    let goes = at(next)
        .spec(&json!({"upgradeApproval": "Automatic"}))
        .plan();
    assert_rows!((brief(&goes).as_str(), &goes.warnings[..]) => ("have 1.1.0", &expected.map(str::to_owned)[..]));
}

#[test]
fn missing_upgrade_paths_are_explained() {
    for (case, expected) in ::tests::rows![
        Case::at("1.0.0", &["2.0.0"])
            => Some("catalog c/mine, the source of tide.v1.0.0, contains neither it nor an upgrade from it");
        Case { offers: vec![("c/mine", 0, Err("away"))], ..Case::at("1.0.0", &[]) }
            => Some("catalog c/mine, the source of tide.v1.0.0, is unavailable");
        Case::at("1.0.0", &["1.0.0"]).spec(&json!({"channel": "other"})) => Some("has no channel \"other\"; it has stable");
        Case::at("1.0.0", &["1.0.0"]) => None;
        // After a start, the catalog is read soon.
        Case { offers: vec![("c/mine", 0, Err(PENDING))], ..Case::at("1.0.0", &[]) } => None;
    ] {
        let plan = case.plan();
        assert_eq!(brief(&plan), "have 1.0.0");
        let warnings = plan.warnings.join("; ");
        match expected {
            Some(expected) => assert!(warnings.contains(expected), "{warnings}"),
            None => assert_eq!(warnings, ""),
        }
    }
}

//! What strangers write.

use manifests::api::bounds;

use super::*;

// parity: openshift-17
#[test]
fn what_the_definition_of_others_lets_through_is_not_served() {
    for (operator, words) in ::tests::rows![
        operator(&json!({"package": {"name": "Foo_Bar!"}})) => "spec.package.name \"Foo_Bar!\"";
        operator(&json!({"package": {"name": ""}})) => "spec.package.name \"\"";
        operator(&json!({"package": {"name": "a".repeat(57)}})) => "must be no more than 56 characters";
        operator(&json!({"package": {"name": "x".repeat(1 << 20)}})) => "spec.package.name";
        operator(&json!({"version": "soon"})) => "spec.version: ";
        operator(&json!({"version": ">=1 ".repeat(10_000)})) => "spec.version: ";
        { let mut operator = operator(&json!({})); operator.metadata.name = Some("o".repeat(46)); operator }
            => "has more than 45 characters";
    ] {
        let case = with!(Case::new(package(&["1.0.0"])) => operator: Box::new(operator));
        let plan = case.plan();
        assert_eq!(brief(&plan), "refuse SourceFailed");
        let said = refusal(&plan);
        assert!(said.contains(words), "{said}");
        assert!(said.len() < 4096, "{}", said.len());
    }
    let operator = with!(operator(&json!({"package": {"name": "a".repeat(56)}})) => metadata.name: Some("o".repeat(45)));
    assert_rows!(brief(&Case { operator: Box::new(operator), ..Case::new(package(&["1.0.0"])) }.plan()) => "have 1.0.0");
}

#[test]
fn texts_of_catalogs_are_cut_to_what_a_status_takes() {
    let long = "ä".repeat(100_000);
    let mut hostile = package(&["1.0.0", "1.1.0"]);
    let bundle = hostile.bundles.get_mut("tide.v1.1.0").unwrap();
    bundle.media_type = Some(long.clone());
    let plan = Case::of(hostile.clone(), "1.0.0").plan();
    assert_eq!(brief(&plan), "have 1.0.0, next 1.1.0");
    assert_rows!(plan.next.unwrap().waits_for.unwrap().len() <= bounds::LINE as usize => true);

    let all =
        with!(hostile => |all| all.bundles.get_mut("tide.v1.0.0").unwrap().unreadable = Some(long));
    let said = Case::new(all).plan();
    assert!(refusal(&said).len() < 8192, "{}", refusal(&said).len());
}

#[test]
fn a_status_that_makes_no_sense_decides_nothing() {
    for (field, odd) in ::tests::rows![
        "version" => json!("garbage");
        "clusterServiceVersion" => json!("other.v9");
        "resolvedSource" => json!({"type": "odd"});
        "maxOpenShiftVersion" => "[".repeat(500).into();
    ] {
        let status = with!(status("1.0.0", true) => |status| status[field] = odd);
        let there = instance(&chosen("1.0.0", None), &status);
        assert_rows!(brief(&Case::new(package(&["1.0.0"])).with(there).plan()) => "have 1.0.0", "{status}");
    }
    // Where nobody can read the version, the catalog tells it.
    let status = with!(status("1.0.0", true) => |status| status["version"] = "garbage".into());
    let there = forget(instance(&chosen("1.0.0", None), &status));
    let case = |package: Package| Case::new(package).with(there.clone());
    assert_rows!(brief(&case(package(&["1.0.0", "2.0.0"])).plan()) => "have 1.0.0, next 2.0.0");
    // Nobody can: it follows the channel all the same, when that is approved.
    let mut rebuilt = package(&["1.0.0", "2.0.0"]);
    rebuilt.bundles.get_mut("tide.v1.0.0").unwrap().image = image("7");
    let there = instance(&chosen("0.9.0", None), &status);
    let case = |spec: &Value| Case::new(rebuilt.clone()).with(there.clone()).spec(spec);
    let waits = case(&json!({})).plan();
    assert_eq!(brief(&waits), "have 1.0.0, next 2.0.0");
    let why = waits_for(&waits);
    assert_rows!(why.starts_with("the installed version is unknown") => true, "{why}");
    assert_rows!(brief(&case(&json!({"upgradeApproval": "Manual", "approvedVersion": "2.0.0"})).plan()) => "have 2.0.0");
    assert_rows!(brief(&case(&json!({"upgradeApproval": "Automatic"})).plan()) => "have 2.0.0");
}

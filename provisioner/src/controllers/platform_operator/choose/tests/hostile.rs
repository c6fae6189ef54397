//! Untrusted input.

use manifests::api::limits;

use super::*;

// parity: openshift-17
#[test]
fn specs_that_a_foreign_crd_admits_are_rejected() {
    for (operator, expected) in ::tests::rows![
        operator(&json!({"package": {"name": "Foo_Bar!"}})) => "spec.package.name \"Foo_Bar!\"";
        operator(&json!({"package": {"name": ""}})) => "spec.package.name \"\"";
        operator(&json!({"package": {"name": "a".repeat(57)}})) => "must be no more than 56 characters";
        operator(&json!({"package": {"name": "x".repeat(1 << 20)}})) => "spec.package.name";
        operator(&json!({"version": "soon"})) => "spec.version: ";
        operator(&json!({"version": ">=1 ".repeat(10_000)})) => "spec.version: ";
        { let mut operator = operator(&json!({})); operator.metadata.name = Some("o".repeat(46)); operator }
            => "has more than 45 characters";
    ] {
        let plan = with!(Case::new(package(&["1.0.0"])) => operator: Box::new(operator)).plan();
        assert_eq!(brief(&plan), "refuse SourceFailed");
        let message = refusal(&plan);
        assert!(message.contains(expected), "{message}");
        assert!(message.len() < 4096, "{}", message.len());
    }
    let spec = json!({"package": {"name": "a".repeat(56)}});
    let longest = Case::new(package(&["1.0.0"])).spec(&spec);
    assert_rows!(with!(longest => operator.metadata.name: Some("o".repeat(45))).brief() => "have 1.0.0");
}

#[test]
fn catalog_texts_are_truncated_to_fit_the_status() {
    let long = "ä".repeat(100_000);
    let mut hostile = package(&["1.0.0", "1.1.0"]);
    hostile.bundles.get_mut("tide.v1.1.0").unwrap().media_type = Some(long.clone());
    let plan = Case::installed(hostile.clone(), "1.0.0").plan();
    assert_eq!(brief(&plan), "have 1.0.0, next 1.1.0");
    assert_rows!(plan.next.unwrap().waits_for.unwrap().len() <= limits::LINE as usize => true);

    let all = with!(hostile => |all| all.bundles.get_mut("tide.v1.0.0").unwrap().invalid_properties = Some(long));
    let plan = Case::new(all).plan();
    assert!(refusal(&plan).len() < 8192, "{}", refusal(&plan).len());
}

#[test]
fn invalid_status_is_ignored() {
    for (field, odd) in ::tests::rows![
        "version" => json!("garbage");
        "clusterServiceVersion" => json!("other.v9");
        "resolvedSource" => json!({"type": "odd"});
        "maxOpenShiftVersion" => "[".repeat(500).into();
    ] {
        let status = with!(status("1.0.0", true) => |status| status[field] = odd);
        let live = instance(&chosen("1.0.0", None), &status);
        assert_rows!(Case::new(package(&["1.0.0"])).with(live).brief() => "have 1.0.0", "{status}");
    }
    let status = with!(status("1.0.0", true) => |status| status["version"] = "garbage".into());
    let live = forget(instance(&chosen("1.0.0", None), &status));
    let mut rebuilt = package(&["1.0.0", "2.0.0"]);
    rebuilt.bundles.get_mut("tide.v1.0.0").unwrap().image = image("7");
    let rebuilt = Case::new(rebuilt).with(instance(&chosen("0.9.0", None), &status));
    let case = |spec: Value| rebuilt.clone().spec(&spec);
    assert_plans(::tests::rows![
        // An unreadable version in the status is replaced by that of the catalog.
        "have 1.0.0, next 2.0.0", "*" => Case::new(package(&["1.0.0", "2.0.0"])).with(live);
        // Without a readable version, the operator follows the channel after an approval.
        "have 1.0.0, next 2.0.0", "the installed version is unknown*" => case(json!({}));
        "have 2.0.0", "*" => case(json!({"upgradeApproval": "Manual", "approvedVersion": "2.0.0"}));
        "have 2.0.0", "*" => case(json!({"upgradeApproval": "Automatic"}));
    ]);
}

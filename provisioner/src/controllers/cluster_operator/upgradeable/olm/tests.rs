use super::*;

/// Returns a ClusterServiceVersion with this value of its annotation `operatorframework.io/properties`, and the value
/// that the gate uses.
fn service(name: &str, properties: Option<&str>, maximum: Option<&str>) -> InstalledOperator {
    let annotation = properties.map(|value| {
        let property = format!(r#"{{"type": "olm.maxOpenShiftVersion", "value": {value}}}"#);
        let properties = if value.is_empty() { "" } else { &property };
        format!(r#"{{"properties": [{properties}]}}"#)
    });
    let olm = Some(Reading::new(annotation.as_deref()));
    let maximum = maximum.map(str::to_owned);
    with!(InstalledOperator, namespace: "ns".into(), name: name.into(), max_openshift: maximum, olm)
}

fn own(value: &str) -> InstalledOperator {
    service("a", Some(value), Some(value))
}

fn from_catalog(name: &str, properties: &str, maximum: &str) -> InstalledOperator {
    with!(service(name, Some(properties), Some(maximum)) => is_from_catalog: true)
}

fn lines(operators: &[InstalledOperator]) -> Vec<String> {
    let mut differences = Differences::default();
    for operator in operators {
        differences.add(operator, Release::new(4, 12));
    }
    let text = differences.text();
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn equal_judgments_are_not_reported() {
    for operator in [
        own("\"4.12\""),
        own("4.10"),
        own("\"4.13\""),
        from_catalog("a", "\"4.11\"", "\"4.12\""),
        from_catalog("a", "\"4.13\"", "\"4.14\""),
        // Neither reports an operator of the release payload that declares nothing.
        with!(service("a", None, None) => is_payload: true),
        // OLM does not evaluate it.
        with!(own("\"4.x\"") => olm: None),
    ] {
        let found = lines(std::slice::from_ref(&operator));
        assert!(found.is_empty(), "{operator:?}: {found:?}");
    }
}

// parity: max-olm-3
#[test]
fn differing_judgment_of_olm_is_reported() {
    let (blocks, passes) = ("blocks the upgrade", "does not block the upgrade");
    let silent = "does not warn";
    let rejects = "blocks upgrades on values that it rejects";
    let tolerant = "accepts values that are not <major>.<minor>";
    let catalog = "ignores the value in the catalog";
    let annotation = "ignores the annotation operators.coreos.com/maxOpenShiftVersion";
    let missing = "accepts a missing olm.maxOpenShiftVersion";
    let annotated = |properties, value| service("a", properties, Some(value));
    for (operator, effect, cause, detail) in ::tests::rows![
        own("\"4.x\""), blocks, rejects => " (failed to parse \"4.x\" as semver: ";
        own("\"4.13.1\""), blocks, rejects => " (property olm.maxOpenShiftVersion must";
        from_catalog("a", "\"4.x\"", "4.13"), blocks, rejects => " (failed to parse";
        own("\"4.8.0\""), blocks, tolerant => " (OLM reads 4.8)";
        own("\"v4.13\""), silent, tolerant => " (OLM reads 4.13)";
        from_catalog("a", "\"4.12\"", "\"4.14\""), blocks, catalog => " (OLM reads 4.12, the catalog declares 4.14)";
        from_catalog("a", "\"4.14\"", "\"4.12\""), passes, catalog => " (OLM reads 4.14, the catalog declares 4.12)";
        from_catalog("a", "", "\"4.12\""), passes, catalog => " (OLM reads no value, the catalog declares 4.12)";
        from_catalog("a", "", "\"4.x\""), silent, catalog => " (OLM reads no value, the catalog declares 4.x)";
        annotated(None, "4.8"), passes, annotation => " (4.8)";
        annotated(Some("\"4.13\""), "4.8"), passes, annotation => " (4.8)";
        annotated(None, "foo"), silent, annotation => " (foo)";
        service("a", None, None), silent, missing => "";
        service("a", Some(""), None), silent, missing => "";
    ] {
        let found = lines(std::slice::from_ref(&operator));
        let expected = format!("- {effect}, because OLM {cause}: ns/a{detail}");
        assert_eq!(found.len(), 1, "{operator:?}: {found:?}");
        assert!(found[0].starts_with(&expected), "{operator:?}: {found:?}");
    }
}

#[test]
fn differences_share_a_line_per_cause_and_are_bounded() {
    let named = |name: &str, value| service(name, Some(value), Some(value));
    let found = lines(&[
        service("c", Some(""), None),
        named("b", "\"4.9.0\""),
        service("a", None, None),
        named("a", "\"4.8.0\""),
    ]);
    let expected = [
        "- blocks the upgrade, because OLM accepts values that are not <major>.<minor>: ns/a (OLM reads 4.8), ns/b (OLM reads \
         4.9)",
        "- does not warn, because OLM accepts a missing olm.maxOpenShiftVersion: ns/a, ns/c",
    ];
    assert_eq!(found, expected);

    let mut all = Vec::new();
    let hostile = "ä\n\u{202e}".repeat(5000);
    for number in 0..1000 {
        let name = format!("{number}{}", "ä".repeat(300));
        all.extend([
            named(&name, &hostile),
            named(&name, "\"4.8.0\""),
            named(&name, "\"4.13.0\""),
            service(&name, None, None),
            service(&name, None, Some(&hostile)),
            service(&name, None, Some("4.8")),
            from_catalog(&name, "4.12", "4.14"),
            from_catalog(&name, "4.14", "4.12"),
            from_catalog(&name, "", &hostile),
        ]);
    }
    let found = lines(&all);
    assert_eq!(found.len(), 9);
    for line in &found {
        assert_rows!(line.len() < 2 * MAX_LINE && line.ends_with(" more") => true, "{line}");
        assert_rows!(!line.contains('\u{202e}') => true, "{line}");
    }
    assert!(found.iter().map(String::len).sum::<usize>() < 16 << 10);
}

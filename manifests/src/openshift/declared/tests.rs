use serde_json::json;

use super::*;

/// Adds the values of properties, and annotations.
fn declarations(properties: &[&str], annotations: &[(&str, &str)]) -> Declarations {
    let mut declarations = Declarations::default();
    for json in properties {
        declarations.add(Spelling::CatalogProperties, json);
    }
    declarations.add_annotations(|key| {
        let mut found = annotations.iter().filter(|(name, _)| *name == key);
        found.next().map(|(_, text)| Cow::Borrowed(*text))
    });
    declarations
}

fn list(values: &[&str]) -> String {
    let list = values
        .iter()
        .map(|json| format!(r#"{{"type": "olm.maxOpenShiftVersion", "value": {json}}}"#));
    format!("[{}]", list.collect::<Vec<_>>().join(", "))
}

fn installed(values: &[&str]) -> String {
    format!(r#"{{"properties": {}}}"#, list(values))
}

const INSTALLED: &str = INSTALLED_PROPERTIES_ANNOTATION;
const LISTED: &str = PROPERTIES_ANNOTATION;
const PLAIN: &str = MAX_ANNOTATION;

#[test]
fn every_spelling_declares_a_version() {
    for (properties, annotations, expected, source) in [
        (&["\"4.8\""][..], vec![], "4.8", "catalog properties"),
        (&["4.10"], vec![], "4.10", "catalog properties"),
        (
            &[],
            vec![(INSTALLED, installed(&["\"4.8\""]))],
            "4.8",
            "annotation operatorframework.io/properties",
        ),
        (
            &[],
            vec![(INSTALLED, installed(&["4.10"]))],
            "4.10",
            "annotation operatorframework.io/properties",
        ),
        (
            &[],
            vec![(LISTED, list(&["\"4.8\""]))],
            "4.8",
            "annotation olm.properties",
        ),
        (
            &[],
            vec![(LISTED, list(&["4.10"]))],
            "4.10",
            "annotation olm.properties",
        ),
        (
            &[],
            vec![(PLAIN, "4.8".into())],
            "4.8",
            "annotation operators.coreos.com/maxOpenShiftVersion",
        ),
        (
            &[],
            vec![(PLAIN, " 4.10 ".into())],
            "4.10",
            "annotation operators.coreos.com/maxOpenShiftVersion",
        ),
        // Another property without a value hides nothing, and equal texts count once.
        (
            &[],
            vec![(
                LISTED,
                r#"[{"type": "x"}, {"type": "olm.maxOpenShiftVersion", "value": "4.8"},
                    {"type": "olm.maxOpenShiftVersion", "value": "4.8"}]"#
                    .into(),
            )],
            "4.8",
            "annotation olm.properties",
        ),
    ] {
        let annotations: Vec<_> = annotations.iter().map(|(key, it)| (*key, &**it)).collect();
        let decision = declarations(properties, &annotations).decide();
        let declared = decision.declared.unwrap();
        assert_eq!(declared.text(), expected, "{annotations:?}");
        assert_eq!(declared.source.to_string(), source);
        assert_eq!(decision.problems, [], "{annotations:?}");
    }
    for nothing in [
        vec![],
        vec![(INSTALLED, r#"{"properties": null}"#), (LISTED, "null")],
        vec![
            (INSTALLED, r#"{"properties": [{"type": "a", "value": 1}]}"#),
            (LISTED, " "),
        ],
        vec![(INSTALLED, "{}"), (LISTED, "[]")],
    ] {
        let decision = declarations(&[], &nothing).decide();
        assert_eq!(decision, Decision::default(), "{nothing:?}");
    }
}

/// The columns: catalog properties, the three annotations, the value that counts, and the problems.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn valid_and_lower_values_count() {
    let several = "more than one olm.maxOpenShiftVersion property";
    for (properties, installed_, listed, annotation, expected, problems) in [
        // The catalog's maintainer has raised the value of the bundle.
        (
            &["\"4.9\""][..],
            None,
            Some(list(&["\"4.8\""])),
            None,
            Some("4.9"),
            &[][..],
        ),
        (
            &[],
            Some(installed(&["\"4.9\""])),
            Some(list(&["\"4.8\""])),
            None,
            Some("4.9"),
            &[],
        ),
        // The annotation of the enhancement: the lower version counts.
        (
            &["\"4.9\""],
            None,
            None,
            Some("4.8"),
            Some("4.8"),
            &[
                "max OpenShift version is 4.8 (annotation operators.coreos.com/maxOpenShiftVersion) and 4.9",
            ],
        ),
        (
            &["\"4.9\""],
            None,
            None,
            Some("4.10"),
            Some("4.9"),
            &["max OpenShift version is 4.9 (catalog properties) and 4.10"],
        ),
        (&["\"4.9\""], None, None, Some("4.9"), Some("4.9"), &[]),
        // One and the same release.
        (&["\"4.23\""], None, None, Some("5.0"), Some("4.23"), &[]),
        // Valid values count before invalid ones.
        (
            &["\"4.9\""],
            None,
            None,
            Some("latest"),
            Some("4.9"),
            &["\"latest\" is not <major>.<minor> (annotation"],
        ),
        (
            &["\"4.9.1\""],
            None,
            None,
            Some("4.8"),
            Some("4.8"),
            &["\"4.9.1\" is not <major>.<minor> (catalog properties)"],
        ),
        (
            &["\"latest\""],
            None,
            Some(list(&["\"4.8\""])),
            None,
            Some("4.8"),
            &["\"latest\" is not <major>.<minor> (catalog properties)"],
        ),
        // An invalid value is one problem, however often it is repeated.
        (
            &["\"v4.8\""],
            None,
            Some(list(&["\"v4.8\""])),
            Some("v4.8"),
            None,
            &["\"v4.8\" is not <major>.<minor> (catalog properties)"],
        ),
        (&["\"4.8\"", "\"4.8\""], None, None, None, None, &[several]),
        (&["\"4.8\"", "4.8"], None, None, None, None, &[several]),
        (&["\"4.8\"", "\"4.9\""], None, None, None, None, &[several]),
        (
            &["\"4.8\"", "\"4.9\""],
            None,
            Some(list(&["\"4.9\""])),
            None,
            None,
            &[several],
        ),
        (
            &["\"4.8\"", "\"4.9\""],
            None,
            None,
            Some("4.7"),
            Some("4.7"),
            &[several],
        ),
        // Annotations that list nothing that can be read.
        (
            &[],
            Some("[]".into()),
            None,
            None,
            None,
            &["annotation operatorframework.io/properties is not JSON of properties"],
        ),
        (
            &[],
            Some("garbage".into()),
            Some(list(&["\"4.8\""])),
            None,
            Some("4.8"),
            &["annotation operatorframework.io/properties is not JSON of properties"],
        ),
        (
            &[],
            None,
            Some("{}".into()),
            None,
            None,
            &["annotation olm.properties is not JSON of properties"],
        ),
        (
            &["\"4.8\""],
            Some("garbage".into()),
            Some("4.7".into()),
            None,
            Some("4.8"),
            &[],
        ),
    ] {
        let annotations = [
            (INSTALLED, installed_.as_deref()),
            (LISTED, listed.as_deref()),
            (PLAIN, annotation),
        ];
        let there = annotations
            .iter()
            .filter_map(|(key, text)| Some((*key, (*text)?)));
        let there: Vec<_> = there.collect();
        let decision = declarations(properties, &there).decide();
        let release = decision
            .declared
            .as_ref()
            .and_then(MaxOpenShiftVersion::release);
        let release = release.map(|release| release.to_string());
        assert_eq!(release.as_deref(), expected, "{properties:?} {there:?}");
        assert!(decision.declared.is_some(), "{properties:?} {there:?}");
        let found: Vec<_> = decision.problems.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), problems.len(), "{found:?}");
        for (found, expected) in found.iter().zip(problems) {
            assert!(found.contains(expected), "{found}");
        }
    }
}

#[test]
fn problems_explain_olm_v0_and_have_a_remedy() {
    let explained = |declarations: &Declarations| {
        let problem = declarations.decide().problems.remove(0);
        assert!(!problem.remedy().is_empty());
        problem.explained()
    };
    assert_eq!(
        explained(&declarations(&["\"v4.8\""], &[])),
        "max OpenShift version cannot be determined: \"v4.8\" is not <major>.<minor> (catalog properties); OLM v0 reads 4.8 \
         and blocks upgrades of the cluster beyond 4.8"
    );
    assert_eq!(
        explained(&declarations(&[], &[(PLAIN, "4")])),
        "max OpenShift version cannot be determined: \"4\" is not <major>.<minor> (annotation \
         operators.coreos.com/maxOpenShiftVersion); OLM v0 ignores the value"
    );
}

#[test]
fn status_text_has_the_same_verdict() {
    for json in [
        "\"4.8\"",
        "4.10",
        "\" 4.8 \"",
        "\"v4.8\"",
        "\"\"",
        "null",
        "\"\\\"4.8\\\"\"",
        "[\"4.8\"]",
        "\"4\\u002e8\"",
    ] {
        let declared = MaxOpenShiftVersion::new(json, Spelling::BundleProperties);
        let text = declared.text();
        assert_eq!(maximum(&text).ok(), declared.release(), "{json}: {text}");
    }
    let malformed = declarations(&[], &[(INSTALLED, "4.8")]).decide().declared;
    let malformed = malformed.unwrap();
    assert!(maximum(&malformed.text()).is_err(), "{}", malformed.text());
}

#[test]
fn declared_version_serializes_version_or_problem() {
    let json = |text: &str| {
        serde_json::to_value(MaxOpenShiftVersion::new(text, Spelling::BundleProperties)).unwrap()
    };
    assert_eq!(
        json("4.10"),
        json!({"raw": "4.10", "source": "bundle properties", "version": {"major": 4, "minor": 10}})
    );
    assert_eq!(
        json("\"4.8.0\""),
        json!({
            "raw": "4.8.0", "source": "bundle properties",
            "problem": "max OpenShift version cannot be determined: \"4.8.0\" is not <major>.<minor>",
        })
    );
}

#[test]
fn hostile_declarations_are_bounded() {
    let mut declarations = Declarations::default();
    for at in 0..100 {
        let text = format!("\"4.{at}\u{202e}{}\"", "x".repeat(10_000));
        declarations.add(Spelling::CatalogProperties, &text);
    }
    let decision = declarations.decide();
    let declared = decision.declared.unwrap();
    assert!(declared.raw.chars().count() <= MAX_VALUE + 1);
    let message = decision.problems[0].explained();
    assert!(
        message.len() < 1000 && !message.contains('\u{202e}'),
        "{message}"
    );
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut declarations = Declarations::default();
    declarations.add_annotations(|_| Some(Cow::Borrowed(deep.as_str())));
    assert!(declarations.decide().declared.unwrap().version.is_err());
}

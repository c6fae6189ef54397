use serde_json::json;

use super::*;
use crate::openshift::Unquoted;

/// Adds the values of properties, and annotations.
fn declarations(properties: &[&str], annotations: &[(&str, &str)]) -> Declarations {
    let mut declarations = Declarations::default();
    for json in properties {
        declarations.add(Spelling::CatalogProperties, json);
    }
    declarations.add_annotations(|key| {
        let mut found = annotations.iter().filter(|(name, _)| *name == key);
        let (_, text) = found.next()?;
        Some(Annotation::String(Cow::Borrowed(*text)))
    });
    declarations
}

fn list(values: &[&str]) -> String {
    let property =
        |json: &&str| format!(r#"{{"type": "olm.maxOpenShiftVersion", "value": {json}}}"#);
    let list: Vec<String> = values.iter().map(property).collect();
    format!("[{}]", list.join(", "))
}

fn installed(values: &[&str]) -> String {
    format!(r#"{{"properties": {}}}"#, list(values))
}

fn assert_parts(texts: &[String], parts: &[&str]) {
    assert_eq!(texts.len(), parts.len(), "{texts:?}");
    for (text, part) in texts.iter().zip(parts) {
        assert!(text.contains(part), "{text}");
    }
}

const INSTALLED: &str = INSTALLED_PROPERTIES_ANNOTATION;
const LISTED: &str = PROPERTIES_ANNOTATION;
const PLAIN: &str = MAX_ANNOTATION;

// parity: max-4
#[test]
fn every_spelling_declares_a_version() {
    for (properties, annotations, expected, source) in ::tests::rows![
        &["\"4.8\""][..], vec![], "4.8" => "catalog properties";
        &["4.10"], vec![], "4.10" => "catalog properties";
        &[], vec![(INSTALLED, installed(&["\"4.8\""]))], "4.8" => "annotation operatorframework.io/properties";
        &[], vec![(INSTALLED, installed(&["4.10"]))], "4.10" => "annotation operatorframework.io/properties";
        &[], vec![(LISTED, list(&["\"4.8\""]))], "4.8" => "annotation olm.properties";
        &[], vec![(LISTED, list(&["4.10"]))], "4.10" => "annotation olm.properties";
        &[], vec![(PLAIN, "4.8".into())], "4.8" => "annotation operators.coreos.com/maxOpenShiftVersion";
        &[], vec![(PLAIN, " 4.10 ".into())], "4.10" => "annotation operators.coreos.com/maxOpenShiftVersion";
        // A second property without a value hides nothing, and equal texts count once.
        &[], vec![(LISTED, list(&["\"4.8\"", "\"4.8\""]).replacen('{', r#"{"type": "x"}, {"#, 1))], "4.8"
            => "annotation olm.properties";
    ] {
        let annotations = annotations.iter().map(|(key, text)| (*key, &**text));
        let annotations: Vec<_> = annotations.collect();
        let decision = declarations(properties, &annotations).decide();
        let declared = decision.declared.unwrap();
        assert_rows!((&*declared.text(), &*declared.source.to_string()) => (expected, source), "{annotations:?}");
        assert_eq!(decision.problems, [], "{annotations:?}");
    }
    let other = r#"{"properties": [{"type": "a", "value": 1}]}"#;
    for (installed, listed) in [("{}", "null"), (other, " ")] {
        let empty = [(INSTALLED, installed), (LISTED, listed)];
        assert_rows!(declarations(&[], &empty).decide() => Decision::default(), "{empty:?}");
    }
    assert_eq!(declarations(&[], &[]).decide(), Decision::default());
}

/// The columns: catalog properties, the three annotations, the effective value, and the problems.
#[test]
fn valid_and_lower_values_count() {
    let several = "more than one olm.maxOpenShiftVersion property";
    for (properties, installed_, listed, annotation, expected, problems) in ::tests::rows![
        // The catalog's maintainer has raised the value of the bundle.
        &["\"4.9\""][..], None, Some(list(&["\"4.8\""])), None, Some("4.9") => &[][..];
        &[], Some(installed(&["\"4.9\""])), Some(list(&["\"4.8\""])), None, Some("4.9") => &[];
        // The annotation of the enhancement: the lower version is used.
        &["\"4.9\""], None, None, Some("4.8"), Some("4.8")
            => &["max OpenShift version is 4.8 (annotation operators.coreos.com/maxOpenShiftVersion) and 4.9"];
        &["\"4.9\""], None, None, Some("4.10"), Some("4.9") => &["max OpenShift version is 4.9 (catalog properties) and 4.10"];
        &["\"4.9\""], None, None, Some("4.9"), Some("4.9") => &[];
        // Two names of the same release.
        &["\"4.23\""], None, None, Some("5.0"), Some("4.23") => &[];
        // Valid values precede invalid ones.
        &["\"4.9\""], None, None, Some("latest"), Some("4.9") => &["\"latest\" is not <major>.<minor> (annotation"];
        &["\"4.9.1\""], None, None, Some("4.8"), Some("4.8") => &["\"4.9.1\" is not <major>.<minor> (catalog properties)"];
        &["\"latest\""], None, Some(list(&["\"4.8\""])), None, Some("4.8")
            => &["\"latest\" is not <major>.<minor> (catalog properties)"];
        // An invalid value is one problem, however often it is repeated.
        &["\"v4.8\""], None, Some(list(&["\"v4.8\""])), Some("v4.8"), None
            => &["\"v4.8\" is not <major>.<minor> (catalog properties)"];
        &["\"4.8\"", "\"4.8\""], None, None, None, None => &[several];
        &["\"4.8\"", "4.8"], None, None, None, None => &[several];
        &["\"4.8\"", "\"4.9\""], None, None, None, None => &[several];
        &["\"4.8\"", "\"4.9\""], None, Some(list(&["\"4.9\""])), None, None => &[several];
        &["\"4.8\"", "\"4.9\""], None, None, Some("4.7"), Some("4.7") => &[several];
        // Annotations without a readable list.
        &[], Some("[]".into()), None, None, None
            => &["the annotation is not a JSON list of properties (annotation operatorframework.io/properties)"];
        &[], Some("garbage".into()), Some(list(&["\"4.8\""])), None, Some("4.8")
            => &["the annotation is not a JSON list of properties (annotation operatorframework.io/properties)"];
        &[], None, Some("{}".into()), None, None => &["the annotation is not a JSON list of properties (annotation olm.properties)"];
        &["\"4.8\""], Some("garbage".into()), Some("4.7".into()), None, Some("4.8") => &[];
    ] {
        let texts = [installed_.as_deref(), listed.as_deref(), annotation];
        let present = [INSTALLED, LISTED, PLAIN].into_iter().zip(texts);
        let present = present.filter_map(|(key, text)| Some((key, text?)));
        let present: Vec<_> = present.collect();
        let decision = declarations(properties, &present).decide();
        let declared = decision.declared.as_ref();
        let release = declared.and_then(MaxOpenShiftVersion::release);
        assert_rows!(release.map(|release| release.to_string()).as_deref() => expected, "{properties:?} {present:?}");
        assert!(decision.declared.is_some(), "{properties:?} {present:?}");
        let found: Vec<_> = decision.problems.iter().map(ToString::to_string).collect();
        assert_parts(&found, problems);
    }
}

#[test]
fn problems_explain_olm_v0_and_have_a_remedy() {
    let generic = "set one property olm.maxOpenShiftVersion to a string such as \"4.16\"";
    for (properties, annotations, expected, remedy) in ::tests::rows![
        &["\"v4.8\""][..], &[][..],
            "\"v4.8\" is not <major>.<minor> (catalog properties); OLM v0 reads 4.8 and blocks upgrades of the cluster beyond 4.8"
            => generic;
        &[], &[(PLAIN, "4")],
            "\"4\" is not <major>.<minor> (annotation operators.coreos.com/maxOpenShiftVersion); OLM v0 ignores the value"
            => generic;
        // opm shortens numbers.
        &["+4.8"], &[],
            "\"+4.8\" is not <major>.<minor> (catalog properties); OLM v0 reads 4.8 and blocks upgrades of the cluster beyond \
             4.8" => generic;
        &["\"+4.8\""], &[],
            "\"+4.8\" is not <major>.<minor> (catalog properties); OLM v0 rejects the value and blocks every minor upgrade of \
             the cluster (failed to parse \"+4.8\" as semver: a short version cannot contain pre-release or build metadata)"
            => generic;
        &[], &[(LISTED, "{}")], "the annotation is not a JSON list of properties (annotation olm.properties); OLM v0 ignores the value"
            => "set it to a JSON list of objects with `type` and `value`";
        &[], &[(INSTALLED, "garbage")],
            "the annotation is not a JSON list of properties (annotation operatorframework.io/properties); OLM v0 overwrites the \
             annotation when it installs the bundle from a catalog; otherwise OLM v0 rejects the value and blocks every minor \
             upgrade of the cluster (failed to unmarshal properties annotation: expected value at line 1 column 1)"
            => "remove the annotation; OLM writes it";
        &[], &[(INSTALLED, r#"{"properties": [{"type": "olm.maxOpenShiftVersion", "value": "v4.8"}]}"#)],
            "\"v4.8\" is not <major>.<minor> (annotation operatorframework.io/properties); OLM v0 overwrites the annotation \
             when it installs the bundle from a catalog; otherwise OLM v0 reads 4.8 and blocks upgrades of the cluster beyond 4.8"
            => "remove the annotation; OLM writes it";
    ] {
        let problem = &declarations(properties, annotations).decide().problems[0];
        let expected = format!("max OpenShift version cannot be determined: {expected}");
        assert_rows!((problem.explained(), &*problem.remedy()) => (expected, remedy));
    }
}

#[test]
fn white_space_that_olm_v0_rejects_is_reported() {
    for (value, is_rejected) in [("\" 4.20 \"", false), ("\"4.20\\n\"", true)] {
        let decision = declarations(&[value], &[]).decide();
        assert_rows!(decision.declared.and_then(|declared| declared.release()) => Some(Release::new(4, 20)), "{value}");
        let problems = decision.problems.iter();
        let problems = problems.map(|problem| (problem.to_string(), problem.remedy().into_owned()));
        let problems: Vec<_> = problems.collect();
        assert_eq!(problems.len(), usize::from(is_rejected), "{problems:?}");
        if let [(message, remedy)] = problems.as_slice() {
            let start =
                "max OpenShift version is 4.20 (catalog properties), but OLM v0 rejects the value";
            assert!(message.starts_with(start), "{message}");
            assert_eq!(remedy, "use the string \"4.20\" without whitespace");
        }
    }
}

#[test]
fn spellings_of_numbers_are_no_releases() {
    for (spellings, expected) in ::tests::rows![
        &["4.10"][..] => Some("4.10");
        &["4.8"] => Some("4.8");
        &["+4.8", ".8", "0x48", "4_8.0", "4.8e0", "4.", "4", "04.8", "-4.8"] => None;
    ] {
        for &spelling in spellings {
            // The value in a bundle, and in a catalog whose numbers were converted to strings.
            for text in [spelling, &Unquoted::new(spelling).to_json()] {
                let declared = MaxOpenShiftVersion::new(text, Spelling::CatalogProperties);
                let release = declared.release().map(|release| release.to_string());
                assert_eq!((release.as_deref(), &*declared.raw), (expected, spelling));
            }
        }
    }
}

/// The columns: catalog properties, the key, the effective value, its location, and the problems.
#[test]
fn lower_of_properties_and_key_counts() {
    let (key, properties) = (Spelling::CatalogKey, Spelling::CatalogProperties);
    let differs =
        "the lower version is used; set the property to the intended release and remove the key";
    for (values, text, expected, source, problems) in ::tests::rows![
        &[][..], "\"4.8\"", Some("4.8"), key => &[][..];
        &["\"4.8\""], "\"4.8\"", Some("4.8"), properties => &[];
        &["\"4.23\""], "\"5.0\"", Some("4.23"), properties => &[];
        &["\"4.30\""], "\"4.8\"", Some("4.8"), key => &[differs];
        &["\"4.8\""], "\"4.30\"", Some("4.8"), properties => &[differs];
        &["\"latest\""], "\"4.8\"", Some("4.8"), key
            => &["\"latest\" is not <major>.<minor> (catalog properties); OLM v0 rejects"];
        &["\"4.8\""], "null", Some("4.8"), properties
            => &["(key operators.coreos.com/maxOpenShiftVersion); OLM v0 ignores the value; remove the key"];
        // OLM rejects the list.
        &["\"4.8\"", "\"4.9\""], "\"4.7\"", None, properties => &["more than one olm.maxOpenShiftVersion property"];
    ] {
        let mut declarations = declarations(values, &[]);
        declarations.add(key, text);
        let decision = declarations.decide();
        let declared = decision.declared.unwrap();
        assert_rows!(declared.release().map(|release| release.to_string()).as_deref() => expected, "{values:?} {text}");
        assert_eq!(declared.source, source, "{values:?} {text}");
        let found: Vec<_> = (decision.problems.iter())
            .map(|problem| format!("{}; {}", problem.explained(), problem.remedy()))
            .collect();
        assert_parts(&found, problems);
    }
}

#[test]
fn annotation_of_another_kind_shows_its_spelling() {
    let mut declarations = Declarations::default();
    declarations
        .add_annotations(|key| (key == PLAIN).then_some(Annotation::Other(Cow::Borrowed("4.10"))));
    let decision = declarations.decide();
    let declared = decision.declared.unwrap();
    assert_rows!((&*declared.raw, declared.release(), maximum(&declared.text()).is_err()) => ("4.10", None, true));
    assert_eq!(decision.problems, [Problem::not_a_string("4.10")]);
    let expected = "max OpenShift version cannot be determined: 4.10 is not a string, and annotations must be strings (annotation \
         operators.coreos.com/maxOpenShiftVersion); OLM v0 rejects the ClusterServiceVersion";
    assert_eq!(decision.problems[0].explained(), expected);
    assert_each!(|spelling, remedy| Problem::not_a_string(spelling).remedy() => remedy;
        "4.10" => "use \"4.10\"";
        "yes" => "use a string such as \"4.16\"";
        "4" => "use a string such as \"4.16\"";
    );
}

#[test]
fn status_text_has_the_same_verdict() {
    for json in r#""4.8"|4.10|" 4.8 "|"v4.8"|""|null|"\"4.8\""|["4.8"]|"4\u002e8""#.split('|') {
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
    assert_rows!(json("4.10") => json!({"raw": "4.10", "source": "bundle properties", "version": {"major": 4, "minor": 10}}));
    let expected = json!({
        "raw": "4.8.0", "source": "bundle properties",
        "problem": "max OpenShift version cannot be determined: \"4.8.0\" is not <major>.<minor>",
    });
    assert_eq!(json("\"4.8.0\""), expected);
}

#[test]
fn hostile_declarations_are_bounded() {
    let mut declarations = Declarations::default();
    for at in 0..100 {
        let text = format!("\"4.{at}\u{202e}{}\"", "x".repeat(10_000));
        declarations.add(Spelling::CatalogProperties, &text);
    }
    let decision = declarations.decide();
    assert_rows!(decision.declared.unwrap().raw.chars().count() <= MAX_VALUE + 1 => true);
    let message = decision.problems[0].explained();
    assert_rows!(message.len() < 1000 && !message.contains('\u{202e}') => true, "{message}");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut declarations = Declarations::default();
    declarations.add_annotations(|_| Some(Annotation::String(Cow::Borrowed(&deep))));
    assert!(declarations.decide().declared.unwrap().version.is_err());
}

use serde_json::{Value, json};

use super::*;
use crate::controllers::platform_operator::fixtures::{chosen, operator};

fn recorded(status: &Value, text: Option<&str>) -> Result<Option<BundleChoice>, Malformed> {
    let mut operator = operator(&json!({}));
    operator.status = serde_json::from_value(status.clone()).unwrap();
    let text = text.map(|text| (CHOSEN_BUNDLE.to_owned(), text.to_owned()));
    operator.metadata.annotations = Some(text.into_iter().collect());
    read(&operator)
}

fn of_status(version: &str) -> Value {
    json!({"chosenBundle": chosen(version, None).bundle})
}

#[test]
fn status_counts_before_annotation() {
    let annotation = |version| super::annotation(&chosen(version, Some("0.9.0"))).unwrap();
    for (status, text, expected) in ::tests::rows![
        json!({}), None => None;
        json!({}), Some(annotation("1.0.0")) => Some(chosen("1.0.0", Some("0.9.0")));
        // The annotation completes the status if both name one bundle.
        of_status("1.0.0"), Some(annotation("1.0.0")) => Some(chosen("1.0.0", Some("0.9.0")));
        of_status("1.0.0"), Some(annotation("1.1.0")) => Some(BundleChoice { media_type: String::new(), ..chosen("1.0.0", None) });
        of_status("1.0.0"), Some("garbage".to_owned()) => Some(BundleChoice { media_type: String::new(), ..chosen("1.0.0", None) });
        of_status("1.0.0"), None => Some(BundleChoice { media_type: String::new(), ..chosen("1.0.0", None) });
    ] {
        assert_rows!(recorded(&status, text.as_deref()) => Ok(expected), "{status} {text:?}");
    }
}

#[test]
fn a_choice_of_another_package_is_no_record() {
    let surf = with!(chosen("1.0.0", None) => package: "surf".into());
    let text = annotation(&surf).unwrap();
    assert_eq!(recorded(&json!({}), Some(&text)), Ok(None));
    assert_eq!(recorded(&of_status("1.0.0"), Some(&text)), Ok(None));
}

#[test]
fn a_pinned_image_counts_only_if_the_status_confirms_it() {
    let pinned = with!(chosen("1.0.0", None) => named: Some("r.example/tide:v1".into()));
    let text = annotation(&pinned).unwrap();
    let found = recorded(&of_status("1.0.0"), Some(&text)).unwrap().unwrap();
    assert_eq!(found, pinned);
    let found = recorded(&json!({}), Some(&text)).unwrap().unwrap();
    assert_rows!((found.bundle.image.as_str(), found.named) => ("r.example/tide:v1", None));
}

#[test]
fn malformed_annotations_are_rejected() {
    for (text, expected) in ::tests::rows![
        String::new() => "is malformed: EOF while parsing a value";
        "null".to_owned() => "is malformed: invalid type: null";
        "{}".to_owned() => "is malformed: missing field";
        json!({"name": 7}).to_string() => "is malformed: ";
        "[".repeat(10_000) => "is malformed: ";
        format!("{{\"name\": \"{}\"}}", "x".repeat(MAX_BYTES)) => "has 16396 bytes, but the limit is 16384";
        format!("{:?}", "ä".repeat(4000)) => "is malformed: invalid type: string";
    ] {
        let malformed = recorded(&json!({}), Some(&text)).unwrap_err().to_string();
        assert!(malformed.starts_with(expected), "{malformed}");
        assert!(malformed.len() < 500, "{malformed}");
    }
    let long = with!(chosen("1.0.0", None) => bundle.name: "n".repeat(MAX_BYTES));
    assert!(matches!(annotation(&long), Err(Malformed::TooLong(_))));
}

#[test]
fn only_an_installed_operator_holds_a_package_by_its_record() {
    let held = |status: Value| {
        let mut operator = operator(&json!({}));
        operator.status = serde_json::from_value(status).unwrap();
        let text = annotation(&chosen("1.0.0", None)).unwrap();
        operator.metadata.annotations = Some([(CHOSEN_BUNDLE.to_owned(), text)].into());
        package(&operator)
    };
    assert_eq!(held(json!({})), None);
    assert_rows!(held(json!({"activeBundleDeployment": {"name": "tide"}})).as_deref() => Some("tide"));
}

use serde_json::{Value, json};

use super::*;
use crate::controllers::platform_operator::fixtures::{chosen, operator};

fn annotated(status: &Value, text: Option<&str>) -> PlatformOperator {
    let status = serde_json::from_value(status.clone()).unwrap();
    let text = text.map(|text| (CHOSEN_BUNDLE.to_owned(), text.to_owned()));
    let annotations = Some(text.into_iter().collect());
    with!(operator(&json!({})) => status: status, metadata.annotations: annotations)
}

fn recorded(status: &Value, text: Option<&str>) -> Result<Option<BundleChoice>, Malformed> {
    read(&annotated(status, text))
}

fn of_status(version: &str) -> Value {
    json!({"chosenBundle": chosen(version, None).bundle})
}

#[test]
fn status_counts_before_annotation() {
    let text = |choice: &BundleChoice| Some(annotation(choice).unwrap());
    let upgraded = |version| text(&chosen(version, Some("0.9.0")));
    let bare = with!(chosen("1.0.0", None) => media_type: String::new());
    let surf = text(&with!(chosen("1.0.0", None) => package: "surf".into()));
    let tag = "r.example/tide:v1".to_owned();
    let pinned = with!(chosen("1.0.0", None) => named: Some(tag.clone()));
    assert_each!(|status, text, expected| recorded(&status, text.as_deref()) => Ok(expected);
        json!({}), None => None;
        json!({}), upgraded("1.0.0") => Some(chosen("1.0.0", Some("0.9.0")));
        // The annotation completes the status if both name one bundle.
        of_status("1.0.0"), upgraded("1.0.0") => Some(chosen("1.0.0", Some("0.9.0")));
        of_status("1.0.0"), upgraded("1.1.0") => Some(bare.clone());
        of_status("1.0.0"), Some("garbage".to_owned()) => Some(bare.clone());
        of_status("1.0.0"), None => Some(bare);
        // A choice of another package is no record.
        json!({}), surf.clone() => None;
        of_status("1.0.0"), surf => None;
        // A pinned image counts only if the status confirms it.
        of_status("1.0.0"), text(&pinned) => Some(pinned.clone());
        json!({}), text(&pinned) => Some(with!(chosen("1.0.0", None) => bundle.image: tag));
    );
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
    let text = annotation(&chosen("1.0.0", None)).unwrap();
    let held = |status| package(&annotated(&status, Some(&text)));
    assert_eq!(held(json!({})), None);
    assert_rows!(held(json!({"activeBundleDeployment": {"name": "tide"}})).as_deref() => Some("tide"));
}

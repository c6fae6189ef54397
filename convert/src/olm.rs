//! What OLM writes on the ClusterServiceVersions that it installs, as far as others have to know it.

use std::collections::BTreeMap;

use manifests::openshift::{MAX_PROPERTY, maximum as read};
use serde_json::value::RawValue;

use crate::{Property, maxocp};

/// The annotation with all properties of the bundle.
const PROJECTED: &str = "operatorframework.io/properties";
/// The annotation with the namespace that OLM has installed it in: elsewhere it is a copy.
pub const NAMESPACE: &str = "olm.operatorNamespace";
/// The label of copies.
pub const COPIED: &str = "olm.copiedFrom";

/// The newest OpenShift that it runs on, as it is written. Properties count before the annotation of the first proposal;
/// where both name a release, the lower one does, for it is the one that protects the cluster.
pub fn maximum<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    claimed(annotation(PROJECTED), annotation(maxocp::ANNOTATION))
}

/// Its package, if OLM has written that.
pub fn package<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Package {
        package_name: String,
    }
    let properties = projected(annotation(PROJECTED)?).ok()?;
    let property = properties
        .into_iter()
        .find(|it| it.type_ == "olm.package")?;
    let package: Package = serde_json::from_str(property.value.get()).ok()?;
    Some(package.package_name)
}

/// The properties that OLM has written: `{"properties": [{"type": …, "value": …}]}`.
fn projected(text: &str) -> Result<Vec<Property>, serde_json::Error> {
    // A struct would be read from a list, too.
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text)?;
    fields
        .remove("properties")
        .map_or_else(|| Ok(Vec::new()), |list| serde_json::from_str(list.get()))
}

fn claimed(properties: Option<&str>, annotation: Option<&str>) -> Option<String> {
    let listed = properties.map(|text| match projected(text) {
        Ok(properties) => properties
            .into_iter()
            .filter(|property| property.type_ == MAX_PROPERTY)
            .map(|property| property.value.get().to_owned())
            .collect(),
        // What cannot be read may be anything.
        Err(_) => vec![format!(
            "the annotation {PROJECTED} is no JSON of properties"
        )],
    });
    let listed: Vec<String> = listed.unwrap_or_default();
    let property = (!listed.is_empty()).then(|| listed.join(" and "));
    let annotation = annotation.map(str::to_owned);
    match (property, annotation) {
        (Some(property), Some(annotation)) => match (read(&property), read(&annotation)) {
            (Ok(a), Ok(b)) if b.normalized() < a.normalized() => Some(annotation),
            _ => Some(property),
        },
        (property, annotation) => property.or(annotation),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_maximum_of_a_csv_is_what_olm_has_written() {
        let of = |list: Value| json!({"properties": list}).to_string();
        let max =
            |value: &str| format!(r#"{{"type": "olm.maxOpenShiftVersion", "value": {value}}}"#);
        let raw = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|value| max(value)).collect();
            format!(r#"{{"properties": [{}]}}"#, list.join(", "))
        };
        for (projected, annotation, expected) in [
            (None, None, None),
            (Some(of(json!([]))), None, None),
            (
                Some(of(json!([{"type": "olm.package", "value": {}}]))),
                None,
                None,
            ),
            (Some(raw(&["\"4.8\""])), None, Some("\"4.8\"")),
            (Some(raw(&["4.8"])), None, Some("4.8")),
            // A number keeps its digits.
            (Some(raw(&["4.10"])), None, Some("4.10")),
            (
                Some(raw(&["\"4.8\"", "\"4.8\""])),
                None,
                Some("\"4.8\" and \"4.8\""),
            ),
            (
                Some("[]".into()),
                None,
                Some("the annotation operatorframework.io/properties is no JSON of properties"),
            ),
            (
                Some("garbage".into()),
                None,
                Some("the annotation operatorframework.io/properties is no JSON of properties"),
            ),
            (None, Some("4.8"), Some("4.8")),
            (Some(raw(&["\"4.9\""])), Some("4.8"), Some("4.8")),
            (Some(raw(&["\"4.9\""])), Some("4.10"), Some("\"4.9\"")),
            (Some(raw(&["\"4.9\""])), Some("garbage"), Some("\"4.9\"")),
            (Some(raw(&["\"4.9.1\""])), Some("4.8"), Some("\"4.9.1\"")),
        ] {
            let found = claimed(projected.as_deref(), annotation);
            assert_eq!(found.as_deref(), expected, "{projected:?} {annotation:?}");
        }
    }

    #[test]
    fn the_package_is_what_olm_has_written() {
        let properties = |value: Value| json!({"properties": [{"type": "a", "value": 1}, {"type": "olm.package", "value": value}]});
        for (text, expected) in [
            (
                properties(json!({"packageName": "etcd", "version": "1"})).to_string(),
                Some("etcd"),
            ),
            (properties(json!("etcd")).to_string(), None),
            (json!({"properties": []}).to_string(), None),
            ("garbage".to_owned(), None),
        ] {
            let found = package(|key| (key == PROJECTED).then_some(text.as_str()));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        assert_eq!(package(|_| None), None);
    }
}

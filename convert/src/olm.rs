//! Annotations of OLM on installed ClusterServiceVersions that other crates read.

use manifests::openshift::{
    Annotation, Declarations, INSTALLED_PROPERTIES_ANNOTATION as PROJECTED, MaxOpenShiftVersion,
    properties,
};

/// Annotation with the namespace of the original; in other namespaces, the ClusterServiceVersion is a copy.
pub const NAMESPACE: &str = "olm.operatorNamespace";
/// Label of copied ClusterServiceVersions.
pub const COPIED: &str = "olm.copiedFrom";

/// Returns the max OpenShift version of an installed ClusterServiceVersion, formatted by [`MaxOpenShiftVersion::text`].
/// `annotation` looks up its annotations. [`Declarations`] chooses between the declared values.
pub fn max_openshift<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let mut declarations = Declarations::default();
    declarations.add_annotations(|key| Some(Annotation::String(annotation(key)?.into())));
    let declared = declarations.decide().declared;
    declared.as_ref().map(MaxOpenShiftVersion::text)
}

/// Returns the package of an installed ClusterServiceVersion, if OLM recorded it.
pub fn package<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Package {
        package_name: String,
    }
    let properties = properties::parse_installed(annotation(PROJECTED)?).ok()?;
    let property = properties
        .into_iter()
        .find(|property| property.type_ == "olm.package")?;
    let package: Package = serde_json::from_str(property.value?.get()).ok()?;
    Some(package.package_name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The rows of the decision between spellings are those of `manifests::openshift`.
    // parity: max-4, max-olm-1
    #[test]
    fn installed_csv_declares_the_values_that_olm_wrote() {
        let max = |value: &str| {
            let property = format!(r#"{{"type": "olm.maxOpenShiftVersion", "value": {value}}}"#);
            format!("[{property}]")
        };
        let installed = |value: &str| format!(r#"{{"properties": {}}}"#, max(value));
        for (projected, listed, plain, expected) in ::tests::rows![
            None, None, None => None;
            // A number keeps its digits.
            Some(installed("4.10")), None, None => Some("4.10");
            // The catalog's maintainer has raised the value of the author.
            Some(installed("\"4.9\"")), Some(max("\"4.8\"")), None => Some("4.9");
            // OLM has not installed it.
            None, Some(max("\"4.8\"")), None => Some("4.8");
            None, None, Some("4.8") => Some("4.8");
            Some(installed("\"4.9\"")), None, Some("4.8") => Some("4.8");
            Some("garbage".into()), None, None => Some("garbage");
        ] {
            let found = max_openshift(|key| match key {
                "operatorframework.io/properties" => projected.as_deref(),
                "olm.properties" => listed.as_deref(),
                "operators.coreos.com/maxOpenShiftVersion" => plain,
                _ => None,
            });
            assert_rows!(found.as_deref() => expected, "{projected:?} {listed:?} {plain:?}");
        }
    }

    #[test]
    fn package_is_the_one_that_olm_wrote() {
        let properties = |value: Value| json!({"properties": [{"type": "a", "value": 1}, {"type": "olm.package", "value": value}]});
        assert_each!(|text, expected| package(|key| (key == PROJECTED).then_some(text.as_str())).as_deref() => expected;
            properties(json!({"packageName": "etcd", "version": "1"})).to_string() => Some("etcd");
            properties(json!("etcd")).to_string() => None;
            json!({"properties": []}).to_string() => None;
            "garbage".to_owned() => None;
        );
        assert_eq!(package(|_| None), None);
    }
}

//! The install namespace: the one of the caller, else that suggested by the CSV, else `<package>-system`.

use manifests::{
    names,
    object::{add_missing, child_mut, get_path, mapping, text},
    path::Path,
};
use serde_json::{Map, Value, json};

use crate::{
    budget::MAX_ANNOTATIONS,
    bundle::metadata::{Metadata, keys},
    csv::Csv,
    finding::{Findings, Location, code::Code},
    options::Options,
};

/// Annotation of the CSV that suggests a namespace.
pub(crate) const SUGGESTED: &str = "operatorframework.io/suggested-namespace";
/// Annotation of the CSV that contains a Namespace as JSON, for its labels and annotations.
pub(crate) const TEMPLATE: &str = "operatorframework.io/suggested-namespace-template";
/// Marks objects that an installer may create but must never own or prune: a namespace also contains objects of users
/// (rukpak deleted it with all its content).
pub const KEEP: &str = "core.rukpak.io/keep";

/// Selects the install namespace.
pub(crate) fn choose(
    options: &Options,
    csv: Option<Csv<'_>>,
    metadata: &Metadata,
    findings: &mut Findings,
) -> String {
    let suggested = csv
        .and_then(|csv| csv.annotation(SUGGESTED))
        .filter(|name| !name.is_empty());
    let (name, place, from, remedy) = match (&options.install_namespace, suggested) {
        (Some(name), _) => (
            name.clone(),
            None,
            "the requested install namespace",
            "choose another one",
        ),
        (None, Some(name)) => (
            name.to_owned(),
            csv.map(|csv| csv.path_place(&Path::from(["metadata", "annotations", SUGGESTED]))),
            "the namespace that the CSV suggests",
            "correct the annotation operatorframework.io/suggested-namespace, or set --install-namespace",
        ),
        (None, None) => (
            format!("{}-system", metadata.package()),
            Some(
                metadata
                    .place
                    .at(&Path::from(["annotations", keys::PACKAGE])),
            ),
            "the namespace derived from the package name",
            "set the annotation operatorframework.io/suggested-namespace, or set --install-namespace",
        ),
    };
    let derives_from_nothing =
        options.install_namespace.is_none() && suggested.is_none() && metadata.package().is_empty();
    if !derives_from_nothing && let Err(problem) = names::dns_label(&name) {
        findings.error(
            Code::IllegalName,
            place,
            format!("{from}, {name:?}, is invalid: {problem}"),
            remedy,
        );
    }
    name
}

/// Returns the Namespace object with the labels and annotations of the CSV's template.
pub(crate) fn object(csv: Csv<'_>, name: &str, findings: &mut Findings) -> Value {
    // A longer annotation is rejected, because Deployments cannot contain it.
    let template = csv
        .annotation(TEMPLATE)
        .filter(|json| json.len() <= MAX_ANNOTATIONS)
        .map(serde_json::from_str::<Value>);
    let mut metadata = Map::new();
    let place = || csv.path_place(&Path::from(["metadata", "annotations", TEMPLATE]));
    match &template {
        None => {}
        Some(Err(error)) => findings.warn(
            Code::WrongShape,
            place(),
            format!("annotation {TEMPLATE:?} is not JSON ({error}); namespace {name:?} gets no labels from the annotation"),
            "set it to a Namespace object as JSON",
        ),
        Some(Ok(template)) if !template.is_object() => findings.warn(
            Code::WrongShape,
            place(),
            format!("annotation {TEMPLATE:?} is not an object; namespace {name:?} gets no labels from the annotation"),
            "set it to a Namespace object as JSON",
        ),
        Some(Ok(template)) => {
            for field in ["labels", "annotations"] {
                let texts = texts(template, field, &place(), findings);
                if !texts.is_empty() {
                    metadata.insert(field.into(), Value::Object(texts));
                }
            }
            if let Some(other) = text(template, &["metadata", "name"]).filter(|other| *other != name) {
                findings.warn(
                    Code::Namespace,
                    place(),
                    format!("annotation {TEMPLATE:?} describes namespace {other:?}; its labels are applied to {name:?}"),
                    "use the same name in operatorframework.io/suggested-namespace",
                );
            }
        }
    }
    metadata.insert("name".into(), name.into());
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    mark_keep(&mut namespace);
    namespace
}

/// Returns the labels or annotations of the template. Invalid ones are reported, and omitted or converted to strings.
fn texts(
    template: &Value,
    field: &str,
    place: &Location,
    findings: &mut Findings,
) -> Map<String, Value> {
    let mut texts = Map::new();
    let given = get_path(template, &["metadata", field]).and_then(Value::as_object);
    for (key, value) in given.into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => String::new(),
        };
        // The API server ignores case when it validates the keys of annotations.
        let checked = match field {
            "annotations" => key.to_lowercase(),
            _ => key.clone(),
        };
        let legal = names::qualified(&checked).and_then(|()| match (field, value) {
            (_, Value::Null | Value::Array(_) | Value::Object(_)) => Err("must be a string"),
            ("labels", _) => names::label_value(&text),
            _ => Ok(()),
        });
        if let Err(problem) = legal {
            let message =
                format!("{field} of the suggested namespace: {key:?} {problem}; it is dropped");
            findings.warn(
                Code::WrongShape,
                place.clone(),
                message,
                "correct it in the template",
            );
            continue;
        }
        if !value.is_string() {
            let message = format!(
                "{field} of the suggested namespace: {key:?} is {value}, used as the string {text:?}"
            );
            findings.warn(
                Code::WrongShape,
                place.clone(),
                message,
                "put the value in quotes",
            );
        }
        texts.insert(key.clone(), text.into());
    }
    texts
}

/// Copies the labels and annotations of the bundle's own Namespace to the install namespace. Existing ones take precedence.
pub(crate) fn inherit_metadata(namespace: &mut Value, shipped: &Value) {
    for field in ["labels", "annotations"] {
        if let Some(more) = get_path(shipped, &["metadata", field]).and_then(Value::as_object) {
            add_missing(child_mut(child_mut(namespace, "metadata"), field), more);
        }
    }
}

/// Marks a namespace to be kept.
pub(crate) fn mark_keep(namespace: &mut Value) {
    let annotations = child_mut(child_mut(namespace, "metadata"), "annotations");
    mapping(annotations).insert(KEEP.into(), "true".into());
}

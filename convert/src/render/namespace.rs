//! The install namespace: the caller's, else the one the CSV suggests, else `<package>-system`.

use manifests::{
    names,
    object::{add_missing, at, child, mapping, text},
    path::Path,
};
use serde_json::{Map, Value, json};

use crate::{
    budget::MAX_ANNOTATIONS,
    code::Code,
    csv::Csv,
    metadata::{Metadata, keys},
    options::Options,
    report::{Findings, Place},
};

/// The CSV annotation that suggests a namespace.
pub(crate) const SUGGESTED: &str = "operatorframework.io/suggested-namespace";
/// The CSV annotation that holds a Namespace as JSON, for its labels and annotations.
pub(crate) const TEMPLATE: &str = "operatorframework.io/suggested-namespace-template";
/// Marks objects that whoever installs the bundle may create but must never own or prune: the namespace holds what
/// users put there (rukpak deleted it with all its content).
pub const KEEP: &str = "core.rukpak.io/keep";

/// Decides the install namespace.
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
            csv.map(|csv| csv.at(&Path::from(["metadata", "annotations", SUGGESTED]))),
            "the namespace that the CSV suggests",
            "correct the annotation operatorframework.io/suggested-namespace, or give --install-namespace",
        ),
        (None, None) => (
            format!("{}-system", metadata.package()),
            Some(
                metadata
                    .place
                    .at(&Path::from(["annotations", keys::PACKAGE])),
            ),
            "the namespace made from the package name",
            "suggest one by the annotation operatorframework.io/suggested-namespace, or give --install-namespace",
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

/// The Namespace object, with the labels and annotations that the CSV's template asks for.
pub(crate) fn object(csv: Csv<'_>, name: &str, findings: &mut Findings) -> Value {
    // With a longer one the bundle is refused, as Deployments could not carry it.
    let template = csv
        .annotation(TEMPLATE)
        .filter(|json| json.len() <= MAX_ANNOTATIONS)
        .map(serde_json::from_str::<Value>);
    let mut metadata = Map::new();
    let place = || csv.at(&Path::from(["metadata", "annotations", TEMPLATE]));
    match &template {
        None => {}
        Some(Err(error)) => findings.warn(
            Code::WrongShape,
            place(),
            format!("annotation {TEMPLATE:?} is not JSON ({error}); namespace {name:?} gets no labels from it"),
            "write a Namespace object as JSON",
        ),
        Some(Ok(template)) if !template.is_object() => findings.warn(
            Code::WrongShape,
            place(),
            format!("annotation {TEMPLATE:?} is no object; namespace {name:?} gets no labels from it"),
            "write a Namespace object as JSON",
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
                    format!("annotation {TEMPLATE:?} describes namespace {other:?}; its labels go to {name:?}"),
                    "suggest the same name by operatorframework.io/suggested-namespace",
                );
            }
        }
    }
    metadata.insert("name".into(), name.into());
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    keep(&mut namespace);
    namespace
}

/// Labels or annotations of the template. What an API server would refuse is left out or mended with a word.
fn texts(
    template: &Value,
    field: &str,
    place: &Place,
    findings: &mut Findings,
) -> Map<String, Value> {
    let mut texts = Map::new();
    let given = at(template, &["metadata", field]).and_then(Value::as_object);
    for (key, value) in given.into_iter().flatten() {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => String::new(),
        };
        let legal = names::qualified(key).and_then(|()| match (field, value) {
            (_, Value::Null | Value::Array(_) | Value::Object(_)) => Err("must be a text"),
            ("labels", _) => names::label_value(&text),
            _ => Ok(()),
        });
        if let Err(problem) = legal {
            let message =
                format!("{field} of the suggested namespace: {key:?} {problem}; it is left out");
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
                "{field} of the suggested namespace: {key:?} is {value}, taken for the text {text:?}"
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

/// Gives the install namespace the labels and annotations of one that the bundle ships under the same name; what it
/// has already stays.
pub(crate) fn adopt(namespace: &mut Value, shipped: &Value) {
    for field in ["labels", "annotations"] {
        if let Some(more) = at(shipped, &["metadata", field]).and_then(Value::as_object) {
            add_missing(child(child(namespace, "metadata"), field), more);
        }
    }
}

/// Marks a namespace as one to keep.
pub(crate) fn keep(namespace: &mut Value) {
    let annotations = child(child(namespace, "metadata"), "annotations");
    mapping(annotations).insert(KEEP.into(), "true".into());
}

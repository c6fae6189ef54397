//! Deployments of the install strategy, with what OLM adds to their pods.

use manifests::{
    object::{add_missing, child, mapping, text},
    path::Path,
};
use serde_json::{Map, Value, json};

use crate::{
    code::Code,
    csv::DEPLOYMENTS,
    overlay,
    property::{self, Property},
    render::{Input, condition, pods},
    report::Findings,
};

/// All Deployments. Operators read `olm.targetNamespaces` from their own pod through the downward API, hence all
/// annotations go to the pod template, not to the Deployment (rukpak put them there).
pub(crate) fn objects(input: &Input<'_>, findings: &mut Findings) -> Vec<Value> {
    let annotations = annotations(input);
    let csv = input.csv;
    if csv.deployments().is_empty() {
        findings.warn(
            Code::NoDeployment,
            csv.at(&Path::from(DEPLOYMENTS)),
            "unable to find a deployment to install in the CSV: nothing of the bundle will run",
            "list the operator's Deployment under spec.install.spec.deployments",
        );
    }
    if is_too_much(input, &annotations, findings) {
        return Vec::new();
    }
    let mut objects = Vec::new();
    for (index, entry) in csv.deployments().iter().enumerate() {
        let mut spec = entry.get("spec").cloned().unwrap_or_else(|| json!({}));
        let reads_operator_namespace = mentions(&spec, OPERATOR_NAMESPACE);
        let own = child(
            child(child(&mut spec, "template"), "metadata"),
            "annotations",
        );
        add_missing(own, &annotations);
        let own = mapping(own);
        own.insert("olm.targetNamespaces".into(), "".into());
        if reads_operator_namespace {
            own.insert(OPERATOR_NAMESPACE.into(), input.namespace.into());
        }
        mapping(&mut spec).insert("revisionHistoryLimit".into(), 1.into());

        let mut metadata = json!({
            "name": text(entry, &["name"]).unwrap_or_default(),
            "namespace": input.namespace,
        });
        if let Some(labels) = entry
            .get("label")
            .and_then(Value::as_object)
            .filter(|labels| !labels.is_empty())
        {
            mapping(&mut metadata).insert("labels".into(), Value::Object(labels.clone()));
        }
        let mut deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": spec,
        });
        if let Some(config) = &input.options.deployment_config {
            overlay::apply(config, &mut deployment);
        }
        if input.options.operator_condition {
            condition::tell(&mut deployment, csv);
        }
        let place = csv.at(&Path::from(DEPLOYMENTS).index(index).key("spec"));
        pods::check(&deployment, &place, findings);
        objects.push(deployment);
    }
    objects
}

/// The CSV's annotations, all of them, with the bundle's properties among them.
fn annotations(input: &Input<'_>) -> Map<String, Value> {
    let mut annotations = input.csv.annotations().cloned().unwrap_or_default();
    if let Some(properties) = input.properties {
        annotations.insert(
            PROPERTIES.into(),
            property::to_annotation(properties).into(),
        );
    }
    annotations.retain(|_, value| value.is_string());
    annotations
}

/// Where OLM tells a pod in which namespace its operator was installed. Only pods that read it get it: the reference
/// renderer leaves it out, and a pod that does not look needs no restart for it.
const OPERATOR_NAMESPACE: &str = "olm.operatorNamespace";

/// Whether any text within a value contains another.
fn mentions(value: &Value, what: &str) -> bool {
    match value {
        Value::String(text) => text.contains(what),
        Value::Array(list) => list.iter().any(|value| mentions(value, what)),
        Value::Object(map) => map.values().any(|value| mentions(value, what)),
        _ => false,
    }
}

/// The CSV annotation that carries properties.
pub(crate) const PROPERTIES: &str = "olm.properties";

/// What the annotation holds once `metadata/properties.yaml` is merged into it: the CSV's own first.
pub(crate) fn merged(own: &[Property], file: &[Property]) -> Vec<Property> {
    own.iter().chain(file).cloned().collect()
}

/// What an apiserver takes for all annotations of an object together, in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;
/// What the annotations of all Deployments together may take: each gets a copy of the CSV's.
const MAX_COPIES: usize = 64 << 20;

/// Whether the CSV's annotations are more than its Deployments can carry.
fn is_too_much(
    input: &Input<'_>,
    annotations: &Map<String, Value>,
    findings: &mut Findings,
) -> bool {
    let length = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    let size: usize = annotations.iter().map(length).sum();
    let copies = size.saturating_mul(input.csv.deployments().len());
    if size <= MAX_ANNOTATIONS && copies <= MAX_COPIES {
        return false;
    }
    findings.error(
        Code::TooMany,
        input.csv.at(&Path::from(["metadata", "annotations"])),
        format!(
            "the annotations of the ClusterServiceVersion have {size} bytes, and each of {} deployments gets them; the \
             limit is {MAX_ANNOTATIONS} bytes for one and {MAX_COPIES} for all",
            input.csv.deployments().len(),
        ),
        "shorten alm-examples or other long annotations",
    );
    true
}

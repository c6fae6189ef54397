//! Deployments of the install strategy, with OLM's additions to their pods.

use manifests::{
    object::{add_missing, child_mut, get_path, mapping, text},
    path::Path,
    yaml,
};
use serde_json::{Map, Value, json};

use super::{Input, operator_condition, pod_checks};
use crate::{
    budget::{Budget, MAX_ANNOTATIONS},
    csv::DEPLOYMENTS,
    deployment_config,
    finding::{Findings, code::Code},
    property::{self, Property},
};

/// Memory of a Deployment besides its spec and the annotations of the CSV, in bytes.
const DEPLOYMENT: usize = 8 << 10;
/// Memory of a variable in a container, in bytes.
const VARIABLE: usize = 2 << 10;

/// Returns all Deployments. Operators read `olm.targetNamespaces` from their own pod through the downward API. Therefore,
/// all annotations are set on the pod template instead of the Deployment (rukpak set them there).
pub(crate) fn objects(
    input: &Input<'_>,
    deployments: Vec<Value>,
    budget: &mut Budget,
    findings: &mut Findings,
) -> Vec<Value> {
    let csv = input.csv;
    if deployments.is_empty() {
        findings.warn(
            Code::NoDeployment,
            csv.path_place(&Path::from(DEPLOYMENTS)),
            "unable to find a deployment to install in the CSV: the operator will not run",
            "list the operator's Deployment under spec.install.spec.deployments",
        );
    }
    let Some(annotations) = annotations(input, findings) else {
        return Vec::new();
    };
    let cost = Cost::new(input, &annotations);
    let mut objects = Vec::new();
    for (index, entry) in deployments.into_iter().enumerate() {
        let place = csv.path_place(&Path::from(DEPLOYMENTS).index(index).key("spec"));
        if !budget.take(cost.memory(&entry)) {
            findings.too_large(place, "one of many Deployments");
            return Vec::new();
        }
        let mut deployment = deployment(entry, &annotations, input.namespace);
        if let Some(config) = &input.options.deployment_config {
            deployment_config::apply(config, &mut deployment);
        }
        if input.options.operator_condition && operator_condition::is_valid_name(csv.name()) {
            operator_condition::set_variable(&mut deployment, csv.name());
        }
        pod_checks::check(&deployment, &place, findings);
        objects.push(deployment);
    }
    objects
}

/// Returns the Deployment for an entry of the install strategy.
fn deployment(mut entry: Value, annotations: &Map<String, Value>, namespace: &str) -> Value {
    let mut spec = entry.get_mut("spec").map_or_else(|| json!({}), Value::take);
    let reads_operator_namespace = mentions(&spec, OPERATOR_NAMESPACE);
    let own = child_mut(
        child_mut(child_mut(&mut spec, "template"), "metadata"),
        "annotations",
    );
    add_missing(own, annotations);
    let own = mapping(own);
    own.insert(TARGET_NAMESPACES.into(), "".into());
    if reads_operator_namespace || own.contains_key(OPERATOR_NAMESPACE) {
        own.insert(OPERATOR_NAMESPACE.into(), namespace.into());
    }
    mapping(&mut spec).insert("revisionHistoryLimit".into(), 1.into());

    let mut deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": text(&entry, &["name"]).unwrap_or_default(),
            "namespace": namespace,
        },
    });
    let labels = entry.get_mut("label").map(Value::take);
    if let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|l| !l.is_empty()))
    {
        mapping(child_mut(&mut deployment, "metadata")).insert("labels".into(), labels);
    }
    mapping(&mut deployment).insert("spec".into(), spec);
    deployment
}

/// Memory of Deployments.
struct Cost {
    /// Bytes for each Deployment.
    deployment: usize,
    /// Bytes for each container.
    container: usize,
}

impl Cost {
    fn new(input: &Input<'_>, annotations: &Map<String, Value>) -> Self {
        let config = input.options.deployment_config.as_ref();
        let config = config.map_or(0, |config| VARIABLE + config.memory());
        let condition = usize::from(input.options.operator_condition) * VARIABLE;
        Self {
            deployment: DEPLOYMENT + 2 * config + yaml::memory(&annotations.clone().into()),
            container: config + condition,
        }
    }

    fn memory(&self, entry: &Value) -> usize {
        let pod = get_path(entry, &["spec", "template", "spec", "containers"]);
        let containers = pod.and_then(Value::as_array).map_or(0, Vec::len);
        self.deployment + containers.saturating_mul(self.container)
    }
}

/// Returns the annotations of the CSV and the properties of the bundle, or `None` if they exceed the limit of an API
/// server. [`deployment`] sets the annotations with which OLM describes an installation.
fn annotations(input: &Input<'_>, findings: &mut Findings) -> Option<Map<String, Value>> {
    let properties = input.properties.map(property::to_annotation);
    let is_kept = |key: &str| {
        !(key == TARGET_NAMESPACES
            || key == OPERATOR_NAMESPACE
            || key == PROPERTIES && properties.is_some())
    };
    let own = input.csv.annotations().into_iter().flatten();
    let own = own.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    let all = own
        .filter(|(key, _)| is_kept(key))
        .chain(properties.as_deref().map(|json| (PROPERTIES, json)));
    let size: usize = all.clone().map(|(key, text)| key.len() + text.len()).sum();
    if size > MAX_ANNOTATIONS {
        findings.error(
            Code::TooMany,
            input.csv.path_place(&Path::from(["metadata", "annotations"])),
            format!(
                "the annotations of the ClusterServiceVersion have {size} bytes and are copied to each Deployment; the \
                 limit is {MAX_ANNOTATIONS} bytes"
            ),
            "shorten alm-examples or other long annotations",
        );
        return None;
    }
    Some(
        all.map(|(key, text)| (key.to_owned(), text.into()))
            .collect(),
    )
}

/// Annotation for the namespaces that an operator watches, as OLM sets it on pods.
const TARGET_NAMESPACES: &str = "olm.targetNamespaces";

/// Annotation for the namespace of the installation. Only pods that read it get the annotation. The newer reference
/// implementation sets it on every pod; doing the same would restart all operators when the provisioner is upgraded.
const OPERATOR_NAMESPACE: &str = "olm.operatorNamespace";

/// Reports whether any string in a value contains another string.
fn mentions(value: &Value, needle: &str) -> bool {
    match value {
        Value::String(text) => text.contains(needle),
        Value::Array(list) => list.iter().any(|value| mentions(value, needle)),
        Value::Object(map) => map.values().any(|value| mentions(value, needle)),
        _ => false,
    }
}

/// Annotation of the CSV that contains properties.
pub(crate) const PROPERTIES: &str = "olm.properties";

/// Merges the properties of `metadata/properties.yaml` into those of the annotation, which come first.
pub(crate) fn merge_properties(own: &[Property], file: &[Property]) -> Vec<Property> {
    own.iter().chain(file).cloned().collect()
}

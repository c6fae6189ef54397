//! Bundles that are built in memory.

use manifests::content::{Builder, Content, Limits};
use serde_json::{Value, json};
use unpacker::Format;

/// Returns content with these files. Values other than strings are written as JSON, which is valid YAML.
pub(crate) fn content(files: &[(&str, Value)]) -> Content {
    let mut builder = Builder::new(Limits::default());
    for (path, value) in files {
        let json = || value.to_string();
        let text = value.as_str().map_or_else(json, str::to_owned);
        builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
    }
    builder.finish()
}

pub(crate) fn archive(content: &Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    unpacker::pack(content, Format::TarGz, &mut bytes).unwrap();
    bytes
}

pub(crate) fn plain(objects: &[Value]) -> Content {
    let path = |number| format!("manifests/{number:05}.yaml");
    let paths: Vec<String> = (0..objects.len()).map(path).collect();
    let paths = paths.iter().map(String::as_str);
    let mut files: Vec<(&str, Value)> = paths.zip(objects.iter().cloned()).collect();
    files.push(plain_annotations());
    content(&files)
}

pub(crate) fn large(objects: &[Value]) -> Content {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let all = texts.join("\n---\n").into();
    content(&[("manifests/all.yaml", all), plain_annotations()])
}

/// Returns the annotations that become the labels of the image.
fn plain_annotations() -> (&'static str, Value) {
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "plain+v0",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
    }});
    ("metadata/annotations.yaml", annotations)
}

/// Returns a registry+v1 bundle: package `name`, one Deployment `<name>-operator`, permissions to read and write its own
/// API, and the CRD of that API, kind `Widget` of the group `<name>.example.com`. `more` adds or replaces files.
pub(crate) fn operator(name: &str, version: &str, more: &[(&str, Value)]) -> Content {
    let group = format!("{name}.example.com");
    let account = format!("{name}-operator");
    let rules = json!([{"apiGroups": [group], "resources": ["widgets"], "verbs": ["get", "list", "watch", "update"]}]);
    let labels = json!({"app": account});
    let mode = |kind| json!({"type": kind, "supported": kind == "AllNamespaces"});
    let modes = "OwnNamespace SingleNamespace MultiNamespace AllNamespaces".split(' ');
    let modes: Vec<Value> = modes.map(mode).collect();
    let owned = json!({"name": format!("widgets.{group}"), "version": "v1", "kind": "Widget"});
    let container = json!({"name": "operator", "image": format!("example.com/{name}:v{version}")});
    let pod = json!({"serviceAccountName": account, "containers": [container]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v{version}")},
        "spec": {
            "displayName": name, "version": version, "installModes": modes,
            "customresourcedefinitions": {"owned": [owned]},
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{"serviceAccountName": account, "rules": rules}],
                "deployments": [{"name": account, "spec": spec}],
            }},
        },
    });
    let mut files = Vec::from(tests::rows![
        "manifests/csv.yaml" => csv;
        "manifests/crd.yaml" => crd(&group, "Widget");
        "metadata/annotations.yaml" => tests::registry_annotations(name, "stable");
    ]);
    files.retain(|(path, _)| more.iter().all(|(other, _)| other != path));
    files.extend(more.iter().cloned());
    content(&files)
}

/// Returns a namespaced CRD with one version, `v1`, whose objects have a `spec.size` and a status.
pub(crate) fn crd(group: &str, kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// Returns the CRD of OperatorConditions. Where they are served, the Deployment of an operator names its OperatorCondition.
pub(crate) fn operator_conditions() -> Value {
    let mut crd = crd("operators.coreos.com", "OperatorCondition");
    crd["spec"]["versions"][0]["name"] = json!("v2");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    crd
}

pub(crate) fn config_map(namespace: &str, name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
        "data": {"text": text},
    })
}

//! The bundles that are installed.

#[allow(dead_code, reason = "shared with the tests, which need more")]
#[path = "../../tests/controllers/support/bundles.rs"]
mod shared;

use manifests::content::Content;
use serde_json::{Value, json};
use tests::{Registry, corpus};
use unpacker::{
    Access,
    access::{Trust, Verify},
    registry::BundleImage,
};

pub(crate) use self::shared::plain;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    Plain,
    Registry,
}

/// A bundle that was pushed to a registry.
#[derive(Debug, Clone)]
pub(crate) struct Bundle {
    /// Name of its BundleInstance.
    pub(crate) name: String,
    pub(crate) class: Class,
    pub(crate) image: String,
}

/// Pushes content to the registry.
pub(crate) async fn push(
    registry: &Registry,
    name: &str,
    class: Class,
    content: &Content,
) -> Bundle {
    let image = registry.image(&format!("{name}:v1"));
    let trust = ::tests::with!(Trust, verify: Verify::Never);
    let access = ::tests::with!(Access, trust);
    let bundle = BundleImage::new(content).unwrap();
    let reference = image.parse().unwrap();
    let pushed = unpacker::registry::push(&reference, &bundle, &access).await;
    pushed.unwrap();
    Bundle {
        name: name.to_owned(),
        class,
        image,
    }
}

/// Returns the real bundles that can be converted, or generated operators if none exist.
pub(crate) fn fifty() -> (Vec<(String, Content)>, String) {
    let Some(corpus) = corpus() else {
        let names = (0..50).map(|number| format!("made-{number}"));
        let generated = names.map(|name| (name.clone(), operator(&name)));
        let description = "50 generated bundles (RUKPAK_CORPUS names a directory of real ones)";
        return (generated.collect(), description.to_owned());
    };
    let cases = corpus.cases().filter(|case| case.outcome == "converted");
    let read = cases.enumerate().map(|(number, case)| {
        let name = case.bundle.to_lowercase().replace(['.', '_', '+'], "-");
        let name: String = name.chars().take(36).collect();
        let options = unpacker::Options::default();
        let content = unpacker::open(&corpus.bundle(case), &options)
            .unwrap()
            .content;
        (format!("{}-{number}", name.trim_end_matches('-')), content)
    });
    let read: Vec<_> = read.collect();
    let description = format!("{} real bundles", read.len());
    (read, description)
}

/// Returns an operator: a Deployment, its ServiceAccount, permissions for its own API, and the CRD of that API.
pub(crate) fn operator(name: &str) -> Content {
    shared::operator(name, "1.0.0", &[])
}

/// Returns a ConfigMap as a bundle declares it.
pub(crate) fn config_map(namespace: &str, name: &str) -> Value {
    shared::config_map(namespace, name, "as declared")
}

pub(crate) fn deployment(namespace: &str, name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "operator", "image": "example.com/operator:v1"}]},
            },
        },
    })
}

/// Returns the twenty objects of an operator without CRDs.
pub(crate) fn twenty(namespace: &str, name: &str) -> Vec<Value> {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
    let mut objects = vec![
        deployment(namespace, name),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 443}]},
        }),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}),
    ];
    for (kind, number) in [("ClusterRole", 0), ("Role", 0), ("Role", 1)] {
        let mut metadata = json!({"name": format!("{name}-{number}")});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]});
        if kind == "Role" {
            metadata["namespace"] = namespace.into();
        }
        let version = "rbac.authorization.k8s.io/v1";
        objects.push(
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
        );
        objects.push(json!({
            "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": role, "subjects": subjects,
        }));
    }
    let left = 20 - objects.len();
    objects.extend((0..left).map(|number| config_map(namespace, &format!("{name}-{number}"))));
    objects
}

//! The bundles that are installed.

use manifests::content::{Builder, Content, Limits};
use serde_json::{Value, json};
use tests::{Registry, corpus};
use unpacker::{
    Access,
    access::{Trust, Verify},
    registry::BundleImage,
};

/// Bundle format.
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
    /// Image reference.
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
    let access = Access {
        trust: Trust {
            verify: Verify::Never,
            ..Trust::default()
        },
        ..Access::default()
    };
    let bundle = BundleImage::new(content).unwrap();
    unpacker::registry::push(&image.parse().unwrap(), &bundle, &access)
        .await
        .unwrap();
    Bundle {
        name: name.to_owned(),
        class,
        image,
    }
}

/// Returns the real bundles that can be converted, or generated operators if there are none.
pub(crate) fn fifty() -> (Vec<(String, Content)>, String) {
    let Some(corpus) = corpus() else {
        let generated = (0..50).map(|number| {
            let name = format!("made-{number}");
            let content = operator(&name);
            (name, content)
        });
        let description = "50 made-up bundles (RUKPAK_CORPUS names a folder of real ones)";
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
    let group = format!("{name}.example.com");
    let account = format!("{name}-operator");
    let labels = json!({"app": account});
    let rules = json!([{"apiGroups": [group], "resources": ["widgets"], "verbs": ["get", "list", "watch", "update"]}]);
    let modes = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ]
    .map(|mode| json!({"type": mode, "supported": mode == "AllNamespaces"}));
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v1.0.0")},
        "spec": {
            "displayName": name, "version": "1.0.0", "installModes": modes,
            "customresourcedefinitions": {"owned": [
                {"name": format!("widgets.{group}"), "version": "v1", "kind": "Widget"},
            ]},
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{"serviceAccountName": account, "rules": rules}],
                "deployments": [{"name": account, "spec": {
                    "replicas": 1, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {
                        "serviceAccountName": account,
                        "containers": [{"name": "operator", "image": format!("example.com/{name}:v1")}],
                    }},
                }}],
            }},
        },
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                }}},
            }],
        },
    });
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": name,
        "operators.operatorframework.io.bundle.channels.v1": "stable",
        "operators.operatorframework.io.bundle.channel.default.v1": "stable",
    }});
    content(&[
        ("manifests/csv.yaml".to_owned(), csv),
        ("manifests/crd.yaml".to_owned(), crd),
        ("metadata/annotations.yaml".to_owned(), annotations),
    ])
}

/// Returns a plain bundle with these objects.
pub(crate) fn plain(objects: Vec<Value>) -> Content {
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "plain+v0",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
    }});
    let objects = objects.into_iter().enumerate();
    let mut files: Vec<_> = objects
        .map(|(number, object)| (format!("manifests/{number:03}.yaml"), object))
        .collect();
    files.push(("metadata/annotations.yaml".to_owned(), annotations));
    content(&files)
}

fn content(files: &[(String, Value)]) -> Content {
    let mut builder = Builder::new(Limits::default());
    for (path, value) in files {
        let text = value.to_string();
        builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
    }
    builder.finish()
}

pub(crate) fn config_map(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
        "data": {"text": "as declared"},
    })
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
    let rbac = |kind: &str, number: usize, namespaced: bool| {
        let mut metadata = json!({"name": format!("{name}-{number}")});
        if namespaced {
            metadata["namespace"] = namespace.into();
        }
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata})
    };
    let role = |kind: &str, number, namespaced| {
        let mut role = rbac(kind, number, namespaced);
        role["rules"] = rules.clone();
        role
    };
    let binding = |kind: &str, number, namespaced| {
        let mut binding = rbac(&format!("{kind}Binding"), number, namespaced);
        binding["roleRef"] = json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": format!("{name}-{number}"),
        });
        binding["subjects"] = subjects.clone();
        binding
    };
    let mut objects = vec![
        deployment(namespace, name),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 443}]},
        }),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}),
        role("ClusterRole", 0, false),
        binding("ClusterRole", 0, false),
    ];
    for number in 0..2 {
        objects.push(role("Role", number, true));
        objects.push(binding("Role", number, true));
    }
    let left = 20 - objects.len();
    objects.extend((0..left).map(|number| config_map(namespace, &format!("{name}-{number}"))));
    objects
}

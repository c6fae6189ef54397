//! Bundles of operators that run on the node.

use std::{path::Path, process::Command};

use cluster::node;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::documents::output;

/// A version of an operator: its package `name` has the API `widgets.NAME.example.com` and one Deployment, `NAME-operator`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operator<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) image: &'a str,
    /// Flags that make the operator fail.
    pub(crate) flags: &'a [&'a str],
}

/// An image that exists in the registry.
pub(crate) const IMAGE: &str = "quay.io/tidewatch/operator:v1.4.0";

impl<'a> Operator<'a> {
    /// Returns a version that works.
    pub(crate) fn new(name: &'a str, version: &'a str) -> Self {
        Self {
            name,
            version,
            image: IMAGE,
            flags: &[],
        }
    }

    /// Returns the bundle's image in the registry of the cluster, which the provisioner's pod and the node reach.
    pub(crate) fn reference(&self) -> String {
        format!("{}/bundles/{}:v{}", node::REGISTRY, self.name, self.version)
    }

    pub(crate) fn push(&self) -> String {
        let reference = self.reference();
        push(self.dir().path(), &reference, &[]);
        reference
    }

    pub(crate) fn dir(&self) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, content: Value| {
            tests::write(dir.path(), path, content.to_string());
        };
        write("manifests/csv.yaml", self.csv());
        write("manifests/crd.yaml", self.crd());
        let annotations = tests::registry_annotations(self.name, "stable");
        write("metadata/annotations.yaml", annotations);
        dir
    }

    fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    fn csv(&self) -> Value {
        let operator = format!("{}-operator", self.name);
        let labels = json!({"app": operator});
        let mut args = vec![format!("--list=/apis/{}/v1/widgets", self.group())];
        args.extend(self.flags.iter().map(|flag| (*flag).to_owned()));
        let rules =
            json!([{"apiGroups": [self.group()], "resources": ["widgets"], "verbs": ["list"]}]);
        let container = json!({
            "name": "operator", "image": self.image, "args": args,
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}, "periodSeconds": 1},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        });
        let pod = json!({
            "serviceAccountName": operator, "containers": [container], "terminationGracePeriodSeconds": 5,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        });
        // Tests of operators that never become ready wait for the deadline.
        let becomes_ready = self.image == IMAGE && self.flags.is_empty();
        let deployment = json!({
            "replicas": 1, "progressDeadlineSeconds": if becomes_ready { 300 } else { 10 },
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod},
        });
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("{}.v{}", self.name, self.version)},
            "spec": {
                "displayName": self.name, "version": self.version,
                "installModes": [{"type": "AllNamespaces", "supported": true}],
                "customresourcedefinitions": {"owned": [
                    {"name": format!("widgets.{}", self.group()), "version": "v1", "kind": "Widget"},
                ]},
                "install": {"strategy": "deployment", "spec": {
                    "clusterPermissions": [{"serviceAccountName": operator, "rules": rules}],
                    "deployments": [{"name": operator, "spec": deployment}],
                }},
            },
        })
    }

    fn crd(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{}", self.group())},
            "spec": {
                "group": self.group(), "scope": "Namespaced",
                "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        })
    }
}

/// Pushes a bundle's directory with `rukpak push`, and returns the image's reference by digest.
pub(crate) fn push(dir: &Path, image: &str, flags: &[&str]) -> String {
    let place = [dir.to_str().unwrap(), image];
    let args = [&["push", "--quiet", "--tls-verify=false"], flags, &place].concat();
    rukpak(&args).trim_end().to_owned()
}

pub(crate) fn rukpak(args: &[&str]) -> String {
    output(Command::new("rukpak").args(args))
}

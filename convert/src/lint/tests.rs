//! Every rule, triggered by one change to a bundle without findings.
//!
//! A problem that prevents the conversion is a separate error.

mod bundle;
mod crds;
mod csv;
mod objects;
mod properties;

use serde_json::{Value, json};

use crate::{
    Finding, Level, Options, plain,
    testing::{ANNOTATIONS, Bundle, CRD, CSV, pointers},
    validate,
};

impl Bundle {
    /// A small bundle without findings.
    fn good() -> Self {
        let image = "example.com/etcd@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let example =
            r#"[{"apiVersion": "example.com/v1", "kind": "Etcd", "metadata": {"name": "a"}}]"#;
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "etcd.v1.2.3", "annotations": {
                "alm-examples": example, "capabilities": "Basic Install", "categories": "Database, Storage",
            }},
            "spec": {
                "displayName": "etcd", "version": "1.2.3", "replaces": "etcd.v1.2.2", "minKubeVersion": "1.25.0",
                "provider": {"name": "Example"}, "maintainers": [{"name": "Team", "email": "team@example.com"}],
                "links": [{"name": "Home", "url": "https://example.com"}],
                "icon": [{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}],
                "relatedImages": [{"name": "etcd", "image": image}],
                "installModes": [{"type": "OwnNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true}],
                "customresourcedefinitions": {"owned": [{
                    "name": "etcds.example.com", "kind": "Etcd", "version": "v1", "description": "A cluster",
                }]},
                "install": {"strategy": "deployment", "spec": {
                    "deployments": [{"name": "etcd", "spec": {
                        "selector": {"matchLabels": {"app": "etcd"}},
                        "template": {"metadata": {"labels": {"app": "etcd"}}, "spec": {
                            "serviceAccountName": "etcd",
                            "containers": [{"name": "manager", "image": image, "resources": {"requests": {
                                "cpu": "10m", "memory": "64Mi",
                            }}}],
                        }},
                    }}],
                    "clusterPermissions": [{"serviceAccountName": "etcd", "rules": [{
                        "apiGroups": ["example.com"], "resources": ["etcds"], "verbs": ["get", "list", "watch"],
                    }]}],
                }},
            },
        });
        let files = Self::default().file(CSV, csv);
        let files = files.file(CRD, crd("etcds", "Etcd"));
        files.file(ANNOTATIONS, ::tests::registry_annotations("etcd", "stable"))
    }

    fn annotation(self, key: &str, value: &str) -> Self {
        self.csv(&format!("/metadata/annotations/{key}"), value.into())
    }

    /// Returns the findings beyond those of the conversion, such as `CSVName manifests/csv.yaml (metadata.name)`. Long
    /// prefixes in a path become `…`.
    fn advice(&self, options: &Options) -> String {
        let content = self.content();
        let converted = plain(&content, options).report.findings;
        let mut advice = validate(&content, options).findings;
        for finding in converted {
            let at = advice.iter().position(|advice| *advice == finding);
            advice.remove(at.expect("the findings of the conversion are kept"));
        }
        let brief = |finding: &Finding| {
            assert_eq!(finding.level, Level::Warning, "{finding}");
            assert_rows!(finding.remedy.as_ref().is_some_and(|remedy| !remedy.is_empty()) => true, "{finding}");
            let place = finding.location.as_ref().map(ToString::to_string);
            let text = format!("{} {}", finding.code, place.unwrap_or_default());
            text.trim_end().to_owned()
        };
        let advice: Vec<String> = advice.iter().map(brief).collect();
        let advice = advice.join(", ");
        let advice = advice.replace("operators.operatorframework.io.bundle.", "…");
        advice.replace("spec.install.spec.", "…")
    }
}

fn csv(pointer: &str, value: impl Into<Value>) -> Bundle {
    Bundle::good().csv(pointer, value.into())
}

fn crd(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

/// Compares the findings of changed bundles with a text, in the order of the report. No finding prevents the conversion,
/// because all are warnings.
fn check<'a>(cases: impl IntoIterator<Item = (Bundle, &'a str)>) {
    for (at, (bundle, expected)) in cases.into_iter().enumerate() {
        assert_rows!(bundle.advice(&Options::default()) => expected, "case {at}");
    }
}

// parity: check-24
#[test]
fn valid_bundle_has_no_findings() {
    let content = Bundle::good().content();
    assert_eq!(validate(&content, &Options::default()).findings, []);
    assert!(plain(&content, &Options::default()).objects.is_some());
}

/// Every value of every file is replaced once; the validation must not panic.
#[test]
fn hostile_shapes_do_not_panic() {
    let mut bundle = Bundle::good();
    for (file, value) in ::tests::rows![
        "manifests/service.yaml"
            => json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"selector": {"app": "x"}}});
        "manifests/pdb.yaml" => json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": {"maxUnavailable": 0},
        });
        "manifests/binding.yaml" => json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "a"}, "roleRef": {},
            "subjects": [{"kind": "ServiceAccount", "name": "etcd", "namespace": "other"}],
        });
        "metadata/dependencies.yaml" => json!({"dependencies": [{"type": "olm.constraint", "value": {"all": {"constraints": [
            {"gvk": {"group": "a", "version": "v1", "kind": "A"}},
        ]}}}]});
        "metadata/properties.yaml"
            => json!({"properties": [{"type": "olm.package", "value": {"packageName": "a", "version": "1"}}]});
    ] {
        bundle = bundle.file(file, value);
    }
    let hostile = json!([null, true, -1, "", "é.x", [null, {}], {"": [1]}]);
    for file in bundle.0.keys() {
        for pointer in pointers(&bundle.json(file)) {
            for value in hostile.as_array().unwrap() {
                let hostile = bundle.clone().set(file, &pointer, value.clone());
                validate(&hostile.content(), &Options::default());
            }
        }
    }
}

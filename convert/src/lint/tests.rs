//! Every rule, by one change to a bundle that nothing can be said against.
//!
//! What keeps a bundle from being converted is an error of its own.

mod bundle;
mod csv;
mod definitions;
mod objects;
mod owned;
mod properties;

use std::collections::BTreeMap;

use manifests::content::{Builder, Content, Limits};
use serde_json::{Value, json};

use crate::{Code, Finding, Level, Options, plain, tests::pointers, validate};

/// A bundle in the making: its files by path.
#[derive(Clone)]
struct Bundle(BTreeMap<String, File>);

#[derive(Clone)]
enum File {
    Json(Value),
    Text(String),
}

const CSV: &str = "manifests/csv.yaml";
const CRD: &str = "manifests/crd.yaml";
const ANNOTATIONS: &str = "metadata/annotations.yaml";
const UNSERVED: &str = "manifests/csv.yaml (spec.customresourcedefinitions.owned[0].version)";

impl Bundle {
    /// Small, and beyond reproach.
    fn good() -> Self {
        let image = "example.com/etcd@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let example =
            json!([{"apiVersion": "example.com/v1", "kind": "Etcd", "metadata": {"name": "a"}}])
                .to_string();
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
                "installModes": [
                    {"type": "OwnNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true},
                ],
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
        let annotations = json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": "etcd",
            "operators.operatorframework.io.bundle.channels.v1": "stable",
            "operators.operatorframework.io.bundle.channel.default.v1": "stable",
        }});
        Self(BTreeMap::new())
            .file(CSV, csv)
            .file(CRD, crd("etcds", "Etcd"))
            .file(ANNOTATIONS, annotations)
    }

    fn file(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.into(), File::Json(value));
        self
    }

    fn text(mut self, name: &str, text: impl Into<String>) -> Self {
        self.0.insert(name.into(), File::Text(text.into()));
        self
    }

    /// Sets a value below one that exists. The position `-` is behind the last one of a list.
    fn set(mut self, file: &str, pointer: &str, new: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match self.json(file).pointer_mut(parent).unwrap() {
            Value::Array(list) if key == "-" => list.push(new),
            Value::Array(list) => list[key.parse::<usize>().unwrap()] = new,
            parent => parent[key.replace("~1", "/")] = new,
        }
        self
    }

    fn remove(mut self, file: &str, pointer: &str) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = self.json(file).pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(key).unwrap();
        self
    }

    /// Sets a value of the CSV.
    fn csv(self, pointer: &str, new: Value) -> Self {
        self.set(CSV, pointer, new)
    }

    /// Sets an annotation of the CSV.
    fn annotation(self, key: &str, value: &str) -> Self {
        self.csv(&format!("/metadata/annotations/{key}"), value.into())
    }

    fn json(&mut self, file: &str) -> &mut Value {
        match self.0.get_mut(file) {
            Some(File::Json(value)) => value,
            _ => panic!("{file} is not JSON"),
        }
    }

    fn content(&self) -> Content {
        let mut files = Builder::new(Limits::default());
        for (name, file) in &self.0 {
            let text = match file {
                File::Json(value) => value.to_string(),
                File::Text(text) => text.clone(),
            };
            files.add(name, 0o644, &mut text.as_bytes()).unwrap();
        }
        files.finish()
    }

    /// What is said beyond the conversion's own findings: codes and places.
    fn advice(&self, options: &Options) -> Vec<(Code, String)> {
        let content = self.content();
        let known = plain(&content, options).report.findings;
        let mut advice = validate(&content, options).findings;
        for finding in known {
            let at = advice.iter().position(|advice| *advice == finding);
            advice.remove(at.expect("the conversion's findings stay"));
        }
        let brief = |finding: Finding| {
            assert_eq!(finding.level, Level::Warning, "{finding}");
            let has_remedy = finding
                .remedy
                .as_ref()
                .is_some_and(|remedy| !remedy.is_empty());
            assert!(has_remedy, "{finding}");
            let place = finding.place.map(|place| place.to_string());
            (finding.code, place.unwrap_or_default())
        };
        advice.into_iter().map(brief).collect()
    }
}

fn crd(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
            ],
        },
    })
}

/// A change, and what it has to bring up, in the report's order.
type Case = (Bundle, &'static [(Code, &'static str)]);

fn check(cases: impl IntoIterator<Item = Case>) {
    for (at, (bundle, expected)) in cases.into_iter().enumerate() {
        let found = bundle.advice(&Options::default());
        let found: Vec<_> = found
            .iter()
            .map(|(code, place)| (*code, &**place))
            .collect();
        assert_eq!(found, expected, "case {at}");
    }
}

// parity: check-24
#[test]
fn nothing_is_said_against_a_good_bundle() {
    let content = Bundle::good().content();
    assert_eq!(validate(&content, &Options::default()).findings, []);
    assert!(plain(&content, &Options::default()).objects.is_some());
}

#[test]
fn advice_does_not_keep_a_bundle_from_being_converted() {
    let bundle = Bundle::good()
        .csv("/spec/icon", json!([]))
        .csv("/spec/provider", json!({}));
    let report = validate(&bundle.content(), &Options::default());
    assert!(report.refusals().next().is_none());
    assert_eq!(report.of(Level::Warning).count(), 2);
}

#[test]
fn advice_knows_its_line() {
    let text = "kind: PodDisruptionBudget\napiVersion: policy/v1\nmetadata: {name: a}\nspec:\n  maxUnavailable: 0\n";
    let content = Bundle::good().text("manifests/pdb.yaml", text).content();
    let mut report = validate(&content, &Options::default());
    report.locate(&content);
    let places = report
        .findings
        .iter()
        .filter_map(|finding| finding.place.as_ref());
    let expected = [Some(5)];
    assert_eq!(places.map(|place| place.line).collect::<Vec<_>>(), expected);
}

/// Every value of every file becomes something else once; nothing may panic.
#[test]
fn hostile_shapes_are_survived() {
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
    for file in bundle.0.clone().keys() {
        let original = bundle.json(file).clone();
        for pointer in pointers(&original) {
            for value in hostile.as_array().unwrap() {
                *bundle.json(file).pointer_mut(&pointer).unwrap() = value.clone();
                validate(&bundle.content(), &Options::default());
                *bundle.json(file) = original.clone();
            }
        }
    }
}

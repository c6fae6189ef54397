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

use crate::{Code, Level, Options, plain, validate};

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

impl Bundle {
    /// Small, and beyond reproach.
    fn good() -> Self {
        let image = "example.com/etcd@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let example =
            json!([{"apiVersion": "example.com/v1", "kind": "Etcd", "metadata": {"name": "a"}}])
                .to_string();
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "etcd.v1.2.3", "annotations": {
                "alm-examples": example, "capabilities": "Basic Install", "categories": "Database, Storage",
            }},
            "spec": {
                "displayName": "etcd",
                "version": "1.2.3",
                "replaces": "etcd.v1.2.2",
                "minKubeVersion": "1.25.0",
                "provider": {"name": "Example"},
                "maintainers": [{"name": "Team", "email": "team@example.com"}],
                "links": [{"name": "Home", "url": "https://example.com"}],
                "icon": [{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}],
                "relatedImages": [{"name": "etcd", "image": image}],
                "installModes": [
                    {"type": "OwnNamespace", "supported": false},
                    {"type": "AllNamespaces", "supported": true},
                ],
                "customresourcedefinitions": {"owned": [
                    {"name": "etcds.example.com", "kind": "Etcd", "version": "v1", "description": "A cluster"},
                ]},
                "install": {"strategy": "deployment", "spec": {
                    "deployments": [{"name": "etcd", "spec": {
                        "selector": {"matchLabels": {"app": "etcd"}},
                        "template": {"metadata": {"labels": {"app": "etcd"}}, "spec": {
                            "serviceAccountName": "etcd",
                            "containers": [{
                                "name": "manager",
                                "image": image,
                                "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
                            }],
                        }},
                    }}],
                    "clusterPermissions": [{"serviceAccountName": "etcd", "rules": [
                        {"apiGroups": ["example.com"], "resources": ["etcds"], "verbs": ["get", "list", "watch"]},
                    ]}],
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
            parent => drop(
                parent
                    .as_object_mut()
                    .unwrap()
                    .insert(key.replace("~1", "/"), new),
            ),
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
        let report = validate(&content, options);
        assert!(
            known
                .iter()
                .all(|finding| report.findings.contains(finding)),
            "the conversion's findings stay"
        );
        let advice = report
            .findings
            .into_iter()
            .filter(|finding| !known.contains(finding));
        advice
            .map(|finding| {
                assert_eq!(finding.level, Level::Warning, "{finding}");
                assert!(
                    finding.remedy.is_some_and(|remedy| !remedy.is_empty()),
                    "{}",
                    finding.message
                );
                (
                    finding.code,
                    finding
                        .place
                        .map(|place| place.to_string())
                        .unwrap_or_default(),
                )
            })
            .collect()
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
        let expected: Vec<_> = expected
            .iter()
            .map(|(code, place)| (*code, (*place).to_owned()))
            .collect();
        assert_eq!(bundle.advice(&Options::default()), expected, "case {at}");
    }
}

// parity: check-24
#[test]
fn nothing_is_said_against_a_good_bundle() {
    let content = Bundle::good().content();
    let report = validate(&content, &Options::default());
    assert_eq!(report.findings, []);
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
    let places: Vec<_> = report
        .findings
        .iter()
        .filter_map(|finding| finding.place.as_ref()?.line)
        .collect();
    assert_eq!(places, [5]);
}

/// Every value of every file becomes something else once; nothing may panic.
#[test]
fn hostile_shapes_are_survived() {
    let mut bundle = Bundle::good()
        .file("manifests/service.yaml", json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"selector": {"app": "x"}}}))
        .file("manifests/pdb.yaml", json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": {"maxUnavailable": 0}}))
        .file("manifests/binding.yaml", json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "a"}, "roleRef": {}, "subjects": [{"kind": "ServiceAccount", "name": "etcd", "namespace": "other"}]}))
        .file("metadata/dependencies.yaml", json!({"dependencies": [{"type": "olm.constraint", "value": {"all": {"constraints": [{"gvk": {"group": "a", "version": "v1", "kind": "A"}}]}}}]}))
        .file("metadata/properties.yaml", json!({"properties": [{"type": "olm.package", "value": {"packageName": "a", "version": "1"}}]}));
    let files: Vec<String> = bundle.0.keys().cloned().collect();
    for file in files {
        let original = bundle.json(&file).clone();
        let mut pointers = Vec::new();
        collect(&original, String::new(), &mut pointers);
        for pointer in pointers {
            for hostile in [
                json!(null),
                json!(true),
                json!(-1),
                json!(""),
                json!("é.x"),
                json!([null, {}]),
                json!({"": [1]}),
            ] {
                *bundle.json(&file).pointer_mut(&pointer).unwrap() = hostile;
                validate(&bundle.content(), &Options::default());
                *bundle.json(&file) = original.clone();
            }
        }
    }
}

fn collect(value: &Value, pointer: String, pointers: &mut Vec<String>) {
    match value {
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                collect(value, format!("{pointer}/{at}"), pointers);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('/', "~1");
                collect(value, format!("{pointer}/{key}"), pointers);
            }
        }
        _ => {}
    }
    pointers.push(pointer);
}

//! A small good bundle to start from: each test changes one thing.

use std::collections::BTreeMap;

use convert::{Code, Conversion, Options, Place};
use manifests::content::{Builder, Content, Limits};
use serde_json::{Value, json};

pub(crate) const CSV: &str = "manifests/tide.clusterserviceversion.yaml";
pub(crate) const CRD: &str = "manifests/tides.crd.yaml";
pub(crate) const ANNOTATIONS: &str = "metadata/annotations.yaml";

#[derive(Debug, Clone)]
pub(crate) struct Bundle {
    pub(crate) csv: Value,
    pub(crate) crd: Value,
    pub(crate) files: BTreeMap<String, String>,
}

impl Bundle {
    /// A bundle without a single finding that is not a change.
    pub(crate) fn good() -> Self {
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {"name": "tide.v1.4.0", "annotations": {"alm-examples": "[]", "support": ""}},
            "spec": {
                "version": "1.4.0",
                "replaces": "tide.v1.3.0",
                "skips": ["tide.v1.3.1"],
                "minKubeVersion": "1.25.0",
                "installModes": [
                    {"type": "OwnNamespace", "supported": false},
                    {"type": "AllNamespaces", "supported": true},
                ],
                "customresourcedefinitions": {
                    "owned": [{"name": "tides.sea.example.com", "version": "v1", "kind": "Tide"}],
                    "required": [{"name": "moons.sky.example.com", "version": "v1", "kind": "Moon"}],
                },
                "relatedImages": [{"name": "gauge", "image": "quay.io/example/gauge:v1"}],
                "install": {"strategy": "deployment", "spec": {
                    "permissions": [{
                        "serviceAccountName": "tide",
                        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
                    }],
                    "clusterPermissions": [{
                        "serviceAccountName": "tide",
                        "rules": [{"apiGroups": ["sea.example.com"], "resources": ["tides"], "verbs": ["*"]}],
                    }],
                    "deployments": [{
                        "name": "tide-operator",
                        "label": {"part": "operator"},
                        "spec": {
                            "replicas": 1,
                            "selector": {"matchLabels": {"app": "tide"}},
                            "template": {
                                "metadata": {"labels": {"app": "tide"}, "annotations": {"support": "own"}},
                                "spec": {
                                    "serviceAccountName": "tide",
                                    "containers": [{
                                        "name": "manager",
                                        "image": "quay.io/example/tide:v1.4.0",
                                        "env": [{"name": "EMPTY", "value": ""}],
                                        "resources": {"requests": {"cpu": 1}},
                                    }],
                                },
                            },
                        },
                    }],
                }},
            },
        });
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "tides.sea.example.com", "creationTimestamp": null},
            "spec": {
                "group": "sea.example.com",
                "names": {"plural": "tides", "singular": "tide", "kind": "Tide", "listKind": "TideList"},
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
                }],
            },
            "status": {"conditions": []},
        });
        let annotations = "annotations:\n  \
            operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
            operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
            operators.operatorframework.io.bundle.metadata.v1: metadata/\n  \
            operators.operatorframework.io.bundle.package.v1: tide\n  \
            operators.operatorframework.io.bundle.channels.v1: stable,fast\n  \
            operators.operatorframework.io.bundle.channel.default.v1: stable\n";
        Self {
            csv,
            crd,
            files: BTreeMap::from([(ANNOTATIONS.to_owned(), annotations.to_owned())]),
        }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn file(mut self, path: &str, text: impl Into<String>) -> Self {
        self.files.insert(path.to_owned(), text.into());
        self
    }

    /// Replaces a value of the CSV by its JSON pointer; the way to it is made when it is missing.
    pub(crate) fn csv(mut self, pointer: &str, value: Value) -> Self {
        let mut at = &mut self.csv;
        for key in pointer.split('/').skip(1) {
            at = match key.parse::<usize>() {
                Ok(index) => &mut at[index],
                Err(_) => &mut at[key.replace("~1", "/")],
            };
        }
        *at = value;
        self
    }

    pub(crate) fn content(&self) -> Content {
        let mut files = Builder::new(Limits::default());
        let mut all = self.files.clone();
        all.entry(CSV.to_owned())
            .or_insert_with(|| self.csv.to_string());
        all.entry(CRD.to_owned())
            .or_insert_with(|| self.crd.to_string());
        for (path, text) in all.iter().filter(|(_, text)| *text != REMOVED) {
            files.add(path, 0o644, &mut text.as_bytes()).unwrap();
        }
        files.finish()
    }

    pub(crate) fn convert(&self) -> Conversion {
        self.convert_with(&Options::default())
    }

    pub(crate) fn convert_with(&self, options: &Options) -> Conversion {
        convert::plain(&self.content(), options)
    }
}

/// As a file's text: the file is not there.
pub(crate) const REMOVED: &str = "\0removed";

/// Code, file and JSON path of each finding of one level.
pub(crate) fn findings(
    conversion: &Conversion,
    level: convert::Level,
) -> Vec<(Code, String, String)> {
    let place = |place: &Place| (place.file.clone(), place.path.to_string());
    conversion
        .report
        .of(level)
        .map(|finding| {
            let (file, path) = finding.place.as_ref().map(place).unwrap_or_default();
            (finding.code, file, path)
        })
        .collect()
}

/// The object of that kind and name.
pub(crate) fn object<'a>(conversion: &'a Conversion, kind: &str, name: &str) -> &'a Value {
    conversion
        .objects
        .as_ref()
        .unwrap_or_else(|| {
            panic!(
                "refused: {:?}",
                conversion
                    .report
                    .refusals()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
            )
        })
        .iter()
        .find(|object| object.kind() == kind && object.name() == name)
        .unwrap_or_else(|| panic!("no {kind} {name}"))
        .value()
}

/// The objects in their order, as people speak of them.
pub(crate) fn names(conversion: &Conversion) -> Vec<String> {
    conversion
        .objects
        .as_ref()
        .unwrap()
        .iter()
        .map(|object| object.identity().to_string())
        .collect()
}

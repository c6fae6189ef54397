//! A small valid bundle; each test changes one part of it.

use super::*;

pub(crate) const EXTRA: &str = "manifests/x.yaml";
pub(crate) const DEPLOYMENTS: &str = "/spec/install/spec/deployments";

impl Bundle {
    /// Returns a bundle whose only findings are changes.
    pub(crate) fn good() -> Self {
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "tide.v1.4.0", "annotations": {"alm-examples": "[]", "support": ""}},
            "spec": {
                "version": "1.4.0", "replaces": "tide.v1.3.0", "skips": ["tide.v1.3.1"], "minKubeVersion": "1.25.0",
                "installModes": [{"type": "OwnNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true}],
                "customresourcedefinitions": {
                    "owned": [{"name": "tides.sea.example.com", "version": "v1", "kind": "Tide"}],
                    "required": [{"name": "moons.sky.example.com", "version": "v1", "kind": "Moon"}],
                },
                "relatedImages": [{"name": "gauge", "image": "quay.io/example/gauge:v1"}],
                "install": {"strategy": "deployment", "spec": {
                    "permissions": [{"serviceAccountName": "tide", "rules": [{
                        "apiGroups": [""], "resources": ["pods"], "verbs": ["get"],
                    }]}],
                    "clusterPermissions": [{"serviceAccountName": "tide", "rules": [{
                        "apiGroups": ["sea.example.com"], "resources": ["tides"], "verbs": ["*"],
                    }]}],
                    "deployments": [{"name": "tide-operator", "label": {"part": "operator"}, "spec": {
                        "replicas": 1, "selector": {"matchLabels": {"app": "tide"}},
                        "template": {
                            "metadata": {"labels": {"app": "tide"}, "annotations": {"support": "own"}},
                            "spec": {"serviceAccountName": "tide", "containers": [{
                                "name": "manager", "image": "quay.io/example/tide:v1.4.0",
                                "env": [{"name": "EMPTY", "value": ""}], "resources": {"requests": {"cpu": 1}},
                            }]},
                        },
                    }}],
                }},
            },
        });
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "tides.sea.example.com", "creationTimestamp": null},
            "spec": {
                "group": "sea.example.com",
                "names": {"plural": "tides", "singular": "tide", "kind": "Tide", "listKind": "TideList"},
                "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object"}},
                }}}],
            },
            "status": {"conditions": []},
        });
        let annotations = tests::registry_annotations("tide", "stable,fast");
        let files = Self::default().file(CSV, csv).file(CRD, crd);
        files.file(ANNOTATIONS, yaml::to_string(&annotations).unwrap())
    }

    pub(crate) fn convert(&self) -> Conversion {
        self.convert_with(&Options::default())
    }

    pub(crate) fn convert_with(&self, options: &Options) -> Conversion {
        convert::plain(&self.content(), options)
    }
}

/// Returns the valid bundle with one more file, [`EXTRA`].
pub(crate) fn extra(text: impl Display) -> Bundle {
    Bundle::good().file(EXTRA, text)
}

/// Returns the code, file and JSON path of each finding of one level.
pub(crate) fn findings(conversion: &Conversion, level: Level) -> Vec<String> {
    let text = |finding: &Finding| {
        let place = finding.location.as_ref();
        let place = place.map(|place| format!("{} {}", place.file, place.path));
        let text = format!("{} {}", finding.code, place.unwrap_or_default());
        text.trim_end().to_owned()
    };
    conversion.report.with_level(level).map(text).collect()
}

pub(crate) fn objects(conversion: &Conversion) -> &[Object] {
    let report = &conversion.report;
    let objects = conversion.objects.as_ref();
    objects.unwrap_or_else(|| panic!("refused: {:?}", report.refusals().collect::<Vec<_>>()))
}

pub(crate) fn object<'a>(conversion: &'a Conversion, kind: &str, name: &str) -> &'a Value {
    let mut objects = objects(conversion).iter();
    let found = objects.find(|object| object.kind() == kind && object.name() == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}")).value()
}

/// Returns the pod template of the only Deployment.
pub(crate) fn template(conversion: &Conversion) -> &Value {
    &object(conversion, "Deployment", "tide-operator")["spec"]["template"]
}

pub(crate) fn names(conversion: &Conversion) -> Vec<String> {
    let objects = objects(conversion).iter();
    let names = objects.map(|object| object.identity().to_string());
    names.collect()
}

pub(crate) fn names_of(conversion: &Conversion, kind: &str) -> Vec<String> {
    let names = names(conversion).into_iter();
    names.filter(|name| name.starts_with(kind)).collect()
}

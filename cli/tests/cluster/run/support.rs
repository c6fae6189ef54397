//! Operators whose bundles are published, version by version.

use serde_json::{Value, json};
use tests::{Buildah, DATABASE_TABLES, Registry};

use crate::{
    install::push,
    upgrade::{catalog, package},
};

/// Label with the directory of a catalog in its image.
const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";

const ROWS: &str = r#"
    INSERT INTO operatorbundle(name, csv, bundlepath, version) VALUES
        ('other.v1.0.0', '{"kind": "ClusterServiceVersion"}', 'example.com/other:1.0.0', '1.0.0');
    INSERT INTO package VALUES ('other', 'stable');
    INSERT INTO channel VALUES ('stable', 'other', 'other.v1.0.0');
    INSERT INTO channel_entry VALUES (1, 'stable', 'other', 'other.v1.0.0', NULL, 0);
"#;

/// An operator package with a ConfigMap that contains its version.
pub(super) struct Operator {
    pub(super) name: String,
    registry: Registry,
}

impl Operator {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            registry: Registry::plain(),
        }
    }

    pub(super) fn namespace(&self) -> String {
        format!("{}-system", self.name)
    }

    /// Publishes a bundle of this version in a registry without TLS.
    pub(super) fn publish(&self, version: &str) -> String {
        self.publish_with(version, &[])
    }

    /// Publishes a bundle with additional objects: Deployments of the ClusterServiceVersion, and manifests.
    pub(super) fn publish_with(&self, version: &str, more: &[Value]) -> String {
        self.publish_all(version, &json!({}), more, &json!([]))
    }

    pub(super) fn publish_claiming(&self, version: &str, max: &str) -> String {
        let property = json!({"type": "olm.maxOpenShiftVersion", "value": max});
        self.publish_all(version, &json!({}), &[], &json!([property]))
    }

    pub(super) fn publish_spec(&self, version: &str, spec: &Value) -> String {
        self.publish_all(version, spec, &[], &json!([]))
    }

    fn publish_all(
        &self,
        version: &str,
        spec: &Value,
        more: &[Value],
        properties: &Value,
    ) -> String {
        let name = &self.name;
        let of_kind = |kind: &'static str| more.iter().filter(move |object| object["kind"] == kind);
        let deployments = of_kind("Deployment")
            .map(|deployment| json!({"name": name, "spec": deployment["spec"]}));
        let owned = of_kind("CustomResourceDefinition")
            .map(|crd| json!({"name": crd["metadata"]["name"], "version": "v1", "kind": "Tide"}));
        let (deployments, owned): (Value, Value) = (deployments.collect(), owned.collect());
        let mut csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("{name}.v{version}")},
            "spec": {
                "displayName": "Tide", "version": version,
                "installModes": [{"type": "AllNamespaces", "supported": true}],
                "customresourcedefinitions": {"owned": owned},
                "install": {"strategy": "deployment", "spec": {"deployments": deployments}},
            },
        });
        let fields = csv["spec"].as_object_mut().unwrap();
        fields.extend(spec.as_object().unwrap().clone());
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": version}});
        let annotations = tests::registry_annotations(name, "stable");
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, value: &Value| {
            tests::write(dir.path(), path, value.to_string());
        };
        write("manifests/csv.yaml", &csv);
        write("manifests/map.yaml", &map);
        write("metadata/annotations.yaml", &annotations);
        let properties = json!({"properties": properties});
        write("metadata/properties.yaml", &properties);
        let manifests = more.iter().filter(|object| object["kind"] != "Deployment");
        for (at, object) in manifests.enumerate() {
            write(&format!("manifests/more-{at}.yaml"), object);
        }
        let image = self.registry.image(&format!("{name}:v{version}"));
        push(&dir, &image);
        image
    }

    /// Publishes an image with a catalog of one version of a package.
    pub(super) fn publish_index(&self, package: &str, version: &str) -> String {
        let dir = catalog(&[self::package(package, &[(version, "")])]);
        let copy = "COPY catalog.json /configs/catalog.json";
        let file = format!("FROM scratch\n{copy}\nLABEL {CONFIGS}=/configs\n");
        let image = self.registry.image(&format!("index:{package}-{version}"));
        Buildah::new().publish(&file, dir.path(), &image, &[]);
        image
    }

    /// Publishes an image with a catalog of another package, in a database with this name and an optional label.
    pub(super) fn publish_file(&self, name: &str, label: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let database = rusqlite::Connection::open(dir.path().join(name)).unwrap();
        let batch = format!("{DATABASE_TABLES}{ROWS}");
        database.execute_batch(&batch).unwrap();
        database.close().unwrap();
        let file = format!("FROM scratch\nCOPY {name} /database/{name}\n{label}");
        let image = self.registry.image(&format!("database:{name}"));
        Buildah::new().publish(&file, dir.path(), &image, &[]);
        image
    }

    /// Returns a Deployment. Its pod needs a node.
    pub(super) fn deployment(&self) -> Value {
        let labels = json!({"app": self.name});
        let pod = json!({"containers": [{"name": "operator", "image": "example.com/a/b:v1"}]});
        json!({"kind": "Deployment", "spec": {
            "replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod},
        }})
    }
}

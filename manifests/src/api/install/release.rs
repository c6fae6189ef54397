//! Directory of manifests for an OpenShift release payload, which the cluster-version operator installs.
//!
//! The name of a file determines when its objects are applied: `0000_50_…` after all components that a cluster requires to
//! run, in the order of the second number. The objects for monitoring follow at `0000_90_…`, after their CRDs. Annotations
//! select the clusters that get the objects. `image-references` lists the images in the files, which the payload build
//! replaces by its own. It also replaces [`VERSION`] by the version of the payload.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{CommentedObject, Options, Target};
use crate::{
    api::{
        config::{
            ClusterOperator, ClusterOperatorSpec, ClusterOperatorStatus, ObjectReference,
            OperandVersion,
        },
        crds,
    },
    object::{child_mut, mapping},
    yaml,
};

/// The namespace of the provisioner as a part of OpenShift.
pub const NAMESPACE: &str = "openshift-platform-operators";
/// Placeholder for the version of a payload.
pub const VERSION: &str = "0.0.1-snapshot";
/// Name of the provisioner's image in a payload.
pub const IMAGE_TAG: &str = "cluster-platform-operators-manager";
/// ClusterOperators that the cluster-version operator creates and waits for.
pub const CLUSTER_OPERATORS: [&str; 2] =
    ["platform-operators-aggregated", "platform-operators-core"];

const COMPONENT: &str = "cluster-platform-operator-manager";
const TECH_PREVIEW: &str = "TechPreviewNoUpgrade";
/// Annotations for clusters with their own control plane, including small ones, but not those with a hosted control plane.
const INCLUDED: [(&str, &str); 3] = [
    (
        "exclude.release.openshift.io/internal-openshift-hosted",
        "true",
    ),
    (
        "include.release.openshift.io/self-managed-high-availability",
        "true",
    ),
    ("include.release.openshift.io/single-node-developer", "true"),
];

/// A file of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Name of the file, without a directory.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

/// Returns the options of a payload with this image.
pub fn options(image: String) -> Options {
    Options {
        namespace: NAMESPACE.to_owned(),
        image,
        ..Options::default()
    }
}

/// Returns all files of the directory.
pub fn files(options: &Options) -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    for mut document in documents(options) {
        for (key, value) in INCLUDED {
            annotate(&mut document.object, key, value);
        }
        annotate(
            &mut document.object,
            "release.openshift.io/feature-set",
            TECH_PREVIEW,
        );
        let name = name(&document.object);
        let text = super::written(vec![document]);
        match files.iter_mut().find(|file| file.name == name) {
            Some(file) => file.text.push_str(&text),
            None => files.push(File { name, text }),
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.push(File {
        name: "image-references".to_owned(),
        text: yaml_of(&image_references(options)),
    });
    files
}

/// Returns the FeatureGate for the manifests directory of an installer, where the payload has the provisioner as a
/// technology preview. It enables all previews of the new cluster, which cannot be undone.
pub fn feature_gate() -> String {
    let mut gate = json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "FeatureGate",
        "metadata": {"name": "cluster"},
        "spec": {"featureSet": TECH_PREVIEW},
    });
    for (key, value) in INCLUDED
        .into_iter()
        .filter(|(key, _)| key.starts_with("include"))
    {
        annotate(&mut gate, key, value);
    }
    annotate(&mut gate, CREATE_ONLY, "true");
    yaml_of(&gate)
}

const CREATE_ONLY: &str = "release.openshift.io/create-only";
/// The approval of the API by OpenShift; payload checks require this annotation on CRDs of OpenShift's groups.
const API_APPROVED: (&str, &str) = (
    "api-approved.openshift.io",
    "https://github.com/openshift/api/pull/1234",
);

fn documents(options: &Options) -> Vec<CommentedObject> {
    let mut documents = super::documents(options, Target::Payload);
    // Clusters of 4.12 to 4.16 already have this CRD, and keep it.
    let optional_crds = crds::optional_crds()
        .into_iter()
        .filter(|crd| crd.spec.names.kind == "PlatformOperator");
    documents.extend(optional_crds.filter_map(|crd| {
        let mut object = serde_json::to_value(crd).ok()?;
        annotate(&mut object, CREATE_ONLY, "true");
        annotate(&mut object, API_APPROVED.0, API_APPROVED.1);
        Some(CommentedObject::new(
            "Not applied if one already exists.",
            object,
        ))
    }));
    documents.extend(CLUSTER_OPERATORS.into_iter().filter_map(|name| {
        let object = serde_json::to_value(cluster_operator(name, options)).ok()?;
        Some(CommentedObject::new(
            "Created by the cluster-version operator, which waits until the provisioner reports its status in it.",
            object,
        ))
    }));
    documents
}

fn cluster_operator(name: &str, options: &Options) -> ClusterOperator {
    let mut operator = ClusterOperator::new(name, ClusterOperatorSpec {});
    operator.status = Some(ClusterOperatorStatus {
        versions: vec![OperandVersion {
            name: "operator".to_owned(),
            version: VERSION.to_owned(),
        }],
        // Related objects for diagnosis, even if the provisioner never writes its own list.
        related_objects: vec![
            ObjectReference::new("", "namespaces", &options.namespace),
            ObjectReference::new("platform.openshift.io", "platformoperators", ""),
        ],
        ..ClusterOperatorStatus::default()
    });
    operator
}

fn image_references(options: &Options) -> Value {
    json!({
        "apiVersion": "image.openshift.io/v1",
        "kind": "ImageStream",
        "spec": {"tags": [{
            "name": IMAGE_TAG,
            "from": {"kind": "DockerImage", "name": options.image},
        }]},
    })
}

/// Returns the name of the file for an object, which determines when the object is applied.
fn name(object: &Value) -> String {
    let own = object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let (level, file) = match object["kind"].as_str().unwrap_or_default() {
        "Namespace" => (50, "00-namespace".to_owned()),
        "CustomResourceDefinition" => (50, format!("01-{own}.crd")),
        "ServiceAccount" => (50, "02-serviceaccounts".to_owned()),
        "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => {
            (50, "04-admission".to_owned())
        }
        "Service" | "NetworkPolicy" => (50, "05-services".to_owned()),
        "Deployment" | "PodDisruptionBudget" => (50, "06-deployment".to_owned()),
        "ClusterOperator" => (50, format!("07-{own}.clusteroperator")),
        "ServiceMonitor" | "PrometheusRule" => (90, "01-monitoring".to_owned()),
        // All other kinds are roles and bindings.
        _ => (50, "03-rbac".to_owned()),
    };
    format!("0000_{level}_{COMPONENT}_{file}.yaml")
}

/// Adds an annotation to an object.
pub(super) fn annotate(object: &mut Value, key: &str, value: &str) {
    annotate_metadata(child_mut(object, "metadata"), key, value);
}

/// Adds an annotation to metadata.
pub(super) fn annotate_metadata(metadata: &mut Value, key: &str, value: &str) {
    mapping(child_mut(metadata, "annotations")).insert(key.to_owned(), value.into());
}

fn yaml_of(object: &Value) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "---");
    yaml::write(&mut text, object);
    text
}

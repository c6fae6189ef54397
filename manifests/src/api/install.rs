//! Install files: all objects that the provisioner requires to run, in one file.
//!
//! ```text
//!  Options ── documents(Target) ──┬── Kubernetes ── file, objects      + monitoring
//!                                 ├── OpenShift ─── openshift          (monitoring included)
//!                                 └── Payload ───── release: a directory for the cluster-version operator
//! ```
//!
//! All files are generated from one description, in which a [`Target`] selects the differences, so that no file can become
//! outdated.

mod admission;
mod alerts;
mod conversion_webhook;
mod deployment;
mod deprecations;
mod monitoring;
mod openshift;
mod rbac;
pub mod release;

use std::{borrow::Cow, fmt::Write};

use serde_json::{Value, json};

use super::crds;
use crate::{version::KubeVersion, yaml};

/// Name of the ServiceAccount whose tokens users without a token use for the content service.
pub const CONTENT_CLIENT: &str = "content-client";

/// The oldest Kubernetes version that accepts the objects: the first one with `v1` ValidatingAdmissionPolicies. OpenShift
/// 4.17 has this version.
pub const OLDEST: KubeVersion = KubeVersion::new(1, 30);

/// Options of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Namespace of the provisioner, and of the Secrets and ConfigMaps that Bundles name.
    pub namespace: String,
    /// Image of the provisioner.
    pub image: String,
    /// Number of provisioner pods. One of them is the leader, and all of them serve content.
    pub replicas: u32,
}

/// Kind of cluster for which objects are generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Any Kubernetes cluster.
    Kubernetes,
    /// An OpenShift cluster to which an admin adds the provisioner.
    OpenShift,
    /// An OpenShift cluster with the provisioner in its release payload, installed by the cluster-version operator.
    Payload,
}

// === impl Target ===

impl Target {
    fn is_openshift(self) -> bool {
        self != Self::Kubernetes
    }
}

/// One object, with a comment for admins.
struct CommentedObject {
    comment: Cow<'static, str>,
    object: Value,
}

// === impl CommentedObject ===

impl CommentedObject {
    fn new(comment: impl Into<Cow<'static, str>>, object: Value) -> Self {
        Self {
            comment: comment.into(),
            object,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "rukpak-system".to_owned(),
            image: "quay.io/rukpak/provisioner:v0.1.0".to_owned(),
            replicas: 1,
        }
    }
}

/// Returns all objects for any Kubernetes, in an order in which they can be applied.
pub fn objects(options: &Options) -> Vec<Value> {
    documents(options, Target::Kubernetes)
        .into_iter()
        .map(|document| document.object)
        .collect()
}

/// Returns the install file for any Kubernetes.
pub fn file(options: &Options) -> String {
    written(documents(options, Target::Kubernetes))
}

/// Returns the install file for OpenShift. It is complete, and replaces the file for any Kubernetes.
pub fn openshift(options: &Options) -> String {
    written(documents(options, Target::OpenShift))
}

/// Returns the names of the ValidatingAdmissionPolicies of every install file. Each has a binding of the same name.
pub fn admission_policies() -> Vec<&'static str> {
    admission::names()
}

/// Returns the binding that lets the provisioner read the pull secrets of CatalogSources in another namespace.
pub fn catalog_secrets(options: &Options, namespace: &str) -> Value {
    rbac::catalog_secrets(options, namespace)
}

/// Returns the binding that lets the provisioner serve the catalogs of another namespace.
pub fn catalog_server(options: &Options, namespace: &str) -> Value {
    rbac::catalog_server(options, namespace)
}

/// Returns the binding that lets the provisioner create pods for the catalogs of another namespace.
pub fn catalog_pods(options: &Options, namespace: &str) -> Value {
    rbac::catalog_pods(options, namespace)
}

/// Returns the file to apply beside [`file`] where the Prometheus operator runs: scrape configuration and alerts.
pub fn monitoring(options: &Options) -> String {
    written(monitoring::documents(options, Target::Kubernetes))
}

/// Returns the policy that warns about deprecated fields in CatalogSources. Only for clusters with our CRD: OLM's CRD has
/// no replacement for these fields.
pub fn deprecations() -> String {
    written(deprecations::documents())
}

/// Returns the conversion webhook, to apply before the CRD of CatalogSources with version v1.
pub fn conversion(options: &Options) -> String {
    written(conversion_webhook::documents(options))
}

/// Returns the CRD of CatalogSources with version v1, which requires the conversion webhook.
pub fn catalog_sources_with_v1(options: &Options) -> String {
    let crd = conversion_webhook::crd(options);
    let object = crd.and_then(|crd| serde_json::to_value(crd).ok());
    let comment = "CatalogSource CRD with both versions; the stored version is v1alpha1. Only for clusters that use rukpak's CRD, and only\n\
                   while the webhook in the same directory is available.";
    written(
        object
            .map(|object| CommentedObject::new(comment, object))
            .into_iter()
            .collect(),
    )
}

fn written(documents: Vec<CommentedObject>) -> String {
    let mut text = String::new();
    for CommentedObject { comment, object } in documents {
        text.push_str("---\n");
        for line in comment.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# {line}");
        }
        yaml::write(&mut text, &object);
    }
    text
}

fn documents(options: &Options, target: Target) -> Vec<CommentedObject> {
    let mut documents = vec![namespace(options, target)];
    documents.extend(
        crds::all()
            .into_iter()
            .filter_map(|crd| Some(CommentedObject::new("", serde_json::to_value(crd).ok()?))),
    );
    documents.extend(rbac::documents(options));
    if target.is_openshift() {
        documents.extend(openshift::documents(options));
    }
    documents.extend(admission::documents(options));
    documents.extend(deployment::documents(options, target));
    if target.is_openshift() {
        documents.extend(monitoring::documents(options, target));
    }
    documents
}

fn namespace(options: &Options, target: Target) -> CommentedObject {
    let mut more = vec![
        ("pod-security.kubernetes.io/enforce", "restricted"),
        ("pod-security.kubernetes.io/enforce-version", "latest"),
        ("pod-security.kubernetes.io/audit", "restricted"),
        ("pod-security.kubernetes.io/warn", "restricted"),
    ];
    if target.is_openshift() {
        // The cluster's own Prometheus only scrapes namespaces with this label.
        more.push(("openshift.io/cluster-monitoring", "true"));
    }
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": options.namespace, "labels": labels_and(&more)},
    });
    if target == Target::Payload {
        // Run on control plane nodes, regardless of the cluster's default node selector for projects, and among the
        // management pods where CPUs are reserved for them.
        release::annotate(&mut object, "openshift.io/node-selector", "");
        release::annotate(&mut object, "workload.openshift.io/allowed", "management");
    }
    CommentedObject::new(
        "Namespace of the provisioner, and of the Secrets and ConfigMaps that Bundles reference.",
        object,
    )
}

/// Returns the labels of every object in the file, with additional ones.
fn labels_and(more: &[(&str, &str)]) -> Value {
    [
        ("app.kubernetes.io/name", "rukpak"),
        ("app.kubernetes.io/part-of", "rukpak"),
    ]
    .iter()
    .chain(more)
    .map(|&(key, value)| (key.to_owned(), Value::from(value)))
    .collect::<serde_json::Map<_, _>>()
    .into()
}

fn labels() -> Value {
    labels_and(&[])
}

#[cfg(test)]
mod tests;

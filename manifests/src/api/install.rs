//! What an admin applies: everything that the provisioner needs to run, in one file.
//!
//! ```text
//!  Options ── documents(Target) ──┬── Kubernetes ── file, objects      + monitoring
//!                                 ├── OpenShift ─── openshift          (monitoring included)
//!                                 └── Payload ───── release: a folder for the cluster-version operator
//! ```
//!
//! There is one description of all of them, in which a [`Target`] makes the differences, so that none can lag behind.

mod admission;
mod alerts;
mod conversion;
mod deprecations;
mod monitoring;
mod openshift;
pub mod release;
mod rights;
mod workload;

use std::{borrow::Cow, fmt::Write};

use serde_json::{Value, json};

use super::definitions;
use crate::{version::KubeVersion, yaml};

/// The ServiceAccount that people without a token get one of, to reach the content service with.
pub const CONTENT_CLIENT: &str = "content-client";

/// The oldest Kubernetes that takes the objects: ValidatingAdmissionPolicies are `v1` since then. OpenShift 4.17 has it.
pub const OLDEST: KubeVersion = KubeVersion::new(1, 30);

/// What differs between installations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The namespace of the provisioner, and of the Secrets and ConfigMaps that Bundles name.
    pub namespace: String,
    /// The provisioner's image.
    pub image: String,
    /// How many provisioners run; one of them works, and all hand content out.
    pub replicas: u32,
}

/// What kind of cluster the objects are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Any Kubernetes.
    Kubernetes,
    /// An OpenShift to which an admin adds the provisioner.
    OpenShift,
    /// An OpenShift that has it in its release payload, and whose cluster-version operator installs it.
    Payload,
}

// === impl Target ===

impl Target {
    fn is_openshift(self) -> bool {
        self != Self::Kubernetes
    }
}

/// One object, and what an admin should know about it.
struct Document {
    comment: Cow<'static, str>,
    object: Value,
}

// === impl Document ===

impl Document {
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

/// All objects for any Kubernetes, in the order in which they can be applied.
pub fn objects(options: &Options) -> Vec<Value> {
    documents(options, Target::Kubernetes)
        .into_iter()
        .map(|document| document.object)
        .collect()
}

/// The file for any Kubernetes.
pub fn file(options: &Options) -> String {
    written(documents(options, Target::Kubernetes))
}

/// The file for OpenShift. It has everything, and is applied in place of the one for any Kubernetes.
pub fn openshift(options: &Options) -> String {
    written(documents(options, Target::OpenShift))
}

/// Returns the names of the ValidatingAdmissionPolicies of every install file. Each has a binding of the same name.
pub fn admission_policies() -> Vec<&'static str> {
    admission::names()
}

/// What lets the provisioner read the pull secrets of CatalogSources in a namespace that is not its own.
pub fn catalog_secrets(options: &Options, namespace: &str) -> Value {
    rights::catalog_secrets(options, namespace)
}

/// What lets the provisioner serve the catalogs of a namespace that is not its own.
pub fn catalog_server(options: &Options, namespace: &str) -> Value {
    rights::catalog_server(options, namespace)
}

/// What lets the provisioner make pods for the catalogs of a namespace that is not its own.
pub fn catalog_pods(options: &Options, namespace: &str) -> Value {
    rights::catalog_pods(options, namespace)
}

/// What is applied beside [`file`] where the Prometheus operator runs: what to scrape, and when to tell somebody.
pub fn monitoring(options: &Options) -> String {
    written(monitoring::documents(options, Target::Kubernetes))
}

/// What warns of deprecated fields in CatalogSources. Only for clusters with our definition of them: the one of OLM has no
/// others.
pub fn deprecations() -> String {
    written(deprecations::documents())
}

/// What is applied before the definition of CatalogSources that has the version v1: the webhook that converts them.
pub fn conversion(options: &Options) -> String {
    written(conversion::documents(options))
}

/// The definition of CatalogSources with the version v1, which that webhook converts.
pub fn catalog_sources_with_v1(options: &Options) -> String {
    let definition = conversion::definition(options);
    let object = definition.and_then(|it| serde_json::to_value(it).ok());
    let comment = "CatalogSources of both versions; stored is v1alpha1. Only for clusters whose definition is rukpak's, and only while the\n\
                   webhook beside this file is available.";
    written(
        object
            .map(|it| Document::new(comment, it))
            .into_iter()
            .collect(),
    )
}

fn written(documents: Vec<Document>) -> String {
    let mut text = String::new();
    for Document { comment, object } in documents {
        text.push_str("---\n");
        for line in comment.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# {line}");
        }
        yaml::write(&mut text, &object);
    }
    text
}

fn documents(options: &Options, target: Target) -> Vec<Document> {
    let mut documents = vec![namespace(options, target)];
    documents.extend(
        definitions::all().into_iter().filter_map(|definition| {
            Some(Document::new("", serde_json::to_value(definition).ok()?))
        }),
    );
    documents.extend(rights::documents(options));
    if target.is_openshift() {
        documents.extend(openshift::documents(options));
    }
    documents.extend(admission::documents(options));
    documents.extend(workload::documents(options, target));
    if target.is_openshift() {
        documents.extend(monitoring::documents(options, target));
    }
    documents
}

fn namespace(options: &Options, target: Target) -> Document {
    let mut more = vec![
        ("pod-security.kubernetes.io/enforce", "restricted"),
        ("pod-security.kubernetes.io/enforce-version", "latest"),
        ("pod-security.kubernetes.io/audit", "restricted"),
        ("pod-security.kubernetes.io/warn", "restricted"),
    ];
    if target.is_openshift() {
        // The cluster's own Prometheus looks nowhere else.
        more.push(("openshift.io/cluster-monitoring", "true"));
    }
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": options.namespace, "labels": labels_and(&more)},
    });
    if target == Target::Payload {
        // On the nodes of the control plane, whatever selector the cluster has for projects; and among its own pods
        // where CPUs are set apart for those.
        release::annotate(&mut object, "openshift.io/node-selector", "");
        release::annotate(&mut object, "workload.openshift.io/allowed", "management");
    }
    Document::new(
        "The provisioner's namespace. Secrets and ConfigMaps that Bundles name belong here, too.",
        object,
    )
}

/// The labels of everything in the file, and more.
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

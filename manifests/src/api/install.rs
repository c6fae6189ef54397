//! What an admin applies: everything that the provisioner needs to run, in one file.

mod admission;
mod openshift;
mod rights;
mod workload;

use std::{borrow::Cow, fmt::Write};

use serde_json::{Value, json};

use super::definitions;
use crate::yaml;

/// The ServiceAccount that people without a token get one of, to reach the content service with.
pub const CONTENT_CLIENT: &str = "content-client";

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

/// One object, and what an admin should know about it.
struct Document {
    comment: Cow<'static, str>,
    object: Value,
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

/// All objects, in the order in which they can be applied.
pub fn objects(options: &Options) -> Vec<Value> {
    documents(options)
        .into_iter()
        .map(|document| document.object)
        .collect()
}

/// The file.
pub fn file(options: &Options) -> String {
    written(documents(options))
}

/// What is applied beside it on OpenShift.
pub fn openshift(options: &Options) -> String {
    written(openshift::documents(options))
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

fn documents(options: &Options) -> Vec<Document> {
    let mut documents = vec![namespace(options)];
    documents.extend(definitions::all().into_iter().filter_map(|definition| {
        Some(Document {
            comment: "".into(),
            object: serde_json::to_value(definition).ok()?,
        })
    }));
    documents.extend(rights::documents(options));
    documents.extend(admission::documents());
    documents.extend(workload::documents(options));
    documents
}

fn namespace(options: &Options) -> Document {
    Document {
        comment: "The provisioner's namespace. Secrets and ConfigMaps that Bundles name belong here, too.".into(),
        object: json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": options.namespace,
                "labels": labels_and(&[
                    ("pod-security.kubernetes.io/enforce", "restricted"),
                    ("pod-security.kubernetes.io/enforce-version", "latest"),
                    ("pod-security.kubernetes.io/audit", "restricted"),
                    ("pod-security.kubernetes.io/warn", "restricted"),
                ]),
            },
        }),
    }
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
mod tests {
    use super::*;

    fn kinds(options: &Options) -> Vec<String> {
        let kind = |object: &Value| object["kind"].as_str().unwrap().to_owned();
        objects(options).iter().map(kind).collect()
    }

    #[test]
    fn a_disruption_budget_needs_something_to_keep() {
        let budget = "PodDisruptionBudget".to_owned();
        assert!(!kinds(&Options::default()).contains(&budget));
        let several = Options {
            replicas: 2,
            ..Options::default()
        };
        assert!(kinds(&several).contains(&budget));
        assert_eq!(kinds(&several).len(), kinds(&Options::default()).len() + 1);
    }

    #[test]
    fn another_namespace_leaves_nothing_of_the_usual_one() {
        let options = Options {
            namespace: "elsewhere".to_owned(),
            ..Options::default()
        };
        let text = file(&options) + &openshift(&options);
        assert!(!text.contains("rukpak-system"), "{text}");
    }
}

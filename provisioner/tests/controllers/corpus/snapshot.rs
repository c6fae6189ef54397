//! All objects of a cluster, by kind and name.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{Api, Client, ResourceExt as _, api::ListParams, core::DynamicObject};
use manifests::object::Object;

use crate::support::listable;

/// Kinds whose objects are created and deleted by themselves: observations, and values that the API server computes.
const TRANSIENT: &[&str] = &["Event", "ComponentStatus"];

/// Existing objects as `kind.group namespace/name`, without those that Kubernetes creates for itself.
#[derive(Debug)]
pub(super) struct Everything(pub(super) BTreeSet<String>);

impl Everything {
    pub(super) async fn now(client: &Client) -> Result<Self, String> {
        let mut kinds = listable(client.clone()).await?;
        kinds.retain(|kind| !TRANSIENT.contains(&kind.kind.as_str()));
        let lists = kinds.into_iter().map(async |kind| {
            let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
            let objects = api.list_metadata(&ListParams::default()).await;
            let objects = objects.map_err(|error| format!("{}: {error}", kind.plural))?;
            let lines = objects.iter().filter_map(|object| {
                let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
                let line = || line(&kind.kind, &kind.group, &namespace, &name);
                (!is_of_kubernetes(&kind.kind, &namespace, &name)).then(line)
            });
            Ok::<_, String>(lines.collect::<Vec<_>>())
        });
        let lists = stream::iter(lists).buffer_unordered(8);
        let lists = lists.try_collect::<Vec<Vec<String>>>().await?;
        Ok(Self(lists.into_iter().flatten().collect()))
    }

    pub(super) fn has(&self, object: &Object) -> bool {
        self.0.contains(&line_of(object))
    }

    /// Counts an object as present from the start.
    pub(super) fn expect(&mut self, object: &Object) {
        self.0.insert(line_of(object));
    }

    /// Returns an error that names the objects that were added or removed.
    pub(super) fn difference(&self, after: &Self) -> Result<(), String> {
        let new = after.0.difference(&self.0).map(|line| format!("+ {line}"));
        let lost = self.0.difference(&after.0).map(|line| format!("- {line}"));
        let lines: Vec<String> = new.chain(lost).collect();
        lines.is_empty().then_some(()).ok_or(lines.join("\n"))
    }
}

fn line_of(object: &Object) -> String {
    let (kind, group) = (object.kind(), object.group());
    line(kind, group, object.namespace(), object.name())
}

fn line(kind: &str, group: &str, namespace: &str, name: &str) -> String {
    format!("{kind}.{group} {namespace}/{name}")
}

/// Reports whether Kubernetes creates the object in its own time: in every Namespace, and for its controllers at their
/// start.
fn is_of_kubernetes(kind: &str, namespace: &str, name: &str) -> bool {
    match kind {
        "Namespace" => name == "default" || name.starts_with("kube-"),
        "ServiceAccount" => name == "default" || namespace == "kube-system",
        "ConfigMap" => name == "kube-root-ca.crt",
        _ => false,
    }
}

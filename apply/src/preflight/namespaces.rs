//! Namespaces that objects go to: there, coming with the bundle, or in the way.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Api;
use manifests::object::Identity;

use super::{Check, Input, Problem, ask};
use crate::{first_few, plan::Step};

/// The namespaces that a plan is about, with the metadata of those that exist.
pub(super) type Namespaces = BTreeMap<String, Option<ObjectMeta>>;

/// Looks up the namespaces in which objects are to be created, with the permissions of the provisioner: the existence of a
/// namespace is not confidential.
pub(super) async fn find(input: &Input<'_>) -> Result<Namespaces, kube::Error> {
    let wanted: BTreeSet<String> = input
        .plan
        .steps
        .iter()
        .filter(|step| !input.existing.contains(&step.object.identity()))
        .filter_map(|step| namespace(step).map(str::to_owned))
        .collect();
    let api = Api::<Namespace>::all(input.own.clone());
    stream::iter(wanted)
        .map(|name| {
            let api = api.clone();
            let known = input.namespace.filter(|(known, _)| *known == name);
            async move {
                if let Some((_, known)) = known {
                    return Ok((name, Some(known.clone())));
                }
                let found = ask::or_none(ask::within(api.get_metadata(&name)).await)?;
                Ok((name, found.map(|found| found.metadata)))
            }
        })
        .buffer_unordered(input.concurrency.max(1))
        .try_collect()
        .await
}

/// The namespace that a step makes or needs.
fn namespace(step: &Step) -> Option<&str> {
    if is_namespace(step) {
        return Some(step.object.name());
    }
    Some(step.object.namespace()).filter(|name| !name.is_empty() && step.kind.namespaced)
}

pub(super) fn is_namespace(step: &Step) -> bool {
    step.object.group().is_empty() && step.object.kind() == "Namespace"
}

/// What is wrong with them.
pub(super) fn check(steps: &[Step], namespaces: &Namespaces) -> Vec<Problem> {
    let mut needed_by: BTreeMap<&str, Vec<Identity>> = BTreeMap::new();
    let mut brought = BTreeSet::new();
    for step in steps {
        if let Some(name) = namespace(step) {
            let identity = step.object.identity();
            needed_by.entry(name).or_default().push(identity);
        }
        if is_namespace(step) {
            brought.insert(step.object.name());
        }
    }
    let problem = |(name, live): (&String, &Option<ObjectMeta>)| {
        let objects = needed_by.get(name.as_str()).map(Vec::as_slice);
        let objects = first_few(objects.unwrap_or_default(), 3);
        let is_brought = brought.contains(name.as_str());
        let message = match live {
            Some(live) if live.deletion_timestamp.is_some() => {
                let remedy = if is_brought {
                    "once it is gone, the installation goes on by itself"
                } else {
                    "once it is gone, create it again; the installation goes on by itself then"
                };
                format!(
                    "namespace {name:?} is being deleted, and {objects} would be created in it: {remedy}"
                )
            }
            None if !is_brought => format!(
                "namespace {name:?} does not exist, and the bundle does not bring it, but {objects} would be created in \
                 it: create it; the installation goes on by itself then"
            ),
            _ => return None,
        };
        Some(Problem {
            check: Check::Namespace,
            message,
        })
    };
    namespaces.iter().filter_map(problem).collect()
}

//! Namespaces of the planned objects: existing, part of the bundle, missing or terminating.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Api;
use manifests::object::Identity;

use super::{Check, Finding, Input, access_review};
use crate::{first_few, plan::ApplyStep};

/// Namespaces of a plan, with the metadata of those that exist.
pub(super) type Namespaces = BTreeMap<String, Option<ObjectMeta>>;

/// Looks up the namespaces in which objects are to be created, with the permissions of the provisioner: the existence of a
/// namespace is not confidential.
pub(super) async fn find(input: &Input<'_>) -> Result<Namespaces, kube::Error> {
    let names: BTreeSet<String> = input
        .plan
        .steps
        .iter()
        .filter(|step| !input.existing.contains(&step.object.identity()))
        .filter_map(|step| namespace(step).map(str::to_owned))
        .collect();
    let api = Api::<Namespace>::all(input.own.clone());
    stream::iter(names)
        .map(|name| {
            let api = api.clone();
            let install_namespace = input
                .namespace
                .filter(|(install_namespace, _)| *install_namespace == name);
            async move {
                if let Some((_, metadata)) = install_namespace {
                    return Ok((name, Some(metadata.clone())));
                }
                let found = access_review::optional(
                    access_review::with_timeout(api.get_metadata(&name)).await,
                )?;
                Ok((name, found.map(|found| found.metadata)))
            }
        })
        .buffer_unordered(input.concurrency.max(1))
        .try_collect()
        .await
}

/// Returns the namespace that a step creates or needs.
fn namespace(step: &ApplyStep) -> Option<&str> {
    if is_namespace(step) {
        return Some(step.object.name());
    }
    Some(step.object.namespace()).filter(|name| !name.is_empty() && step.kind.namespaced)
}

pub(super) fn is_namespace(step: &ApplyStep) -> bool {
    step.object.group().is_empty() && step.object.kind() == "Namespace"
}

/// Returns the problems of the namespaces: missing or terminating ones.
pub(super) fn check(steps: &[ApplyStep], namespaces: &Namespaces) -> Vec<Finding> {
    let mut needed_by: BTreeMap<&str, Vec<Identity>> = BTreeMap::new();
    let mut bundled = BTreeSet::new();
    for step in steps {
        if let Some(name) = namespace(step) {
            let identity = step.object.identity();
            needed_by.entry(name).or_default().push(identity);
        }
        if is_namespace(step) {
            bundled.insert(step.object.name());
        }
    }
    let problem = |(name, live): (&String, &Option<ObjectMeta>)| {
        let objects = needed_by.get(name.as_str()).map(Vec::as_slice);
        let objects = first_few(objects.unwrap_or_default(), 3);
        let is_bundled = bundled.contains(name.as_str());
        let message = match live {
            Some(live) if live.deletion_timestamp.is_some() => {
                let remedy = if is_bundled {
                    "the installation continues automatically after the deletion"
                } else {
                    "create it again after the deletion; the installation then continues automatically"
                };
                format!(
                    "namespace {name:?} is being deleted, and {objects} would be created in it: {remedy}"
                )
            }
            None if !is_bundled => format!(
                "namespace {name:?} does not exist and is not part of the bundle, but {objects} would be created in \
                 it: create it; the installation then continues automatically"
            ),
            _ => return None,
        };
        Some(Finding {
            check: Check::Namespace,
            message,
        })
    };
    namespaces.iter().filter_map(problem).collect()
}

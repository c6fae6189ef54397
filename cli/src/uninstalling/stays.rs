//! What stays in the cluster, beforehand and afterwards.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::ListParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::{
    api::{
        instance::{BundleInstance, CrdDeletionPolicy},
        listing,
    },
    object::Identity,
};

use crate::{args::Cascade, cluster::Cluster, message::count, status};

/// A definition of the instance, and what there is of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    /// How many custom resources; `None` where that cannot be counted.
    pub(super) resources: Option<usize>,
}

impl Definition {
    /// Whether there are, or may be, custom resources.
    pub(super) fn may_be_lost(&self) -> bool {
        self.resources != Some(0)
    }
}

/// The definitions that exist.
pub(super) async fn definitions(cluster: &Cluster, instance: &BundleInstance) -> Vec<Definition> {
    let mut names: BTreeSet<String> = of_kind(instance, "CustomResourceDefinition");
    // Without the right to read it, what is in the status is told.
    let rest = status::rest(cluster, instance).await.unwrap_or_default();
    names.extend(
        rest.into_iter()
            .filter(|it| it.kind == "CustomResourceDefinition")
            .map(|it| it.name),
    );
    let mut definitions = Vec::new();
    let api = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    for name in names {
        let resources = match api.get(&name).await {
            Ok(definition) => resources(cluster, &definition).await,
            Err(error) if Cluster::is_absent(&error) => continue,
            Err(_) => None,
        };
        definitions.push(Definition { name, resources });
    }
    definitions
}

/// How many custom resources there are, by a list of one.
async fn resources(cluster: &Cluster, definition: &CustomResourceDefinition) -> Option<usize> {
    let spec = &definition.spec;
    let version = spec.versions.iter().find(|version| version.served)?;
    let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
    let api = Api::<DynamicObject>::all_with(cluster.client.clone(), &resource);
    let list = api
        .list_metadata(&ListParams::default().limit(1))
        .await
        .ok()?;
    let more = list.metadata.remaining_item_count.unwrap_or_default();
    Some(list.items.len() + usize::try_from(more).unwrap_or_default())
}

/// The Namespaces that were made for the instance.
pub(super) fn namespaces(instance: &BundleInstance) -> Vec<String> {
    of_kind(instance, "Namespace").into_iter().collect()
}

fn of_kind(instance: &BundleInstance, kind: &str) -> BTreeSet<String> {
    let status = instance.status.as_ref();
    let listed = status.and_then(|it| it.inventory.as_ref());
    let kinds = listed.map_or(&[][..], |it| &it.kinds);
    let entries = listing::entries(kinds).map(|(identity, _): (Identity, _)| identity);
    entries
        .filter(|it| it.kind == kind && it.namespace.is_empty())
        .map(|it| it.name)
        .collect()
}

/// What will stay, and what will be lost.
pub(super) fn foretold(
    cascade: Cascade,
    policy: CrdDeletionPolicy,
    definitions: &[Definition],
    namespaces: &[String],
) -> Vec<String> {
    if cascade == Cascade::Orphan {
        return vec!["all objects stay in the cluster".to_owned()];
    }
    let mut lines: Vec<String> = namespaces
        .iter()
        .map(|name| format!("Namespace {name} stays, as others may use it"))
        .collect();
    for Definition { name, resources } in definitions {
        let some = match resources {
            Some(number) => count(*number, "custom resource"),
            None => "an unknown number of custom resources".to_owned(),
        };
        lines.push(match (policy, resources) {
            (CrdDeletionPolicy::Retain, _) => {
                format!("CustomResourceDefinition {name} stays, with {some}")
            }
            (_, Some(0)) => format!("CustomResourceDefinition {name} goes; nobody uses it"),
            (CrdDeletionPolicy::DeleteIfUnused, Some(_)) => {
                format!("CustomResourceDefinition {name} stays, with {some}")
            }
            (CrdDeletionPolicy::DeleteIfUnused, None) => {
                format!("CustomResourceDefinition {name} stays if there are custom resources")
            }
            (CrdDeletionPolicy::Delete, _) => {
                format!("CustomResourceDefinition {name} goes, and {some} with it")
            }
        });
    }
    lines
}

/// What has stayed, as far as that can be looked at.
pub(super) async fn left(
    cluster: &Cluster,
    definitions: &[Definition],
    namespaces: &[String],
) -> Vec<String> {
    let mut lines = Vec::new();
    let api = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    for Definition { name, .. } in definitions {
        if let Ok(Some(found)) = api.get_metadata_opt(name).await
            && found.metadata.deletion_timestamp.is_none()
        {
            lines.push(format!(
                "CustomResourceDefinition {} has stayed",
                found.name_any()
            ));
        }
    }
    let api = Api::<Namespace>::all(cluster.client.clone());
    for name in namespaces {
        if let Ok(Some(_)) = api.get_metadata_opt(name).await {
            lines.push(format!("Namespace {name} has stayed"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use CrdDeletionPolicy::{Delete, DeleteIfUnused, Retain};

    use super::*;

    #[test]
    fn what_stays_is_told_by_policy() {
        let definition = |resources| Definition {
            name: "stations.example.com".to_owned(),
            resources,
        };
        for (policy, resources, expected) in [
            (Retain, Some(2), "stays, with 2 custom resources"),
            (
                Retain,
                None,
                "stays, with an unknown number of custom resources",
            ),
            (DeleteIfUnused, Some(0), "goes; nobody uses it"),
            (DeleteIfUnused, Some(1), "stays, with 1 custom resource"),
            (DeleteIfUnused, None, "stays if there are custom resources"),
            (Delete, Some(0), "goes; nobody uses it"),
            (Delete, Some(3), "goes, and 3 custom resources with it"),
        ] {
            let lines = foretold(Cascade::Background, policy, &[definition(resources)], &[]);
            let expected = format!("CustomResourceDefinition stations.example.com {expected}");
            assert_eq!(lines, [expected]);
        }
        let names = ["tides".to_owned()];
        let lines = foretold(Cascade::Foreground, Retain, &[], &names);
        assert_eq!(lines, ["Namespace tides stays, as others may use it"]);
        let lines = foretold(Cascade::Orphan, Delete, &[definition(Some(3))], &names);
        assert_eq!(lines, ["all objects stay in the cluster"]);
    }
}

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

use crate::{args::Cascade, cluster::Cluster, live::inventory, message::count};

/// A definition of the instance, and what there is of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// How many custom resources; `None` where that cannot be counted.
    pub(crate) resources: Option<usize>,
}

impl Definition {
    /// Whether there are, or may be, custom resources.
    pub(super) fn may_be_lost(&self) -> bool {
        self.resources != Some(0)
    }
}

/// The definitions of an instance that exist.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) known: Vec<Definition>,
    /// Why there may be others, where the status has no room for all objects.
    pub(crate) unread: Option<String>,
}

impl Definitions {
    /// Whose custom resources are lost with the instance, or may be: what has to be asked.
    pub(super) fn lost(&self, cascade: Cascade, policy: CrdDeletionPolicy) -> Option<String> {
        if cascade == Cascade::Orphan || policy != CrdDeletionPolicy::Delete {
            return None;
        }
        let lost = self.known.iter().filter(|it| it.may_be_lost()).count();
        let known = (lost > 0).then(|| count(lost, "definition"));
        let unread = self.unread.is_some().then(|| {
            let which = if lost > 0 { "others" } else { "definitions" };
            format!("{which} that are not known here")
        });
        let all: Vec<String> = known.into_iter().chain(unread).collect();
        (!all.is_empty()).then(|| all.join(" and of "))
    }
}

/// The definitions that exist.
pub(crate) async fn definitions(cluster: &Cluster, instance: &BundleInstance) -> Definitions {
    let mut names: BTreeSet<String> = of_kind(instance, "CustomResourceDefinition");
    let (rest, unread) = match inventory::rest(cluster, instance).await {
        Ok(rest) if rest.len() < missing(instance) => {
            let space = &cluster.system_namespace;
            (rest, Some(format!("it is not in namespace {space}")))
        }
        Ok(rest) => (rest, None),
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
    };
    names.extend(
        rest.into_iter()
            .map(|listed| listed.identity)
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
    Definitions {
        known: definitions,
        unread,
    }
}

/// How many objects the status has no room for.
fn missing(instance: &BundleInstance) -> usize {
    let status = instance.status.as_ref();
    let Some(listed) = status.and_then(|it| it.inventory.as_ref()) else {
        return 0;
    };
    let all = usize::try_from(listed.count).unwrap_or_default();
    all.saturating_sub(listing::entries(&listed.kinds).count())
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
pub(crate) fn namespaces(instance: &BundleInstance) -> Vec<String> {
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
pub(crate) fn foretold(
    cascade: Cascade,
    policy: CrdDeletionPolicy,
    definitions: &Definitions,
    namespaces: &[String],
) -> Vec<String> {
    if cascade == Cascade::Orphan {
        return vec!["all objects stay in the cluster".to_owned()];
    }
    let mut lines: Vec<String> = namespaces
        .iter()
        .map(|name| format!("Namespace {name} stays, as others may use it"))
        .collect();
    for Definition { name, resources } in &definitions.known {
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
    if let Some(why) = &definitions.unread {
        lines.push(format!(
            "there may be more definitions: the rest of the inventory cannot be read: {why}"
        ));
    }
    lines
}

/// What has stayed, as far as that can be looked at.
pub(crate) async fn left(
    cluster: &Cluster,
    definitions: &Definitions,
    namespaces: &[String],
) -> Vec<String> {
    let mut lines = Vec::new();
    let api = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    for Definition { name, .. } in &definitions.known {
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

    /// One definition, with so many custom resources.
    fn definition(resources: Option<usize>) -> Definitions {
        Definitions {
            known: vec![Definition {
                name: "stations.example.com".to_owned(),
                resources,
            }],
            unread: None,
        }
    }

    #[test]
    fn custom_resources_that_may_be_lost_are_asked_for() {
        let unread = |definitions| Definitions {
            unread: Some("forbidden".to_owned()),
            ..definitions
        };
        let others = "1 definition and of others that are not known here";
        let unknown = "definitions that are not known here";
        for (definitions, expected) in ::tests::rows![
            Definitions::default() => None;
            definition(Some(0)) => None;
            definition(Some(2)) => Some("1 definition");
            definition(None) => Some("1 definition");
            unread(definition(Some(2))) => Some(others);
            unread(definition(None)) => Some(others);
            unread(definition(Some(0))) => Some(unknown);
            unread(Definitions::default()) => Some(unknown);
        ] {
            for (cascade, policy, expected) in [
                (Cascade::Background, Delete, expected),
                (Cascade::Foreground, Delete, expected),
                (Cascade::Orphan, Delete, None),
                (Cascade::Background, Retain, None),
                (Cascade::Foreground, DeleteIfUnused, None),
            ] {
                let lost = definitions.lost(cascade, policy);
                let row = format!("{definitions:?} {cascade:?} {policy:?}");
                assert_eq!(lost.as_deref(), expected, "{row}");
            }
        }
    }

    // parity: platform-19, complaint-7
    #[test]
    fn what_stays_is_told_by_policy() {
        for (policy, resources, expected) in ::tests::rows![
            Retain, Some(2) => "stays, with 2 custom resources";
            Retain, None => "stays, with an unknown number of custom resources";
            DeleteIfUnused, Some(0) => "goes; nobody uses it";
            DeleteIfUnused, Some(1) => "stays, with 1 custom resource";
            DeleteIfUnused, None => "stays if there are custom resources";
            Delete, Some(0) => "goes; nobody uses it";
            Delete, Some(3) => "goes, and 3 custom resources with it";
        ] {
            let lines = foretold(Cascade::Background, policy, &definition(resources), &[]);
            let expected = format!("CustomResourceDefinition stations.example.com {expected}");
            assert_eq!(lines, [expected]);
        }
        let names = ["tides".to_owned()];
        let none = Definitions::default();
        let unread = Definitions {
            unread: Some("forbidden".to_owned()),
            ..Definitions::default()
        };
        for (cascade, policy, definitions, namespaces, expected) in ::tests::rows![
            Cascade::Foreground, Retain, none, &names[..] => "Namespace tides stays, as others may use it";
            Cascade::Orphan, Delete, definition(Some(3)), &names => "all objects stay in the cluster";
            Cascade::Background, Delete, unread, &[]
                => "there may be more definitions: the rest of the inventory cannot be read: forbidden";
        ] {
            let lines = foretold(cascade, policy, &definitions, namespaces);
            assert_eq!(lines, [expected]);
        }
    }
}

//! Objects that an uninstallation keeps: a preview, and a report afterwards.

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
        bundle_instance::{BundleInstance, CrdDeletionPolicy},
        inventory_format,
    },
    object::Identity,
};

use crate::{
    args::Cascade,
    cluster::{self, Cluster, live::inventory},
    output::message::count,
};

/// A CRD of an instance, with the number of its custom resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrdUsage {
    pub(crate) name: String,
    /// Number of custom resources; `None` if they cannot be counted.
    pub(crate) resources: Option<usize>,
}

impl CrdUsage {
    /// Reports whether custom resources exist, or may exist.
    pub(super) fn may_delete_resources(&self) -> bool {
        self.resources != Some(0)
    }
}

/// Existing CRDs of an instance.
#[derive(Debug, Default)]
pub(crate) struct CrdUsages {
    pub(crate) crds: Vec<CrdUsage>,
    /// Reason why further CRDs may exist: the inventory exceeds the status, and cannot be read. `None` if all CRDs are
    /// listed.
    pub(crate) inventory_error: Option<String>,
}

impl CrdUsages {
    /// Describes the CRDs whose custom resources are deleted with the instance, or may be, for the confirmation; `None` if
    /// no custom resource is deleted.
    pub(super) fn deleted_resources(
        &self,
        cascade: Cascade,
        policy: CrdDeletionPolicy,
    ) -> Option<String> {
        if cascade == Cascade::Orphan || policy != CrdDeletionPolicy::Delete {
            return None;
        }
        let affected = self
            .crds
            .iter()
            .filter(|crd| crd.may_delete_resources())
            .count();
        let counted = (affected > 0).then(|| count(affected, "CRD"));
        let unknown = self.inventory_error.is_some().then(|| {
            let noun = if affected > 0 { "other CRDs" } else { "CRDs" };
            format!("{noun} that cannot be listed")
        });
        let all: Vec<String> = counted.into_iter().chain(unknown).collect();
        (!all.is_empty()).then(|| all.join(" and of "))
    }
}

/// Returns the existing CRDs of an instance.
pub(crate) async fn crds(cluster: &Cluster, instance: &BundleInstance) -> CrdUsages {
    let mut names: BTreeSet<String> = names_of_kind(instance, "CustomResourceDefinition");
    let (overflow, inventory_error) = match inventory::overflow_inventory(cluster, instance).await {
        Ok(overflow) if overflow.len() < unlisted_count(instance) => {
            let space = &cluster.system_namespace;
            (overflow, Some(format!("it is not in namespace {space}")))
        }
        Ok(overflow) => (overflow, None),
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
    };
    names.extend(
        overflow
            .into_iter()
            .map(|listed| listed.identity)
            .filter(|identity| identity.kind == "CustomResourceDefinition")
            .map(|identity| identity.name),
    );
    let api = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    let requests = names.into_iter().map(|name| crd(cluster, &api, name));
    let found = cluster::join(requests).await;
    CrdUsages {
        crds: found.into_iter().flatten().collect(),
        inventory_error,
    }
}

/// Reads a CRD and counts its custom resources; `None` if the CRD does not exist.
async fn crd(
    cluster: &Cluster,
    api: &Api<CustomResourceDefinition>,
    name: String,
) -> Option<CrdUsage> {
    let resources = match api.get(&name).await {
        Ok(definition) => resources(cluster, &definition).await,
        Err(error) if Cluster::is_absent(&error) => return None,
        Err(_) => None,
    };
    Some(CrdUsage { name, resources })
}

/// Returns the number of objects that the status does not list.
fn unlisted_count(instance: &BundleInstance) -> usize {
    let status = instance.status.as_ref();
    let Some(listed) = status.and_then(|status| status.inventory.as_ref()) else {
        return 0;
    };
    let all = usize::try_from(listed.count).unwrap_or_default();
    all.saturating_sub(inventory_format::entries(&listed.kinds).count())
}

/// Returns the number of custom resources, from a list request with limit 1; `None` if the request fails.
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

/// Returns the Namespaces that were created for the instance.
pub(crate) fn namespaces(instance: &BundleInstance) -> Vec<String> {
    names_of_kind(instance, "Namespace").into_iter().collect()
}

fn names_of_kind(instance: &BundleInstance, kind: &str) -> BTreeSet<String> {
    let status = instance.status.as_ref();
    let listed = status.and_then(|status| status.inventory.as_ref());
    let kinds = listed.map_or(&[][..], |listed| &listed.kinds);
    let entries = inventory_format::entries(kinds).map(|(identity, _): (Identity, _)| identity);
    entries
        .filter(|identity| identity.kind == kind && identity.namespace.is_empty())
        .map(|identity| identity.name)
        .collect()
}

/// Describes the objects that will be kept, and the custom resources that will be deleted.
pub(crate) fn preview(
    cascade: Cascade,
    policy: CrdDeletionPolicy,
    crds: &CrdUsages,
    namespaces: &[String],
) -> Vec<String> {
    if cascade == Cascade::Orphan {
        return vec!["all objects will be kept".to_owned()];
    }
    let mut lines: Vec<String> = namespaces
        .iter()
        .map(|name| format!("Namespace {name} will be kept (may contain other objects)"))
        .collect();
    for CrdUsage { name, resources } in &crds.crds {
        let some = match resources {
            Some(number) => count(*number, "custom resource"),
            None => "an unknown number of custom resources".to_owned(),
        };
        lines.push(match (policy, resources) {
            (CrdDeletionPolicy::Retain, _) => {
                format!("CustomResourceDefinition {name} will be kept ({some})")
            }
            (_, Some(0)) => format!("CustomResourceDefinition {name} will be deleted (unused)"),
            (CrdDeletionPolicy::DeleteIfUnused, Some(_)) => {
                format!("CustomResourceDefinition {name} will be kept ({some})")
            }
            (CrdDeletionPolicy::DeleteIfUnused, None) => {
                format!("CustomResourceDefinition {name} will be kept if it has custom resources")
            }
            (CrdDeletionPolicy::Delete, _) => {
                format!("CustomResourceDefinition {name} and {some} will be deleted")
            }
        });
    }
    if let Some(reason) = &crds.inventory_error {
        lines.push(format!(
            "there may be more CRDs: failed to read the rest of the inventory: {reason}"
        ));
    }
    lines
}

/// Describes the objects that were kept, as far as they can be read.
pub(crate) async fn remaining_lines(
    cluster: &Cluster,
    crds: &CrdUsages,
    namespaces: &[String],
) -> Vec<String> {
    let mut lines = Vec::new();
    let api = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    for CrdUsage { name, .. } in &crds.crds {
        if let Ok(Some(found)) = api.get_metadata_opt(name).await
            && found.metadata.deletion_timestamp.is_none()
        {
            lines.push(format!(
                "CustomResourceDefinition {} kept",
                found.name_any()
            ));
        }
    }
    let api = Api::<Namespace>::all(cluster.client.clone());
    for name in namespaces {
        if let Ok(Some(_)) = api.get_metadata_opt(name).await {
            lines.push(format!("Namespace {name} kept"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use CrdDeletionPolicy::{Delete, DeleteIfUnused, Retain};

    use super::*;

    /// One CRD with this number of custom resources. `None` means unknown.
    fn usage(resources: Option<usize>) -> CrdUsages {
        let name = "stations.example.com".to_owned();
        ::tests::with!(CrdUsages, crds: vec![CrdUsage { name, resources }])
    }

    fn incomplete(usages: CrdUsages) -> CrdUsages {
        ::tests::with!(usages => inventory_error: Some("forbidden".to_owned()))
    }

    #[test]
    fn deletable_custom_resources_require_confirmation() {
        let others = "1 CRD and of other CRDs that cannot be listed";
        let unknown = "CRDs that cannot be listed";
        for (crds, expected) in ::tests::rows![
            CrdUsages::default() => None;
            usage(Some(0)) => None;
            usage(Some(2)) => Some("1 CRD");
            usage(None) => Some("1 CRD");
            incomplete(usage(Some(2))) => Some(others);
            incomplete(usage(None)) => Some(others);
            incomplete(usage(Some(0))) => Some(unknown);
            incomplete(CrdUsages::default()) => Some(unknown);
        ] {
            for (cascade, policy, expected) in [
                (Cascade::Background, Delete, expected),
                (Cascade::Foreground, Delete, expected),
                (Cascade::Orphan, Delete, None),
                (Cascade::Background, Retain, None),
                (Cascade::Foreground, DeleteIfUnused, None),
            ] {
                ::tests::assert_rows! {
                    crds.deleted_resources(cascade, policy).as_deref() => expected, "{crds:?} {cascade:?} {policy:?}";
                }
            }
        }
    }

    // parity: platform-19, complaint-7
    #[test]
    fn policy_determines_the_reported_deletions() {
        ::tests::assert_each!(|policy, resources, expected| preview(Cascade::Background, policy, &usage(resources), &[])
            => [format!("CustomResourceDefinition stations.example.com {expected}")];
            Retain, Some(2) => "will be kept (2 custom resources)";
            Retain, None => "will be kept (an unknown number of custom resources)";
            DeleteIfUnused, Some(0) => "will be deleted (unused)";
            DeleteIfUnused, Some(1) => "will be kept (1 custom resource)";
            DeleteIfUnused, None => "will be kept if it has custom resources";
            Delete, Some(0) => "will be deleted (unused)";
            Delete, Some(3) => "and 3 custom resources will be deleted";
        );
        let names = ["tides".to_owned()];
        let none = CrdUsages::default;
        ::tests::assert_each!(|cascade, policy, crds, namespaces, expected|
            preview(cascade, policy, &crds, namespaces) => [expected];
            Cascade::Foreground, Retain, none(), &names[..] => "Namespace tides will be kept (may contain other objects)";
            Cascade::Orphan, Delete, usage(Some(3)), &names => "all objects will be kept";
            Cascade::Background, Delete, incomplete(none()), &[]
                => "there may be more CRDs: failed to read the rest of the inventory: forbidden";
        );
    }
}

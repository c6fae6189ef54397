//! Objects of a BundleInstance that its status does not list.
//!
//! The recorded revisions contain these objects. An older provisioner listed them in ConfigMaps of the system namespace.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _, api::ListParams};
use manifests::{
    api::{
        bundle_instance::{BundleInstance, BundleInstanceStatus, InventoryKind},
        inventory_format, labels,
        owner::{InstanceOwner, ObjectOwner},
        owner_metadata,
    },
    object::{Identity, Object},
};

use super::{LiveObjects, metadata};
use crate::cluster::Cluster;

/// Key of the inventory in a ConfigMap.
const KEY: &str = "inventory.json";

/// An object and the version in which it is applied.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) api_version: String,
    pub(crate) identity: Identity,
}

/// Returns the objects of an instance that exceed the capacity of its status.
///
/// # Errors
/// Returns an error if the records of the revisions, or the ConfigMaps of an older provisioner, cannot be read.
pub(crate) async fn overflow_inventory(
    cluster: &Cluster,
    instance: &BundleInstance,
) -> anyhow::Result<Vec<Listed>> {
    let Some(status) = &instance.status else {
        return Ok(Vec::new());
    };
    let more = status.inventory.as_ref().and_then(|listed| listed.more);
    let mut overflow = if more.is_some_and(|more| more > 0) {
        in_config_maps(cluster, instance).await?
    } else {
        Vec::new()
    };
    if !status.lists_all() {
        let recorded = recorded(cluster, instance, status).await?;
        let listed_before: BTreeSet<Identity> =
            overflow.iter().map(|one| one.identity.clone()).collect();
        overflow.extend(
            recorded
                .into_iter()
                .filter(|one| !listed_before.contains(&one.identity)),
        );
    }
    Ok(overflow)
}

/// Reads the records of the revisions whose objects may exist.
async fn recorded(
    cluster: &Cluster,
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
) -> anyhow::Result<Vec<Listed>> {
    let owner = InstanceOwner {
        name: instance.name_any(),
        uid: instance.uid().unwrap_or_default(),
    };
    let listed = status.inventory.as_ref();
    let kinds = listed.map_or(&[][..], |listed| &listed.kinds);
    let mut listed_before: BTreeSet<Identity> = inventory_format::entries(kinds)
        .map(|(identity, _)| identity)
        .collect();
    let mut overflow = Vec::new();
    for revision in status.indexed() {
        let record = cluster.record(instance, revision).await;
        let record = record.map_err(|error| {
            let name = instance.name_any();
            let problem = format!(
                "failed to read the objects of BundleInstance {name} that its status does not list"
            );
            cluster.explain_record(problem, error)
        })?;
        let mut kinds = LiveObjects::new(cluster, &record.objects);
        for mut object in record.objects {
            let kind = kinds.kind(object.api_version(), object.kind()).await?;
            if let Some(kind) = &kind {
                owner_metadata::set_namespace(
                    &mut object,
                    kind.namespaced,
                    &record.header.namespace,
                );
            }
            let identity = object.identity();
            if !listed_before.insert(identity.clone()) {
                continue;
            }
            // A Namespace of another client is recorded, and is not an object of the instance.
            if let Some(kind) = kind.filter(|_| is_namespace(&object)) {
                let found = kinds.get(&kind, &identity).await?;
                let found = found.as_ref().map(metadata).transpose()?;
                if !found.is_some_and(|found| {
                    ObjectOwner::from_metadata(&found, &owner) == ObjectOwner::ThisInstance
                }) {
                    continue;
                }
            }
            overflow.push(Listed {
                api_version: object.api_version().to_owned(),
                identity,
            });
        }
    }
    Ok(overflow)
}

fn is_namespace(object: &Object) -> bool {
    object.group().is_empty() && object.kind() == "Namespace"
}

/// Reads the ConfigMaps of an older provisioner.
async fn in_config_maps(
    cluster: &Cluster,
    instance: &BundleInstance,
) -> anyhow::Result<Vec<Listed>> {
    let name = instance.name_any();
    let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), &cluster.system_namespace);
    let selector = format!("{}={name}", labels::INVENTORY_OF);
    let found = maps.list(&ListParams::default().labels(&selector)).await;
    let found = found.map_err(|error| {
        cluster.explain(format!("failed to read the inventory of {name}"), error)
    })?;
    let mut overflow = Vec::new();
    let uid = instance.uid().unwrap_or_default();
    for map in found {
        if !map.owner_references().iter().any(|owner| owner.uid == uid) {
            continue; // of an instance that had the same name
        }
        let text = map.data.as_ref().and_then(|data| data.get(KEY));
        let kinds: Option<Vec<InventoryKind>> =
            text.map(|text| serde_json::from_str(text)).transpose()?;
        for kind in kinds.unwrap_or_default() {
            let entries = inventory_format::entries(std::slice::from_ref(&kind));
            overflow.extend(entries.map(|(identity, _)| Listed {
                api_version: kind.api_version.clone(),
                identity,
            }));
        }
    }
    Ok(overflow)
}

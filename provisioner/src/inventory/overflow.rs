//! The part of an inventory that a status has no room for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use manifests::{
    api::{
        instance::{Inventory as Listed, InventoryKind},
        labels,
    },
    names,
};

use super::{Inventory, MOST_LISTED, list, listed, parse};
use crate::{apply::MANAGER, plan::Owner};

/// How many objects one ConfigMap lists: at most 350 bytes each, so that it stays below 1 MiB.
const MOST_IN_ONE: usize = 2500;

const KEY: &str = "inventory.json";

/// Where the rest is kept.
pub struct Overflow<'a> {
    /// With the provisioner's own rights.
    pub client: &'a Client,
    /// Its namespace.
    pub namespace: &'a str,
    /// Whose inventory.
    pub owner: &'a Owner,
}

/// Writes what exceeds the status, and gives what the status has to say. Only a large inventory takes requests.
///
/// # Errors
/// When the ConfigMaps cannot be written; the status must not be written then.
pub async fn write(at: &Overflow<'_>, inventory: &Inventory) -> Result<Listed, kube::Error> {
    let mut pieces = if inventory.len() <= MOST_LISTED {
        list(inventory, MOST_LISTED)
    } else {
        let first: Inventory = inventory
            .iter()
            .take(MOST_LISTED)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let rest: Inventory = inventory
            .iter()
            .skip(MOST_LISTED)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let mut pieces = list(&first, MOST_LISTED);
        pieces.extend(list(&rest, MOST_IN_ONE));
        pieces
    };
    let listed = listed(inventory.len(), &mut pieces);
    let api: Api<ConfigMap> = Api::namespaced(at.client.clone(), at.namespace);
    for (index, kinds) in pieces.iter().enumerate() {
        let map = config_map(at, index, kinds);
        api.patch(
            map.metadata.name.as_deref().unwrap_or_default(),
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(&map),
        )
        .await?;
    }
    Ok(listed)
}

/// Reads a whole inventory.
///
/// # Errors
/// When a ConfigMap cannot be read. One that is missing is an error too: objects would be forgotten.
pub async fn read(at: &Overflow<'_>, listed: &Listed) -> Result<Inventory, kube::Error> {
    let mut inventory: Inventory = parse(&listed.kinds).collect();
    let api: Api<ConfigMap> = Api::namespaced(at.client.clone(), at.namespace);
    for index in 0..usize::try_from(listed.more.unwrap_or_default()).unwrap_or_default() {
        let map = api.get(&name(&at.owner.name, index)).await?;
        let text = map.data.as_ref().and_then(|data| data.get(KEY));
        let kinds: Vec<InventoryKind> = text
            .map(|text| serde_json::from_str(text))
            .transpose()
            .map_err(kube::Error::SerdeError)?
            .unwrap_or_default();
        inventory.extend(parse(&kinds));
    }
    Ok(inventory)
}

fn name(instance: &str, index: usize) -> String {
    let index = (index + 1).to_string();
    format!(
        "{}-{index}",
        names::generated(instance, &[instance, "inventory"], names::SHORT)
    )
}

fn config_map(at: &Overflow<'_>, index: usize, kinds: &[InventoryKind]) -> ConfigMap {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    let text = serde_json::to_string(kinds).unwrap_or_default(); // texts only: cannot fail
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name(&at.owner.name, index)),
            namespace: Some(at.namespace.to_owned()),
            labels: Some(BTreeMap::from([(
                labels::INVENTORY_OF.to_owned(),
                at.owner.name.clone(),
            )])),
            owner_references: Some(vec![OwnerReference {
                api_version: "core.rukpak.io/v1alpha1".to_owned(),
                kind: "BundleInstance".to_owned(),
                name: at.owner.name.clone(),
                uid: at.owner.uid.clone(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(KEY.to_owned(), text)])),
        ..ConfigMap::default()
    }
}

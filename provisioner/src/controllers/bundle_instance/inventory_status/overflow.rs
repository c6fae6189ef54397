//! ConfigMaps in which older provisioners listed the objects that exceed the status.

use std::fmt::Debug;

use apply::{api_error, revision::store::Store};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use manifests::{
    api::{
        bundle_instance::{Inventory as Listed, InventoryKind},
        labels,
    },
    names,
    object::Identity,
};
use serde::de::DeserializeOwned;
use tracing::warn;

use super::{Entry, Inventory, parse};

const KEY: &str = "inventory.json";

/// Deletes the ConfigMaps that the status `before` needs and the later status `after` does not. The garbage collector
/// deletes the others with the instance.
pub(crate) async fn trim(at: &Store<'_>, before: Option<&Listed>, after: Option<&Listed>) {
    let (before, after) = (before.map_or(0, pieces), after.map_or(0, pieces));
    let api: Api<ConfigMap> = Api::namespaced(at.client.clone(), at.namespace);
    for index in after..before {
        let name = name(&at.owner.name, index);
        if let Err(error) = api.delete(&name, &DeleteParams::default()).await {
            let error = api_error::chain(&error);
            warn!(%name, error, "failed to delete a ConfigMap of an inventory");
        }
    }
}

/// Reads a whole inventory. If the instance is being deleted, the garbage collector may have deleted the ConfigMaps and all
/// objects with an owner reference to the instance. The labels of CRDs and Namespaces find the remaining objects.
///
/// # Errors
/// Returns an error if a ConfigMap cannot be read. A missing ConfigMap is an error as well unless the instance is being
/// deleted, since its objects would be lost.
pub(crate) async fn read(
    at: &Store<'_>,
    listed: &Listed,
    is_deleted: bool,
) -> Result<Inventory, kube::Error> {
    let mut inventory: Inventory = parse(&listed.kinds).collect();
    let api: Api<ConfigMap> = Api::namespaced(at.client.clone(), at.namespace);
    let mut is_whole = true;
    for index in 0..pieces(listed) {
        match api.get(&name(&at.owner.name, index)).await {
            Ok(map) => inventory.extend(parse(&kinds(&map)?)),
            Err(kube::Error::Api(status)) if is_deleted && status.code == 404 => is_whole = false,
            Err(error) => return Err(error),
        }
    }
    if !is_whole {
        find_unreferenced(at, &mut inventory).await?;
    }
    Ok(inventory)
}

/// Adds the objects without an owner reference, which are not deleted with the instance: CRDs and Namespaces. Their labels
/// name the owner.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub(crate) async fn find_unreferenced(
    at: &Store<'_>,
    inventory: &mut Inventory,
) -> Result<(), kube::Error> {
    find::<CustomResourceDefinition>(at, inventory).await?;
    find::<Namespace>(at, inventory).await
}

/// Adds the objects of a cluster-scoped kind that have the owner's labels.
async fn find<K>(at: &Store<'_>, inventory: &mut Inventory) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let selector = format!(
        "{}=BundleInstance,{}={}",
        labels::OWNER_KIND,
        labels::OWNER_NAME,
        at.owner.name
    );
    let api = Api::<K>::all(at.client.clone());
    let params = ListParams::default().labels(&selector);
    let found = match api.list_metadata(&params).await {
        Ok(found) => found,
        // The removal of the other objects does not depend on this permission.
        Err(kube::Error::Api(answer)) if answer.code == 403 => {
            warn!(kind = %K::kind(&()), error = answer.message, "failed to list the remaining objects");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for object in found {
        let identity = Identity {
            group: K::group(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: String::new(),
            name: object.name_any(),
        };
        inventory.entry(identity).or_insert_with(|| Entry {
            version: K::version(&()).into_owned(),
            ..Entry::default()
        });
    }
    Ok(())
}

fn pieces(listed: &Listed) -> usize {
    usize::try_from(listed.more.unwrap_or_default()).unwrap_or_default()
}

fn kinds(map: &ConfigMap) -> Result<Vec<InventoryKind>, kube::Error> {
    let text = map.data.as_ref().and_then(|data| data.get(KEY));
    let kinds = text.map(|text| serde_json::from_str(text)).transpose();
    Ok(kinds.map_err(kube::Error::SerdeError)?.unwrap_or_default())
}

fn name(instance: &str, index: usize) -> String {
    let index = (index + 1).to_string();
    format!(
        "{}-{index}",
        names::generate_name(instance, &[instance, "inventory"], names::SHORT)
    )
}

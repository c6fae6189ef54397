//! Writes the status of an object.
//!
//! The API server replaces the metadata of a status patch before it compares uids. A patch with the uid of a deleted object
//! therefore changes the status of a later object with the same name. The API server does compare resourceVersions, so that
//! every write carries the resourceVersion that was read together with the uid.

use std::fmt::Debug;

use kube::{
    Api, Resource, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::ssa::MANAGER;

/// The number of attempts while other clients write the object.
const MAX_ATTEMPTS: u32 = 10;

/// Applies the status of an object. Fields of other managers are kept. Returns the object; `None` if the object was
/// deleted, even if another object has its name.
///
/// `version` is the newest known resourceVersion of the object. Each time another client has written the object in the
/// meantime, `revise` may change the status, and the write is repeated.
///
/// # Errors
/// Returns an error if the API server rejects the status, if a request fails, or if other clients write the object too
/// often.
pub async fn apply<K, S>(
    api: &Api<K>,
    object: &K,
    version: Option<String>,
    status: &mut S,
    mut revise: impl FnMut(&ObjectMeta, &mut S),
) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    S: Serialize,
{
    let name = object.name_any();
    let params = PatchParams::apply(MANAGER).force();
    let mut version = version;
    let mut attempts = 1;
    loop {
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            // Without the uid, a patch of a missing object would create it.
            "metadata": {"name": name, "uid": object.uid(), "resourceVersion": version},
            "status": status,
        });
        let error = match api.patch_status(&name, &params, &Patch::Apply(body)).await {
            Ok(written) => return Ok(Some(written)),
            Err(error) => error,
        };
        match &error {
            kube::Error::Api(answer) if answer.code == 404 => return Ok(None),
            kube::Error::Api(answer) if answer.code == 409 && attempts < MAX_ATTEMPTS => {}
            _ => return Err(error),
        }
        let found = api.get_metadata_opt(&name).await?;
        let Some(found) = found.filter(|found| found.uid() == object.uid()) else {
            return Ok(None);
        };
        version = found.resource_version();
        revise(&found.metadata, status);
        attempts += 1;
    }
}

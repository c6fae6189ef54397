//! Leaving an object in the cluster without its being anybody's.

use kube::api::{Patch, PatchParams};
use manifests::{api::labels, object::text};
use serde_json::{Value, json};

use super::{Fate, Prune, is_referred_to};
use crate::ssa::{
    MANAGER,
    object::Partial,
    request::{Address, Trouble, send},
};

impl Prune<'_> {
    /// Takes the owner's labels and reference off an object. What is left lets an instance of the same name have it
    /// again, unless somebody has given it to another already.
    pub(super) async fn release(
        &self,
        address: &Address,
        metadata: &Value,
        why: String,
    ) -> Result<Fate, Trouble> {
        let adopter = text(metadata, &["annotations", labels::ADOPT]).unwrap_or(&self.owner.name);
        let patch = json!({
            "metadata": {
                // Whoever changes the object at the same time is not overridden.
                "resourceVersion": metadata.get("resourceVersion"),
                "labels": {labels::OWNER_KIND: null, labels::OWNER_NAME: null},
                "annotations": {labels::ADOPT: adopter},
                "ownerReferences": self.others(metadata),
            },
        });
        self.patch(address, &patch).await?;
        Ok(Fate::Released(why))
    }

    /// Takes the reference to the owner off an object, and leaves the rest as it is. The garbage collector does so, too,
    /// but not for objects that it has not seen yet: those it deletes once it has.
    pub(super) async fn orphan(
        &self,
        address: &Address,
        metadata: &Value,
    ) -> Result<Fate, Trouble> {
        if is_referred_to(self.owner, metadata) {
            let patch = json!({"metadata": {
                "resourceVersion": metadata.get("resourceVersion"),
                "ownerReferences": self.others(metadata),
            }});
            self.patch(address, &patch).await?;
        }
        Ok(Fate::Released("was left".to_owned()))
    }

    /// References to other owners.
    fn others<'a>(&self, metadata: &'a Value) -> Vec<&'a Value> {
        let all = metadata.get("ownerReferences").and_then(Value::as_array);
        all.into_iter()
            .flatten()
            .filter(|reference| text(reference, &["uid"]) != Some(self.owner.uid.as_str()))
            .collect()
    }

    async fn patch(&self, address: &Address, patch: &Value) -> Result<(), Trouble> {
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let request = || {
            address
                .collection
                .patch_metadata(&address.name, &params, &Patch::Merge(patch))
        };
        let _: Partial = send(self.apply.client, request).await?;
        Ok(())
    }
}

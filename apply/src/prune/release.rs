//! Release of an object: removes the ownership marks and keeps the object in the cluster.

use kube::api::{Patch, PatchParams};
use manifests::{api::labels, object::text};
use serde_json::{Value, json};

use super::{PruneOutcome, Pruner, is_referred_to};
use crate::ssa::MANAGER;
use crate::ssa::apply_object::ObjectMetadata;
use crate::ssa::request::{ApiError, ResourcePath, send};

impl Pruner<'_> {
    /// Removes the owner's labels and reference from an object. The remaining annotation lets an instance of the same name
    /// adopt it again, unless the object already names another adopter.
    pub(super) async fn release(
        &self,
        path: &ResourcePath,
        metadata: &Value,
        reason: String,
    ) -> Result<PruneOutcome, ApiError> {
        let adopter = text(metadata, &["annotations", labels::ADOPT]).unwrap_or(&self.owner.name);
        let patch = json!({
            "metadata": {
                // A concurrent change by another client is not overwritten.
                "resourceVersion": metadata.get("resourceVersion"),
                "labels": {labels::OWNER_KIND: null, labels::OWNER_NAME: null},
                "annotations": {labels::ADOPT: adopter},
                "ownerReferences": self.other_owners(metadata),
            },
        });
        self.patch(path, &patch).await?;
        Ok(PruneOutcome::Released(reason))
    }

    /// Removes the reference to the owner from an object and keeps the rest. The garbage collector does the same, but it
    /// deletes objects that it has not observed yet.
    pub(super) async fn orphan(
        &self,
        path: &ResourcePath,
        metadata: &Value,
    ) -> Result<PruneOutcome, ApiError> {
        if is_referred_to(self.owner, metadata) {
            let patch = json!({"metadata": {
                "resourceVersion": metadata.get("resourceVersion"),
                "ownerReferences": self.other_owners(metadata),
            }});
            self.patch(path, &patch).await?;
        }
        Ok(PruneOutcome::Released("was orphaned".to_owned()))
    }

    /// Returns the references to other owners.
    fn other_owners<'a>(&self, metadata: &'a Value) -> Vec<&'a Value> {
        let all = metadata.get("ownerReferences").and_then(Value::as_array);
        all.into_iter()
            .flatten()
            .filter(|reference| text(reference, &["uid"]) != Some(self.owner.uid.as_str()))
            .collect()
    }

    async fn patch(&self, path: &ResourcePath, patch: &Value) -> Result<(), ApiError> {
        let params = PatchParams::apply(MANAGER);
        let request = || {
            path.collection
                .patch_metadata(&path.name, &params, &Patch::Merge(patch))
        };
        let _: ObjectMetadata = send(self.apply.client, request).await?;
        Ok(())
    }
}

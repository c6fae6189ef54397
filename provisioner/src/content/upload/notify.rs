//! Reports an upload in the status of the Bundle, which triggers the Bundle controller.

use std::{ops::ControlFlow, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use manifests::api::{
    bundle::{Bundle, Phase},
    condition::{CONTENT_AVAILABLE, UNPACKED, reason, with_time_of},
};
use serde_json::{Value, json};
use tokio::time;
use unpacker::Digest;

use crate::{content::download::unpacked, controllers::bundle::is_lost};

/// Message of rukpak.
const MESSAGE: &str = "received bundle upload, waiting for provisioner to unpack it.";
/// Separate field manager: the controller takes ownership of these fields.
const MANAGER: &str = "rukpak-uploads";
/// Maximum number of attempts if other clients write the status concurrently.
const MAX_ATTEMPTS: usize = 5;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Writes the status. Returns the digest of the content instead if the Bundle is already unpacked or pinned to other
/// content.
pub(super) async fn notify_controller(
    client: &Client,
    bundle: &Bundle,
    uploaded: Digest,
    now: Timestamp,
) -> Result<Option<Digest>, kube::Error> {
    patch_status(client, bundle, |current| {
        let status = current.status.as_ref();
        let pinned = status.and_then(|status| status.content_digest.as_ref()?.parse().ok());
        match unpacked(current).or(pinned.filter(|pinned| *pinned != uploaded)) {
            Some(digest) => ControlFlow::Break(digest),
            None => ControlFlow::Continue(pending(current, now)),
        }
    })
    .await
}

/// Removes the condition about lost content from the status of an unpacked Bundle, because the store has the content again.
/// The change triggers the controllers of the Bundle and of its BundleInstance.
pub(super) async fn report_restored(client: &Client, bundle: &Bundle) -> Result<(), kube::Error> {
    if !is_lost(bundle) {
        return Ok(());
    }
    let found = patch_status(client, bundle, |current| match restored_patch(current) {
        Some(patch) => ControlFlow::Continue(patch),
        None => ControlFlow::Break(()),
    });
    found.await.map(drop)
}

/// Writes the patch that `decide` returns for the current Bundle, or returns the result of `decide` instead.
async fn patch_status<T>(
    client: &Client,
    bundle: &Bundle,
    decide: impl Fn(&Bundle) -> ControlFlow<T, Value>,
) -> Result<Option<T>, kube::Error> {
    let api = Api::<Bundle>::all(client.clone());
    let name = bundle.name_any();
    let mut last = None;
    for _ in 0..MAX_ATTEMPTS {
        let Ok(current) = time::timeout(REQUEST_TIMEOUT, api.get(&name)).await else {
            break;
        };
        let current = current?;
        if current.metadata.uid != bundle.metadata.uid {
            return Ok(None);
        }
        let patch = match decide(&current) {
            ControlFlow::Continue(patch) => Patch::Merge(patch),
            ControlFlow::Break(result) => return Ok(Some(result)),
        };
        let params = PatchParams::apply(MANAGER);
        let write = api.patch_status(&name, &params, &patch);
        match time::timeout(REQUEST_TIMEOUT, write).await {
            Ok(Ok(_)) => return Ok(None),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                last = Some(kube::Error::Api(status));
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => break,
        }
    }
    match last {
        Some(error) => Err(error),
        None => Ok(None), // the API server is slow, and the controller watches the ConfigMaps
    }
}

fn pending(bundle: &Bundle, now: Timestamp) -> Value {
    let previous = bundle.status.as_ref().map(|status| &*status.conditions);
    let condition = Condition {
        type_: UNPACKED.to_owned(),
        status: "False".to_owned(),
        reason: reason::UNPACK_PENDING.to_owned(),
        message: MESSAGE.to_owned(),
        observed_generation: bundle.metadata.generation,
        last_transition_time: Time(now),
    };
    let condition = with_time_of(previous.unwrap_or_default(), condition);
    json!({
        "metadata": {"resourceVersion": bundle.metadata.resource_version},
        "status": {"phase": Phase::Pending, "conditions": [condition]},
    })
}

/// Returns the patch that removes the condition about lost content, or `None` if the Bundle does not have the condition.
fn restored_patch(bundle: &Bundle) -> Option<Value> {
    let status = bundle.status.as_ref().filter(|_| is_lost(bundle))?;
    let conditions = status.conditions.iter();
    let conditions = conditions.filter(|condition| condition.type_ != CONTENT_AVAILABLE);
    let conditions: Vec<&Condition> = conditions.collect();
    Some(json!({
        "metadata": {"resourceVersion": bundle.metadata.resource_version},
        "status": {"conditions": conditions},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_content_removes_only_its_condition() {
        let condition = |type_: &str| crate::fixtures::condition(type_, "False", "Any", "");
        let bundle = |types: &[&str]| -> Bundle {
            let conditions: Vec<Value> = types.iter().map(|type_| condition(type_)).collect();
            object!({"metadata": {"name": "b", "resourceVersion": "7"}, "status": {"conditions": conditions}})
        };
        let patch = json!({
            "metadata": {"resourceVersion": "7"},
            "status": {"conditions": [condition(UNPACKED), condition("Other")]},
        });
        assert_rows! {
            restored_patch(&bundle(&[UNPACKED, CONTENT_AVAILABLE, "Other"])) => Some(patch);
            restored_patch(&bundle(&[UNPACKED])) => None;
            restored_patch(&bundle(&[])) => None;
        }
    }
}

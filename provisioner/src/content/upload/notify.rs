//! Reports an upload in the status of the Bundle, which triggers the Bundle controller.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use manifests::api::{
    bundle::{Bundle, Phase},
    condition::{UNPACKED, reason, with_time_of},
};
use serde_json::{Value, json};
use tokio::time;
use unpacker::Digest;

use crate::content::download::unpacked;

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
        let status = current.status.as_ref();
        let pinned = status.and_then(|status| status.content_digest.as_ref()?.parse().ok());
        if let Some(digest) = unpacked(&current).or(pinned.filter(|pinned| *pinned != uploaded)) {
            return Ok(Some(digest));
        }
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(pending(&current, now));
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

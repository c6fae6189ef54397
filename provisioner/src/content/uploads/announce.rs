//! Telling the Bundle controller, and whoever looks, that something was uploaded.

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

use crate::content::bundles::unpacked;

/// What rukpak says.
const MESSAGE: &str = "received bundle upload, waiting for provisioner to unpack it.";
/// Not the controller's own: it takes over whatever this one has set.
const MANAGER: &str = "rukpak-uploads";
/// How often somebody else may write the status in between.
const TRIES: usize = 5;
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes the status, unless the Bundle is unpacked by now, or was from other content: then the digest of what from.
pub(super) async fn announce(
    client: &Client,
    bundle: &Bundle,
    uploaded: Digest,
    now: Timestamp,
) -> Result<Option<Digest>, kube::Error> {
    let api = Api::<Bundle>::all(client.clone());
    let name = bundle.name_any();
    let mut last = None;
    for _ in 0..TRIES {
        let Ok(fresh) = time::timeout(PATIENCE, api.get(&name)).await else {
            break;
        };
        let fresh = fresh?;
        if fresh.metadata.uid != bundle.metadata.uid {
            return Ok(None);
        }
        let status = fresh.status.as_ref();
        let pinned = status.and_then(|status| status.content_digest.as_ref()?.parse().ok());
        if let Some(digest) = unpacked(&fresh).or(pinned.filter(|pinned| *pinned != uploaded)) {
            return Ok(Some(digest));
        }
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(pending(&fresh, now));
        let write = api.patch_status(&name, &params, &patch);
        match time::timeout(PATIENCE, write).await {
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
        None => Ok(None), // the apiserver is slow, and the controller sees the ConfigMaps
    }
}

fn pending(bundle: &Bundle, now: Timestamp) -> Value {
    let former = bundle.status.as_ref().map(|status| &*status.conditions);
    let condition = Condition {
        type_: UNPACKED.to_owned(),
        status: "False".to_owned(),
        reason: reason::UNPACK_PENDING.to_owned(),
        message: MESSAGE.to_owned(),
        observed_generation: bundle.metadata.generation,
        last_transition_time: Time(now),
    };
    let condition = with_time_of(former.unwrap_or_default(), condition);
    json!({
        "metadata": {"resourceVersion": bundle.metadata.resource_version},
        "status": {"phase": Phase::Pending, "conditions": [condition]},
    })
}

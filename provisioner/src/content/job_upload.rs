//! `PUT /unpack/<name>.tgz`: receives the content from the pod of the Job of a Bundle.
//!
//! The token identifies the pod, and the owner references of the pod its Job and Bundle. The digest is recorded on the Job
//! before the upload is acknowledged. That triggers the controller, and outlives this process.

use std::{fmt::Debug, time::Duration};

use axum::{body::Body, extract::Request, response::Response};
use http::StatusCode;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use manifests::api::{bundle::Bundle, labels};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time;
use tracing::{debug, info, warn};
use unpacker::{
    Digest, Selection,
    transfer::{self, ReceiveOptions, RequiredHeaders, StoredUpload},
};

use super::{
    authz::PodToken,
    download, response,
    routes::{ServiceState, not_leader},
    upload::{IDLE_TIMEOUT, TOTAL_TIMEOUT, UploadLock, forget, refuse},
};
use crate::controllers::bundle::{
    job::{self, UploadDenied},
    truncate,
};
use apply::{api_error, ssa::MANAGER};

/// Timeout of one request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a message on a Job, in bytes.
const MAX_MESSAGE_SIZE: usize = 4 << 10;

pub(super) async fn put(
    shared: &ServiceState,
    name: &str,
    token: &PodToken,
    request: Request,
) -> Response {
    let bundle = match find(shared, name, token).await {
        Ok((bundle, _)) => bundle,
        Err(response) => return refuse(request, response),
    };
    let Some(_lock) = UploadLock::new(&shared.uploading, name) else {
        // Most likely another pod of the same Job, which is terminating.
        let message = "another pod is uploading the content; retry";
        return refuse(request, response::unavailable(message));
    };
    let _slot = match download::acquire_slot(&shared.uploads, "uploads").await {
        Ok(slot) => slot,
        Err(response) => return refuse(request, response),
    };
    let mut options = shared.parts.settings.unpack.clone();
    // The declared digest covers all received files.
    options.select = Selection::All;
    let terms = ReceiveOptions {
        options,
        demand: RequiredHeaders::Claims,
        expected: None,
        idle: IDLE_TIMEOUT,
        total: TOTAL_TIMEOUT,
    };
    let received = transfer::receive(&shared.parts.store, &terms, request).await;
    match received {
        Ok(received) => match record_delivery(shared, &bundle, token, &received).await {
            Ok(()) => {
                let response = transfer::answer(&Ok(received.clone())).map(Body::from);
                log_upload(name, token, &received, response.status());
                response
            }
            Err(response) => {
                log_upload(name, token, &received, response.status());
                forget(shared, received).await;
                response
            }
        },
        Err(refusal) => {
            info!(
                bundle = name,
                pod = token.name,
                reason = refusal.reason(),
                "rejected the upload of a Job"
            );
            if refusal.reason() == unpacker::Error::ENTRY_REFUSED {
                reject(shared, name, token, &refusal.problem().message).await;
            }
            transfer::answer(&Err(refusal)).map(Body::from)
        }
    }
}

fn log_upload(bundle: &str, token: &PodToken, received: &StoredUpload, status: StatusCode) {
    let stored = &received.stored;
    info!(
        bundle,
        pod = token.name,
        digest = %stored.digest,
        size = stored.size,
        status = status.as_u16(),
        "received the content of a Job"
    );
}

/// Returns the Bundle and its Job, if the Job owns the pod.
async fn find(
    shared: &ServiceState,
    name: &str,
    token: &PodToken,
) -> Result<(Bundle, Job), Response> {
    let parts = &shared.parts;
    let namespace = &parts.settings.system_namespace;
    let account = format!("system:serviceaccount:{namespace}:{}", job::ACCOUNT);
    if token.user != account {
        return Err(forbidden(
            token,
            "its ServiceAccount is not that of an unpack Job",
        ));
    }
    // Clients that are not pods of the provisioner must not learn which Bundles exist.
    let pod: Option<Pod> = get(&parts.client, namespace, &token.name).await?;
    let pod = pod.ok_or_else(|| forbidden(token, UploadDenied::PodReplaced))?;
    let bundle = download::find(parts, name).await?;
    let job: Option<Job> = get(&parts.client, namespace, &job::name(&bundle)).await?;
    let Some(job) = job else {
        return Err(forbidden(token, "this Bundle has no Job"));
    };
    job::authorize_upload(&bundle, &job, &pod, &token.uid)
        .map_err(|denial| forbidden(token, denial))?;
    if !job::uses_job(&parts.settings, &bundle.spec.source) {
        let message = format!("Bundle {name} is not unpacked by a Job");
        return Err(response::conflict("WrongSourceType", message));
    }
    if bundle.metadata.deletion_timestamp.is_some() {
        let message = format!("Bundle {name} is being deleted");
        return Err(response::conflict("Deleting", message));
    }
    Ok((bundle, job))
}

/// Records the received content on the Job, unless other content was recorded before.
async fn record_delivery(
    shared: &ServiceState,
    bundle: &Bundle,
    token: &PodToken,
    received: &StoredUpload,
) -> Result<(), Response> {
    let digest = &received.stored.digest;
    // The Bundle or the Job may have been deleted in the meantime.
    let (current, job) = find(shared, &bundle.name_any(), token).await?;
    // Receiving takes time, and another replica may be the leader now.
    if !shared.parts.leading.get() {
        return Err(not_leader());
    }
    if let Some(recorded) = job::delivered_digest(&job) {
        return if recorded == *digest {
            Ok(())
        } else {
            Err(changed(bundle, recorded, *digest))
        };
    }
    let status = current.status.as_ref();
    let pinned = status.and_then(|status| status.content_digest.as_ref());
    let pinned = pinned.and_then(|pinned| pinned.parse::<Digest>().ok());
    if let Some(pinned) = pinned.filter(|pinned| pinned != digest) {
        return Err(changed(bundle, pinned, *digest));
    }
    let skipped = &received.skipped;
    // Serializing numbers and strings does not fail.
    let skipped = (!skipped.is_empty()).then(|| serde_json::to_string(skipped).unwrap_or_default());
    let annotations =
        json!({labels::DELIVERED_DIGEST: digest.to_string(), labels::SKIPPED: skipped});
    match annotate(shared, &job, annotations).await? {
        patched if job::delivered_digest(&patched) == Some(*digest) => Ok(()),
        _ => Err(response::problem(
            StatusCode::FORBIDDEN,
            "UnpackJobAltered",
            format!(
                "another client or an admission policy removes the annotation {} from Job {name}; exempt the system namespace \
                 from that policy",
                labels::DELIVERED_DIGEST,
                name = job.name_any()
            ),
        )),
    }
}

/// Records on the Job that its content was rejected. The Job reports the rejection as well, so a failure is only logged.
async fn reject(shared: &ServiceState, name: &str, token: &PodToken, message: &str) {
    let recorded = async {
        let (_, job) = find(shared, name, token).await?;
        let message = truncate(message, MAX_MESSAGE_SIZE);
        annotate(shared, &job, json!({labels::REJECTED: message})).await
    };
    if let Err(response) = recorded.await {
        let status = response.status().as_u16();
        warn!(bundle = name, status, "failed to annotate a rejected Job");
    }
}

async fn annotate(shared: &ServiceState, job: &Job, annotations: Value) -> Result<Job, Response> {
    let parts = &shared.parts;
    let api = Api::<Job>::namespaced(parts.client.clone(), &parts.settings.system_namespace);
    // The uid ensures that a later Job of the same name is not patched.
    let patch = Patch::Merge(json!({"metadata": {
        "uid": job.uid(),
        "annotations": annotations,
    }}));
    let params = PatchParams::apply(MANAGER);
    let name = job.name_any();
    match time::timeout(REQUEST_TIMEOUT, api.patch(&name, &params, &patch)).await {
        Ok(Ok(patched)) => Ok(patched),
        Ok(Err(error)) => Err(unavailable(&error)),
        Err(_) => Err(response::unavailable(
            "the API server did not respond in time; retry",
        )),
    }
}

/// Conditions quote this response through the message of the Job, so the digest of the other content is only logged.
fn changed(bundle: &Bundle, expected: Digest, found: Digest) -> Response {
    debug!(bundle = bundle.name_any(), %expected, %found, "the node provides different content");
    let message = format!(
        "the node no longer provides {expected} for the image, to which this Bundle is pinned; restore the old image, \
         or create a new Bundle"
    );
    response::conflict("ContentChanged", message)
}

async fn get<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>, Response>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    match time::timeout(REQUEST_TIMEOUT, api.get_opt(name)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(unavailable(&error)),
        Err(_) => Err(response::unavailable(
            "the API server did not respond in time; retry",
        )),
    }
}

fn unavailable(error: &kube::Error) -> Response {
    let error = api_error::chain(error);
    warn!(error, "failed to get Job or pod");
    response::unavailable("failed to reach the API server; retry")
}

fn forbidden(token: &PodToken, reason: impl std::fmt::Display) -> Response {
    let message = format!(
        "pod {} is not allowed to upload the content of this Bundle: {reason}",
        token.name
    );
    response::problem(StatusCode::FORBIDDEN, "Forbidden", message)
}

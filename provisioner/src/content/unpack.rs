//! `PUT /unpack/<name>.tgz`: what the pod of a Bundle's Job hands over.
//!
//! A token says which pod it is, and the pod's owners whether it is that of this Bundle's Job. What has come is noted on
//! the Job before it is acknowledged: that wakes the controller, and outlives this process.

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
    wire::{self, Demand, Received, Terms},
};

use super::{
    access::PodToken,
    answer, bundles,
    routes::{Shared, elsewhere},
    uploads::{Alone, IDLE, TOTAL, forget, refuse},
};
use crate::bundle::{
    cut,
    job::{self, Refused},
};
use apply::ssa::MANAGER;

/// How long the API server may take for one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a message on a Job.
const MAX_MESSAGE_SIZE: usize = 4 << 10;

pub(super) async fn put(
    shared: &Shared,
    name: &str,
    token: &PodToken,
    request: Request,
) -> Response {
    let bundle = match find(shared, name, token).await {
        Ok((bundle, _)) => bundle,
        Err(response) => return refuse(request, response),
    };
    let Some(_alone) = Alone::new(&shared.uploading, name) else {
        // Another pod of the same Job, most likely, that does not know yet that it has to go.
        let message = "another pod hands the content over at this moment; try again";
        return refuse(request, answer::unavailable(message));
    };
    let _turn = match bundles::turn(&shared.uploads).await {
        Ok(turn) => turn,
        Err(response) => return refuse(request, response),
    };
    let mut options = shared.parts.settings.unpack.clone();
    // What is claimed is about everything that comes.
    options.select = Selection::All;
    let terms = Terms {
        options,
        demand: Demand::Claims,
        expected: None,
        idle: IDLE,
        total: TOTAL,
    };
    let received = wire::receive(&shared.parts.store, &terms, request).await;
    match received {
        Ok(received) => match keep(shared, &bundle, token, &received).await {
            Ok(()) => {
                let answer = wire::answer(&Ok(received.clone())).map(Body::from);
                tell(name, token, &received, answer.status());
                answer
            }
            Err(response) => {
                tell(name, token, &received, response.status());
                forget(shared, received).await;
                response
            }
        },
        Err(refusal) => {
            info!(
                bundle = name,
                pod = token.name,
                reason = refusal.reason(),
                "what a Job sent was refused"
            );
            if refusal.reason() == unpacker::Error::ENTRY_REFUSED {
                reject(shared, name, token, &refusal.problem().message).await;
            }
            wire::answer(&Err(refusal)).map(Body::from)
        }
    }
}

fn tell(bundle: &str, token: &PodToken, received: &Received, status: StatusCode) {
    let stored = &received.stored;
    info!(bundle, pod = token.name, digest = %stored.digest, size = stored.size, status = status.as_u16(), "content of a Job");
}

/// The Bundle and its Job, if the pod is that Job's.
async fn find(shared: &Shared, name: &str, token: &PodToken) -> Result<(Bundle, Job), Response> {
    let parts = &shared.parts;
    let namespace = &parts.settings.system_namespace;
    let account = format!("system:serviceaccount:{namespace}:{}", job::ACCOUNT);
    if token.user != account {
        return Err(forbidden(token, "it has another account"));
    }
    // Who is not one of our pods learns nothing about Bundles.
    let pod: Option<Pod> = get(&parts.client, namespace, &token.name).await?;
    let pod = pod.ok_or_else(|| forbidden(token, Refused::Gone))?;
    let bundle = bundles::find(parts, name).await?;
    let found: Option<Job> = get(&parts.client, namespace, &job::name(&bundle)).await?;
    let Some(found) = found else {
        return Err(forbidden(token, "this Bundle has no Job"));
    };
    job::admit(&bundle, &found, &pod, &token.uid).map_err(|refused| forbidden(token, refused))?;
    if !job::pulls(&parts.settings, &bundle.spec.source) {
        let message = format!("the content of Bundle {name} does not come from a Job");
        return Err(answer::conflict("WrongSourceType", message));
    }
    if bundle.metadata.deletion_timestamp.is_some() {
        let message = format!("Bundle {name} is being deleted");
        return Err(answer::conflict("Deleting", message));
    }
    Ok((bundle, found))
}

/// Notes what has come, unless something else came before.
async fn keep(
    shared: &Shared,
    bundle: &Bundle,
    token: &PodToken,
    received: &Received,
) -> Result<(), Response> {
    let digest = &received.stored.digest;
    // Meanwhile somebody may have deleted one of them.
    let (fresh, job) = find(shared, &bundle.name_any(), token).await?;
    // Receiving takes its time, and another replica may have begun to lead.
    if !shared.parts.leading.get() {
        return Err(elsewhere());
    }
    if let Some(before) = job::handed_over(&job) {
        return if before == *digest {
            Ok(())
        } else {
            Err(changed(bundle, before, *digest))
        };
    }
    let status = fresh.status.as_ref();
    let pinned = status.and_then(|status| status.content_digest.as_ref());
    let pinned = pinned.and_then(|pinned| pinned.parse::<Digest>().ok());
    if let Some(pinned) = pinned.filter(|pinned| pinned != digest) {
        return Err(changed(bundle, pinned, *digest));
    }
    let skipped = &received.skipped;
    // Numbers and texts cannot fail to become JSON.
    let skipped = (!skipped.is_empty()).then(|| serde_json::to_string(skipped).unwrap_or_default());
    let annotations = json!({labels::HANDED_OVER: digest.to_string(), labels::SKIPPED: skipped});
    match annotate(shared, &job, annotations).await? {
        patched if job::handed_over(&patched) == Some(*digest) => Ok(()),
        _ => Err(answer::problem(
            StatusCode::FORBIDDEN,
            "UnpackJobAltered",
            format!(
                "another client or an admission policy removes the annotation {} from Job {name}; exempt the system namespace \
                 from that policy",
                labels::HANDED_OVER,
                name = job.name_any()
            ),
        )),
    }
}

/// Records on the Job that its content is rejected. The Job reports it too, so that a failure is only logged.
async fn reject(shared: &Shared, name: &str, token: &PodToken, message: &str) {
    let recorded = async {
        let (_, job) = find(shared, name, token).await?;
        let message = cut(message, MAX_MESSAGE_SIZE);
        annotate(shared, &job, json!({labels::REJECTED: message})).await
    };
    if let Err(response) = recorded.await {
        let status = response.status().as_u16();
        warn!(bundle = name, status, "failed to annotate a rejected Job");
    }
}

async fn annotate(shared: &Shared, job: &Job, annotations: Value) -> Result<Job, Response> {
    let parts = &shared.parts;
    let api = Api::<Job>::namespaced(parts.client.clone(), &parts.settings.system_namespace);
    // The uid makes sure that it is not a later one of the same name.
    let patch = Patch::Merge(json!({"metadata": {
        "uid": job.uid(),
        "annotations": annotations,
    }}));
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let name = job.name_any();
    match time::timeout(PATIENCE, api.patch(&name, &params, &patch)).await {
        Ok(Ok(patched)) => Ok(patched),
        Ok(Err(error)) => Err(unavailable(&error)),
        Err(_) => Err(answer::unavailable(
            "the apiserver did not answer in time; try again",
        )),
    }
}

/// The answer reaches conditions by the Job's message, so the digest of the other content is only logged.
fn changed(bundle: &Bundle, expected: Digest, found: Digest) -> Response {
    debug!(bundle = bundle.name_any(), %expected, %found, "the node gives other content");
    let message = format!(
        "the node gives other content than {expected} for the image; a Bundle does not change: bring the old image back, \
         or create a new Bundle for the new one"
    );
    answer::conflict("ContentChanged", message)
}

async fn get<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>, Response>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    match time::timeout(PATIENCE, api.get_opt(name)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(unavailable(&error)),
        Err(_) => Err(answer::unavailable(
            "the apiserver did not answer in time; try again",
        )),
    }
}

fn unavailable(error: &kube::Error) -> Response {
    warn!(%error, "asking the apiserver about a Job failed");
    answer::unavailable("the apiserver could not be asked; try again")
}

fn forbidden(token: &PodToken, why: impl std::fmt::Display) -> Response {
    let message = format!(
        "pod {} may not hand over the content of this Bundle: {why}",
        token.name
    );
    answer::problem(StatusCode::FORBIDDEN, "Forbidden", message)
}

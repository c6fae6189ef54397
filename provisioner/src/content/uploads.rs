//! `PUT` and `GET /uploads/<name>.tgz`.

mod announce;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{body::Body, extract::Request, response::Response};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::ResourceExt;
use manifests::api::{bundle::Bundle, install::CONTENT_CLIENT};
use tokio::{task, time};
use tracing::{info, warn};
use unpacker::{
    Digest, SkippedEntries,
    store::Stored,
    wire::{self, Accepted, Demand, Received, Terms},
};

use super::{
    access::Caller,
    answer,
    bundles::{self, unpacked},
    routes::{Shared, elsewhere},
    stream,
};
use crate::bundle::upload::{self, Kept};

/// How long nothing may come of an upload, and how long all of it may take.
pub(super) const IDLE: Duration = Duration::from_secs(30);
pub(super) const TOTAL: Duration = Duration::from_secs(600);
/// What is still read of a body that nobody wants, so that the sender gets to see why.
const REST: (usize, Duration) = (16 << 20, Duration::from_secs(5));

/// Whoever is too late is told so in rukpak's words.
const UNPACKED: &str = "bundle has already been unpacked, cannot change content of existing bundle";

pub(super) async fn put(
    shared: &Shared,
    name: &str,
    caller: &Caller,
    request: Request,
) -> Response {
    let bundle = match find(shared, name).await {
        Ok(bundle) => bundle,
        Err(response) => return refuse(request, response),
    };
    // rukpak answers 409 to other content of an unpacked Bundle: see `keep`.
    let expected = if unpacked(&bundle).is_some() {
        upload::declared(&bundle)
    } else {
        upload::expected(&bundle)
    };
    let expected = match expected {
        Ok(expected) => expected,
        Err(error) => return refuse(request, failed(&error)),
    };
    if expected.is_none() && is_content_client(shared, caller) {
        return refuse(request, undeclared(name));
    }
    let Some(_alone) = Alone::new(&shared.uploading, name) else {
        let message =
            format!("somebody uploads content for Bundle {name} already; wait for it to end");
        return refuse(request, answer::conflict("UploadInProgress", message));
    };
    let _turn = match bundles::turn(&shared.uploads).await {
        Ok(turn) => turn,
        Err(response) => return refuse(request, response),
    };
    let terms = Terms {
        options: shared.parts.settings.unpack.clone(),
        demand: Demand::Nothing,
        expected,
        idle: IDLE,
        total: TOTAL,
    };
    let received = wire::receive(&shared.parts.store, &terms, request).await;
    match received {
        Ok(received) => {
            let response = keep(shared, &bundle, &received).await;
            let status = response.status().as_u16();
            info!(bundle = name, %caller, digest = %received.stored.digest, size = received.stored.size, status, "upload");
            if !response.status().is_success() {
                forget(shared, received).await;
            }
            response
        }
        Err(refusal) => {
            info!(bundle = name, %caller, reason = refusal.reason(), "upload refused");
            wire::answer(&Err(refusal)).map(Body::from)
        }
    }
}

pub(super) async fn get(shared: &Shared, name: &str, headers: &HeaderMap) -> Response {
    let bundle = match find(shared, name).await {
        Ok(bundle) => bundle,
        Err(response) => return response,
    };
    let parts = &shared.parts;
    let upload = match upload::restore(&parts.client, &parts.settings, &bundle).await {
        Ok(Some(upload)) => upload,
        Ok(None) => {
            return answer::not_found(format!("nothing has been uploaded for Bundle {name} yet"));
        }
        Err(error) => return failed(&error),
    };
    let digest = upload.digest();
    match upload.archive() {
        Some(_) if stream::is_known(headers, &digest) => stream::unchanged(&digest),
        Some(archive) => stream::archive(&digest, archive.clone().into()),
        None => bundles::original(shared, &bundle, digest, headers).await,
    }
}

/// The Bundle, if something can be uploaded for it.
async fn find(shared: &Shared, name: &str) -> Result<Bundle, Response> {
    let bundle = bundles::find(&shared.parts, name).await?;
    let kind = &bundle.spec.source.type_;
    if kind != "upload" {
        let message = format!("bundle source type is {kind:?}; expected \"upload\"");
        return Err(answer::conflict("WrongSourceType", message));
    }
    if bundle.metadata.deletion_timestamp.is_some() {
        let message = format!("Bundle {name} is being deleted");
        return Err(answer::conflict("Deleting", message));
    }
    Ok(bundle)
}

/// Keeps what has come, if the Bundle has no other content by now.
async fn keep(shared: &Shared, bundle: &Bundle, received: &Received) -> Response {
    let parts = &shared.parts;
    let stored = &received.stored;
    // Meanwhile somebody may have deleted it, or another replica have taken an upload.
    let bundle = match find(shared, &bundle.name_any()).await {
        Ok(fresh) if fresh.uid() == bundle.uid() => fresh,
        Ok(_) => {
            let message = format!(
                "Bundle {} was replaced by another one; upload again",
                bundle.name_any()
            );
            return answer::conflict("Deleting", message);
        }
        Err(response) => return response,
    };
    // Receiving takes its time, and another replica may have begun to lead.
    if !parts.leading.get() {
        return elsewhere();
    }
    if let Some(digest) = unpacked(&bundle) {
        return same_or_too_late(digest, stored.digest);
    }
    let kept = upload::keep(
        &parts.client,
        &parts.settings,
        &parts.store,
        &bundle,
        stored,
        &received.skipped,
    )
    .await;
    let kept = match kept {
        Ok(kept) => kept,
        Err(error) => return failed(&error),
    };
    match announce::announce(&parts.client, &bundle, stored.digest, (parts.now)()).await {
        // The controller was faster, with what had been uploaded before.
        Ok(Some(digest)) if digest != stored.digest => {
            restore_former(shared, &bundle, digest).await;
            return too_late();
        }
        Ok(_) => {}
        // The controller sees the ConfigMaps, too.
        Err(error) => {
            warn!(bundle = bundle.name_any(), %error, "telling of an upload failed");
        }
    }
    match kept {
        Kept::Already => no_content(),
        Kept::New => {
            let accepted = Accepted {
                digest: stored.digest.to_string(),
                size: stored.size,
            };
            // A text and a number cannot fail to become JSON.
            let body = serde_json::to_vec(&accepted).unwrap_or_default();
            answer::json(StatusCode::CREATED, body)
        }
    }
}

/// Reports whether a caller has a token of the account that stands in for users without one.
fn is_content_client(shared: &Shared, caller: &Caller) -> bool {
    let namespace = &shared.parts.settings.system_namespace;
    caller.to_string() == format!("system:serviceaccount:{namespace}:{CONTENT_CLIENT}")
}

/// Many users share the account. The creator of the Bundle, not the sender, must choose the content then.
fn undeclared(name: &str) -> Response {
    let message = format!(
        "ServiceAccount {CONTENT_CLIENT} may upload only for a Bundle with spec.source.upload.digest, and Bundle {name} has \
         none; create a Bundle with the digest, or use a token of a user that may update bundles.core.rukpak.io/content"
    );
    answer::problem(StatusCode::FORBIDDEN, "Forbidden", message)
}

/// What the Bundle has been unpacked from has to be what is kept for it.
async fn restore_former(shared: &Shared, bundle: &Bundle, digest: Digest) {
    let parts = &shared.parts;
    let Ok(hold) = parts.store.hold(&digest) else {
        return;
    };
    let size = hold.size();
    let former = Stored { digest, size, hold };
    let kept = upload::keep(
        &parts.client,
        &parts.settings,
        &parts.store,
        bundle,
        &former,
        &SkippedEntries::default(), // the status has them already
    )
    .await;
    if let Err(error) = kept {
        warn!(bundle = bundle.name_any(), %error, "keeping the former upload failed");
    }
}

/// Content that came for nothing is not left in the store, unless it was there before.
pub(super) async fn forget(shared: &Shared, received: Received) {
    if received.known {
        return;
    }
    let store = Arc::clone(&shared.parts.store);
    let digest = received.stored.digest;
    drop(received);
    let removed = task::spawn_blocking(move || store.remove(&digest)).await;
    if let Ok(Err(error)) = removed {
        warn!(%error, "removing an upload that was not taken failed");
    }
}

fn same_or_too_late(unpacked: Digest, uploaded: Digest) -> Response {
    if unpacked == uploaded {
        no_content()
    } else {
        too_late()
    }
}

fn too_late() -> Response {
    answer::conflict("AlreadyUnpacked", UNPACKED)
}

fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn failed(error: &upload::Error) -> Response {
    use upload::Error as E;
    let (status, reason) = match error {
        E::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "TooLargeForCluster"),
        E::Foreign { .. } => (StatusCode::CONFLICT, "NameTaken"),
        E::Race { .. } => (StatusCode::CONFLICT, "UploadInProgress"),
        E::InvalidDigest { .. } => (StatusCode::CONFLICT, "InvalidDigest"),
        E::Unexpected { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "DigestMismatch"),
        E::Damaged { .. } | E::Lost { .. } => (StatusCode::NOT_FOUND, "UploadLost"),
        E::Store { .. } | E::Api { .. } | E::Silent { .. } | E::Pack { .. } => {
            warn!(
                error = error as &dyn std::error::Error,
                "an upload could not be kept or read"
            );
            (StatusCode::SERVICE_UNAVAILABLE, "Unavailable")
        }
    };
    answer::problem(status, reason, error.to_string())
}

/// Answers without having read the body. Who writes into a closed connection may never read the answer, so some of the
/// body is read still; but not if the sender waits for a word before sending it.
pub(super) fn refuse(request: Request, response: Response) -> Response {
    if !request.headers().contains_key(header::EXPECT) {
        let mut body = request.into_body();
        tokio::spawn(async move {
            let (most, patience) = REST;
            let mut left = most;
            let read = async {
                while let Some(Ok(frame)) = body.frame().await {
                    let size = frame.data_ref().map_or(0, bytes::Bytes::len);
                    let Some(rest) = left.checked_sub(size) else {
                        return;
                    };
                    left = rest;
                }
            };
            let _ = time::timeout(patience, read).await;
        });
    }
    response
}

/// The only one who uploads for a Bundle, until dropped.
pub(super) struct Alone {
    names: Arc<Mutex<HashSet<String>>>,
    name: String,
}

impl Alone {
    pub(super) fn new(names: &Arc<Mutex<HashSet<String>>>, name: &str) -> Option<Self> {
        let mut taken = names.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(name.to_owned()).then(|| Self {
            names: Arc::clone(names),
            name: name.to_owned(),
        })
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.remove(&self.name);
    }
}

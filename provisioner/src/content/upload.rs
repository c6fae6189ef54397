//! `PUT` and `GET /uploads/<name>.tgz`: uploads of bundles.

mod notify;

use std::{collections::HashSet, sync::Arc, time::Duration};

use apply::api_error;
use axum::{body::Body, extract::Request, response::Response};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::ResourceExt;
use manifests::api::{bundle::Bundle, install::CONTENT_CLIENT};
use parking_lot::Mutex;
use tokio::{task, time};
use tracing::{info, warn};
use unpacker::{
    Digest, SkippedEntries,
    store::Stored,
    transfer::{self, Accepted, ReceiveOptions, RequiredHeaders, StoredUpload},
};

use super::{
    authz::Caller,
    download::{self, unpacked},
    response,
    routes::{ServiceState, not_leader},
    stream,
};
use crate::controllers::bundle::upload::{self, StoreResult};

/// Maximum time without received bytes, and of a whole upload.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const TOTAL_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum size and time that the body of a rejected request is still read, so that the client receives the response.
const MAX_DISCARDED: (usize, Duration) = (16 << 20, Duration::from_secs(5));

/// Message of rukpak for uploads after the Bundle was unpacked.
const ALREADY_UNPACKED: &str =
    "bundle has already been unpacked, cannot change content of existing bundle";

pub(super) async fn put(
    shared: &ServiceState,
    name: &str,
    caller: &Caller,
    request: Request,
) -> Response {
    let bundle = match find(shared, name).await {
        Ok(bundle) => bundle,
        Err(response) => return refuse(request, response),
    };
    // rukpak responds with 409 to other content of an unpacked Bundle: see `persist`.
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
    let Some(_lock) = UploadLock::new(&shared.uploading, name) else {
        let message =
            format!("another upload for Bundle {name} is in progress; wait for it to finish");
        return refuse(request, response::conflict("UploadInProgress", message));
    };
    let _slot = match download::acquire_slot(&shared.uploads, "uploads").await {
        Ok(slot) => slot,
        Err(response) => return refuse(request, response),
    };
    let terms = ReceiveOptions {
        options: shared.parts.settings.unpack.clone(),
        demand: RequiredHeaders::Optional,
        expected,
        idle: IDLE_TIMEOUT,
        total: TOTAL_TIMEOUT,
    };
    let received = transfer::receive(&shared.parts.store, &terms, request).await;
    match received {
        Ok(received) => {
            let response = persist(shared, &bundle, &received).await;
            let status = response.status().as_u16();
            info!(bundle = name, %caller, digest = %received.stored.digest, size = received.stored.size, status, "upload");
            if !response.status().is_success() {
                forget(shared, received).await;
            }
            response
        }
        Err(refusal) => {
            info!(bundle = name, %caller, reason = refusal.reason(), "rejected upload");
            transfer::answer(&Err(refusal)).map(Body::from)
        }
    }
}

pub(super) async fn get(shared: &ServiceState, name: &str, headers: &HeaderMap) -> Response {
    let bundle = match find(shared, name).await {
        Ok(bundle) => bundle,
        Err(response) => return response,
    };
    let parts = &shared.parts;
    let nothing =
        || response::not_found(format!("nothing has been uploaded for Bundle {name} yet"));
    match upload::find(&parts.client, &parts.settings, &bundle).await {
        Ok(Some((digest, _))) if stream::is_known(headers, &digest) => {
            return stream::unchanged(&digest);
        }
        Ok(Some(_)) => {}
        Ok(None) => return nothing(),
        Err(error) => return failed(&error),
    }
    // The slot limits the archives in memory.
    let slot = match download::acquire_slot(&shared.downloads, "downloads").await {
        Ok(slot) => slot,
        Err(response) => return response,
    };
    let upload = match upload::restore(&parts.client, &parts.settings, &bundle).await {
        Ok(Some(upload)) => upload,
        Ok(None) => return nothing(),
        Err(error) => return failed(&error),
    };
    let digest = upload.digest();
    if let Some(archive) = upload.archive() {
        return stream::archive(&digest, stream::bytes(archive.clone(), slot));
    }
    drop(slot); // acquired again
    download::original(shared, &bundle, digest, headers).await
}

/// Returns the Bundle, if it accepts uploads.
async fn find(shared: &ServiceState, name: &str) -> Result<Bundle, Response> {
    let bundle = download::find(&shared.parts, name).await?;
    let kind = &bundle.spec.source.type_;
    if kind != "upload" {
        let message = format!("bundle source type is {kind:?}; expected \"upload\"");
        return Err(response::conflict("WrongSourceType", message));
    }
    if bundle.metadata.deletion_timestamp.is_some() {
        let message = format!("Bundle {name} is being deleted");
        return Err(response::conflict("Deleting", message));
    }
    Ok(bundle)
}

/// Persists the received content, unless the Bundle has other content already.
async fn persist(shared: &ServiceState, bundle: &Bundle, received: &StoredUpload) -> Response {
    let parts = &shared.parts;
    let stored = &received.stored;
    // The Bundle may have been deleted, or another replica may have accepted an upload in the meantime.
    let bundle = match find(shared, &bundle.name_any()).await {
        Ok(current) if current.uid() == bundle.uid() => current,
        Ok(_) => {
            let message = format!(
                "Bundle {} was replaced by another one; upload again",
                bundle.name_any()
            );
            return response::conflict("Deleting", message);
        }
        Err(response) => return response,
    };
    // Receiving takes time, and another replica may be the leader now.
    if !parts.leading.get() {
        return not_leader();
    }
    let unpacked = unpacked(&bundle);
    if unpacked.is_some_and(|digest| digest != stored.digest) {
        return already_unpacked();
    }
    let result = upload::persist(
        &parts.client,
        &parts.settings,
        &parts.store,
        &bundle,
        stored,
        &received.skipped,
    )
    .await;
    let result = match result {
        // The cluster may have lost the upload. Content that is too large for the cluster remains in the store.
        Ok(_) | Err(upload::Error::TooLarge { .. }) if unpacked.is_some() => {
            if let Err(error) = notify::report_restored(&parts.client, &bundle).await {
                let error = api_error::chain(&error);
                warn!(
                    bundle = bundle.name_any(),
                    error, "failed to remove condition ContentAvailable from the Bundle status"
                );
            }
            return no_content();
        }
        Ok(result) => result,
        Err(error) => return failed(&error),
    };
    match notify::notify_controller(&parts.client, &bundle, stored.digest, (parts.now)()).await {
        // The controller has already unpacked an earlier upload.
        Ok(Some(digest)) if digest != stored.digest => {
            restore_previous(shared, &bundle, digest).await;
            return already_unpacked();
        }
        Ok(_) => {}
        // The controller also watches the ConfigMaps.
        Err(error) => {
            let error = api_error::chain(&error);
            warn!(
                bundle = bundle.name_any(),
                error, "failed to record an upload in the Bundle status"
            );
        }
    }
    match result {
        StoreResult::AlreadyStored => no_content(),
        StoreResult::Stored => {
            let accepted = Accepted {
                digest: stored.digest.to_string(),
                size: stored.size,
            };
            // Serializing a string and a number does not fail.
            let body = serde_json::to_vec(&accepted).unwrap_or_default();
            response::json(StatusCode::CREATED, body)
        }
    }
}

/// Reports whether a caller uses the ServiceAccount for users without a token.
fn is_content_client(shared: &ServiceState, caller: &Caller) -> bool {
    let namespace = &shared.parts.settings.system_namespace;
    caller.to_string() == format!("system:serviceaccount:{namespace}:{CONTENT_CLIENT}")
}

/// Many users share the ServiceAccount, so the creator of the Bundle, not the sender, must choose the content.
fn undeclared(name: &str) -> Response {
    let message = format!(
        "ServiceAccount {CONTENT_CLIENT} is only allowed to upload for a Bundle with spec.source.upload.digest, which \
         Bundle {name} does not set; create a Bundle with the digest, or use a token of a user that is allowed to \
         update bundles.core.rukpak.io/content"
    );
    response::problem(StatusCode::FORBIDDEN, "Forbidden", message)
}

/// Persists the content that the Bundle was unpacked from as its upload again.
async fn restore_previous(shared: &ServiceState, bundle: &Bundle, digest: Digest) {
    let parts = &shared.parts;
    let Ok(hold) = parts.store.hold(&digest) else {
        return;
    };
    let size = hold.size();
    let previous = Stored { digest, size, hold };
    let result = upload::persist(
        &parts.client,
        &parts.settings,
        &parts.store,
        bundle,
        &previous,
        &SkippedEntries::default(), // the status has them already
    )
    .await;
    if let Err(error) = result {
        warn!(bundle = bundle.name_any(), %error, "failed to restore the previous upload");
    }
}

/// Removes the content of a rejected upload from the store, unless the store had it before.
pub(super) async fn forget(shared: &ServiceState, received: StoredUpload) {
    if received.already_stored {
        return;
    }
    let store = Arc::clone(&shared.parts.store);
    let digest = received.stored.digest;
    drop(received);
    let removed = task::spawn_blocking(move || store.remove(&digest)).await;
    if let Ok(Err(error)) = removed {
        warn!(%error, "failed to delete a rejected upload");
    }
}

fn already_unpacked() -> Response {
    response::conflict("AlreadyUnpacked", ALREADY_UNPACKED)
}

fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn failed(error: &upload::Error) -> Response {
    use crate::controllers::bundle::upload::Error as E;
    let (status, reason) = match error {
        E::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "TooLargeForCluster"),
        E::Foreign { .. } => (StatusCode::CONFLICT, "NameTaken"),
        E::ConcurrentUpload { .. } => (StatusCode::CONFLICT, "UploadInProgress"),
        E::InvalidDigest { .. } => (StatusCode::CONFLICT, "InvalidDigest"),
        E::Unexpected { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "DigestMismatch"),
        E::Damaged { .. } | E::StoreLost { .. } => (StatusCode::NOT_FOUND, "UploadLost"),
        E::Store { .. } | E::Api { .. } | E::Timeout { .. } | E::Pack { .. } => {
            warn!(
                error = api_error::chain(error),
                "failed to store or read an upload"
            );
            (StatusCode::SERVICE_UNAVAILABLE, "Unavailable")
        }
    };
    response::problem(status, reason, error.to_string())
}

/// Responds without processing the body. A client that writes to a closed connection may never read the response, so a part
/// of the body is still read. Clients that wait for `100 Continue` send no body.
pub(super) fn refuse(request: Request, response: Response) -> Response {
    if !request.headers().contains_key(header::EXPECT) {
        let mut body = request.into_body();
        tokio::spawn(async move {
            let (max, timeout) = MAX_DISCARDED;
            let mut remaining = max;
            let read = async {
                while let Some(Ok(frame)) = body.frame().await {
                    let size = frame.data_ref().map_or(0, bytes::Bytes::len);
                    let Some(reduced) = remaining.checked_sub(size) else {
                        return;
                    };
                    remaining = reduced;
                }
            };
            let _ = time::timeout(timeout, read).await;
        });
    }
    response
}

/// Lock for the uploads of one Bundle; released on drop.
pub(super) struct UploadLock {
    names: Arc<Mutex<HashSet<String>>>,
    name: String,
}

impl UploadLock {
    pub(super) fn new(names: &Arc<Mutex<HashSet<String>>>, name: &str) -> Option<Self> {
        let mut locked = names.lock();
        locked.insert(name.to_owned()).then(|| Self {
            names: Arc::clone(names),
            name: name.to_owned(),
        })
    }
}

impl Drop for UploadLock {
    fn drop(&mut self) {
        let mut names = self.names.lock();
        names.remove(&self.name);
    }
}

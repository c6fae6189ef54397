//! `GET /bundles/<name>.tgz`: downloads of content.

use std::{sync::Arc, time::Duration};

use apply::api_error;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use kube::{Api, ResourceExt as _};
use manifests::api::{
    Class,
    bundle::{Bundle, Phase},
    condition,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task, time,
};
use tracing::{error, warn};
use unpacker::{Digest, Format, store};

use super::{Dependencies, plain, response, routes::ServiceState, stream};
use crate::controllers::bundle;

/// Timeout of one request to the API server, and of the wait for a download slot.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time that a client waits for content that is being fetched again.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Requested form of the content of a Bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentForm {
    /// Plain objects, for any class.
    PlainArchives,
    /// Content as it was fetched.
    Original,
}

impl ContentForm {
    /// Parses the query of a URL.
    pub(super) fn parse(query: Option<&str>) -> Option<Self> {
        match query.unwrap_or_default() {
            "" | "content=plain" => Some(Self::PlainArchives),
            "content=original" => Some(Self::Original),
            _ => None,
        }
    }
}

pub(super) async fn get(
    shared: &ServiceState,
    name: &str,
    form: ContentForm,
    headers: &HeaderMap,
) -> Response {
    let bundle = match find(&shared.parts, name).await {
        Ok(bundle) => bundle,
        Err(response) => return response,
    };
    let Some(digest) = unpacked(&bundle) else {
        return response::problem(
            StatusCode::NOT_FOUND,
            "NotUnpacked",
            not_unpacked(name, &bundle),
        );
    };
    let class = Class::parse(&bundle.spec.provisioner_class_name);
    if class == Some(Class::Registry) && form == ContentForm::PlainArchives {
        return converted(shared, &bundle, digest, headers).await;
    }
    original(shared, &bundle, digest, headers).await
}

/// Responds with the content as it is in the store.
pub(super) async fn original(
    shared: &ServiceState,
    bundle: &Bundle,
    digest: Digest,
    headers: &HeaderMap,
) -> Response {
    if stream::is_known(headers, &digest) {
        return stream::unchanged(&digest);
    }
    let slot = match acquire_slot(&shared.downloads, "downloads").await {
        Ok(slot) => slot,
        Err(response) => return response,
    };
    let open = || {
        let store = Arc::clone(&shared.parts.store);
        task::spawn_blocking(move || store.served(&digest, Format::TarGz))
    };
    let mut content = open().await;
    if let Ok(Err(error)) = &content
        && refetch(&shared.parts, bundle, error).await
    {
        content = open().await;
    }
    let name = bundle.name_any();
    match content {
        Ok(Ok(reader)) => stream::archive(&digest, stream::body(reader, slot)),
        Ok(Err(error)) => not_stored(&name, &error),
        Err(error) => {
            error!(%error, "failed to read content");
            response::unavailable(format!("failed to read the content of Bundle {name}"))
        }
    }
}

async fn converted(
    shared: &ServiceState,
    bundle: &Bundle,
    digest: Digest,
    headers: &HeaderMap,
) -> Response {
    let slot = match acquire_slot(&shared.downloads, "downloads").await {
        Ok(slot) => slot,
        Err(response) => return response,
    };
    let Dependencies {
        settings,
        store,
        versions,
        ..
    } = &shared.parts;
    let version = match time::timeout(REQUEST_TIMEOUT, versions.kubernetes()).await {
        Ok(Ok(version)) => version,
        Ok(Err(error)) => return asking_failed(&error),
        Err(_) => return timed_out(),
    };
    let limits = settings.unpack.limits;
    let mut packed = shared.plain.get(store, limits, digest, version).await;
    if let Err(plain::Error::Store(error)) = &packed
        && refetch(&shared.parts, bundle, error).await
    {
        packed = shared.plain.get(store, limits, digest, version).await;
    }
    let name = bundle.name_any();
    let packed = match packed {
        Ok(packed) => packed,
        Err(plain::Error::Store(error)) => return not_stored(&name, &error),
        Err(error) => {
            return response::problem(
                StatusCode::UNPROCESSABLE_ENTITY,
                "NotConvertible",
                format!(
                    "Bundle {name}: {error}; use \"?content=original\" to get the original content"
                ),
            );
        }
    };
    if stream::is_known(headers, &packed.digest) {
        return stream::unchanged(&packed.digest);
    }
    stream::archive(&packed.digest, stream::bytes(packed.archive, slot))
}

/// Fetches content that the store has lost, or that another replica has fetched. Reports whether the store has it now. The
/// fetch continues if the client stops waiting.
async fn refetch(parts: &Dependencies, bundle: &Bundle, error: &store::Error) -> bool {
    let is_lost = matches!(
        error,
        store::Error::Missing { .. } | store::Error::Corrupt { .. }
    );
    let Some(ctx) = parts.refetch_context.clone().filter(|_| is_lost) else {
        return false;
    };
    let (declared, name) = (bundle.clone(), bundle.name_any());
    let fetching = tokio::spawn(async move { bundle::refetch(&ctx, &declared).await });
    match time::timeout(FETCH_TIMEOUT, fetching).await {
        Ok(Ok(Ok(()))) => true,
        Ok(Ok(Err(error))) => {
            warn!(bundle = name, %error, "failed to fetch lost content again");
            false
        }
        Ok(Err(error)) => {
            error!(bundle = name, %error, "the task that fetches lost content failed");
            false
        }
        Err(_) => false,
    }
}

/// Returns the Bundle of a name.
pub(super) async fn find(parts: &Dependencies, name: &str) -> Result<Bundle, Response> {
    let api = Api::<Bundle>::all(parts.client.clone());
    match time::timeout(REQUEST_TIMEOUT, api.get_opt(name)).await {
        Ok(Ok(Some(bundle))) => Ok(bundle),
        Ok(Ok(None)) => Err(response::not_found(format!("Bundle {name} not found"))),
        Ok(Err(error)) => Err(asking_failed(&error)),
        Err(_) => Err(timed_out()),
    }
}

/// Returns the digest of the content of an unpacked Bundle.
pub(super) fn unpacked(bundle: &Bundle) -> Option<Digest> {
    let status = bundle.status.as_ref()?;
    if status.phase != Some(Phase::Unpacked) {
        return None;
    }
    status.content_digest.as_ref()?.parse().ok()
}

fn not_unpacked(name: &str, bundle: &Bundle) -> String {
    let status = bundle.status.as_ref();
    let unpacked =
        status.and_then(|status| condition::find(&status.conditions, condition::UNPACKED));
    match unpacked.map(|condition| condition.message.as_str()) {
        Some(message) if !message.is_empty() => {
            format!("Bundle {name} has no content yet: {message}")
        }
        _ => format!("Bundle {name} has no content yet"),
    }
}

fn not_stored(name: &str, error: &store::Error) -> Response {
    warn!(bundle = name, %error, "failed to open content");
    response::unavailable(format!(
        "the content of Bundle {name} is missing from the store and cannot be fetched again yet; check the conditions \
         of the Bundle, and retry"
    ))
}

fn asking_failed(error: &kube::Error) -> Response {
    warn!(error = api_error::chain(error), "failed to get Bundle");
    response::unavailable("failed to reach the API server; retry")
}

fn timed_out() -> Response {
    response::unavailable("the API server did not respond in time; retry")
}

/// Waits for a slot of a semaphore, which limits the concurrent `transfers`: downloads or uploads.
pub(super) async fn acquire_slot(
    slots: &Arc<Semaphore>,
    transfers: &str,
) -> Result<OwnedSemaphorePermit, Response> {
    let slot = time::timeout(REQUEST_TIMEOUT, Arc::clone(slots).acquire_owned()).await;
    match slot {
        Ok(Ok(slot)) => Ok(slot),
        Ok(Err(_)) | Err(_) => Err(response::unavailable(format!(
            "too many concurrent {transfers}; retry"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_queries_are_rejected() {
        assert_each!(|query, form| ContentForm::parse(query) => form;
            None => Some(ContentForm::PlainArchives);
            Some("") => Some(ContentForm::PlainArchives);
            Some("content=plain") => Some(ContentForm::PlainArchives);
            Some("content=original") => Some(ContentForm::Original);
            Some("content=Original") => None;
            Some("content=original&a") => None;
            Some("format=tar") => None;
        );
    }
}

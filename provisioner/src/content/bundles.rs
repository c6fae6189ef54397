//! `GET /bundles/<name>.tgz`.

use std::{sync::Arc, time::Duration};

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

use super::{Parts, answer, plain, routes::Shared, stream};
use crate::bundle::fetch_again;

/// How long the API server may take, and how long a client waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a client waits for content that has to be fetched again.
const FETCH: Duration = Duration::from_secs(30);

/// What of a Bundle is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Plain objects, whatever the class.
    Plain,
    /// What was fetched.
    Original,
}

impl Wanted {
    /// Reads the query of a URL.
    pub(super) fn parse(query: Option<&str>) -> Option<Self> {
        match query.unwrap_or_default() {
            "" | "content=plain" => Some(Self::Plain),
            "content=original" => Some(Self::Original),
            _ => None,
        }
    }
}

pub(super) async fn get(
    shared: &Shared,
    name: &str,
    wanted: Wanted,
    headers: &HeaderMap,
) -> Response {
    let bundle = match find(&shared.parts, name).await {
        Ok(bundle) => bundle,
        Err(response) => return response,
    };
    let Some(digest) = unpacked(&bundle) else {
        return answer::problem(
            StatusCode::NOT_FOUND,
            "NotUnpacked",
            not_unpacked(name, &bundle),
        );
    };
    let class = Class::parse(&bundle.spec.provisioner_class_name);
    if class == Some(Class::Registry) && wanted == Wanted::Plain {
        return converted(shared, &bundle, digest, headers).await;
    }
    original(shared, &bundle, digest, headers).await
}

/// Content as it is in the store.
pub(super) async fn original(
    shared: &Shared,
    bundle: &Bundle,
    digest: Digest,
    headers: &HeaderMap,
) -> Response {
    if stream::is_known(headers, &digest) {
        return stream::unchanged(&digest);
    }
    let turn = match turn(&shared.downloads).await {
        Ok(turn) => turn,
        Err(response) => return response,
    };
    let served = || {
        let store = Arc::clone(&shared.parts.store);
        task::spawn_blocking(move || store.served(&digest, Format::TarGz))
    };
    let mut found = served().await;
    if let Ok(Err(error)) = &found
        && mend(&shared.parts, bundle, error).await
    {
        found = served().await;
    }
    let name = bundle.name_any();
    match found {
        Ok(Ok(served)) => stream::archive(&digest, stream::body(served, turn)),
        Ok(Err(error)) => not_stored(&name, &error),
        Err(error) => {
            error!(%error, "reading content failed");
            answer::unavailable(format!("the content of Bundle {name} could not be read"))
        }
    }
}

async fn converted(
    shared: &Shared,
    bundle: &Bundle,
    digest: Digest,
    headers: &HeaderMap,
) -> Response {
    let Parts {
        settings,
        store,
        versions,
        ..
    } = &shared.parts;
    let version = match time::timeout(PATIENCE, versions.kubernetes()).await {
        Ok(Ok(version)) => version,
        Ok(Err(error)) => return asking_failed(&error),
        Err(_) => return silent(),
    };
    let limits = settings.unpack.limits;
    let mut packed = shared.plain.get(store, limits, digest, version).await;
    if let Err(plain::Error::Store(error)) = &packed
        && mend(&shared.parts, bundle, error).await
    {
        packed = shared.plain.get(store, limits, digest, version).await;
    }
    let name = bundle.name_any();
    let packed = match packed {
        Ok(packed) => packed,
        Err(plain::Error::Store(error)) => return not_stored(&name, &error),
        Err(error) => {
            return answer::problem(
                StatusCode::UNPROCESSABLE_ENTITY,
                "NotConvertible",
                format!("Bundle {name}: {error}; \"?content=original\" gives it as it came"),
            );
        }
    };
    if stream::is_known(headers, &packed.digest) {
        return stream::unchanged(&packed.digest);
    }
    stream::archive(&packed.digest, packed.archive.into())
}

/// Fetches content again that the store does not have: its volume may be new, or another replica have fetched it. Tells
/// whether it is there now. It goes on when the client waits no longer.
async fn mend(parts: &Parts, bundle: &Bundle, error: &store::Error) -> bool {
    let is_lost = matches!(
        error,
        store::Error::Missing { .. } | store::Error::Damaged { .. }
    );
    let Some(ctx) = parts.mender.clone().filter(|_| is_lost) else {
        return false;
    };
    let (bundle, name) = (bundle.clone(), bundle.name_any());
    let fetching = tokio::spawn(async move { fetch_again(&ctx, &bundle).await });
    match time::timeout(FETCH, fetching).await {
        Ok(Ok(Ok(()))) => true,
        Ok(Ok(Err(error))) => {
            warn!(bundle = name, %error, "lost content cannot be fetched again");
            false
        }
        Ok(Err(error)) => {
            error!(bundle = name, %error, "fetching lost content failed");
            false
        }
        Err(_) => false,
    }
}

/// Looks a Bundle up.
pub(super) async fn find(parts: &Parts, name: &str) -> Result<Bundle, Response> {
    let api = Api::<Bundle>::all(parts.client.clone());
    match time::timeout(PATIENCE, api.get_opt(name)).await {
        Ok(Ok(Some(bundle))) => Ok(bundle),
        Ok(Ok(None)) => Err(answer::not_found(format!("there is no Bundle {name}"))),
        Ok(Err(error)) => Err(asking_failed(&error)),
        Err(_) => Err(silent()),
    }
}

/// The content of a Bundle that is unpacked.
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
    warn!(bundle = name, %error, "content cannot be handed out");
    answer::unavailable(format!(
        "the content of Bundle {name} is not in the store at the moment, and cannot be fetched again yet; see the conditions of the Bundle, and try again"
    ))
}

fn asking_failed(error: &kube::Error) -> Response {
    warn!(%error, "asking the apiserver about a Bundle failed");
    answer::unavailable("the apiserver could not be asked; try again")
}

fn silent() -> Response {
    answer::unavailable("the apiserver did not answer in time; try again")
}

/// Waits until there are not too many others.
pub(super) async fn turn(turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Response> {
    let turn = time::timeout(PATIENCE, Arc::clone(turns).acquire_owned()).await;
    match turn {
        Ok(Ok(turn)) => Ok(turn),
        Ok(Err(_)) | Err(_) => Err(answer::unavailable(
            "too many archives are on their way; try again",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_known_or_refused() {
        for (query, wanted) in [
            (None, Some(Wanted::Plain)),
            (Some(""), Some(Wanted::Plain)),
            (Some("content=plain"), Some(Wanted::Plain)),
            (Some("content=original"), Some(Wanted::Original)),
            (Some("content=Original"), None),
            (Some("content=original&a"), None),
            (Some("format=tar"), None),
        ] {
            assert_eq!(Wanted::parse(query), wanted, "{query:?}");
        }
    }
}

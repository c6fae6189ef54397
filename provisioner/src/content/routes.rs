//! Routes of the content service.

use std::{collections::HashSet, sync::Arc};

use axum::{
    Router,
    extract::{Path, Request, State},
    response::Response,
    routing,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tracing::warn;

use super::{
    Dependencies, Options,
    authz::{Authorizer, Granted, Operation},
    download::{self, ContentForm},
    job_upload,
    plain::PlainArchives,
    response, upload,
};

/// Warning in the format of the API server.
const DEPRECATED: HeaderValue = HeaderValue::from_static(
    r#"299 - "the permission on the nonResourceURL /uploads/* is deprecated; grant the verbs get and update on bundles.core.rukpak.io/content""#,
);

/// State that all requests share.
pub(super) struct ServiceState {
    pub(super) parts: Dependencies,
    pub(super) access: Authorizer,
    pub(super) plain: PlainArchives,
    pub(super) downloads: Arc<Semaphore>,
    pub(super) uploads: Arc<Semaphore>,
    /// Bundles with a running upload.
    pub(super) uploading: Arc<Mutex<HashSet<String>>>,
}

impl ServiceState {
    pub(super) fn new(parts: Dependencies, options: &Options) -> Self {
        Self {
            access: Authorizer::new(parts.client.clone()),
            plain: PlainArchives::new(Arc::clone(&parts.conversions)),
            parts,
            downloads: Arc::new(Semaphore::new(options.downloads.max(1))),
            uploads: Arc::new(Semaphore::new(options.uploads.max(1))),
            uploading: Arc::default(),
        }
    }
}

pub(super) fn router(shared: Arc<ServiceState>) -> Router {
    let unknown_path = || async {
        response::not_found(
            "path not found; use /bundles/<name>.tgz, /uploads/<name>.tgz or /unpack/<name>.tgz",
        )
    };
    let unknown_method = |method: Method| async move {
        let message = format!("method {method} is not allowed");
        response::problem(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    };
    Router::new()
        .route("/bundles/{file}", routing::get(bundle))
        .route("/uploads/{file}", routing::get(upload).put(put))
        .route("/unpack/{file}", routing::put(from_job))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .with_state(shared)
}

async fn bundle(
    State(shared): State<Arc<ServiceState>>,
    Path(file): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let Some(name) = name(&file) else {
        return nameless();
    };
    let checked = shared.access.check(&headers, Operation::Download, name);
    if let Err(denied) = checked.await {
        return denied.answer();
    }
    let Some(form) = ContentForm::parse(uri.query()) else {
        let message = "unknown query; use \"?content=original\", \"?content=plain\" or none";
        return response::problem(StatusCode::BAD_REQUEST, "UnknownQuery", message);
    };
    download::get(&shared, name, form, &headers).await
}

async fn upload(
    State(shared): State<Arc<ServiceState>>,
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(name) = name(&file) else {
        return nameless();
    };
    let operation = Operation::ReadUpload;
    match shared.access.check(&headers, operation, name).await {
        Ok(granted) => {
            let response = upload::get(&shared, name, &headers).await;
            report_deprecated(operation, &granted, name, response)
        }
        Err(denied) => denied.answer(),
    }
}

async fn put(
    State(shared): State<Arc<ServiceState>>,
    Path(file): Path<String>,
    request: Request,
) -> Response {
    let Some(name) = name(&file) else {
        return upload::refuse(request, nameless());
    };
    let operation = Operation::Upload;
    let checked = shared.access.check(request.headers(), operation, name);
    match checked.await {
        Ok(_) if !shared.parts.leading.get() => upload::refuse(request, not_leader()),
        Ok(granted) => {
            let response = upload::put(&shared, name, &granted.caller, request).await;
            report_deprecated(operation, &granted, name, response)
        }
        Err(denied) => upload::refuse(request, denied.answer()),
    }
}

/// Warns the client and the admin of a permission that a later release no longer accepts.
fn report_deprecated(
    operation: Operation,
    granted: &Granted,
    bundle: &str,
    mut response: Response,
) -> Response {
    if operation.is_deprecated(granted.permission) {
        let caller = &granted.caller;
        warn!(bundle, %caller, ?operation, "only the deprecated nonResourceURL permission allows the request");
        response.headers_mut().insert(header::WARNING, DEPRECATED);
    }
    response
}

async fn from_job(
    State(shared): State<Arc<ServiceState>>,
    Path(file): Path<String>,
    request: Request,
) -> Response {
    let Some(name) = name(&file) else {
        return upload::refuse(request, nameless());
    };
    match shared.access.pod(request.headers()).await {
        Ok(_) if !shared.parts.leading.get() => upload::refuse(request, not_leader()),
        Ok(token) => job_upload::put(&shared, name, &token, request).await,
        Err(denied) => upload::refuse(request, denied.answer()),
    }
}

/// Returns the response of a replica that does not lead: only the leader accepts content.
pub(super) fn not_leader() -> Response {
    response::unavailable("this replica is not the leader; send content to the Service")
}

fn nameless() -> Response {
    response::not_found("invalid Bundle name; use <name>.tgz")
}

/// Returns the name of the Bundle from a file name, or `None` if it is not a valid name.
fn name(file: &str) -> Option<&str> {
    let name = file.strip_suffix(".tgz")?;
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_valid = name.len() <= 253
        && name.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().copied().is_some_and(is_end)
                && bytes.last().copied().is_some_and(is_end)
                && bytes.iter().all(|&byte| is_end(byte) || byte == b'-')
        });
    is_valid.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_bundle_names_are_looked_up() {
        for valid in ["a", "a-b", "a.b", "0", "my-instance-4h2k9x"] {
            assert_eq!(name(&format!("{valid}.tgz")), Some(valid));
        }
        let bad = ",.,..,a..b,A,a_b,-a,a-,a/b,a b,é,a%2fb".split(',');
        for bad in bad.chain([&*"a".repeat(254)]) {
            assert_eq!(name(&format!("{bad}.tgz")), None, "{bad:?}");
        }
        for bad in ["a", "a.tar", ".tgz", "tgz"] {
            assert_eq!(name(bad), None, "{bad:?}");
        }
    }
}

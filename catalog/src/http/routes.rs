//! Routes of catalogd, with its status codes and messages.

use std::{io, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, State, rejection::PathRejection},
    response::{IntoResponse as _, Response},
    routing::any,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use manifests::names;
use tokio::task::spawn_blocking;
use tracing::error;
use url::form_urlencoded;

use super::{
    ContentStore, body,
    content::{Filter, MatchedLines},
    content_store::PublishedContent,
    preconditions::{self, Precondition, RangeRequest},
};

/// Minimum size of compressed responses in bytes.
const MIN_COMPRESSED_SIZE: u64 = 1400;
const JSON_LINES: HeaderValue = HeaderValue::from_static("application/jsonl");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD");

/// Returns the routes, for use alone or merged with others.
pub fn router(shelf: ContentStore) -> Router {
    Router::new()
        .route("/catalogs/{catalog}/api/v1/all", any(all))
        .route("/catalogs/{catalog}/api/v1/metas", any(metas))
        .fallback(|| async { error_response(StatusCode::NOT_FOUND, "404 page not found") })
        .with_state(shelf)
}

/// Serves the whole catalog, or a range of its bytes.
async fn all(
    State(shelf): State<ContentStore>,
    name: Result<Path<String>, PathRejection>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let published = match find(&shelf, name, &method) {
        Ok(published) => published,
        Err(rejection) => return *rejection,
    };
    if let Some(answer) = unchanged(&headers, &published) {
        return answer;
    }
    let length = published.content.length();
    let mut response = match preconditions::requested_range(&headers, published.since, length) {
        RangeRequest::Whole => {
            let whole = published.content.all();
            answer(&published, whole, &method, &headers)
        }
        RangeRequest::NotSatisfiable => {
            let mut response = status(StatusCode::RANGE_NOT_SATISFIABLE);
            set(
                &mut response,
                header::CONTENT_RANGE,
                &format!("bytes */{length}"),
            );
            response
        }
        RangeRequest::Bytes(bytes) => {
            let content_range = format!("bytes {}-{}/{length}", bytes.start, bytes.end - 1);
            // Ranges count uncompressed bytes, so the response is not compressed.
            let mut response = answer(
                &published,
                MatchedLines::from(bytes),
                &method,
                &HeaderMap::new(),
            );
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            set(&mut response, header::CONTENT_RANGE, &content_range);
            response
        }
    };
    let ranges = HeaderValue::from_static("bytes");
    response.headers_mut().insert(header::ACCEPT_RANGES, ranges);
    response
}

/// Serves the blobs that match a schema, a package and a name, in the order of the catalog.
async fn metas(
    State(shelf): State<ContentStore>,
    name: Result<Path<String>, PathRejection>,
    method: Method,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let published = match find(&shelf, name, &method) {
        Ok(published) => published,
        Err(rejection) => return *rejection,
    };
    let Some(filter) = filter(query.as_deref().unwrap_or_default()) else {
        return status(StatusCode::BAD_REQUEST);
    };
    if let Some(answer) = unchanged(&headers, &published) {
        return answer;
    }
    let lines = {
        let published = Arc::clone(&published);
        spawn_blocking(move || published.content.find(filter)).await
    };
    match lines.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(lines) => answer(&published, lines, &method, &headers),
        Err(error) => {
            error!(%error, "failed to read a served catalog");
            status(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

fn find(
    shelf: &ContentStore,
    name: Result<Path<String>, PathRejection>,
    method: &Method,
) -> Result<Arc<PublishedContent>, Box<Response>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
        response
            .headers_mut()
            .insert(header::ALLOW, ALLOWED_METHODS);
        return Err(response.into());
    }
    let Ok(Path(name)) = name else {
        let text = "invalid catalog name: not valid UTF-8";
        return Err(error_response(StatusCode::BAD_REQUEST, text).into());
    };
    if let Err(problem) = names::dns_subdomain(&name) {
        let text = format!("invalid catalog name: {problem}");
        return Err(error_response(StatusCode::BAD_REQUEST, &text).into());
    }
    shelf
        .find(&name)
        .ok_or_else(|| status(StatusCode::NOT_FOUND).into())
}

/// Parses the filter. Returns `None` for an unknown parameter. The first of several equal parameters is used.
fn filter(query: &str) -> Option<Filter> {
    let [mut schema, mut package, mut name] = [None, None, None];
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let field = match &*key {
            "schema" => &mut schema,
            "package" => &mut package,
            "name" => &mut name,
            _ => return None,
        };
        field.get_or_insert_with(|| value.into_owned());
    }
    Some(Filter {
        schema: schema.unwrap_or_default(),
        package: package.unwrap_or_default(),
        name: name.unwrap_or_default(),
    })
}

/// Returns the response to a client that already has the content, or expects another one.
fn unchanged(headers: &HeaderMap, published: &PublishedContent) -> Option<Response> {
    match preconditions::check(headers, published.since) {
        Precondition::Holds => None,
        Precondition::NotModified => {
            let mut response = StatusCode::NOT_MODIFIED.into_response();
            set_last_modified(&mut response, published);
            Some(response)
        }
        Precondition::Failed => Some(status(StatusCode::PRECONDITION_FAILED)),
    }
}

fn answer(
    published: &Arc<PublishedContent>,
    lines: MatchedLines,
    method: &Method,
    headers: &HeaderMap,
) -> Response {
    let length = lines.length();
    let is_compressed = length > MIN_COMPRESSED_SIZE && preconditions::accepts_gzip(headers);
    let shared = Arc::clone(published);
    let body = match (method, is_compressed) {
        (&Method::HEAD, _) => Body::empty(),
        (_, true) => Body::from_stream(body::gzip(shared, lines)),
        (_, false) => Body::from_stream(body::plain(shared, lines)),
    };
    let mut response = Response::new(body);
    set_last_modified(&mut response, published);
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, JSON_LINES);
    let varies = HeaderValue::from_static("Accept-Encoding");
    fields.insert(header::VARY, varies);
    if is_compressed {
        let gzip = HeaderValue::from_static("gzip");
        fields.insert(header::CONTENT_ENCODING, gzip);
    } else {
        fields.insert(header::CONTENT_LENGTH, length.into());
    }
    response
}

fn set_last_modified(response: &mut Response, published: &PublishedContent) {
    set(
        response,
        header::LAST_MODIFIED,
        &httpdate::fmt_http_date(published.since),
    );
}

fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    // Dates and numbers are valid header values.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Returns a response with the status as its text.
fn status(status: StatusCode) -> Response {
    let reason = status.canonical_reason().unwrap_or_default();
    error_response(status, &format!("{} {reason}", status.as_u16()))
}

fn error_response(status: StatusCode, text: &str) -> Response {
    let mut response = (status, format!("{text}\n")).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, PLAIN);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: http-2
    #[test]
    fn queries_accept_known_parameters_and_use_the_first() {
        let filter_of = |schema: &str, package: &str, name: &str| {
            Some(Filter {
                schema: schema.to_owned(),
                package: package.to_owned(),
                name: name.to_owned(),
            })
        };
        assert_each!(|query, expected| filter(query) => expected;
            "" => filter_of("", "", "");
            "schema=olm.bundle" => filter_of("olm.bundle", "", "");
            "package=a&name=b" => filter_of("", "a", "b");
            "name=a&name=b" => filter_of("", "", "a");
            "name=&name=b" => filter_of("", "", "");
            "name=a%2Fb+c" => filter_of("", "", "a/b c");
            "Schema=x" => None;
            "schema=x&limit=1" => None;
        );
    }
}

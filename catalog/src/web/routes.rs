//! The routes of catalogd, its statuses and its words.

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
    Shelf, body,
    condition::{self, Condition, Part},
    content::{Filter, Found},
    shelf::Shown,
};

/// What is smaller is not worth compressing.
const SMALL: u64 = 1400;
const JSON_LINES: HeaderValue = HeaderValue::from_static("application/jsonl");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const READS: HeaderValue = HeaderValue::from_static("GET, HEAD");

/// The routes, to be served alone or beside others.
pub fn router(shelf: Shelf) -> Router {
    Router::new()
        .route("/catalogs/{catalog}/api/v1/all", any(all))
        .route("/catalogs/{catalog}/api/v1/metas", any(metas))
        .fallback(|| async { told(StatusCode::NOT_FOUND, "404 page not found") })
        .with_state(shelf)
}

/// Everything, or a part of it.
async fn all(
    State(shelf): State<Shelf>,
    name: Result<Path<String>, PathRejection>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let shown = match find(&shelf, name, &method) {
        Ok(shown) => shown,
        Err(refusal) => return *refusal,
    };
    if let Some(answer) = unchanged(&headers, &shown) {
        return answer;
    }
    let length = shown.content.length();
    let mut response = match condition::part(&headers, shown.since, length) {
        Part::Whole => {
            let whole = shown.content.all();
            answer(&shown, whole, &method, &headers)
        }
        Part::Nowhere => {
            let mut response = status(StatusCode::RANGE_NOT_SATISFIABLE);
            set(
                &mut response,
                header::CONTENT_RANGE,
                &format!("bytes */{length}"),
            );
            response
        }
        Part::Bytes(bytes) => {
            let shows = format!("bytes {}-{}/{length}", bytes.start, bytes.end - 1);
            // What was counted in plain bytes is not compressed.
            let mut response = answer(&shown, Found::from(bytes), &method, &HeaderMap::new());
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            set(&mut response, header::CONTENT_RANGE, &shows);
            response
        }
    };
    let ranges = HeaderValue::from_static("bytes");
    response.headers_mut().insert(header::ACCEPT_RANGES, ranges);
    response
}

/// The blobs that a schema, a package and a name have in common, in the order of the catalog.
async fn metas(
    State(shelf): State<Shelf>,
    name: Result<Path<String>, PathRejection>,
    method: Method,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let shown = match find(&shelf, name, &method) {
        Ok(shown) => shown,
        Err(refusal) => return *refusal,
    };
    let Some(filter) = filter(query.as_deref().unwrap_or_default()) else {
        return status(StatusCode::BAD_REQUEST);
    };
    if let Some(answer) = unchanged(&headers, &shown) {
        return answer;
    }
    let found = {
        let shown = Arc::clone(&shown);
        spawn_blocking(move || shown.content.find(filter)).await
    };
    match found.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(found) => answer(&shown, found, &method, &headers),
        Err(error) => {
            error!(%error, "failed to read a catalog that is served");
            status(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

fn find(
    shelf: &Shelf,
    name: Result<Path<String>, PathRejection>,
    method: &Method,
) -> Result<Arc<Shown>, Box<Response>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
        response.headers_mut().insert(header::ALLOW, READS);
        return Err(response.into());
    }
    let Ok(Path(name)) = name else {
        let text = "invalid catalog name: it is not UTF-8";
        return Err(told(StatusCode::BAD_REQUEST, text).into());
    };
    if let Err(problem) = names::dns_subdomain(&name) {
        let text = format!("invalid catalog name: it {problem}");
        return Err(told(StatusCode::BAD_REQUEST, &text).into());
    }
    shelf
        .find(&name)
        .ok_or_else(|| status(StatusCode::NOT_FOUND).into())
}

/// What is asked for; `None` if it is something that nobody knows. Of equal parameters the first counts.
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

/// The answer to whoever has the content already, or expects another one.
fn unchanged(headers: &HeaderMap, shown: &Shown) -> Option<Response> {
    match condition::check(headers, shown.since) {
        Condition::Holds => None,
        Condition::NotModified => {
            let mut response = StatusCode::NOT_MODIFIED.into_response();
            dated(&mut response, shown);
            Some(response)
        }
        Condition::Failed => Some(status(StatusCode::PRECONDITION_FAILED)),
    }
}

fn answer(shown: &Arc<Shown>, found: Found, method: &Method, headers: &HeaderMap) -> Response {
    let length = found.length();
    let is_compressed = length > SMALL && condition::takes_gzip(headers);
    let shared = Arc::clone(shown);
    let body = match (method, is_compressed) {
        (&Method::HEAD, _) => Body::empty(),
        (_, true) => Body::from_stream(body::gzip(shared, found)),
        (_, false) => Body::from_stream(body::plain(shared, found)),
    };
    let mut response = Response::new(body);
    dated(&mut response, shown);
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

fn dated(response: &mut Response, shown: &Shown) {
    set(
        response,
        header::LAST_MODIFIED,
        &httpdate::fmt_http_date(shown.since),
    );
}

fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    // Dates and numbers are always values.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// An answer that is its status in words.
fn status(status: StatusCode) -> Response {
    let words = status.canonical_reason().unwrap_or_default();
    told(status, &format!("{} {words}", status.as_u16()))
}

fn told(status: StatusCode, text: &str) -> Response {
    let mut response = (status, format!("{text}\n")).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, PLAIN);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: http-2
    #[test]
    fn queries_name_what_is_known_and_the_first_of_each_counts() {
        let filter_of = |schema: &str, package: &str, name: &str| {
            Some(Filter {
                schema: schema.to_owned(),
                package: package.to_owned(),
                name: name.to_owned(),
            })
        };
        for (query, expected) in [
            ("", filter_of("", "", "")),
            ("schema=olm.bundle", filter_of("olm.bundle", "", "")),
            ("package=a&name=b", filter_of("", "a", "b")),
            ("name=a&name=b", filter_of("", "", "a")),
            ("name=&name=b", filter_of("", "", "")),
            ("name=a%2Fb+c", filter_of("", "", "a/b c")),
            ("Schema=x", None),
            ("schema=x&limit=1", None),
        ] {
            assert_eq!(filter(query), expected, "{query}");
        }
    }
}

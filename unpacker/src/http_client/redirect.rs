//! Redirects: the next request, and the redirects that are rejected.

use http::{Method, StatusCode, header};
use url::Url;

use super::{Error, Request, Response, Result};

/// Maximum number of redirects of a request.
pub(super) const MAX_REDIRECTS: usize = 5;

/// Returns the request that follows a redirect, or `None` if the response is not a redirect.
pub(super) fn next(request: &Request, response: &Response) -> Result<Option<Request>> {
    let status = response.status.as_u16();
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let fail = |problem: String| Error::Redirect {
        url: request.shown_url(),
        problem,
    };
    let Some(location) = response.headers.get(header::LOCATION) else {
        return Err(fail("without a target".to_owned()));
    };
    // Bytes beyond ASCII are not allowed, but servers send them. The URL parser encodes them.
    let location = String::from_utf8_lossy(location.as_bytes());
    let url = request.url.join(&location);
    let url = url.map_err(|_| fail("to an invalid URL".to_owned()))?;
    let url = strip_credentials(url);
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none_or(str::is_empty) {
        return Err(fail(format!(
            "to {:?}, which is neither https:// nor http://",
            url.scheme()
        )));
    }
    if request.url.scheme() == "https" && url.scheme() == "http" {
        return Err(fail(format!(
            "to {}, which is not encrypted; use that address if you trust it",
            super::RedactedUrl::from(&url)
        )));
    }
    let mut next = request.clone();
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    match response.status {
        StatusCode::SEE_OTHER if !is_read => {
            next.method = Method::GET;
            next.body = None;
            next.headers.remove(header::CONTENT_TYPE);
        }
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND if !is_read => {
            return Err(fail(format!(
                "a {} to {} with status {status}, which is followed only for reads; use that address",
                request.method,
                super::RedactedUrl::from(&url)
            )));
        }
        // The body may contain data that the other server must not see, such as a token in a form.
        _ if !is_read && !is_same_server(&request.url, &url) => {
            return Err(fail(format!(
                "a {} to another server, {}; use that address if you trust it",
                request.method,
                super::RedactedUrl::from(&url)
            )));
        }
        _ => {}
    }
    if !is_same_server(&request.url, &url) {
        // Credentials are not restored if another redirect leads back, because an untrusted server chose that path.
        next.authorization = None;
        for name in [
            header::AUTHORIZATION,
            header::PROXY_AUTHORIZATION,
            header::COOKIE,
        ] {
            next.headers.remove(name);
        }
    }
    if next.written.is_none() {
        next.written = Some(format!("{} (redirected)", request.shown_url()).into());
    }
    next.url = url;
    Ok(Some(next))
}

/// Reports whether two URLs have the same server, so that credentials for one may be sent to the other.
fn is_same_server(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme()
        && a.host() == b.host()
        && a.port_or_known_default() == b.port_or_known_default()
}

/// Removes the user name and password, which a client would send as credentials, and the fragment, which is not sent.
pub(super) fn strip_credentials(mut url: Url) -> Url {
    // These calls fail only for URLs that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_distinguished_by_scheme_host_and_port() {
        for (url, same, others) in ::tests::rows![
            "https://h/", "https://h:443/b?c https://H/" => "https://h:444/ http://h/ https://h.evil/ http://h:443/";
            "http://127.0.0.1/", "http://0x7f.1/" => "http://127.0.0.2/";
        ] {
            let url = Url::parse(url).unwrap();
            let is_same = |other| is_same_server(&url, &Url::parse(other).unwrap());
            assert!(same.split(' ').all(is_same) && !others.split(' ').any(is_same));
        }
    }

    #[test]
    fn urls_lose_only_credentials_and_fragments() {
        assert_each!(|url, left| strip_credentials(Url::parse(url).unwrap()).as_str() => left;
            "https://h/p?q=1" => "https://h/p?q=1";
            "https://name:word@h:1/p?q#f" => "https://h:1/p?q";
            "https://:word@[::1]:1/" => "https://[::1]:1/";
        );
    }
}

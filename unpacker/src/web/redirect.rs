//! Where a server sends us, and whether we go there.

use http::{Method, StatusCode, header};
use url::Url;

use super::{Error, Request, Response, Result};

/// How often a request is sent elsewhere at most.
pub(super) const MOST: usize = 5;

/// The request that a redirect asks for; `None` if the answer is none.
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
        return Err(fail("without saying where to".to_owned()));
    };
    // Bytes beyond ASCII are not allowed, but sent; the URL parser knows what to do with them.
    let location = String::from_utf8_lossy(location.as_bytes());
    let url = request.url.join(&location);
    let url = url.map_err(|_| fail("to something that is no URL".to_owned()))?;
    let url = bare(url);
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none_or(str::is_empty) {
        return Err(fail(format!(
            "to {:?}, which is neither https:// nor http://",
            url.scheme()
        )));
    }
    if request.url.scheme() == "https" && url.scheme() == "http" {
        return Err(fail(format!(
            "to {}, which is not encrypted; ask for that address itself if it is to be trusted",
            super::Shown::from(&url)
        )));
    }
    let mut next = request.clone();
    let reads = matches!(request.method, Method::GET | Method::HEAD);
    match response.status {
        StatusCode::SEE_OTHER if !reads => {
            next.method = Method::GET;
            next.body = None;
            next.headers.remove(header::CONTENT_TYPE);
        }
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND if !reads => {
            return Err(fail(format!(
                "a {} to {} by status {status}, which only reading may follow; use that address",
                request.method,
                super::Shown::from(&url)
            )));
        }
        // The body may hold what the other server must not see, as the token in a form.
        _ if !reads && !is_same_server(&request.url, &url) => {
            return Err(fail(format!(
                "a {} to another server, {}; use that address if it is to be trusted",
                request.method,
                super::Shown::from(&url)
            )));
        }
        _ => {}
    }
    if !is_same_server(&request.url, &url) {
        // They stay away even if another redirect leads back: whoever answered last has chosen the path.
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

/// Whether what may be told to one URL's server may be told to the other's.
fn is_same_server(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme()
        && a.host() == b.host()
        && a.port_or_known_default() == b.port_or_known_default()
}

/// The URL without what a client turns into credentials, and without what is not sent.
pub(super) fn bare(mut url: Url) -> Url {
    // These fail for URLs that cannot have any, which is as good.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart_by_scheme_host_and_port() {
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
    fn urls_lose_credentials_and_fragments_and_nothing_else() {
        assert_each!(|url, left| bare(Url::parse(url).unwrap()).as_str() => left;
            "https://h/p?q=1" => "https://h/p?q=1";
            "https://name:word@h:1/p?q#f" => "https://h:1/p?q";
            "https://:word@[::1]:1/" => "https://[::1]:1/";
        );
    }
}

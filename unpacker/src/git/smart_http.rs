//! Git over HTTP (smart protocol).

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::{
    error::{Problem, Result},
    pkt_line::ByteSource,
    protocol::{GitConnection, Transport},
};
use crate::{
    Access,
    http_client::{Client, RedactedUrl, Request, Response, printable},
    trust::{Basic, Secret},
};

const PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");
const VERSION: HeaderValue = HeaderValue::from_static("version=2");
const REQUEST_TYPE: HeaderValue = HeaderValue::from_static("application/x-git-upload-pack-request");
const REFS_TYPE: &str = "application/x-git-upload-pack-advertisement";
const RESULT_TYPE: &str = "application/x-git-upload-pack-result";

/// A repository on a web server.
pub(super) struct SmartHttp {
    client: Client,
    /// URL of the repository after all redirects.
    base: Url,
    authorization: Option<Secret>,
    /// Name of `base` in errors that must not repeat the target of a redirect; `None` without a redirect.
    written: Option<Box<str>>,
}

/// Requests the list of branches and tags, which starts the protocol.
pub(super) async fn connect(repository: &Url, access: &Access) -> Result<GitConnection> {
    let client = Client::from_access(access)?;
    let authorization = access.basic.as_ref().map(Basic::authorization);
    let mut url = join(repository, "info/refs");
    url.set_query(Some("service=git-upload-pack"));
    let mut request = Request::get(url);
    request.headers.insert(PROTOCOL, VERSION);
    request.authorization.clone_from(&authorization);
    let response = client.send(&request).await?;
    let response = accept(response, REFS_TYPE, authorization.is_some()).await?;
    let Some(base) = parent(&response.url) else {
        return Err(Problem::NotGit {
            found: "it redirects to another path".to_owned(),
            media_type: String::new(),
        });
    };
    let is_same = base.origin() == repository.origin();
    let is_redirected = response.url != request.url;
    let http = SmartHttp {
        client,
        base,
        // The server that the request was redirected to did not get the credentials, and must not get them later.
        authorization: authorization.filter(|_| is_same),
        written: is_redirected
            .then(|| format!("{} (redirected)", RedactedUrl::from(repository)).into()),
    };
    GitConnection::connect(Transport::Http(http), input(response)).await
}

impl SmartHttp {
    pub(super) async fn post(&self, body: Bytes, is_new: bool) -> Result<ByteSource> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, REQUEST_TYPE);
        headers.insert(header::ACCEPT, HeaderValue::from_static(RESULT_TYPE));
        if is_new {
            headers.insert(PROTOCOL, VERSION);
        }
        let request = Request {
            method: Method::POST,
            // The request changes nothing on the server.
            idempotent: true,
            url: join(&self.base, "git-upload-pack"),
            headers,
            authorization: self.authorization.clone(),
            body: Some(body),
            written: self.written.clone(),
        };
        let response = self.client.send(&request).await?;
        accept(response, RESULT_TYPE, self.authorization.is_some())
            .await
            .map(input)
    }
}

/// Returns the response if it has the expected content type.
async fn accept(response: Response, kind: &str, has_credentials: bool) -> Result<Response> {
    match response.status {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED if !has_credentials => return Err(Problem::CredentialsNeeded),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if has_credentials => {
            return Err(Problem::CredentialsRefused);
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            let message = response.excerpt().await;
            return Err(Problem::NotFound { said: message });
        }
        _ => return Err(response.into_error().await.into()),
    }
    let content_type = response.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.map(HeaderValue::as_bytes).unwrap_or_default();
    let content_type = String::from_utf8_lossy(content_type);
    if content_type.split(';').next().map(str::trim) == Some(kind) {
        return Ok(response);
    }
    let media_type = printable(&content_type, 80);
    let found = match media_type.as_str() {
        "" => "response without content type",
        _ => "unexpected content type",
    };
    Err(Problem::NotGit {
        found: found.to_owned(),
        media_type,
    })
}

fn input(response: Response) -> ByteSource {
    ByteSource::Http(response.into_body().boxed())
}

fn join(base: &Url, name: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{name}", base.path().trim_end_matches('/')));
    url
}

/// Returns the URL of the repository for the URL of its `info/refs`.
fn parent(url: &Url) -> Option<Url> {
    let mut base = url.clone();
    base.set_path(url.path().strip_suffix("/info/refs")?);
    base.set_query(None);
    Some(base)
}

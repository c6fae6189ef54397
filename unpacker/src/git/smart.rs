//! Git over HTTP.

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::{
    error::{Problem, Result},
    line::Input,
    talk::{Talk, Way},
};
use crate::{
    Access,
    access::{Basic, Secret},
    web::{Client, Request, Response, Shown, printable},
};

const PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");
const VERSION: HeaderValue = HeaderValue::from_static("version=2");
const ASK: HeaderValue = HeaderValue::from_static("application/x-git-upload-pack-request");
const GREETING: &str = "application/x-git-upload-pack-advertisement";
const ANSWER: &str = "application/x-git-upload-pack-result";

/// A repository on a web server.
pub(super) struct Smart {
    client: Client,
    /// Where the server really is, behind all redirects.
    base: Url,
    authorization: Option<Secret>,
    /// Names `base` in errors that must not repeat a redirect's target; `None` without a redirect.
    written: Option<Box<str>>,
}

/// Asks a server whether it has the repository.
pub(super) async fn connect(repository: &Url, access: &Access) -> Result<Talk> {
    let client = Client::of(access)?;
    let authorization = access.basic.as_ref().map(Basic::authorization);
    let mut url = below(repository, "info/refs");
    url.set_query(Some("service=git-upload-pack"));
    let mut request = Request::get(url);
    request.headers.insert(PROTOCOL, VERSION);
    request.authorization.clone_from(&authorization);
    let response = client.send(&request).await?;
    let response = accept(response, GREETING, authorization.is_some()).await?;
    let Some(base) = parent(&response.url) else {
        return Err(Problem::NotGit {
            found: "it redirects to something else".to_owned(),
            media_type: String::new(),
        });
    };
    let is_same = base.origin() == repository.origin();
    let is_redirected = response.url != request.url;
    let smart = Smart {
        client,
        base,
        // Whoever was redirected to did not get the credentials, and does not get them now.
        authorization: authorization.filter(|_| is_same),
        written: is_redirected.then(|| format!("{} (redirected)", Shown::from(repository)).into()),
    };
    Talk::begin(Way::Http(smart), input(response)).await
}

impl Smart {
    pub(super) async fn post(&self, ask: Bytes, is_new: bool) -> Result<Input> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, ASK);
        headers.insert(header::ACCEPT, HeaderValue::from_static(ANSWER));
        if is_new {
            headers.insert(PROTOCOL, VERSION);
        }
        let request = Request {
            method: Method::POST,
            // It changes nothing on the server.
            repeatable: true,
            url: below(&self.base, "git-upload-pack"),
            headers,
            authorization: self.authorization.clone(),
            body: Some(ask),
            written: self.written.clone(),
        };
        let response = self.client.send(&request).await?;
        accept(response, ANSWER, self.authorization.is_some())
            .await
            .map(input)
    }
}

/// The answer, if it is one of git.
async fn accept(response: Response, kind: &str, has_credentials: bool) -> Result<Response> {
    match response.status {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED if !has_credentials => return Err(Problem::CredentialsNeeded),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if has_credentials => {
            return Err(Problem::CredentialsRefused);
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            let said = response.excerpt().await;
            return Err(Problem::NotFound { said });
        }
        _ => return Err(response.into_error().await.into()),
    }
    let stated = response.headers.get(header::CONTENT_TYPE);
    let stated = stated.map(HeaderValue::as_bytes).unwrap_or_default();
    let stated = String::from_utf8_lossy(stated);
    if stated.split(';').next().map(str::trim) == Some(kind) {
        return Ok(response);
    }
    let media_type = printable(&stated, 80);
    let found = match media_type.as_str() {
        "" => "it answers with something of no stated kind",
        _ => "it answers with",
    };
    Err(Problem::NotGit {
        found: found.to_owned(),
        media_type,
    })
}

fn input(response: Response) -> Input {
    Input::Http(response.into_body().boxed())
}

fn below(base: &Url, name: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{name}", base.path().trim_end_matches('/')));
    url
}

/// The repository of the URL that greeted us.
fn parent(url: &Url) -> Option<Url> {
    let mut base = url.clone();
    base.set_path(url.path().strip_suffix("/info/refs")?);
    base.set_query(None);
    Some(base)
}

//! The one HTTP client that every source is reached with.
//!
//! It follows redirects by hand, so that credentials go to the host they are meant for and nowhere else, tries again
//! what may succeed later, and bounds what a server can make us wait for or read.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use unpacker::{access::Trust, web::{Client, Patience, Request}};
//!
//! let client = Client::new(&Trust::default(), &Patience::default())?;
//! let response = client.send(&Request::get("https://example.com/bundle.tgz".parse()?)).await?;
//! println!("{}: {} bytes", response.status, response.bytes(1 << 20).await?.len());
//! # Ok(())
//! # }
//! ```

mod error;
mod show;

use std::{
    sync::{Arc, Once},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{HeaderMap, Method, StatusCode, header::AUTHORIZATION};
use url::Url;

pub use error::{Error, Result, Untrusted};
pub use show::Shown;

use crate::access::{Secret, Trust, Verify};

/// How long a server is waited for, and how often it is asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// Until a connection stands, TLS included.
    pub connect: Duration,
    /// For the next bytes, of the answer's head or of its body.
    pub idle: Duration,
    /// For everything: all tries, all redirects, and the body to its last byte.
    pub total: Duration,
    /// How often a request is sent at most.
    pub tries: u32,
    /// The wait before the second try; it doubles with every other.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(600),
            tries: 5,
            pause: Duration::from_millis(500),
        }
    }
}

/// What to ask a server.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to do. GET, HEAD and PUT are tried again if they fail for a reason that may pass.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// Sent along with every redirect: no credentials.
    pub headers: HeaderMap,
    /// The whole value of the `Authorization` header. It is sent to this URL's scheme, host and port only.
    pub authorization: Option<Secret>,
    /// What to send.
    pub body: Option<Bytes>,
}

impl Request {
    /// Asks for what is at a URL.
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// A request without headers, credentials and body.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            authorization: None,
            body: None,
        }
    }
}

/// A server's answer, whose body has not been read yet.
#[derive(Debug)]
pub struct Response {
    /// Any status that is left when redirects have been followed and tries are used up.
    pub status: StatusCode,
    /// As sent.
    pub headers: HeaderMap,
    /// Where the answer came from, behind all redirects.
    pub url: Url,
    body: reqwest::Response,
}

/// A client for one set of authorities and proxies. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    client: reqwest::Client,
    patience: Arc<Patience>,
}

impl Client {
    /// A client that goes through the proxies that the environment names.
    ///
    /// # Errors
    /// When the certificates to believe or the proxies are malformed.
    pub fn new(trust: &Trust, patience: &Patience) -> Result<Self> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // Fails if the process has chosen one already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let mut builder = reqwest::Client::builder()
            .connect_timeout(patience.connect)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("rukpak-rs/", env!("CARGO_PKG_VERSION")));
        if trust.verify == Verify::Never {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        if !trust.roots.trim().is_empty() {
            let roots = reqwest::Certificate::from_pem_bundle(trust.roots.as_bytes());
            let roots = roots.map_err(|error| Error::Roots {
                problem: error.to_string(),
            })?;
            builder = builder.tls_certs_merge(roots);
        }
        let client = builder.build().map_err(|error| Error::Client {
            source: error.into(),
        })?;
        Ok(Self {
            client,
            patience: Arc::new(patience.clone()),
        })
    }

    /// Sends a request, and gives the answer's head with a body that can be read.
    ///
    /// # Errors
    /// When no server answers, or it cannot be believed. An unwelcome status is none.
    pub async fn send(&self, request: &Request) -> Result<Response> {
        let mut sent = self
            .client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .timeout(self.patience.total);
        if let Some(authorization) = &request.authorization {
            sent = sent.header(AUTHORIZATION, authorization.reveal());
        }
        if let Some(body) = &request.body {
            sent = sent.body(body.clone());
        }
        let response = sent.send().await.map_err(|error| Error::Connect {
            url: (&request.url).into(),
            tries: 1,
            source: error.without_url().into(),
        })?;
        Ok(Response {
            status: response.status(),
            headers: response.headers().clone(),
            url: response.url().clone(),
            body: response,
        })
    }
}

impl Response {
    /// The body as it arrives. Its parts are errors when nothing comes for too long or the connection breaks.
    pub fn into_body(self) -> impl Stream<Item = Result<Bytes>> + Send + Unpin + 'static {
        let url = Shown::from(&self.url);
        self.body.bytes_stream().map(move |part| {
            part.map_err(|error| Error::Broken {
                url: url.clone(),
                read: 0,
                source: error.without_url().into(),
            })
        })
    }

    /// The whole body, if it is not larger than this.
    ///
    /// # Errors
    /// When it is larger, or does not arrive.
    pub async fn bytes(self, limit: u64) -> Result<Bytes> {
        let url = Shown::from(&self.url);
        let mut body = self.into_body();
        let mut bytes = Vec::new();
        while let Some(part) = body.next().await {
            bytes.extend_from_slice(&part?);
            if bytes.len() as u64 > limit {
                return Err(Error::TooLarge { url, limit });
            }
        }
        Ok(bytes.into())
    }

    /// The beginning of the body, as a message may show it: at most 200 characters on one line.
    pub async fn excerpt(self) -> String {
        let mut body = self.into_body();
        let mut bytes = Vec::new();
        while let Some(Ok(part)) = body.next().await {
            bytes.extend_from_slice(&part);
            if bytes.len() > 2000 {
                break;
            }
        }
        show::printable(&bytes, 200)
    }

    /// What to say about an answer whose status is not the one that was asked for.
    pub async fn into_error(self) -> Error {
        Error::Status {
            url: (&self.url).into(),
            status: self.status,
            excerpt: self.excerpt().await,
        }
    }
}

/// Reads a body where blocking is allowed: in `spawn_blocking`. Must be called within the runtime.
pub fn reader(body: impl Stream<Item = Result<Bytes>> + Send + Unpin + 'static) -> Reader {
    Reader::new(body)
}
mod body;
pub use body::Reader;

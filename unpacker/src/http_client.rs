//! HTTP client of all sources.
//!
//! The client follows redirects itself, so that credentials are sent only to their host. It repeats
//! requests that failed for a transient reason, and limits the time and the data that a server can consume.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use unpacker::{access::Trust, http_client::{Client, Request, Timeouts}};
//!
//! let client = Client::new(&Trust::default(), &Timeouts::default())?;
//! let response = client.send(&Request::get("https://example.com/bundle.tgz".parse()?)).await?;
//! assert_eq!(response.status, 200);
//! println!("{} bytes", response.bytes(1 << 20).await?.len());
//! # Ok(())
//! # }
//! ```

mod body;
mod classify;
mod deadline;
mod display;
mod error;
mod proxy;
mod redirect;
mod retry;

use std::{
    sync::{Arc, Once},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{HeaderMap, Method, StatusCode, header};
use tokio::time::{Instant, timeout_at};
use url::Url;

pub use body::{Reader, reader};
pub use display::RedactedUrl;
pub(crate) use display::{is_html, printable};
pub use error::{CertificateProblem, Error, Result};
pub use proxy::Proxies;
pub(crate) use retry::is_retryable;

use crate::{
    Access,
    trust::{Quotes, Secret, Trust, Verify},
};
use body::{Body, Upload};
use deadline::Deadline;

/// Timeouts and retry policy of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout for a connection, including the TLS handshake.
    pub connect: Duration,
    /// Timeout for the next bytes of the response head or body.
    pub idle: Duration,
    /// Timeout of the whole operation: all attempts, all redirects, and the complete body.
    pub total: Duration,
    /// Maximum number of times that a request is sent.
    pub attempts: u32,
    /// Delay before the second attempt. It doubles with every further attempt.
    pub retry_delay: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(600),
            attempts: 5,
            retry_delay: Duration::from_millis(500),
        }
    }
}

impl Timeouts {
    /// Returns the delay after a number of failed attempts.
    pub(crate) fn delay_after(&self, tries: u32) -> Duration {
        retry::delay(self, tries, None)
    }
}

/// An HTTP request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method of the request. GET, HEAD and PUT are repeated after a transient failure.
    pub method: Method,
    /// Whether requests with other methods are repeated, too. Set it for queries by POST and for idempotent requests.
    pub idempotent: bool,
    /// URL of the request.
    pub url: Url,
    /// Headers without credentials. They are also sent after redirects.
    pub headers: HeaderMap,
    /// Complete value of the `Authorization` header. It is sent only to the scheme, host and port of `url`.
    pub authorization: Option<Secret>,
    /// Body of the request.
    pub body: Option<Bytes>,
    /// Name in errors of a URL that a server chose and that errors must not repeat; `None` if the caller wrote the
    /// URL.
    pub(crate) written: Option<Box<str>>,
}

impl Request {
    /// Creates a GET request.
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// Creates a request without headers, credentials and body.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            idempotent: false,
            url,
            headers: HeaderMap::new(),
            authorization: None,
            body: None,
            written: None,
        }
    }

    /// Returns the URL in the form for errors.
    fn shown_url(&self) -> RedactedUrl {
        RedactedUrl::from(&self.url).with_written(self.written.clone())
    }
}

/// A response whose body was not read yet.
#[derive(Debug)]
pub struct Response {
    /// Status after all redirects and retries.
    pub status: StatusCode,
    /// Headers as sent.
    pub headers: HeaderMap,
    /// URL of the response after all redirects.
    pub url: Url,
    method: Method,
    shown: RedactedUrl,
    body: Body,
    /// Credentials that were sent. They must not appear in a message.
    authorization: Option<Secret>,
    quotes: Quotes,
}

/// A client with fixed CAs and proxies. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    proxies: Arc<Proxies>,
    timeouts: Arc<Timeouts>,
    quotes: Quotes,
}

impl Client {
    /// Creates a client with the proxies from the environment.
    ///
    /// # Errors
    /// Returns an error if the configured CA certificates are malformed.
    pub fn new(trust: &Trust, timeouts: &Timeouts) -> Result<Self> {
        Self::with_proxies(trust, timeouts, &Proxies::from_environment())
    }

    /// Creates a client with the CAs, timeouts, proxies and message policy of `access`.
    ///
    /// # Errors
    /// Returns an error if the configured CA certificates are malformed.
    pub fn from_access(access: &Access) -> Result<Self> {
        let client = match &access.proxies {
            Some(proxies) => Self::with_proxies(&access.trust, &access.timeouts, proxies),
            None => Self::new(&access.trust, &access.timeouts),
        };
        Ok(client?.with_server_messages(access.quotes))
    }

    /// Creates a client with these proxies. The environment is ignored.
    ///
    /// # Errors
    /// Returns an error if the configured CA certificates are malformed.
    pub fn with_proxies(trust: &Trust, timeouts: &Timeouts, proxies: &Proxies) -> Result<Self> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // Fails if the process has already chosen a provider, which works as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let roots = roots(trust)?;
        let proxies = Arc::new(proxies.clone());
        let builder = || {
            let proxies = Arc::clone(&proxies);
            // An unusable proxy is an error before the request is sent.
            let proxy = move |url: &Url| proxies.for_url(url).ok().flatten().cloned();
            reqwest::Client::builder()
                .connect_timeout(timeouts.connect)
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .http1_only()
                .proxy(reqwest::Proxy::custom(proxy))
                .tls_danger_accept_invalid_certs(trust.verify == Verify::Never)
                .user_agent(concat!("rukpak-rs/", env!("CARGO_PKG_VERSION")))
        };
        let result = match builder().tls_certs_merge(roots).build() {
            // A system without CAs can still use plain HTTP. Requests by https then fail when they are sent.
            Err(_) if trust.roots.trim().is_empty() => builder().tls_certs_only([]).build(),
            result => result,
        };
        let http = result.map_err(|error| {
            let source = classify::cause(&error);
            if trust.roots.trim().is_empty() {
                Error::Client { source }
            } else {
                Error::Roots {
                    problem: source.to_string(),
                }
            }
        })?;
        Ok(Self {
            http,
            proxies,
            timeouts: Arc::new(timeouts.clone()),
            quotes: Quotes::default(),
        })
    }

    /// Sets whether messages repeat texts of servers.
    #[must_use]
    pub fn with_server_messages(self, quotes: Quotes) -> Self {
        Self { quotes, ..self }
    }

    /// Sends a request, and returns the response with an unread body.
    ///
    /// # Errors
    /// Returns an error if the server is unreachable or not trusted, or if a redirect must not be followed. An
    /// unexpected status is not an error: see [`Response::into_error`].
    pub async fn send(&self, request: &Request) -> Result<Response> {
        let deadline = Deadline::new(&self.timeouts);
        let mut attempts = 0;
        let mut request = Request {
            url: redirect::strip_credentials(request.url.clone()),
            ..request.clone()
        };
        for _ in 0..=redirect::MAX_REDIRECTS {
            let response = self
                .send_until_answered(&request, &deadline, &mut attempts)
                .await?;
            match redirect::next(&request, &response)? {
                Some(next) => request = next,
                None => return Ok(response),
            }
        }
        Err(Error::Redirect {
            url: request.shown_url(),
            problem: format!(
                "more than {} times; use the final URL",
                redirect::MAX_REDIRECTS
            ),
        })
    }

    /// Sends one request, with retries after transient failures.
    async fn send_until_answered(
        &self,
        request: &Request,
        deadline: &Deadline,
        attempts: &mut u32,
    ) -> Result<Response> {
        loop {
            *attempts += 1;
            let answer = self.send_once(request, deadline, *attempts).await;
            let headers = match &answer {
                Ok(response) if retry::is_transient(response.status) => Some(&response.headers),
                Err(error) if retry::is_retryable(error) => None,
                _ => return answer,
            };
            let delay = retry::delay(&self.timeouts, *attempts, headers);
            let is_last = *attempts >= self.timeouts.attempts || delay >= deadline.remaining();
            if is_last || !retry::is_repeatable(request) {
                return answer;
            }
            tracing::debug!(
                url = %RedactedUrl::from(&request.url),
                status = answer.as_ref().ok().map(|response| response.status.as_u16()),
                error = answer.as_ref().err().map(tracing::field::display),
                pause = delay.as_secs_f64(),
                "retrying a request"
            );
            drop(answer);
            tokio::time::sleep(delay).await;
        }
    }

    async fn send_once(
        &self,
        request: &Request,
        deadline: &Deadline,
        attempts: u32,
    ) -> Result<Response> {
        let url = request.shown_url();
        if !matches!(request.url.scheme(), "https" | "http") {
            return Err(Error::Scheme { url });
        }
        self.proxies.for_url(&request.url)?;
        let mut builder = self
            .http
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone());
        if let Some(authorization) = &request.authorization {
            let value = header::HeaderValue::from_str(authorization.reveal());
            let mut value = value.map_err(|_| Error::Credentials { url: url.clone() })?;
            value.set_sensitive(true);
            builder = builder.header(header::AUTHORIZATION, value);
        }
        let deadline = deadline.start();
        if let Some(body) = &request.body {
            builder = builder.body(reqwest::Body::wrap(Upload::new(
                body.clone(),
                deadline.clone(),
            )));
        }
        let response = deadline.bound(&url, builder.send()).await?;
        let response =
            response.map_err(|error| classify::classify(&error, url.clone(), attempts))?;
        Ok(Response {
            status: response.status(),
            headers: response.headers().clone(),
            url: request.url.clone(),
            method: request.method.clone(),
            shown: url.clone(),
            body: Body::new(response, url, deadline),
            authorization: request.authorization.clone(),
            quotes: self.quotes,
        })
    }
}

/// Parses the CA certificates that are trusted in addition to those of the system.
fn roots(trust: &Trust) -> Result<Vec<reqwest::Certificate>> {
    if trust.roots.trim().is_empty() {
        return Ok(Vec::new());
    }
    let fail = |problem: &str| Error::Roots {
        problem: problem.to_owned(),
    };
    let roots = reqwest::Certificate::from_pem_bundle(trust.roots.as_bytes());
    let roots = roots.map_err(|_| fail("a PEM block is malformed"))?;
    if roots.is_empty() {
        return Err(fail("no certificate found"));
    }
    Ok(roots)
}

impl Response {
    /// Returns the body as a stream. The stream returns an error if a timeout expires or the connection breaks.
    pub fn into_body(self) -> impl Stream<Item = Result<Bytes>> + Send + Unpin + 'static {
        self.body.into_stream()
    }

    /// Reads the complete body, up to a limit.
    ///
    /// # Errors
    /// Returns an error if the body exceeds the limit or is incomplete.
    pub async fn bytes(self, limit: u64) -> Result<Bytes> {
        let url = self.shown.clone();
        if self.body.stated().is_some_and(|size| size > limit) {
            return Err(Error::TooLarge { url, limit });
        }
        let mut body = self.into_body();
        let mut bytes = Vec::new();
        while let Some(chunk) = body.next().await {
            let chunk = chunk?;
            if bytes.len() as u64 + chunk.len() as u64 > limit {
                return Err(Error::TooLarge { url, limit });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.into())
    }

    /// Returns the size of the body, if the server states it.
    pub fn size(&self) -> Option<u64> {
        self.body.stated()
    }

    /// Returns the beginning of the body for a message: at most 200 characters on one line, no HTML or XML, and
    /// without the credentials that were sent. The text is empty where remote texts are withheld.
    pub async fn excerpt(self) -> String {
        if self.quotes == Quotes::Withheld {
            return String::new();
        }
        let authorization = self.authorization.clone();
        let mut body = self.into_body();
        let mut bytes = Vec::new();
        // The status is already known, so a slow body is not worth a long wait.
        let end = Instant::now() + Duration::from_secs(5);
        while let Ok(Some(Ok(chunk))) = timeout_at(end, body.next()).await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > 4000 {
                break;
            }
        }
        bytes.truncate(4000);
        if display::is_html(&bytes) {
            return String::new();
        }
        let text = String::from_utf8_lossy(&bytes);
        match authorization {
            Some(secret) => printable(&display::strip_credentials(&text, &secret), 200),
            None => printable(&text, 200),
        }
    }

    /// Converts a response with an unexpected status into an error.
    pub async fn into_error(self) -> Error {
        Error::Status {
            method: self.method.clone(),
            url: self.shown.clone(),
            status: self.status,
            excerpt: self.excerpt().await.into(),
        }
    }
}

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
//! assert_eq!(response.status, 200);
//! println!("{} bytes", response.bytes(1 << 20).await?.len());
//! # Ok(())
//! # }
//! ```

mod body;
mod error;
mod explain;
mod proxies;
mod redirect;
mod retry;
mod show;
mod wait;

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
pub use error::{Error, Result, Untrusted};
pub use proxies::Proxies;
pub(crate) use retry::may_recover;
pub use show::Shown;
pub(crate) use show::is_markup;
pub(crate) use show::printable;

use crate::{
    Access,
    access::{Quotes, Secret, Trust, Verify},
};
use body::{Body, Upload};
use wait::Wait;

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

impl Patience {
    /// How long to wait before trying once more what has failed so often.
    pub(crate) fn pause_after(&self, tries: u32) -> Duration {
        retry::pause(self, tries, None)
    }
}

/// What to ask a server.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to do. GET, HEAD and PUT are tried again if they fail for a reason that may pass.
    pub method: Method,
    /// Whether any other method is, too: for questions that are asked by POST, and for what does no harm if done twice.
    pub repeatable: bool,
    /// Where.
    pub url: Url,
    /// Sent along with every redirect: no credentials.
    pub headers: HeaderMap,
    /// The whole value of the `Authorization` header. It is sent to this URL's scheme, host and port only.
    pub authorization: Option<Secret>,
    /// What to send.
    pub body: Option<Bytes>,
    /// Names a URL that a server chose, for errors that must not repeat the URL; `None` if the caller wrote the URL.
    pub(crate) written: Option<Box<str>>,
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
            repeatable: false,
            url,
            headers: HeaderMap::new(),
            authorization: None,
            body: None,
            written: None,
        }
    }

    /// Returns the URL as errors show it.
    fn shown_url(&self) -> Shown {
        Shown::from(&self.url).with_written(self.written.clone())
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
    method: Method,
    shown: Shown,
    body: Body,
    /// What was sent to get it, and must not come back in a message.
    authorization: Option<Secret>,
    quotes: Quotes,
}

/// A client for one set of authorities and proxies. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    proxies: Arc<Proxies>,
    patience: Arc<Patience>,
    quotes: Quotes,
}

impl Client {
    /// A client that goes through the proxies that the environment names.
    ///
    /// # Errors
    /// When the certificates to believe are malformed.
    pub fn new(trust: &Trust, patience: &Patience) -> Result<Self> {
        Self::with_proxies(trust, patience, &Proxies::from_environment())
    }

    /// A client that reaches sources as is told: whom it believes, how long it waits, through which proxies it goes and
    /// whether it quotes.
    ///
    /// # Errors
    /// When the certificates to believe are malformed.
    pub fn of(access: &Access) -> Result<Self> {
        let client = match &access.proxies {
            Some(proxies) => Self::with_proxies(&access.trust, &access.patience, proxies),
            None => Self::new(&access.trust, &access.patience),
        };
        Ok(client?.quoting(access.quotes))
    }

    /// A client that goes through these proxies, whatever the environment says.
    ///
    /// # Errors
    /// When the certificates to believe are malformed.
    pub fn with_proxies(trust: &Trust, patience: &Patience, proxies: &Proxies) -> Result<Self> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // Fails if the process has chosen one already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let roots = roots(trust)?;
        let proxies = Arc::new(proxies.clone());
        let builder = || {
            let proxies = Arc::clone(&proxies);
            // Without one that can be used no request is sent at all.
            let proxy = move |url: &Url| proxies.of(url).ok().flatten().cloned();
            reqwest::Client::builder()
                .connect_timeout(patience.connect)
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .http1_only()
                .proxy(reqwest::Proxy::custom(proxy))
                .tls_danger_accept_invalid_certs(trust.verify == Verify::Never)
                .user_agent(concat!("rukpak-rs/", env!("CARGO_PKG_VERSION")))
        };
        let built = match builder().tls_certs_merge(roots).build() {
            // A system without any authorities can still reach plain HTTP; https then fails where it is tried.
            Err(_) if trust.roots.trim().is_empty() => builder().tls_certs_only([]).build(),
            built => built,
        };
        let http = built.map_err(|error| {
            let source = explain::cause(&error);
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
            patience: Arc::new(patience.clone()),
            quotes: Quotes::default(),
        })
    }

    /// Decides whether messages quote servers.
    #[must_use]
    pub fn quoting(self, quotes: Quotes) -> Self {
        Self { quotes, ..self }
    }

    /// Sends a request, and gives the answer's head with a body that can be read.
    ///
    /// # Errors
    /// When no server answers, it cannot be believed, or it redirects to where nobody should go. An unwelcome status
    /// is none: see [`Response::into_error`].
    pub async fn send(&self, request: &Request) -> Result<Response> {
        let wait = Wait::new(&self.patience);
        let mut tries = 0;
        let mut request = Request {
            url: redirect::bare(request.url.clone()),
            ..request.clone()
        };
        for _ in 0..=redirect::MOST {
            let response = self
                .send_until_answered(&request, &wait, &mut tries)
                .await?;
            match redirect::next(&request, &response)? {
                Some(next) => request = next,
                None => return Ok(response),
            }
        }
        Err(Error::Redirect {
            url: request.shown_url(),
            problem: format!(
                "further, after {} redirects; use the address where they should lead to",
                redirect::MOST
            ),
        })
    }

    /// Sends one request again and again until there is an answer to keep.
    async fn send_until_answered(
        &self,
        request: &Request,
        wait: &Wait,
        tries: &mut u32,
    ) -> Result<Response> {
        loop {
            *tries += 1;
            let answer = self.send_once(request, wait, *tries).await;
            let headers = match &answer {
                Ok(response) if retry::may_pass(response.status) => Some(&response.headers),
                Err(error) if retry::may_recover(error) => None,
                _ => return answer,
            };
            let pause = retry::pause(&self.patience, *tries, headers);
            let is_last = *tries >= self.patience.tries || pause >= wait.left();
            if is_last || !retry::is_repeatable(request) {
                return answer;
            }
            tracing::debug!(
                url = %Shown::from(&request.url),
                status = answer.as_ref().ok().map(|response| response.status.as_u16()),
                error = answer.as_ref().err().map(tracing::field::display),
                pause = pause.as_secs_f64(),
                "trying a request again"
            );
            drop(answer);
            tokio::time::sleep(pause).await;
        }
    }

    async fn send_once(&self, request: &Request, wait: &Wait, tries: u32) -> Result<Response> {
        let url = request.shown_url();
        if !matches!(request.url.scheme(), "https" | "http") {
            return Err(Error::Scheme { url });
        }
        self.proxies.of(&request.url)?;
        let mut sent = self
            .http
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone());
        if let Some(authorization) = &request.authorization {
            let value = header::HeaderValue::from_str(authorization.reveal());
            let mut value = value.map_err(|_| Error::Credentials { url: url.clone() })?;
            value.set_sensitive(true);
            sent = sent.header(header::AUTHORIZATION, value);
        }
        let wait = wait.begin();
        if let Some(body) = &request.body {
            sent = sent.body(reqwest::Body::wrap(Upload::new(body.clone(), wait.clone())));
        }
        let response = wait.bound(&url, sent.send()).await?;
        let response = response.map_err(|error| explain::explain(&error, url.clone(), tries))?;
        Ok(Response {
            status: response.status(),
            headers: response.headers().clone(),
            url: request.url.clone(),
            method: request.method.clone(),
            shown: url.clone(),
            body: Body::new(response, url, wait),
            authorization: request.authorization.clone(),
            quotes: self.quotes,
        })
    }
}

/// The authorities that are believed beside the system's.
fn roots(trust: &Trust) -> Result<Vec<reqwest::Certificate>> {
    if trust.roots.trim().is_empty() {
        return Ok(Vec::new());
    }
    let fail = |problem: &str| Error::Roots {
        problem: problem.to_owned(),
    };
    let roots = reqwest::Certificate::from_pem_bundle(trust.roots.as_bytes());
    let roots = roots.map_err(|_| fail("a block of it is not well formed"))?;
    if roots.is_empty() {
        return Err(fail("there is none in them"));
    }
    Ok(roots)
}

impl Response {
    /// The body as it arrives. Its parts are errors when nothing comes for too long or the connection breaks.
    pub fn into_body(self) -> impl Stream<Item = Result<Bytes>> + Send + Unpin + 'static {
        self.body.into_stream()
    }

    /// The whole body, if it is not larger than this.
    ///
    /// # Errors
    /// When it is larger, or does not arrive.
    pub async fn bytes(self, limit: u64) -> Result<Bytes> {
        let url = self.shown.clone();
        if self.body.stated().is_some_and(|stated| stated > limit) {
            return Err(Error::TooLarge { url, limit });
        }
        let mut body = self.into_body();
        let mut bytes = Vec::new();
        while let Some(part) = body.next().await {
            let part = part?;
            if bytes.len() as u64 + part.len() as u64 > limit {
                return Err(Error::TooLarge { url, limit });
            }
            bytes.extend_from_slice(&part);
        }
        Ok(bytes.into())
    }

    /// The size of the body, if the server states it.
    pub fn size(&self) -> Option<u64> {
        self.body.stated()
    }

    /// The beginning of the body, as a message may show it: at most 200 characters on one line, nothing of a page of
    /// HTML or XML, and without the credentials that were sent. Empty where servers are not quoted.
    pub async fn excerpt(self) -> String {
        if self.quotes == Quotes::Withheld {
            return String::new();
        }
        let authorization = self.authorization.clone();
        let mut body = self.into_body();
        let mut bytes = Vec::new();
        // What comes slowly is not worth the wait: the status has been told already.
        let end = Instant::now() + Duration::from_secs(5);
        while let Ok(Some(Ok(part))) = timeout_at(end, body.next()).await {
            bytes.extend_from_slice(&part);
            if bytes.len() > 4000 {
                break;
            }
        }
        bytes.truncate(4000);
        if show::is_markup(&bytes) {
            return String::new();
        }
        let text = String::from_utf8_lossy(&bytes);
        match authorization {
            Some(secret) => printable(&show::without(&text, &secret), 200),
            None => printable(&text, 200),
        }
    }

    /// What to say about an answer whose status is not the one that was asked for.
    pub async fn into_error(self) -> Error {
        Error::Status {
            method: self.method.clone(),
            url: self.shown.clone(),
            status: self.status,
            excerpt: self.excerpt().await.into(),
        }
    }
}

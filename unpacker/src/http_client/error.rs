//! Errors of HTTP requests.

use std::time::Duration;

use http::{Method, StatusCode};

use super::display::RedactedUrl;

/// Result of an HTTP request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The problem of a server certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateProblem {
    /// The certificate is signed by an unknown CA.
    #[error(
        "is signed by an unknown CA; pass the CA certificate with --cacert, or disable verification with --tls-verify=false"
    )]
    Authority,
    /// The certificate is a CA certificate.
    #[error(
        "is a CA certificate, which a server must not use as its own; have the CA issue one for the server, or disable verification with --tls-verify=false"
    )]
    CaAsLeaf,
    /// The certificate is for another host.
    #[error("is for another name; use a name in the certificate, or reissue it for this name")]
    Name,
    /// The certificate has expired.
    #[error("has expired; renew it, and check the clock of this machine")]
    Expired,
    /// The certificate is not valid yet.
    #[error("is not valid yet; check the clock of this machine")]
    NotYet,
    /// The certificate has another problem.
    #[error("is invalid; reissue it, or disable verification with --tls-verify=false")]
    Other,
}

/// An error of an HTTP request. URLs are displayed without credentials and query, because queries may contain
/// credentials.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configured CA certificates are invalid.
    #[error(
        "failed to read the certificates of --cacert: {problem}; pass a file with certificates in PEM"
    )]
    Roots {
        /// Problem of the certificates.
        problem: String,
    },
    /// An environment variable does not name a usable proxy.
    #[error("invalid proxy in {variable}: {problem}; use http://HOST:PORT")]
    Proxy {
        /// Name of the variable.
        variable: &'static str,
        /// Problem of its value. The value may contain a password and is not shown.
        problem: &'static str,
    },
    /// The client cannot be set up.
    #[error("failed to set up the HTTP client")]
    Client {
        /// Cause of the failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The scheme of the URL is neither http nor https.
    #[error("unsupported URL {url}: only https:// and http:// are supported")]
    Scheme {
        /// URL of the request.
        url: RedactedUrl,
    },
    /// The credentials contain characters that are invalid in a header.
    #[error(
        "the credentials for {url} contain a line break or another control character; store them without it"
    )]
    Credentials {
        /// URL that the credentials are for.
        url: RedactedUrl,
    },
    /// The connection failed, or broke before the response.
    #[error("failed to reach {url}{}; check the address, the network and the proxy settings", after_attempts(*.tries))]
    Connect {
        /// URL of the request.
        url: RedactedUrl,
        /// Number of attempts.
        tries: u32,
        /// Cause of the last failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The host name cannot be resolved.
    #[error("failed to resolve the host of {url}; check the URL")]
    Host {
        /// URL of the request.
        url: RedactedUrl,
        /// Error of the resolver.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The proxy does not connect to the server.
    #[error(
        "the proxy rejected the connection to {url}; check its rules and the credentials in HTTPS_PROXY, or add the host to NO_PROXY"
    )]
    Tunnel {
        /// URL of the request.
        url: RedactedUrl,
        /// Cause of the failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server certificate is not trusted.
    #[error("the certificate of {url} {problem}")]
    Untrusted {
        /// URL of the request.
        url: RedactedUrl,
        /// Problem of the certificate.
        problem: CertificateProblem,
        /// Result of the verification, which may name other hosts of the certificate; `None` where remote texts are
        /// withheld.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The server of an https URL does not use TLS. The caller retries with plain HTTP where that is allowed.
    #[error(
        "{url} does not use TLS; if the server uses plain HTTP, pass --tls-verify=false for a registry, or use http:// in a URL"
    )]
    NotTls {
        /// URL of the request.
        url: RedactedUrl,
    },
    /// The TLS handshake failed, because client and server support no common parameters.
    #[error(
        "TLS handshake with {url} failed; make sure that the server supports TLS 1.2 or 1.3 without client certificates"
    )]
    Handshake {
        /// URL of the request.
        url: RedactedUrl,
        /// Cause of the failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server sent no data within the idle timeout.
    #[error("{url} sent nothing for {} s; try again later", .idle.as_secs_f64())]
    IdleTimeout {
        /// URL of the request.
        url: RedactedUrl,
        /// Timeout without received data.
        idle: Duration,
    },
    /// The operation exceeded the total timeout.
    #[error("{url} took longer than {} s; try again over a faster connection, or raise --timeout", .total.as_secs_f64())]
    TotalTimeout {
        /// URL of the request.
        url: RedactedUrl,
        /// Timeout of the whole operation.
        total: Duration,
    },
    /// The server sent a redirect that is not followed.
    #[error("{url} redirects {problem}")]
    Redirect {
        /// URL of the request.
        url: RedactedUrl,
        /// Target of the redirect and its problem, as a continuation of the message.
        problem: String,
    },
    /// The connection broke while the body was read.
    #[error("the response of {url} was interrupted after {read} bytes; try again")]
    Disconnected {
        /// URL of the request.
        url: RedactedUrl,
        /// Number of received bytes.
        read: u64,
        /// Cause of the failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The body exceeds the limit.
    #[error("the response of {url} is larger than the limit of {limit} bytes; check the address")]
    TooLarge {
        /// URL of the request.
        url: RedactedUrl,
        /// Limit in bytes.
        limit: u64,
    },
    /// The server responded with an unexpected status.
    #[error("{method} {url}: unexpected status \"{status}\"{}; {}", in_parentheses(.excerpt), remedy(*.status))]
    Status {
        /// Method of the request.
        method: Method,
        /// URL of the request.
        url: RedactedUrl,
        /// Status of the response.
        status: StatusCode,
        /// Beginning of the body.
        excerpt: Box<str>,
    },
    /// The server responded with a status from 400 to 499 that has no specific remedy. Used where remote texts are
    /// withheld.
    #[error(
        "{method} {url}: the server rejected the request; check the address and the requirements of the server"
    )]
    Rejected {
        /// Method of the request.
        method: Method,
        /// URL of the request.
        url: RedactedUrl,
    },
}

fn after_attempts(tries: u32) -> String {
    match tries {
        0 | 1 => String::new(),
        tries => format!(" in {tries} attempts"),
    }
}

fn in_parentheses(excerpt: &str) -> String {
    if excerpt.is_empty() {
        String::new()
    } else {
        format!(" ({excerpt})")
    }
}

/// Returns the remedy for a status.
fn remedy(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "provide valid credentials",
        403 => "check that these credentials have read access",
        404 | 410 => "check the address; it may require credentials",
        407 => "check the credentials of the proxy",
        429 => "too many requests; try again later",
        500..=599 => "server error; try again later",
        _ => "check the address and the requirements of the server",
    }
}

impl Error {
    /// Returns the CamelCase reason of this failure, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Roots { .. } | Self::Proxy { .. } | Self::Client { .. } => "ClientInvalid",
            Self::Scheme { .. } => "SchemeUnknown",
            Self::Credentials { .. } => "CredentialsInvalid",
            Self::Connect { .. } => "ConnectionFailed",
            Self::Host { .. } => "HostUnknown",
            Self::Tunnel { .. } => "ProxyRefused",
            Self::Untrusted { .. } => "CertificateUntrusted",
            Self::NotTls { .. } | Self::Handshake { .. } => "NotTLS",
            Self::IdleTimeout { .. } | Self::TotalTimeout { .. } => "TimedOut",
            Self::Redirect { .. } => "RedirectRefused",
            Self::Disconnected { .. } => "ConnectionBroken",
            Self::TooLarge { .. } => "LimitExceeded",
            Self::Status { status, .. } => match status.as_u16() {
                401 | 403 => "Unauthorized",
                404 | 410 => "NotFound",
                429 => "TooManyRequests",
                _ => "UnexpectedStatus",
            },
            Self::Rejected { .. } => "UnexpectedStatus",
        }
    }

    /// Reports whether the same request always fails.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Host { .. }
            | Self::Tunnel { .. }
            | Self::IdleTimeout { .. }
            | Self::TotalTimeout { .. }
            | Self::Disconnected { .. } => false,
            Self::Status { status, .. } => {
                !(status.is_server_error() || matches!(status.as_u16(), 408 | 429))
            }
            _ => true,
        }
    }
}

impl Error {
    /// Removes texts that the server chose: see [`Quotes::Withheld`](crate::trust::Quotes::Withheld).
    pub(crate) fn withhold(&mut self) {
        match self {
            Self::Roots { .. } | Self::Proxy { .. } | Self::Client { .. } => {}
            Self::Scheme { url }
            | Self::Credentials { url }
            | Self::Connect { url, .. }
            | Self::Host { url, .. }
            | Self::Tunnel { url, .. }
            | Self::NotTls { url }
            | Self::Handshake { url, .. }
            | Self::IdleTimeout { url, .. }
            | Self::TotalTimeout { url, .. }
            | Self::Disconnected { url, .. }
            | Self::TooLarge { url, .. }
            | Self::Rejected { url, .. } => url.withhold(),
            Self::Untrusted { url, source, .. } => {
                url.withhold();
                *source = None;
            }
            Self::Redirect { url, problem } => {
                url.withhold();
                "to a URL that is not followed; use the final URL".clone_into(problem);
            }
            Self::Status {
                method,
                url,
                status,
                excerpt,
            } => {
                url.withhold();
                if is_named(*status) {
                    *excerpt = Box::default();
                } else {
                    let (method, url) = (method.clone(), url.clone());
                    *self = Self::Rejected { method, url };
                }
            }
        }
    }
}

/// Reports whether errors name the status where remote texts are withheld: the remedy or a retry depends on it.
fn is_named(status: StatusCode) -> bool {
    !status.is_client_error() || matches!(status.as_u16(), 401 | 403 | 404 | 407 | 408 | 429)
}

//! Why a server gave no answer, or none that can be taken.

use std::time::Duration;

use http::{Method, StatusCode};

use super::show::Shown;

/// The result of talking to a server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// Nobody we believe has signed it.
    #[error(
        "is signed by an authority that is not known here; pass the authority's certificate by --cacert, or do without checks by --tls-verify=false"
    )]
    Authority,
    /// It is the authority's own.
    #[error(
        "is one of an authority, which a server may not use as its own; have the authority issue one for the server, or do without checks by --tls-verify=false"
    )]
    AuthorityItself,
    /// It belongs to another host.
    #[error("is for another name; use the name in the certificate, or have it issued for this one")]
    Name,
    /// It is too old.
    #[error("has expired; have it renewed, and check the clock of this machine")]
    Expired,
    /// It is too new.
    #[error("is not valid yet; check the clock of this machine")]
    NotYet,
    /// Anything else.
    #[error("cannot be accepted; have it issued again, or do without checks by --tls-verify=false")]
    Other,
}

/// Why a request failed. URLs are shown without credentials and without their query, which may hold some.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificates to believe are none.
    #[error(
        "the certificates of --cacert cannot be read: {problem}; pass a file with certificates in PEM"
    )]
    Roots {
        /// Why.
        problem: String,
    },
    /// A proxy in the environment that is none.
    #[error("{variable} names no proxy that can be used: {problem}; write http://HOST:PORT")]
    Proxy {
        /// The variable.
        variable: &'static str,
        /// What is wrong with its value, which may hold a password and is not shown.
        problem: &'static str,
    },
    /// The client cannot be set up.
    #[error("failed to set up the HTTP client")]
    Client {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A URL of another scheme than http and https.
    #[error("{url} cannot be asked: only https:// and http:// can")]
    Scheme {
        /// Which.
        url: Shown,
    },
    /// Credentials that no header can carry.
    #[error(
        "the credentials for {url} hold a line break or another control character; store them without"
    )]
    Credentials {
        /// What they are for.
        url: Shown,
    },
    /// No connection to the server, or none that lasted until its answer.
    #[error("failed to reach {url}{}; check the address, the network and the proxy settings", after(*.tries))]
    Connect {
        /// Where to.
        url: Shown,
        /// How often it was tried.
        tries: u32,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A name without an address.
    #[error("there is no host of the name in {url}; check the address")]
    Host {
        /// Where to.
        url: Shown,
        /// What the resolver says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A proxy that does not connect us with the server.
    #[error(
        "the proxy refuses to connect to {url}; check what it allows and the credentials in HTTPS_PROXY, or name the host in NO_PROXY"
    )]
    Tunnel {
        /// Where to.
        url: Shown,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A server that does not prove who it is.
    #[error("the certificate of {url} {problem}")]
    Untrusted {
        /// Which server.
        url: Shown,
        /// In which way.
        problem: Untrusted,
        /// Result of the check, which may name other hosts of the certificate; `None` where remote texts are withheld.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// An https URL of a server that does not speak it. Whoever may use plain HTTP instead asks again by it.
    #[error(
        "{url} does not answer in TLS; if the server speaks plain HTTP, pass --tls-verify=false for a registry, or write http:// in a URL"
    )]
    NotTls {
        /// Which server.
        url: Shown,
    },
    /// A server with which there is no common way to encrypt.
    #[error(
        "failed to agree on an encryption with {url}; let the server offer TLS 1.2 or 1.3 without client certificates"
    )]
    Handshake {
        /// Which server.
        url: Shown,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing came for too long.
    #[error("{url} sent nothing for {} s; try again later", .idle.as_secs_f64())]
    Idle {
        /// Which server.
        url: Shown,
        /// How long.
        idle: Duration,
    },
    /// Something came, but all of it took too long.
    #[error("{url} took longer than {} s; try again over a faster connection, or raise --timeout", .total.as_secs_f64())]
    Slow {
        /// Which server.
        url: Shown,
        /// How long.
        total: Duration,
    },
    /// A redirect that is not followed.
    #[error("{url} redirects {problem}")]
    Redirect {
        /// From where.
        url: Shown,
        /// To where, and what is wrong with it.
        problem: String,
    },
    /// The connection broke while the body was read.
    #[error("the answer of {url} broke off after {read} bytes; try again")]
    Broken {
        /// Which server.
        url: Shown,
        /// What had arrived.
        read: u64,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A body that is larger than what is wanted.
    #[error("the answer of {url} is larger than the limit of {limit} bytes")]
    TooLarge {
        /// Which server.
        url: Shown,
        /// The limit.
        limit: u64,
    },
    /// A status that was not asked for.
    #[error("{method} {url}: unexpected status \"{status}\"{}; {}", said(.excerpt), remedy(*.status))]
    Status {
        /// What was asked.
        method: Method,
        /// Which server.
        url: Shown,
        /// The status.
        status: StatusCode,
        /// The beginning of what it says about it.
        excerpt: Box<str>,
    },
    /// A status from 400 to 499 without a remedy that depends on it, where remote texts are withheld.
    #[error(
        "{method} {url}: the server rejects the request; check the address and what the server expects"
    )]
    Rejected {
        /// Method of the request.
        method: Method,
        /// URL of the request.
        url: Shown,
    },
}

fn after(tries: u32) -> String {
    match tries {
        0 | 1 => String::new(),
        tries => format!(" in {tries} tries"),
    }
}

fn said(excerpt: &str) -> String {
    if excerpt.is_empty() {
        String::new()
    } else {
        format!(" ({excerpt})")
    }
}

/// What to do about a status.
fn remedy(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "check the credentials, or pass some",
        403 => "check that these credentials may read it",
        404 | 410 => "check the address; it may also be hidden from who has no credentials",
        407 => "check the credentials of the proxy",
        429 => "too many requests were made; try again later",
        500..=599 => "the server has a problem; try again later",
        _ => "check the address and what the server expects",
    }
}

impl Error {
    /// The kind of failure in one word, for conditions, events and metrics.
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
            Self::Idle { .. } | Self::Slow { .. } => "TimedOut",
            Self::Redirect { .. } => "RedirectRefused",
            Self::Broken { .. } => "ConnectionBroken",
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

    /// Whether the same request fails again however often it is made.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Host { .. }
            | Self::Tunnel { .. }
            | Self::Idle { .. }
            | Self::Slow { .. }
            | Self::Broken { .. } => false,
            Self::Status { status, .. } => {
                !(status.is_server_error() || matches!(status.as_u16(), 408 | 429))
            }
            _ => true,
        }
    }
}

impl Error {
    /// Removes what the server chose: see [`Quotes::Withheld`](crate::access::Quotes::Withheld).
    pub(crate) fn withheld(self) -> Self {
        match self {
            Self::Roots { .. } | Self::Proxy { .. } | Self::Client { .. } => self,
            Self::Scheme { url } => Self::Scheme {
                url: url.withheld(),
            },
            Self::Credentials { url } => Self::Credentials {
                url: url.withheld(),
            },
            Self::Connect { url, tries, source } => Self::Connect {
                url: url.withheld(),
                tries,
                source,
            },
            Self::Host { url, source } => Self::Host {
                url: url.withheld(),
                source,
            },
            Self::Tunnel { url, source } => Self::Tunnel {
                url: url.withheld(),
                source,
            },
            Self::Untrusted { url, problem, .. } => Self::Untrusted {
                url: url.withheld(),
                problem,
                source: None,
            },
            Self::NotTls { url } => Self::NotTls {
                url: url.withheld(),
            },
            Self::Handshake { url, source } => Self::Handshake {
                url: url.withheld(),
                source,
            },
            Self::Idle { url, idle } => Self::Idle {
                url: url.withheld(),
                idle,
            },
            Self::Slow { url, total } => Self::Slow {
                url: url.withheld(),
                total,
            },
            Self::Redirect { url, .. } => Self::Redirect {
                url: url.withheld(),
                problem: "to an address that is not followed; use the final address".to_owned(),
            },
            Self::Broken { url, read, source } => Self::Broken {
                url: url.withheld(),
                read,
                source,
            },
            Self::TooLarge { url, limit } => Self::TooLarge {
                url: url.withheld(),
                limit,
            },
            Self::Status {
                method,
                url,
                status,
                ..
            } if is_named(status) => Self::Status {
                method,
                url: url.withheld(),
                status,
                excerpt: Box::default(),
            },
            Self::Status { method, url, .. } | Self::Rejected { method, url } => Self::Rejected {
                method,
                url: url.withheld(),
            },
        }
    }
}

/// Reports whether errors name the status where remote texts are withheld: the remedy or a retry depends on it.
fn is_named(status: StatusCode) -> bool {
    !status.is_client_error() || matches!(status.as_u16(), 401 | 403 | 404 | 407 | 408 | 429)
}

//! Access settings for sources: credentials, trust, proxies and mirrors.

use std::collections::BTreeMap;

use manifests::error::chain;
use tracing::debug;

pub use crate::trust::{Basic, Quotes, Secret, Ssh, Trust, Verify};

use crate::{
    http_client::{Proxies, Timeouts, printable},
    registry::{Credentials, Mirrors},
};

/// Maximum length of an error in the log, in characters.
const MAX_LOGGED: usize = 2000;

impl Quotes {
    /// Removes texts of servers from an error if they are withheld. The full error is logged at level debug.
    pub(crate) fn apply<T>(self, result: crate::Result<T>) -> crate::Result<T> {
        match (self, result) {
            (Self::Withheld, Err(mut error)) => {
                debug!(
                    error = printable(&chain(&error), MAX_LOGGED),
                    "failed to fetch a source"
                );
                error.withhold();
                Err(error)
            }
            (_, result) => result,
        }
    }
}

/// Settings for the access to sources. Each source uses only the settings for its type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// User name and password for git over https and for archives over HTTP.
    pub basic: Option<Basic>,
    /// Credentials for git over ssh.
    pub ssh: Option<Ssh>,
    /// Trusted CAs and verification.
    pub trust: Trust,
    /// Timeouts and retry policy.
    pub timeouts: Timeouts,
    /// Whether errors repeat texts of servers.
    pub quotes: Quotes,
    /// Credentials for registries.
    pub registries: Credentials,
    /// Mirrors of registries, and rules for admitted images.
    pub mirrors: Mirrors,
    /// Additional CA certificates in PEM by registry, `host[:port]`. They are trusted only for that registry.
    pub cas: BTreeMap<String, String>,
    /// Proxies for requests; `None` uses the proxies from the environment.
    pub proxies: Option<Proxies>,
}

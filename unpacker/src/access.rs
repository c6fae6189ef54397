//! With what a source may be reached: credentials and trust.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use tracing::debug;

use crate::{
    job::chain,
    registry::{Credentials, Mirrors},
    web::{Patience, Proxies, printable},
};

/// Length of an error in the log, in characters.
const MAX_LOGGED: usize = 2000;

/// A password, a token or a key. It never shows in messages.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// The secret itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// A name and a password.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Basic {
    /// Who.
    pub username: String,
    /// With what.
    pub password: Secret,
}

impl Basic {
    /// The value of the `Authorization` header that carries it.
    pub fn authorization(&self) -> Secret {
        let pair = format!("{}:{}", self.username, self.password.reveal());
        Secret(format!("Basic {}", BASE64.encode(pair)))
    }
}

/// How ssh proves who we are, and who the server is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ssh {
    /// A private key as OpenSSH writes it, PKCS#8 or PEM: `ssh-privatekey` of a Secret. Of several, one behind the other,
    /// the first one that the server takes is used.
    pub key: Secret,
    /// What the key is encrypted with, if it is.
    pub passphrase: Option<Secret>,
    /// Lines as in `~/.ssh/known_hosts`: `ssh-knownhosts` of a Secret.
    pub known_hosts: String,
}

/// Whether servers must prove who they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Verify {
    /// They must, by a certificate (https) or a known key (ssh), and plain HTTP is refused where nothing asks for it.
    #[default]
    Always,
    /// They need not; plain HTTP is tried where https is not spoken.
    Never,
}

/// Whom to believe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Trust {
    /// Certificates of authorities in PEM, believed beside those of the system.
    pub roots: String,
    /// Whether servers must prove who they are.
    pub verify: Verify,
}

/// Decides whether errors repeat what a server says. A user on a local machine wants to read it. A program that asks for
/// other users must not: these could read answers of servers that only the program can reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Quotes {
    /// Errors repeat the beginning of a body, texts of git servers, targets of redirects and the like.
    #[default]
    Shown,
    /// Errors have what the author of the source wrote, the kind of problem and the remedy. They lose what the server
    /// chose:
    ///
    /// | withheld                                                         | kept                                             |
    /// | ---------------------------------------------------------------- | ------------------------------------------------ |
    /// | bodies, sideband texts and `ERR` lines of git, ssh banners       | the status: 401, 403, 404, 407, 408, 429 and 5xx |
    /// | the digest of a body that is not the pinned one                  | the URL and the pinned digest                    |
    /// | targets of redirects, URLs of token services, content types      | that the server redirects                        |
    /// | names of branches, tags and directories beside the requested one | the requested name                               |
    /// | names and dates in certificates                                  | the problem of the certificate                   |
    /// | values in manifests, indexes and configurations of images        | the label's name, the number of the layer        |
    ///
    /// The content of a bundle is not withheld: its author needs the paths and values that are invalid. Neither is the key
    /// of an unknown ssh host, which an admin has to compare and to add. Every error type matches all of its variants for
    /// this, so that a new one cannot be forgotten.
    Withheld,
}

impl Quotes {
    /// Removes remote texts from an error, unless the caller may repeat them. The log has the whole error at level debug.
    pub(crate) fn apply<T>(self, result: crate::Result<T>) -> crate::Result<T> {
        match (self, result) {
            (Self::Withheld, Err(error)) => {
                debug!(
                    error = printable(&chain(&error), MAX_LOGGED),
                    "failed to fetch a source"
                );
                Err(error.withheld())
            }
            (_, result) => result,
        }
    }
}

/// All that reaching a source may need. What a source has no use for is not looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// For git over https, and for http.
    pub basic: Option<Basic>,
    /// For git over ssh.
    pub ssh: Option<Ssh>,
    /// Whom to believe.
    pub trust: Trust,
    /// How long servers are waited for.
    pub patience: Patience,
    /// Whether errors repeat what servers say.
    pub quotes: Quotes,
    /// For registries.
    pub registries: Credentials,
    /// Where the content of registries may be had, and of which it may be had at all.
    pub mirrors: Mirrors,
    /// Certificates of authorities in PEM that are believed by a registry, `host[:port]`, and nowhere else.
    pub authorities: BTreeMap<String, String>,
    /// The proxies that requests go through; those that the environment names, if there are none here.
    pub proxies: Option<Proxies>,
}

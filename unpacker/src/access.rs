//! With what a source may be reached: credentials and trust.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use crate::{
    registry::{Credentials, Mirrors},
    web::{Patience, Proxies},
};

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

/// Whether a message quotes what a server says when it refuses. Who asks for himself wants to read it; who asks for
/// strangers must not show them the words of servers that only he can reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Quotes {
    /// The beginning of the body is quoted.
    #[default]
    Shown,
    /// Only the status is told.
    Withheld,
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
    /// Whether messages quote servers.
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

//! Trusted servers, and credentials for them.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

/// A password, token or key. It never appears in messages.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Returns the secret, for the code that sends it.
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

/// A user name and a password.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Basic {
    /// Name of the user.
    pub username: String,
    /// Password of the user.
    pub password: Secret,
}

impl Basic {
    /// Returns the value of the `Authorization` header with these credentials.
    pub fn authorization(&self) -> Secret {
        let pair = format!("{}:{}", self.username, self.password.reveal());
        Secret(format!("Basic {}", BASE64.encode(pair)))
    }
}

/// Credentials for ssh, and the known host keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ssh {
    /// Private key in the format of OpenSSH, in PKCS#8 or in PEM: `ssh-privatekey` of a Secret. If it contains
    /// several keys, the first one that the server accepts is used.
    pub key: Secret,
    /// Passphrase of the key; `None` if the key is not encrypted.
    pub passphrase: Option<Secret>,
    /// Lines in the format of `~/.ssh/known_hosts`: `ssh-knownhosts` of a Secret.
    pub known_hosts: String,
}

/// Verification of servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Verify {
    /// Servers are verified by a certificate (https) or a known host key (ssh). Plain HTTP is used only where it is
    /// requested.
    #[default]
    Always,
    /// Servers are not verified. Plain HTTP is used where a server does not support https.
    Never,
}

/// Trusted CAs, and the verification of servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Trust {
    /// CA certificates in PEM, trusted in addition to those of the system.
    pub roots: String,
    /// Whether servers are verified.
    pub verify: Verify,
}

/// Controls whether errors repeat texts of servers. A user on a local machine should see them. A program that sends
/// requests for other users must withhold them, because only the program may be able to reach these servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Quotes {
    /// Errors repeat texts of servers: the beginning of a body, messages of git servers, targets of redirects, and
    /// similar texts.
    #[default]
    Shown,
    /// Errors contain the input of the source's author, the kind of problem and the remedy. Texts that the server
    /// chose are removed:
    ///
    /// | removed                                                      | retained                                         |
    /// | ------------------------------------------------------------ | ------------------------------------------------ |
    /// | bodies, sideband texts and `ERR` lines of git, ssh banners   | the status: 401, 403, 404, 407, 408, 429 and 5xx |
    /// | the digest of a body that is not the pinned one              | the URL and the pinned digest                    |
    /// | targets of redirects, URLs of token services, content types  | the fact that the server redirects               |
    /// | names of other branches, tags and directories                | the requested name                               |
    /// | names and dates in certificates                              | the problem of the certificate                   |
    /// | values in manifests, indexes and configurations of images    | the label's name, the number of the layer        |
    ///
    /// The content of a bundle is not withheld, because its author needs the invalid paths and values. The key of an
    /// unknown ssh host is not withheld either, because an admin has to compare and add it. Every error type matches
    /// all of its variants for this purpose, so that a new variant cannot be forgotten.
    Withheld,
}

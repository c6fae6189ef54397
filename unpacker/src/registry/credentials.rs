//! Registry credentials in the formats of `docker login` and of pull secrets.
//!
//! ```
//! use unpacker::registry::Credentials;
//!
//! let json = r#"{"auths": {"quay.io/org": {"auth": "cm9ib3Q6c2VjcmV0"}}}"#;
//! let credentials = Credentials::from_docker_config(json.as_bytes())?;
//! assert!(credentials.names("quay.io", "org/bundle") && !credentials.names("quay.io", "else/bundle"));
//! # Ok::<(), unpacker::registry::credentials::Error>(())
//! ```

mod auth;
mod environment;
mod helper;
mod key;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tracing::warn;

use crate::trust::{Basic, Secret};
use auth::Auth;
use helper::HelperResult;
use key::Key;

/// Maximum size of a file or Secret with credentials, in bytes. It is the size limit of a Secret.
const MAX_CONFIG: usize = 1 << 20;

/// Credentials for any number of registries and repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Used in this order. The first one with an entry for a repository is used.
    configs: Vec<Config>,
}

/// A credential for one registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// A user name and a password.
    Basic(Basic),
    /// An identity token. The token service of the registry exchanges it for registry tokens.
    IdentityToken(Secret),
    /// A token for the registry itself.
    Token(Secret),
}

impl Credential {
    /// Describes the user for error messages, without a request to the registry.
    pub(crate) fn user(&self) -> String {
        match self {
            Self::Basic(basic) => format!("user {:?}", truncate(&basic.username)),
            Self::IdentityToken(_) => "an identity token".to_owned(),
            Self::Token(_) => "a registry token".to_owned(),
        }
    }
}

/// An error in registry credentials.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The credentials exceed the size limit of a Secret.
    #[error("the registry credentials are larger than {MAX_CONFIG} bytes; remove unused entries")]
    TooLarge,
    /// The credentials have neither of the two supported formats.
    #[error(
        "the registry credentials are not JSON as in ~/.docker/config.json (line {line}, column {column}); \
         create the pull secret with \"kubectl create secret docker-registry\""
    )]
    Json {
        /// Line of the syntax error, starting at 1.
        line: usize,
        /// Column of the syntax error, starting at 1.
        column: usize,
    },
    /// The entry of one registry is invalid.
    #[error(
        "the credentials for {key:?} {problem}; log in to that registry again, or replace the entry"
    )]
    Entry {
        /// Key of the entry, truncated to a readable length.
        key: String,
        /// Problem of the entry, as a continuation of the message.
        problem: &'static str,
    },
    /// A Secret names a credential helper. Helpers are programs on a user's machine.
    #[error(
        "the credentials for {registry} are stored by the program docker-credential-{helper}, which is not available \
         in the cluster; put user name and password into the pull secret: \"kubectl create secret docker-registry\""
    )]
    HelperInSecret {
        /// Registry that the credentials are for.
        registry: String,
        /// Credential helper, without the prefix `docker-credential-`.
        helper: String,
    },
    /// The name of a credential helper is invalid, because it could be a path.
    #[error(
        "invalid name of a credential helper: {helper:?}; use letters, digits, \".\", \"_\" and \"-\""
    )]
    HelperName {
        /// Configured name, truncated to a readable length.
        helper: String,
    },
    /// The credential helper failed.
    #[error(
        "docker-credential-{helper} returned no credentials for {registry}: it {problem}; run it manually, or log in \
         again"
    )]
    Helper {
        /// Registry that the credentials are for.
        registry: String,
        /// Credential helper, without the prefix `docker-credential-`.
        helper: String,
        /// Problem, as a continuation of the message.
        problem: String,
    },
    /// A credentials file of the user cannot be read.
    #[error(
        "failed to read the registry credentials in {path:?}; check that the file exists and is readable"
    )]
    Read {
        /// Path of the credentials file.
        path: std::path::PathBuf,
        /// Cause of the failure.
        #[source]
        source: std::io::Error,
    },
    /// The content of a credentials file of the user is invalid.
    #[error("invalid credentials file {path:?}")]
    File {
        /// Path of the credentials file.
        path: std::path::PathBuf,
        /// Problem of the content.
        #[source]
        source: Box<Error>,
    },
}

impl Error {
    /// Reports whether the same credentials always fail. Failures of a helper or of the disk are transient.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Helper { .. } | Self::Read { .. } => false,
            Self::File { source, .. } => source.is_terminal(),
            _ => true,
        }
    }
}

/// The content of one credentials file or Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Config {
    /// Entries by key. An invalid entry is an error only for the registry that it belongs to.
    auths: BTreeMap<Key, Result<Credential, InvalidEntry>>,
    helpers: BTreeMap<Key, String>,
    store: Option<String>,
    /// Whether credential helpers may run: they exist only on the machine of a user.
    allow_helpers: bool,
}

/// An invalid entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InvalidEntry {
    key: String,
    problem: &'static str,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: Option<BTreeMap<String, Value>>,
    #[serde(default, rename = "credHelpers")]
    helpers: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

// === impl Credentials ===

impl Credentials {
    /// Parses the data of a Secret of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`.
    ///
    /// # Errors
    /// Returns an error if the data has neither format. Invalid entries and helpers are rejected when a registry
    /// needs them.
    pub fn from_docker_config(json: &[u8]) -> Result<Self, Error> {
        Ok(Self {
            configs: vec![Config::parse(json)?],
        })
    }

    /// Reports whether the credentials contain an entry for a repository, or name a helper that may have one.
    pub fn names(&self, registry: &str, repository: &str) -> bool {
        let has_entry = |config: &Config| config.find(registry, repository).is_some();
        self.configs.iter().any(has_entry)
    }

    /// Passes to `visit` every string that determines the result of `find` for one repository. Helpers are not run;
    /// only their names are passed.
    pub(crate) fn each(&self, registry: &str, repository: &str, mut visit: impl FnMut(&str)) {
        for config in &self.configs {
            match config.find(registry, repository) {
                None => {}
                Some(CredentialLookup::Helper(helper) | CredentialLookup::Store(helper)) => {
                    ["helper", helper].into_iter().for_each(&mut visit);
                }
                Some(CredentialLookup::InvalidEntry(invalid)) => {
                    ["bad", invalid.problem].into_iter().for_each(&mut visit);
                }
                Some(CredentialLookup::Credential(credential)) => match credential {
                    Credential::Basic(basic) => ["basic", &basic.username, basic.password.reveal()]
                        .into_iter()
                        .for_each(&mut visit),
                    Credential::IdentityToken(secret) => {
                        ["identity", secret.reveal()]
                            .into_iter()
                            .for_each(&mut visit);
                    }
                    Credential::Token(secret) => {
                        ["token", secret.reveal()].into_iter().for_each(&mut visit);
                    }
                },
            }
        }
    }

    /// Returns the credentials for one repository. If several keys match, the most specific key is used.
    pub(crate) async fn find(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Credential>, Error> {
        for config in &self.configs {
            match config.find(registry, repository) {
                None => {}
                Some(CredentialLookup::Credential(credential)) => {
                    return Ok(Some(credential.clone()));
                }
                Some(CredentialLookup::InvalidEntry(InvalidEntry { key, problem })) => {
                    return Err(Error::Entry {
                        key: key.clone(),
                        problem,
                    });
                }
                Some(CredentialLookup::Helper(helper) | CredentialLookup::Store(helper))
                    if !config.allow_helpers =>
                {
                    return Err(Error::HelperInSecret {
                        registry: registry.to_owned(),
                        helper: truncate(helper),
                    });
                }
                // The helper may have no credentials for this registry, but the next file may.
                Some(CredentialLookup::Helper(helper)) => {
                    match helper::get(helper, registry).await? {
                        HelperResult::CredentialLookup(credential) => return Ok(Some(credential)),
                        HelperResult::NotFound => {}
                        HelperResult::HelperMissing(error) => return Err(error),
                    }
                }
                Some(CredentialLookup::Store(helper)) => match helper::get(helper, registry).await?
                {
                    HelperResult::CredentialLookup(credential) => return Ok(Some(credential)),
                    HelperResult::NotFound => {}
                    // The file may come from another machine, and most images are public.
                    HelperResult::HelperMissing(error) => {
                        warn!(%error, "continuing without credentials");
                    }
                },
            }
        }
        Ok(None)
    }
}

/// Concatenates credentials. The first ones take precedence.
impl FromIterator<Credentials> for Credentials {
    fn from_iter<I: IntoIterator<Item = Credentials>>(several: I) -> Self {
        let configs = several.into_iter().flat_map(|one| one.configs);
        Self {
            configs: configs.collect(),
        }
    }
}

// === impl Config ===

enum CredentialLookup<'a> {
    Credential(&'a Credential),
    InvalidEntry(&'a InvalidEntry),
    /// A helper for exactly this registry.
    Helper(&'a str),
    /// A helper for all registries.
    Store(&'a str),
}

impl Config {
    fn parse(json: &[u8]) -> Result<Self, Error> {
        if json.len() > MAX_CONFIG {
            return Err(Error::TooLarge);
        }
        let not_json = |error: &serde_json::Error| Error::Json {
            line: error.line(),
            column: error.column(),
        };
        // Editors on Windows write a BOM.
        let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
        let config: DockerConfig = serde_json::from_slice(json).map_err(|e| not_json(&e))?;
        let mut parsed = Self {
            store: config.store.filter(|store| !store.is_empty()),
            ..Self::default()
        };
        for (key, helper) in config.helpers.unwrap_or_default() {
            if let Some(key) = parse_key(&key) {
                parsed.helpers.insert(key, helper);
            }
        }
        let auths = if let Some(auths) = config.auths {
            auths
        } else if parsed.helpers.is_empty() && parsed.store.is_none() {
            // The older format has the entries at the top level. Other fields of a Docker configuration are not
            // entries.
            let mut entries: BTreeMap<String, Value> =
                serde_json::from_slice(json).map_err(|e| not_json(&e))?;
            entries.retain(|_, entry| Auth::deserialize(&*entry).is_ok());
            entries
        } else {
            BTreeMap::new()
        };
        for (name, auth) in auths {
            let Some(key) = parse_key(&name) else {
                continue;
            };
            let credential = match serde_json::from_value::<Option<Auth>>(auth) {
                Ok(auth) => auth.unwrap_or_default().credential(),
                Err(_) => Err("have fields that are not strings"),
            };
            // Docker leaves an empty entry if a helper stores the password.
            if let Some(credential) = credential.transpose() {
                let bad = |problem| InvalidEntry {
                    key: truncate(&name),
                    problem,
                };
                parsed.auths.insert(key, credential.map_err(bad));
            }
        }
        Ok(parsed)
    }

    fn find(&self, registry: &str, repository: &str) -> Option<CredentialLookup<'_>> {
        let best = |keys: &mut dyn Iterator<Item = &'_ Key>| {
            keys.filter_map(|key| Some((key.matches(registry, repository)?, key.clone())))
                .max()
                .map(|(_, key)| key)
        };
        // Precedence of Docker and Podman: settings for this registry come before settings for all registries.
        if let Some(helper) = best(&mut self.helpers.keys()).and_then(|k| self.helpers.get(&k)) {
            return Some(CredentialLookup::Helper(helper));
        }
        if let Some(found) = best(&mut self.auths.keys()).and_then(|k| self.auths.get(&k)) {
            return Some(match found {
                Ok(credential) => CredentialLookup::Credential(credential),
                Err(bad) => CredentialLookup::InvalidEntry(bad),
            });
        }
        self.store.as_deref().map(CredentialLookup::Store)
    }
}

/// Parses the key of an entry. A key that names no registry is ignored, and the other entries are used.
fn parse_key(key: &str) -> Option<Key> {
    let found = Key::parse(key);
    if found.is_none() {
        // The key may contain a user name and a password, so it is not logged.
        warn!("ignored credentials whose key is not a registry");
    }
    found
}

/// Truncates a text to a length that is readable in a message.
fn truncate(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;

//! Who we are to which registry, as `docker login` and pull secrets write it.
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

use crate::access::{Basic, Secret};
use auth::Auth;
use helper::Asked;
use key::Key;

/// What a file or Secret with credentials may have in bytes: the same as a whole Secret.
const MAX_CONFIG: usize = 1 << 20;

/// Credentials for any number of registries and repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The first one that knows something about a repository is asked, and no other.
    configs: Vec<Config>,
}

/// What proves to a registry who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// A name and a password.
    Basic(Basic),
    /// What the registry's token service exchanges for tokens.
    Identity(Secret),
    /// A token for the registry itself.
    Token(Secret),
}

impl Credential {
    /// Whom the registry will take us for, as far as that is known without asking.
    pub(crate) fn user(&self) -> String {
        match self {
            Self::Basic(basic) => format!("user {:?}", cut(&basic.username)),
            Self::Identity(_) => "an identity token".to_owned(),
            Self::Token(_) => "a registry token".to_owned(),
        }
    }
}

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Larger than any Secret can be.
    #[error(
        "the registry credentials are larger than {MAX_CONFIG} bytes; keep only what is needed"
    )]
    TooLarge,
    /// Neither of the two formats.
    #[error(
        "the registry credentials are not JSON as in ~/.docker/config.json (line {line}, column {column}); \
         create the pull secret with \"kubectl create secret docker-registry\""
    )]
    Json {
        /// Where, from 1.
        line: usize,
        /// Where, from 1.
        column: usize,
    },
    /// One registry's entry.
    #[error(
        "the credentials for {key:?} {problem}; log in to that registry again, or write the entry anew"
    )]
    Entry {
        /// As written, cut to a readable length.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A program of the user's machine, in a Secret.
    #[error(
        "the credentials for {registry} are kept by the program docker-credential-{helper}, which is not in the cluster; \
         put name and password into the pull secret: \"kubectl create secret docker-registry\""
    )]
    HelperInSecret {
        /// For which registry.
        registry: String,
        /// Which program.
        helper: String,
    },
    /// A name that could be a path.
    #[error(
        "{helper:?} cannot be the name of a credential helper; write letters, digits, \".\", \"_\" and \"-\""
    )]
    HelperName {
        /// As written, cut to a readable length.
        helper: String,
    },
    /// The program did not do its job.
    #[error(
        "docker-credential-{helper} gave no credentials for {registry}: it {problem}; try it by hand, or log in again"
    )]
    Helper {
        /// For which registry.
        registry: String,
        /// Which program.
        helper: String,
        /// What went wrong.
        problem: String,
    },
    /// A file of the user's.
    #[error(
        "failed to read the registry credentials in {path:?}; check that the file exists and may be read"
    )]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The contents of a file of the user's.
    #[error("{path:?} cannot be used")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: Box<Error>,
    },
}

impl Error {
    /// Whether the same credentials fail again: all but what a program or the disk may do better next time.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Helper { .. } | Self::Read { .. } => false,
            Self::File { source, .. } => source.is_terminal(),
            _ => true,
        }
    }
}

/// One file or Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Config {
    /// One that makes no sense is a problem only for those whom it is for.
    auths: BTreeMap<Key, Result<Credential, Bad>>,
    helpers: BTreeMap<Key, String>,
    store: Option<String>,
    /// Whether helpers may be run: they are programs of the user's machine.
    runs_helpers: bool,
}

/// An entry that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bad {
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
    /// Reads what a Secret of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg` holds.
    ///
    /// # Errors
    /// When it is neither. Entries that make no sense, and helpers, are refused as soon as one would be needed.
    pub fn from_docker_config(json: &[u8]) -> Result<Self, Error> {
        Ok(Self {
            configs: vec![Config::parse(json)?],
        })
    }

    /// Whether these hold anything for a repository, or name a program that may.
    pub fn names(&self, registry: &str, repository: &str) -> bool {
        let knows = |config: &Config| config.find(registry, repository).is_some();
        self.configs.iter().any(knows)
    }

    /// All texts that `find` could answer with for one repository, or run to have an answer, as far as they are known
    /// without running anything.
    pub(crate) fn each(&self, registry: &str, repository: &str, mut tell: impl FnMut(&str)) {
        for config in &self.configs {
            match config.find(registry, repository) {
                None => {}
                Some(Found::Helper(helper) | Found::Store(helper)) => {
                    ["helper", helper].into_iter().for_each(&mut tell);
                }
                Some(Found::Bad(bad)) => ["bad", bad.problem].into_iter().for_each(&mut tell),
                Some(Found::Credential(credential)) => match credential {
                    Credential::Basic(basic) => ["basic", &basic.username, basic.password.reveal()]
                        .into_iter()
                        .for_each(&mut tell),
                    Credential::Identity(secret) => {
                        ["identity", secret.reveal()]
                            .into_iter()
                            .for_each(&mut tell);
                    }
                    Credential::Token(secret) => {
                        ["token", secret.reveal()].into_iter().for_each(&mut tell);
                    }
                },
            }
        }
    }

    /// The credentials for one repository: those whose key matches the most of it.
    pub(crate) async fn find(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Credential>, Error> {
        for config in &self.configs {
            match config.find(registry, repository) {
                None => {}
                Some(Found::Credential(credential)) => return Ok(Some(credential.clone())),
                Some(Found::Bad(Bad { key, problem })) => {
                    return Err(Error::Entry {
                        key: key.clone(),
                        problem,
                    });
                }
                Some(Found::Helper(helper) | Found::Store(helper)) if !config.runs_helpers => {
                    return Err(Error::HelperInSecret {
                        registry: registry.to_owned(),
                        helper: cut(helper),
                    });
                }
                // The program may know nothing about this registry; another file still may.
                Some(Found::Helper(helper)) => match helper::get(helper, registry).await? {
                    Asked::Known(credential) => return Ok(Some(credential)),
                    Asked::Unknown => {}
                    Asked::Missing(error) => return Err(error),
                },
                Some(Found::Store(helper)) => match helper::get(helper, registry).await? {
                    Asked::Known(credential) => return Ok(Some(credential)),
                    Asked::Unknown => {}
                    // The file may come from another machine, and most images are for everybody.
                    Asked::Missing(error) => warn!(%error, "doing without credentials"),
                },
            }
        }
        Ok(None)
    }
}

/// Of several the first ones are asked first.
impl FromIterator<Credentials> for Credentials {
    fn from_iter<I: IntoIterator<Item = Credentials>>(several: I) -> Self {
        let configs = several.into_iter().flat_map(|one| one.configs);
        Self {
            configs: configs.collect(),
        }
    }
}

// === impl Config ===

enum Found<'a> {
    Credential(&'a Credential),
    Bad(&'a Bad),
    /// A program for this very registry.
    Helper(&'a str),
    /// A program for all registries.
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
        // A BOM is what editors on Windows leave behind.
        let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
        let config: DockerConfig = serde_json::from_slice(json).map_err(|e| not_json(&e))?;
        let mut parsed = Self {
            store: config.store.filter(|store| !store.is_empty()),
            ..Self::default()
        };
        for (key, helper) in config.helpers.unwrap_or_default() {
            if let Some(key) = usable(&key) {
                parsed.helpers.insert(key, helper);
            }
        }
        let auths = if let Some(auths) = config.auths {
            auths
        } else if parsed.helpers.is_empty() && parsed.store.is_none() {
            // The older format has the entries at the top; what else the file of a docker client has is no entry.
            let mut entries: BTreeMap<String, Value> =
                serde_json::from_slice(json).map_err(|e| not_json(&e))?;
            entries.retain(|_, entry| Auth::deserialize(&*entry).is_ok());
            entries
        } else {
            BTreeMap::new()
        };
        for (name, auth) in auths {
            let Some(key) = usable(&name) else { continue };
            let credential = match serde_json::from_value::<Option<Auth>>(auth) {
                Ok(auth) => auth.unwrap_or_default().credential(),
                Err(_) => Err("have fields that are no text"),
            };
            // Docker leaves an empty entry behind when a helper keeps the password.
            if let Some(credential) = credential.transpose() {
                let bad = |problem| Bad {
                    key: cut(&name),
                    problem,
                };
                parsed.auths.insert(key, credential.map_err(bad));
            }
        }
        Ok(parsed)
    }

    fn find(&self, registry: &str, repository: &str) -> Option<Found<'_>> {
        let best = |keys: &mut dyn Iterator<Item = &'_ Key>| {
            keys.filter_map(|key| Some((key.matches(registry, repository)?, key.clone())))
                .max()
                .map(|(_, key)| key)
        };
        // As docker and podman do: what is made for this registry goes before what is for all.
        if let Some(helper) = best(&mut self.helpers.keys()).and_then(|k| self.helpers.get(&k)) {
            return Some(Found::Helper(helper));
        }
        if let Some(found) = best(&mut self.auths.keys()).and_then(|k| self.auths.get(&k)) {
            return Some(match found {
                Ok(credential) => Found::Credential(credential),
                Err(bad) => Found::Bad(bad),
            });
        }
        self.store.as_deref().map(Found::Store)
    }
}

/// What names no registry is for none, and no reason to do without the rest.
fn usable(key: &str) -> Option<Key> {
    let found = Key::parse(key);
    if found.is_none() {
        // It may be a name and a password.
        warn!("credentials whose key names no registry are not used");
    }
    found
}

/// Short enough for a message.
fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;

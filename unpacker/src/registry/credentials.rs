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

mod environment;
mod helper;
mod key;

use std::collections::BTreeMap;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;

use crate::access::{Basic, Secret};
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
    auths: BTreeMap<Key, Credential>,
    helpers: BTreeMap<Key, String>,
    store: Option<String>,
    /// Whether helpers may be run: they are programs of the user's machine.
    runs_helpers: bool,
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: Option<BTreeMap<String, Auth>>,
    #[serde(default, rename = "credHelpers")]
    helpers: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

#[derive(Deserialize)]
struct Auth {
    /// Name, colon and password in base64.
    #[serde(default, rename = "auth")]
    basic: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default, rename = "identitytoken")]
    identity: String,
    #[serde(default, rename = "registrytoken")]
    token: String,
}

// === impl Credentials ===

impl Credentials {
    /// Reads what a Secret of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg` holds.
    ///
    /// # Errors
    /// When it is neither, or an entry makes no sense. Helpers are refused as soon as one would be needed.
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
                Some(Found::Helper(helper)) => ["helper", helper].into_iter().for_each(&mut tell),
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
                Some(Found::Helper(helper)) if !config.runs_helpers => {
                    return Err(Error::HelperInSecret {
                        registry: registry.to_owned(),
                        helper: cut(helper),
                    });
                }
                Some(Found::Helper(helper)) => {
                    // The program may know nothing about this registry; another file still may.
                    if let Some(credential) = helper::get(helper, registry).await? {
                        return Ok(Some(credential));
                    }
                }
            }
        }
        Ok(None)
    }
}

// === impl Config ===

enum Found<'a> {
    Credential(&'a Credential),
    Helper(&'a str),
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
            parsed.helpers.insert(Key::parse(&key)?, helper);
        }
        let auths = if let Some(auths) = config.auths {
            auths
        } else if parsed.helpers.is_empty() && parsed.store.is_none() {
            // The older format has the entries at the top; what else the file of a docker client has is no entry.
            let entries: BTreeMap<String, serde_json::Value> =
                serde_json::from_slice(json).map_err(|e| not_json(&e))?;
            let entry = |(key, value)| Some((key, serde_json::from_value(value).ok()?));
            entries.into_iter().filter_map(entry).collect()
        } else {
            BTreeMap::new()
        };
        for (name, auth) in auths {
            let key = Key::parse(&name)?;
            // Docker leaves an empty entry behind when a helper keeps the password.
            if let Some(credential) = auth.credential(&name)? {
                parsed.auths.insert(key, credential);
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
            return Some(Found::Credential(found));
        }
        self.store.as_deref().map(Found::Helper)
    }
}

impl Auth {
    fn credential(self, key: &str) -> Result<Option<Credential>, Error> {
        let fail = |problem| Error::Entry {
            key: cut(key),
            problem,
        };
        let (username, password) = if self.basic.is_empty() {
            (self.username, self.password)
        } else {
            let bytes = BASE64.decode(self.basic.trim_end().as_bytes());
            let bytes = bytes.map_err(|_| fail("have an \"auth\" that is not base64"))?;
            let text =
                String::from_utf8(bytes).map_err(|_| fail("have an \"auth\" that is not text"))?;
            let (username, password) = text
                .split_once(':')
                .ok_or_else(|| fail("have an \"auth\" without the \":\" after the name"))?;
            (
                username.to_owned(),
                password.trim_end_matches('\0').to_owned(),
            )
        };
        if [&username, &password, &self.identity, &self.token]
            .iter()
            .any(|text| text.chars().any(char::is_control))
        {
            return Err(fail("contain line breaks or other control characters"));
        }
        Ok(if !self.token.is_empty() {
            Some(Credential::Token(self.token.into()))
        } else if !self.identity.is_empty() {
            Some(Credential::Identity(self.identity.into()))
        } else if username.is_empty() && password.is_empty() {
            None
        } else if username.contains(':') {
            return Err(fail("have a name with a \":\" in it"));
        } else {
            Some(Credential::Basic(Basic {
                username,
                password: password.into(),
            }))
        })
    }
}

/// Padded or not: both are found in the wild.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Short enough for a message.
fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;

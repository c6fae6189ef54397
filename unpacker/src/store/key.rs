//! By what a source is known that has been fetched before.

use sha2::{Digest as _, Sha256};

use crate::{
    Access, Digest, Options, Selection, Source,
    source::{Image, Revision},
};

/// What a fetched source is known by: the source in a form that can never mean anything else, what was taken of it,
/// and the credentials that it may have been fetched with. So content that one tenant's secret opened is not given to
/// another who names the same digest without a secret, or with another one: he has to be let in himself.
///
/// It is a hash that begins with random bytes, which a store makes when it is new and which never leave it. So a key,
/// which shows in file names, tells nothing about a secret, not even whether one was guessed right, and the keys of
/// two stores cannot be compared. Trust is no part of it: what is pinned is the same from whomever it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(Digest);

impl Key {
    /// None for what may change or is not to be had: a tag, a branch, a file on this machine, a URL without a digest,
    /// a registry that is blocked.
    pub(super) fn new(
        salt: &[u8],
        source: &Source,
        options: &Options,
        access: &Access,
    ) -> Option<Self> {
        let is_pinned = match source {
            Source::Image(image) => image.reference.is_pinned(),
            Source::Git(git) => matches!(git.revision, Revision::Commit(_)),
            Source::Http(http) => http.sha256.is_some(),
            Source::Local(_) => return None,
        };
        let key = Self::of(salt, source, options, access);
        key.filter(|_| is_pinned)
    }

    /// What is asked for, pinned or not. None for what must always be asked for itself.
    pub(super) fn of(
        salt: &[u8],
        source: &Source,
        options: &Options,
        access: &Access,
    ) -> Option<Self> {
        let mut fields = Fields::new(salt);
        // Sources that were noted before their entries had to be regular files are fetched once more.
        fields.add("regular");
        fields.source(source);
        match &options.select {
            Selection::Natural => fields.add("natural"),
            Selection::All => fields.add("all"),
            Selection::Only(only) => {
                fields.add("only");
                fields.add(&only.len().to_string());
                for path in only {
                    fields.add(path);
                }
            }
        }
        fields.credentials(source, access)?;
        Some(Self(fields.0.into()))
    }

    pub(super) fn hex(&self) -> String {
        self.0.hex()
    }
}

/// A hash over texts, each with its length, so that no two lists of texts are the same bytes.
struct Fields(Sha256);

impl Fields {
    fn new(salt: &[u8]) -> Self {
        Self(Sha256::new_with_prefix(salt))
    }

    fn add(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
    }

    fn source(&mut self, source: &Source) {
        match source {
            // The tag says nothing where there is a digest.
            Source::Image(Image {
                reference,
                platform,
            }) => {
                self.add("image");
                self.add(reference.domain());
                self.add(reference.path());
                self.add(reference.digest().unwrap_or_default());
                self.add(platform.as_deref().unwrap_or_default());
            }
            // What is displayed lacks the query, which may choose between archives.
            Source::Http(http) => {
                self.add("http");
                self.add(http.url.as_str());
                self.add(
                    &http
                        .sha256
                        .map_or_else(String::new, |digest| digest.to_string()),
                );
            }
            other => self.add(&other.to_string()),
        }
    }

    /// Those that this source would be fetched with, and no others: a tenant's new password for one registry does not
    /// concern what he has from another one.
    fn credentials(&mut self, source: &Source, access: &Access) -> Option<()> {
        let basic = match source {
            Source::Image(image) => {
                for place in access.mirrors.places(&image.reference).ok()? {
                    let mut is_first = true;
                    access
                        .registries
                        .each(&place.registry, &place.repository, |text| {
                            if is_first {
                                is_first = false;
                                self.add(&place.to_string());
                            }
                            self.add(text);
                        });
                }
                None
            }
            Source::Git(git) if git.repository.scheme() == "ssh" => {
                if let Some(ssh) = &access.ssh {
                    self.add("ssh");
                    self.add(ssh.key.reveal());
                    let passphrase = ssh.passphrase.as_ref();
                    self.add(passphrase.map_or("", |passphrase| passphrase.reveal()));
                }
                None
            }
            Source::Git(_) | Source::Http(_) => access.basic.as_ref(),
            Source::Local(_) => return None,
        };
        if let Some(basic) = basic {
            self.add("basic");
            self.add(&basic.username);
            self.add(basic.password.reveal());
        }
        Some(())
    }
}

//! Keys of the source index.

use sha2::{Digest as _, Sha256};

use crate::{
    Access, Digest, Options, Selection, Source,
    source::{Image, Revision},
};

/// The key of a fetched source: a hash of the pinned source, the selection, and the credentials that may be used for
/// the fetch. Content that was fetched with the secret of one tenant is therefore not returned to another tenant with
/// a different secret or none. That tenant has to authenticate to the source.
///
/// The hash starts with random bytes, which a store creates once and never discloses. Therefore a key, which is
/// visible in file names, reveals nothing about a secret, not even whether a guess is right. Keys of different stores
/// cannot be compared. Trust settings are not part of the key, because pinned content is the same from every server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceKey(Digest);

impl SourceKey {
    /// Returns the key of a pinned source. Returns `None` for a tag, a branch, a local file, a URL without a digest,
    /// or an image from a blocked registry.
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
        let key = Self::for_request(salt, source, options, access);
        key.filter(|_| is_pinned)
    }

    /// Returns the key of a request, pinned or not. Returns `None` if the request must not be shared with others.
    pub(super) fn for_request(
        salt: &[u8],
        source: &Source,
        options: &Options,
        access: &Access,
    ) -> Option<Self> {
        let mut fields = Fields::new(salt);
        // This field changed the keys when entries had to be regular files, so that older records are not found.
        fields.add("regular");
        fields.source(source);
        match &options.select {
            Selection::Default => fields.add("natural"),
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

/// A hash over a list of texts. The length of each text is included, so that different lists are different bytes.
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
            // With a digest, the tag has no meaning.
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
            // The display form lacks the query, which may select the archive.
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

    /// Adds the credentials that a fetch of this source uses, and no others. A changed password for one registry does
    /// not affect the content from other registries.
    fn credentials(&mut self, source: &Source, access: &Access) -> Option<()> {
        let basic = match source {
            Source::Image(image) => {
                for endpoint in access.mirrors.endpoints(&image.reference).ok()? {
                    let mut is_first = true;
                    access
                        .registries
                        .each(&endpoint.registry, &endpoint.repository, |text| {
                            if is_first {
                                is_first = false;
                                self.add(&endpoint.to_string());
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

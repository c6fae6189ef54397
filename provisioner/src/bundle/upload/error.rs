//! Why an upload cannot be kept or had back.

use std::io;

use super::LIMIT;

/// The reason why an upload cannot be kept or had back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is too large for the cluster, and the store does not last.
    #[error(
        "the upload for Bundle {bundle} has more than {LIMIT} bytes when compressed, which is what the cluster keeps; \
         reduce it, use another source (image, git, http), or give the provisioner a persistent volume and start it \
         with --persistent-storage"
    )]
    TooLarge {
        /// Whose.
        bundle: String,
    },
    /// A ConfigMap of that name belongs to somebody else.
    #[error(
        "ConfigMap {namespace}/{name} is in the way and does not belong to a Bundle; rename or delete it, and upload again"
    )]
    Foreign {
        /// Where.
        namespace: String,
        /// Which.
        name: String,
    },
    /// Two uploads at the same time.
    #[error("somebody else uploads content for Bundle {bundle} at the same time; upload again")]
    Race {
        /// Whose.
        bundle: String,
    },
    /// A digest that the schema of today does not accept.
    #[error(
        "spec.source.upload.digest of Bundle {bundle} is invalid; create a Bundle with the digest that \"rukpak unpack\" prints"
    )]
    InvalidDigest {
        /// Name of the Bundle.
        bundle: String,
        /// Error of the parser.
        source: unpacker::NotADigest,
    },
    /// Other content than the Bundle accepts.
    #[error(
        "the upload for Bundle {bundle} has the digest {found}, and the Bundle accepts only {expected} \
         (spec.source.upload.digest, or status.contentDigest once it was unpacked); upload that content, or create a \
         Bundle for this one"
    )]
    Unexpected {
        /// Name of the Bundle.
        bundle: String,
        /// Digest of the Bundle's spec or status.
        expected: unpacker::Digest,
        /// Digest of the upload.
        found: unpacker::Digest,
    },
    /// What is in the cluster is not what was put there.
    #[error("the upload for Bundle {bundle} is damaged ({problem}); upload the content again")]
    Damaged {
        /// Whose.
        bundle: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The upload was too large for the cluster, and the store has lost it.
    #[error(
        "the upload for Bundle {bundle} is gone from the store, which was its only place; upload the content again"
    )]
    Lost {
        /// Whose.
        bundle: String,
    },
    /// The store does not do what it should.
    #[error("failed to use the store for the upload of Bundle {bundle}")]
    Store {
        /// Whose.
        bundle: String,
        /// Why.
        source: unpacker::store::Error,
    },
    /// The API server does not do what it should.
    #[error("failed to {doing}")]
    Api {
        /// What it was asked.
        doing: String,
        /// What it said.
        source: Box<kube::Error>,
    },
    /// The API server does not answer.
    #[error("the apiserver did not answer in time, asked to {doing}")]
    Silent {
        /// What it was asked.
        doing: String,
    },
    /// The archive could not be compressed.
    #[error("failed to compress the upload for Bundle {bundle}")]
    Pack {
        /// Whose.
        bundle: String,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// Reports whether trying again, without another upload, is of no use.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::TooLarge { .. }
            | Self::Foreign { .. }
            | Self::InvalidDigest { .. }
            | Self::Unexpected { .. }
            | Self::Damaged { .. }
            | Self::Lost { .. } => true,
            Self::Race { .. }
            | Self::Store { .. }
            | Self::Api { .. }
            | Self::Silent { .. }
            | Self::Pack { .. } => false,
        }
    }
}

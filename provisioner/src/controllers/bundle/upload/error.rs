//! Errors of persisting and restoring uploads.

use std::io;

use super::LIMIT;

/// Reason why an upload cannot be persisted or restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The upload is too large for the cluster, and the store is not persistent.
    #[error(
        "the upload for Bundle {bundle} has more than {LIMIT} bytes when compressed, the maximum in the cluster; \
         reduce it, use another source (image, git, http), or give the provisioner a persistent volume and start it \
         with --persistent-storage"
    )]
    TooLarge {
        /// Name of the Bundle.
        bundle: String,
    },
    /// A ConfigMap of the same name has another owner.
    #[error(
        "ConfigMap {namespace}/{name} already exists and does not belong to a Bundle; rename or delete it, and upload \
         again"
    )]
    Foreign {
        /// Namespace of the ConfigMap.
        namespace: String,
        /// Name of the ConfigMap.
        name: String,
    },
    /// Two uploads for one Bundle at the same time.
    #[error("another upload for Bundle {bundle} is in progress; retry")]
    ConcurrentUpload {
        /// Name of the Bundle.
        bundle: String,
    },
    /// A digest that the current schema does not accept.
    #[error(
        "spec.source.upload.digest of Bundle {bundle} is invalid; create a Bundle with the digest that \"rukpak unpack\" prints"
    )]
    InvalidDigest {
        /// Name of the Bundle.
        bundle: String,
        /// Error of the parser.
        source: unpacker::ParseDigestError,
    },
    /// The content differs from the content that the Bundle accepts.
    #[error(
        "the upload for Bundle {bundle} has digest {found}, but the Bundle accepts only {expected} \
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
    /// The ConfigMaps of the upload are incomplete or corrupt.
    #[error("the upload for Bundle {bundle} is corrupt ({problem}); upload the content again")]
    Damaged {
        /// Name of the Bundle.
        bundle: String,
        /// Problem of the ConfigMaps.
        problem: String,
    },
    /// The upload was too large for the cluster, and the store has lost it.
    #[error(
        "the content store lost the upload of Bundle {bundle}, and the cluster has no copy; upload it again"
    )]
    StoreLost {
        /// Name of the Bundle.
        bundle: String,
    },
    /// The content store failed.
    #[error("failed to read or write the upload of Bundle {bundle} in the content store")]
    Store {
        /// Name of the Bundle.
        bundle: String,
        /// Error of the content store.
        source: unpacker::store::Error,
    },
    /// A request to the API server failed.
    #[error("failed to {doing}")]
    Api {
        /// Verb and object of the request, for the message.
        doing: String,
        /// Failure of the request.
        source: Box<kube::Error>,
    },
    /// The API server did not respond in time.
    #[error("failed to {doing}: the API server did not respond in time")]
    Timeout {
        /// Verb and object of the request, for the message.
        doing: String,
    },
    /// The archive could not be compressed.
    #[error("failed to compress the upload for Bundle {bundle}")]
    Pack {
        /// Name of the Bundle.
        bundle: String,
        /// Error of the compression.
        source: io::Error,
    },
}

impl Error {
    /// Reports whether a retry is pointless without another upload.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::TooLarge { .. }
            | Self::Foreign { .. }
            | Self::InvalidDigest { .. }
            | Self::Unexpected { .. }
            | Self::Damaged { .. }
            | Self::StoreLost { .. } => true,
            Self::ConcurrentUpload { .. }
            | Self::Store { .. }
            | Self::Api { .. }
            | Self::Timeout { .. }
            | Self::Pack { .. } => false,
        }
    }
}

//! Why content is not taken.

use std::time::Duration;

use http::{HeaderName, StatusCode};

use super::{BadClaim, Problem};
use crate::{Digest, Error, job::chain, store};

/// Why content is not taken, in words for whoever sent it.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It says itself that it is something else.
    #[error("the upload is {found}; send a tar.gz with Content-Type: application/gzip")]
    Media {
        /// What it says.
        found: String,
    },
    /// Something else than gzip comes.
    #[error("the upload is not compressed with gzip; pack the bundle with \"tar czf\"")]
    NotGzip,
    /// The sender announces more than is allowed.
    #[error("the upload has {size} bytes, and the limit is {limit}; reduce it or raise --max-size")]
    TooLong {
        /// As announced.
        size: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The archive cannot be taken.
    #[error(transparent)]
    Archive(Error),
    /// The archive is well formed, and there is nothing in it that is taken.
    #[error("there are no files in the upload; pack the folder with the bundle's manifests")]
    Empty,
    /// A claim is not well formed.
    #[error(transparent)]
    BadClaim(#[from] BadClaim),
    /// A claim is not there.
    #[error("the upload ends without {name}; send it as a trailer, and announce that in Trailer")]
    NoClaim {
        /// The trailer.
        name: HeaderName,
    },
    /// A claim is not true.
    #[error("{name} says {claimed}, and {found} is what came; send it again from the start")]
    WrongClaim {
        /// The header or trailer.
        name: HeaderName,
        /// What it says.
        claimed: String,
        /// What is true.
        found: String,
    },
    /// Other content than the receiver expects.
    #[error(
        "the content has the digest {found}, and the Bundle accepts only {expected} \
         (spec.source.upload.digest, or status.contentDigest once it was unpacked); send that content, or create a Bundle \
         for this one"
    )]
    Unexpected {
        /// Digest of the Bundle's spec or status.
        expected: Digest,
        /// Digest of the received content.
        found: Digest,
    },
    /// The connection ended before the body.
    #[error("the upload broke off; send it again from the start")]
    Broken {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing comes any more.
    #[error("nothing came for {after:?}; send it again from the start")]
    Stalled {
        /// How long that was waited for.
        after: Duration,
    },
    /// It comes for ever.
    #[error("the upload was not complete after {after:?}; send it again over a faster connection")]
    Late {
        /// How long it may take.
        after: Duration,
    },
    /// The content is fine, and cannot be kept.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Our own fault.
    #[error("the upload could not be worked on; see the log of the receiver")]
    Failed,
}

impl Refusal {
    /// The status of the answer: below 500 the sender is at fault, and from 500 on the receiver is, so that trying
    /// again may help. 408 is both.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Media { .. } | Self::NotGzip => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Archive(Error::Spool { source, .. })
                if source.kind() == std::io::ErrorKind::StorageFull =>
            {
                StatusCode::INSUFFICIENT_STORAGE
            }
            Self::Archive(Error::Empty | Error::Truncated { .. }) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Archive(error) if !error.is_terminal() => StatusCode::SERVICE_UNAVAILABLE,
            Self::Archive(error) if error.reason() == "LimitExceeded" => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::Archive(_) | Self::Empty | Self::WrongClaim { .. } | Self::Unexpected { .. } => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::BadClaim(_) | Self::NoClaim { .. } | Self::Broken { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::Stalled { .. } | Self::Late { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Store(error) if error.reason() == "StoreFull" => StatusCode::INSUFFICIENT_STORAGE,
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The kind of refusal in one word, for answers, conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Media { .. } => "UnsupportedMediaType",
            Self::NotGzip => "NotGzip",
            Self::TooLong { .. } => "LimitExceeded",
            Self::Archive(error) => error.reason(),
            Self::Empty => "NothingUploaded",
            Self::BadClaim(_) => "InvalidClaim",
            Self::NoClaim { .. } => "ClaimMissing",
            Self::WrongClaim { name, .. } if *name == super::BODY_DIGEST => "BodyDigestMismatch",
            Self::WrongClaim { name, .. } if *name == super::CONTENT_SIZE => "SizeMismatch",
            Self::WrongClaim { .. } | Self::Unexpected { .. } => "DigestMismatch",
            Self::Broken { .. } => "UploadBroken",
            Self::Stalled { .. } => "UploadStalled",
            Self::Late { .. } => "UploadTooSlow",
            Self::Store(error) => error.reason(),
            Self::Failed => "UploadFailed",
        }
    }

    /// What the answer says. What goes wrong on our own disks is not told to strangers in full.
    pub fn problem(&self) -> Problem {
        let message = if self.status().is_server_error() {
            self.to_string()
        } else {
            chain(self)
        };
        Problem {
            reason: self.reason().to_owned(),
            message,
        }
    }
}

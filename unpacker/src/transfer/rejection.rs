//! Errors of rejected or failed uploads.

use std::time::Duration;

use http::{HeaderName, StatusCode};

use super::{InvalidHeader, Problem};
use manifests::error::chain;

use crate::{Digest, Error, store};

/// The reason why content was not stored, with a message for the sender.
#[derive(Debug, thiserror::Error)]
pub enum Rejection {
    /// The headers declare another media type.
    #[error("the upload is {found}; send a tar.gz with Content-Type: application/gzip")]
    Media {
        /// Declared media type.
        found: String,
    },
    /// The body is not compressed with gzip.
    #[error("the upload is not compressed with gzip; pack the bundle with \"tar czf\"")]
    NotGzip,
    /// The declared length exceeds the limit.
    #[error(
        "the upload has {size} bytes, more than the limit of {limit}; reduce it or raise --max-size"
    )]
    TooLong {
        /// Declared length in bytes.
        size: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The archive was rejected or cannot be read.
    #[error(transparent)]
    Archive(Error),
    /// The archive contains no files.
    #[error("the upload contains no files; pack the directory with the bundle's manifests")]
    Empty,
    /// A claim is malformed.
    #[error(transparent)]
    BadClaim(#[from] InvalidHeader),
    /// A required claim is missing.
    #[error(
        "the upload ends without {name}; send it as a trailer, and announce it in the Trailer header"
    )]
    MissingHeader {
        /// Name of the trailer.
        name: HeaderName,
    },
    /// A claim does not match the received content.
    #[error("{name} does not match the upload: declared {claimed}, received {found}; restart it")]
    HeaderMismatch {
        /// Name of the header or trailer.
        name: HeaderName,
        /// Value of the claim.
        claimed: String,
        /// Value of the received content.
        found: String,
    },
    /// The content does not have the digest that the receiver expects.
    #[error(
        "the content has the digest {found}, but the Bundle accepts only {expected} (spec.source.upload.digest, or \
         status.contentDigest after unpacking); send that content, or create a Bundle for this one"
    )]
    Unexpected {
        /// Digest of the Bundle's spec or status.
        expected: Digest,
        /// Digest of the received content.
        found: Digest,
    },
    /// The connection ended before the end of the body.
    #[error("the upload was interrupted; restart it")]
    Broken {
        /// Cause of the failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No data was received for too long.
    #[error("upload stalled for {after:?}; restart it")]
    Stalled {
        /// Timeout without received data.
        after: Duration,
    },
    /// The upload exceeded the total timeout.
    #[error("the upload was not complete after {after:?}; restart it over a faster connection")]
    Timeout {
        /// Timeout of the whole upload.
        after: Duration,
    },
    /// The content is valid, but cannot be stored.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Internal error of the receiver.
    #[error("failed to process the upload; see the log of the receiver")]
    Failed,
}

impl Rejection {
    /// Returns the status of the response. A status below 500 is caused by the sender. From 500 on, the receiver failed,
    /// and a retry may succeed. The status 408 can have either cause.
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
            Self::Archive(_)
            | Self::Empty
            | Self::HeaderMismatch { .. }
            | Self::Unexpected { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::BadClaim(_) | Self::MissingHeader { .. } | Self::Broken { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::Stalled { .. } | Self::Timeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Store(error) if error.reason() == "StoreFull" => StatusCode::INSUFFICIENT_STORAGE,
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the CamelCase reason of this failure, for responses, conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Media { .. } => "UnsupportedMediaType",
            Self::NotGzip => "NotGzip",
            Self::TooLong { .. } => "LimitExceeded",
            Self::Archive(error) => error.reason(),
            Self::Empty => "NothingUploaded",
            Self::BadClaim(_) => "InvalidClaim",
            Self::MissingHeader { .. } => "ClaimMissing",
            Self::HeaderMismatch { name, .. } if *name == super::BODY_DIGEST => {
                "BodyDigestMismatch"
            }
            Self::HeaderMismatch { name, .. } if *name == super::CONTENT_SIZE => "SizeMismatch",
            Self::HeaderMismatch { .. } | Self::Unexpected { .. } => "DigestMismatch",
            Self::Broken { .. } => "UploadBroken",
            Self::Stalled { .. } => "UploadStalled",
            Self::Timeout { .. } => "UploadTooSlow",
            Self::Store(error) => error.reason(),
            Self::Failed => "UploadFailed",
        }
    }

    /// Returns the problem for the response. Errors of the receiver are reported without their causes, which are not
    /// for untrusted senders.
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

//! Errors of image pulls and pushes.

use std::io;

use super::{credentials, mirrors};
use crate::{http_client, oci};

/// Result of a registry operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error while an image is pulled or pushed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The credentials are invalid.
    #[error(transparent)]
    Credentials(#[from] credentials::Error),
    /// The mirror configuration is invalid, or does not allow the image.
    #[error(transparent)]
    Mirrors(#[from] mirrors::Error),
    /// The registry is unreachable, or its response is unexpected.
    #[error("failed to {action}")]
    Web {
        /// Action that was attempted.
        action: String,
        /// Cause of the failure.
        #[source]
        source: http_client::Error,
    },
    /// The registry requires credentials, and none are configured.
    #[error(
        "registry {registry} requires credentials for {repository}, or the repository does not exist; add credentials \
         for {registry} to the pull secret, or log in to it"
    )]
    NeedsCredentials {
        /// Host of the registry.
        registry: String,
        /// Repository in the registry.
        repository: String,
    },
    /// The credentials are wrong or have expired.
    #[error(
        "registry {registry} rejected the credentials of {user}; check the pull secret, or log in again"
    )]
    Refused {
        /// Host of the registry.
        registry: String,
        /// User that the credentials belong to.
        user: String,
    },
    /// The credentials are valid, but do not permit the action.
    #[error(
        "registry {registry} does not allow {user} to {action} {repository}; ask its owner for access, and check the name"
    )]
    Denied {
        /// Host of the registry.
        registry: String,
        /// User that the credentials belong to.
        user: String,
        /// Action that was denied.
        action: &'static str,
        /// Repository in the registry.
        repository: String,
    },
    /// The registry offers only unsupported authentication schemes.
    #[error(
        "registry {registry} uses an unsupported authentication scheme; supported: Bearer, Basic"
    )]
    Challenge {
        /// Host of the registry.
        registry: String,
    },
    /// The registry names a token service that must not receive credentials.
    #[error(
        "registry {registry} uses {}, which {problem}; ask its owner to correct the configuration",
        realm.as_ref().map_or("a token service".to_owned(), |realm| format!("token service {realm:?}"))
    )]
    Realm {
        /// Host of the registry.
        registry: String,
        /// URL as sent, truncated to a readable length; `None` where remote texts are withheld.
        realm: Option<String>,
        /// Problem of the URL, as a continuation of the message.
        problem: &'static str,
    },
    /// The token service issued no token.
    #[error(
        "the token service of registry {registry} {problem}; try again later, or ask its owner"
    )]
    Token {
        /// Host of the registry.
        registry: String,
        /// Problem of the response, as a continuation of the message.
        problem: &'static str,
    },
    /// The image or blob does not exist.
    #[error("{what} does not exist; check the name, and that it has been pushed")]
    NotFound {
        /// Name of the image or blob.
        what: String,
    },
    /// The received bytes do not match the digest.
    #[error(
        "digest mismatch for {what}{}{}; push it again",
        expected.as_ref().map_or(String::new(), |expected| format!(": expected {expected}")),
        found.as_ref().map_or(String::new(), |found| format!(", got {found}"))
    )]
    Digest {
        /// Name of the image or blob.
        what: String,
        /// Digest that the reference or the registry states. `None` where remote texts are withheld: `what` contains
        /// the digest that the author wrote.
        expected: Option<String>,
        /// Digest of the received bytes; `None` where remote texts are withheld.
        found: Option<String>,
    },
    /// The received size differs from the size in the manifest.
    #[error("{what} has {problem} the declared {expected} bytes; push it again")]
    Size {
        /// Name of the image or blob.
        what: String,
        /// Either `more than` or `fewer than`.
        problem: &'static str,
        /// Size in the manifest, in bytes.
        expected: u64,
    },
    /// The connection was lost too often during a transfer.
    #[error(
        "transfer of {what} interrupted after {read} bytes, on attempt {tries}; try again later, or over a better \
         connection"
    )]
    Interrupted {
        /// Name of the blob.
        what: String,
        /// Number of attempts.
        tries: u32,
        /// Number of received bytes.
        read: u64,
        /// Cause of the last failure.
        #[source]
        source: http_client::Error,
    },
    /// A manifest, index or image configuration is not supported.
    #[error("failed to unpack {what}")]
    Document {
        /// Name of the image.
        what: String,
        /// Problem of the document.
        #[source]
        source: oci::Error,
    },
    /// A name, a document or a response violates the specification.
    #[error("{what} {problem}; push it again, with a current tool")]
    Invalid {
        /// Image, blob or response with the problem.
        what: String,
        /// Violated rule, as a continuation of the message.
        problem: String,
    },
    /// The image exceeds a limit.
    #[error("{what} has {problem}, more than the limit of {limit}; make the image smaller")]
    LimitExceeded {
        /// Name of the image.
        what: String,
        /// Number and kind of the items that exceed the limit.
        problem: String,
        /// Limit that is exceeded.
        limit: u64,
    },
    /// The content of the image cannot be unpacked.
    #[error("failed to unpack {what}")]
    Content {
        /// Name of the image.
        what: String,
        /// Cause of the failure.
        #[source]
        source: Box<crate::Error>,
    },
    /// A downloaded layer cannot be written to a temporary file.
    #[error(
        "failed to write a layer to a temporary file; check the free space and permissions in {directory:?}"
    )]
    Disk {
        /// Directory for temporary files.
        directory: std::path::PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The thread that reads the layers ended early.
    #[error("unpacking {what} was stopped; try again")]
    Cancelled {
        /// Name of the image.
        what: String,
        /// Cause of the failure.
        #[source]
        source: tokio::task::JoinError,
    },
    /// All endpoints of the image failed.
    #[error("failed to pull {image} from {} endpoints: {}", .failures.len(), join_failures(.failures))]
    AllEndpointsFailed {
        /// Name of the image.
        image: String,
        /// Each endpoint with its error.
        failures: Vec<(String, Error)>,
    },
    /// The directory cannot be pushed as a bundle image.
    #[error("the directory cannot be pushed as a bundle: {problem}")]
    NoBundle {
        /// Problem and remedy.
        problem: String,
    },
}

fn join_failures(failures: &[(String, Error)]) -> String {
    let messages = failures.iter().map(|(endpoint, error)| {
        let mut text = format!("{endpoint}: {error}");
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    });
    messages.collect::<Vec<_>>().join("; ")
}

impl Error {
    /// Returns the CamelCase reason of this failure, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Credentials(_) => "CredentialsInvalid",
            Self::Mirrors(mirrors::Error::Blocked { .. } | mirrors::Error::NotAdmitted { .. }) => {
                "RegistryBlocked"
            }
            Self::Mirrors(_) => "MirrorsInvalid",
            Self::Web { source, .. } => source.reason(),
            Self::NeedsCredentials { .. } | Self::Refused { .. } | Self::Denied { .. } => {
                "Unauthorized"
            }
            Self::Challenge { .. } | Self::Realm { .. } | Self::Token { .. } => "TokenRefused",
            Self::NotFound { .. } => "NotFound",
            Self::Digest { .. } | Self::Size { .. } => "ContentMismatch",
            Self::Interrupted { .. } => "ConnectionBroken",
            Self::Invalid { .. } => "ImageInvalid",
            Self::Document { source, .. } => source.reason(),
            Self::LimitExceeded { .. } => "LimitExceeded",
            Self::Content { source, .. } => source.reason(),
            Self::Disk { .. } => "WriteFailed",
            Self::Cancelled { .. } => "Stopped",
            Self::AllEndpointsFailed { failures, .. } => failures
                .last()
                .map_or("NotFound", |(_, error)| error.reason()),
            Self::NoBundle { .. } => "BundleInvalid",
        }
    }

    /// Reports whether the same image always fails. Transient failures are missing images, which may be pushed later,
    /// rejected credentials, which may be replaced, and damaged transfers.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Credentials(error) => error.is_terminal(),
            Self::Web { source, .. } => source.is_terminal(),
            Self::Mirrors(_)
            | Self::Invalid { .. }
            | Self::Document { .. }
            | Self::LimitExceeded { .. }
            | Self::NoBundle { .. } => true,
            Self::Content { source, .. } => source.is_terminal(),
            Self::AllEndpointsFailed { failures, .. } => {
                failures.iter().all(|(_, error)| error.is_terminal())
            }
            _ => false,
        }
    }

    /// Reports whether another endpoint with the same content may succeed.
    pub(crate) fn is_endpoint_specific(&self) -> bool {
        !matches!(
            self,
            Self::Mirrors(_)
                | Self::Document { .. }
                | Self::LimitExceeded { .. }
                | Self::Content { .. }
                | Self::Disk { .. }
                | Self::Cancelled { .. }
                | Self::NoBundle { .. }
        )
    }
}

impl Error {
    /// Removes texts that the server chose: see [`Quotes::Withheld`](crate::trust::Quotes::Withheld).
    pub(crate) fn withhold(&mut self) {
        match self {
            Self::Web { source, .. } | Self::Interrupted { source, .. } => source.withhold(),
            Self::Realm { realm, .. } => *realm = None,
            Self::Digest {
                expected, found, ..
            } => {
                *expected = None;
                *found = None;
            }
            Self::Document { source, .. } => source.withhold(),
            Self::Content { source, .. } => source.withhold(),
            Self::AllEndpointsFailed { failures, .. } => {
                for (_, error) in failures {
                    error.withhold();
                }
            }
            Self::Credentials(_)
            | Self::Mirrors(_)
            | Self::NeedsCredentials { .. }
            | Self::Refused { .. }
            | Self::Denied { .. }
            | Self::Challenge { .. }
            | Self::Token { .. }
            | Self::NotFound { .. }
            | Self::Size { .. }
            | Self::Invalid { .. }
            | Self::LimitExceeded { .. }
            | Self::Disk { .. }
            | Self::Cancelled { .. }
            | Self::NoBundle { .. } => {}
        }
    }
}

//! Why an image could not be had, or not be published.

use std::io;

use super::{credentials, mirrors};
use crate::{oci, web};

/// The result of talking to a registry.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a registry's content cannot be taken, or it takes none of ours.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The credentials make no sense.
    #[error(transparent)]
    Credentials(#[from] credentials::Error),
    /// The mirrors make no sense, or forbid it.
    #[error(transparent)]
    Mirrors(#[from] mirrors::Error),
    /// The registry cannot be reached, or answers with something else.
    #[error("failed to {action}")]
    Web {
        /// What was tried.
        action: String,
        /// Why.
        #[source]
        source: web::Error,
    },
    /// Nobody may do this without credentials, and there are none.
    #[error(
        "the registry {registry} needs credentials for {repository}, or has no such repository; \
         add credentials for {registry} to the pull secret, or log in to it"
    )]
    NeedsCredentials {
        /// Which registry.
        registry: String,
        /// Which repository.
        repository: String,
    },
    /// A wrong password, or one that is not valid any more.
    #[error(
        "the registry {registry} does not accept the credentials of {user}; check the pull secret, or log in again"
    )]
    Refused {
        /// Which registry.
        registry: String,
        /// Whose.
        user: String,
    },
    /// A right password of somebody who may not.
    #[error(
        "the registry {registry} does not let {user} {action} {repository}; ask its owner for access, and check the name"
    )]
    Denied {
        /// Which registry.
        registry: String,
        /// Who.
        user: String,
        /// What is refused.
        action: &'static str,
        /// Which repository.
        repository: String,
    },
    /// A way of authentication that nobody has told us about.
    #[error(
        "the registry {registry} asks for credentials in a way that is not known here; it has to offer Bearer or Basic"
    )]
    Challenge {
        /// Which registry.
        registry: String,
    },
    /// A token service that must not see credentials.
    #[error(
        "the registry {registry} sends us to the token service {}, which {problem}; have the registry's configuration corrected",
        realm.as_ref().map_or("that it chose".to_owned(), |realm| format!("{realm:?}"))
    )]
    Realm {
        /// Which registry.
        registry: String,
        /// As sent, cut to a readable length; `None` where remote texts are withheld.
        realm: Option<String>,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A token service that gives no token.
    #[error(
        "the token service of the registry {registry} {problem}; try again later, or ask its owner"
    )]
    Token {
        /// Which registry.
        registry: String,
        /// What it does instead.
        problem: &'static str,
    },
    /// There is none of that name.
    #[error("{what} does not exist; check the name, and that it has been pushed")]
    NotFound {
        /// What.
        what: String,
    },
    /// Something else than the digest says.
    #[error(
        "{what} is not what its digest{} says{}; the registry, or something on the way, has changed it: push it again",
        expected.as_ref().map_or(String::new(), |expected| format!(" {expected}")),
        found.as_ref().map_or(String::new(), |found| format!(", but {found}"))
    )]
    Digest {
        /// What.
        what: String,
        /// Digest that the reference or the registry states; `None` where remote texts are withheld: `what` has the
        /// digest that the author wrote.
        expected: Option<String>,
        /// Digest of the received bytes; `None` where remote texts are withheld.
        found: Option<String>,
    },
    /// More or fewer bytes than the manifest says.
    #[error(
        "{what} has {problem} the {expected} bytes that were announced; the registry, or something on the way, has changed it: push it again"
    )]
    Size {
        /// What.
        what: String,
        /// In which way.
        problem: &'static str,
        /// How many it should be.
        expected: u64,
    },
    /// A transfer that broke off too often.
    #[error(
        "{what} broke off after {read} bytes, in try {tries}; try again later, or over a better connection"
    )]
    Interrupted {
        /// What.
        what: String,
        /// How often it was tried.
        tries: u32,
        /// What had arrived.
        read: u64,
        /// Why, the last time.
        #[source]
        source: web::Error,
    },
    /// A manifest, index or configuration that cannot be taken.
    #[error("{what} cannot be unpacked")]
    Document {
        /// Which image.
        what: String,
        /// Why.
        #[source]
        source: oci::Error,
    },
    /// Something that breaks the rules.
    #[error("{what} {problem}; push it again, with a current tool")]
    Invalid {
        /// What.
        what: String,
        /// Which rule.
        problem: String,
    },
    /// More than anybody needs.
    #[error("{what} has {problem}, and the limit is {limit}; make the image smaller")]
    TooMuch {
        /// Which image.
        what: String,
        /// More of what.
        problem: String,
        /// How much is taken.
        limit: u64,
    },
    /// The content of an image cannot be taken.
    #[error("failed to unpack {what}")]
    Content {
        /// Which image.
        what: String,
        /// Why.
        #[source]
        source: Box<crate::Error>,
    },
    /// The disk does not take what waits to be read.
    #[error(
        "failed to keep a layer in a temporary file; check the space and permissions in {folder:?}"
    )]
    Disk {
        /// Where temporary files go.
        folder: std::path::PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The thread that reads layers is gone.
    #[error("unpacking {what} was stopped; try again")]
    Stopped {
        /// Which image.
        what: String,
        /// Why.
        #[source]
        source: tokio::task::JoinError,
    },
    /// All of several places failed.
    #[error("{image} cannot be had from any of {} places: {}", .failures.len(), all(.failures))]
    Everywhere {
        /// Which image.
        image: String,
        /// Each place and what it said.
        failures: Vec<(String, Error)>,
    },
    /// A folder that makes no bundle image.
    #[error("the folder cannot be pushed as a bundle: {problem}")]
    NoBundle {
        /// Why, and what to do.
        problem: String,
    },
}

fn all(failures: &[(String, Error)]) -> String {
    let shown = failures.iter().map(|(place, error)| {
        let mut text = format!("{place}: {error}");
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    });
    shown.collect::<Vec<_>>().join("; ")
}

impl Error {
    /// The kind of failure in one word, for conditions, events and metrics.
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
            Self::TooMuch { .. } => "LimitExceeded",
            Self::Content { source, .. } => source.reason(),
            Self::Disk { .. } => "WriteFailed",
            Self::Stopped { .. } => "Stopped",
            Self::Everywhere { failures, .. } => failures
                .last()
                .map_or("NotFound", |(_, error)| error.reason()),
            Self::NoBundle { .. } => "BundleInvalid",
        }
    }

    /// Whether the same image fails again however often it is tried. What is not there may be pushed, credentials may
    /// be exchanged, and what a transfer has damaged may arrive whole next time.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Credentials(error) => error.is_terminal(),
            Self::Web { source, .. } => source.is_terminal(),
            Self::Mirrors(_)
            | Self::Invalid { .. }
            | Self::Document { .. }
            | Self::TooMuch { .. }
            | Self::NoBundle { .. } => true,
            Self::Content { source, .. } => source.is_terminal(),
            Self::Everywhere { failures, .. } => {
                failures.iter().all(|(_, error)| error.is_terminal())
            }
            _ => false,
        }
    }

    /// Whether another place with the same content may do better.
    pub(crate) fn is_of_the_place(&self) -> bool {
        !matches!(
            self,
            Self::Mirrors(_)
                | Self::Document { .. }
                | Self::TooMuch { .. }
                | Self::Content { .. }
                | Self::Disk { .. }
                | Self::Stopped { .. }
                | Self::NoBundle { .. }
        )
    }
}

impl Error {
    /// Removes what the server chose: see [`Quotes::Withheld`](crate::access::Quotes::Withheld).
    pub(crate) fn withheld(self) -> Self {
        match self {
            Self::Web { action, source } => Self::Web {
                action,
                source: source.withheld(),
            },
            Self::Realm {
                registry, problem, ..
            } => Self::Realm {
                registry,
                realm: None,
                problem,
            },
            Self::Digest { what, .. } => Self::Digest {
                what,
                expected: None,
                found: None,
            },
            Self::Interrupted {
                what,
                tries,
                read,
                source,
            } => Self::Interrupted {
                what,
                tries,
                read,
                source: source.withheld(),
            },
            Self::Document { what, source } => Self::Document {
                what,
                source: source.withheld(),
            },
            Self::Content { what, source } => Self::Content {
                what,
                source: source.withheld().into(),
            },
            Self::Everywhere { image, failures } => {
                let failures = failures.into_iter();
                Self::Everywhere {
                    image,
                    failures: failures
                        .map(|(place, error)| (place, error.withheld()))
                        .collect(),
                }
            }
            error @ (Self::Credentials(_)
            | Self::Mirrors(_)
            | Self::NeedsCredentials { .. }
            | Self::Refused { .. }
            | Self::Denied { .. }
            | Self::Challenge { .. }
            | Self::Token { .. }
            | Self::NotFound { .. }
            | Self::Size { .. }
            | Self::Invalid { .. }
            | Self::TooMuch { .. }
            | Self::Disk { .. }
            | Self::Stopped { .. }
            | Self::NoBundle { .. }) => error,
        }
    }
}

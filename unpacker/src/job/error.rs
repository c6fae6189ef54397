//! Errors of the unpack Job.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// An error while a directory is uploaded or the program is installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory contains rejected entries, or some of its files cannot be read.
    #[error("failed to pack {dir:?}")]
    Directory {
        /// Directory as configured.
        dir: PathBuf,
        /// Cause of the failure.
        #[source]
        source: Box<crate::Error>,
    },
    /// The user of the Job lacks permission to read a file or directory.
    #[error(
        "{path:?} is not readable by {user}; make it readable in the image (chmod a+r, and a+rx for directories), or run the Job as a user that can read it"
    )]
    Closed {
        /// Path of the file or directory.
        path: PathBuf,
        /// Name or number of the user.
        user: String,
    },
    /// The directory contains no selected file.
    #[error("no file found in {directory:?} (selected: {wanted}); {EMPTY_HINT}")]
    Empty {
        /// Directory as configured.
        directory: PathBuf,
        /// Paths that were selected.
        wanted: String,
    },
    /// The URL of the receiver is invalid.
    #[error("{text:?} {problem}; use https://HOST[:PORT]/PATH")]
    Address {
        /// URL as configured, without credentials.
        text: String,
        /// Problem of the URL, as a continuation of the message.
        problem: &'static str,
    },
    /// A configuration file of the Job cannot be read.
    #[error("failed to read {what} {path:?}; check {flag} and what is mounted there")]
    Configuration {
        /// Kind of the file: token or certificates.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Flag that names the file.
        flag: &'static str,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// No CA bundle exists on the system, and none is configured.
    #[error("no CA certificates found on this system; specify a file with --ca-file")]
    NoRoots,
    /// The connection to the receiver failed.
    #[error("failed to connect to {to}")]
    Connect {
        /// Host and port.
        to: String,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with {to} failed; check its certificate and --ca-file")]
    Tls {
        /// Host and port.
        to: String,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The connection broke during the request.
    #[error("the connection to {to} was lost")]
    Broken {
        /// Host and port.
        to: String,
        /// Cause of the failure.
        #[source]
        source: hyper::Error,
    },
    /// No data was transferred for too long.
    #[error("no data was transferred to or from {to} for {after:?}")]
    Stalled {
        /// Host and port.
        to: String,
        /// Timeout without transferred data.
        after: Duration,
    },
    /// The receiver rejected the content or the sender, with this message.
    #[error("{message} (status {status} of {to})")]
    Refused {
        /// Host and port.
        to: String,
        /// Status code from 400 to 499.
        status: u16,
        /// CamelCase reason of the receiver.
        reason: String,
        /// Message of the receiver.
        message: String,
    },
    /// The receiver is temporarily unavailable.
    #[error("{to} is unavailable: {message} (status {status})")]
    Unavailable {
        /// Host and port.
        to: String,
        /// Status code: 408, 429, or at least 500.
        status: u16,
        /// Message of the receiver.
        message: String,
        /// Requested delay before the next attempt, in seconds.
        after: Option<u64>,
    },
    /// The response does not follow the protocol of the receiver.
    #[error(
        "unexpected response from {to}: {problem}; check that the URL is that of the content service"
    )]
    InvalidResponse {
        /// Host and port.
        to: String,
        /// Problem of the response.
        problem: String,
    },
    /// The attempts or the total time are used up.
    #[error("gave up (attempts: {tries}, seconds: {seconds})")]
    RetriesExhausted {
        /// Number of attempts.
        tries: u32,
        /// Total duration in seconds.
        seconds: u64,
        /// Error of the last attempt.
        #[source]
        source: Option<Box<Error>>,
    },
    /// The archive cannot be written.
    #[error("failed to write the archive")]
    Write {
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The program cannot be copied.
    #[error(
        "failed to install into {directory:?}; check that it is a directory that this user can write to"
    )]
    Install {
        /// Target directory as configured.
        directory: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
}

const EMPTY_HINT: &str = "check that the image is a bundle, or choose with --only or --all";

impl Error {
    /// Returns the CamelCase reason of this failure. For a rejection, it is the reason of the receiver.
    pub fn reason(&self) -> &str {
        match self {
            Self::Directory { source, .. } => source.reason(),
            Self::Closed { .. } => "FileUnreadable",
            Self::Empty { .. } => "NothingSelected",
            Self::Address { .. } | Self::Configuration { .. } | Self::NoRoots => {
                "InvalidConfiguration"
            }
            Self::Connect { .. } | Self::Tls { .. } => "ConnectFailed",
            Self::Broken { .. } | Self::Stalled { .. } => "ConnectionBroken",
            Self::Refused { reason, .. } => reason,
            Self::Unavailable { .. } => "ReceiverUnavailable",
            Self::InvalidResponse { .. } => "UnexpectedAnswer",
            Self::RetriesExhausted { source, .. } => {
                source.as_ref().map_or("TimedOut", |source| source.reason())
            }
            Self::Write { .. } => "WriteFailed",
            Self::Install { .. } => "InstallFailed",
        }
    }

    /// Reports whether a retry is useless.
    pub fn is_terminal(&self) -> bool {
        !matches!(
            self,
            Self::Connect { .. }
                | Self::Tls { .. } // invalid for a moment while the certificate is rotated
                | Self::Configuration { .. } // missing for a moment while a mounted file is replaced
                | Self::Broken { .. }
                | Self::Stalled { .. }
                | Self::Unavailable { .. }
        )
    }
}

/// Converts an error of the listing or the archive. A file that the user of this process lacks permission to read has
/// a separate error.
pub(super) fn describe(directory: &Path, error: crate::Error) -> Error {
    match error {
        crate::Error::Read { path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
            Error::Closed {
                path: if path == "." {
                    directory.to_owned()
                } else {
                    directory.join(path)
                },
                user: user(),
            }
        }
        crate::Error::Write { source } => Error::Write { source },
        source => Error::Directory {
            dir: directory.to_owned(),
            source: Box::new(source),
        },
    }
}

/// Returns the user of this process. The standard library has no function for it, but the owner of `/proc/self` is
/// the user.
fn user() -> String {
    match fs::metadata("/proc/self") {
        Ok(process) => format!("user {}", process.uid()),
        Err(_) => "this user".to_owned(),
    }
}

//! Why a Job fails.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path, path::PathBuf, time::Duration};

/// Why a folder was not handed over.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder holds what is refused, or something in it cannot be read.
    #[error("failed to take {folder:?}")]
    Folder {
        /// As given.
        folder: PathBuf,
        /// Why.
        #[source]
        source: Box<crate::Error>,
    },
    /// A file or a folder is closed to the user that the Job runs as.
    #[error(
        "{path:?} may not be read by {user}; make it readable in the image (chmod a+r, and a+rx for folders), or run the Job as a user that may read it"
    )]
    Closed {
        /// What is closed.
        path: PathBuf,
        /// The user.
        user: String,
    },
    /// Not one file.
    #[error("no file found in {folder:?}, looking for {wanted}; {EMPTY}")]
    Empty {
        /// As given.
        folder: PathBuf,
        /// What was selected.
        wanted: String,
    },
    /// The URL is none that can be used.
    #[error("{text:?} {problem}; write https://HOST[:PORT]/PATH")]
    Address {
        /// As given, but for credentials.
        text: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A file of the Job's own configuration cannot be used.
    #[error("failed to read {what} {path:?}; check {flag} and what is mounted there")]
    Configuration {
        /// Token or certificates.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// The flag that names it.
        flag: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Nobody to trust.
    #[error("no certificates of authorities were found on this system; name a file with --ca-file")]
    NoRoots,
    /// There is no connection.
    #[error("failed to connect to {to}")]
    Connect {
        /// Host and port.
        to: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no trust.
    #[error("failed to agree with {to} on TLS; check its certificate and --ca-file")]
    Tls {
        /// Host and port.
        to: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {to} broke")]
    Broken {
        /// Host and port.
        to: String,
        /// Why.
        #[source]
        source: hyper::Error,
    },
    /// Nothing moves.
    #[error("{to} neither takes nor says anything any more; waited {after:?}")]
    Silent {
        /// Host and port.
        to: String,
        /// How long at least.
        after: Duration,
    },
    /// The receiver has something against the content or its sender. Its own words.
    #[error("{message} (answer {status} of {to})")]
    Refused {
        /// Host and port.
        to: String,
        /// 400 to 499.
        status: u16,
        /// One word.
        reason: String,
        /// One sentence.
        message: String,
    },
    /// The receiver cannot do its work now.
    #[error("{to} cannot take it now: {message} (answer {status})")]
    Unavailable {
        /// Host and port.
        to: String,
        /// 408, 429, or 500 and above.
        status: u16,
        /// What it says.
        message: String,
        /// When to come back, in seconds.
        after: Option<u64>,
    },
    /// An answer that no receiver gives.
    #[error(
        "{to} gave an answer that cannot be used: {problem}; check that the URL is that of the content service"
    )]
    Answer {
        /// Host and port.
        to: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The time is up.
    #[error("gave up (tries: {tries}, seconds: {seconds})")]
    GaveUp {
        /// How often it was tried.
        tries: u32,
        /// How long all of it took.
        seconds: u64,
        /// Why it failed the last time.
        #[source]
        source: Option<Box<Error>>,
    },
    /// The archive cannot be written.
    #[error("failed to write the archive")]
    Write {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program cannot be copied.
    #[error(
        "failed to install into {folder:?}; check that it is a folder that this user may write to"
    )]
    Install {
        /// As given.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

const EMPTY: &str = "check that the image is a bundle, or choose with --only or --all";

impl Error {
    /// The kind of failure in one word. A refusal bears the receiver's.
    pub fn reason(&self) -> &str {
        match self {
            Self::Folder { source, .. } => source.reason(),
            Self::Closed { .. } => "FileUnreadable",
            Self::Empty { .. } => "NothingSelected",
            Self::Address { .. } | Self::Configuration { .. } | Self::NoRoots => {
                "InvalidConfiguration"
            }
            Self::Connect { .. } | Self::Tls { .. } => "ConnectFailed",
            Self::Broken { .. } | Self::Silent { .. } => "ConnectionBroken",
            Self::Refused { reason, .. } => reason,
            Self::Unavailable { .. } => "ReceiverUnavailable",
            Self::Answer { .. } => "UnexpectedAnswer",
            Self::GaveUp { source, .. } => {
                source.as_ref().map_or("TimedOut", |source| source.reason())
            }
            Self::Write { .. } => "WriteFailed",
            Self::Install { .. } => "InstallFailed",
        }
    }

    /// Whether there is no point in trying again.
    pub fn is_terminal(&self) -> bool {
        !matches!(
            self,
            Self::Connect { .. }
                | Self::Tls { .. } // a certificate that is being exchanged is wrong for a moment
                | Self::Configuration { .. } // a mounted file that is being exchanged is not there for a moment
                | Self::Broken { .. }
                | Self::Silent { .. }
                | Self::Unavailable { .. }
        )
    }
}

/// Names what the user of this process may not read.
pub(super) fn explain(folder: &Path, error: crate::Error) -> Error {
    match error {
        crate::Error::Read { path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
            Error::Closed {
                path: if path == "." {
                    folder.to_owned()
                } else {
                    folder.join(path)
                },
                user: user(),
            }
        }
        crate::Error::Write { source } => Error::Write { source },
        source => Error::Folder {
            folder: folder.to_owned(),
            source: Box::new(source),
        },
    }
}

/// Whose process this is. The standard library does not tell, but its folder in /proc does.
fn user() -> String {
    match fs::metadata("/proc/self") {
        Ok(process) => format!("user {}", process.uid()),
        Err(_) => "this user".to_owned(),
    }
}

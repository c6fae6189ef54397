//! Errors of git sources.

mod withhold;

use std::{fmt, io, time::Duration};

use crate::http_client::{self, RedactedUrl};

/// Result of functions in this module that do not know the repository.
pub(super) type Result<T, E = Problem> = std::result::Result<T, E>;

/// An error with the repository it belongs to. The URL is printed without user and password.
#[derive(Debug)]
pub struct Error {
    pub(super) repository: RedactedUrl,
    pub(super) problem: Box<Problem>,
}

/// The problem of a repository, of its server or of the connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The scheme of the URL is not supported.
    #[error("unsupported scheme; use https://, http:// or ssh://")]
    Scheme,
    /// The address contains characters that cannot be sent to a server.
    #[error("the URL {problem}; correct it")]
    Address {
        /// Problem of the address, as a continuation of the message.
        problem: &'static str,
    },
    /// The repository does not exist, or is not visible with these credentials.
    #[error(
        "not found, or not visible with these credentials{}; check the URL and the credentials", server_message(.said)
    )]
    NotFound {
        /// Message of the server; empty if it sent none.
        said: String,
    },
    /// The server requires credentials, and none are configured.
    #[error(
        "not found, or credentials are required; check the URL, or pass --username and --password-file (in a cluster: a Secret with username and password)"
    )]
    CredentialsNeeded,
    /// The server rejects the credentials.
    #[error("the server rejected the credentials; check them and their read permission")]
    CredentialsRefused,
    /// The server does not implement the git protocol.
    #[error(
        "not a git server: {found}{}; check that \"git clone\" accepts this URL", typed(.media_type)
    )]
    NotGit {
        /// Description of the response; `media_type` completes the sentence.
        found: String,
        /// Content type in the response; empty if the problem is another one.
        media_type: String,
    },
    /// The server rejects the request with a message.
    #[error("the server rejected the request{}; check the URL, or contact the server administrator", quoted(.said))]
    Refused {
        /// Message of the server; empty where remote texts are withheld.
        said: String,
    },
    /// The server reports an error after the start of its response, or that it is busy.
    #[error("the server aborted the request{}; try again, or contact the server administrator", quoted(.said))]
    AbortedByServer {
        /// Message of the server; empty where remote texts are withheld.
        said: String,
    },
    /// The server violates the protocol.
    #[error(
        "the server violated the git protocol: {problem}; try again, or contact the server administrator"
    )]
    Protocol {
        /// Description of the violation.
        problem: &'static str,
    },
    /// The connection was closed before the response was complete.
    #[error("the connection ended {during}; try again")]
    Disconnected {
        /// Part of the response during which the connection was closed.
        during: &'static str,
    },
    /// The repository uses SHA-256 object names.
    #[error("SHA-256 object names are not supported; use a repository with SHA-1")]
    Sha256,
    /// The requested branch or tag does not exist.
    #[error("{kind} {name:?} not found{}", alternatives(.others))]
    NoReference {
        /// Kind of the reference: branch, tag, or either.
        kind: &'static str,
        /// Name as requested.
        name: String,
        /// Names that exist.
        others: Vec<String>,
    },
    /// The requested name is both a branch and a tag.
    #[error("{name:?} is ambiguous; use refs/heads/{name} or refs/tags/{name}")]
    Ambiguous {
        /// Name as requested.
        name: String,
    },
    /// The HEAD of the repository points to no commit.
    #[error("HEAD does not point to a commit{}", alternatives(.others))]
    NoHead {
        /// Branches that exist.
        others: Vec<String>,
    },
    /// The requested text is not a commit hash.
    #[error("{text:?} is not a full commit hash; use all 40 digits")]
    NotACommit {
        /// Text as requested.
        text: String,
    },
    /// The commit does not exist, or is not reachable from a branch or tag.
    #[error(
        "commit {commit} not found{how}; check the hash, and that a branch or tag contains the commit"
    )]
    NoCommit {
        /// Commit as requested.
        commit: String,
        /// Extent of the search, as a continuation of the message.
        how: &'static str,
    },
    /// The tag points to an object without a directory tree.
    #[error("{} is a tag of a {kind}, not of a commit; use another tag", or(.name, "the reference"))]
    TagOfOther {
        /// Hash of the tag; empty where remote texts are withheld.
        name: String,
        /// Kind of the object that the tag points to.
        kind: &'static str,
    },
    /// The requested directory does not exist.
    #[error("failed to get subdirectory {directory:?}{}: {problem}{}", of_commit(.commit), alternatives(.others))]
    NoDirectory {
        /// Directory as requested.
        directory: String,
        /// Hash of the commit; empty where remote texts are withheld.
        commit: String,
        /// Reason for the failure, for example that the path is a file.
        problem: &'static str,
        /// Directories that exist.
        others: Vec<String>,
    },
    /// A part of the content is a submodule.
    #[error(
        "{} is a submodule, and submodules are not fetched; keep the files in this repository, or use the repository of the submodule", path_or(.path, "a directory")
    )]
    Submodule {
        /// Path of the submodule; empty where remote texts are withheld.
        path: String,
    },
    /// A directory contains an invalid file name.
    #[error("{} {problem}; rename it in the repository", path_or(.path, "a path"))]
    Name {
        /// Path in printable form; empty where remote texts are withheld.
        path: String,
        /// Problem of the name, as a continuation of the message.
        problem: &'static str,
    },
    /// The repository exceeds a limit.
    #[error(
        "the repository is too large: {resource} exceed the limit of {limit}; use a smaller repository for bundles"
    )]
    TooLarge {
        /// Items that exceed the limit.
        resource: &'static str,
        /// Limit that is exceeded.
        limit: u64,
    },
    /// The objects of the repository are corrupt.
    #[error("corrupt objects: {problem}; try again, or check the repository with \"git fsck\"")]
    Damaged {
        /// Description of the damage.
        problem: &'static str,
    },
    /// The server did not send a required object.
    #[error(
        "{} is missing from the response of the server; try again, or check the repository with \"git fsck\"", object(.id)
    )]
    Missing {
        /// Hash of the object; empty where remote texts are withheld.
        id: String,
    },
    /// An object was crafted to have the same SHA-1 as another one.
    #[error(
        "an object was crafted to have the same SHA-1 as another one; do not trust this repository"
    )]
    Collision,
    /// The HTTP request failed.
    #[error(transparent)]
    Web(#[from] http_client::Error),
    /// The ssh server is unreachable.
    #[error("failed to reach {host} over ssh; check the address and the network")]
    Connect {
        /// Host and port.
        host: String,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// A private key is required for ssh, and none is configured.
    #[error(
        "ssh needs a private key; pass --ssh-key (in a cluster: a Secret with ssh-privatekey and ssh-knownhosts)"
    )]
    KeyNeeded,
    /// The private key cannot be read.
    #[error("failed to read the private ssh key: {problem}")]
    Key {
        /// Problem and remedy.
        problem: &'static str,
    },
    /// The ssh server accepts none of the keys.
    #[error(
        "{host} rejected {} for user {user:?}; check that the public key has read access to the repository{}", offered_keys(*.keys), unread_key(*.unread)
    )]
    KeyRefused {
        /// Host and port.
        host: String,
        /// User name that was used.
        user: String,
        /// Number of keys that were offered.
        keys: usize,
        /// Reason why another key could not be offered.
        unread: Option<&'static str>,
    },
    /// The host key is not in `known_hosts`.
    #[error(
        "{host} is not in known_hosts; if {fingerprint} is the fingerprint of its key, add {} to the file of --known-hosts (in a cluster: to ssh-knownhosts){}", known_host(.line), quoted(.line)
    )]
    HostUnknown {
        /// Host and port.
        host: String,
        /// Fingerprint of the host key.
        fingerprint: String,
        /// Line to add to `known_hosts`; empty where remote texts are withheld.
        line: String,
    },
    /// The host key differs from the one in `known_hosts`.
    #[error(
        "host key of {host} does not match known_hosts (fingerprint {fingerprint}); this may be a man-in-the-middle attack; update known_hosts only if the key was changed on purpose"
    )]
    HostChanged {
        /// Host and port.
        host: String,
        /// Fingerprint of the presented host key.
        fingerprint: String,
    },
    /// The host key is marked as revoked in `known_hosts`.
    #[error(
        "the host key of {host} is revoked in known_hosts; ask the administrator of the host for the new key"
    )]
    HostRevoked {
        /// Host and port.
        host: String,
    },
    /// Another error of the ssh connection.
    #[error(
        "failed to communicate with {host} over ssh; try again, or check that an ssh server listens there"
    )]
    Ssh {
        /// Host and port.
        host: String,
        /// Cause, which may repeat texts of the server; `None` where remote texts are withheld.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The server sent no data within the idle timeout.
    #[error("the server sent nothing for {} s; try again later", .idle.as_secs_f64())]
    Idle {
        /// Timeout without received data.
        idle: Duration,
    },
    /// The operation exceeded the total timeout.
    #[error("fetching took longer than {} s; try again over a faster connection, or raise --timeout", .total.as_secs_f64())]
    Slow {
        /// Timeout of the whole operation.
        total: Duration,
    },
    /// Received data cannot be written to a temporary file.
    #[error("failed to write fetched data to a temporary file; check the free disk space")]
    Spool {
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The task that reads the repository ended early.
    #[error("reading the repository was aborted; try again")]
    Aborted,
}

impl Error {
    /// Creates an error of a repository, for tests of other modules.
    #[cfg(test)]
    pub(crate) fn test(repository: &str, problem: Problem) -> Self {
        Self {
            repository: (&url::Url::parse(repository).unwrap()).into(),
            problem: Box::new(problem),
        }
    }

    /// Returns the problem without the repository.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Returns the CamelCase reason of this failure, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        self.problem.reason()
    }

    /// Reports whether the same repository always fails.
    pub fn is_terminal(&self) -> bool {
        self.problem.is_terminal()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "git repository {}: {}", self.repository, self.problem)
    }
}

impl std::error::Error for Error {
    /// Returns the cause of the problem. The problem itself is already part of the message.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.problem)
    }
}

fn offered_keys(keys: usize) -> String {
    match keys {
        1 => "the key".to_owned(),
        keys => format!("all {keys} keys"),
    }
}

fn unread_key(problem: Option<&str>) -> String {
    problem.map_or_else(String::new, |problem| {
        format!("; failed to read another key: {problem}")
    })
}

impl Problem {
    fn reason(&self) -> &'static str {
        match self {
            Self::Scheme => "SchemeUnknown",
            Self::Address { .. } => "AddressInvalid",
            Self::NotFound { .. } => "NotFound",
            Self::CredentialsNeeded
            | Self::CredentialsRefused
            | Self::KeyNeeded
            | Self::KeyRefused { .. } => "Unauthorized",
            Self::Key { .. } => "CredentialsInvalid",
            Self::NotGit { .. } => "NotGit",
            Self::Refused { .. } => "Refused",
            Self::Protocol { .. } => "ProtocolViolated",
            Self::AbortedByServer { .. } => "ServerFailed",
            Self::Disconnected { .. } => "ConnectionBroken",
            Self::Sha256 => "Unsupported",
            Self::NoReference { .. }
            | Self::Ambiguous { .. }
            | Self::NoHead { .. }
            | Self::NotACommit { .. }
            | Self::NoCommit { .. }
            | Self::TagOfOther { .. } => "RevisionInvalid",
            Self::NoDirectory { .. } => "DirectoryNotFound",
            Self::Submodule { .. } => "EntryRefused",
            Self::Name { .. } => "InvalidPath",
            Self::TooLarge { .. } => "LimitExceeded",
            Self::Damaged { .. } | Self::Missing { .. } | Self::Collision => "RepositoryDamaged",
            Self::Web(error) => error.reason(),
            Self::Connect { .. } | Self::Ssh { .. } => "ConnectionFailed",
            Self::HostUnknown { .. } | Self::HostChanged { .. } | Self::HostRevoked { .. } => {
                "HostUntrusted"
            }
            Self::Idle { .. } | Self::Slow { .. } => "TimedOut",
            Self::Spool { .. } => "WriteFailed",
            Self::Aborted => "Aborted",
        }
    }

    /// Reports whether a retry is useless. Missing objects and names may be pushed later, but a retry alone does not
    /// change them.
    fn is_terminal(&self) -> bool {
        match self {
            Self::Web(error) => error.is_terminal(),
            Self::Disconnected { .. }
            | Self::AbortedByServer { .. }
            | Self::Connect { .. }
            | Self::Ssh { .. }
            | Self::Idle { .. }
            | Self::Slow { .. }
            | Self::Spool { .. }
            | Self::Aborted => false,
            _ => true,
        }
    }
}

fn server_message(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" (server message: {text})")
    }
}

/// Appends the message of a server, unless it is withheld.
fn quoted(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

fn path_or(path: &str, other: &str) -> String {
    if path.is_empty() {
        other.to_owned()
    } else {
        format!("{path:?}")
    }
}

fn object(id: &str) -> String {
    if id.is_empty() {
        "an object".to_owned()
    } else {
        format!("object {id}")
    }
}

fn of_commit(commit: &str) -> String {
    if commit.is_empty() {
        String::new()
    } else {
        format!(" of commit {commit}")
    }
}

fn known_host(line: &str) -> &'static str {
    if line.is_empty() {
        "that key"
    } else {
        "this line"
    }
}

fn typed(media_type: &str) -> String {
    if media_type.is_empty() {
        String::new()
    } else {
        format!(" {media_type:?}")
    }
}

/// Lists the existing names as a remedy.
fn alternatives(others: &[String]) -> String {
    if others.is_empty() {
        "; check the name".to_owned()
    } else {
        format!("; use one of: {}", others.join(", "))
    }
}

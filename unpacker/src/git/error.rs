//! Why a git repository gave no content.

mod withhold;

use std::{fmt, io, time::Duration};

use crate::web::{self, Shown};

/// The result inside of this module, where the repository is known.
pub(super) type Result<T, E = Problem> = std::result::Result<T, E>;

/// A repository, and why it gave no content. The URL is shown without user and password.
#[derive(Debug)]
pub struct Error {
    pub(super) repository: Shown,
    pub(super) problem: Box<Problem>,
}

/// What is wrong with a repository, its server or the way there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A URL of a scheme that is not used for git.
    #[error("only https://, http:// and ssh:// can be asked; write one of them")]
    Scheme,
    /// An address that cannot be sent to a server.
    #[error("its address {problem}; correct it")]
    Address {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There is nothing, or nothing for strangers.
    #[error(
        "it does not exist, or is hidden from who has no right to it{}; check the address and the credentials", told(.said)
    )]
    NotFound {
        /// What the server says.
        said: String,
    },
    /// The server wants to know who asks.
    #[error(
        "it does not exist, or it needs credentials; check the address, or pass --username and --password-file (in a cluster: a Secret with username and password)"
    )]
    CredentialsNeeded,
    /// The server knows who asks, and gives nothing.
    #[error("the server refuses these credentials; check them, and that they may read it")]
    CredentialsRefused,
    /// The server does not speak as git does.
    #[error(
        "this is no git server: {found}{}; check that the address is the one that \"git clone\" takes", typed(.media_type)
    )]
    NotGit {
        /// Description of the answer; `media_type` completes the sentence.
        found: String,
        /// Content type that the server states; empty if the problem is another one.
        media_type: String,
    },
    /// The server rejects the request with a text.
    #[error("the server refuses{}; check what it asks for", quoted(.said))]
    Refused {
        /// Text of the server; empty where remote texts are withheld.
        said: String,
    },
    /// The server reports an error after it began to answer.
    #[error("the server gives up{}; try again, or ask who runs it", quoted(.said))]
    GivenUp {
        /// Text of the server; empty where remote texts are withheld.
        said: String,
    },
    /// The server does not keep to the protocol.
    #[error("the server breaks the rules of git: {problem}; try again, or ask who runs it")]
    Protocol {
        /// In which way.
        problem: &'static str,
    },
    /// The connection was closed too early.
    #[error("the connection ended {during}; try again")]
    CutShort {
        /// What was missing.
        during: &'static str,
    },
    /// Objects of another hash function.
    #[error("its objects are named by SHA-256, which cannot be read; offer it with SHA-1")]
    Sha256,
    /// The name that was asked for does not exist.
    #[error("there is no {kind} {name:?}{}", some(.others))]
    NoReference {
        /// Branch, tag, or either.
        kind: &'static str,
        /// As asked for.
        name: String,
        /// Names that do exist.
        others: Vec<String>,
    },
    /// The name stands for two things.
    #[error(
        "{name:?} is a branch and a tag; write refs/heads/{name} or refs/tags/{name} for one of them"
    )]
    Ambiguous {
        /// As asked for.
        name: String,
    },
    /// A repository that has no default.
    #[error("it has no commit at its HEAD{}", some(.others))]
    NoHead {
        /// Branches that do exist.
        others: Vec<String>,
    },
    /// The text names no commit.
    #[error("{text:?} is no commit; write all 40 digits of its hash")]
    NotACommit {
        /// As asked for.
        text: String,
    },
    /// The commit does not exist, or no branch and tag leads to it.
    #[error(
        "there is no commit {commit}{how}; check the hash, and that a branch or a tag leads to it"
    )]
    NoCommit {
        /// As asked for.
        commit: String,
        /// What was tried.
        how: &'static str,
    },
    /// A tag of something that has no folders.
    #[error("{} is a tag of a {kind}, not of a commit; choose another", or(.name, "the reference"))]
    TagOfOther {
        /// Its hash; empty where remote texts are withheld.
        name: String,
        /// What it points to.
        kind: &'static str,
    },
    /// The folder that was asked for does not exist.
    #[error("failed to get subdirectory {directory:?}{}: {problem}{}", of_commit(.commit), some(.others))]
    NoDirectory {
        /// As asked for.
        directory: String,
        /// In which commit; empty where remote texts are withheld.
        commit: String,
        /// What is there instead.
        problem: &'static str,
        /// Folders that do exist.
        others: Vec<String>,
    },
    /// A part of the content lives in another repository.
    #[error(
        "{} is a submodule, and those are not fetched; keep the files in this repository, or name the submodule's own repository", path_or(.path, "a directory")
    )]
    Submodule {
        /// Where; empty where remote texts are withheld.
        path: String,
    },
    /// A name in a folder that no file may have.
    #[error("{} {problem}; rename it in the repository", path_or(.path, "a path"))]
    Name {
        /// The path, as far as it can be shown; empty where remote texts are withheld.
        path: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// More than one repository may have.
    #[error("it is too large: {what} exceed the limit of {limit}; keep bundles in a smaller one")]
    TooLarge {
        /// Of what there is too much.
        what: &'static str,
        /// How much may be.
        limit: u64,
    },
    /// Objects that cannot be read.
    #[error(
        "its objects are damaged: {problem}; try again, or have the repository checked by \"git fsck\""
    )]
    Damaged {
        /// In which way.
        problem: &'static str,
    },
    /// An object that the server should have sent.
    #[error(
        "{} is missing in what the server sent; try again, or have the repository checked by \"git fsck\"", object(.id)
    )]
    Missing {
        /// Its hash; empty where remote texts are withheld.
        id: String,
    },
    /// Two objects made to have one hash.
    #[error("an object was made to have the SHA-1 of another one; do not trust this repository")]
    Collision,
    /// HTTP.
    #[error(transparent)]
    Web(#[from] web::Error),
    /// The ssh server cannot be reached.
    #[error("failed to reach {host} by ssh; check the address and the network")]
    Connect {
        /// Host and port.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No key for ssh.
    #[error(
        "ssh needs a private key; pass --ssh-key (in a cluster: a Secret with ssh-privatekey and ssh-knownhosts)"
    )]
    KeyNeeded,
    /// A key that cannot be read.
    #[error("the private ssh key cannot be read: {problem}")]
    Key {
        /// Why, and the remedy.
        problem: &'static str,
    },
    /// No key opens the door.
    #[error(
        "{host} refuses {} for user {user:?}; check that its public half may read the repository{}", shown_keys(*.keys), left_out(*.unread)
    )]
    KeyRefused {
        /// Host and port.
        host: String,
        /// As whom.
        user: String,
        /// How many keys it was shown.
        keys: usize,
        /// Why another key could not be shown.
        unread: Option<&'static str>,
    },
    /// An ssh server that nobody vouches for.
    #[error(
        "{host} is not among the known hosts; if {fingerprint} is its key's fingerprint, add {} to the file of --known-hosts (in a cluster: to ssh-knownhosts){}", known_host(.line), quoted(.line)
    )]
    HostUnknown {
        /// Host and port.
        host: String,
        /// Of its key.
        fingerprint: String,
        /// What to add; empty where remote texts are withheld.
        line: String,
    },
    /// An ssh server with another key than it should have.
    #[error(
        "{host} has not the key that the known hosts have for it, but one with the fingerprint {fingerprint}; somebody may stand in between: ask who runs it, and correct the known hosts if it changed"
    )]
    HostChanged {
        /// Host and port.
        host: String,
        /// Of its key.
        fingerprint: String,
    },
    /// An ssh server with a key that is not to be trusted any more.
    #[error(
        "the key of {host} is marked as revoked in the known hosts; ask who runs it for the new one"
    )]
    HostRevoked {
        /// Host and port.
        host: String,
    },
    /// Anything else that ssh stumbles over.
    #[error(
        "failed to talk to {host} by ssh; try again, or check that an ssh server listens there"
    )]
    Ssh {
        /// Host and port.
        host: String,
        /// The cause, which may repeat what the server offers; `None` where remote texts are withheld.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Nothing came for too long.
    #[error("the server sent nothing for {} s; try again later", .idle.as_secs_f64())]
    Idle {
        /// How long.
        idle: Duration,
    },
    /// Something came, but all of it took too long.
    #[error("fetching took longer than {} s; try again over a faster connection, or raise --timeout", .total.as_secs_f64())]
    Slow {
        /// How long.
        total: Duration,
    },
    /// What arrived cannot be kept until it is read.
    #[error("failed to keep what was fetched in a temporary file; check the space there")]
    Spool {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The reading task died.
    #[error("reading the repository was aborted; try again")]
    Aborted,
}

impl Error {
    /// An error of a repository, for tests of other modules.
    #[cfg(test)]
    pub(crate) fn test(repository: &str, problem: Problem) -> Self {
        Self {
            repository: (&url::Url::parse(repository).unwrap()).into(),
            problem: Box::new(problem),
        }
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The kind of failure in one word, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        self.problem.reason()
    }

    /// Whether the same repository fails again however often it is asked.
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
    /// The problem is part of this error's message; what is behind it is not.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.problem)
    }
}

fn shown_keys(keys: usize) -> String {
    match keys {
        1 => "this key".to_owned(),
        keys => format!("each of these {keys} keys"),
    }
}

fn left_out(problem: Option<&str>) -> String {
    problem.map_or_else(String::new, |problem| {
        format!("; another key cannot be read: {problem}")
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
            Self::GivenUp { .. } => "ServerFailed",
            Self::CutShort { .. } => "ConnectionBroken",
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

    /// What is missing today may be pushed tomorrow, but not because we ask again.
    fn is_terminal(&self) -> bool {
        match self {
            Self::Web(error) => error.is_terminal(),
            Self::CutShort { .. }
            | Self::GivenUp { .. }
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

fn told(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" (the server says: {text})")
    }
}

/// Appends the text of a server, unless it is withheld.
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

/// What to write instead.
fn some(others: &[String]) -> String {
    if others.is_empty() {
        "; check the name".to_owned()
    } else {
        format!("; there is: {}", others.join(", "))
    }
}

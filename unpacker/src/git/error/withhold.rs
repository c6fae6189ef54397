//! Removal of server texts from git errors. Pure; no I/O.

use super::{Error, Problem};

impl Error {
    /// Removes texts that the server chose: see [`Quotes::Withheld`](crate::trust::Quotes::Withheld).
    pub(crate) fn withheld(self) -> Self {
        Self {
            repository: self.repository,
            problem: Box::new(self.problem.withheld()),
        }
    }
}

impl Problem {
    /// Removes the texts and names of the server.
    fn withheld(self) -> Self {
        let (said, others) = (String::new(), Vec::new());
        match self {
            Self::NotFound { .. } => Self::NotFound { said },
            Self::Refused { .. } => Self::Refused { said },
            Self::AbortedByServer { .. } => Self::AbortedByServer { said },
            Self::NotGit { found, media_type } => Self::NotGit {
                found: if media_type.is_empty() {
                    found
                } else {
                    "unexpected content type".to_owned()
                },
                media_type: String::new(),
            },
            Self::NoReference { kind, name, .. } => Self::NoReference { kind, name, others },
            Self::NoHead { .. } => Self::NoHead { others },
            Self::NoDirectory {
                directory, problem, ..
            } => Self::NoDirectory {
                directory,
                commit: String::new(),
                problem,
                others,
            },
            Self::TagOfOther { kind, .. } => Self::TagOfOther {
                name: String::new(),
                kind,
            },
            Self::Submodule { .. } => Self::Submodule {
                path: String::new(),
            },
            Self::Name { problem, .. } => Self::Name {
                path: String::new(),
                problem,
            },
            Self::Missing { .. } => Self::Missing { id: String::new() },
            // The fingerprint is not removed, because the user compares it.
            Self::HostUnknown {
                host, fingerprint, ..
            } => Self::HostUnknown {
                host,
                fingerprint,
                line: String::new(),
            },
            Self::Ssh { host, .. } => Self::Ssh { host, source: None },
            Self::Web(error) => Self::Web(error.withheld()),
            problem @ (Self::Scheme
            | Self::Address { .. }
            | Self::CredentialsNeeded
            | Self::CredentialsRefused
            | Self::Protocol { .. }
            | Self::Disconnected { .. }
            | Self::Sha256
            | Self::Ambiguous { .. }
            | Self::NotACommit { .. }
            | Self::NoCommit { .. }
            | Self::TooLarge { .. }
            | Self::Damaged { .. }
            | Self::Collision
            | Self::Connect { .. }
            | Self::KeyNeeded
            | Self::Key { .. }
            | Self::KeyRefused { .. }
            | Self::HostChanged { .. }
            | Self::HostRevoked { .. }
            | Self::Idle { .. }
            | Self::Slow { .. }
            | Self::Spool { .. }
            | Self::Aborted) => problem,
        }
    }
}

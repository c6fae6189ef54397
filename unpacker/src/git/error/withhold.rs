//! Removal of server texts from git errors. Pure; no I/O.

use super::{Error, Problem};

impl Error {
    /// Removes texts that the server chose: see [`Quotes::Withheld`](crate::trust::Quotes::Withheld).
    pub(crate) fn withhold(&mut self) {
        self.problem.withhold();
    }
}

impl Problem {
    /// Removes the texts and names of the server.
    fn withhold(&mut self) {
        match self {
            // The fingerprint of an unknown host is not removed, because the user compares it.
            Self::NotFound { said: text }
            | Self::Refused { said: text }
            | Self::AbortedByServer { said: text }
            | Self::TagOfOther { name: text, .. }
            | Self::Submodule { path: text }
            | Self::Name { path: text, .. }
            | Self::Missing { id: text }
            | Self::HostUnknown { line: text, .. } => text.clear(),
            Self::NotGit { found, media_type } => {
                if !media_type.is_empty() {
                    "unexpected content type".clone_into(found);
                    media_type.clear();
                }
            }
            Self::NoReference { others, .. } | Self::NoHead { others } => others.clear(),
            Self::NoDirectory { commit, others, .. } => {
                commit.clear();
                others.clear();
            }
            Self::Ssh { source, .. } => *source = None,
            Self::Web(error) => error.withhold(),
            Self::Scheme
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
            | Self::Aborted => {}
        }
    }
}

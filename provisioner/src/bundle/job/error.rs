//! Why a node does not bring an image.

use std::time::Duration;

use crate::bundle::fetch::ApiError;

/// The reason why a node does not bring an image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refuses, or does not answer.
    #[error("failed to {what} Job {job}")]
    Api {
        /// What was asked for.
        what: &'static str,
        /// Which.
        job: String,
        /// What it said.
        #[source]
        source: ApiError,
    },
    /// The Job cannot be put into words.
    #[error("failed to describe Job {job}")]
    Own {
        /// Which.
        job: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Something else has its name.
    #[error("there is a Job {job} that does not belong to this Bundle; delete it")]
    Taken {
        /// Which.
        job: String,
    },
    /// What makes it work was taken out on its way into the cluster.
    #[error("Job {job} came into the cluster without {missing}")]
    Altered {
        /// Which.
        job: String,
        /// What, and what can be done.
        missing: &'static str,
    },
    /// The image has an entry that no bundle may have.
    #[error("{message}")]
    Rejected {
        /// Message of the receiver.
        message: String,
    },
    /// It does not go on, and need not be made again.
    #[error("{message}")]
    Stuck {
        /// In words.
        message: String,
    },
    /// It has ended, and another one follows.
    #[error("{message}")]
    Failed {
        /// In words.
        message: String,
        /// After what time.
        again: Duration,
    },
}

impl Error {
    /// The kind of failure in one word, for metrics.
    pub(in crate::bundle) fn reason(&self) -> &'static str {
        match self {
            Self::Api { .. } | Self::Own { .. } => "UnpackJobUnavailable",
            Self::Taken { .. } => "UnpackJobTaken",
            Self::Altered { .. } => "UnpackJobAltered",
            Self::Rejected { .. } => unpacker::Error::ENTRY_REFUSED,
            Self::Stuck { .. } => "UnpackJobStuck",
            Self::Failed { .. } => "UnpackJobFailed",
        }
    }

    /// Reports whether trying again is of no use while nothing else changes.
    pub(in crate::bundle) fn is_terminal(&self) -> bool {
        !matches!(self, Self::Api { .. })
    }
}

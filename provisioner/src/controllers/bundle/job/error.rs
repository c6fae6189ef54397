//! Errors of unpack Jobs.

use std::time::Duration;

use crate::controllers::bundle::fetch::ApiError;

/// Reason why an unpack Job has not delivered the content of an image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the API server failed.
    #[error("failed to {what} Job {job}")]
    Api {
        /// Verb of the request, for the message.
        what: &'static str,
        /// Namespace and name of the Job.
        job: String,
        /// Failure of the request.
        #[source]
        source: ApiError,
    },
    /// The Job could not be serialized.
    #[error("failed to serialize Job {job}")]
    Serialize {
        /// Namespace and name of the Job.
        job: String,
        /// Error of the serializer.
        #[source]
        source: serde_json::Error,
    },
    /// A Job of the same name belongs to another owner.
    #[error("Job {job} already exists and does not belong to this Bundle; delete it")]
    NameConflict {
        /// Namespace and name of the Job.
        job: String,
    },
    /// Admission removed a part of the Job that it needs to work.
    #[error("Job {job} was created without {missing}")]
    Mutated {
        /// Namespace and name of the Job.
        job: String,
        /// Removed part, with the remedy.
        missing: &'static str,
    },
    /// The image has an entry that bundles must not contain.
    #[error("{message}")]
    Rejected {
        /// Message of the receiver.
        message: String,
    },
    /// The Job makes no progress, and a new one would not help.
    #[error("{message}")]
    Stuck {
        /// Message of the condition.
        message: String,
    },
    /// The Job failed, and another one follows.
    #[error("{message}")]
    Failed {
        /// Message of the condition.
        message: String,
        /// Delay before the next Job.
        requeue_after: Duration,
    },
}

impl Error {
    /// Returns the kind of failure as one word, for metrics.
    pub(in crate::controllers::bundle) fn reason(&self) -> &'static str {
        match self {
            Self::Api { .. } | Self::Serialize { .. } => "UnpackJobUnavailable",
            Self::NameConflict { .. } => "UnpackJobTaken",
            Self::Mutated { .. } => "UnpackJobAltered",
            Self::Rejected { .. } => unpacker::Error::ENTRY_REFUSED,
            Self::Stuck { .. } => "UnpackJobStuck",
            Self::Failed { .. } => "UnpackJobFailed",
        }
    }

    /// Reports whether a retry is pointless until something else changes.
    pub(in crate::controllers::bundle) fn is_terminal(&self) -> bool {
        !matches!(self, Self::Api { .. })
    }
}

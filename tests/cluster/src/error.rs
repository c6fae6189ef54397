//! Errors between a test and its cluster.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use kube::core::GroupVersionKind;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a cluster or of a request to it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Indicates that a program could not be built from source, or is missing.
    #[error("{0}")]
    Program(String),

    /// Indicates that a node cannot run on this machine.
    #[error("a node cannot run here: {0}")]
    Machine(String),

    /// Indicates that a process of the control plane ended by itself.
    #[error("{name} ended with {status}; the end of its log:\n{log}")]
    Died {
        /// The process's name.
        name: &'static str,
        /// The exit status.
        status: ExitStatus,
        /// The last lines of the process's log.
        log: String,
    },

    /// Indicates that a test tried to stop a program that this process did not start.
    #[error("{0} is no process of this cluster; start a cluster with it for a test that stops it")]
    NotStarted(&'static str),

    /// Indicates that an expected state was not reached within the timeout.
    #[error("timed out after {} s waiting until {expectation}{detail}", .after.as_secs())]
    Timeout {
        /// The expected state.
        expectation: String,
        /// The timeout.
        after: Duration,
        /// The observed state.
        detail: String,
    },

    /// Indicates that a value to apply is not an object, or lacks a field that every object needs.
    #[error("not a Kubernetes object: {0}")]
    NotAnObject(&'static str),

    /// Indicates that the cluster does not serve a kind.
    #[error("the cluster does not know {} {}", .0.api_version(), .0.kind)]
    UnknownKind(GroupVersionKind),

    /// Indicates that a request to the API server failed.
    #[error("failed to {doing}")]
    Api {
        /// The purpose of the request.
        doing: String,
        /// The client's error.
        source: Box<kube::Error>,
    },

    /// Indicates that the control plane's keys could not be generated.
    #[error("failed to make keys and certificates")]
    Keys(#[from] rcgen::Error),

    /// Indicates that a call of the operating system failed.
    #[error("failed to {doing}")]
    Io {
        /// The action that failed.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |source| Self::Io { doing, source }
    }

    pub(crate) fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        |source| Self::Api {
            doing,
            source: Box::new(source),
        }
    }

    pub(crate) fn timeout(expectation: impl Into<String>, after: Duration, detail: String) -> Self {
        let expectation = expectation.into();
        Self::Timeout {
            expectation,
            after,
            detail,
        }
    }

    /// Returns true if another process took a port after it was chosen and before the server bound it.
    pub(crate) fn is_port_clash(&self) -> bool {
        matches!(self, Self::Died { log, .. } if log.contains("address already in use"))
    }
}

//! Errors between a test and its cluster.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use kube::core::GroupVersionKind;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a cluster or of a request to it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Indicates that the control plane could not be built from source; the script prints the reason to stderr.
    #[error("failed to build the control plane: {script} ended with {status}")]
    Build {
        /// The script that builds it.
        script: PathBuf,
        /// The exit status.
        status: ExitStatus,
    },

    /// Indicates that a directory of tools lacks a required program.
    #[error("no {program} in {folder}, the directory that {chosen_by} names")]
    Missing {
        /// The program's file name.
        program: &'static str,
        /// The directory that should contain the program.
        folder: PathBuf,
        /// The setting that chose the directory.
        chosen_by: &'static str,
    },

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
    #[error("{what} did not happen within {} s{detail}", .after.as_secs())]
    Timeout {
        /// The expected state.
        what: String,
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

    /// Indicates that a kubeconfig file cannot be used.
    #[error("failed to use the kubeconfig {path}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The problem of the file.
        source: Box<kube::config::KubeconfigError>,
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

    /// Returns true if another process took a port after it was chosen and before the server bound it.
    pub(crate) fn is_port_clash(&self) -> bool {
        matches!(self, Self::Died { log, .. } if log.contains("address already in use"))
    }
}

//! What can go wrong between a test and its cluster.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use kube::core::GroupVersionKind;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no cluster, or why it did not do what a test asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Indicates that the control plane could not be built from source; the script has said why on stderr.
    #[error("failed to build the control plane: {script} ended with {status}")]
    Build {
        /// The script that builds it.
        script: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },

    /// Indicates that a folder of tools lacks a program that is needed.
    #[error("no {program} in {folder}, the folder that {chosen_by} names")]
    Missing {
        /// The program's file name.
        program: &'static str,
        /// The folder that should have it.
        folder: PathBuf,
        /// What made this folder the one to look in.
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
        /// How it ended.
        status: ExitStatus,
        /// The last lines it wrote.
        log: String,
    },

    /// Indicates that a test wants to stop what was not started here.
    #[error("{0} is no process of this cluster; start a cluster with it for a test that stops it")]
    NotStarted(&'static str),

    /// Indicates that something did not come true in time.
    #[error("{what} did not happen within {} s{detail}", .after.as_secs())]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        after: Duration,
        /// What was seen instead.
        detail: String,
    },

    /// Indicates that an object to apply is not an object, or lacks a field every object needs.
    #[error("not a Kubernetes object: {0}")]
    NotAnObject(&'static str),

    /// Indicates that the cluster does not serve a kind.
    #[error("the cluster does not know {} {}", .0.api_version(), .0.kind)]
    UnknownKind(GroupVersionKind),

    /// Indicates that a request to the API server failed.
    #[error("failed to {doing}")]
    Api {
        /// What the request was for.
        doing: String,
        /// The client's error.
        source: Box<kube::Error>,
    },

    /// Indicates that a kubeconfig file cannot be used.
    #[error("failed to use the kubeconfig {path}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },

    /// Indicates that the control plane's keys could not be made.
    #[error("failed to make keys and certificates")]
    Keys(#[from] rcgen::Error),

    /// Indicates that the operating system refused something.
    #[error("failed to {doing}")]
    Io {
        /// What was tried.
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

    /// Whether another process took a port between our choosing it and our server's binding it.
    pub(crate) fn is_port_clash(&self) -> bool {
        matches!(self, Self::Died { log, .. } if log.contains("address already in use"))
    }
}

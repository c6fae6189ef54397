//! Flags for the cluster and the user, as in kubectl.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use manifests::names;

use super::duration;

/// Cluster that the command uses.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Kubeconfig file. Default: the files of $KUBECONFIG, ~/.kube/config, or the service account of the pod.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig, instead of the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Cluster of the kubeconfig, instead of the context's cluster.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// User of the kubeconfig, instead of the context's user.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// User to impersonate.
    #[arg(long = "as", value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// Group to impersonate; may be repeated.
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    pub(crate) as_groups: Vec<String>,
    /// Timeout for a server that does not respond; 0 means no timeout.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::read)]
    pub(crate) request_timeout: Duration,
    /// Namespace of the provisioner.
    #[arg(long, value_name = "NAMESPACE", default_value = "rukpak-system", value_parser = namespace)]
    pub(crate) system_namespace: String,
}

/// Parses the name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, &'static str> {
    names::dns_label(text).map(|()| text.to_owned())
}

//! Which cluster, and as whom: the flags of kubectl.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use manifests::names;

use super::duration;

/// Which cluster is talked to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Kubeconfig file. Otherwise the files of $KUBECONFIG, ~/.kube/config, or what every pod is given.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig, instead of the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Cluster of the kubeconfig, instead of the context's.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// User of the kubeconfig, instead of the context's.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// User to impersonate.
    #[arg(long = "as", value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// Group to impersonate; may be repeated.
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    pub(crate) as_groups: Vec<String>,
    /// How long the server may keep silent; 0 is for ever.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::read)]
    pub(crate) request_timeout: Duration,
    /// The namespace of the provisioner.
    #[arg(long, value_name = "NAMESPACE", default_value = "rukpak-system", value_parser = namespace)]
    pub(crate) system_namespace: String,
}

/// A namespace's name.
pub(super) fn namespace(text: &str) -> Result<String, &'static str> {
    names::dns_label(text).map(|()| text.to_owned())
}

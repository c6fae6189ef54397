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

/// Parses the name of a BundleInstance, alone or with the kind, as kubectl and `-o name` print it. The server checks whether the
/// object exists.
pub(super) fn name(text: &str) -> Result<String, &'static str> {
    let is_instance = |kind: &str| {
        let kind = kind.strip_suffix(".core.rukpak.io").unwrap_or(kind);
        ["bi", "bis", "bundleinstance", "bundleinstances"].contains(&kind)
    };
    let name = match text.split_once('/') {
        Some((kind, name)) if is_instance(kind) => name,
        _ => text,
    };
    names::dns_subdomain(name).map(|()| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_the_kind_of_bundle_instances() {
        for (text, expected) in ::tests::rows![
            "tide" => Ok("tide");
            "bundleinstance.core.rukpak.io/tide" => Ok("tide");
            "bundleinstances/tide.v1" => Ok("tide.v1");
            "bi/tide" => Ok("tide");
            "bi/a/b" => Err("must consist of*");
            "pod/tide" => Err("must consist of*");
            "bundleinstance.example.com/tide" => Err("must consist of*");
            "bi/" => Err("*");
        ] {
            ::tests::table::assert_outcome(name(text), expected.map(str::to_owned), text);
        }
    }
}

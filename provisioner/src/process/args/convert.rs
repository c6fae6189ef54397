//! `provisioner convert-catalogsources`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{Address, LogFormat, own_namespace, values};
use crate::conversion;

/// Convert CatalogSources between v1alpha1 and v1 for the apiserver, and nothing else: what the webhook's pods run
///
/// Two of them run, so that there is always one. They keep an authority of their own, and tell the definition of CatalogSources
/// to believe it, if that is ours.
#[derive(Debug, Args)]
pub(in crate::process) struct ConvertArgs {
    /// The kubeconfig of the cluster; without it KUBECONFIG, ~/.kube/config, or what every pod is given
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::process) kubeconfig: Option<PathBuf>,
    /// The namespace of the webhook's Service; by default that of this pod, or rukpak-system outside a pod
    #[arg(long, value_name = "NAMESPACE", value_parser = values::label)]
    namespace: Option<String>,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = ":8443")]
    bind_address: Address,
    /// Serve with this Secret of the namespace, type kubernetes.io/tls, that somebody else keeps, and not with an authority
    /// of its own
    #[arg(long, value_name = "NAME", value_parser = values::label)]
    tls_secret: Option<String>,
    /// error, warn, info, debug, trace, or directives of tracing's EnvFilter
    #[arg(long, value_name = "LEVEL", value_parser = values::log_level, default_value = "info")]
    pub(in crate::process) log_level: String,
    /// json for machines, text for people
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Json, hide_possible_values = true)]
    pub(in crate::process) log_format: LogFormat,
}

// === impl ConvertArgs ===

impl ConvertArgs {
    /// What the webhook is told.
    pub(in crate::process) fn options(&self) -> conversion::Options {
        let default = conversion::Options::default();
        conversion::Options {
            bind: self.bind_address.socket().unwrap_or(default.bind),
            namespace: self.namespace.clone().unwrap_or_else(own_namespace),
            tls_secret: self.tls_secret.clone(),
        }
    }
}

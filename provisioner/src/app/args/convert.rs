//! Arguments of `provisioner convert-catalogsources`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{ListenAddress, own_namespace, values};
use crate::{conversion_webhook, runtime::log::LogFormat};

/// Convert CatalogSources between v1alpha1 and v1 for the API server; the program of the webhook pods
///
/// Two replicas run, so that one is always available. They manage their own CA, and set the CA bundle in the CRD of
/// CatalogSources, if rukpak manages that CRD.
#[derive(Debug, Args)]
pub(in crate::app) struct ConvertArgs {
    /// Path of the kubeconfig file; by default KUBECONFIG, ~/.kube/config or the configuration of the pod
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::app) kubeconfig: Option<PathBuf>,
    /// Namespace of the webhook Service; by default the namespace of this pod, or rukpak-system outside a pod
    #[arg(long, value_name = "NAMESPACE", value_parser = values::label)]
    namespace: Option<String>,
    /// Listen address of the webhook
    #[arg(long, value_name = "ADDRESS", default_value = ":8443")]
    bind_address: ListenAddress,
    /// Secret of the namespace, of type kubernetes.io/tls and managed by another tool, with the serving certificate; by
    /// default the webhook uses its own CA
    #[arg(long, value_name = "NAME", value_parser = values::subdomain)]
    tls_secret: Option<String>,
    /// Log level: error, warn, info, debug, trace, or directives of tracing's EnvFilter
    #[arg(long, value_name = "LEVEL", value_parser = values::log_level, default_value = "info")]
    pub(in crate::app) log_level: String,
    /// Log format: json for machines, text for people
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Json, hide_possible_values = true)]
    pub(in crate::app) log_format: LogFormat,
}

// === impl ConvertArgs ===

impl ConvertArgs {
    /// Returns the options of the webhook.
    pub(in crate::app) fn options(&self) -> conversion_webhook::Options {
        let default = conversion_webhook::Options::default();
        conversion_webhook::Options {
            bind: self.bind_address.socket().unwrap_or(default.bind),
            namespace: self.namespace.clone().unwrap_or_else(own_namespace),
            tls_secret: self.tls_secret.clone(),
        }
    }
}

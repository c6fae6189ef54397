//! `rukpak run bundle`, `rukpak run bundle-upgrade` and `rukpak cleanup`: the command line of operator-sdk.

use std::time::Duration;

use catalog::compose::{DEFAULT_INDEX, history::Mode};
use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::{
    ClusterArgs, duration,
    install_mode::InstallMode,
    values::{NonEmpty, namespace, non_empty, one_of, with_names},
};

/// Run a bundle under development in a cluster, and upgrade it.
///
/// The command line is that of operator-sdk, so that existing scripts work.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
    #[command(subcommand)]
    pub(crate) command: RunCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    Bundle(Box<RunBundleArgs>),
    BundleUpgrade(Box<RunUpgradeArgs>),
}

/// Engine that installs bundles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// The engine that the cluster has.
    #[default]
    Auto,
    /// OLM: a CatalogSource and a Subscription.
    Olm,
    /// rukpak: a BundleInstance.
    Native,
}

/// Security context of the pod that serves a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecurityContext {
    /// The defaults of the namespace.
    Legacy,
    /// The pod security standard "restricted".
    Restricted,
}

/// Install a bundle from its image.
///
/// First, the image is pulled and checked on this machine with the user's credentials. The bundle must form a valid
/// file-based catalog, alone or in --index-image, and the cluster must meet its constraints. Then it is installed, and the
/// command waits until the operator is healthy.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak run bundle quay.io/example/tidewatch-bundle:v1.4.0
  # Into a chosen namespace, with a longer timeout
  rukpak run bundle quay.io/example/tidewatch-bundle:v1.4.0 -n tides \\
    --timeout 5m")]
pub(crate) struct RunBundleArgs {
    /// Image of the bundle.
    #[arg(value_name = "BUNDLE-IMAGE")]
    pub(crate) image: String,
    /// Image of a catalog to which the bundle is added; the default and any other image of opm mean no catalog.
    #[arg(long, value_name = "IMAGE", default_value = DEFAULT_INDEX)]
    pub(crate) index_image: String,
    /// Namespaces that the operator watches: AllNamespaces, OwnNamespace, SingleNamespace=NAMESPACE or
    /// MultiNamespace=NAMESPACE,NAMESPACE.
    #[arg(long, value_name = "MODE", default_value = "", hide_default_value = true, value_parser = non_empty::<InstallMode>)]
    pub(crate) install_mode: NonEmpty<InstallMode>,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

/// Upgrade an operator that "run bundle" or another tool installed to the next version.
///
/// The earlier versions are known from annotations, or from the installed bundle. All of them and the new one must form a
/// valid file-based catalog in which each version replaces the previous one. The running operator is unchanged until the
/// new version can replace it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak run bundle-upgrade quay.io/example/tidewatch-bundle:v1.5.0
  # Roll back if the new version is not healthy; not supported with OLM
  rukpak run bundle-upgrade quay.io/example/tidewatch-bundle:v1.5.0 \\
    --rollback-on-failure")]
pub(crate) struct RunUpgradeArgs {
    /// Image of the bundle.
    #[arg(value_name = "BUNDLE-IMAGE")]
    pub(crate) image: String,
    /// Roll back to the previous version if the new one is not healthy in time. The exit code is still 1. Rejected with
    /// OLM.
    #[arg(long)]
    pub(crate) rollback_on_failure: bool,
    /// Accept a version that is not newer than the installed one, as after a rebuild. Rejected with OLM.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

/// Flags of both commands.
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// Engine that installs the bundle: OLM or rukpak.
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    pub(crate) engine: Engine,
    /// Mode in which the bundle is added to an SQLite index.
    #[arg(long, value_name = "MODE", hide = true, default_value = "", hide_default_value = true, value_parser = non_empty::<Mode>)]
    pub(crate) mode: NonEmpty<Mode>,
    /// Pull secret for the bundle in the cluster: in the provisioner's namespace, with OLM in the operator's.
    #[arg(long, value_name = "SECRET", default_value = "", hide_default_value = true, value_parser = non_empty::<String>)]
    pub(crate) pull_secret_name: NonEmpty<String>,
    /// Secret in the provisioner's namespace with a CA certificate for pulling the bundle, under the key cert.pem; ignored
    /// with OLM.
    #[arg(long, value_name = "SECRET", default_value = "", hide_default_value = true, value_parser = non_empty::<String>)]
    pub(crate) ca_secret_name: NonEmpty<String>,
    /// Like --use-http.
    #[arg(long, hide = true)]
    pub(crate) skip_tls: bool,
    /// Skip TLS verification of registries.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true")]
    pub(crate) skip_tls_verify: bool,
    /// Use plain HTTP for registries.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true")]
    pub(crate) use_http: bool,
    /// Pull policy of the image of the pod that serves the catalog.
    #[arg(long, value_name = "POLICY", default_value = "", hide_default_value = true, value_parser = one_of(&["Always", "IfNotPresent", "Never"]))]
    pub(crate) image_pull_policy: NonEmpty<String>,
    /// Image that serves the catalog in the cluster: rukpak's provisioner, or one that accepts "serve DIR -p PORT", as opm.
    #[arg(long, value_name = "IMAGE", default_value = "", hide_default_value = true, value_parser = non_empty::<String>)]
    pub(crate) registry_image: NonEmpty<String>,
    /// Image with sh and gzip that unpacks the catalog, if --registry-image is not rukpak's provisioner.
    #[arg(long, value_name = "IMAGE", default_value = "", hide_default_value = true, value_parser = non_empty::<String>)]
    pub(crate) decompression_image: NonEmpty<String>,
    /// Security context of the pod that serves the catalog.
    #[arg(long, value_name = "CONTEXT", value_parser = with_names(security_context, &["legacy", "restricted"]))]
    pub(crate) security_context_config: Option<SecurityContext>,
    /// ServiceAccount of the pod that serves the catalog.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = non_empty::<String>)]
    pub(crate) service_account: NonEmpty<String>,
    /// Namespace of the operator, instead of the one that the bundle suggests; with OLM, instead of the namespace of the
    /// kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "", hide_default_value = true, value_parser = namespace)]
    pub(crate) namespace: NonEmpty<String>,
    /// Timeout of the whole command; 0 means no timeout.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::read)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Flags of every operator-sdk command, for scripts that pass them, also before the subcommand.
#[derive(Debug, Args)]
pub(crate) struct SdkArgs {
    /// No effect: the output is always complete.
    #[arg(long, hide = true)]
    pub(crate) verbose: bool,
    /// No effect: plugins are not supported.
    #[arg(long, value_name = "PLUGINS", hide = true)]
    pub(crate) plugins: Vec<String>,
}

/// Remove what "run bundle" installed.
///
/// Succeeds if the package is not installed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak cleanup tidewatch
  # Keep its CRDs and custom resources
  rukpak cleanup tidewatch --delete-all=false")]
pub(crate) struct CleanupArgs {
    /// Package of the operator.
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    /// Delete everything; --delete-crds and --delete-operator-groups take precedence.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    pub(crate) delete_all: bool,
    /// Delete the operator's CRDs with all custom resources; the default is the value of --delete-all.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    pub(crate) delete_crds: Option<bool>,
    /// Delete the OperatorGroup that was created for the operator, if it is unused; the default is the value of --delete-all.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    pub(crate) delete_operator_groups: Option<bool>,
    /// Engine that installed the operator.
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    pub(crate) engine: Engine,
    /// Namespace of the operator; one in another namespace is kept. With OLM, instead of that of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "", hide_default_value = true, value_parser = namespace)]
    pub(crate) namespace: NonEmpty<String>,
    /// No effect.
    #[arg(long, value_name = "NAME", hide = true, default_value = "", hide_default_value = true, value_parser = non_empty::<String>)]
    pub(crate) service_account: NonEmpty<String>,
    /// Timeout of the whole command; 0 means no timeout.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::read)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

// === impl RegistryArgs ===

impl RegistryArgs {
    /// Reports whether certificates of registries are verified.
    pub(crate) fn verify_tls(&self) -> bool {
        !(self.skip_tls || self.skip_tls_verify || self.use_http)
    }
}

// === impl CleanupArgs ===

impl CleanupArgs {
    /// Reports whether CRDs are deleted with all custom resources.
    pub(crate) fn deletes_crds(&self) -> bool {
        self.delete_crds.unwrap_or(self.delete_all)
    }

    /// Reports whether an unused OperatorGroup is deleted.
    pub(crate) fn deletes_operator_groups(&self) -> bool {
        self.delete_operator_groups.unwrap_or(self.delete_all)
    }
}

/// Parses a security context; the error has operator-sdk's message.
fn security_context(text: &str) -> Result<SecurityContext, &'static str> {
    match text {
        "legacy" => Ok(SecurityContext::Legacy),
        "restricted" => Ok(SecurityContext::Restricted),
        _ => Err("must be one of \"legacy\", or \"restricted\""),
    }
}

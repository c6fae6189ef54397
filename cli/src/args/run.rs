//! `rukpak run bundle`, `rukpak run bundle-upgrade` and `rukpak cleanup`: the command line of operator-sdk.

use std::time::Duration;

use catalog::inject::{DEFAULT_INDEX, history::Mode};
use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::{
    ClusterArgs, duration,
    values::{Said, boolean, namespace, one_of, said},
};
use crate::run::install_mode::InstallMode;

/// Run a bundle that is being worked on in a cluster, and its next version.
///
/// The command line is that of operator-sdk, so that scripts carry over.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(subcommand)]
    pub(crate) command: RunCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    Bundle(Box<RunBundleArgs>),
    BundleUpgrade(Box<RunUpgradeArgs>),
}

/// What installs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// What the cluster has.
    #[default]
    Auto,
    /// OLM: a CatalogSource and a Subscription.
    Olm,
    /// rukpak: a BundleInstance.
    Native,
}

/// What the pod of a catalog may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecurityContext {
    /// What the namespace's defaults give it.
    Legacy,
    /// As little as the pod security standard "restricted" asks for.
    Restricted,
}

/// Install a bundle from its image.
///
/// The image is pulled and checked on this machine first, with the credentials of whoever runs the command: the bundle must
/// make a valid file-based catalog, alone or in --index-image, and the cluster must be one it may run on. Then it is
/// installed, and the command waits until the operator works.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak run bundle quay.io/example/tidewatch-bundle:v1.4.0
  # Into a namespace of choice, with more time
  rukpak run bundle quay.io/example/tidewatch-bundle:v1.4.0 -n tides --timeout 5m")]
pub(crate) struct RunBundleArgs {
    /// The image of the bundle.
    #[arg(value_name = "BUNDLE-IMAGE")]
    pub(crate) image: String,
    /// Image of a catalog that the bundle is added to; the default stands for none, as any other of opm does.
    #[arg(long, value_name = "IMAGE", default_value = DEFAULT_INDEX)]
    pub(crate) index_image: String,
    /// What the operator watches: AllNamespaces, OwnNamespace, SingleNamespace=NAMESPACE or
    /// MultiNamespace=NAMESPACE,NAMESPACE.
    #[arg(long, value_name = "MODE", default_value = "", hide_default_value = true, value_parser = said::<InstallMode>)]
    pub(crate) install_mode: Said<InstallMode>,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

/// Upgrade what "run bundle" has installed, or what was installed in another way, to the next version.
///
/// The versions that were run before are known from annotations, or told from what is installed. All of them and the new one
/// must make a valid file-based catalog, each replacing the one before. The operator that runs is left alone until the new
/// version can take its place.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak run bundle-upgrade quay.io/example/tidewatch-bundle:v1.5.0
  # Back to what ran before if the new version does not work; not with OLM, which goes to no version but the next
  rukpak run bundle-upgrade quay.io/example/tidewatch-bundle:v1.5.0 --rollback-on-failure")]
pub(crate) struct RunUpgradeArgs {
    /// The image of the bundle.
    #[arg(value_name = "BUNDLE-IMAGE")]
    pub(crate) image: String,
    /// Go back to the version before if the new one does not work in time. The exit code is 1 nevertheless. Refused with
    /// OLM.
    #[arg(long)]
    pub(crate) rollback_on_failure: bool,
    /// Take a version that is not newer than what is installed, as after a rebuild. Refused with OLM.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

/// What both commands take.
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    /// What installs: OLM, or rukpak.
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    pub(crate) engine: Engine,
    /// How the bundle is added to an SQLite index.
    #[arg(long, value_name = "MODE", hide = true, default_value = "", hide_default_value = true, value_parser = said::<Mode>)]
    pub(crate) mode: Said<Mode>,
    /// Secret that the bundle is pulled with in the cluster: in the provisioner's namespace, with OLM in the operator's.
    #[arg(long, value_name = "SECRET", default_value = "", hide_default_value = true, value_parser = said::<String>)]
    pub(crate) pull_secret_name: Said<String>,
    /// Secret of the provisioner's namespace with the certificate of an authority that it is to believe when it pulls the
    /// bundle, under the key cert.pem; with OLM it means nothing.
    #[arg(long, value_name = "SECRET", default_value = "", hide_default_value = true, value_parser = said::<String>)]
    pub(crate) ca_secret_name: Said<String>,
    /// As --use-http.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", value_parser = boolean(), hide = true)]
    pub(crate) skip_tls: bool,
    /// Whether registries need not prove who they are.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", value_parser = boolean())]
    pub(crate) skip_tls_verify: bool,
    /// Whether registries speak plain HTTP.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", value_parser = boolean())]
    pub(crate) use_http: bool,
    /// When the image of the pod that serves the catalog is pulled.
    #[arg(long, value_name = "POLICY", default_value = "", hide_default_value = true, value_parser = one_of(&["Always", "IfNotPresent", "Never"]))]
    pub(crate) image_pull_policy: Said<String>,
    /// Image that serves the catalog in the cluster: rukpak's provisioner, or one that takes "serve FOLDER -p PORT", as opm's.
    #[arg(long, value_name = "IMAGE", default_value = "", hide_default_value = true, value_parser = said::<String>)]
    pub(crate) registry_image: Said<String>,
    /// Image with sh and gzip that unpacks the catalog, where --registry-image is not rukpak's provisioner.
    #[arg(long, value_name = "IMAGE", default_value = "", hide_default_value = true, value_parser = said::<String>)]
    pub(crate) decompression_image: Said<String>,
    /// What the pod that serves the catalog may do: legacy or restricted.
    #[arg(long, value_name = "CONTEXT", value_parser = security_context)]
    pub(crate) security_context_config: Option<SecurityContext>,
    /// ServiceAccount of the pod that serves the catalog.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = said::<String>)]
    pub(crate) service_account: Said<String>,
    /// Where the operator goes, instead of where the bundle suggests; with OLM, instead of the namespace of the
    /// kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "", hide_default_value = true, value_parser = namespace)]
    pub(crate) namespace: Said<String>,
    /// How long the whole command may take; 0 is for ever.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::read)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Flags that every command of operator-sdk has, for scripts that pass them.
#[derive(Debug, Args)]
pub(crate) struct SdkArgs {
    /// Nothing is kept back without it.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", value_parser = boolean(), hide = true)]
    pub(crate) verbose: bool,
    /// There are no plugins.
    #[arg(long, value_name = "PLUGINS", hide = true)]
    pub(crate) plugins: Vec<String>,
}

/// Remove what "run bundle" has installed.
///
/// It is no failure if there is nothing of that package.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak cleanup tidewatch
  # Keep its custom resources, and their definitions
  rukpak cleanup tidewatch --delete-all=false")]
pub(crate) struct CleanupArgs {
    /// The package of the operator.
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    /// Delete everything: as --delete-crds and --delete-operator-groups.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true", value_parser = boolean())]
    pub(crate) delete_all: bool,
    /// Delete the definitions of its custom resources, and all custom resources with them.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", value_parser = boolean())]
    pub(crate) delete_crds: bool,
    /// Delete the OperatorGroup that was made for it, if nobody else needs it.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", value_parser = boolean())]
    pub(crate) delete_operator_groups: bool,
    /// What it was installed with.
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    pub(crate) engine: Engine,
    /// Where the operator is: one of another namespace stays. With OLM, instead of the namespace of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "", hide_default_value = true, value_parser = namespace)]
    pub(crate) namespace: Said<String>,
    /// Means nothing.
    #[arg(long, value_name = "NAME", hide = true, default_value = "", hide_default_value = true, value_parser = said::<String>)]
    pub(crate) service_account: Said<String>,
    /// How long the whole command may take; 0 is for ever.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::read)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

// === impl RegistryArgs ===

impl RegistryArgs {
    /// Whether registries must prove who they are.
    pub(crate) fn verifies(&self) -> bool {
        !(self.skip_tls || self.skip_tls_verify || self.use_http)
    }
}

// === impl CleanupArgs ===

impl CleanupArgs {
    /// Whether definitions go, and all custom resources with them.
    pub(crate) fn deletes_definitions(&self) -> bool {
        self.delete_all || self.delete_crds
    }
}

/// In operator-sdk's words.
fn security_context(text: &str) -> Result<SecurityContext, &'static str> {
    match text {
        "legacy" => Ok(SecurityContext::Legacy),
        "restricted" => Ok(SecurityContext::Restricted),
        _ => Err("must be one of \"legacy\", or \"restricted\""),
    }
}

//! Commands that use a cluster.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum, ValueHint};

use super::{
    AccessArgs, ClusterArgs, DescriptionFormat, LimitArgs, ManifestFormat,
    cluster::{name, namespace},
    duration,
};

/// Output format of a command that changes an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChangeFormat {
    /// A sentence.
    #[default]
    Text,
    /// `bundleinstance.core.rukpak.io/NAME`
    Name,
    /// The changed object.
    Json,
    /// The changed object.
    Yaml,
}

/// Dry-run mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Apply the changes.
    #[default]
    None,
    /// Let the server validate the changes without storing them.
    Server,
}

/// Dry-run mode of a command whose result is known without the API server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRunMode {
    /// Apply the changes.
    #[default]
    None,
    /// Print the changed object without sending the changes.
    Client,
    /// Let the server validate the changes without storing them.
    Server,
}

impl From<DryRun> for DryRunMode {
    fn from(dry_run: DryRun) -> Self {
        match dry_run {
            DryRun::None => Self::None,
            DryRun::Server => Self::Server,
        }
    }
}

/// Format of a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryFormat {
    #[default]
    #[value(alias = "text")]
    Table,
    Json,
    Yaml,
}

/// Policy for the CRDs of an instance on uninstall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefinitionPolicy {
    /// Keep them and all custom resources.
    Retain,
    /// Keep those that have custom resources.
    DeleteIfUnused,
    /// Delete them and all custom resources.
    Delete,
}

/// Policy for the objects of an instance on uninstall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cascade {
    /// Let the provisioner delete them by the policies of the instance.
    #[default]
    Background,
    /// Let the garbage collector delete all but CRDs and Namespaces, in no particular order.
    Foreground,
    /// Keep them.
    Orphan,
}

/// Format of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ContentFormat {
    /// registry+v1
    Registry,
    /// plain+v0
    Plain,
}

/// Show BundleInstances with their version, health and problems.
///
/// With NAME: the BundleInstance with its Bundles and objects as a tree, and its latest problem with a remedy. Without
/// NAME: a table of all BundleInstances.
///
/// All data is read from the statuses that the provisioner writes, so that the permission to read BundleInstances and
/// Bundles is enough.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # What is installed?
  rukpak status
  # What is wrong with one?
  rukpak status tidewatch
  # All objects, also of a large instance
  rukpak status tidewatch --all")]
pub(crate) struct StatusArgs {
    /// Name of the BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Format of the output.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: DescriptionFormat,
    /// List every object. By default, kinds with many healthy objects are only counted.
    #[arg(long, requires = "name")]
    pub(crate) all: bool,
    /// Keep running, and print a line for every change.
    #[arg(short, long, conflicts_with_all = ["output", "all"])]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Stop changes to the objects of a BundleInstance until "resume".
///
/// Nothing is installed, upgraded or repaired while paused. Health is still reported, and the instance can be uninstalled.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # Change objects by hand that would be repaired otherwise
  rukpak pause tidewatch")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Resume a paused BundleInstance.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak resume tidewatch")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Arguments of a small change of an instance.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Name of the BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Format of the output.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: ChangeFormat,
    /// Dry-run mode.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Install or upgrade a bundle: create or change its BundleInstance, and wait until it is healthy.
///
/// The provisioner fetches an image, a commit or an archive behind a URL. A directory or an archive on this machine is
/// checked locally and uploaded through a port-forward to the provisioner. Changed content creates another Bundle, and the
/// same content does not.
///
/// Waits until all objects are applied and healthy. On failure, the reason is printed and the exit code is 1. The
/// BundleInstance is kept, and the provisioner retries where that can help.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # From a registry
  rukpak install tidewatch quay.io/example/tidewatch-bundle:v1.4.0
  # A bundle under development, into a chosen namespace
  rukpak install tidewatch ./bundle -n tides
  # Show the request, and whether the server accepts it
  rukpak install tidewatch ./bundle --dry-run=server -o yaml
  # Write the manifest for GitOps, without a cluster
  rukpak install tidewatch quay.io/example/tidewatch-bundle:v1.4.0 \\
    --dry-run=client -o yaml")]
pub(crate) struct InstallArgs {
    /// Name of the BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Directory, archive, image, git repository or URL, as for "rukpak convert".
    #[arg(value_name = "BUNDLE", value_hint = ValueHint::AnyPath)]
    pub(crate) bundle: OsString,
    /// Namespace of namespaced objects, instead of the one that the bundle suggests. Cannot be changed later.
    #[arg(short = 'n', long, visible_alias = "namespace", value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) install_namespace: Option<String>,
    /// Format of the bundle. Default: detected from the content of an upload, and registry for other sources.
    #[arg(long, value_enum)]
    pub(crate) class: Option<ContentFormat>,
    /// ServiceAccount with whose permissions the objects are applied, as NAMESPACE:NAME.
    #[arg(long, value_name = "ACCOUNT", value_parser = account)]
    pub(crate) service_account: Option<(String, String)>,
    /// Pull secret for images, in the namespace of the provisioner.
    #[arg(long, value_name = "SECRET")]
    pub(crate) pull_secret: Option<String>,
    /// Verify the TLS certificate of the image's registry.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    pub(crate) tls_verify: bool,
    /// Take ownership of BundleInstance fields that other field managers set.
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    /// Dry-run mode. "client" prints the BundleInstance of a new installation and contacts no cluster.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRunMode,
    /// Format of the output.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: ChangeFormat,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Show what installing a bundle, or rolling out a recorded revision, would change in the cluster.
///
/// The bundle is converted locally, for the BundleInstance's namespace and the server's version. The server computes the
/// result for each object with a dry run of the provisioner's changes. Permissions that service accounts gain and lose are
/// printed first, then the objects to create, to change and to prune, then the fields. The values of Secrets are masked.
/// The command needs the permissions to read and to patch these objects.
///
/// With --revision, the recorded objects of that revision are compared instead of a bundle. This also needs the permission
/// to get Secrets in the namespace of the provisioner.
///
/// The exit code is 0 without differences, 1 with differences, and 2 if an error occurred or a change would be rejected.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # What would another version change?
  rukpak diff tidewatch quay.io/example/tidewatch-bundle:v1.5.0
  # Have the installed objects been changed?
  rukpak diff tidewatch quay.io/example/tidewatch-bundle:v1.4.0
  # What would a rollback change?
  rukpak diff tidewatch --revision 3")]
pub(crate) struct DiffArgs {
    /// Name of the BundleInstance. If it does not exist, all objects are new.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Directory, archive, image, git repository or URL, as for "rukpak convert".
    #[arg(value_name = "BUNDLE", value_hint = ValueHint::AnyPath, required_unless_present = "revision")]
    pub(crate) bundle: Option<OsString>,
    /// Compare this recorded revision of the BundleInstance, as "rukpak history" lists it.
    #[arg(long, value_name = "N", value_parser = number(),
        conflicts_with_all = ["bundle", "install_namespace", "class"])]
    pub(crate) revision: Option<i64>,
    /// Namespace of namespaced objects, if the BundleInstance does not exist.
    #[arg(short = 'n', long, visible_alias = "namespace", value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) install_namespace: Option<String>,
    /// Format of the bundle. Default: detected from its content.
    #[arg(long, value_enum)]
    pub(crate) class: Option<ContentFormat>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// List the revisions of a BundleInstance.
///
/// A revision is a recorded snapshot of the rendered objects. All data is read from the status of the BundleInstance, so
/// that the permission to read BundleInstances is enough.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak history tidewatch
  # Compare a revision with the cluster, and roll back to it
  rukpak diff tidewatch --revision 3
  rukpak rollback tidewatch --to 3")]
pub(crate) struct HistoryArgs {
    /// Name of the BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Format of the output.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: HistoryFormat,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Roll back a BundleInstance to a recorded revision, and wait until it is healthy.
///
/// Sets spec.rollbackTo. The provisioner then creates a new revision from the recorded objects; nothing is fetched. The pin
/// remains until it is removed with --undo. Until then, changes of the template and of the rest of the spec have no effect.
///
/// Without --to, a pinned BundleInstance stays at its revision. Otherwise the target is the active revision during the
/// rollout of a newer one, and else the newest archived revision with different objects.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # Show what would change
  rukpak rollback tidewatch --dry-run=server
  # Roll back to the revision before the active one
  rukpak rollback tidewatch
  # Return to the bundle of the template
  rukpak rollback tidewatch --undo")]
pub(crate) struct RollbackArgs {
    /// Name of the BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Roll back to this revision, as "rukpak history" lists it.
    #[arg(long, value_name = "N", value_parser = number())]
    pub(crate) to: Option<i64>,
    /// Remove the pin, so that the template applies again.
    #[arg(long, conflicts_with = "to")]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    /// Dry-run mode. Both modes read the BundleInstance. With "-o text", "server" prints the difference first, as "rukpak diff
    /// --revision" does.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRunMode,
    /// Format of the output.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: ChangeFormat,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Let a BundleInstance adopt existing objects that its bundle contains.
///
/// Lists the objects of the instance's bundle that have another owner (Helm, OLM, a deleted instance) or none, and the
/// changes. After confirmation, each is annotated with core.rukpak.io/adopt, and the bundle takes ownership of the fields
/// that the previous owner set. Such fields that the bundle does not set are removed. Objects of another BundleInstance or
/// of a controller are rejected, as in the provisioner.
///
/// The bundle is read from the content service, and the objects from the API server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # Which objects have another owner, and what would change?
  rukpak adopt tidewatch --dry-run=server
  # Also transfer fields that a script applied with its own field manager
  rukpak adopt tidewatch --field-manager deploy.sh --yes")]
pub(crate) struct AdoptArgs {
    /// Name of the BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Transfer the fields of this field manager, too; may be repeated. Fields of kubectl, Helm, OLM, Argo CD and similar
    /// tools are always transferred, fields of controllers only if named.
    #[arg(long, value_name = "NAME")]
    pub(crate) field_manager: Vec<String>,
    /// Dry-run mode.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Flags for waiting until a command is complete.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitArgs {
    /// Wait until the change is complete.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    pub(crate) wait: bool,
    /// Maximum time to wait; 0 means no limit.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::read)]
    pub(crate) timeout: Duration,
}

/// Connection to the content service.
#[derive(Debug, Args)]
#[command(next_help_heading = "Content service")]
pub(crate) struct ServiceArgs {
    /// Address of the content service (https://HOST:PORT), instead of a port-forward.
    #[arg(long, value_name = "URL")]
    pub(crate) content_address: Option<http::Uri>,
}

/// Uninstall a BundleInstance with its objects.
///
/// First lists the objects that are kept: Namespaces, and CRDs according to spec.crdDeletionPolicy. If custom resources
/// would be deleted, it asks for confirmation, or needs --yes. Waits until all other objects are deleted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak uninstall tidewatch
  # With all of its custom resources
  rukpak uninstall tidewatch --crd-deletion-policy delete
  # Keep all objects in the cluster
  rukpak uninstall tidewatch --cascade orphan")]
pub(crate) struct UninstallArgs {
    /// Name of the BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Policy for its objects.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) cascade: Cascade,
    /// Policy for its CRDs, instead of spec.crdDeletionPolicy.
    #[arg(long, value_enum, value_name = "POLICY", conflicts_with = "cascade")]
    pub(crate) crd_deletion_policy: Option<DefinitionPolicy>,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Succeed if the BundleInstance does not exist.
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    /// Dry-run mode.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Print the manifests of a Bundle, or the objects of a recorded revision.
///
/// The manifests are read from the content service of the provisioner through a port-forward. This needs the permission to
/// get /bundles/* (ClusterRole bundle-reader).
///
/// With --revision, NAME is a BundleInstance, and the objects are those that the revision records. The values of Secrets
/// are masked. This needs the permission to get Secrets in the namespace of the provisioner.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak content tidewatch-3d6dqqcjbxp
  # The original content, in a directory
  rukpak content tidewatch-3d6dqqcjbxp --original --output ./bundle
  # The objects of a revision
  rukpak content tidewatch --revision 3")]
pub(crate) struct ContentArgs {
    /// Name of the Bundle, or with --revision, of the BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Print this recorded revision of a BundleInstance, as "rukpak history" lists it.
    #[arg(long, value_name = "N", value_parser = number(), conflicts_with_all = ["original", "output"])]
    pub(crate) revision: Option<i64>,
    /// Format of the objects of a revision.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "revision")]
    pub(crate) format: Option<ManifestFormat>,
    /// Print the content as fetched, not the converted manifests.
    #[arg(long)]
    pub(crate) original: bool,
    /// Destination of the content: a directory that is new or empty; a file that ends in .tgz, .tar.gz or .tar, which is
    /// replaced if it exists; or "-" for a tar.gz on standard output.
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) output: Option<PathBuf>,
    /// Write into a directory that is not empty.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Returns a parser for revision numbers.
fn number() -> clap::builder::RangedI64ValueParser {
    clap::value_parser!(i64).range(1..)
}

fn account(text: &str) -> Result<(String, String), &'static str> {
    const PROBLEM: &str = "use NAMESPACE:NAME";
    let (space, name) = text.split_once(':').ok_or(PROBLEM)?;
    manifests::names::dns_subdomain(name).map_err(|_| PROBLEM)?;
    Ok((namespace(space)?, name.to_owned()))
}

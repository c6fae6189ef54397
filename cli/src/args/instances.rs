//! The commands that talk to a cluster.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum, ValueHint};

use super::{
    AccessArgs, ClusterArgs, Description, LimitArgs, Manifests, cluster::namespace, duration,
};

/// What a command prints when it has changed something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Changed {
    /// A sentence.
    #[default]
    Text,
    /// `bundleinstance.core.rukpak.io/NAME`
    Name,
    /// The object.
    Json,
    /// The object.
    Yaml,
}

/// Whether anything is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// It is.
    #[default]
    None,
    /// The server checks and answers as if, and stores nothing.
    Server,
}

/// Whether `spec.rollbackTo` is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PinDryRun {
    /// Change it.
    #[default]
    None,
    /// Print the result without asking the API server.
    Client,
    /// Print the difference between the revision and the live objects, and have the API server check the change.
    Server,
}

/// Format of a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum HistoryFormat {
    #[default]
    Table,
    Json,
    Yaml,
}

/// What becomes of the definitions of an instance's custom resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefinitionPolicy {
    /// They stay, and so do all custom resources.
    Retain,
    /// Those of which there are custom resources stay.
    DeleteIfUnused,
    /// They go, and all custom resources with them.
    Delete,
}

/// What becomes of an instance's objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cascade {
    /// The provisioner removes them, as the policies of the instance say.
    #[default]
    Background,
    /// The garbage collector removes all but definitions and Namespaces, in no order.
    Foreground,
    /// They stay.
    Orphan,
}

/// Format of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// registry+v1
    Registry,
    /// plain+v0
    Plain,
}

/// Tell what is installed, whether it works, and what is wrong with it.
///
/// With NAME: the BundleInstance with its Bundles and objects as a tree, and its last problem with what to do about it.
/// Without: a table of all BundleInstances.
///
/// Everything is read from the statuses that the provisioner writes, so that the right to read BundleInstances and
/// Bundles is enough.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # What is installed?
  rukpak status
  # What is the matter with one?
  rukpak status tidewatch
  # Every object, also of a large instance
  rukpak status tidewatch --all")]
pub(crate) struct StatusArgs {
    /// The BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Description,
    /// List every object. Otherwise kinds with many objects that are well are counted.
    #[arg(long, requires = "name")]
    pub(crate) all: bool,
    /// Go on, and print a line whenever something changes.
    #[arg(short, long, conflicts_with_all = ["output", "all"])]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Leave the objects of a BundleInstance alone, until "resume".
///
/// Nothing is installed, upgraded or repaired then. Health is still told, and the instance can be uninstalled.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # Change something by hand that would be put right otherwise
  rukpak pause tidewatch")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Go on with a BundleInstance that was paused.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak resume tidewatch")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// A small change of an instance.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// The BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Changed,
    /// Whether to change anything.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Install a bundle, or another version of one: create or change its BundleInstance, and wait until it works.
///
/// An image, a commit or an archive behind a URL is fetched by the provisioner. A folder or an archive on this machine
/// is checked here, and uploaded through a port-forward to the provisioner; changed content makes another Bundle, and
/// the same content none.
///
/// Waits until all objects are applied and well. When that fails, why is printed and the exit code is 1; the
/// BundleInstance stays as it is, and the provisioner goes on trying where that can help.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # From a registry
  rukpak install tidewatch quay.io/example/tidewatch-bundle:v1.4.0
  # A bundle that is being worked on, into a namespace of choice
  rukpak install tidewatch ./bundle -n tides
  # What would be sent, and whether the server takes it
  rukpak install tidewatch ./bundle --dry-run=server -o yaml")]
pub(crate) struct InstallArgs {
    /// The BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// A folder, an archive, an image, a git repository or a URL, as for "rukpak convert".
    #[arg(value_name = "BUNDLE", value_hint = ValueHint::AnyPath)]
    pub(crate) bundle: OsString,
    /// Where namespaced objects go, instead of where the bundle suggests. Cannot be changed later.
    #[arg(short = 'n', long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) install_namespace: Option<String>,
    /// Format of the bundle. Otherwise told by the content of what is uploaded, and registry for everything else.
    #[arg(long, value_enum)]
    pub(crate) class: Option<Format>,
    /// ServiceAccount whose rights the objects are applied with, as NAMESPACE:NAME.
    #[arg(long, value_name = "ACCOUNT", value_parser = account)]
    pub(crate) service_account: Option<(String, String)>,
    /// Secret of the provisioner's namespace that images are pulled with.
    #[arg(long, value_name = "SECRET")]
    pub(crate) pull_secret: Option<String>,
    /// Whether the image's registry must prove who it is.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    pub(crate) tls_verify: bool,
    /// Take over fields of the BundleInstance that somebody else has set to something else.
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    /// Whether to change anything.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRun,
    /// Format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Changed,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Tell what would change in the cluster if a bundle were installed, or a recorded revision rolled out.
///
/// The bundle is converted here, for the BundleInstance's namespace and the server's version, and the server is asked what
/// each object would become, with a dry run of what the provisioner does. Rights that accounts gain and lose come first,
/// then the objects that would be new, other ones, or not part of the bundle any more, then the fields. The values of
/// Secrets are not shown. That takes the rights to read and to patch these objects.
///
/// With --revision, the recorded objects of that revision are compared instead of a bundle. That takes the right to get
/// Secrets in the namespace of the provisioner, too.
///
/// The exit code is 0 if there is no difference, 1 if there is one, and 2 if something went wrong or would be refused.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # What would another version bring?
  rukpak diff tidewatch quay.io/example/tidewatch-bundle:v1.5.0
  # Has somebody changed what is installed?
  rukpak diff tidewatch quay.io/example/tidewatch-bundle:v1.4.0
  # What would a rollback change?
  rukpak diff tidewatch --revision 3")]
pub(crate) struct DiffArgs {
    /// The BundleInstance. If there is none, everything is new.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// A folder, an archive, an image, a git repository or a URL, as for "rukpak convert".
    #[arg(value_name = "BUNDLE", value_hint = ValueHint::AnyPath, required_unless_present = "revision")]
    pub(crate) bundle: Option<OsString>,
    /// Compare this recorded revision of the BundleInstance, as "rukpak history" lists it.
    #[arg(long, value_name = "N", value_parser = number(),
        conflicts_with_all = ["bundle", "install_namespace", "class"])]
    pub(crate) revision: Option<i64>,
    /// Where namespaced objects would go, if there is no such BundleInstance.
    #[arg(short = 'n', long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) install_namespace: Option<String>,
    /// Format of the bundle; told by its content when not given.
    #[arg(long, value_enum)]
    pub(crate) class: Option<Format>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// List the revisions of a BundleInstance.
///
/// A revision is a recorded snapshot of the rendered objects. Everything is read from the status of the BundleInstance, so
/// that the permission to read BundleInstances is enough.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak history tidewatch
  # Compare a revision with the cluster, and roll back to it
  rukpak diff tidewatch --revision 3
  rukpak rollback tidewatch --to 3")]
pub(crate) struct HistoryArgs {
    /// The BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: HistoryFormat,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Roll back a BundleInstance to a recorded revision, and wait until it works.
///
/// Sets spec.rollbackTo. The provisioner then creates a new revision from the recorded objects; nothing is fetched. This pin
/// holds until it is removed with --undo: until then, changes of the template and of the rest of the spec have no effect.
///
/// Without --to, a BundleInstance that is pinned already stays at that revision. Otherwise the target is the active
/// revision while a newer one is being rolled out, and the newest archived revision with other objects in all other cases.
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
    /// The BundleInstance.
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
    /// Whether to change anything. With "-o text", "server" prints the difference first, as "rukpak diff --revision".
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: PinDryRun,
    /// Format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Changed,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Hand objects that exist over to a BundleInstance that wants them.
///
/// Lists the objects of the instance's bundle that belong to somebody else (nobody, Helm, OLM, an instance that is gone),
/// and what would change. After a yes, each is annotated with core.rukpak.io/adopt, and the fields that its former owner
/// has set become the bundle's: those that the bundle does not have are removed, and do not stay for ever. What another
/// BundleInstance or a controller holds is refused, as the provisioner refuses it.
///
/// The content service is asked for the bundle, and the server for the objects.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # What is in the way, and what would become of it?
  rukpak adopt tidewatch --dry-run=server
  # Take over what a script has applied under a name of its own, too
  rukpak adopt tidewatch --field-manager deploy.sh --yes")]
pub(crate) struct AdoptArgs {
    /// The BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Take over the fields of this manager, too; may be repeated. Those of kubectl, Helm, OLM, Argo CD and the like are
    /// taken over in any case, those of controllers are not.
    #[arg(long, value_name = "NAME")]
    pub(crate) field_manager: Vec<String>,
    /// Whether to change anything.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Whether, and how long, a command waits.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitArgs {
    /// Whether to wait until it is done.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    pub(crate) wait: bool,
    /// How long to wait; 0 is for ever.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::read)]
    pub(crate) timeout: Duration,
}

/// The way to the content service.
#[derive(Debug, Args)]
#[command(next_help_heading = "Content service")]
pub(crate) struct ServiceArgs {
    /// Reach the content service at this address (https://HOST:PORT) instead of through a port-forward.
    #[arg(long, value_name = "URL")]
    pub(crate) content_address: Option<http::Uri>,
}

/// Remove a BundleInstance and what it has installed.
///
/// Says beforehand what stays: Namespaces, and definitions as spec.crdDeletionPolicy has it. Where custom resources would
/// be deleted, it asks, or wants --yes. Waits until everything is gone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak uninstall tidewatch
  # With all of its custom resources
  rukpak uninstall tidewatch --crd-deletion-policy delete
  # Leave everything in the cluster
  rukpak uninstall tidewatch --cascade orphan")]
pub(crate) struct UninstallArgs {
    /// The BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// What becomes of its objects.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) cascade: Cascade,
    /// What becomes of its CustomResourceDefinitions, instead of what spec.crdDeletionPolicy says.
    #[arg(long, value_enum, value_name = "POLICY", conflicts_with = "cascade")]
    pub(crate) crd_deletion_policy: Option<DefinitionPolicy>,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// It is no failure if there is no such BundleInstance.
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    /// Whether to change anything.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Print the manifests of a Bundle, or the objects of a recorded revision.
///
/// The content service of the provisioner is asked, through a port-forward. That takes the right to get /bundles/*
/// (ClusterRole bundle-reader).
///
/// With --revision, NAME is a BundleInstance, and the objects are those that the revision records. The values of Secrets are
/// masked. That takes the right to get Secrets in the namespace of the provisioner.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak content tidewatch-3d6dqqcjbxp
  # As the bundle came, in a folder
  rukpak content tidewatch-3d6dqqcjbxp --original --output ./bundle
  # The objects of a revision
  rukpak content tidewatch --revision 3")]
pub(crate) struct ContentArgs {
    /// The Bundle; with --revision, the BundleInstance.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,
    /// Print this recorded revision of a BundleInstance, as "rukpak history" lists it.
    #[arg(long, value_name = "N", value_parser = number(), conflicts_with_all = ["original", "output"])]
    pub(crate) revision: Option<i64>,
    /// Format of the objects of a revision.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "revision")]
    pub(crate) format: Option<Manifests>,
    /// What was fetched, and not what it is converted to.
    #[arg(long)]
    pub(crate) original: bool,
    /// Write a folder, or an archive if the name ends in .tgz, .tar.gz or .tar; "-" is a tar.gz on standard output.
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) output: Option<PathBuf>,
    /// Write into a folder that is not empty, or over a file.
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// The number of a revision.
fn number() -> clap::builder::RangedI64ValueParser {
    clap::value_parser!(i64).range(1..)
}

/// The name of an object; whether there is one is for the server to say.
fn name(text: &str) -> Result<String, &'static str> {
    manifests::names::dns_subdomain(text).map(|()| text.to_owned())
}

fn account(text: &str) -> Result<(String, String), &'static str> {
    const PROBLEM: &str = "write it as NAMESPACE:NAME";
    let (space, name) = text.split_once(':').ok_or(PROBLEM)?;
    manifests::names::dns_subdomain(name).map_err(|_| PROBLEM)?;
    Ok((namespace(space)?, name.to_owned()))
}

//! `rukpak catalogsource`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use manifests::version;

use super::{ClusterArgs, Description, DryRun, Manifests};

/// Work on CatalogSources: in files, and what a cluster has stored.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceArgs {
    #[command(subcommand)]
    pub(crate) command: CatalogSourceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CatalogSourceCommand {
    Resolve(CatalogSourceResolveArgs),
    Validate(CatalogSourceValidateArgs),
    Convert(CatalogSourceConvertArgs),
    Migrate(CatalogSourceMigrateArgs),
}

/// Show what the templates in CatalogSources become: images with variables such as {kube_minor_version}.
///
/// Variables: {kube_major_version}, {kube_minor_version}, {kube_patch_version}, the same with olm and ocp,
/// {ocp_update_channels} and {platform_architecture}. They count in spec.image, in spec.catalogImageSource.catalogImage, and in
/// the annotation core.rukpak.io/catalog-image-template; in the annotation olm.catalogImageTemplate those of kube alone, as in
/// OLM. An annotation counts before the image, and OLM's before the other one.
///
/// Each variable has the value of its option. Without an option it has no value, except {olm_major_version} and the like: in a
/// cluster these are the version of OLM where OLM serves the catalog, and of the provisioner elsewhere. The version of this
/// command stands for the provisioner; use --olm-version for a cluster with OLM.
///
/// Exit code: 0 when all are images, 1 when one is not, or a file cannot be read.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceResolveArgs {
    /// A file with CatalogSources in YAML or JSON, "-" for standard input; may be repeated. Other objects are passed over.
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// The cluster's Kubernetes.
    #[arg(long, visible_alias = "kubernetes-version", value_name = "VERSION", value_parser = version::tolerant)]
    pub(crate) kube_version: Option<version::Version>,
    /// The cluster's OpenShift.
    #[arg(long, visible_alias = "openshift-version", value_name = "VERSION", value_parser = version::tolerant)]
    pub(crate) ocp_version: Option<version::Version>,
    /// The channel that the OpenShift is updated from, such as fast-4.20.
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) ocp_channel: Option<String>,
    /// The architecture of the cluster's nodes, such as amd64 or x86_64.
    #[arg(long, value_name = "ARCHITECTURE")]
    pub(crate) architecture: Option<String>,
    /// The version of OLM in a cluster where OLM serves catalogs. Default: the version of this command.
    #[arg(long, value_name = "VERSION", value_parser = version::tolerant)]
    pub(crate) olm_version: Option<version::Version>,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Description,
}

/// Check CatalogSources in files as the API server does, without a cluster.
///
/// Reports unknown, misspelled and duplicate fields, values that the schema of rukpak's definition does not allow, and violations
/// of its rules, with the messages of the API server. In a cluster with OLM's definition, OLM's form alone is known, and nearly
/// everything in it is accepted. Objects of other kinds are skipped, and standard error has their number.
///
/// Exit code: 0 when all are valid, 1 when one is not, when an object has no kind, or when a file has no CatalogSource or cannot be
/// read.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceValidateArgs {
    /// Files with CatalogSources in YAML or JSON, "-" for standard input.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Description,
}

/// Rewrite CatalogSources into the form in which a member says by itself what the source is, or back into OLM's.
///
/// All documents are written, other objects as they are; comments are lost. What nobody reads, such as the address beside an
/// image, has no place in the new form: it is dropped, and standard error says so. Apply the new form only where the
/// definition of CatalogSources has it: OLM's own drops it. In OLM's form an address always has its port, for OLM has no
/// default.
///
/// Exit code: 0 when all are in that form, 1 when one cannot be, which is written as it was, or a file cannot be read.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceConvertArgs {
    /// A file with CatalogSources in YAML or JSON, "-" for standard input; may be repeated.
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// The form to write.
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    pub(crate) to: Form,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Manifests,
}

/// Take out of a cluster's CatalogSources what nobody reads, such as the address beside an image.
///
/// Whoever writes such a CatalogSource anew is refused; those that were stored before stay usable, and this puts them right.
/// Each keeps its form. Versions of the definition that nothing is stored in any more are taken off its list, so that they
/// can be removed from it. A definition that is not rukpak's, such as OLM's, is never touched, nor are its CatalogSources.
///
/// Whatever ends it, what was done is done, and the next run goes on.
///
/// Exit code: 0 when all are right, 1 when one is not, or the cluster cannot be asked.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceMigrateArgs {
    /// Whether to change anything.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// How a CatalogSource says where the catalog is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// By catalogImageSource, catalogServiceSource or configMapSource.
    #[default]
    New,
    /// By sourceType, image, address, configMap and grpcPodConfig.
    Legacy,
}

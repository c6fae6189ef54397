//! `rukpak catalogsource`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use manifests::version;

use super::{ClusterArgs, DescriptionFormat, DryRun, ManifestFormat};

/// Files with CatalogSources.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceFiles {
    /// Files with CatalogSources in YAML or JSON, "-" for standard input.
    #[arg(required_unless_present = "file_flags", value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// The same as FILE, as in kubectl; may be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE", value_hint = ValueHint::FilePath)]
    file_flags: Vec<PathBuf>,
}

impl CatalogSourceFiles {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.file_flags)
    }
}

/// Resolve, validate, convert and migrate CatalogSources, in files and in a cluster.
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

/// Resolve the image templates of CatalogSources, with variables such as {kube_minor_version}.
///
/// Variables: {kube_major_version}, {kube_minor_version}, {kube_patch_version}, the same with olm and ocp,
/// {ocp_update_channels} and {platform_architecture}. They are replaced in spec.image, in
/// spec.catalogImageSource.catalogImage, and in the annotation core.rukpak.io/catalog-image-template. In the annotation
/// olm.catalogImageTemplate only those of kube are replaced, as in OLM. An annotation takes precedence over the image, and
/// OLM's annotation over the other one. Other objects are skipped.
///
/// Each variable has the value of its option, and without the option no value. {olm_major_version} and the like are an
/// exception: in a cluster they have the version of OLM if OLM serves the catalog, and else the version of the provisioner.
/// The version of this command stands for that of the provisioner; use --olm-version for a cluster with OLM.
///
/// Exit code: 0 if all results are images, 1 if one is not, or if a file cannot be read.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceResolveArgs {
    #[command(flatten)]
    pub(crate) files: CatalogSourceFiles,
    /// Kubernetes version of the cluster.
    #[arg(long, visible_alias = "kubernetes-version", value_name = "VERSION", value_parser = version::parse_lenient)]
    pub(crate) kube_version: Option<version::Version>,
    /// OpenShift version of the cluster.
    #[arg(long, visible_alias = "openshift-version", value_name = "VERSION", value_parser = version::parse_lenient)]
    pub(crate) ocp_version: Option<version::Version>,
    /// Update channel of the OpenShift cluster, such as fast-4.20.
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) ocp_channel: Option<String>,
    /// Architecture of the cluster's nodes, such as amd64 or x86_64.
    #[arg(long, value_name = "ARCHITECTURE")]
    pub(crate) architecture: Option<String>,
    /// OLM version of a cluster where OLM serves catalogs. Default: the version of this command.
    #[arg(long, value_name = "VERSION", value_parser = version::parse_lenient)]
    pub(crate) olm_version: Option<version::Version>,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: DescriptionFormat,
}

/// Check CatalogSources in files as the API server does, without a cluster.
///
/// Reports unknown, misspelled and duplicate fields, values that the schema of rukpak's CRD does not allow, and violations
/// of its rules, with the messages of the API server. A cluster with OLM's CRD knows only OLM's form, and accepts nearly
/// everything in it. Objects of other kinds are skipped, and their number is printed to standard error.
///
/// Exit code: 0 if all are valid, 1 if one is not, if an object has no kind, or if a file has no CatalogSource or cannot be
/// read.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceValidateArgs {
    #[command(flatten)]
    pub(crate) files: CatalogSourceFiles,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: DescriptionFormat,
}

/// Rewrite CatalogSources into the form in which one field contains the source of the catalog, or back into OLM's form.
///
/// All documents are written, other objects unchanged; comments are lost. The new form has no place for ignored fields,
/// such as the address next to an image: they are dropped with a note on standard error. Apply the new form only where the
/// CRD of CatalogSources has it: OLM's CRD drops it. In OLM's form an address always has its port, because OLM has no
/// default.
///
/// Exit code: 0 if all have that form, 1 if one cannot be converted and is written unchanged, or a file cannot be read.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceConvertArgs {
    #[command(flatten)]
    pub(crate) files: CatalogSourceFiles,
    /// Form to write.
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    pub(crate) to: Form,
    /// Format of the result.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: ManifestFormat,
}

/// Remove ignored fields, such as address next to image, from the CatalogSources of a cluster.
///
/// New CatalogSources with such fields are rejected; existing ones remain usable, and this command fixes them. Each keeps
/// its form. Versions of the CRD in which no object is stored are removed from its list of stored versions, so that they
/// can be removed from the CRD. A CRD that is not rukpak's, such as OLM's, is never changed, nor are its CatalogSources.
///
/// After an interruption, completed changes are kept, and the next run continues.
///
/// Exit code: 0 if all are correct, 1 if one is not, or if the cluster cannot be reached.
#[derive(Debug, Args)]
pub(crate) struct CatalogSourceMigrateArgs {
    /// Dry-run mode.
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Form in which a CatalogSource contains the source of the catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Fields catalogImageSource, catalogServiceSource or configMapSource.
    #[default]
    New,
    /// Fields sourceType, image, address, configMap and grpcPodConfig.
    Legacy,
}

//! `rukpak catalog render` and `rukpak catalog migrate`.

use std::{ffi::OsString, path::PathBuf};

use ::catalog::render::{Level, Template};
use clap::{Args, ValueEnum, ValueHint};

use super::CatalogReadArgs;

/// What both say of references.
const REFERENCES: &str = "\
A catalog or bundle is one of:
  FOLDER, FILE.tgz, FILE.tar     on this machine; a folder with manifests/ and metadata/ is a bundle
  quay.io/org/catalog:v1         an image in a registry; its labels tell what it is
  git+https://HOST/REPO#REF:DIR  a branch, tag or commit of a git repository, and the folder in it
  https://HOST/FILE.tgz          an archive
  oci:FOLDER[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:TAG]";

/// Print catalogs and bundles as one stream of file-based catalog objects.
///
/// The output is what "opm render" prints for the same references. Of a bundle it is the olm.bundle; packages and
/// channels are for you to add.
#[derive(Debug, Args)]
#[command(after_help = REFERENCES)]
pub(crate) struct RenderArgs {
    /// Catalogs and bundles: folders, archives, images, git repositories and URLs; see below.
    #[arg(required = true, value_name = "REF", value_hint = ValueHint::AnyPath)]
    pub(crate) references: Vec<OsString>,
    /// Format of the objects: one after the other in JSON, or YAML documents.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Blobs,
    /// Run all migrations on the catalog.
    #[arg(long, conflicts_with = "migrate_level")]
    pub(crate) migrate: bool,
    /// Run migrations up to this one: none, bundle-object-to-csv-metadata, or all.
    #[arg(long, value_name = "LEVEL", default_value = "none")]
    pub(crate) migrate_level: Level,
    /// The image of bundles that do not come from a registry. {{.Package}}, {{.Name}} and {{.Version}} in it stand for
    /// those of the bundle; the name is that of its ClusterServiceVersion.
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) alpha_image_ref_template: Option<Template>,
    /// Print no progress and no warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

/// Write a catalog into a folder, migrated, with a file for each package.
#[derive(Debug, Args)]
#[command(after_help = REFERENCES)]
pub(crate) struct MigrateArgs {
    /// A catalog: a folder, an archive, an image, a git repository or a URL; see below.
    #[arg(value_name = "REF", value_hint = ValueHint::AnyPath)]
    pub(crate) reference: OsString,
    /// The folder to write into, which is new or empty.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Format of the files, catalog.json or catalog.yaml.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Blobs,
    /// Run migrations up to this one: none, bundle-object-to-csv-metadata, or all.
    #[arg(long, value_name = "LEVEL", default_value = "none")]
    pub(crate) migrate_level: Level,
    /// Print no progress and no warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) reading: CatalogReadArgs,
}

/// The format of catalogs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Blobs {
    #[default]
    Json,
    Yaml,
}

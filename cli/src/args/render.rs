//! `rukpak catalog render` and `rukpak catalog migrate`.

use std::{ffi::OsString, path::PathBuf};

use ::catalog::render::{Level, Template};
use clap::{Args, ValueEnum, ValueHint};

use super::CatalogReadArgs;

/// What both say of references.
const REFERENCES: &str = "\
A catalog or bundle is one of:
  FOLDER, FILE.tgz, FILE.tar     on this machine; a folder with manifests/ and metadata/ is a bundle
  index.db                       a catalog in an SQLite database, as opm made them
  quay.io/org/catalog:v1         an image in a registry; its labels tell what it is: a catalog of files or in a
                                 database, or a bundle
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

/// What is said of templates.
const TEMPLATES: &str = "\
A template is one document in YAML or JSON, and one of:
  basic        olm.template.basic: a catalog in which bundles have an image and nothing else
  semver       olm.semver: bundles as candidate, fast and stable, of which channels are made by version
  substitutes  olm.template.substitutes: a catalog, and bundles that take the places of others in it

Bundles in it are images in registries, or whatever else \"rukpak catalog render\" takes for one: folders, relative to
the working directory, archives, git repositories and URLs.

Examples:
  rukpak catalog render-template semver template.yaml
  rukpak catalog render-template template.yaml -o yaml
  rukpak catalog render-template < template.yaml";

/// Print the catalog that a template stands for.
///
/// The output is what "opm alpha render-template" prints for the same template. Each bundle is fetched once, several at a
/// time; of those that cannot be rendered all are told.
#[derive(Debug, Args)]
#[command(after_help = TEMPLATES)]
pub(crate) struct RenderTemplateArgs {
    /// What kind of template it is, if its schema shall not tell (basic, semver or substitutes), and its file; "-" or
    /// none is standard input.
    #[arg(value_names = ["TYPE", "FILE"], num_args = 0..=2, value_hint = ValueHint::FilePath)]
    pub(crate) template: Vec<OsString>,
    /// Format of the catalog: objects one after the other in JSON, YAML documents, or the graph of its channels.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Templated,
    /// Run migrations on the bundles up to this one: none, bundle-object-to-csv-metadata, or all.
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

/// The format of what a template stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Templated {
    #[default]
    Json,
    Yaml,
    Mermaid,
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

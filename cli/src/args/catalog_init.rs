//! `rukpak catalog init` and `rukpak catalog dockerfile`.

use std::path::PathBuf;

use ::catalog::init::OPM;
use clap::{Args, ValueHint};

use super::{BlobFormat, values::file};

/// Print the olm.package blob at the start of a package's catalog.
///
/// The output is that of "opm init". Add channels and bundles yourself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak catalog init tidewatch --default-channel stable --icon tide.svg \\
    --description README.md -o yaml")]
pub(crate) struct CatalogInitArgs {
    /// Name of the package.
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    /// Channel that is used if none is requested.
    #[arg(short = 'c', long, value_name = "NAME", default_value = "")]
    pub(crate) default_channel: String,
    /// Icon of the package: SVG, PNG, JPEG, GIF, WebP, BMP, TIFF or ICO.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = file())]
    pub(crate) icon: Option<PathBuf>,
    /// Description of the package in Markdown: its README.md, or another text for users.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = file())]
    pub(crate) description: Option<PathBuf>,
    /// Format of the blob.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: BlobFormat,
}

/// Write the Dockerfile of a catalog image.
///
/// The file is DIR.Dockerfile, next to the directory of the catalog. An existing file is not overwritten. The instructions
/// are those of "opm generate dockerfile".
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak catalog dockerfile catalog
  podman build -f catalog.Dockerfile -t quay.io/org/catalog:v1 .
  # Without a server in the image: OLM serves the catalog with its own
  rukpak catalog dockerfile catalog --base-image scratch")]
pub(crate) struct CatalogDockerfileArgs {
    /// Directory of the catalog.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Base of the image: "scratch", or an image with /bin/opm.
    #[arg(short = 'i', long, value_name = "IMAGE", default_value = OPM)]
    pub(crate) base_image: String,
    /// Image with the /bin/opm that creates the cache.
    #[arg(short, long, value_name = "IMAGE", default_value = OPM)]
    pub(crate) builder_image: String,
    /// Labels besides the one with the location of the catalog; may be repeated, and the last one with a name applies.
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    pub(crate) extra_labels: Vec<(String, String)>,
}

fn label(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("use KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

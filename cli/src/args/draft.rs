//! `rukpak catalog init` and `rukpak catalog dockerfile`.

use std::path::PathBuf;

use ::catalog::draft::OPM;
use clap::{Args, ValueHint};

use super::Blobs;

/// Print the olm.package blob that the catalog of a package begins with.
///
/// The output is what "opm init" prints. Channels and bundles are for you to add.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak catalog init tidewatch --default-channel stable --icon tide.svg --description README.md -o yaml")]
pub(crate) struct CatalogInitArgs {
    /// The package.
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    /// The channel that counts when none is asked for.
    #[arg(short = 'c', long, value_name = "NAME", default_value = "")]
    pub(crate) default_channel: String,
    /// Its icon: SVG, PNG, JPEG, GIF, WebP, BMP, TIFF or ICO.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) icon: Option<PathBuf>,
    /// What it is, in Markdown: its README.md, or some other text for people.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) description: Option<PathBuf>,
    /// Format of the blob.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Blobs,
}

/// Write the Dockerfile of an image with a catalog.
///
/// It is written beside the catalog's folder, as DIR.Dockerfile, and never over one that is there. Its instructions are
/// those of "opm generate dockerfile".
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rukpak catalog dockerfile catalog && podman build -f catalog.Dockerfile -t quay.io/org/catalog:v1 .
  # Without a program: OLM has it served by one of its own
  rukpak catalog dockerfile catalog --base-image scratch")]
pub(crate) struct CatalogDockerfileArgs {
    /// The folder of the catalog.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// What the image is made from: "scratch", or an image with /bin/opm.
    #[arg(short = 'i', long, value_name = "IMAGE", default_value = OPM)]
    pub(crate) base_image: String,
    /// The image with the /bin/opm that makes the cache.
    #[arg(short, long, value_name = "IMAGE", default_value = OPM)]
    pub(crate) builder_image: String,
    /// Labels besides the one that says where the catalog is; may be repeated, and the last one of a name counts.
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    pub(crate) extra_labels: Vec<(String, String)>,
}

fn label(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("it has to be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

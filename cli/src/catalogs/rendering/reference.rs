//! What a reference on the command line stands for: a catalog or a bundle.

use std::{collections::BTreeMap, fs, io::Read, path::Path};

use anyhow::{Context, bail, ensure};
use catalog::render::{Image, Render, Template};
use unpacker::Fetched;

use crate::{
    args::CatalogLimitArgs,
    catalogs::image::{CONFIGS, Labelled, NO_SQLITE, PACKAGE, Within, has_folder, is_image},
    message,
    reach::Reach,
    source::Source,
};

/// What may be rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinds {
    All,
    Catalogs,
}

/// Reads references.
pub(super) struct Reader<'a> {
    pub(super) reach: &'a Reach,
    pub(super) limits: CatalogLimitArgs,
    /// The image of bundles that have none.
    pub(super) template: Option<&'a Template>,
    pub(super) kinds: Kinds,
    pub(super) is_quiet: bool,
}

impl Reader<'_> {
    /// Adds what a reference stands for; `text` is how it was written.
    pub(super) fn add(
        &self,
        source: &Source,
        text: &str,
        render: &mut Render,
    ) -> anyhow::Result<()> {
        let limits = self.limits.into();
        match source.path() {
            Some(path) if path.is_dir() && !is_bundle(path) => {
                render.catalog(catalog::Source::Folder(path), &limits)?;
                self.tell(text, render);
                return Ok(());
            }
            Some(path) if is_database(path) => bail!("render {text:?}: {NO_SQLITE}"),
            _ => {}
        }
        let Fetched {
            tree,
            labels,
            skipped,
            ..
        } = self.reach.fetch(source, &self.limits.into())?;
        if skipped.symlinks > 0 && !self.is_quiet && source.is_folder() {
            let links = message::count(skipped.symlinks, "symbolic link");
            message::warning(&format!("{text}: {links} left out"));
        }
        let is_image = is_image(source);
        let labelled = if is_image {
            Labelled::of(&labels).with_context(|| format!("render {text:?}"))?
        } else if has_folder(&tree, "manifests") && has_folder(&tree, "metadata") {
            Labelled::Bundle
        } else {
            Labelled::Catalog(String::new())
        };
        match labelled {
            Labelled::Catalog(folder) => {
                let within =
                    Within::new(tree, folder).with_context(|| format!("render {text:?}"))?;
                render.catalog(catalog::Source::Files(&within), &limits)?;
            }
            Labelled::Database => bail!("render {text:?}: {NO_SQLITE}"),
            Labelled::Neither => bail!("render {text:?}: {}", undetermined(&labels)),
            Labelled::Bundle => {
                let kind = if is_image { "image" } else { "directory" };
                ensure!(
                    self.kinds == Kinds::All,
                    "cannot render bundle {kind} {text:?}: not allowed; name a catalog"
                );
                let template = || self.template.map_or(Image::Unknown, Image::Template);
                let image = match &source.place {
                    // As it was written, for so it stands in the catalog.
                    Ok(unpacker::Source::Image(_)) => {
                        Image::Reference(text.strip_prefix("docker://").unwrap_or(text))
                    }
                    _ => template(),
                };
                let usual = manifests::content::Limits::default();
                ensure!(
                    tree.size() <= usual.total,
                    "the bundle is larger than the limit of {} bytes; is it one?",
                    usual.total
                );
                render.bundle(&tree.into_content()?, image)?;
            }
        }
        self.tell(text, render);
        Ok(())
    }

    fn tell(&self, text: &str, render: &mut Render) {
        for warning in render.take_warnings() {
            if !self.is_quiet {
                message::warning(&format!("{text}: {warning}"));
            }
        }
    }
}

/// Whether a folder looks like a bundle, as opm tells it: links do not count.
fn is_bundle(folder: &Path) -> bool {
    let is_folder = |name| fs::symlink_metadata(folder.join(name)).is_ok_and(|it| it.is_dir());
    is_folder("manifests") && is_folder("metadata")
}

/// Whether a file is an SQLite database.
fn is_database(path: &Path) -> bool {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut start = Vec::new();
    path.is_file()
        && fs::File::open(path)
            .and_then(|file| file.take(16).read_to_end(&mut start))
            .is_ok_and(|_| start == MAGIC)
}

/// What is said of an image that is neither, in opm's words.
fn undetermined(labels: &BTreeMap<String, String>) -> String {
    if labels.is_empty() {
        return format!(
            "image type could not be determined: image has no labels; give a catalog's image the label {CONFIGS}, a \
             bundle's {PACKAGE}"
        );
    }
    // One line each, as many as anybody reads.
    let found: Vec<String> = labels
        .iter()
        .take(50)
        .map(|(key, value)| format!("  {key}={value}"))
        .collect();
    format!(
        "image type could not be determined, found labels\n{}",
        found.join("\n")
    )
}

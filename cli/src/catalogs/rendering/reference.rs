//! What a reference on the command line stands for: a catalog or a bundle.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use catalog::{
    render::{Image, Render, Template},
    source::Files,
};
use manifests::content::normalise;
use unpacker::{Fetched, Tree, source::Local};

use crate::{args::CatalogLimitArgs, message, reach::Reach, source::Source};

const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
const DATABASE: &str = "operators.operatorframework.io.index.database.v1";
const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";

/// What to do with catalogs that are databases.
const NO_SQLITE: &str = "sqlite-based index images are not supported; migrate to a file-based catalog, with \"opm migrate\" of \
                         a release up to v1.73.0";

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

/// What labels say of an image.
#[derive(Debug, PartialEq, Eq)]
enum Labelled {
    /// A file-based catalog in this folder, empty for the root.
    Catalog(String),
    Bundle,
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
            labelled(text, &labels)?
        } else if has_folder(&tree, "manifests") && has_folder(&tree, "metadata") {
            Labelled::Bundle
        } else {
            Labelled::Catalog(String::new())
        };
        match labelled {
            Labelled::Catalog(folder) => {
                ensure!(
                    folder.is_empty() || has_folder(&tree, &folder),
                    "render {text:?}: its label {CONFIGS} names the folder {folder:?}, which is not there; correct the image"
                );
                let within = Within { tree, folder };
                render.catalog(catalog::Source::Files(&within), &limits)?;
            }
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

fn is_image(source: &Source) -> bool {
    matches!(
        source.place,
        Ok(unpacker::Source::Image(_)
            | unpacker::Source::Local(
                Local::OciLayout(..) | Local::OciArchive(..) | Local::DockerArchive(..)
            ))
    )
}

/// What an image's labels say that it is.
fn labelled(text: &str, labels: &BTreeMap<String, String>) -> anyhow::Result<Labelled> {
    if let Some(folder) = labels.get(CONFIGS) {
        let relative = folder.trim_start_matches('/');
        if matches!(relative.trim_end_matches('/'), "" | ".") {
            return Ok(Labelled::Catalog(String::new()));
        }
        let folder = normalise(relative)
            .with_context(|| format!("the label {CONFIGS} of {text:?} names no folder"))?;
        return Ok(Labelled::Catalog(folder));
    }
    if labels.contains_key(PACKAGE) {
        return Ok(Labelled::Bundle);
    }
    if labels.contains_key(DATABASE) {
        bail!("render {text:?}: {NO_SQLITE}");
    }
    if labels.is_empty() {
        bail!(
            "render {text:?}: image type could not be determined: image has no labels; give a catalog's image the label \
             {CONFIGS}, a bundle's {PACKAGE}"
        );
    }
    // One line each, as many as anybody reads.
    let found: Vec<String> = labels
        .iter()
        .take(50)
        .map(|(key, value)| format!("  {key}={value}"))
        .collect();
    bail!(
        "render {text:?}: image type could not be determined, found labels\n{}",
        found.join("\n")
    )
}

/// Whether there is a file below a folder.
fn has_folder(tree: &Tree, folder: &str) -> bool {
    tree.files().any(|(path, _)| below(path, folder).is_some())
}

/// The path relative to a folder, the root if that is empty.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    match folder {
        "" => Some(path),
        folder => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

/// The folder of a catalog in what was fetched, which may be more than fits into memory.
#[derive(Debug)]
struct Within {
    tree: Tree,
    folder: String,
}

impl Files for Within {
    fn paths(&self) -> Vec<String> {
        let files = self.tree.files();
        files
            .filter_map(|(path, _)| below(path, &self.folder).map(str::to_owned))
            .collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let full = match self.folder.as_str() {
            "" => path.to_owned(),
            folder => format!("{folder}/{path}"),
        };
        match self.tree.read(&full) {
            Some(file) => Ok(Box::new(file)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_tell_what_an_image_is() {
        for (labels, expected) in [
            (&[(CONFIGS, "/configs")][..], Ok("configs")),
            (&[(CONFIGS, "/")], Ok("")),
            (
                &[(CONFIGS, "/a//b/"), (PACKAGE, "x"), (DATABASE, "/d")],
                Ok("a/b"),
            ),
            (&[(CONFIGS, "../x")], Err("names no folder")),
            (&[(PACKAGE, "x"), (DATABASE, "/d")], Ok("bundle")),
            (
                &[(DATABASE, "/d")],
                Err("sqlite-based index images are not supported"),
            ),
            (&[], Err("image has no labels")),
            (&[("b", "2"), ("a", "1")], Err("found labels\n  a=1\n  b=2")),
        ] {
            let labels = labels
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()));
            let expected = match expected {
                Ok("bundle") => Ok(Labelled::Bundle),
                Ok(folder) => Ok(Labelled::Catalog(folder.to_owned())),
                Err(part) => Err(part),
            };
            match (labelled("image", &labels.collect()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(part)) => {
                    assert!(format!("{error:#}").contains(part), "{error:#}");
                }
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        }
    }
}

//! What an image is, as its labels say, and the folder of a catalog in it.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use anyhow::{Context, bail, ensure};
use catalog::source::Files;
use manifests::content::normalise;
use unpacker::{Tree, source::Local};

use crate::source::Source;

pub(super) const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
pub(super) const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
const DATABASE: &str = "operators.operatorframework.io.index.database.v1";

/// What to do with catalogs that are databases.
pub(super) const NO_SQLITE: &str = "sqlite-based index images are not supported; migrate to a file-based catalog, with \
                                    \"opm migrate\" of a release up to v1.73.0";

/// What labels say of an image.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Labelled {
    /// A file-based catalog in this folder, empty for the root.
    Catalog(String),
    Bundle,
    /// A catalog in a database.
    Database,
    Neither,
}

pub(super) fn is_image(source: &Source) -> bool {
    matches!(
        source.place,
        Ok(unpacker::Source::Image(_)
            | unpacker::Source::Local(
                Local::OciLayout(..) | Local::OciArchive(..) | Local::DockerArchive(..)
            ))
    )
}

// === impl Labelled ===

impl Labelled {
    /// What these labels say; those of a catalog count most.
    ///
    /// # Errors
    /// When the label of a catalog names what cannot be a folder.
    pub(super) fn of(labels: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let Some(folder) = labels.get(CONFIGS) else {
            return Ok(if labels.contains_key(PACKAGE) {
                Self::Bundle
            } else if labels.contains_key(DATABASE) {
                Self::Database
            } else {
                Self::Neither
            });
        };
        let relative = folder.trim_start_matches('/');
        if matches!(relative.trim_end_matches('/'), "" | ".") {
            return Ok(Self::Catalog(String::new()));
        }
        let folder = normalise(relative)
            .with_context(|| format!("its label {CONFIGS} names no folder; correct the image"))?;
        Ok(Self::Catalog(folder))
    }

    /// The folder of the catalog that it is.
    ///
    /// # Errors
    /// When it is something else; says what.
    pub(super) fn catalog(self) -> anyhow::Result<String> {
        match self {
            Self::Catalog(folder) => Ok(folder),
            Self::Bundle => bail!(
                "the image is a bundle and no catalog: it has the label {PACKAGE} and not {CONFIGS}; name a catalog, or \
                 look at the bundle with \"rukpak inspect\""
            ),
            Self::Database => bail!("{NO_SQLITE}"),
            Self::Neither => bail!(
                "the image is no catalog: it has no label {CONFIGS}, which names the folder of one; name another image, or \
                 give it that label"
            ),
        }
    }
}

/// Whether there is a file below a folder.
pub(super) fn has_folder(tree: &Tree, folder: &str) -> bool {
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
pub(super) struct Within {
    tree: Tree,
    folder: String,
}

// === impl Within ===

impl Within {
    /// A folder that an image's label names, the root if it is empty.
    pub(super) fn new(tree: Tree, folder: String) -> anyhow::Result<Self> {
        ensure!(
            folder.is_empty() || has_folder(&tree, &folder),
            "its label {CONFIGS} names the folder {folder:?}, which is not there; correct the image"
        );
        Ok(Self { tree, folder })
    }
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
        let catalog = |folder: &str| Ok(Labelled::Catalog(folder.to_owned()));
        for (labels, expected, refusal) in [
            (&[(CONFIGS, "/configs")][..], catalog("configs"), ""),
            (&[(CONFIGS, "/")], catalog(""), ""),
            (
                &[(CONFIGS, "/a//b/"), (PACKAGE, "x"), (DATABASE, "/d")],
                catalog("a/b"),
                "",
            ),
            (&[(CONFIGS, "../x")], Err("names no folder"), ""),
            (
                &[(PACKAGE, "x"), (DATABASE, "/d")],
                Ok(Labelled::Bundle),
                "is a bundle and no catalog",
            ),
            (
                &[(DATABASE, "/d")],
                Ok(Labelled::Database),
                "sqlite-based index images are not supported",
            ),
            (
                &[],
                Ok(Labelled::Neither),
                "has no label operators.operatorframework.io.index.configs.v1",
            ),
            (&[("b", "2")], Ok(Labelled::Neither), "is no catalog"),
        ] {
            let labels = labels
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()));
            let found = Labelled::of(&labels.collect());
            match (found, expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found, expected);
                    let refused = found.catalog().err().map(|it| it.to_string());
                    let refused = refused.unwrap_or_default();
                    assert!(
                        refused.contains(refusal) && refused.is_empty() == refusal.is_empty(),
                        "{refused}"
                    );
                }
                (Err(error), Err(part)) => {
                    assert!(format!("{error:#}").contains(part), "{error:#}");
                }
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        }
    }
}

//! What an image is, as its labels say, and the folder of a catalog in it.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use catalog::{
    Limits,
    source::{Files, describe_skipped},
    sqlite::{self, Database},
};
use manifests::content::{Irregular, normalize};
use unpacker::{Tree, source::Local};

use crate::source::Source;

pub(crate) const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
pub(crate) const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
const DATABASE: &str = "operators.operatorframework.io.index.database.v1";
/// What is told of a database that is left out.
const MOST_REASONS: usize = 5;

/// What labels say of an image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Labeled {
    /// A file-based catalog in this folder, empty for the root.
    Catalog(String),
    Bundle,
    /// A catalog in this database.
    Database(String),
    Neither,
}

pub(crate) fn is_image(source: &Source) -> bool {
    matches!(
        source.place,
        Ok(unpacker::Source::Image(_)
            | unpacker::Source::Local(
                Local::OciLayout(..) | Local::OciArchive(..) | Local::DockerArchive(..)
            ))
    )
}

/// Whether a file is an SQLite database; what cannot be read is told by whoever reads it.
pub(crate) fn is_database(path: &Path) -> bool {
    path.is_file() && sqlite::is_database(path).unwrap_or(false)
}

// === impl Labeled ===

impl Labeled {
    /// What these labels say; those of a catalog count most.
    ///
    /// # Errors
    /// When the label of a catalog names what cannot be a folder.
    pub(crate) fn of(labels: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let Some(folder) = labels.get(CONFIGS) else {
            if labels.contains_key(PACKAGE) {
                return Ok(Self::Bundle);
            }
            let Some(path) = labels.get(DATABASE) else {
                return Ok(Self::Neither);
            };
            let path = normalize(path.trim_start_matches('/')).with_context(|| {
                format!("its label {DATABASE} names no file; correct the image")
            })?;
            return Ok(Self::Database(path));
        };
        let relative = folder.trim_start_matches('/');
        if matches!(relative.trim_end_matches('/'), "" | ".") {
            return Ok(Self::Catalog(String::new()));
        }
        let folder = normalize(relative)
            .with_context(|| format!("its label {CONFIGS} names no folder; correct the image"))?;
        Ok(Self::Catalog(folder))
    }

    /// The catalog that it is.
    ///
    /// # Errors
    /// When it is something else, or cannot be read; says what.
    pub(crate) fn catalog(self, tree: Tree, limits: &Limits) -> anyhow::Result<Found> {
        match self {
            Self::Catalog(folder) => Ok(Found::Files(Within::new(tree, folder)?)),
            Self::Database(path) => {
                let mut file = tree.read(&path).with_context(|| {
                    format!("its label {DATABASE} names the file {path:?}, which is not there; correct the image")
                })?;
                Ok(Found::Database(Box::new(Database::copy(
                    &mut file, limits,
                )?)))
            }
            Self::Bundle => bail!(
                "the image is a bundle and no catalog: it has the label {PACKAGE} and not {CONFIGS}; name a catalog, or \
                 look at the bundle with \"rukpak inspect\""
            ),
            Self::Neither => bail!(
                "the image is no catalog: it has no label {CONFIGS}, which names the folder of one; name another image, or \
                 give it that label"
            ),
        }
    }
}

/// Whether there is a file below a folder.
pub(crate) fn has_folder(tree: &Tree, folder: &str) -> bool {
    tree.files().any(|(path, _)| below(path, folder).is_some())
}

/// The path relative to a folder, the root if that is empty.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    match folder {
        "" => Some(path),
        folder => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

/// The files of a catalog.
#[derive(Debug)]
pub(crate) enum Found {
    Files(Within),
    Database(Box<Database>),
}

// === impl Found ===

impl Found {
    /// A database by itself.
    pub(crate) fn open(path: &Path, limits: &Limits) -> Result<Self, sqlite::Error> {
        Ok(Self::Database(Box::new(Database::open(path, limits)?)))
    }

    /// What is to be said of it: that databases are not made any more, and what of this one is left out.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Self::Database(database) = self else {
            return Vec::new();
        };
        let old = "the catalog is an SQLite database, a form that is not made any more; \"rukpak catalog migrate\" writes it \
                   as files";
        let left_out = database.left_out();
        let mut warnings = vec![old.to_owned()];
        warnings.extend(left_out.iter().take(MOST_REASONS).cloned());
        if let Some(more @ 1..) = left_out.len().checked_sub(MOST_REASONS) {
            warnings.push(format!("and {more} more that are left out"));
        }
        warnings
    }

    /// Describes the entries that are missing from the catalog because they are not regular files.
    ///
    /// # Errors
    /// Returns an error if an `.indexignore` cannot be read.
    pub(crate) fn skipped(&self, limits: &Limits) -> Result<Option<String>, catalog::Error> {
        Ok(describe_skipped(&self.source().skipped(limits)?))
    }

    pub(crate) fn source(&self) -> catalog::Source<'_> {
        catalog::Source::Files(match self {
            Self::Files(files) => files,
            Self::Database(database) => &**database,
        })
    }
}

/// The folder of a catalog in what was fetched, which may be more than fits into memory.
#[derive(Debug)]
pub(crate) struct Within {
    tree: Tree,
    folder: String,
}

// === impl Within ===

impl Within {
    /// A folder that an image's label names, the root if it is empty.
    pub(crate) fn new(tree: Tree, folder: String) -> anyhow::Result<Self> {
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

    fn irregular(&self) -> Vec<(String, Irregular)> {
        let entries = self.tree.irregular();
        entries
            .filter_map(|(path, entry)| {
                Some((below(path, &self.folder)?.to_owned(), entry.clone()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use manifests::content::{self, Builder};

    use super::*;

    // parity: render-3
    #[test]
    fn labels_tell_what_an_image_is() {
        let catalog = |folder: &str| Ok(Labeled::Catalog(folder.to_owned()));
        let database = Ok(Labeled::Database("d/index.db".to_owned()));
        for (labels, expected, refusal) in ::tests::rows![
            &[(CONFIGS, "/configs")][..], catalog("configs") => None;
            &[(CONFIGS, "/")], catalog("") => None;
            &[(CONFIGS, "/a//b/"), (PACKAGE, "x"), (DATABASE, "/d")], catalog("a/b") => None;
            &[(CONFIGS, "../x")], Err("*names no folder*") => None;
            &[(PACKAGE, "x"), (DATABASE, "/d")], Ok(Labeled::Bundle) => Some("is a bundle and no catalog");
            &[(DATABASE, "/d/index.db")], database => Some("names the file \"d/index.db\", which is not there");
            &[(DATABASE, "../x")], Err("*names no file*") => None;
            &[], Ok(Labeled::Neither) => Some("has no label operators.operatorframework.io.index.configs.v1");
            &[("b", "2")], Ok(Labeled::Neither) => Some("is no catalog");
        ] {
            let owned = labels.iter();
            let owned = owned.map(|&(key, value)| (key.to_owned(), value.to_owned()));
            let owned: BTreeMap<String, String> = owned.collect();
            let found = Labeled::of(&owned).map_err(|error| format!("{error:#}"));
            ::tests::table::assert_outcome(found, expected, labels);
            let Ok(found) = Labeled::of(&owned) else {
                continue;
            };
            let mut files = Builder::new(content::Limits::default());
            for path in ["configs/a.json", "a/b/c.json"] {
                files.add(path, 0o644, &mut &b"{}"[..]).unwrap();
            }
            let tree = Tree::from_content(files.finish());
            let refused = found.catalog(tree, &Limits::default()).err();
            let refused = refused.map(|it| it.to_string());
            assert_eq!(
                refused.is_some(),
                refusal.is_some(),
                "{labels:?}: {refused:?}"
            );
            if let Some((refused, part)) = refused.zip(refusal) {
                ::tests::assert_has(refused, part);
            }
        }
    }
}

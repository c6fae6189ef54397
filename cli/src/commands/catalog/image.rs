//! Kind of an image by its labels, and the directory of a catalog in it.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use catalog::{
    Limits,
    source::{FileSource, describe_skipped},
    sqlite::{self, Database},
};
use manifests::content::{Irregular, normalize};
use unpacker::{Tree, source::Local};

use crate::{args, source::Source};

pub(crate) const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";
pub(crate) const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
const DATABASE: &str = "operators.operatorframework.io.index.database.v1";
/// Maximum number of warnings about skipped entries of a database.
const MAX_REASONS: usize = 5;

/// Kind of an image according to its labels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ImageKind {
    /// File-based catalog in this directory; empty for the root.
    Catalog(String),
    Bundle,
    /// Catalog in this database file.
    Database(String),
    Unknown,
}

pub(crate) fn is_image(source: &Source) -> bool {
    matches!(
        source.location,
        Ok(unpacker::Source::Image(_)
            | unpacker::Source::Local(
                Local::OciLayout(..) | Local::OciArchive(..) | Local::DockerArchive(..)
            ))
    )
}

/// Reports whether a file is an SQLite database. Read errors are ignored here and reported when the file is read.
pub(crate) fn is_database(path: &Path) -> bool {
    path.is_file() && sqlite::is_database(path).unwrap_or(false)
}

// === impl ImageKind ===

impl ImageKind {
    /// Returns the kind of an image with these labels. The label of a catalog takes precedence.
    ///
    /// # Errors
    /// Returns an error if the label of a catalog is not a valid path.
    pub(crate) fn from_labels(labels: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let Some(directory) = labels.get(CONFIGS) else {
            if labels.contains_key(PACKAGE) {
                return Ok(Self::Bundle);
            }
            let Some(path) = labels.get(DATABASE) else {
                return Ok(Self::Unknown);
            };
            let path = normalize(path.trim_start_matches('/')).with_context(|| {
                format!("image label {DATABASE} is not a valid path; fix the image")
            })?;
            return Ok(Self::Database(path));
        };
        let relative = directory.trim_start_matches('/');
        if matches!(relative.trim_end_matches('/'), "" | ".") {
            return Ok(Self::Catalog(String::new()));
        }
        let directory = normalize(relative)
            .with_context(|| format!("image label {CONFIGS} is not a valid path; fix the image"))?;
        Ok(Self::Catalog(directory))
    }

    /// Returns the catalog in the image.
    ///
    /// # Errors
    /// Returns an error if the image is not a catalog, or if the catalog cannot be read.
    pub(crate) fn catalog(self, tree: Tree, limits: &Limits) -> anyhow::Result<CatalogFiles> {
        match self {
            Self::Catalog(directory) => Ok(CatalogFiles::Files(CatalogDir::new(tree, directory)?)),
            Self::Database(path) => {
                let mut file = tree.read(&path).with_context(|| {
                    format!("file {path:?} of image label {DATABASE} not found; fix the image")
                })?;
                Ok(CatalogFiles::Database(Box::new(Database::copy(
                    &mut file, limits,
                )?)))
            }
            Self::Bundle => bail!(
                "the image is a bundle, not a catalog: it has label {PACKAGE} and not {CONFIGS}; use a catalog, or show the \
                 bundle with \"{} inspect\"",
                args::name()
            ),
            Self::Unknown => bail!(
                "the image is not a catalog: label {CONFIGS}, the directory of the catalog, is missing; use another image, \
                 or add the label"
            ),
        }
    }
}

/// Reports whether a file exists below a directory.
pub(crate) fn contains_directory(tree: &Tree, directory: &str) -> bool {
    tree.files()
        .any(|(path, _)| below(path, directory).is_some())
}

/// Returns the path relative to a directory; an empty directory is the root.
fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    match directory {
        "" => Some(path),
        directory => path.strip_prefix(directory)?.strip_prefix('/'),
    }
}

/// Files of a catalog.
#[derive(Debug)]
pub(crate) enum CatalogFiles {
    Files(CatalogDir),
    Database(Box<Database>),
}

// === impl CatalogFiles ===

impl CatalogFiles {
    /// Opens a database that is a file by itself.
    pub(crate) fn open(path: &Path, limits: &Limits) -> Result<Self, sqlite::Error> {
        Ok(Self::Database(Box::new(Database::open(path, limits)?)))
    }

    /// Returns the warnings about the catalog: that databases are outdated, and which entries of this one are skipped.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Self::Database(database) = self else {
            return Vec::new();
        };
        let outdated = format!(
            "SQLite catalogs are deprecated; run \"{} catalog migrate\" to convert it to a file-based catalog",
            args::name()
        );
        let skipped = database.left_out();
        let mut warnings = vec![outdated];
        warnings.extend(skipped.iter().take(MAX_REASONS).cloned());
        if let Some(more @ 1..) = skipped.len().checked_sub(MAX_REASONS) {
            warnings.push(format!("and {more} more are skipped"));
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

/// Directory of a catalog in a fetched tree, which may be larger than the memory.
#[derive(Debug)]
pub(crate) struct CatalogDir {
    tree: Tree,
    directory: String,
}

// === impl CatalogDir ===

impl CatalogDir {
    /// Returns the directory that a label of the image names; empty for the root.
    pub(crate) fn new(tree: Tree, directory: String) -> anyhow::Result<Self> {
        ensure!(
            directory.is_empty() || contains_directory(&tree, &directory),
            "directory {directory:?} of image label {CONFIGS} not found; fix the image"
        );
        Ok(Self { tree, directory })
    }
}

impl FileSource for CatalogDir {
    fn paths(&self) -> Vec<String> {
        let files = self.tree.files();
        files
            .filter_map(|(path, _)| below(path, &self.directory).map(str::to_owned))
            .collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let full = match self.directory.as_str() {
            "" => path.to_owned(),
            directory => format!("{directory}/{path}"),
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
                Some((below(path, &self.directory)?.to_owned(), entry.clone()))
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
    fn labels_determine_the_image_kind() {
        let catalog = |directory: &str| Ok(ImageKind::Catalog(directory.to_owned()));
        let database = Ok(ImageKind::Database("d/index.db".to_owned()));
        for (labels, expected, problem) in ::tests::rows![
            &[(CONFIGS, "/configs")][..], catalog("configs") => None;
            &[(CONFIGS, "/")], catalog("") => None;
            &[(CONFIGS, "/a//b/"), (PACKAGE, "x"), (DATABASE, "/d")], catalog("a/b") => None;
            &[(CONFIGS, "../x")], Err("*is not a valid path*") => None;
            &[(PACKAGE, "x"), (DATABASE, "/d")], Ok(ImageKind::Bundle) => Some("*is a bundle, not a catalog*");
            &[(DATABASE, "/d/index.db")], database => Some("*file \"d/index.db\" of image label \
                                                            operators.operatorframework.io.index.database.v1 not found*");
            &[(DATABASE, "../x")], Err("*is not a valid path*") => None;
            &[], Ok(ImageKind::Unknown) => Some("*label operators.operatorframework.io.index.configs.v1, the directory of \
                                                 the catalog, is missing*");
            &[("b", "2")], Ok(ImageKind::Unknown) => Some("*is not a catalog*");
        ] {
            let owned = labels.iter();
            let owned = owned.map(|&(key, value)| (key.to_owned(), value.to_owned()));
            let owned: BTreeMap<String, String> = owned.collect();
            let found = ImageKind::from_labels(&owned).map_err(|error| format!("{error:#}"));
            ::tests::table::assert_outcome(found, expected, labels);
            let Ok(found) = ImageKind::from_labels(&owned) else {
                continue;
            };
            let mut files = Builder::new(content::Limits::default());
            for path in ["configs/a.json", "a/b/c.json"] {
                files.add(path, 0o644, &mut &b"{}"[..]).unwrap();
            }
            let tree = Tree::from_content(files.finish());
            let read = found.catalog(tree, &Limits::default()).map(drop);
            ::tests::table::assert_outcome(read, problem.map_or(Ok(()), Err), labels);
        }
    }
}

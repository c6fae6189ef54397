//! Directory with the store of a catalog, named after the digest of the catalog's files.

mod digest;

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

use super::{
    document::DocumentPart,
    index_builder,
    store::{self, Digest, Store, Writer, is_unfinished, sweep},
};
use crate::{Limits, Meta, ReadError, Source, collect, schema, validate::Validator};

/// File extension of stores.
const EXTENSION: &str = ".registry";
/// Names that opm creates in a cache directory. Catalog images contain them; they are ignored.
const OPM_ENTRIES: [&str; 3] = ["cache", "digest", "pogreb.v1"];
/// Directory mode: access for owner and group, like the files.
const MODE: u32 = 0o770;

/// Reasons why a catalog cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog cannot be read.
    #[error("failed to read the catalog")]
    Source(#[from] crate::Error),
    /// The store cannot be read or written.
    #[error("failed to use the cache")]
    Store(#[from] store::Error),
    /// The directory contains files that do not belong to a cache.
    #[error("cache directory has unexpected contents: {names}; {} must be empty or a cache", directory.display())]
    Contents {
        /// Path of the cache directory.
        directory: PathBuf,
        /// Names of the unexpected files, separated by commas.
        names: String,
    },
    /// The directory contains no store.
    #[error("no cache in {}; build it with --cache-only, or serve with --cache-enforce-integrity=false", directory.display())]
    Missing {
        /// Path of the cache directory.
        directory: PathBuf,
    },
    /// The store was built from another catalog.
    #[error(
        "cache requires rebuild: cache reports digest as {reported:?}, but computed digest is {computed:?}"
    )]
    DigestMismatch {
        /// Digest of the catalog from which the store was built.
        reported: String,
        /// Digest of the catalog to serve.
        computed: String,
    },
    /// The catalog changed while it was read.
    #[error("the catalog changed while it was read; start the server when the catalog is complete")]
    Changed,
}

type Result<T, E = Error> = std::result::Result<T, E>;

/// A directory for stores.
#[derive(Debug, Clone)]
pub struct Cache {
    directory: PathBuf,
    /// Maximum size of a store in bytes; `None` applies the limit of the catalog's files.
    max_size: Option<u64>,
}

// === impl Cache ===

impl Cache {
    /// Opens a cache directory and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the directory contains other files, or cannot be read or created.
    pub fn open(directory: &Path) -> Result<Self> {
        let failed = |source| store::Error::File {
            action: "read the cache directory",
            path: directory.to_owned(),
            source,
        };
        if !directory.exists() {
            let make = || -> io::Result<()> {
                fs::create_dir_all(directory)?;
                fs::set_permissions(directory, Permissions::from_mode(MODE))
            };
            make().map_err(failed)?;
        }
        let cache = Self {
            directory: directory.to_owned(),
            max_size: None,
        };
        let names = cache.names().map_err(failed)?;
        let is_foreign = |name: &&String| {
            !name.ends_with(EXTENSION)
                && !is_unfinished(name)
                && !OPM_ENTRIES.contains(&name.as_str())
        };
        let foreign: Vec<&str> = names
            .iter()
            .filter(is_foreign)
            .take(20)
            .map(String::as_str)
            .collect();
        if !foreign.is_empty() {
            let names = foreign.join(",");
            return Err(Error::Contents {
                directory: directory.to_owned(),
                names,
            });
        }
        Ok(cache)
    }

    /// Limits the size of new stores to `bytes`. The default is the limit of the catalog's files.
    #[must_use]
    pub fn at_most(self, bytes: u64) -> Self {
        Self {
            max_size: Some(bytes),
            ..self
        }
    }

    /// Opens the store of a catalog and verifies all of its checksums.
    ///
    /// # Errors
    /// Returns an error if the store does not exist, belongs to another catalog, or was changed.
    pub fn load(&self, source: Source<'_>, limits: &Limits) -> Result<Store> {
        self.open_existing(&digest::compute(source, limits)?)
    }

    /// Opens the store of a catalog and verifies all of its checksums, or builds it if no usable store exists. Also
    /// returns whether the store was built.
    ///
    /// # Errors
    /// Returns an error if the catalog cannot be read or the store cannot be written.
    pub fn load_or_build(&self, source: Source<'_>, limits: &Limits) -> Result<(Store, bool)> {
        let digest = digest::compute(source, limits)?;
        match self.open_existing(&digest) {
            Ok(store) => Ok((store, false)),
            Err(reason) => {
                tracing::debug!(
                    reason = &reason as &dyn std::error::Error,
                    "building the cache"
                );
                Ok((self.build(source, limits, digest)?, true))
            }
        }
    }

    fn open_existing(&self, digest: &Digest) -> Result<Store> {
        let path = self.path(digest);
        if path.exists() {
            let store = Store::open(&path)?;
            if store.digest() != *digest {
                return Err(stale(&store.digest().to_string(), digest));
            }
            store.verify()?;
            return Ok(store);
        }
        let names = self.names().unwrap_or_default();
        match names.iter().find_map(|name| name.strip_suffix(EXTENSION)) {
            Some(other) => Err(stale(other, digest)),
            None => Err(Error::Missing {
                directory: self.directory.clone(),
            }),
        }
    }

    fn build(&self, source: Source<'_>, limits: &Limits, digest: Digest) -> Result<Store> {
        sweep(&self.directory)?;
        let max_size = self.max_size.unwrap_or(limits.total);
        let writer = Mutex::new(Writer::create(&self.directory, max_size)?);
        let make = |meta: std::result::Result<Meta<'_>, ReadError>| {
            // The check of the catalog reports problems of the document itself.
            let part = meta.as_ref().map_or(Ok(DocumentPart::Empty), |meta| {
                DocumentPart::from_document(meta, &writer)
            });
            (schema::parse_blob(meta), part)
        };
        let (documents, parts): (Vec<_>, Vec<_>) =
            collect(source, limits, make)?.into_iter().unzip();
        let parts = parts.into_iter().collect::<store::Result<_>>()?;
        let index = index_builder::index(&Validator::default().run(documents), parts);
        if digest::compute(source, limits)? != digest {
            return Err(Error::Changed);
        }
        let writer = writer.into_inner();
        let path = writer.finish(index, digest, &name(&digest))?;
        let store = Store::open(&path)?;
        self.remove_stale(&digest);
        Ok(store)
    }

    /// Removes stores of earlier versions of the catalog. A process that serves one keeps its open file, and a store
    /// that cannot be removed does no harm.
    fn remove_stale(&self, digest: &Digest) {
        for other in self.names().unwrap_or_default() {
            if other.ends_with(EXTENSION) && other != name(digest) {
                drop(fs::remove_file(self.directory.join(other)));
            }
        }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.directory.join(name(digest))
    }

    /// Returns the names of the directory entries, sorted.
    fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.directory)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }
}

fn name(digest: &Digest) -> String {
    format!("{digest}{EXTENSION}")
}

fn stale(reported: &str, computed: &Digest) -> Error {
    Error::DigestMismatch {
        reported: reported.to_owned(),
        computed: computed.to_string(),
    }
}

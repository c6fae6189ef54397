//! A folder with the store of a catalog, under the digest of what the catalog consists of.

mod digest;

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Mutex,
};

use super::{
    assemble,
    part::Part,
    store::{self, Digest, Store, Writer, is_unfinished, sweep},
};
use crate::{Fault, Limits, Meta, Source, blob, check::Check, collect};

/// How the files of stores end.
const EXTENSION: &str = ".registry";
/// What opm keeps in a folder that was made for it; images have it, and we leave it alone.
const OF_OPM: [&str; 3] = ["cache", "digest", "pogreb.v1"];
/// Group and owner, as files.
const MODE: u32 = 0o770;

/// Why a catalog cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The catalog cannot be read at all.
    #[error("failed to read the catalog")]
    Source(#[from] crate::Error),
    /// The store cannot be read or written.
    #[error("failed to use the cache")]
    Store(#[from] store::Error),
    /// The folder is used for something else.
    #[error("cache directory has unexpected contents: {names}; {} must be empty or a cache", folder.display())]
    Contents {
        /// The folder.
        folder: PathBuf,
        /// What is in it.
        names: String,
    },
    /// There is no store yet.
    #[error("there is no cache in {}; build it with --cache-only, or serve with --cache-enforce-integrity=false", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// The store is of another catalog.
    #[error(
        "cache requires rebuild: cache reports digest as {reported:?}, but computed digest is {computed:?}"
    )]
    Stale {
        /// Of what the store was made.
        reported: String,
        /// Of what is to be served.
        computed: String,
    },
    /// Somebody writes into the catalog.
    #[error("the catalog was changed while it was being read; serve it when it is complete")]
    Changed,
}

type Result<T, E = Error> = std::result::Result<T, E>;

/// A folder for stores.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    /// Bytes of a store, where it is not as much as the catalog may have.
    most: Option<u64>,
}

// === impl Cache ===

impl Cache {
    /// Takes a folder, which is made if it is absent.
    ///
    /// # Errors
    /// When it holds something else, or cannot be read or made.
    pub fn open(folder: &Path) -> Result<Self> {
        let failed = |source| store::Error::File {
            action: "read the cache folder",
            path: folder.to_owned(),
            source,
        };
        if !folder.exists() {
            let make = || -> io::Result<()> {
                fs::create_dir_all(folder)?;
                fs::set_permissions(folder, Permissions::from_mode(MODE))
            };
            make().map_err(failed)?;
        }
        let cache = Self {
            folder: folder.to_owned(),
            most: None,
        };
        let names = cache.names().map_err(failed)?;
        let is_foreign = |it: &&String| {
            !it.ends_with(EXTENSION) && !is_unfinished(it) && !OF_OPM.contains(&it.as_str())
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
                folder: folder.to_owned(),
                names,
            });
        }
        Ok(cache)
    }

    /// Builds only stores of so many bytes at most. Without that it is as many as the catalog's files may have.
    #[must_use]
    pub fn at_most(self, bytes: u64) -> Self {
        Self {
            most: Some(bytes),
            ..self
        }
    }

    /// Opens the store of a catalog, and reads all of it to see that it is whole.
    ///
    /// # Errors
    /// When there is none, or one of another catalog, or it was changed.
    pub fn load(&self, source: Source<'_>, limits: &Limits) -> Result<Store> {
        let digest = digest::of(source, limits)?;
        let store = self.existing(&digest)?;
        store.verify()?;
        Ok(store)
    }

    /// Opens the store of a catalog; builds it if there is none that can be used. Says whether it was built.
    ///
    /// # Errors
    /// When the catalog cannot be read or the store not be written.
    pub fn load_or_build(&self, source: Source<'_>, limits: &Limits) -> Result<(Store, bool)> {
        let digest = digest::of(source, limits)?;
        match self.existing(&digest) {
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

    fn existing(&self, digest: &Digest) -> Result<Store> {
        let path = self.path(digest);
        if path.exists() {
            let store = Store::open(&path)?;
            return if store.digest() == *digest {
                Ok(store)
            } else {
                Err(stale(&store.digest().to_string(), digest))
            };
        }
        let others = self.names().unwrap_or_default();
        match others.iter().find_map(|it| it.strip_suffix(EXTENSION)) {
            Some(other) => Err(stale(other, digest)),
            None => Err(Error::Missing {
                folder: self.folder.clone(),
            }),
        }
    }

    fn build(&self, source: Source<'_>, limits: &Limits, digest: Digest) -> Result<Store> {
        sweep(&self.folder)?;
        let most = self.most.unwrap_or(limits.total);
        let writer = Mutex::new(Writer::create(&self.folder, most)?);
        let make = |meta: std::result::Result<Meta<'_>, Fault>| {
            // What is wrong with a document is found by whoever checks the catalog.
            let part = meta
                .as_ref()
                .map_or(Ok(Part::Nothing), |it| Part::of(it, &writer));
            (blob::look(meta), part)
        };
        let (seen, parts): (Vec<_>, Vec<_>) = collect(source, limits, make)?.into_iter().unzip();
        let parts = parts.into_iter().collect::<store::Result<_>>()?;
        let index = assemble::index(&Check::default().run(seen), parts);
        if digest::of(source, limits)? != digest {
            return Err(Error::Changed);
        }
        let writer = writer
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let path = writer.finish(index, digest, &name(&digest))?;
        let store = Store::open(&path)?;
        self.forget_others(&digest);
        Ok(store)
    }

    /// Removes stores of what the catalog was before. Who serves one goes on, and it is no harm if one stays.
    fn forget_others(&self, digest: &Digest) {
        for other in self.names().unwrap_or_default() {
            if other.ends_with(EXTENSION) && other != name(digest) {
                drop(fs::remove_file(self.folder.join(other)));
            }
        }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(name(digest))
    }

    /// What is in the folder, sorted.
    fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.folder)?
            .map(|it| Ok(it?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }
}

fn name(digest: &Digest) -> String {
    format!("{digest}{EXTENSION}")
}

fn stale(reported: &str, computed: &Digest) -> Error {
    Error::Stale {
        reported: reported.to_owned(),
        computed: computed.to_string(),
    }
}

//! Catalogs in images.

mod stored;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use catalog::{
    Catalog,
    model::{MOST_BUNDLES, MOST_BYTES},
};
use manifests::{api::catalog_source::CatalogSource, content, image::Reference};
use tokio::task::spawn_blocking;
use unpacker::{Digest, Progress, Source, source::Image, store};

use self::stored::Stored;
use super::{Key, access};
use crate::context::Context;

/// How much an image of a catalog may hold: ten times what the largest known ones do.
const LIMITS: content::Limits = content::Limits {
    total: 2 << 30,
    file: 1 << 30,
    entries: 200_000,
    path: 1024,
    depth: 32,
};

/// How much of a finding is told, in characters.
const FINDING: usize = 300;

/// Why an image is no catalog here.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("spec.image of CatalogSource {catalog}: {problem}")]
    Reference {
        catalog: String,
        problem: manifests::image::Error,
    },
    #[error(transparent)]
    Access(#[from] access::Error),
    #[error(transparent)]
    Unpack(#[from] unpacker::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the store's own tar cannot be read")]
    Tar(#[from] std::io::Error),
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error(
        "the image of CatalogSource {catalog} has no file-based catalog{found}; catalogs in SQLite are not read, migrate it \
         with \"opm migrate\""
    )]
    Empty {
        catalog: String,
        /// What is there instead.
        found: String,
    },
    #[error("the provisioner is about to end")]
    Cancelled,
}

/// Catalogs that are in memory, by the digest of their content.
#[derive(Debug, Default)]
pub(super) struct Loaded(Mutex<HashMap<Digest, Slot>>);

/// One of them. Who reads it holds the lock.
type Slot = Arc<tokio::sync::Mutex<Weak<Catalog>>>;

/// Pulls and reads a catalog's image. One that is in memory already is not read again; but whether this CatalogSource may
/// pull it, the registry has said in any case.
pub(super) async fn read(
    ctx: &Context,
    loaded: &Loaded,
    (key, source): (&Key, &CatalogSource),
    reference: &str,
) -> Result<(Digest, Arc<Catalog>), Error> {
    let catalog = || key.to_string();
    let reference: Reference = reference.parse().map_err(|problem| Error::Reference {
        catalog: catalog(),
        problem,
    })?;
    let image = Source::Image(Image {
        reference,
        platform: None,
    });
    let access = access::of(ctx, key, source).await?;
    let options = unpacker::Options {
        limits: LIMITS,
        ..ctx.settings.unpack.clone()
    };
    let progress = Progress::default();
    let pinned = unpacker::unpack(&ctx.store, &image, &access, &options, &progress).await;
    ctx.metrics.unpacked(progress.done());
    let pinned = pinned?;
    let digest = pinned.digest;
    // Whoever gives up while it is read does not end that; and nobody begins a second time beside it.
    let slot = loaded.slot(digest).lock_owned().await;
    if let Some(known) = slot.upgrade() {
        return Ok((digest, known));
    }
    let store = Arc::clone(&ctx.store);
    let read = spawn_blocking(move || {
        let stored = Stored::new(store.reader(&digest)?)?;
        let limits = catalog::Limits {
            threads: 2, // reconciles go on beside it
            package_bundles: MOST_BUNDLES,
            package_size: MOST_BYTES,
            ..catalog::Limits::default()
        };
        let read = catalog::load(catalog::Source::Files(&stored), &limits)?;
        drop(pinned); // held until here
        Ok::<_, Error>((read, slot))
    });
    let (read, mut slot) = read.await.map_err(|_| Error::Cancelled)??;
    if let Some(found) = emptiness(&read) {
        return Err(Error::Empty {
            catalog: catalog(),
            found,
        });
    }
    let read = Arc::new(read);
    *slot = Arc::downgrade(&read);
    Ok((digest, read))
}

/// What is said of a catalog without any package; `None` if it has some. A database, or an image of something else, is
/// read as documents that are broken and belong to no package.
fn emptiness(read: &Catalog) -> Option<String> {
    if !read.packages.is_empty() || !read.broken.is_empty() {
        return None;
    }
    let first = read.findings.first().map(|it| {
        let text: String = it.to_string().chars().take(FINDING).collect();
        format!(" ({text})")
    });
    Some(first.unwrap_or_default())
}

// === impl Loaded ===

impl Loaded {
    fn slot(&self, digest: Digest) -> Slot {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who holds one reads it, or waits for that.
        loaded.retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|it| it.strong_count() > 0)
        });
        Arc::clone(loaded.entry(digest).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manifests::content::Builder;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn one_at_a_time_reads_a_catalog_also_when_nobody_waits_any_more() {
        let (loaded, digest) = (Loaded::default(), Digest::of(b"one"));
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let slot = loaded.slot(digest).lock_owned().await;
        let reading = std::thread::spawn(move || {
            finished.recv().unwrap();
            drop(slot);
        });
        let short = Duration::from_millis(100);
        let second = loaded.slot(digest).lock_owned();
        assert!(timeout(short, second).await.is_err());
        // Others are read meanwhile.
        drop(loaded.slot(Digest::of(b"two")).lock_owned().await);
        finish.send(()).unwrap();
        reading.join().unwrap();
        let mut third = loaded.slot(digest).lock_owned().await;
        assert!(third.upgrade().is_none());
        let read = Arc::new(Catalog::default());
        *third = Arc::downgrade(&read);
        drop(third);
        let fourth = loaded.slot(digest).lock_owned().await;
        assert!(fourth.upgrade().is_some());
        drop((fourth, read));
        drop(loaded.slot(Digest::of(b"two")));
        assert_eq!(
            loaded.0.lock().unwrap().len(),
            1,
            "what is gone is forgotten"
        );
    }

    fn loaded(files: &[(&str, &[u8])]) -> Catalog {
        let mut builder = Builder::new(LIMITS);
        for (path, bytes) in files {
            builder.add(path, 0o644, &mut &**bytes).unwrap();
        }
        let content = builder.finish();
        let limits = catalog::Limits::default();
        catalog::load(catalog::Source::Content(&content), &limits).unwrap()
    }

    #[test]
    fn a_database_and_other_images_are_no_empty_catalogs() {
        let package = b"{\"schema\":\"olm.package\",\"name\":\"a\",\"defaultChannel\":\"stable\"}";
        let database = b"SQLite format 3\0\x10\0\x01\x01\0\x40\x20\x20\0\0\0\x03";
        let program = b"\x7fELF\x02\x01\x01\0";
        for (path, bytes, said) in [
            (
                "database/index.db",
                &database[..],
                Some(" (database/index.db:1: "),
            ),
            ("bin/sh", &program[..], Some(" (bin/sh:1: ")),
            ("readme", b"Hello.\n", Some(" (readme:1: ")),
            ("other.json", b"{\"schema\":\"example.charts\"}", Some("")),
            // A package that is broken is one.
            ("catalog.json", package, None),
        ] {
            let found = emptiness(&loaded(&[(path, bytes)]));
            match (&found, said) {
                (Some(found), Some("")) => assert_eq!(found, ""),
                (Some(found), Some(said)) => assert!(found.starts_with(said), "{found}"),
                (None, None) => {}
                _ => panic!("{path}: {found:?}"),
            }
        }
        assert_eq!(emptiness(&loaded(&[])).as_deref(), Some(""));
    }
}

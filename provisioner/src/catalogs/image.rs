//! Catalogs in images.

mod remembered;
mod stored;
mod unfit;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use catalog::{
    Catalog,
    model::{MOST_BUNDLES, MOST_BYTES},
    source::{Files, describe_skipped},
    sqlite::{self, Database},
};
use manifests::{
    api::catalog_source::CatalogSource,
    content::{self, SkippedEntries},
    image::Reference,
};
use tokio::task::spawn_blocking;
use tracing::warn;
use unpacker::{
    Digest, Progress, Source,
    source::Image,
    store::{self, Hold},
};

use self::{remembered::Named, stored::Stored};
pub(super) use self::{remembered::Remembered, unfit::Unfit};
use super::{Key, access, plan::template_of, serving};
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
    #[error(transparent)]
    Database(#[from] sqlite::Error),
    #[error(
        "the image of CatalogSource {catalog} has no catalog{found}; name an image with the folder of a file-based catalog, \
         or with the database of an older one"
    )]
    Empty {
        catalog: String,
        /// What is there instead.
        found: String,
    },
    #[error(transparent)]
    Serving(#[from] serving::Error),
    /// As it was found before.
    #[error("{0}")]
    Unfit(String),
    #[error("the provisioner is about to end")]
    Cancelled,
}

/// Catalogs that are in memory, by the digest of their content.
#[derive(Debug, Default)]
pub(super) struct Loaded(Mutex<HashMap<Digest, Slot>>);

/// One of them. Who reads it holds the lock.
type Slot = Arc<tokio::sync::Mutex<Weak<Catalog>>>;

/// The content of a catalog's image, which stays in the store for as long.
pub(super) struct Pulled {
    /// By which the store has it.
    pub(super) digest: Digest,
    /// By which its registry has the image, if that was asked.
    pub(super) named: Option<String>,
    /// Entries of the image that are not regular files. Empty if the content was in the store after a restart.
    skipped: SkippedEntries,
    hold: Hold,
}

/// Pulls a catalog's image. Also where its content is here already, whether this CatalogSource may pull it, the registry
/// has said.
pub(super) async fn pull(
    ctx: &Context,
    (key, source): (&Key, &CatalogSource),
    reference: &str,
) -> Result<Pulled, Error> {
    let image = Source::Image(image(key, reference)?);
    let access = access::of(ctx, key, source).await?;
    let options = unpacker::Options {
        limits: LIMITS,
        ..ctx.settings.unpack.clone()
    };
    let progress = Progress::default();
    let pinned = unpacker::unpack(&ctx.store, &image, &access, &options, &progress).await;
    ctx.metrics.unpacked(progress.done());
    let pinned = pinned?;
    Ok(Pulled {
        digest: pinned.digest,
        named: digest(&pinned.resolved),
        skipped: pinned.skipped,
        hold: pinned.hold,
    })
}

/// By which digest the registry has an image now, if it says that.
pub(super) async fn named(
    ctx: &Context,
    (key, source): (&Key, &CatalogSource),
    reference: &str,
) -> Option<String> {
    let image = image(key, reference).ok()?;
    let mut access = access::of(ctx, key, source).await.ok()?;
    if !image.reference.is_pinned() {
        access.mirrors = access.mirrors.of_tag(&image.reference);
    }
    let resolved = unpacker::resolve(&Source::Image(image), &access).await;
    digest(&resolved.ok()?)
}

fn image(key: &Key, reference: &str) -> Result<Image, Error> {
    let reference: Reference = reference.parse().map_err(|problem| Error::Reference {
        catalog: key.to_string(),
        problem,
    })?;
    Ok(Image {
        reference,
        platform: None,
    })
}

fn digest(pinned: &Source) -> Option<String> {
    match pinned {
        Source::Image(image) => image.reference.digest().map(str::to_owned),
        _ => None,
    }
}

/// What the image of a CatalogSource had when it was pulled last, if that is still in the store, and which image that was:
/// its template may have named another one. Nobody is asked.
pub(super) async fn recall(
    ctx: &Context,
    remembered: &Remembered,
    source: &CatalogSource,
    reference: &str,
) -> Option<(Pulled, String)> {
    let (store, remembered) = (Arc::clone(&ctx.store), remembered.clone());
    let (uid, reference) = (source.metadata.uid.clone()?, reference.to_owned());
    let template = template_of(source).map(str::to_owned);
    let found = spawn_blocking(move || {
        let named = Named {
            image: &reference,
            template: template.as_deref(),
        };
        let (digest, image) = remembered.get(&uid, named)?;
        let hold = store.hold(&digest).ok()?;
        let pulled = Pulled {
            digest,
            named: None,
            skipped: SkippedEntries::default(),
            hold,
        };
        Some((pulled, image))
    });
    found.await.ok().flatten()
}

/// Keeps in mind what the image of a CatalogSource had; without a content, which image its template is.
pub(super) async fn remember(
    remembered: &Remembered,
    source: &CatalogSource,
    reference: &str,
    digest: Option<Digest>,
) {
    let Some(uid) = source.metadata.uid.clone() else {
        return;
    };
    let (remembered, image) = (remembered.clone(), reference.to_owned());
    let template = template_of(source).map(str::to_owned);
    if digest.is_none() && template.is_none() {
        return;
    }
    let put = spawn_blocking(move || {
        let named = Named {
            image: &image,
            template: template.as_deref(),
        };
        remembered.put(&uid, named, digest)
    });
    let put = put.await;
    if let Ok(Err(error)) = put {
        warn!(%error, "cannot note what the image of a catalog has; after a restart it is pulled first");
    }
}

/// What the template of a CatalogSource was last, if that was noted.
pub(super) async fn last(remembered: &Remembered, source: &CatalogSource) -> Option<String> {
    let (remembered, uid) = (remembered.clone(), source.metadata.uid.clone()?);
    let template = template_of(source)?.to_owned();
    let found = spawn_blocking(move || remembered.last(&uid, &template));
    found.await.ok().flatten()
}

/// Reads what was pulled. A content that is in memory already is not read again.
pub(super) async fn read(
    ctx: &Context,
    loaded: &Loaded,
    key: &Key,
    pulled: &Pulled,
) -> Result<Arc<Catalog>, Error> {
    let digest = pulled.digest;
    // Whoever gives up while it is read does not end that; and nobody begins a second time beside it.
    let slot = loaded.slot(digest).lock_owned().await;
    if let Some(known) = slot.upgrade() {
        return Ok(known);
    }
    if let Some(problem) = describe_skipped(&pulled.skipped) {
        warn!(catalog = %key, problem, "a part of a catalog is not served");
    }
    let (store, held) = (Arc::clone(&ctx.store), pulled.hold.clone());
    let read = spawn_blocking(move || {
        let stored = Stored::new(store.reader(&digest)?)?;
        let limits = catalog::Limits {
            threads: 2, // reconciles go on beside it
            package_bundles: MOST_BUNDLES,
            package_size: MOST_BYTES,
            ..catalog::Limits::default()
        };
        let database = Database::alone(&stored, &limits)?;
        let files = database
            .as_ref()
            .map_or(&stored as &dyn Files, |it| it as &dyn Files);
        let read = catalog::load(catalog::Source::Files(files), &limits)?;
        drop(held); // until here, whoever waits for it
        Ok::<_, Error>((read, slot))
    });
    let (read, mut slot) = read.await.map_err(|_| Error::Cancelled)??;
    if let Some(found) = emptiness(&read) {
        return Err(Error::Empty {
            catalog: key.to_string(),
            found,
        });
    }
    let read = Arc::new(read);
    *slot = Arc::downgrade(&read);
    Ok(read)
}

// === impl Pulled ===

impl Pulled {
    /// Its files, for whoever serves them.
    pub(super) fn files(
        &self,
        ctx: &Context,
    ) -> impl FnOnce() -> Result<Box<dyn Files + Send>, serving::Error> + Send + use<> {
        let (store, digest, hold) = (Arc::clone(&ctx.store), self.digest, self.hold.clone());
        move || {
            let reader = store.reader(&digest)?; // which holds it itself
            drop(hold);
            Ok(Box::new(Stored::new(reader).map_err(serving::Error::Tar)?))
        }
    }
}

/// What is said of a catalog without any package; `None` if it has some. An image of something else, also a database beside
/// other files, is read as documents that are broken and belong to no package.
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
        assert_rows!(timeout(Duration::from_millis(100), loaded.slot(digest).lock_owned()).await.is_err() => true);
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
        assert_rows!(loaded.0.lock().unwrap().len() => 1, "what is gone is forgotten");
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
        for (path, bytes, said) in ::tests::rows![
            "database/index.db", &database[..] => Some(" (database/index.db:1: ");
            "bin/sh", &program[..] => Some(" (bin/sh:1: ");
            "readme", b"Hello.\n" => Some(" (readme:1: ");
            "other.json", b"{\"schema\":\"example.charts\"}" => Some("");
            // A package that is broken is one.
            "catalog.json", package => None;
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

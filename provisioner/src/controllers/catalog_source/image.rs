//! Catalogs in images: pulls the image and reads its catalog.

mod digest_cache;
mod registry_slots;
mod rejected;
mod store_files;

use std::{
    collections::{BTreeSet, HashMap},
    io,
    sync::{Arc, Weak},
};

use catalog::{
    Catalog,
    model::{MAX_BUNDLES, MAX_BYTES},
    source::{FileSource, describe_skipped},
    sqlite::{self, Database},
};
use manifests::{
    api::catalog_source::CatalogSource,
    content::{self, SkippedEntries},
    image::Reference,
};
use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tracing::warn;
use unpacker::{
    Digest, Progress, Source, Store,
    source::Image,
    store::{self, Hold},
};

pub(super) use self::{
    digest_cache::DigestCache, registry_slots::RegistrySlots, rejected::RejectedImage,
};
use self::{digest_cache::ImageSelector, store_files::StoreFiles};
use super::{CatalogKey, locate::template_of, pull_secrets, registry_server};
use crate::controllers::context::Context;

/// Limits of the content of a catalog image: ten times those of the largest known catalogs.
const LIMITS: content::Limits = content::Limits {
    total: 2 << 30,
    file: 1 << 30,
    entries: 200_000,
    path: 1024,
    depth: 32,
};

/// Maximum length of a reported finding, in characters.
const MAX_FINDING_LEN: usize = 300;

/// Error that keeps an image from being used as a catalog.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("spec.image of CatalogSource {catalog}: {problem}")]
    Reference {
        catalog: String,
        problem: manifests::image::Error,
    },
    #[error(transparent)]
    Access(#[from] pull_secrets::Error),
    #[error(transparent)]
    Unpack(#[from] unpacker::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("failed to read an archive of the content store")]
    Tar(#[from] io::Error),
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error(transparent)]
    Database(#[from] sqlite::Error),
    #[error(
        "the image of CatalogSource {catalog} contains no catalog{found}; use an image with a file-based catalog or an \
         SQLite catalog"
    )]
    Empty {
        catalog: String,
        /// Text of the first finding, or empty.
        found: String,
    },
    #[error(transparent)]
    Serving(#[from] registry_server::Error),
    /// An earlier attempt has rejected this image.
    #[error("{0}")]
    Rejected(String),
    #[error("the provisioner is shutting down")]
    Cancelled,
}

/// Catalogs in memory, by the digest of their content.
#[derive(Debug, Default)]
pub(super) struct LoadedCatalogs(Mutex<HashMap<Digest, Slot>>);

/// Slot of one catalog. The lock is held while the catalog is being read.
type Slot = Arc<tokio::sync::Mutex<Weak<Catalog>>>;

/// Content of a catalog image. It is held in the content store for the lifetime of this value.
pub(super) struct PulledCatalog {
    /// Digest of the content in the content store.
    pub(super) digest: Digest,
    /// Digest of the image in its registry, if the registry was contacted.
    pub(super) registry_digest: Option<String>,
    /// Entries of the image that are not regular files. Empty if the content was in the store after a restart.
    skipped: SkippedEntries,
    hold: Hold,
}

/// Pulls a catalog image. Contacts the registry even if the content is stored already, to check that the credentials of the
/// CatalogSource allow the pull.
pub(super) async fn pull(
    ctx: &Context,
    slots: &RegistrySlots,
    (key, source): (&CatalogKey, &CatalogSource),
    reference: &str,
) -> Result<PulledCatalog, Error> {
    let image = image(key, reference)?;
    let access = pull_secrets::load(ctx, key, source).await?;
    let _slot = slots.acquire(image.reference.domain()).await;
    let image = Source::Image(image);
    let options = unpacker::Options {
        limits: LIMITS,
        ..ctx.settings.unpack.clone()
    };
    let progress = Progress::default();
    let pinned = unpacker::unpack(&ctx.store, &image, &access, &options, &progress).await;
    ctx.metrics.unpacked(progress.done());
    let pinned = pinned?;
    Ok(PulledCatalog {
        digest: pinned.digest,
        registry_digest: digest(&pinned.resolved),
        skipped: pinned.skipped,
        hold: pinned.hold,
    })
}

/// Returns the digest that the registry currently has for an image, or `None` if it does not report one.
pub(super) async fn registry_digest(
    ctx: &Context,
    slots: &RegistrySlots,
    (key, source): (&CatalogKey, &CatalogSource),
    reference: &str,
) -> Option<String> {
    let image = image(key, reference).ok()?;
    let mut access = pull_secrets::load(ctx, key, source).await.ok()?;
    if !image.reference.is_pinned() {
        access.mirrors = access.mirrors.of_tag(&image.reference);
    }
    let _slot = slots.acquire(image.reference.domain()).await;
    let resolved = unpacker::resolve(&Source::Image(image), &access).await;
    digest(&resolved.ok()?)
}

fn image(key: &CatalogKey, reference: &str) -> Result<Image, Error> {
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

/// Returns the content that the image of a CatalogSource had when it was last pulled, if it is still stored, and the
/// reference of that image. The reference differs if the template resolved to another image then. No network access.
pub(super) async fn load_cached(
    ctx: &Context,
    digest_cache: &DigestCache,
    source: &CatalogSource,
    reference: &str,
) -> Option<(PulledCatalog, String)> {
    let (store, digest_cache) = (Arc::clone(&ctx.store), digest_cache.clone());
    let (uid, reference) = (source.metadata.uid.clone()?, reference.to_owned());
    let template = template_of(source).map(str::to_owned);
    let result = spawn_blocking(move || {
        let selector = ImageSelector {
            image: &reference,
            template: template.as_deref(),
        };
        let (digest, image) = digest_cache.get(&uid, selector)?;
        let hold = store.hold(&digest).ok()?;
        let pulled = PulledCatalog {
            digest,
            registry_digest: None,
            skipped: SkippedEntries::default(),
            hold,
        };
        Some((pulled, image))
    });
    result.await.ok().flatten()
}

/// Records the content digest of a CatalogSource's image. Without a digest, records the image that its template resolved
/// to.
pub(super) async fn record(
    digest_cache: &DigestCache,
    source: &CatalogSource,
    reference: &str,
    digest: Option<Digest>,
) {
    let Some(uid) = source.metadata.uid.clone() else {
        return;
    };
    let (digest_cache, image) = (digest_cache.clone(), reference.to_owned());
    let template = template_of(source).map(str::to_owned);
    if digest.is_none() && template.is_none() {
        return;
    }
    let result = spawn_blocking(move || {
        let selector = ImageSelector {
            image: &image,
            template: template.as_deref(),
        };
        digest_cache.put(&uid, selector, digest)
    });
    let result = result.await;
    if let Ok(Err(error)) = result {
        warn!(
            %error,
            "failed to record the content of a catalog image; it is pulled again after a restart"
        );
    }
}

/// Returns the content digests of all CatalogSources whose images were pulled into a store. Blocks.
pub(crate) fn recorded_digests(store: &Store) -> io::Result<BTreeSet<Digest>> {
    DigestCache::new(store.dir()).digests()
}

/// Returns the image that the template of a CatalogSource last resolved to, if it was recorded.
pub(super) async fn last_image(
    digest_cache: &DigestCache,
    source: &CatalogSource,
) -> Option<String> {
    let (digest_cache, uid) = (digest_cache.clone(), source.metadata.uid.clone()?);
    let template = template_of(source)?.to_owned();
    let result = spawn_blocking(move || digest_cache.last_image(&uid, &template));
    result.await.ok().flatten()
}

/// Reads the pulled content. Content that is already in memory is not read again.
pub(super) async fn read(
    ctx: &Context,
    loaded: &LoadedCatalogs,
    key: &CatalogKey,
    pulled: &PulledCatalog,
) -> Result<Arc<Catalog>, Error> {
    let digest = pulled.digest;
    // The blocking task owns the lock. A read continues if its caller is cancelled, and no second one starts beside it.
    let slot = loaded.slot(digest).lock_owned().await;
    if let Some(catalog) = slot.upgrade() {
        return Ok(catalog);
    }
    if let Some(problem) = describe_skipped(&pulled.skipped) {
        warn!(catalog = %key, problem, "a part of a catalog is not served");
    }
    let (store, hold) = (Arc::clone(&ctx.store), pulled.hold.clone());
    let catalog = spawn_blocking(move || {
        let stored = StoreFiles::new(store.reader(&digest)?)?;
        let limits = limits();
        let database = Database::private_copy(&stored, &limits)?;
        let files = database
            .as_ref()
            .map_or(&stored as &dyn FileSource, |database| {
                database as &dyn FileSource
            });
        let catalog = catalog::load(catalog::Source::Files(files), &limits)?;
        drop(hold); // kept during the read, even if the caller is cancelled
        Ok::<_, Error>((catalog, slot))
    });
    let (catalog, mut slot) = catalog.await.map_err(|_| Error::Cancelled)??;
    if let Some(found) = describe_empty(&catalog) {
        return Err(Error::Empty {
            catalog: key.to_string(),
            found,
        });
    }
    let catalog = Arc::new(catalog);
    *slot = Arc::downgrade(&catalog);
    Ok(catalog)
}

/// Returns the limits for the catalog in an image.
fn limits() -> catalog::Limits {
    catalog::Limits {
        threads: 2, // leaves CPU for reconciles
        package_bundles: MAX_BUNDLES,
        package_size: MAX_BYTES,
        ..catalog::Limits::default()
    }
}

// === impl PulledCatalog ===

impl PulledCatalog {
    /// Returns a function that opens the files of the content for the built-in server.
    pub(super) fn files(
        &self,
        ctx: &Context,
    ) -> impl FnOnce() -> Result<Box<dyn FileSource + Send>, registry_server::Error> + Send + use<>
    {
        let (store, digest, hold) = (Arc::clone(&ctx.store), self.digest, self.hold.clone());
        move || {
            let reader = store.reader(&digest)?; // has its own hold
            drop(hold);
            Ok(Box::new(
                StoreFiles::new(reader).map_err(registry_server::Error::Tar)?,
            ))
        }
    }
}

/// Returns the text of the first finding if a catalog has no packages, and `None` otherwise. An image of another kind, or
/// with a database beside other files, is read as malformed documents without a package.
fn describe_empty(catalog: &Catalog) -> Option<String> {
    if !catalog.packages.is_empty() || !catalog.broken.is_empty() {
        return None;
    }
    let first = catalog.findings.first().map(|finding| {
        let text: String = finding.to_string().chars().take(MAX_FINDING_LEN).collect();
        format!(" ({text})")
    });
    Some(first.unwrap_or_default())
}

// === impl LoadedCatalogs ===

impl LoadedCatalogs {
    fn slot(&self, digest: Digest) -> Slot {
        let mut loaded = self.0.lock();
        // A task with another reference to the slot is reading the catalog or waits for it.
        loaded.retain(|_, slot| {
            Arc::strong_count(slot) > 1
                || slot
                    .try_lock()
                    .is_ok_and(|catalog| catalog.strong_count() > 0)
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
    async fn content_is_read_once_at_a_time_also_after_cancellation() {
        let (loaded, digest) = (LoadedCatalogs::default(), Digest::sha256(b"one"));
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let slot = loaded.slot(digest).lock_owned().await;
        let reading = std::thread::spawn(move || {
            finished.recv().unwrap();
            drop(slot);
        });
        assert_rows!(timeout(Duration::from_millis(100), loaded.slot(digest).lock_owned()).await.is_err() => true);
        // Other contents can be read at the same time.
        drop(loaded.slot(Digest::sha256(b"two")).lock_owned().await);
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
        drop(loaded.slot(Digest::sha256(b"two")));
        assert_rows!(loaded.0.lock().len() => 1, "unused entries are dropped");
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
    fn packages_of_images_are_limited() {
        assert_rows!((limits().package_bundles, limits().package_size) => (MAX_BUNDLES, MAX_BYTES));
    }

    #[test]
    fn images_without_packages_are_rejected() {
        let package = b"{\"schema\":\"olm.package\",\"name\":\"a\",\"defaultChannel\":\"stable\"}";
        let database = b"SQLite format 3\0\x10\0\x01\x01\0\x40\x20\x20\0\0\0\x03";
        let program = b"\x7fELF\x02\x01\x01\0";
        for (path, bytes, expected) in ::tests::rows![
            "database/index.db", &database[..] => Err(" (database/index.db:1: *");
            "bin/sh", &program[..] => Err(" (bin/sh:1: *");
            "readme", b"Hello.\n" => Err(" (readme:1: *");
            "other.json", b"{\"schema\":\"example.charts\"}" => Err("");
            // A malformed package counts as a package.
            "catalog.json", package => Ok(());
        ] {
            let found = describe_empty(&loaded(&[(path, bytes)]));
            ::tests::table::assert_outcome(found.map_or(Ok(()), Err), expected, path);
        }
        assert_eq!(describe_empty(&loaded(&[])).as_deref(), Some(""));
    }
}

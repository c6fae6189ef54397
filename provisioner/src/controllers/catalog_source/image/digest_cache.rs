//! On-disk cache of the content digests of catalog images, beside the content store. After a restart, a catalog is
//! available at once, even while its registry is unavailable.
//!
//! The permission to pull an image belongs to one CatalogSource, so a record applies only to its uid and image reference.
//! If the image came from a template, the record also applies to images that the same template resolves to later, which may
//! not exist yet. The record also provides the last image while a template resolves to none.

use std::{
    collections::BTreeSet,
    fs::{self, DirEntry, File},
    io::{self, ErrorKind, Read as _, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use unpacker::Digest;

/// Subdirectory of the content store's directory.
const DIRECTORY: &str = "catalogs";
/// Maximum size of a record in bytes. A record consists of a digest, an image reference and an optional template digest.
const MAX_RECORD_SIZE: u64 = 4096;
/// Placeholder for the digest if the content has not been read.
const NO_DIGEST: &str = "-";
/// Maximum number of records. Deletions of CatalogSources may be missed, so the oldest records are removed. A catalog
/// without a record is pulled again.
const MAX_RECORDS: usize = 10_000;

/// Image reference of a CatalogSource and the template it came from.
#[derive(Debug, Clone, Copy)]
pub(in crate::controllers::catalog_source) struct ImageSelector<'a> {
    pub(in crate::controllers::catalog_source) image: &'a str,
    /// Template from which the image was resolved.
    pub(in crate::controllers::catalog_source) template: Option<&'a str>,
}

/// Content of a record.
struct CacheRecord {
    digest: Option<Digest>,
    image: String,
    /// Digest of the template from which the image was resolved.
    template: Option<Digest>,
}

/// Directory with one record per CatalogSource.
#[derive(Debug, Clone)]
pub(in crate::controllers::catalog_source) struct DigestCache {
    directory: PathBuf,
}

// === impl DigestCache ===

impl DigestCache {
    /// Creates a cache in the directory of the content store.
    pub(in crate::controllers::catalog_source) fn new(store: &Path) -> Self {
        Self {
            directory: store.join(DIRECTORY),
        }
    }

    /// Returns the content digest and the image reference that were recorded for this CatalogSource. The record applies if
    /// the image or the template is the same. An unreadable record counts as missing.
    pub(in crate::controllers::catalog_source) fn get(
        &self,
        uid: &str,
        selector: ImageSelector<'_>,
    ) -> Option<(Digest, String)> {
        let record = self.record(uid)?;
        let is_same_template =
            record.template.is_some() && record.template == template_digest(selector.template);
        let is_same = record.image == selector.image || is_same_template;
        let digest = record.digest.filter(|_| is_same)?;
        Some((digest, record.image))
    }

    /// Returns the image that this template of the CatalogSource last resolved to.
    pub(in crate::controllers::catalog_source) fn last_image(
        &self,
        uid: &str,
        template: &str,
    ) -> Option<String> {
        let record = self.record(uid)?;
        (record.template == template_digest(Some(template))).then_some(record.image)
    }

    /// Records a digest in place of the previous one. Without a digest, the recorded digest of the same image is kept.
    /// Records are not synced to disk, so a machine crash may lose them.
    pub(in crate::controllers::catalog_source) fn put(
        &self,
        uid: &str,
        selector: ImageSelector<'_>,
        digest: Option<Digest>,
    ) -> io::Result<()> {
        let recorded = || {
            self.get(uid, selector)
                .filter(|(_, image)| image == selector.image)
        };
        let digest = digest.or_else(|| recorded().map(|(digest, _)| digest));
        let digest = digest.map_or_else(|| NO_DIGEST.to_owned(), |digest| digest.to_string());
        let template = template_digest(selector.template);
        let template = template.map_or_else(String::new, |digest| format!("{digest}\n"));
        let text = format!("{digest}\n{}\n{template}", selector.image);
        if self.read(uid).as_ref() == Some(&text) {
            return Ok(());
        }
        fs::create_dir_all(&self.directory)?;
        self.sweep(MAX_RECORDS)?;
        let path = self.path(uid);
        let temporary = path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&temporary, &path)
    }

    /// Returns the content digests of all records. A malformed record is ignored, but an error of the file system is not,
    /// because the content of an unread record must not be removed.
    pub(in crate::controllers::catalog_source) fn digests(&self) -> io::Result<BTreeSet<Digest>> {
        let records = match fs::read_dir(&self.directory) {
            Ok(records) => records,
            // No content was recorded yet.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(error),
        };
        let mut digests = BTreeSet::new();
        for record in records {
            let text = match read(&record?.path()) {
                Ok(text) => text,
                Err(error) => match error.kind() {
                    // The CatalogSource was deleted, or the record is not text.
                    ErrorKind::NotFound | ErrorKind::InvalidData => continue,
                    _ => return Err(error),
                },
            };
            let record = CacheRecord::parse(&text);
            digests.extend(record.and_then(|record| record.digest));
        }
        Ok(digests)
    }

    /// Removes the record of a deleted CatalogSource.
    pub(in crate::controllers::catalog_source) fn forget(&self, uid: &str) {
        // A record that cannot be removed is harmless.
        drop(fs::remove_file(self.path(uid)));
    }

    fn record(&self, uid: &str) -> Option<CacheRecord> {
        CacheRecord::parse(&self.read(uid)?)
    }

    fn read(&self, uid: &str) -> Option<String> {
        read(&self.path(uid)).ok()
    }

    /// Removes the oldest tenth of the records if the cache has `max_records` or more.
    fn sweep(&self, max_records: usize) -> io::Result<()> {
        let mut all: Vec<DirEntry> = fs::read_dir(&self.directory)?.collect::<io::Result<_>>()?;
        if all.len() < max_records {
            return Ok(());
        }
        all.sort_by_cached_key(|entry| {
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            written.unwrap_or(SystemTime::UNIX_EPOCH)
        });
        let retained = max_records / 10 * 9;
        let surplus = all.len().saturating_sub(retained);
        all.iter()
            .take(surplus)
            .try_for_each(|entry| fs::remove_file(entry.path()))
    }

    /// Returns the path of a record. The uid is hashed, because it might contain path separators.
    fn path(&self, uid: &str) -> PathBuf {
        self.directory.join(Digest::sha256(uid.as_bytes()).hex())
    }
}

// === impl CacheRecord ===

impl CacheRecord {
    fn parse(text: &str) -> Option<Self> {
        let (digest, remaining) = text.strip_suffix('\n')?.split_once('\n')?;
        let (image, template) = match remaining.split_once('\n') {
            Some((image, template)) => (image, Some(template.parse().ok()?)),
            None => (remaining, None),
        };
        Some(Self {
            digest: match digest {
                NO_DIGEST => None,
                digest => Some(digest.parse().ok()?),
            },
            image: image.to_owned(),
            template,
        })
    }
}

/// Reads the text of a record.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(MAX_RECORD_SIZE).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the digest of a template, because a template may be long and contain line breaks.
fn template_digest(template: Option<&str>) -> Option<Digest> {
    template.map(|template| Digest::sha256(template.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = "example.com/catalog:v1";

    fn plain(image: &str) -> ImageSelector<'_> {
        let template = None;
        ImageSelector { image, template }
    }

    fn digest(cache: &DigestCache, uid: &str, image: &str) -> Option<Digest> {
        cache.get(uid, plain(image)).map(|(digest, _)| digest)
    }

    fn named<'a>(image: &'a str, template: &'a str) -> ImageSelector<'a> {
        let template = Some(template);
        ImageSelector { image, template }
    }

    #[test]
    fn template_with_a_new_value_keeps_the_former_content() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DigestCache::new(dir.path());
        let (minor, next) = ("r/c:v1.36", "r/c:v1.37");
        let one = Digest::sha256(b"one");
        let template = "r/c:v{kube_major_version}.{kube_minor_version}\n";
        cache.put("u1", named(minor, template), Some(one)).unwrap();
        let again = DigestCache::new(dir.path());
        let content = Some((one, minor.to_owned()));
        assert_rows! {
            again.get("u1", named(minor, template)) => content;
            again.get("u1", named(next, template)) => content;
            again.get("u1", plain(minor)) => content;
            again.get("u1", plain(next)) => None;
            again.get("u1", named(next, "r/other:{kube_minor_version}")) => None;
            again.get("u1", named(next, "")) => None;
            again.get("u2", named(next, template)) => None;
        }
        // The same content is recorded again if a template starts or stops resolving to it.
        cache.put("u1", plain(minor), Some(one)).unwrap();
        assert_eq!(again.get("u1", named(next, template)), None);
        cache.put("u1", named(minor, template), Some(one)).unwrap();
        assert_eq!(again.get("u1", named(next, template)), content);
    }

    #[test]
    fn last_image_of_a_template_is_recorded_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DigestCache::new(dir.path());
        let template = "r/c:{platform_architecture}";
        let [one, other] = ["r/c:x86_64", "r/c:aarch64"].map(|image| named(image, template));
        let last = |uid, template| cache.last_image(uid, template);
        assert_eq!(last("u1", template), None);
        cache.put("u1", one, None).unwrap();
        assert_rows! {
            last("u1", template).as_deref() => Some("r/c:x86_64");
            cache.get("u1", one) => None, "no content is recorded";
            last("u2", template) => None;
            last("u1", "r/c:{kube_minor_version}") => None;
            last("u1", "") => None;
        }
        // The content of this image is kept, and that of another image is not used for it.
        let content = Digest::sha256(b"one");
        cache.put("u1", one, Some(content)).unwrap();
        cache.put("u1", one, None).unwrap();
        assert_rows!(cache.get("u1", one) => Some((content, "r/c:x86_64".to_owned())));
        cache.put("u1", other, None).unwrap();
        assert_eq!(last("u1", template).as_deref(), Some("r/c:aarch64"));
        assert_eq!((cache.get("u1", one), cache.get("u1", other)), (None, None));
        // An image without a template is not the last one of any template.
        cache.put("u1", plain(IMAGE), Some(content)).unwrap();
        assert_eq!(last("u1", template), None);
    }

    // parity: serve-5
    #[test]
    fn each_catalog_source_has_its_own_content_for_its_own_image() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DigestCache::new(dir.path());
        assert_eq!(digest(&cache, "u1", IMAGE), None);
        let (one, two) = (Digest::sha256(b"one"), Digest::sha256(b"two"));
        cache.put("u1", plain(IMAGE), Some(one)).unwrap();
        cache.put("../u2", plain(IMAGE), Some(two)).unwrap();
        let again = DigestCache::new(dir.path());
        assert_eq!(digest(&again, "u1", IMAGE), Some(one));
        assert_eq!(digest(&again, "../u2", IMAGE), Some(two));
        let next = "example.com/catalog:v2";
        for (uid, image) in [("u1", next), ("u1", ""), ("u3", IMAGE), ("", IMAGE)] {
            assert_eq!(digest(&again, uid, image), None, "{uid} {image}");
        }
        again.put("u1", plain(next), Some(two)).unwrap();
        assert_rows!(digest(&again, "u1", IMAGE) => None, "the image is another one");
        again.forget("u1");
        again.forget("u1");
        assert_eq!(digest(&again, "u1", next), None);
        assert_rows!(fs::read_dir(dir.path()).unwrap().count() => 1, "all in one directory");
    }

    #[test]
    fn digests_of_all_readable_records_are_returned() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DigestCache::new(dir.path());
        assert_rows!(cache.digests().unwrap() => BTreeSet::new(), "no directory");
        let (one, two) = (Digest::sha256(b"one"), Digest::sha256(b"two"));
        cache.put("u1", plain(IMAGE), Some(one)).unwrap();
        cache.put("u2", named(IMAGE, "t"), Some(two)).unwrap();
        cache.put("u3", plain(IMAGE), Some(one)).unwrap();
        cache.put("u4", named(IMAGE, "t"), None).unwrap();
        fs::write(cache.path("u5"), "").unwrap();
        fs::write(cache.path("u6"), [0xff, 0xfe]).unwrap();
        assert_eq!(cache.digests().unwrap(), [one, two].into());
        cache.forget("u1");
        cache.put("u2", plain("r/other"), None).unwrap();
        assert_rows!(cache.digests().unwrap() => [one].into(), "u3 has it");
        // A record that cannot be read.
        fs::create_dir(cache.path("u7")).unwrap();
        assert!(cache.digests().is_err());
    }

    #[test]
    fn corrupt_records_are_ignored_and_old_ones_evicted() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DigestCache::new(dir.path());
        let content = Digest::sha256(b"one");
        cache.put("u1", plain(IMAGE), Some(content)).unwrap();
        let whole = format!("{content}\n{IMAGE}\n");
        let cut = &whole[..whole.len() - 1];
        let (foreign, long) = ("sha256:1\nexample.com/catalog:v1\n", "x".repeat(1 << 20));
        let texts = ["", "\n\n", cut, foreign, &long].map(str::as_bytes);
        for corrupt in texts.into_iter().chain([&[0xff, 0xfe][..]]) {
            fs::write(cache.path("u1"), corrupt).unwrap();
            assert_eq!(digest(&cache, "u1", IMAGE), None, "{corrupt:?}");
        }
        cache.put("u1", plain(IMAGE), Some(content)).unwrap();
        assert_eq!(digest(&cache, "u1", IMAGE), Some(content));

        for at in 0..19 {
            let uid = format!("more{at}");
            cache.put(&uid, plain(IMAGE), Some(content)).unwrap();
        }
        let old = File::options().write(true).open(cache.path("u1")).unwrap();
        old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        cache.sweep(21).unwrap();
        assert_eq!(digest(&cache, "u1", IMAGE), Some(content), "there is room");
        cache.sweep(20).unwrap();
        assert_eq!(digest(&cache, "u1", IMAGE), None);
        assert_eq!(fs::read_dir(&cache.directory).unwrap().count(), 18);
    }
}

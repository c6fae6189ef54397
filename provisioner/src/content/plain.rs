//! Plain objects of registry+v1 bundles, which the content service serves like rukpak.

use std::{
    io::{self, Write as _},
    num::NonZeroUsize,
    sync::Arc,
};

use axum::body::Bytes;
use convert::{Class, Conversion, Options};
use lru::LruCache;
use manifests::{
    content::{Builder, Content, Limits},
    version::KubeVersion,
    yaml,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use unpacker::{Digest, Format, Store, Tree, store};

use crate::controllers::bundle::Conversions;

/// File of the archive with all objects, as in rukpak.
const FILE: &str = "manifests/manifest.yaml";
/// Number of cached archives.
const CACHE_CAPACITY: usize = 16;
/// Maximum size of a cached archive in bytes.
const MAX_CACHED_SIZE: usize = 4 << 20;
/// Maximum number of archives that are created concurrently.
const MAX_CONCURRENT: usize = 2;
/// Maximum number of reasons in a rejection.
const MAX_REASONS: usize = 10;

/// Archive of plain objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlainArchive {
    /// Digest of the tar.
    pub(super) digest: Digest,
    /// Bytes of the tar.gz.
    pub(super) archive: Bytes,
}

/// Reason why plain objects are unavailable.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The content cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The content cannot be converted, with the reasons.
    #[error("the content cannot be converted to plain objects: {0}")]
    Rejected(String),
    /// The objects cannot be packed.
    #[error("failed to archive the plain objects: {0}")]
    Pack(String),
}

/// Converter to plain objects, with a cache of archives.
pub(super) struct PlainArchives {
    conversions: Arc<Conversions>,
    slots: Semaphore,
    packed: Mutex<LruCache<(Digest, KubeVersion), PlainArchive>>,
}

impl PlainArchives {
    pub(super) fn new(conversions: Arc<Conversions>) -> Self {
        let count = NonZeroUsize::new(CACHE_CAPACITY).unwrap_or(NonZeroUsize::MIN);
        Self {
            conversions,
            slots: Semaphore::new(MAX_CONCURRENT),
            packed: Mutex::new(LruCache::new(count)),
        }
    }

    pub(super) async fn get(
        &self,
        store: &Arc<Store>,
        limits: Limits,
        digest: Digest,
        version: KubeVersion,
    ) -> Result<PlainArchive, Error> {
        let key = (digest, version);
        if let Some(packed) = self.cached(&key) {
            return Ok(packed);
        }
        let _slot = self.slots.acquire().await;
        // The previous holder of the slot may have created the same archive.
        if let Some(packed) = self.cached(&key) {
            return Ok(packed);
        }
        let store = Arc::clone(store);
        let load = move || store.get(&digest, &limits);
        let pack = move |content: &_, limits| pack(content, version, limits);
        let packed = self.conversions.run(load, pack).await;
        let packed = packed.map_err(|error| Error::Pack(error.to_string()))???;
        if packed.archive.len() <= MAX_CACHED_SIZE {
            let mut cache = self.packed.lock();
            cache.put(key, packed.clone());
        }
        Ok(packed)
    }

    fn cached(&self, key: &(Digest, KubeVersion)) -> Option<PlainArchive> {
        let mut packed = self.packed.lock();
        packed.get(key).cloned()
    }
}

/// Converts content, and packs the objects. The result is deterministic for the same content and version.
fn pack(
    content: &Content,
    version: KubeVersion,
    limits: yaml::Limits,
) -> Result<PlainArchive, Error> {
    let options = Options {
        class: Some(Class::Registry),
        kube_version: version,
        limits,
        ..Options::default()
    };
    let Conversion { objects, report } = convert::plain(content, &options);
    let Some(objects) = objects else {
        let errors = report
            .findings
            .iter()
            .filter(|finding| finding.level == convert::Level::Error);
        let reasons: Vec<_> = errors
            .take(MAX_REASONS)
            .map(|finding| finding.message.as_str())
            .collect();
        return Err(Error::Rejected(reasons.join("; ")));
    };
    // The objects of valid content may exceed the limits of the content, but not the default limits.
    let default_limits = Limits::default();
    let mut text = BoundedBuffer::new(default_limits.file);
    for object in objects {
        text.write_all(b"---\n")
            .and_then(|()| yaml::write_to(&mut text, object.value()))
            .map_err(|error| Error::Pack(error.to_string()))?;
    }
    let mut files = Builder::new(default_limits);
    files
        .add(FILE, 0o644, &mut text.bytes.as_slice())
        .map_err(|error| Error::Pack(error.to_string()))?;
    let mut archive = Vec::new();
    let tree = Tree::from_content(files.finish());
    let digest = tree
        .write_tar(std::io::sink())
        .and_then(|digest| tree.pack(Format::TarGz, &mut archive).map(|_| digest))
        .map_err(|error| Error::Pack(error.to_string()))?;
    Ok(PlainArchive {
        digest,
        archive: archive.into(),
    })
}

/// Buffer with a size limit.
struct BoundedBuffer {
    bytes: Vec<u8>,
    limit: u64,
}

impl BoundedBuffer {
    fn new(limit: u64) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
        }
    }
}

impl io::Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.bytes.len() + bytes.len()) as u64 > self.limit {
            let message = format!("the objects have more than {} bytes as YAML", self.limit);
            return Err(io::Error::other(message));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::content;

    const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\n\
                       spec: {version: 1.0.0, installModes: [{type: AllNamespaces, supported: true}], \
                       install: {strategy: deployment, spec: {deployments: []}}}\n";
    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

    #[test]
    fn registry_content_converts_to_one_deterministic_plain_file() {
        let content = content(&::tests::rows![
            "manifests/csv.yaml" => CSV;
            "manifests/map.yaml" => MAP;
            "metadata/annotations.yaml" => "annotations: {operators.operatorframework.io.bundle.package.v1: a}\n";
        ]);
        let packed = pack(&content, KubeVersion::default(), yaml::Limits::default()).unwrap();
        let options = unpacker::Options::default();
        let unpacked = unpacker::stream(packed.archive.as_ref(), &options).unwrap();
        let text = unpacked.content.read(FILE).unwrap();
        assert_eq!(unpacked.content.len(), 1);
        let text = std::str::from_utf8(text).unwrap();
        assert_rows!(text.contains("kind: ConfigMap") => true, "{text}");
        assert_rows!(!text.contains("ClusterServiceVersion") => true, "{text}");
        assert_rows!(pack(&content, KubeVersion::default(), yaml::Limits::default()).unwrap() => packed);
    }

    #[test]
    fn rejection_includes_the_reason() {
        let files = [("manifests/map.yaml", MAP)];
        let version = KubeVersion::default();
        let packed = pack(&content(&files), version, yaml::Limits::default());
        let error = packed.unwrap_err().to_string();
        assert_rows!(error.starts_with("the content cannot be converted") => true, "{error}");
        assert_rows!(error.len() > 60 => true, "{error}");
    }
}

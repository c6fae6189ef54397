//! What rukpak serves for a registry+v1 bundle: the plain objects that it becomes.

use std::{
    io::{self, Write as _},
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use axum::body::Bytes;
use convert::{Class, Conversion, Options};
use lru::LruCache;
use manifests::{
    content::{Builder, Content, Limits},
    version::KubeVersion,
    yaml,
};
use tokio::sync::Semaphore;
use unpacker::{Digest, Format, Store, Tree, store};

use crate::bundle::Conversions;

/// The one file that rukpak writes all objects to.
const FILE: &str = "manifests/manifest.yaml";
/// How many archives are remembered.
const REMEMBERED: usize = 16;
/// How large one of them may be.
const SIZE: usize = 4 << 20;
/// The most archives that are made at once.
const AT_ONCE: usize = 2;
/// How many reasons a refusal names.
const REASONS: usize = 10;

/// An archive of plain content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packed {
    /// Of its tar.
    pub(super) digest: Digest,
    /// The tar.gz.
    pub(super) archive: Bytes,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The content cannot be had.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// It cannot be converted: all reasons.
    #[error("the content cannot be converted to plain objects: {0}")]
    Refused(String),
    /// What came of it cannot be packed.
    #[error("the plain objects cannot be packed: {0}")]
    Pack(String),
}

/// Converts, and remembers what came of it.
pub(super) struct Plain {
    conversions: Arc<Conversions>,
    turns: Semaphore,
    packed: Mutex<LruCache<(Digest, KubeVersion), Packed>>,
}

impl Plain {
    pub(super) fn new(conversions: Arc<Conversions>) -> Self {
        let count = NonZeroUsize::new(REMEMBERED).unwrap_or(NonZeroUsize::MIN);
        Self {
            conversions,
            turns: Semaphore::new(AT_ONCE),
            packed: Mutex::new(LruCache::new(count)),
        }
    }

    pub(super) async fn get(
        &self,
        store: &Arc<Store>,
        limits: Limits,
        digest: Digest,
        version: KubeVersion,
    ) -> Result<Packed, Error> {
        let key = (digest, version);
        if let Some(packed) = self.remembered(&key) {
            return Ok(packed);
        }
        let _turn = self.turns.acquire().await;
        // Whoever had the turn before may have asked for the same.
        if let Some(packed) = self.remembered(&key) {
            return Ok(packed);
        }
        let store = Arc::clone(store);
        let load = move || store.get(&digest, &limits);
        let pack = move |content: &_, limits| pack(content, version, limits);
        let packed = self.conversions.run(load, pack).await;
        let packed = packed.map_err(|error| Error::Pack(error.to_string()))???;
        if packed.archive.len() <= SIZE {
            let mut remembered = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
            remembered.put(key, packed.clone());
        }
        Ok(packed)
    }

    fn remembered(&self, key: &(Digest, KubeVersion)) -> Option<Packed> {
        let mut packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        packed.get(key).cloned()
    }
}

/// The same content and version give the same bytes.
fn pack(content: &Content, version: KubeVersion, limits: yaml::Limits) -> Result<Packed, Error> {
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
            .take(REASONS)
            .map(|finding| finding.message.as_str())
            .collect();
        return Err(Error::Refused(reasons.join("; ")));
    };
    // What is made of checked content may be larger than that, but not without bounds.
    let bounds = Limits::default();
    let mut text = Text::new(bounds.file);
    for object in objects {
        text.write_all(b"---\n")
            .and_then(|()| yaml::write_to(&mut text, object.value()))
            .map_err(|error| Error::Pack(error.to_string()))?;
    }
    let mut files = Builder::new(bounds);
    files
        .add(FILE, 0o644, &mut text.bytes.as_slice())
        .map_err(|error| Error::Pack(error.to_string()))?;
    let mut archive = Vec::new();
    let tree = Tree::from_content(files.finish());
    let digest = tree
        .write_tar(std::io::sink())
        .and_then(|digest| tree.pack(Format::TarGz, &mut archive).map(|_| digest))
        .map_err(|error| Error::Pack(error.to_string()))?;
    Ok(Packed {
        digest,
        archive: archive.into(),
    })
}

/// A text in memory that ends at a limit.
struct Text {
    bytes: Vec<u8>,
    limit: u64,
}

impl Text {
    fn new(limit: u64) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
        }
    }
}

impl io::Write for Text {
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
    fn registry_content_becomes_one_file_of_plain_objects_with_the_same_bytes_each_time() {
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
    fn a_refusal_says_why() {
        let files = [("manifests/map.yaml", MAP)];
        let version = KubeVersion::default();
        let packed = pack(&content(&files), version, yaml::Limits::default());
        let error = packed.unwrap_err().to_string();
        assert_rows!(error.starts_with("the content cannot be converted") => true, "{error}");
        assert_rows!(error.len() > 60 => true, "{error}");
    }
}

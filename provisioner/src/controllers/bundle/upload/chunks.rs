//! Encoding of an upload as ConfigMaps.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use manifests::api::{bundle::Bundle, labels};
use unpacker::{Digest, SkippedEntries};

use super::{CHUNK_SIZE, LIMIT, MAX_CHUNKS};

/// Key of the bytes of a chunk.
const KEY: &str = "archive";

/// Index of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    /// Digest of the content.
    pub(super) digest: Digest,
    /// Digest of the bytes of the archive.
    pub(super) archive: Digest,
    /// Size of the archive in bytes.
    pub(super) size: usize,
    /// Number of chunks. Zero if only the store has the content.
    pub(super) chunks: usize,
    /// Entries of the upload that are not regular files.
    pub(super) skipped: SkippedEntries,
}

/// Key of the skipped entries, which most uploads do not have.
const SKIPPED: &str = "skipped";

impl Index {
    pub(super) fn to_config_map(&self, bundle: &Bundle, namespace: &str) -> ConfigMap {
        let data = [
            ("digest", self.digest.to_string()),
            ("archive", self.archive.to_string()),
            ("size", self.size.to_string()),
            ("chunks", self.chunks.to_string()),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value));
        let mut data = BTreeMap::from(data);
        // Serializing numbers and strings does not fail.
        if let (false, Ok(json)) = (
            self.skipped.is_empty(),
            serde_json::to_string(&self.skipped),
        ) {
            data.insert(SKIPPED.to_owned(), json);
        }
        ConfigMap {
            data: Some(data),
            ..map(bundle, namespace, index_name(&bundle.name_any()))
        }
    }

    pub(super) fn read(map: &ConfigMap) -> Result<Self, String> {
        let text = |key: &str| {
            let value = map.data.as_ref().and_then(|data| data.get(key));
            value.ok_or_else(|| format!("ConfigMap {} has no key {key:?}", map.name_any()))
        };
        let invalid = |key: &str| format!("key {key:?} of ConfigMap {} is invalid", map.name_any());
        let digest = |key| text(key)?.parse().map_err(|_| invalid(key));
        let number = |key| text(key)?.parse::<usize>().map_err(|_| invalid(key));
        let index = Self {
            digest: digest("digest")?,
            archive: digest("archive")?,
            size: number("size")?,
            chunks: number("chunks")?,
            skipped: match text(SKIPPED) {
                Ok(json) => serde_json::from_str(json).map_err(|_| invalid(SKIPPED))?,
                Err(_) => SkippedEntries::default(),
            },
        };
        if index.size > LIMIT
            || index.chunks > MAX_CHUNKS
            || index.size.div_ceil(CHUNK_SIZE) != index.chunks
        {
            return Err(invalid("size"));
        }
        Ok(index)
    }
}

pub(super) fn index_name(bundle: &str) -> String {
    format!("{bundle}-upload")
}

/// Returns the name of the ConfigMap of a chunk. Names of indexes do not end in a digit, so that two Bundles never share a
/// name.
pub(super) fn chunk_name(bundle: &str, number: usize) -> String {
    format!("{bundle}-upload-{number}")
}

pub(super) fn chunk_map(
    bundle: &Bundle,
    namespace: &str,
    number: usize,
    chunk: &[u8],
) -> ConfigMap {
    let bytes = ByteString(chunk.to_vec());
    ConfigMap {
        binary_data: Some(BTreeMap::from([(KEY.to_owned(), bytes)])),
        ..map(bundle, namespace, chunk_name(&bundle.name_any(), number))
    }
}

pub(super) fn chunk(map: ConfigMap) -> Option<Vec<u8>> {
    Some(map.binary_data?.remove(KEY)?.0)
}

fn map(bundle: &Bundle, namespace: &str, name: String) -> ConfigMap {
    let labels = [
        (labels::OWNER_KIND, "Bundle".to_owned()),
        (labels::OWNER_NAME, bundle.name_any()),
    ];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            owner_references: Some(bundle.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

/// Reports whether a ConfigMap belongs to the Bundle with this uid.
pub(super) fn belongs(map: &ConfigMap, uid: &str) -> bool {
    let owners = map.owner_references();
    owners
        .iter()
        .any(|owner| owner.kind == "Bundle" && owner.uid == uid)
}

/// Reports whether a ConfigMap was created for a Bundle of this name, which may be deleted.
pub(super) fn is_ours(map: &ConfigMap, bundle: &str) -> bool {
    let has_label = |label: &str, value: &str| {
        map.labels()
            .get(label)
            .is_some_and(|actual| actual == value)
    };
    has_label(labels::OWNER_KIND, "Bundle") && has_label(labels::OWNER_NAME, bundle)
}

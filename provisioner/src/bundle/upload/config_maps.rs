//! How an upload is written into ConfigMaps, and read back.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, ObjectMeta, Preconditions},
};
use manifests::api::{bundle::Bundle, labels};
use unpacker::{Digest, SkippedEntries};

use super::{CHUNK, CHUNKS, LIMIT};

/// The key of a chunk's bytes.
const KEY: &str = "archive";

/// What is known of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    /// Of the content.
    pub(super) digest: Digest,
    /// Of the archive's bytes.
    pub(super) archive: Digest,
    /// The archive's bytes.
    pub(super) size: usize,
    /// In how many ConfigMaps they are; none when only the store has the content.
    pub(super) chunks: usize,
    /// Entries of the upload that are not regular files.
    pub(super) skipped: SkippedEntries,
}

/// The key of the skipped entries, which most uploads do not have.
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
        // Numbers and texts cannot fail to become JSON.
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
            value.ok_or_else(|| format!("ConfigMap {} has no {key:?}", map.name_any()))
        };
        let wrong = |key: &str| format!("{key:?} of ConfigMap {} is wrong", map.name_any());
        let digest = |key| text(key)?.parse().map_err(|_| wrong(key));
        let number = |key| text(key)?.parse::<usize>().map_err(|_| wrong(key));
        let index = Self {
            digest: digest("digest")?,
            archive: digest("archive")?,
            size: number("size")?,
            chunks: number("chunks")?,
            skipped: match text(SKIPPED) {
                Ok(json) => serde_json::from_str(json).map_err(|_| wrong(SKIPPED))?,
                Err(_) => SkippedEntries::default(),
            },
        };
        if index.size > LIMIT || index.chunks > CHUNKS || index.size.div_ceil(CHUNK) != index.chunks
        {
            return Err(wrong("size"));
        }
        Ok(index)
    }
}

pub(super) fn index_name(bundle: &str) -> String {
    format!("{bundle}-upload")
}

/// No name of an index ends in a digit, so that no two Bundles share a name.
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

/// Reports whether it belongs to the Bundle with this uid.
pub(super) fn belongs(map: &ConfigMap, uid: &str) -> bool {
    let owners = map.owner_references();
    owners
        .iter()
        .any(|owner| owner.kind == "Bundle" && owner.uid == uid)
}

/// Reports whether it was made for a Bundle of this name, which may be gone.
pub(super) fn is_ours(map: &ConfigMap, bundle: &str) -> bool {
    let is = |label: &str, value: &str| map.labels().get(label).is_some_and(|found| found == value);
    is(labels::OWNER_KIND, "Bundle") && is(labels::OWNER_NAME, bundle)
}

/// Deletes this object, and no later one of its name.
pub(super) fn exactly(map: &ConfigMap) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: map.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

//! Images made in memory, and the registry that serves them.

use std::{collections::BTreeMap, io::Write as _};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use unpacker::{Access, Digest};

use crate::{
    certificates::Authority,
    server::{Answer, Seen, Server},
    trusting,
};

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// What a registry keeps for one repository.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    /// By tag and by digest.
    pub(crate) manifests: BTreeMap<String, (String, Vec<u8>)>,
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

pub(crate) fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()})
}

/// A tar, compressed with gzip.
pub(crate) fn layer(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *bytes).unwrap();
    }
    let mut gzip = tar.into_inner().unwrap();
    gzip.flush().unwrap();
    gzip.finish().unwrap()
}

/// Bytes that do not compress, always the same for the same seed.
pub(crate) fn noise(mut seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        bytes.extend_from_slice(&seed.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

impl Store {
    /// An image with these layers, from the lowest to the topmost, under the tag `v1`.
    pub(crate) fn image(layers: &[Vec<u8>]) -> Self {
        Self::with_labels(layers, &json!({}))
    }

    pub(crate) fn with_labels(layers: &[Vec<u8>], labels: &Value) -> Self {
        let mut store = Self::default();
        let config = json!({"os": "linux", "architecture": "amd64", "config": {"Labels": labels}});
        let config = store.blob(config.to_string().into_bytes(), CONFIG);
        let layers: Vec<_> = layers
            .iter()
            .map(|bytes| store.blob(bytes.clone(), LAYER))
            .collect();
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        store.manifest("v1", &manifest);
        store
    }

    /// One small file below `manifests/`.
    pub(crate) fn small() -> Self {
        Self::image(&[layer(&[("manifests/a.yaml", b"kind: A")])])
    }

    pub(crate) fn blob(&mut self, bytes: Vec<u8>, kind: &str) -> Value {
        let descriptor = descriptor(kind, &bytes);
        self.blobs.insert(digest(&bytes), bytes);
        descriptor
    }

    /// Under a tag, and under its digest.
    pub(crate) fn manifest(&mut self, tag: &str, manifest: &Value) -> Value {
        let bytes = manifest.to_string().into_bytes();
        let kind = manifest["mediaType"].as_str().unwrap().to_owned();
        let descriptor = descriptor(&kind, &bytes);
        self.manifests
            .insert(digest(&bytes), (kind.clone(), bytes.clone()));
        self.manifests.insert(tag.to_owned(), (kind, bytes));
        descriptor
    }

    pub(crate) fn tagged(&self, tag: &str) -> Value {
        serde_json::from_slice(&self.manifests[tag].1).unwrap()
    }

    /// The digest of the topmost layer of `v1`.
    pub(crate) fn top(&self) -> String {
        let layers = self.tagged("v1")["layers"].clone();
        layers.as_array().unwrap().last().unwrap()["digest"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// What an honest registry says.
    pub(crate) fn answer(&self, seen: &Seen) -> Answer {
        let name = seen.target.rsplit('/').next().unwrap();
        if seen.target.contains("/manifests/")
            && let Some((kind, bytes)) = self.manifests.get(name)
        {
            let length = bytes.len().to_string();
            let headers = [
                ("Content-Type", kind.as_str()),
                ("Docker-Content-Digest", &digest(bytes)),
                ("Content-Length", &length),
            ];
            let body = if seen.method == "HEAD" {
                &[][..]
            } else {
                bytes
            };
            return Answer::new("200 OK", &headers, body);
        }
        if seen.target.contains("/blobs/")
            && let Some(bytes) = self.blobs.get(name)
        {
            return Answer::ok(bytes);
        }
        Answer::new("404 Not Found", &[], b"{}")
    }
}

/// A registry over https that says what it is told to say.
pub(crate) struct Registry {
    pub(crate) server: Server,
    pub(crate) authority: Authority,
}

impl Registry {
    pub(crate) async fn start(handler: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let authority = Authority::new();
        let server = Server::tls(authority.server(&["127.0.0.1"]), handler).await;
        Self { server, authority }
    }

    /// A registry that is honest but for what `evil` says.
    pub(crate) async fn but(
        store: Store,
        evil: impl Fn(&Seen) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |seen| evil(seen).unwrap_or_else(|| store.answer(seen))).await
    }

    pub(crate) fn image(&self, rest: &str) -> String {
        format!("{}/{rest}", self.server.address)
    }

    pub(crate) fn access(&self) -> Access {
        trusting(self.authority.pem())
    }

    /// How often something was asked for.
    pub(crate) fn asked(&self, part: &str) -> usize {
        let seen = self.server.seen();
        seen.iter()
            .filter(|seen| seen.target.contains(part))
            .count()
    }
}

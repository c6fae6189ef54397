//! Persistence of uploads in the cluster: an upload cannot be fetched again from its source.
//!
//! ```text
//!  <bundle>-upload    digest, size, number of chunks   written last: without it, the upload does not exist
//!  <bundle>-upload-0  ┐
//!  <bundle>-upload-1  ┘ the archive, in chunks
//! ```
//!
//! All objects are immutable ConfigMaps of the system namespace. The Bundle owns them, so that they are deleted with it. If
//! the process is killed, the cluster has either a complete upload or none. An upload that exceeds [`LIMIT`] is only in the
//! store, if that is persistent. Its number of chunks is zero.

mod chunks;
mod error;
#[cfg(test)]
mod tests;

use std::io::{self, Read};

use apply::delete_params;
use bytes::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt, api::PostParams};
use manifests::api::bundle::Bundle;
use tokio::task;
use unpacker::{Digest, Format, Options, SkippedEntries, Store, store::Stored};

use super::fetch::{self, ApiError};
use crate::runtime::settings::Settings;
use chunks::Index;
pub use error::Error;

/// Maximum size in bytes of a compressed archive that is persisted in the cluster.
pub const LIMIT: usize = 8 << 20;
/// Bytes of the archive per ConfigMap. The API server limits an object to about one MiB.
const CHUNK_SIZE: usize = 768 << 10;
/// Maximum number of chunks of an upload.
const MAX_CHUNKS: usize = LIMIT.div_ceil(CHUNK_SIZE);
/// Maximum number of attempts to replace a conflicting ConfigMap.
const MAX_ATTEMPTS: usize = 3;

/// Result of persisting content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreResult {
    /// The content was persisted: it is new, or replaces a damaged upload.
    Stored,
    /// The same content was persisted already.
    AlreadyStored,
}

/// An upload that is persisted in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    bundle: String,
    digest: Digest,
    archive: Option<Bytes>,
}

impl Upload {
    /// Returns the digest of the content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the archive as the cluster has it, a tar.gz. `None` if only the store has the content.
    pub fn archive(&self) -> Option<&Bytes> {
        self.archive.as_ref()
    }

    /// Restores the content in the store, if the store does not have it, and holds it. Blocks.
    ///
    /// # Errors
    /// Returns an error if the content is corrupt or lost, or cannot be stored.
    pub fn store(&self, store: &Store, options: &Options) -> Result<Stored, Error> {
        let bundle = || self.bundle.clone();
        if let Ok(hold) = store.hold(&self.digest) {
            let (digest, size) = (self.digest, hold.size());
            return Ok(Stored { digest, size, hold });
        }
        let Some(archive) = &self.archive else {
            return Err(Error::StoreLost { bundle: bundle() });
        };
        let damaged = |problem: String| Error::Damaged {
            bundle: bundle(),
            problem,
        };
        let read = unpacker::stream_tree(archive.as_ref(), options);
        let (tree, _) = read.map_err(|error| damaged(error.to_string()))?;
        let stored = store.put(&tree).map_err(|source| Error::Store {
            bundle: bundle(),
            source,
        })?;
        if stored.digest == self.digest {
            Ok(stored)
        } else {
            Err(damaged(format!(
                "its content digest is {}, expected {}",
                stored.digest, self.digest
            )))
        }
    }
}

/// Persists content that was uploaded for a Bundle. An earlier upload is replaced.
///
/// # Errors
/// Returns an error if the content is too large, a ConfigMap of another owner exists, or a request to the API server fails.
/// The cluster then has no upload, or the earlier one.
pub async fn persist(
    client: &Client,
    settings: &Settings,
    store: &Store,
    bundle: &Bundle,
    content: &Stored,
    skipped: &SkippedEntries,
) -> Result<StoreResult, Error> {
    check(bundle, content.digest)?;
    let maps = UploadConfigMaps::new(client, settings, bundle);
    match restore(client, settings, bundle).await {
        Ok(Some(previous)) if previous.digest == content.digest => {
            return Ok(StoreResult::AlreadyStored);
        }
        // A damaged upload is replaced, even by the same content.
        Ok(_) | Err(Error::Damaged { .. }) => {}
        Err(error) => return Err(error),
    }
    let archive = compress(store, &content.digest, &maps.bundle).await?;
    if archive.is_none() && !settings.persistent_store {
        return Err(Error::TooLarge {
            bundle: maps.bundle,
        });
    }
    let archive = archive.unwrap_or_default();
    let index = Index {
        digest: content.digest,
        archive: Digest::sha256(&archive),
        size: archive.len(),
        chunks: archive.len().div_ceil(CHUNK_SIZE),
        skipped: skipped.clone(),
    };
    // From here until the new index is written, the Bundle has no upload.
    maps.remove(&chunks::index_name(&maps.bundle)).await?;
    for (number, chunk) in archive.chunks(CHUNK_SIZE).enumerate() {
        maps.put_chunk(bundle, number, chunk).await?;
    }
    maps.remove_from(index.chunks).await?;
    let map = index.to_config_map(bundle, &maps.namespace);
    if maps.create(&map).await? {
        Ok(StoreResult::Stored)
    } else {
        Err(Error::ConcurrentUpload {
            bundle: maps.bundle,
        })
    }
}

/// Returns the digest that the content of a Bundle must have, or `None` if the Bundle accepts any content. Content that was
/// unpacked remains the content of the Bundle, in any phase.
///
/// # Errors
/// Returns an error if the digest of the spec is malformed.
pub fn expected(bundle: &Bundle) -> Result<Option<Digest>, Error> {
    let declared = declared(bundle)?;
    let status = bundle.status.as_ref();
    let unpacked = status.and_then(|status| status.content_digest.as_ref()?.parse().ok());
    Ok(declared.or(unpacked))
}

/// Returns the digest that the spec of a Bundle declares.
///
/// # Errors
/// Returns an error if the digest is malformed, which older versions of the CRD accepted.
pub fn declared(bundle: &Bundle) -> Result<Option<Digest>, Error> {
    let upload = bundle.spec.source.upload.as_ref();
    let digest = upload.and_then(|upload| upload.digest.as_deref());
    let digest = digest.map(str::parse::<Digest>).transpose();
    digest.map_err(|source| Error::InvalidDigest {
        bundle: bundle.name_any(),
        source,
    })
}

/// Checks the digest of content against the [`expected`] one.
///
/// # Errors
/// Returns an error if they differ.
pub fn check(bundle: &Bundle, found: Digest) -> Result<(), Error> {
    match expected(bundle)? {
        Some(expected) if expected != found => Err(Error::Unexpected {
            bundle: bundle.name_any(),
            expected,
            found,
        }),
        _ => Ok(()),
    }
}

/// Returns the digest of the content that was uploaded for a Bundle, and the entries that were skipped. Returns `None`
/// without an upload.
///
/// # Errors
/// Returns an error if the upload is corrupt, or the API server does not respond.
pub async fn find(
    client: &Client,
    settings: &Settings,
    bundle: &Bundle,
) -> Result<Option<(Digest, SkippedEntries)>, Error> {
    let index = UploadConfigMaps::new(client, settings, bundle)
        .index()
        .await?;
    Ok(index.map(|index| (index.digest, index.skipped)))
}

/// Returns the upload of a Bundle, or `None` without an upload.
///
/// # Errors
/// Returns an error if the upload is corrupt, or the request to the API server fails.
pub async fn restore(
    client: &Client,
    settings: &Settings,
    bundle: &Bundle,
) -> Result<Option<Upload>, Error> {
    let maps = UploadConfigMaps::new(client, settings, bundle);
    let Some(index) = maps.index().await? else {
        return Ok(None);
    };
    let upload = |archive| Upload {
        bundle: maps.bundle.clone(),
        digest: index.digest,
        archive,
    };
    if index.chunks == 0 {
        return Ok(Some(upload(None)));
    }
    let mut archive = Vec::with_capacity(index.size);
    for number in 0..index.chunks {
        let name = chunks::chunk_name(&maps.bundle, number);
        let map = maps.get(&name).await?;
        let chunk = map
            .filter(|map| chunks::belongs(map, &maps.uid))
            .and_then(chunks::chunk);
        match chunk {
            Some(chunk) => archive.extend_from_slice(&chunk),
            None => return Err(maps.damaged(format!("ConfigMap {name} is missing"))),
        }
    }
    if Digest::sha256(&archive) == index.archive {
        Ok(Some(upload(Some(archive.into()))))
    } else {
        Err(maps.damaged("its bytes differ from the upload".to_owned()))
    }
}

/// Returns the archive of content, or `None` if it exceeds [`LIMIT`].
async fn compress(store: &Store, digest: &Digest, bundle: &str) -> Result<Option<Bytes>, Error> {
    let (store, digest, name) = (store.clone(), *digest, bundle.to_owned());
    let compressed = task::spawn_blocking(move || {
        let bundle = || name.clone();
        let served = store.served(&digest, Format::TarGz);
        let served = served.map_err(|source| Error::Store {
            bundle: bundle(),
            source,
        })?;
        let mut archive = Vec::new();
        let read = served.take(LIMIT as u64 + 1).read_to_end(&mut archive);
        read.map_err(|source| Error::Pack {
            bundle: bundle(),
            source,
        })?;
        Ok((archive.len() <= LIMIT).then(|| Bytes::from(archive)))
    });
    compressed.await.unwrap_or_else(|error| {
        Err(Error::Pack {
            bundle: bundle.to_owned(),
            source: io::Error::other(error),
        })
    })
}

/// The ConfigMaps with the upload of one Bundle.
struct UploadConfigMaps {
    api: Api<ConfigMap>,
    namespace: String,
    bundle: String,
    uid: String,
}

impl UploadConfigMaps {
    fn new(client: &Client, settings: &Settings, bundle: &Bundle) -> Self {
        let namespace = settings.system_namespace.clone();
        Self {
            api: Api::namespaced(client.clone(), &namespace),
            namespace,
            bundle: bundle.name_any(),
            uid: bundle.uid().unwrap_or_default(),
        }
    }

    fn damaged(&self, problem: String) -> Error {
        Error::Damaged {
            bundle: self.bundle.clone(),
            problem,
        }
    }

    /// Returns the index of the upload of this Bundle, and not of a deleted Bundle of the same name.
    async fn index(&self) -> Result<Option<Index>, Error> {
        let map = self.get(&chunks::index_name(&self.bundle)).await?;
        let Some(map) = map.filter(|map| chunks::belongs(map, &self.uid)) else {
            return Ok(None);
        };
        let index = Index::read(&map).map_err(|problem| self.damaged(problem))?;
        Ok(Some(index))
    }

    async fn put_chunk(&self, bundle: &Bundle, number: usize, chunk: &[u8]) -> Result<(), Error> {
        let map = chunks::chunk_map(bundle, &self.namespace, number, chunk);
        for _ in 0..MAX_ATTEMPTS {
            if self.create(&map).await? {
                return Ok(());
            }
            // Remains of an incomplete upload.
            self.remove(&map.name_any()).await?;
        }
        Err(Error::ConcurrentUpload {
            bundle: self.bundle.clone(),
        })
    }

    /// Creates a ConfigMap. Returns false if it already exists.
    async fn create(&self, map: &ConfigMap) -> Result<bool, Error> {
        let doing = format!("create ConfigMap {}/{}", self.namespace, map.name_any());
        match send(doing, self.api.create(&PostParams::default(), map)).await {
            Ok(_) => Ok(true),
            Err(Error::Api { source, .. }) if code(&source) == Some(409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn get(&self, name: &str) -> Result<Option<ConfigMap>, Error> {
        let doing = format!("read ConfigMap {}/{name}", self.namespace);
        send(doing, self.api.get_opt(name)).await
    }

    /// Deletes a ConfigMap of an earlier upload for a Bundle of this name.
    async fn remove(&self, name: &str) -> Result<(), Error> {
        let Some(map) = self.get(name).await? else {
            return Ok(());
        };
        if !chunks::is_ours(&map, &self.bundle) {
            return Err(Error::Foreign {
                namespace: self.namespace.clone(),
                name: name.to_owned(),
            });
        }
        let doing = format!("delete ConfigMap {}/{name}", self.namespace);
        let params = delete_params::for_uid(map.uid());
        match send(doing, self.api.delete(name, &params)).await {
            Ok(_) => Ok(()),
            // Another client deleted or replaced it first.
            Err(Error::Api { source, .. }) if matches!(code(&source), Some(404 | 409)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes the chunks of a longer upload.
    async fn remove_from(&self, number: usize) -> Result<(), Error> {
        for number in number..MAX_CHUNKS {
            let name = chunks::chunk_name(&self.bundle, number);
            match self.get(&name).await? {
                Some(map) if chunks::is_ours(&map, &self.bundle) => self.remove(&name).await?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

async fn send<T>(
    doing: String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    fetch::with_timeout(request)
        .await
        .map_err(|error| match error {
            ApiError::Kube(source) => Error::Api {
                doing,
                source: Box::new(source),
            },
            ApiError::Timeout => Error::Timeout { doing },
        })
}

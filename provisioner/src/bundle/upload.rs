//! Uploads, kept in the cluster: there is no place to fetch them from again.
//!
//! ```text
//!  <bundle>-upload    digest, size, number of chunks   written last: without it there is no upload
//!  <bundle>-upload-0  ┐
//!  <bundle>-upload-1  ┘ the archive, in pieces
//! ```
//!
//! All of them are immutable ConfigMaps of the system namespace that belong to the Bundle, and go with it. Whatever
//! moment the process is killed in, there is a whole upload or none. What exceeds [`LIMIT`] stays in the store alone,
//! where that outlives the pod; then the number of chunks is zero.

mod config_maps;
mod error;
#[cfg(test)]
mod tests;

use std::io::{self, Read};

use bytes::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt, api::PostParams};
use manifests::api::bundle::Bundle;
use tokio::task;
use unpacker::{Digest, Format, Options, SkippedEntries, Store, store::Stored};

use super::fetch::{self, ApiError};
use crate::settings::Settings;
use config_maps::Index;
pub use error::Error;

/// How many bytes of a compressed archive are kept in the cluster.
pub const LIMIT: usize = 8 << 20;
/// How many of them a ConfigMap holds; one MiB is the API server's own bound.
const CHUNK: usize = 768 << 10;
/// How many ConfigMaps that makes at most.
const CHUNKS: usize = LIMIT.div_ceil(CHUNK);
/// How often something that is in the way is removed.
const TRIES: usize = 3;

/// Whether content had been kept before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It was not.
    New,
    /// The same content was.
    Already,
}

/// An upload that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    bundle: String,
    digest: Digest,
    archive: Option<Bytes>,
}

impl Upload {
    /// The digest of its content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The archive as the cluster has it, a tar.gz; `None` when only the store has the content.
    pub fn archive(&self) -> Option<&Bytes> {
        self.archive.as_ref()
    }

    /// Puts it back into the store, where it is not there already, and holds it. Blocks.
    ///
    /// # Errors
    /// When the content is damaged or lost, or cannot be stored.
    pub fn store(&self, store: &Store, options: &Options) -> Result<Stored, Error> {
        let bundle = || self.bundle.clone();
        if let Ok(hold) = store.hold(&self.digest) {
            let (digest, size) = (self.digest, hold.size());
            return Ok(Stored { digest, size, hold });
        }
        let Some(archive) = &self.archive else {
            return Err(Error::Lost { bundle: bundle() });
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
                "its content is {}, and should be {}",
                stored.digest, self.digest
            )))
        }
    }
}

/// Keeps content that was uploaded for a Bundle; what was kept for it before is replaced.
///
/// # Errors
/// When it is too large, something is in the way, or the API server does not take it. There is no upload then, or the one
/// there was before.
pub async fn keep(
    client: &Client,
    settings: &Settings,
    store: &Store,
    bundle: &Bundle,
    content: &Stored,
    skipped: &SkippedEntries,
) -> Result<Kept, Error> {
    check(bundle, content.digest)?;
    let maps = Maps::new(client, settings, bundle);
    let before = maps.index().await?;
    if before.is_some_and(|index| index.digest == content.digest) {
        return Ok(Kept::Already);
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
        archive: Digest::of(&archive),
        size: archive.len(),
        chunks: archive.len().div_ceil(CHUNK),
        skipped: skipped.clone(),
    };
    // From here to the new index there is no upload.
    maps.remove(&config_maps::index_name(&maps.bundle)).await?;
    for (number, chunk) in archive.chunks(CHUNK).enumerate() {
        maps.put_chunk(bundle, number, chunk).await?;
    }
    maps.remove_from(index.chunks).await?;
    let map = index.to_config_map(bundle, &maps.namespace);
    if maps.create(&map).await? {
        Ok(Kept::New)
    } else {
        Err(Error::Race {
            bundle: maps.bundle,
        })
    }
}

/// Returns the digest that the content of a Bundle must have; `None` if the Bundle takes any content. What was unpacked
/// stays the content of the Bundle, whatever its phase is.
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
/// Returns an error if the digest is malformed, as the API server accepted before it checked the field.
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

/// Returns the digest of the content that was uploaded for a Bundle, and the entries that were skipped; `None` if nothing
/// was uploaded.
///
/// # Errors
/// Returns an error if the upload is damaged, or the API server does not respond.
pub async fn find(
    client: &Client,
    settings: &Settings,
    bundle: &Bundle,
) -> Result<Option<(Digest, SkippedEntries)>, Error> {
    let index = Maps::new(client, settings, bundle).index().await?;
    Ok(index.map(|index| (index.digest, index.skipped)))
}

/// What was uploaded for a Bundle, if anything was.
///
/// # Errors
/// When it is damaged, or the API server cannot be asked.
pub async fn restore(
    client: &Client,
    settings: &Settings,
    bundle: &Bundle,
) -> Result<Option<Upload>, Error> {
    let maps = Maps::new(client, settings, bundle);
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
        let name = config_maps::chunk_name(&maps.bundle, number);
        let map = maps.get(&name).await?;
        let chunk = map
            .filter(|map| config_maps::belongs(map, &maps.uid))
            .and_then(config_maps::chunk);
        match chunk {
            Some(chunk) => archive.extend_from_slice(&chunk),
            None => return Err(maps.damaged(format!("ConfigMap {name} is missing"))),
        }
    }
    if Digest::of(&archive) == index.archive {
        Ok(Some(upload(Some(archive.into()))))
    } else {
        Err(maps.damaged("its bytes are not what was uploaded".to_owned()))
    }
}

/// The archive of content, unless it is larger than what the cluster keeps.
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

/// The ConfigMaps of one Bundle.
struct Maps {
    api: Api<ConfigMap>,
    namespace: String,
    bundle: String,
    uid: String,
}

impl Maps {
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

    /// What is kept for this very Bundle: not for one of the same name that has gone.
    async fn index(&self) -> Result<Option<Index>, Error> {
        let map = self.get(&config_maps::index_name(&self.bundle)).await?;
        let Some(map) = map.filter(|map| config_maps::belongs(map, &self.uid)) else {
            return Ok(None);
        };
        let index = Index::read(&map).map_err(|problem| self.damaged(problem))?;
        Ok(Some(index))
    }

    async fn put_chunk(&self, bundle: &Bundle, number: usize, chunk: &[u8]) -> Result<(), Error> {
        let map = config_maps::chunk_map(bundle, &self.namespace, number, chunk);
        for _ in 0..TRIES {
            if self.create(&map).await? {
                return Ok(());
            }
            // Left behind by an upload that was not completed.
            self.remove(&map.name_any()).await?;
        }
        Err(Error::Race {
            bundle: self.bundle.clone(),
        })
    }

    /// Reports whether it was created, and not there before.
    async fn create(&self, map: &ConfigMap) -> Result<bool, Error> {
        let doing = format!("create ConfigMap {}/{}", self.namespace, map.name_any());
        match ask(doing, self.api.create(&PostParams::default(), map)).await {
            Ok(_) => Ok(true),
            Err(Error::Api { source, .. }) if code(&source) == Some(409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn get(&self, name: &str) -> Result<Option<ConfigMap>, Error> {
        let doing = format!("read ConfigMap {}/{name}", self.namespace);
        ask(doing, self.api.get_opt(name)).await
    }

    /// Removes a ConfigMap that an upload for a Bundle of this name left.
    async fn remove(&self, name: &str) -> Result<(), Error> {
        let Some(map) = self.get(name).await? else {
            return Ok(());
        };
        if !config_maps::is_ours(&map, &self.bundle) {
            return Err(Error::Foreign {
                namespace: self.namespace.clone(),
                name: name.to_owned(),
            });
        }
        let doing = format!("delete ConfigMap {}/{name}", self.namespace);
        let params = config_maps::exactly(&map);
        match ask(doing, self.api.delete(name, &params)).await {
            Ok(_) => Ok(()),
            // Somebody else was faster.
            Err(Error::Api { source, .. }) if matches!(code(&source), Some(404 | 409)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes chunks of an upload that was longer.
    async fn remove_from(&self, number: usize) -> Result<(), Error> {
        for number in number..CHUNKS {
            let name = config_maps::chunk_name(&self.bundle, number);
            match self.get(&name).await? {
                Some(map) if config_maps::is_ours(&map, &self.bundle) => self.remove(&name).await?,
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

async fn ask<T>(
    doing: String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    fetch::ask(request).await.map_err(|error| match error {
        ApiError::Kube(source) => Error::Api {
            doing,
            source: Box::new(source),
        },
        ApiError::Silent => Error::Silent { doing },
    })
}

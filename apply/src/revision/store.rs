//! Records of revisions in Secrets of the system namespace: `<instance>-r<number>-<part>`, type `core.rukpak.io/revision`.
//!
//! The Secrets are immutable and owned by the BundleInstance. They have no finalizer: an uninstallation needs only the
//! inventory, and the system namespace can be deleted. A record is valid once the status of its owner names the checksum.
//! Records are read by name, never listed.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    ByteString,
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Api, Client, ResourceExt as _, api::PostParams};
use manifests::api::{labels, owner::InstanceOwner};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{DecodeError, Encoded, Revision, decode};
use crate::{api_error, delete_params};

/// The type of the Secrets.
pub const TYPE: &str = "core.rukpak.io/revision";
/// Data key of a part.
const DATA: &str = "data";
/// Further data keys of part 1.
const PARTS: &str = "parts";
const CHECKSUM: &str = "checksum";
/// Timeout of a request. Writing a part takes a moment on a slow etcd.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);
/// Upper bound of the number of parts. A record never has as many.
const MAX_PARTS: i64 = 64;

/// The records of one owner.
pub struct Store<'a> {
    /// A client with the provisioner's own permissions.
    pub client: &'a Client,
    /// The system namespace.
    pub namespace: &'a str,
    /// Owner of the records.
    pub owner: &'a InstanceOwner,
}

/// A record, as the status of its owner names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The number of the revision.
    pub number: i64,
    /// Number of Secrets that hold the record.
    pub parts: i64,
    /// The checksum of the record.
    pub checksum: &'a str,
}

/// The reason why a record cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not respond, or rejected the request.
    #[error("failed to {verb} Secret {namespace}/{name}: {}", api_error::chain(.source))]
    Request {
        /// Verb of the request: `create`, `get` or `delete`.
        verb: &'static str,
        /// The system namespace.
        namespace: String,
        /// The name of the Secret.
        name: String,
        /// Error of the request.
        #[source]
        source: Box<kube::Error>,
    },
    /// A part does not exist.
    #[error("Secret {namespace}/{name} of revision {number} not found")]
    Missing {
        /// The system namespace.
        namespace: String,
        /// The name of the Secret.
        name: String,
        /// The number of the revision.
        number: i64,
    },
    /// Another client uses the name for a different Secret.
    #[error(
        "Secret {namespace}/{name} already exists and is not a revision record; delete the Secret"
    )]
    Taken {
        /// The system namespace.
        namespace: String,
        /// The name of the Secret.
        name: String,
    },
    /// The record was altered.
    #[error(
        "the record of revision {number} in Secret {namespace}/{name} cannot be used: {source}"
    )]
    Corrupted {
        /// The system namespace.
        namespace: String,
        /// The name of the first Secret.
        name: String,
        /// The number of the revision.
        number: i64,
        /// Reason of the decoding failure.
        #[source]
        source: DecodeError,
    },
}

impl Error {
    /// Reports whether another attempt can succeed without a change of the record.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Request { .. })
    }

    /// Returns the HTTP status code of the response.
    fn code(&self) -> Option<u16> {
        match self {
            Self::Request { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Store<'_> {
    /// Writes a record, part 1 first: a record is valid only once a status names its checksum, and an incomplete one is
    /// found by its part 1. A record of the same number that no status names is replaced. It is left over if its writer was
    /// killed, or if an earlier BundleInstance of the name was deleted.
    ///
    /// # Errors
    /// Returns an error if a Secret cannot be created. Parts that were created are kept; the next attempt replaces them.
    pub async fn write(&self, number: i64, encoded: &Encoded) -> Result<(), Error> {
        let count = encoded.parts.len();
        for (index, data) in encoded.parts.iter().enumerate() {
            let part = index + 1;
            let mut secret = self.secret(number, part, data);
            if part == 1 {
                let checksum = encoded.checksum.clone().into_bytes();
                let data = secret.data.get_or_insert_default();
                data.insert(PARTS.to_owned(), ByteString(count.to_string().into_bytes()));
                data.insert(CHECKSUM.to_owned(), ByteString(checksum));
            }
            self.create(&secret).await?;
        }
        Ok(())
    }

    /// Reads a record.
    ///
    /// # Errors
    /// Returns an error if a part is missing, or the record is not the one that the reference names.
    pub async fn read<D: DeserializeOwned>(
        &self,
        reference: Reference<'_>,
    ) -> Result<Revision<D>, Error> {
        let Reference {
            number,
            parts,
            checksum,
        } = reference;
        let mut stream = Vec::new();
        for part in 1..=parts.clamp(1, MAX_PARTS) {
            let name = self.name(number, part);
            let found = self
                .with_timeout("get", &name, self.api().get_opt(&name))
                .await?;
            let found = found.ok_or_else(|| Error::Missing {
                namespace: self.namespace.to_owned(),
                name,
                number,
            })?;
            let data = found.data.unwrap_or_default().remove(DATA);
            stream.extend(data.unwrap_or_default().0);
        }
        decode(&stream, checksum, number, &self.owner.uid).map_err(|source| Error::Corrupted {
            namespace: self.namespace.to_owned(),
            name: self.name(number, 1),
            number,
            source,
        })
    }

    /// Deletes a record that no status names, if one exists. Part 1 contains the number of parts.
    ///
    /// # Errors
    /// Returns an error if a Secret cannot be read or deleted.
    pub async fn delete_stray(&self, number: i64) -> Result<(), Error> {
        let name = self.name(number, 1);
        let api = self.api();
        let found = self.with_timeout("get", &name, api.get_opt(&name)).await?;
        let Some(found) = found else {
            return Ok(());
        };
        let parts = found.data.unwrap_or_default().remove(PARTS);
        let parts = parts.and_then(|text| String::from_utf8(text.0).ok()?.parse().ok());
        self.delete(number, parts.unwrap_or(1)).await
    }

    /// Deletes a record, part 1 last. A missing part is ignored.
    ///
    /// # Errors
    /// Returns an error if a Secret cannot be deleted.
    pub async fn delete(&self, number: i64, parts: i64) -> Result<(), Error> {
        for part in (1..=parts.clamp(1, MAX_PARTS)).rev() {
            let name = self.name(number, part);
            let api = self.api();
            let found = api.get_metadata_opt(&name);
            let found = self.with_timeout("get", &name, found).await?;
            if let Some(found) = found.filter(|found| self.is_record(&found.metadata)) {
                self.remove(&name, &found.metadata).await?;
            }
        }
        Ok(())
    }

    /// Returns the name of a part.
    pub fn name(&self, number: i64, part: impl Into<i64>) -> String {
        format!("{}-r{number}-{}", self.owner.name, part.into())
    }

    async fn create(&self, secret: &Secret) -> Result<(), Error> {
        let name = secret.name_any();
        let api = self.api();
        let parameters = PostParams::default();
        for is_last in [false, true] {
            match self
                .with_timeout("create", &name, api.create(&parameters, secret))
                .await
            {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == Some(409) && !is_last => {}
                Err(error) => return Err(error),
            }
            let found = self.with_timeout("get", &name, api.get_opt(&name)).await?;
            match found {
                Some(found)
                    if found.type_.as_deref() == Some(TYPE) && self.is_record(&found.metadata) =>
                {
                    self.remove(&name, &found.metadata).await?;
                }
                Some(_) => {
                    return Err(Error::Taken {
                        namespace: self.namespace.to_owned(),
                        name,
                    });
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Deletes the Secret if it still has the uid in `metadata`.
    async fn remove(&self, name: &str, metadata: &ObjectMeta) -> Result<(), Error> {
        let api = self.api();
        let parameters = delete_params::for_uid(metadata.uid.clone());
        let deleted = api.delete(name, &parameters);
        match self.with_timeout("delete", name, deleted).await {
            // The Secret was deleted or replaced.
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    async fn with_timeout<T>(
        &self,
        verb: &'static str,
        name: &str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        let answer = match timeout(REQUEST_TIMEOUT, request).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
        };
        answer.map_err(|error| Error::Request {
            verb,
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
            source: Box::new(error),
        })
    }

    /// Reports whether the labels mark a Secret as a record of an owner with this name.
    fn is_record(&self, metadata: &ObjectMeta) -> bool {
        let label = metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(labels::REVISION_OF));
        label == Some(&self.owner.name)
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn secret(&self, number: i64, part: usize, data: &[u8]) -> Secret {
        let part = i64::try_from(part).unwrap_or(i64::MAX);
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name(number, part)),
                namespace: Some(self.namespace.to_owned()),
                labels: Some(BTreeMap::from([(
                    labels::REVISION_OF.to_owned(),
                    self.owner.name.clone(),
                )])),
                owner_references: Some(vec![OwnerReference {
                    api_version: InstanceOwner::API_VERSION.to_owned(),
                    kind: InstanceOwner::KIND.to_owned(),
                    name: self.owner.name.clone(),
                    uid: self.owner.uid.clone(),
                    controller: Some(true),
                    block_owner_deletion: None,
                }]),
                ..ObjectMeta::default()
            },
            type_: Some(TYPE.to_owned()),
            immutable: Some(true),
            data: Some(BTreeMap::from([(
                DATA.to_owned(),
                ByteString(data.to_vec()),
            )])),
            ..Secret::default()
        }
    }
}

//! Requests about objects of any kind: in time, tried again where that helps, answered with metadata only.

use std::time::Duration;

use http::Request;
use kube::{
    Client,
    api::{DeleteParams, GetParams, Preconditions},
    core::{Request as Builder, response::Status},
};
use manifests::{names, object::Identity};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::object::Partial;
use crate::discovery::Kind;

/// Includes the client's own retries of 429, 503 and 504. Webhooks may take half a minute.
const TIMEOUT: Duration = Duration::from_secs(40);
/// How often a request is sent when connections break.
const ATTEMPTS: u32 = 3;

/// The reason why there is no good answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The API server said no.
    Status(Box<Status>),
    /// There is no such address.
    Name(&'static str),
    /// No answer, or none that can be understood.
    Client(kube::Error),
    /// No answer in time.
    Timeout,
}

impl Trouble {
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code),
            _ => None,
        }
    }
}

/// The place of an object.
pub(super) struct Address {
    /// Of the kind and the namespace.
    pub(super) collection: Builder,
    /// Ready to be put behind it.
    pub(super) name: String,
}

impl Address {
    pub(super) fn of(kind: &Kind, identity: &Identity) -> Result<Self, Trouble> {
        names::path_segment(&identity.name).map_err(Trouble::Name)?;
        if kind.namespaced {
            names::path_segment(&identity.namespace)
                .map_err(|_| Trouble::Name("is not in a namespace"))?;
        }
        let namespace = names::encoded(&identity.namespace);
        Ok(Self {
            collection: collection(kind, kind.namespaced.then_some(namespace.as_str())),
            name: names::encoded(&identity.name),
        })
    }

    /// Reads the metadata of the object.
    pub(super) async fn metadata(&self, client: &Client) -> Result<Value, Trouble> {
        let params = GetParams::default();
        let request = || self.collection.get_metadata(&self.name, &params);
        let object: Partial = send(client, request).await?;
        Ok(object.metadata)
    }

    /// Deletes the object. The response is the object, or a Status that reports the deletion.
    pub(super) async fn delete(
        &self,
        client: &Client,
        preconditions: Preconditions,
    ) -> Result<Value, Trouble> {
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::background()
        };
        send(client, || self.collection.delete(&self.name, &params)).await
    }
}

/// All objects of a kind, or those of a namespace.
pub(super) fn collection(kind: &Kind, namespace: Option<&str>) -> Builder {
    use kube::{Resource, core::DynamicObject};
    Builder::new(DynamicObject::url_path(&kind.resource, namespace))
}

/// Sends a request, again when the connection broke.
pub(super) async fn send<T: DeserializeOwned>(
    client: &Client,
    request: impl Fn() -> Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<T, Trouble> {
    let mut attempt = 1;
    loop {
        let request =
            request().map_err(|error| Trouble::Client(kube::Error::BuildRequest(error)))?;
        let error = match timeout(TIMEOUT, client.request(request)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(kube::Error::Api(status))) => return Err(Trouble::Status(status)),
            Ok(Err(error)) => error,
            Err(_) => return Err(Trouble::Timeout),
        };
        let broken = matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_));
        if !broken || attempt == ATTEMPTS {
            return Err(Trouble::Client(error));
        }
        pause(attempt).await;
        attempt += 1;
    }
}

/// Waits longer with every attempt, and never the same time as others.
pub(super) async fn pause(attempt: u32) {
    let longest = 50_u64 << attempt.min(6);
    sleep(Duration::from_millis(fastrand::u64(longest / 2..=longest))).await;
}

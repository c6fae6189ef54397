//! Requests for objects of any kind: with timeouts, retries where they help, and metadata-only responses.

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

use super::apply_object::ObjectMetadata;
use crate::discovery::ApiKind;

/// Timeout of a request, including the client's own retries of 429, 503 and 504. Webhooks may take half a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(40);
/// Maximum number of attempts when connections break.
const MAX_ATTEMPTS: u32 = 3;

/// Error of a request.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// The API server rejected the request.
    Status(Box<Status>),
    /// The name or the namespace is not valid in a URL.
    Name(&'static str),
    /// The API server did not respond, or its response is malformed.
    Client(kube::Error),
    /// The request timed out.
    Timeout,
}

impl ApiError {
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code),
            _ => None,
        }
    }
}

/// URL path of an object.
pub(crate) struct ResourcePath {
    /// Collection of the kind, in the namespace of the object.
    pub(crate) collection: Builder,
    /// Percent-encoded name of the object.
    pub(crate) name: String,
}

impl ResourcePath {
    pub(crate) fn new(kind: &ApiKind, identity: &Identity) -> Result<Self, ApiError> {
        names::path_segment(&identity.name).map_err(ApiError::Name)?;
        if kind.namespaced {
            names::path_segment(&identity.namespace).map_err(|_| {
                ApiError::Name("is invalid because objects of this kind require a valid namespace")
            })?;
        }
        let namespace = names::percent_encoded(&identity.namespace);
        Ok(Self {
            collection: collection(kind, kind.namespaced.then_some(namespace.as_str())),
            name: names::percent_encoded(&identity.name),
        })
    }

    /// Reads the metadata of the object.
    pub(crate) async fn metadata(&self, client: &Client) -> Result<Value, ApiError> {
        let params = GetParams::default();
        let request = || self.collection.get_metadata(&self.name, &params);
        let object: ObjectMetadata = send(client, request).await?;
        Ok(object.metadata)
    }

    /// Deletes the object. The response is the object, or a Status that reports the deletion.
    pub(crate) async fn delete(
        &self,
        client: &Client,
        preconditions: Preconditions,
    ) -> Result<Value, ApiError> {
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::background()
        };
        send(client, || self.collection.delete(&self.name, &params)).await
    }
}

/// Returns the collection of a kind, in one namespace or in the cluster.
pub(crate) fn collection(kind: &ApiKind, namespace: Option<&str>) -> Builder {
    use kube::{Resource, core::DynamicObject};
    Builder::new(DynamicObject::url_path(&kind.resource, namespace))
}

/// Sends a request, and retries if the connection broke.
pub(crate) async fn send<T: DeserializeOwned>(
    client: &Client,
    request: impl Fn() -> Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<T, ApiError> {
    let mut attempt = 1;
    loop {
        let request =
            request().map_err(|error| ApiError::Client(kube::Error::BuildRequest(error)))?;
        let error = match timeout(REQUEST_TIMEOUT, client.request(request)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(kube::Error::Api(status))) => return Err(ApiError::Status(status)),
            Ok(Err(error)) => error,
            Err(_) => return Err(ApiError::Timeout),
        };
        let is_disconnected = matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_));
        if !is_disconnected || attempt == MAX_ATTEMPTS {
            return Err(ApiError::Client(error));
        }
        retry_delay(attempt).await;
        attempt += 1;
    }
}

/// Waits before the next attempt. The delay doubles with every attempt and has a jitter.
pub(crate) async fn retry_delay(attempt: u32) {
    let max = 50_u64 << attempt.min(6);
    sleep(Duration::from_millis(fastrand::u64(max / 2..=max))).await;
}

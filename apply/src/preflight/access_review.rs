//! Requests to the API server, each with a timeout.

use std::{future::Future, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::{DynamicObject, GetParams},
    discovery::Scope,
};

use manifests::names::percent_encoded;

use crate::discovery::ApiKind;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for a response until the timeout.
pub(super) async fn with_timeout<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(
            format!("the API server did not respond within {REQUEST_TIMEOUT:?}").into(),
        )),
    }
}

/// Returns the HTTP status code of an error response.
pub(super) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Maps a 404 response to `None`. For a group that is not served, the body of the response is plain text.
pub(super) fn optional<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if code(&error) == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the metadata of an object; `None` if the object does not exist.
pub(super) async fn metadata(
    client: &Client,
    kind: &ApiKind,
    namespace: &str,
    name: &str,
) -> Result<Option<ObjectMeta>, kube::Error> {
    let scope = if kind.namespaced {
        Scope::Namespaced
    } else {
        Scope::Cluster
    };
    let api =
        Api::<DynamicObject>::dynamic(client.clone(), &kind.resource, &scope).constrain(namespace);
    let answer =
        with_timeout(api.get_metadata_with(&percent_encoded(name), &GetParams::default())).await;
    Ok(optional(answer)?.map(|object| object.metadata))
}

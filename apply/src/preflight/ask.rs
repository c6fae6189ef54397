//! Questions to the API server, each with an end.

use std::{future::Future, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::{DynamicObject, GetParams},
    discovery::Scope,
};

use manifests::names::encoded;

use crate::discovery::Kind;

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for an answer, but not for ever.
pub(super) async fn within<T>(
    question: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    match tokio::time::timeout(PATIENCE, question).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(
            format!("the apiserver did not answer within {PATIENCE:?}").into(),
        )),
    }
}

/// The HTTP status of an answer that is an error.
pub(super) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Maps a 404 response to `None`. For a group that is not served, the body of the response is plain text.
pub(super) fn or_none<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if code(&error) == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The metadata of an object, if there is one.
pub(super) async fn metadata(
    client: &Client,
    kind: &Kind,
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
    let answer = within(api.get_metadata_with(&encoded(name), &GetParams::default())).await;
    Ok(or_none(answer)?.map(|object| object.metadata))
}

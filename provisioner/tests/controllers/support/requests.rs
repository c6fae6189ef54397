//! More requests that must succeed, and notes of Events.

use std::fmt::Debug;

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};

/// Creates an object.
pub(crate) async fn create<K>(api: &Api<K>, object: &K) -> K
where
    K: Clone + DeserializeOwned + Debug + Serialize,
{
    api.create(&PostParams::default(), object).await.unwrap()
}

/// Lists all objects of an API.
pub(crate) async fn list<K>(api: &Api<K>) -> Vec<K>
where
    K: Clone + DeserializeOwned + Debug,
{
    api.list(&ListParams::default()).await.unwrap().items
}

/// Lists the notes of the Events with this reason about objects of this name, oldest first.
pub(crate) async fn notes_about(
    client: &Client,
    namespace: &str,
    about: &str,
    reason: &str,
) -> Vec<String> {
    let mut found: Vec<Event> = list(&Api::namespaced(client.clone(), namespace)).await;
    found.retain(|event| {
        let regarding = event
            .regarding
            .as_ref()
            .and_then(|object| object.name.as_deref());
        regarding == Some(about) && event.reason.as_deref() == Some(reason)
    });
    found.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    found.into_iter().filter_map(|event| event.note).collect()
}

//! Events for people, best effort: a cluster that refuses them is no reason to fail.

use kube::{Client, runtime::events::EventType};
use k8s_openapi::api::core::v1::ObjectReference;

/// Publishes events.
pub struct Events {}

impl Events {
    /// `reporter` is the pod's name.
    pub fn new(client: Client, reporter: Option<String>) -> Self {
        todo!()
    }

    /// Publishes an event about an object; equal ones in a row are counted, not repeated. Never fails, never blocks for
    /// long.
    pub async fn publish(
        &self,
        about: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        todo!()
    }
}

//! Which kinds the apiserver serves: asked once, forgotten when definitions change.

use std::{collections::BTreeMap, sync::Arc};

use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A kind as the apiserver serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// What is known about the kinds that were asked for, those that are not served included.
pub struct Kinds {}

impl Kinds {
    /// Knows nothing yet.
    pub fn new(client: Client) -> Self {
        todo!()
    }

    /// Looks several kinds up, asking only for what is not known. `None` is not served.
    ///
    /// # Errors
    /// When the apiserver cannot be asked.
    pub async fn find(
        &self,
        wanted: impl IntoIterator<Item = GroupVersionKind> + Send,
    ) -> Result<BTreeMap<GroupVersionKind, Option<Arc<Kind>>>, kube::Error> {
        todo!()
    }

    /// Forgets what is known of a group: a CRD of it was applied or deleted, or the apiserver answered 404.
    pub fn forget(&self, group: &str) {
        todo!()
    }

    /// Counts the changes of what is served, so that whoever misses an API can wait for one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        todo!()
    }

    /// Watches CustomResourceDefinitions and APIServices (metadata would not tell Established: conditions are needed)
    /// until cancelled, and forgets what they change.
    pub async fn run(&self, stop: CancellationToken) {
        todo!()
    }
}

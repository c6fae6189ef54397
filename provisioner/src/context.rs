//! What the reconcilers share.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::Semaphore;
use unpacker::Store;

use crate::{
    account::Accounts,
    bundle::{
        Contents, Conversions,
        job::{Tries, Turns},
    },
    catalogs::Catalogs,
    events::Events,
    leading::Leading,
    metrics::Metrics,
    platform::upgrade::Uses,
    process::{self, Fence, Ready},
    pulling::Pulling,
    settings::Settings,
    versions::Versions,
};
use apply::{discovery::Kinds, informers::Watches, preflight::Mighty};

/// Handles to everything outside, the clock included. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The provisioner's own client, with its own rights.
    pub client: Client,
    /// Clients with the rights of others.
    pub accounts: Arc<Accounts>,
    /// What was decided by flags.
    pub settings: Arc<Settings>,
    /// Bundles' content.
    pub store: Arc<Store>,
    /// Converts it, within a shared amount of memory.
    pub conversions: Arc<Conversions>,
    /// Which APIs are served.
    pub kinds: Arc<Kinds>,
    /// What is going on with applied objects.
    pub watches: Arc<Watches>,
    /// Of the cluster and of OpenShift.
    pub versions: Arc<Versions>,
    /// Whether the provisioner itself may do everything.
    pub mighty: Arc<Mighty>,
    /// How the cluster wants images pulled.
    pub pulling: Arc<Pulling>,
    /// What catalogs offer.
    pub catalogs: Arc<Catalogs>,
    /// The calls to removed APIs that the cluster counted.
    pub uses: Arc<Uses>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Events for people.
    pub events: Arc<Events>,
    /// Whether this process works, or another one does.
    pub leading: Leading,
    /// The Bundles whose content this process has had in the content store.
    pub contents: Arc<Contents>,
    /// When Jobs of Bundles may follow each other.
    pub tries: Arc<Tries>,
    /// How many of these Jobs work at once.
    pub turns: Arc<Turns>,
    /// What has to be done before the process is ready: take a task when a watch starts, drop it at its first sync.
    pub ready: Ready,
    /// Permits to apply or delete an object.
    pub permits: Arc<Semaphore>,
    /// Permits to repair an object or to delete it with its instance, which rollouts do not take.
    pub repair_permits: Arc<Semaphore>,
    /// The clock.
    pub now: fn() -> Timestamp,
}

impl Context {
    /// The same for those who change the cluster, and have to stop once the fence is closed.
    ///
    /// # Errors
    /// When no client can be made.
    pub(crate) fn fenced(&self, fence: Fence) -> Result<Self, process::Error> {
        let accounts = self.accounts.fenced(fence);
        let accounts = accounts.map_err(|error| process::Error::Client(Box::new(error)))?;
        Ok(Self {
            client: accounts.own().clone(),
            accounts: Arc::new(accounts),
            ..self.clone()
        })
    }
}

//! Context that the controllers share.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::Semaphore;
use unpacker::Store;

use super::{
    bundle::{
        Contents, Conversions,
        job::{JobBackoff, JobQueue},
    },
    catalog_source::Catalogs,
    cluster_operator::removed_apis::RemovedApiUsage,
};
use crate::{
    cluster::{impersonation::ImpersonatedClients, pull_config::PullConfig, versions::Versions},
    runtime::{
        events::EventRecorder, fence::Fence, leader_flag::LeaderFlag, metrics::Metrics,
        readiness::Readiness, settings::Settings,
    },
};
use apply::{discovery::Discovery, informers::Informers, preflight::ClusterAdminCheck};

/// Handles to all external dependencies, including the clock. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The provisioner's own client, with its own permissions.
    pub client: Client,
    /// Clients with the permissions of ServiceAccounts.
    pub clients: Arc<ImpersonatedClients>,
    /// Settings of the flags.
    pub settings: Arc<Settings>,
    /// Store of the fetched content.
    pub store: Arc<Store>,
    /// Runner of conversions within a shared memory budget.
    pub conversions: Arc<Conversions>,
    /// Cached API discovery.
    pub discovery: Arc<Discovery>,
    /// Informers of the applied objects.
    pub informers: Arc<Informers>,
    /// Kubernetes and OpenShift versions of the cluster.
    pub versions: Arc<Versions>,
    /// Caches whether the provisioner has cluster-admin permissions.
    pub mighty: Arc<ClusterAdminCheck>,
    /// Pull configuration of the cluster.
    pub pull_config: Arc<PullConfig>,
    /// Contents of the catalogs.
    pub catalogs: Arc<Catalogs>,
    /// Usage of removed APIs, as counted by the cluster.
    pub removed_apis: Arc<RemovedApiUsage>,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Publisher of Events.
    pub events: Arc<EventRecorder>,
    /// Flag that is true while this process is the leader.
    pub leader: LeaderFlag,
    /// Index of the Bundles whose content this process has stored.
    pub contents: Arc<Contents>,
    /// Back-off between the unpack Jobs of a Bundle.
    pub job_backoff: Arc<JobBackoff>,
    /// Queue that limits the number of concurrent unpack Jobs.
    pub job_queue: Arc<JobQueue>,
    /// Readiness tasks: add one when a watch starts, and drop it at its first sync.
    pub ready: Readiness,
    /// Permits to apply or delete an object.
    pub write_permits: Arc<Semaphore>,
    /// Permits to repair an object, or to delete it with its instance. Rollouts do not use them.
    pub repair_permits: Arc<Semaphore>,
    /// Clock; tests replace it.
    pub now: fn() -> Timestamp,
}

impl Context {
    /// Returns the context for controllers, whose clients stop writing once the fence is closed.
    ///
    /// # Errors
    /// Returns an error if no client can be created.
    pub(crate) fn fenced(&self, fence: Fence) -> Result<Self, kube::Error> {
        let accounts = self.clients.fenced(fence)?;
        Ok(Self {
            client: accounts.default_client().clone(),
            clients: Arc::new(accounts),
            ..self.clone()
        })
    }
}

//! Client configuration of the cluster, and the shared context of the controllers.

use std::{env, path::Path, sync::Arc, time::Duration};

use http::{HeaderValue, header::USER_AGENT};
use jiff::Timestamp;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::sync::{Semaphore, mpsc};
use unpacker::Store;

use super::Error;
use crate::{
    cluster::{impersonation::ImpersonatedClients, versions::Versions},
    controllers::{bundle::Conversions, context::Context},
    runtime::{
        events::EventRecorder, leader_flag::LeaderFlag, metrics::Metrics, readiness::Readiness,
        settings::Settings,
    },
};
use apply::{discovery::Discovery, informers::Informers};

/// Timeout of a new connection to the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum silence of the API server on a connection. After that, requests fail and watches reconnect. Quiet watches are
/// not affected, because the API server sends a bookmark every minute.
const READ_TIMEOUT: Duration = Duration::from_secs(75);

/// Maximum number of concurrent writes of all instances. Each write holds a connection and the memory of its response, and
/// more writes do not make a slow API server faster.
const MAX_WRITES: usize = 24;

/// Maximum number of concurrent repairs, and of deletions with an instance. Rollouts that wait for a slow webhook do not
/// hold these permits.
const MAX_REPAIRS: usize = 12;

/// Names of the BundleInstances that the watches trigger.
pub type WakeReceiver = mpsc::UnboundedReceiver<String>;

/// Returns the client configuration, from a kubeconfig file or the environment.
pub(super) async fn config(kubeconfig: Option<&Path>) -> Result<Config, Error> {
    let mut config = match kubeconfig {
        Some(path) => {
            let failed = |source| Error::Kubeconfig {
                path: path.to_owned(),
                source: Box::new(source),
            };
            let file = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(failed)?
        }
        None => Config::infer()
            .await
            .map_err(|error| Error::NoCluster(Box::new(error)))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true; // an idle connection may have been silent for as long
    // The user agent identifies the replica in audit logs.
    let agent = concat!("provisioner/", env!("CARGO_PKG_VERSION"));
    let agent = name().map_or_else(|| agent.to_owned(), |name| format!("{agent} ({name})"));
    // A host name may be invalid as a header value.
    if let Ok(agent) = HeaderValue::from_str(&agent) {
        config.headers.push((USER_AGENT, agent));
    }
    Ok(config)
}

/// Returns the context of a cluster, and the receiver of triggered instances.
///
/// # Errors
/// Returns an error if the certificates or credentials of the configuration are invalid.
pub fn context(
    config: Config,
    mut settings: Settings,
    store: Store,
) -> Result<(Context, WakeReceiver), Error> {
    let accounts =
        ImpersonatedClients::new(config).map_err(|error| Error::Client(Box::new(error)))?;
    let client = accounts.default_client().clone();
    let accounts = Arc::new(accounts);
    // The store directory has enough space for fetched files. Other directories may be small or read-only.
    let spool = || store.spool().to_owned();
    settings.unpack.spool.get_or_insert_with(spool);
    let (waker, triggered) = mpsc::unbounded_channel();
    let release = settings.release.clone();
    let context = Context {
        discovery: Arc::new(Discovery::new(client.clone())),
        informers: Arc::new(Informers::new(accounts.clone(), waker)),
        versions: Arc::new(Versions::new(client.clone(), release)),
        mighty: Arc::default(),
        catalogs: Arc::default(),
        removed_apis: Arc::default(),
        pull_config: Arc::default(),
        events: Arc::new(EventRecorder::new(client.clone(), name())),
        metrics: Arc::new(Metrics::new()),
        conversions: Arc::new(Conversions::new(settings.manifests)),
        settings: Arc::new(settings),
        store: Arc::new(store),
        leader: LeaderFlag::default(),
        contents: Arc::default(),
        job_backoff: Arc::default(),
        job_queue: Arc::default(),
        ready: Readiness::default(),
        write_permits: Arc::new(Semaphore::new(MAX_WRITES)),
        repair_permits: Arc::new(Semaphore::new(MAX_REPAIRS)),
        now: Timestamp::now,
        clients: accounts,
        client,
    };
    Ok((context, triggered))
}

/// Returns the name of this pod, or of the machine.
pub(super) fn name() -> Option<String> {
    let variable_value = |variable| env::var(variable).ok().filter(|name| !name.is_empty());
    variable_value("POD_NAME").or_else(|| variable_value("HOSTNAME"))
}

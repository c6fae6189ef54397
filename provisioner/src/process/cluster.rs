//! The cluster, and the context that everything works in.

use std::{env, path::Path, sync::Arc, time::Duration};

use http::{HeaderValue, header::USER_AGENT};
use jiff::Timestamp;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::sync::{Semaphore, mpsc};
use unpacker::Store;

use super::{Error, Ready};
use crate::{
    account::Accounts, bundle::Conversions, context::Context, events::Events, leading::Leading,
    metrics::Metrics, settings::Settings, versions::Versions,
};
use apply::{discovery::Kinds, informers::Watches};

/// How long a connection to the API server may take to be there.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the API server may be silent on a connection before that is taken for dead: then what was asked has failed, and
/// watches are taken up again. Of watches it sends a bookmark every minute, so this does not end those that are just quiet.
const SILENCE: Duration = Duration::from_secs(75);

/// How many objects are applied or deleted at once, for all instances together: each takes a connection and the memory of
/// its answer, and an API server that is slow becomes no faster by more.
const PERMITS: usize = 24;

/// How many objects are repaired, or deleted with their instances, at once: rollouts that wait for a slow webhook do not hold
/// these permits.
const REPAIR_PERMITS: usize = 12;

/// Which instances have to be looked at, as the watches tell.
pub type Woken = mpsc::UnboundedReceiver<String>;

/// The way to the cluster: by a file, or by what there is.
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
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true; // a connection may have waited for its next request as long
    // So that audit logs tell who asks.
    let agent = concat!("provisioner/", env!("CARGO_PKG_VERSION"));
    let agent = name().map_or_else(|| agent.to_owned(), |name| format!("{agent} ({name})"));
    // A machine may have a name that no header can hold.
    if let Ok(agent) = HeaderValue::from_str(&agent) {
        config.headers.push((USER_AGENT, agent));
    }
    Ok(config)
}

/// Makes the context of a cluster. The instances that are woken come out beside it.
///
/// # Errors
/// When the configuration's certificates or credentials are no good.
pub fn context(
    config: Config,
    mut settings: Settings,
    store: Store,
) -> Result<(Context, Woken), Error> {
    let accounts = Accounts::new(config).map_err(|error| Error::Client(Box::new(error)))?;
    let client = accounts.own().clone();
    let accounts = Arc::new(accounts);
    // Where there is room for what is fetched: other folders may be small, or may not be written.
    let spool = || store.spool().to_owned();
    settings.unpack.spool.get_or_insert_with(spool);
    let (waker, woken) = mpsc::unbounded_channel();
    let release = settings.release.clone();
    let context = Context {
        kinds: Arc::new(Kinds::new(client.clone())),
        watches: Arc::new(Watches::new(accounts.clone(), waker)),
        versions: Arc::new(Versions::new(client.clone(), release)),
        mighty: Arc::default(),
        catalogs: Arc::default(),
        uses: Arc::default(),
        pulling: Arc::default(),
        events: Arc::new(Events::new(client.clone(), name())),
        metrics: Arc::new(Metrics::new()),
        conversions: Arc::new(Conversions::new(settings.manifests)),
        settings: Arc::new(settings),
        store: Arc::new(store),
        leading: Leading::default(),
        contents: Arc::default(),
        tries: Arc::default(),
        turns: Arc::default(),
        ready: Ready::default(),
        permits: Arc::new(Semaphore::new(PERMITS)),
        repair_permits: Arc::new(Semaphore::new(REPAIR_PERMITS)),
        now: Timestamp::now,
        accounts,
        client,
    };
    Ok((context, woken))
}

/// The name of this pod, or of the machine.
pub(super) fn name() -> Option<String> {
    let named = |variable| env::var(variable).ok().filter(|name| !name.is_empty());
    named("POD_NAME").or_else(|| named("HOSTNAME"))
}

//! Catalogs in ConfigMaps: reads the ConfigMap whenever it changes.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use catalog::{
    Catalog, Limits,
    configmap::{self, ConfigMap as Content},
    source::FileSource,
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use manifests::api::catalog_source::{CatalogSource, ConfigMapReference};
use tokio::{task::spawn_blocking, time::sleep};
use tracing::{debug, info, warn};
use unpacker::Digest;

use super::{CatalogWorker, sleep_or_forever};
use crate::controllers::catalog_source::{
    catalog_cache::CatalogContent,
    locate::CatalogPlan,
    registry_server,
    status::{CatalogObservation, Problem, Reason},
};
use apply::{
    api_error::{self, code},
    backoff::relisting,
};

/// Time for which a working watch may fail before that is reported.
const REPORT_AFTER: Duration = Duration::from_secs(30);

/// Error that keeps a ConfigMap from being a catalog.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to get catalog config map {name}: {why}")]
    Api { name: String, why: String },
    #[error(
        "failed to get catalog config map {0}: configmaps {0:?} not found; create it, or set another ConfigMap"
    )]
    Missing(String),
    #[error(transparent)]
    Content(#[from] configmap::Error),
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error(transparent)]
    Serving(#[from] registry_server::Error),
    #[error("the provisioner is shutting down")]
    ShuttingDown,
}

// === impl CatalogWorker ===

impl CatalogWorker {
    /// Reads a ConfigMap whenever it changes. Returns if it cannot be watched. A watch that has worked before has to fail
    /// for some time, because a restarting API server recovers by then.
    pub(super) async fn follow_config_map(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        name: &str,
    ) {
        let client = self.shared.ctx.client.clone();
        let api: Api<ConfigMap> = Api::namespaced(client, &self.key.namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let start = move || watcher(api.clone(), config.clone());
        // A recovered watch may send no events for a long time, but a new list always does.
        let mut events = pin!(relisting(start, |_| true));
        let mut outage = WatchOutage::default();
        let (mut exists, mut retry) = (false, None);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sleep_or_forever(retry) => {
                    retry = self.hand_over(source, plan).await;
                    continue;
                }
            };
            let loaded = match event {
                Some(Ok(Event::Init)) => {
                    exists = false;
                    continue;
                }
                Some(Ok(Event::Apply(map) | Event::InitApply(map))) => {
                    exists = true;
                    outage.record_success();
                    Ok(map)
                }
                Some(Ok(Event::InitDone)) if exists => continue,
                Some(Ok(Event::InitDone | Event::Delete(_))) => {
                    outage.record_success();
                    Err(Error::Missing(name.to_owned()))
                }
                // The resourceVersion is too old. The watch lists again, so this is not an outage.
                Some(Err(error)) if code(&error) == Some(410) => continue,
                Some(Err(error)) => {
                    let now = Instant::now();
                    if outage.record_failure(now) {
                        let name = name.to_owned();
                        let problem = api_error::chain(&error);
                        return self
                            .handle_error(source, plan, &Error::Api { name, why: problem }, true)
                            .await;
                    }
                    let (catalog, text) = (&self.key, api_error::chain(&error));
                    debug!(%catalog, error = text, "watch of a ConfigMap failed; relisting");
                    continue;
                }
                None => return sleep_or_forever(None).await,
            };
            let result = match loaded {
                Ok(map) => self.load(source, plan, map).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => {
                    self.backoff.reset();
                    retry = Some(Duration::ZERO);
                }
                Err(error @ Error::Serving(_)) => {
                    return self.handle_error(source, plan, &error, true).await;
                }
                // The ConfigMap has to change before this error can be resolved.
                Err(error) => self.handle_error(source, plan, &error, false).await,
            }
        }
    }

    async fn handle_error(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        error: &Error,
        retries: bool,
    ) {
        let problem = api_error::chain(error);
        self.observed.problem = Some(match error {
            Error::Serving(_) => Problem::of_server(&problem),
            _ => Problem {
                reason: Reason::ConfigMap,
                message: problem,
            },
        });
        self.report(source, plan);
        self.report_failure(source, error).await;
        if retries {
            sleep(self.backoff.next_delay(Instant::now())).await;
        }
    }

    /// Reads and publishes a ConfigMap, if it has changed.
    async fn load(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        map: ConfigMap,
    ) -> Result<(), Error> {
        let (metadata, data) = (map.metadata, map.data.unwrap_or_default());
        let name = metadata.name.unwrap_or_default();
        let (digest, data) = (digest_of(&data), Arc::new(data));
        let place = format!("configmap {name} {digest}");
        if self.last_location.as_ref() != Some(&place)
            || (self.is_selectable && !self.report_ready(source))
        {
            let thread_data = Arc::clone(&data);
            let result = spawn_blocking(move || read(&thread_data)).await;
            let (catalog, skipped) = result.map_err(|_| Error::ShuttingDown)??;
            for reason in skipped.iter().take(20) {
                warn!(catalog = %self.key, reason, "skipped a part of a catalog");
            }
            let (packages, broken) = (catalog.packages.len(), catalog.broken.len());
            info!(catalog = %self.key, %place, packages, broken, "read a catalog");
            if self.is_selectable {
                let content = CatalogContent::Full(Arc::new(catalog));
                self.record_loaded(source, &place, content).await;
            }
            self.last_location = Some(place);
        }
        self.observed = CatalogObservation {
            config_map: Some(ConfigMapReference {
                name,
                namespace: self.key.namespace.clone(),
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                last_update_time: None,
            }),
            ..CatalogObservation::default()
        };
        self.report(source, plan);
        let files = move || {
            let content = Content::read(&data, &Limits::default())?;
            Ok(Box::new(content) as Box<dyn FileSource + Send>)
        };
        Ok(self.publish(source, digest, files).await?)
    }
}

/// Outage of a watch.
#[derive(Debug, Default)]
struct WatchOutage {
    /// True if the watch has ever worked.
    has_worked: bool,
    /// Time of the first failure since the watch last worked.
    since: Option<Instant>,
}

// === impl WatchOutage ===

impl WatchOutage {
    /// Records that the watch works.
    fn record_success(&mut self) {
        *self = Self {
            has_worked: true,
            since: None,
        };
    }

    /// Records a failure. Reports whether the outage has to be reported.
    fn record_failure(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        !self.has_worked || now.saturating_duration_since(since) >= REPORT_AFTER
    }
}

fn read(data: &BTreeMap<String, String>) -> Result<(Catalog, Vec<String>), Error> {
    let limits = Limits::default();
    let content = Content::read(data, &limits)?;
    let catalog = catalog::load(catalog::Source::Files(&content), &limits)?;
    Ok((catalog, content.left_out().to_vec()))
}

/// Serialization of a map of strings cannot fail.
fn digest_of(data: &BTreeMap<String, String>) -> Digest {
    Digest::sha256(&serde_json::to_vec(data).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_persistent_outages_of_a_watch_are_reported() {
        let now = Instant::now();
        let mut outage = WatchOutage::default();
        // An outage of a watch that has never worked is reported at once.
        assert!(outage.record_failure(now));
        outage.record_success();
        for (after, expected) in [(0, false), (29, false), (30, true), (90, true)] {
            assert_rows!(outage.record_failure(now + Duration::from_secs(after)) => expected, "{after}");
        }
        outage.record_success();
        assert!(!outage.record_failure(now + Duration::from_secs(100)));
    }
}

//! A catalog in a ConfigMap, read again whenever that changes.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use catalog::{
    Catalog, Limits,
    configmap::{self, ConfigMap as Content},
    source::Files,
};
use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use manifests::api::catalog_source::{CatalogSource, ConfigMapReference};
use tokio::{task::spawn_blocking, time::sleep};
use tracing::{debug, info, warn};
use unpacker::Digest;

use super::{Following, pause};
use crate::catalogs::{
    known::Read,
    plan::Plan,
    serving,
    status::{Problem, Reason, Seen},
};
use apply::{
    api_error::{code, is_refusal},
    backoff::Pauses,
};

/// How long a watch that has worked may not work before that is told.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a ConfigMap is no catalog here.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to get catalog config map {name}: {why}")]
    Api { name: String, why: String },
    #[error(
        "failed to get catalog config map {0}: configmaps {0:?} not found; create it, or name another one"
    )]
    Missing(String),
    #[error(transparent)]
    Content(#[from] configmap::Error),
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error(transparent)]
    Serving(#[from] serving::Error),
    #[error("the provisioner is about to end")]
    Ended,
}

// === impl Following ===

impl Following {
    /// Reads a ConfigMap, and waits until it changes. Ends when it cannot be watched: where it was watched before, that has
    /// to last, for an API server that restarts is back by then.
    pub(super) async fn config_map(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &Plan,
        name: &str,
    ) {
        let client = self.shared.ctx.client.clone();
        let api: Api<ConfigMap> = Api::namespaced(client, &self.key.namespace);
        let (mut events, mut outage) = (watch(&api, name), Outage::default());
        let mut is_there = false;
        loop {
            let found = match events.next().await {
                Some(Ok(Event::Init)) => {
                    is_there = false;
                    continue;
                }
                Some(Ok(Event::Apply(map) | Event::InitApply(map))) => {
                    is_there = true;
                    outage.ends();
                    Ok(map)
                }
                Some(Ok(Event::InitDone)) if is_there => continue,
                Some(Ok(Event::InitDone | Event::Delete(_))) => {
                    outage.ends();
                    Err(Error::Missing(name.to_owned()))
                }
                // It is listed anew by itself.
                Some(Err(error)) if code(&error) == Some(410) => continue,
                Some(Err(error)) => {
                    let now = Instant::now();
                    if outage.counts(now) {
                        let name = name.to_owned();
                        let why = unpacker::job::chain(&error);
                        return self
                            .no_map(source, plan, &Error::Api { name, why }, true)
                            .await;
                    }
                    let catalog = &self.key;
                    debug!(%catalog, %error, "the watch of a ConfigMap failed; it is listed again");
                    sleep(outage.pause(&error)).await;
                    // A quiet watch that works again says nothing, and a listing does.
                    events = watch(&api, name);
                    continue;
                }
                None => return pause(None).await,
            };
            let taken = match found {
                Ok(map) => self.take_map(source, plan, map).await,
                Err(error) => Err(error),
            };
            match taken {
                Ok(()) => self.patience.is_read(),
                Err(error @ Error::Serving(_)) => {
                    return self.no_map(source, plan, &error, true).await;
                }
                // Until it changes.
                Err(error) => self.no_map(source, plan, &error, false).await,
            }
        }
    }

    async fn no_map(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &Plan,
        error: &Error,
        tries_again: bool,
    ) {
        let why = unpacker::job::chain(error);
        self.seen.problem = Some(match error {
            Error::Serving(_) => Problem::of_server(&why),
            _ => Problem {
                reason: Reason::ConfigMap,
                message: why.clone(),
            },
        });
        self.report(source, plan);
        warn!(catalog = %self.key, error = why, "a catalog cannot be read");
        self.trouble(source, why).await;
        self.has_nothing().await;
        if tries_again {
            let rest = self.patience.pause(Instant::now());
            pause(Some(rest)).await;
        }
    }

    /// Reads a ConfigMap and has it served, as far as that is news.
    async fn take_map(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &Plan,
        map: ConfigMap,
    ) -> Result<(), Error> {
        let (metadata, data) = (map.metadata, map.data.unwrap_or_default());
        let name = metadata.name.unwrap_or_default();
        let (digest, data) = (digest_of(&data), Arc::new(data));
        let place = format!("configmap {name} {digest}");
        if self.from.as_ref() != Some(&place) || (self.counts && !self.well(source)) {
            let of_thread = Arc::clone(&data);
            let read = spawn_blocking(move || read(&of_thread)).await;
            let (read, left_out) = read.map_err(|_| Error::Ended)??;
            for reason in left_out.iter().take(20) {
                warn!(catalog = %self.key, reason, "left out");
            }
            let (packages, broken) = (read.packages.len(), read.broken.len());
            info!(catalog = %self.key, %place, packages, broken, "read a catalog");
            if self.counts {
                let read = Read::All(Arc::new(read));
                self.has_read(source, &place, read).await;
            }
            self.from = Some(place);
        }
        self.seen = Seen {
            config_map: Some(ConfigMapReference {
                name,
                namespace: self.key.namespace.clone(),
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                last_update_time: None,
            }),
            ..Seen::default()
        };
        self.report(source, plan);
        let files = move || {
            let content = Content::read(&data, &Limits::default())?;
            Ok(Box::new(content) as Box<dyn Files + Send>)
        };
        Ok(self.offer(source, digest, files).await?)
    }
}

/// One ConfigMap.
fn watch(
    api: &Api<ConfigMap>,
    name: &str,
) -> BoxStream<'static, watcher::Result<Event<ConfigMap>>> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(api.clone(), config).boxed()
}

/// Whether a watch works.
#[derive(Debug, Default)]
struct Outage {
    /// Whether it ever did.
    has_worked: bool,
    /// Since when it does not.
    since: Option<Instant>,
    pauses: Pauses,
}

// === impl Outage ===

impl Outage {
    /// The watch works.
    fn ends(&mut self) {
        *self = Self {
            has_worked: true,
            ..Self::default()
        };
    }

    /// The watch has failed: whether that is worth telling.
    fn counts(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        !self.has_worked || now.saturating_duration_since(since) >= PATIENCE
    }

    /// How long to wait after a failure.
    fn pause(&mut self, error: &watcher::Error) -> Duration {
        let is_refused = code(error).is_some_and(is_refusal);
        self.pauses.after(is_refused)
    }
}

fn read(data: &BTreeMap<String, String>) -> Result<(Catalog, Vec<String>), Error> {
    let limits = Limits::default();
    let content = Content::read(data, &limits)?;
    let read = catalog::load(catalog::Source::Files(&content), &limits)?;
    Ok((read, content.left_out().to_vec()))
}

/// Texts and their keys can be written.
fn digest_of(data: &BTreeMap<String, String>) -> Digest {
    Digest::of(&serde_json::to_vec(data).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_of_what_was_watched_has_to_last() {
        let now = Instant::now();
        let mut outage = Outage::default();
        // What was never seen is told at once.
        assert!(outage.counts(now));
        outage.ends();
        for (after, expected) in [(0, false), (29, false), (30, true), (90, true)] {
            assert_rows!(outage.counts(now + Duration::from_secs(after)) => expected, "{after}");
        }
        outage.ends();
        assert!(!outage.counts(now + Duration::from_secs(100)));
    }
}

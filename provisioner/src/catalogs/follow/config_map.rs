//! A catalog in a ConfigMap, read again whenever that changes.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Instant};

use catalog::{
    Catalog, Limits,
    configmap::{self, ConfigMap as Content},
    source::Files,
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use manifests::api::catalog_source::{CatalogSource, ConfigMapReference};
use tokio::task::spawn_blocking;
use tracing::{info, warn};
use unpacker::Digest;

use super::{Following, pause};
use crate::catalogs::{
    known::Read,
    plan::Plan,
    serving,
    status::{Problem, Reason, Seen},
};

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
    /// Reads a ConfigMap, and waits until it changes. Ends when it cannot be watched.
    pub(super) async fn config_map(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &Plan,
        name: &str,
    ) {
        let client = self.shared.ctx.client.clone();
        let api: Api<ConfigMap> = Api::namespaced(client, &self.key.namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = pin!(watcher(api, config));
        let mut is_there = false;
        loop {
            let found = match events.next().await {
                Some(Ok(Event::Init)) => {
                    is_there = false;
                    continue;
                }
                Some(Ok(Event::Apply(map) | Event::InitApply(map))) => {
                    is_there = true;
                    Ok(map)
                }
                Some(Ok(Event::InitDone)) if is_there => continue,
                Some(Ok(Event::InitDone | Event::Delete(_))) => {
                    Err(Error::Missing(name.to_owned()))
                }
                Some(Err(error)) => {
                    let name = name.to_owned();
                    let why = unpacker::job::chain(&error);
                    return self
                        .no_map(source, plan, &Error::Api { name, why }, true)
                        .await;
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

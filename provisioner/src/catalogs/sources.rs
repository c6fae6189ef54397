//! Which catalogs there are: the watch of CatalogSources, in each namespace that catalogs are taken from.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
};

use futures::{StreamExt as _, future, stream};
use kube::{
    Api, ResourceExt as _,
    core::GroupVersionKind,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use manifests::api::catalog_source::{CatalogSource, ConnectionState, RegistryService};
use tokio::{sync::watch, task::AbortHandle};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    Key,
    follow::{Shared, follow},
    image::Loaded,
    known::{Identity, Known, hidden},
};
use crate::{context::Context, watches::Pauses};

const GROUP: &str = "operators.coreos.com";
const VERSION: &str = "v1alpha1";

/// Follows the catalogs of the namespaces that they are taken from, until `stop`.
pub async fn run(ctx: Context, stop: CancellationToken) {
    let (has_sources, sources) = watch::channel(false);
    let (has_olm, olm) = watch::channel(false);
    tokio::select! {
        () = look(&ctx, &has_sources, &has_olm) => {}
        () = follow_while_served(&ctx, sources, olm) => {}
        () = stop.cancelled() => {}
    }
}

/// Tells whether there are CatalogSources at all, and whether OLM is in the cluster: only it has this other kind.
async fn look(ctx: &Context, has_sources: &watch::Sender<bool>, has_olm: &watch::Sender<bool>) {
    let kind = |kind| GroupVersionKind::gvk(GROUP, VERSION, kind);
    let (sources, olm) = (kind("CatalogSource"), kind("ClusterServiceVersion"));
    let mut olm = pin!(ctx.kinds.served(&olm));
    // Known before the first catalog is: who has an OLM leaves images to it at first.
    if let Some(kind) = olm.next().await {
        has_olm.send_replace(kind.is_some());
    }
    let sources = ctx.kinds.while_served(&sources, |kind| {
        has_sources.send_replace(kind.is_some());
        if kind.is_none() {
            // Nothing else would tell those who wait for the first look.
            ctx.catalogs.change(Known::has_none);
        }
        future::ready(())
    });
    let olm = olm.for_each(|kind| {
        has_olm.send_replace(kind.is_some());
        future::ready(())
    });
    future::join(sources, olm).await;
}

async fn follow_while_served(
    ctx: &Context,
    mut sources: watch::Receiver<bool>,
    has_olm: watch::Receiver<bool>,
) {
    let shared = Arc::new(Shared {
        ctx: ctx.clone(),
        loaded: Loaded::default(),
        has_olm,
    });
    loop {
        if sources.wait_for(|served| *served).await.is_err() {
            return;
        }
        ctx.catalogs.change(|known| {
            known.begin(&ctx.settings.catalog_namespaces);
            true
        });
        tokio::select! {
            () = follow_all(&shared) => return,
            _ = sources.wait_for(|served| !*served) => {}
        }
    }
}

/// Follows all catalogs; whoever drops this ends that.
async fn follow_all(shared: &Arc<Shared>) {
    let ctx = &shared.ctx;
    let mut followed = Followed {
        shared: Arc::clone(shared),
        catalogs: BTreeMap::new(),
    };
    let mut events = stream::select_all(ctx.settings.catalog_namespaces.iter().map(|namespace| {
        let api = Api::<CatalogSource>::namespaced(ctx.client.clone(), namespace);
        let namespace = namespace.clone();
        watcher::watcher(api, watcher::Config::default())
            .backoff(Pauses::default())
            .modify(|source| source.metadata.managed_fields = None)
            .map(move |event| (namespace.clone(), event))
            .boxed()
    }));
    let mut seen: BTreeMap<String, BTreeSet<Key>> = BTreeMap::new();
    while let Some((namespace, event)) = events.next().await {
        match event {
            Ok(Event::Init) => {
                seen.insert(namespace, BTreeSet::new());
            }
            Ok(Event::InitApply(source)) => {
                seen.entry(namespace).or_default().insert(key(&source));
                followed.add(source);
            }
            Ok(Event::InitDone) => {
                let seen = seen.remove(&namespace).unwrap_or_default();
                followed.retain(&namespace, &seen);
                ctx.catalogs.change(|known| {
                    ctx.metrics.catalog_gone(&hidden(&namespace));
                    known.listed(&namespace)
                });
            }
            Ok(Event::Apply(source)) => followed.add(source),
            Ok(Event::Delete(source)) => followed.remove(&key(&source)),
            Err(error) => {
                warn!(%namespace, %error, "the watch of CatalogSources failed; it is taken up again");
                if let Some(why) = refusal(&namespace, &error) {
                    ctx.catalogs.change(|known| {
                        ctx.metrics.catalog(&hidden(&namespace), false);
                        known.refused(&namespace, why)
                    });
                }
            }
        }
    }
}

/// What to say of a namespace where CatalogSources may not be listed. Everything else passes.
fn refusal(namespace: &str, error: &watcher::Error) -> Option<String> {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))) = error
    else {
        return None;
    };
    let words: String = status.message.chars().take(400).collect();
    matches!(status.code, 401 | 403).then(|| {
        format!(
            "its CatalogSources cannot be listed: {words}; let the provisioner's ServiceAccount list and watch \
             catalogsources.{GROUP} in namespace {namespace}, or leave that out of --catalog-namespaces"
        )
    })
}

fn key(source: &CatalogSource) -> Key {
    Key {
        namespace: source.namespace().unwrap_or_default(),
        name: source.name_any(),
    }
}

/// The catalogs that are followed.
struct Followed {
    shared: Arc<Shared>,
    catalogs: BTreeMap<Key, Catalog>,
}

/// A catalog that is followed, as long as this lives.
struct Catalog {
    source: watch::Sender<Arc<CatalogSource>>,
    task: AbortHandle,
}

// === impl Followed ===

impl Followed {
    fn add(&mut self, source: CatalogSource) {
        let key = key(&source);
        // Here, and not by who follows it: he may still be at it when it is gone.
        let (of, priority) = (Identity::of(&source), source.spec.priority);
        let catalogs = &self.shared.ctx.catalogs;
        catalogs.change(|known| known.add(&key, &of, priority.unwrap_or_default()));
        if let Some(catalog) = self.catalogs.get(&key) {
            catalog.source.send_if_modified(|known| {
                let differs = matters(known) != matters(&source);
                *known = Arc::new(source);
                differs
            });
            return;
        }
        let (sender, receiver) = watch::channel(Arc::new(source));
        let following = follow(Arc::clone(&self.shared), key.clone(), receiver);
        let catalog = Catalog {
            source: sender,
            task: tokio::spawn(following).abort_handle(),
        };
        self.catalogs.insert(key, catalog);
    }

    fn remove(&mut self, key: &Key) {
        if self.catalogs.remove(key).is_some() {
            let ctx = &self.shared.ctx;
            ctx.catalogs.change(|known| {
                ctx.metrics.catalog_gone(key);
                known.remove(key)
            });
        }
    }

    /// Forgets those that went while nobody watched.
    fn retain(&mut self, namespace: &str, seen: &BTreeSet<Key>) {
        let gone: Vec<Key> = self
            .catalogs
            .keys()
            .filter(|key| key.namespace == namespace && !seen.contains(key))
            .cloned()
            .collect();
        for key in gone {
            self.remove(&key);
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let all: Vec<Key> = self.catalogs.keys().cloned().collect();
        for key in all {
            self.remove(&key);
        }
        let ctx = &self.shared.ctx;
        for namespace in &ctx.settings.catalog_namespaces {
            ctx.metrics.catalog_gone(&hidden(namespace));
        }
    }
}

impl Drop for Catalog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What of a CatalogSource may lead to another catalog. OLM writes more than that into it, again and again.
fn matters(source: &CatalogSource) -> impl PartialEq + '_ {
    let status = source.status.as_ref();
    let connection: Option<&ConnectionState> =
        status.and_then(|status| status.connection_state.as_ref());
    let service: Option<&RegistryService> =
        status.and_then(|status| status.registry_service.as_ref());
    (&source.spec, &source.metadata.uid, connection, service)
}

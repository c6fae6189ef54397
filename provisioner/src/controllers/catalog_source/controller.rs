//! Controller of CatalogSources: watches them in all relevant namespaces, and the objects that belong to them.
//!
//! ```text
//!  CatalogSources ──► worker of each catalog: reads its content ──► report ─┐
//!                                                                           ├─► reconcile: Service, EndpointSlice,
//!  pods, Services, EndpointSlices, ServiceAccounts, NetworkPolicies ────────┘   registry pod, status
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
};

use futures::{StreamExt as _, future, stream};
use k8s_openapi::api::{
    core::v1::{Pod, Service, ServiceAccount},
    discovery::v1::EndpointSlice,
    networking::v1::NetworkPolicy,
};
use kube::{
    Api,
    core::GroupVersionKind,
    runtime::{
        Controller,
        controller::{self, Action},
        reflector::{ObjectRef, store::Writer},
        watcher::{self, Event},
    },
};
use manifests::api::{
    catalog_source::GROUP,
    labels::{CATALOG, CATALOG_POD},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    CatalogKey,
    catalog_cache::{CatalogCache, hidden},
    cluster_facts::{self, FactSource},
    followed_catalogs::FollowedCatalogs,
    image::{DigestCache, LoadedCatalogs, RegistrySlots},
    owned_objects::{labeled, owner, watch_owned},
    reconcile::CatalogContext,
    registry_server::{RegistryServer, ServerObject},
    tolerant::TolerantCatalogSource,
    triggers::ReconcileTriggers,
    watch_scope::{NamespaceScope, forbidden_message, scopes},
};
use crate::controllers::context::Context;
use apply::{
    api_error,
    backoff::{NoWatchBackoff, relisting},
};

const VERSION: &str = "v1alpha1";

/// Runs the controller of CatalogSources and the workers of all relevant catalogs until `stop` is cancelled.
pub async fn run(ctx: Context, stop: CancellationToken) {
    let (has_sources, sources) = watch::channel(false);
    let triggers = Arc::<ReconcileTriggers>::default();
    let shared = Arc::new(CatalogContext {
        ctx: ctx.clone(),
        loaded_catalogs: LoadedCatalogs::default(),
        registry_slots: RegistrySlots::default(),
        digest_cache: DigestCache::new(ctx.store.dir()),
        facts: watch::Sender::default(),
        serving: RegistryServer::from_context(&ctx, Arc::clone(&triggers)).map(Arc::new),
        triggers,
        pod_namespaces: Arc::default(),
    });
    tokio::select! {
        () = watch_for_sources(&ctx, &has_sources) => {}
        () = cluster_facts::watch_all(&ctx, &shared.facts) => {}
        () = follow_while_served(&shared, sources) => {}
        () = stop.cancelled() => {}
    }
}

/// Follows whether the API server serves CatalogSources, and reports the result in `has_sources`.
async fn watch_for_sources(ctx: &Context, has_sources: &watch::Sender<bool>) {
    let sources = GroupVersionKind::gvk(GROUP, VERSION, "CatalogSource");
    let sources = ctx.discovery.while_served(&sources, |kind| {
        has_sources.send_replace(kind.is_some());
        if kind.is_none() {
            // No other code would notify the tasks that wait for the initial list.
            ctx.catalogs.change(CatalogCache::clear);
        }
        future::ready(())
    });
    sources.await;
}

async fn follow_while_served(shared: &Arc<CatalogContext>, mut sources: watch::Receiver<bool>) {
    let ctx = &shared.ctx;
    // OLM detection comes before the first catalog, because OLM serves the images if it runs.
    let mut facts = shared.facts.subscribe();
    let is_known = facts.wait_for(|facts| !facts.pending.contains(&FactSource::Olm));
    if is_known.await.is_err() {
        return;
    }
    drop(facts);
    loop {
        if sources.wait_for(|served| *served).await.is_err() {
            return;
        }
        ctx.catalogs.change(|cache| {
            cache.reset(&ctx.settings.catalog_namespaces);
            true
        });
        tokio::select! {
            () = follow_all(shared) => return,
            _ = sources.wait_for(|served| !*served) => {}
        }
    }
}

/// Runs the controller of all catalogs. Dropping the future stops it and all workers.
async fn follow_all(shared: &Arc<CatalogContext>) {
    let ctx = &shared.ctx;
    let followed = Arc::new(FollowedCatalogs::new(shared));
    let _stop = StopOnDrop(Arc::clone(&followed));
    let mut sources = SourceWatch {
        followed: Arc::clone(&followed),
        store: Writer::default(),
        listed: BTreeMap::new(),
    };
    // Objects of catalogs can be reconciled before all CatalogSources are listed.
    for event in [Event::Init, Event::InitDone] {
        sources.store.apply_watcher_event(&event);
    }
    let store = sources.store.as_reader();
    let events = stream::select_all(scopes(&ctx.settings).into_iter().map(|scope| {
        let (api, config): (Api<TolerantCatalogSource>, _) = scope.api_and_config(&ctx.client);
        // Only a list shows that listing in the namespace is allowed again.
        let needs_list = |error: &_| api_error::code(error).is_some_and(api_error::is_refusal);
        let start = move || watcher::watcher(api.clone(), config.clone());
        relisting(start, needs_list)
            .map(move |event| (scope.clone(), event))
            .boxed()
    }));
    let changed =
        events.flat_map(move |(scope, event)| stream::iter(sources.observe(&scope, event)));
    let triggered = shared.triggers.stream().map(|key| key.to_ref());
    let mut controller = Controller::for_stream(stream::pending(), store)
        .trigger_backoff(NoWatchBackoff)
        .reconcile_on(changed)
        .reconcile_on(triggered);
    if let Some(serving) = &shared.serving {
        controller = with_owned_objects(controller, serving, &followed);
    }
    controller
        .run(reconcile, |_, _, _| Action::await_change(), followed)
        .for_each(|result| {
            match result {
                // An object of a catalog that is not followed has changed, or the catalog was deleted.
                Ok(_) | Err(controller::Error::ObjectNotFound(_)) => {}
                Err(error) => {
                    let error = api_error::chain(&error);
                    warn!(error, "error in the CatalogSource controller");
                }
            }
            future::ready(())
        })
        .await;
}

/// Stops following all catalogs when dropped, even while a reconcile is running.
struct StopOnDrop(Arc<FollowedCatalogs>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// Reconciles the objects of a catalog and its status.
async fn reconcile(
    source: Arc<TolerantCatalogSource>,
    followed: Arc<FollowedCatalogs>,
) -> Result<Action, Infallible> {
    let catalog = followed.get(&CatalogKey::from_source(&source.0));
    Ok(match catalog {
        Some(catalog) => catalog.reconcile().await,
        None => Action::await_change(),
    })
}

/// Triggers reconciles of catalogs when the objects that belong to them change.
fn with_owned_objects(
    controller: Controller<TolerantCatalogSource>,
    serving: &Arc<RegistryServer>,
    followed: &Arc<FollowedCatalogs>,
) -> Controller<TolerantCatalogSource> {
    let client = followed.shared.ctx.client.clone();
    let pod_objects = followed.shared.pod_namespaces.changes({
        let client = client.clone();
        move |namespace| {
            stream::select_all([
                watch_owned::<Pod>(&client, namespace, CATALOG_POD, owner),
                watch_owned::<Service>(&client, namespace, CATALOG_POD, owner),
                watch_owned::<ServiceAccount>(&client, namespace, CATALOG_POD, owner),
                watch_owned::<NetworkPolicy>(&client, namespace, CATALOG_POD, owner),
            ])
        }
    });
    let server_objects = serving.namespaces().changes(move |namespace| {
        let services = watch_owned::<Service>(&client, namespace, CATALOG, labeled);
        let slices = watch_owned::<EndpointSlice>(&client, namespace, CATALOG, labeled);
        stream::select(
            services.map(|change| (ServerObject::Service, change)),
            slices.map(|change| (ServerObject::EndpointSlice, change)),
        )
    });
    let (followed, serving) = (Arc::clone(followed), Arc::clone(serving));
    let pod_keys = pod_objects.flat_map(move |(namespace, change)| {
        stream::iter(followed.pod_object_changed(&namespace, &change))
    });
    let server_keys = server_objects.flat_map(move |(namespace, (object, change))| {
        stream::iter(serving.observe(&namespace, object, &change))
    });
    controller
        .reconcile_on(pod_keys.map(|key| key.to_ref()))
        .reconcile_on(server_keys.map(|key| key.to_ref()))
}

/// Watch of the CatalogSources of all scopes.
struct SourceWatch {
    followed: Arc<FollowedCatalogs>,
    store: Writer<TolerantCatalogSource>,
    /// Catalogs of each list that is not complete yet.
    listed: BTreeMap<NamespaceScope, BTreeSet<CatalogKey>>,
}

// === impl SourceWatch ===

impl SourceWatch {
    /// Records an event. Returns the catalogs to reconcile.
    fn observe(
        &mut self,
        scope: &NamespaceScope,
        event: watcher::Result<Event<TolerantCatalogSource>>,
    ) -> Option<ObjectRef<TolerantCatalogSource>> {
        let followed = Arc::clone(&self.followed);
        let ctx = &followed.shared.ctx;
        match event {
            Ok(Event::Init) => {
                self.listed.insert(scope.clone(), BTreeSet::new());
            }
            Ok(Event::InitApply(source)) => {
                let listed = self.listed.entry(scope.clone()).or_default();
                listed.insert(CatalogKey::from_source(&source.0));
                return Some(self.add(source));
            }
            Ok(Event::InitDone) => {
                let listed = self.listed.remove(scope).unwrap_or_default();
                self.retain(scope, &listed);
                if let NamespaceScope::Selectable(namespace) = scope {
                    ctx.catalogs.change(|cache| {
                        ctx.metrics.catalog_gone(&hidden(namespace));
                        cache.listed(namespace)
                    });
                }
            }
            Ok(Event::Apply(source)) => return Some(self.add(source)),
            Ok(Event::Delete(source)) => {
                followed.remove(&CatalogKey::from_source(&source.0));
                followed.forget(source.0.metadata.uid.clone());
                self.store.apply_watcher_event(&Event::Delete(source));
            }
            Err(error) => {
                let text = api_error::chain(&error);
                warn!(
                    ?scope,
                    error = text,
                    "watch of CatalogSources failed; reconnecting"
                );
                if api_error::is_outage(api_error::code(&error)) {
                    // The API server may return with another version.
                    ctx.versions.doubt();
                }
                if let NamespaceScope::Selectable(namespace) = scope
                    && let Some(message) = forbidden_message(namespace, &error)
                {
                    ctx.catalogs.change(|cache| {
                        ctx.metrics.catalog(&hidden(namespace), false);
                        cache.refused(namespace, message)
                    });
                }
            }
        }
        None
    }

    /// Follows a CatalogSource, or records its later version. Returns the catalog to reconcile.
    fn add(&mut self, source: TolerantCatalogSource) -> ObjectRef<TolerantCatalogSource> {
        let added = CatalogKey::from_source(&source.0).to_ref();
        self.followed.add(source.0.clone());
        self.store.apply_watcher_event(&Event::Apply(source));
        added
    }

    /// Removes catalogs that were deleted while the watch was down.
    fn retain(&mut self, scope: &NamespaceScope, listed: &BTreeSet<CatalogKey>) {
        for source in self.store.as_reader().state() {
            let key = CatalogKey::from_source(&source.0);
            if scope.contains(&key) && !listed.contains(&key) {
                self.followed.remove(&key);
                self.followed.forget(source.0.metadata.uid.clone());
                self.store
                    .apply_watcher_event(&Event::Delete((*source).clone()));
            }
        }
    }
}

// === impl CatalogKey ===

impl CatalogKey {
    fn to_ref(&self) -> ObjectRef<TolerantCatalogSource> {
        ObjectRef::new(&self.name).within(&self.namespace)
    }
}

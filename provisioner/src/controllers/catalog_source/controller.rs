//! Controller of CatalogSources: watches them in all relevant namespaces and runs a worker per catalog.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{StreamExt as _, future, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Client, ResourceExt as _,
    core::GroupVersionKind,
    runtime::watcher::{self, Event},
};
use manifests::api::catalog_source::{CatalogSource, ConnectionState, GROUP, RegistryService};
use tokio::{
    sync::watch,
    task::{AbortHandle, spawn_blocking},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    CatalogKey,
    catalog_cache::{CatalogCache, CatalogIdentity, hidden},
    cluster_facts::{self, FactSource},
    image::{DigestCache, LoadedCatalogs},
    locate::templates,
    reconcile::{self, CatalogContext},
    registry_pod::PodInformers,
    registry_server::RegistryServer,
    status_writer::own_conditions,
    tolerant::TolerantCatalogSource,
};
use crate::{
    controllers::context::Context,
    runtime::settings::{Namespaces, Settings},
};
use apply::{api_error as answer, backoff::patient};

const VERSION: &str = "v1alpha1";

/// Runs the workers of all relevant catalogs until `stop` is cancelled.
pub async fn run(ctx: Context, stop: CancellationToken) {
    let (has_sources, sources) = watch::channel(false);
    let shared = Arc::new(CatalogContext {
        ctx: ctx.clone(),
        loaded_catalogs: LoadedCatalogs::default(),
        digest_cache: DigestCache::new(ctx.store.dir()),
        facts: watch::Sender::default(),
        serving: RegistryServer::from_context(&ctx).map(Arc::new),
        pods: PodInformers::default(),
    });
    tokio::select! {
        () = watch_for_sources(&ctx, &has_sources) => {}
        () = cluster_facts::watch_all(&ctx, &shared.facts) => {}
        () = follow_while_served(&shared, sources) => {}
        () = stop.cancelled() => {}
    }
}

/// Reports whether CatalogSources are served by the API server.
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

/// Runs the workers of all catalogs. Dropping the future stops them.
async fn follow_all(shared: &Arc<CatalogContext>) {
    let ctx = &shared.ctx;
    let mut followed = CatalogWorkers {
        shared: Arc::clone(shared),
        catalogs: BTreeMap::new(),
    };
    let mut events = stream::select_all(scopes(&ctx.settings).into_iter().map(|scope| {
        let (api, config): (Api<TolerantCatalogSource>, _) = scope.watched(&ctx.client);
        patient(watcher::watcher(api, config))
            .map(move |event| (scope.clone(), event))
            .boxed()
    }));
    let mut listed: BTreeMap<NamespaceScope, BTreeSet<CatalogKey>> = BTreeMap::new();
    while let Some((scope, event)) = events.next().await {
        match event {
            Ok(Event::Init) => {
                listed.insert(scope, BTreeSet::new());
            }
            Ok(Event::InitApply(TolerantCatalogSource(source))) => {
                listed.entry(scope).or_default().insert(key(&source));
                followed.add(source);
            }
            Ok(Event::InitDone) => {
                let listed = listed.remove(&scope).unwrap_or_default();
                followed.retain(&scope, &listed);
                if let NamespaceScope::Selectable(namespace) = &scope {
                    ctx.catalogs.change(|cache| {
                        ctx.metrics.catalog_gone(&hidden(namespace));
                        cache.listed(namespace)
                    });
                }
            }
            Ok(Event::Apply(TolerantCatalogSource(source))) => followed.add(source),
            Ok(Event::Delete(TolerantCatalogSource(source))) => {
                followed.remove(&key(&source));
                followed.forget(source.metadata.uid);
            }
            Err(error) => {
                warn!(?scope, %error, "watch of CatalogSources failed; reconnecting");
                if answer::is_outage(answer::code(&error)) {
                    // The API server may return with another version.
                    ctx.versions.doubt();
                }
                if let NamespaceScope::Selectable(namespace) = &scope
                    && let Some(message) = forbidden_message(namespace, &error)
                {
                    ctx.catalogs.change(|cache| {
                        ctx.metrics.catalog(&hidden(namespace), false);
                        cache.refused(namespace, message)
                    });
                }
            }
        }
    }
}

/// Scope of one watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum NamespaceScope {
    /// CatalogSources of a namespace from which platform operators choose.
    Selectable(String),
    /// CatalogSources of another namespace, which are only served.
    Served(String),
    /// CatalogSources of all namespaces except these, which are only served.
    Other(Vec<String>),
}

/// Returns the scopes to watch: each namespace of selectable catalogs, and all other namespaces whose catalogs are served.
fn scopes(settings: &Settings) -> Vec<NamespaceScope> {
    let counting = settings.catalog_namespaces.iter().cloned();
    let served = match settings.serving.as_ref().map(|serving| &serving.namespaces) {
        None => Vec::new(),
        Some(Namespaces::All) => vec![NamespaceScope::Other(settings.catalog_namespaces.clone())],
        Some(Namespaces::Some(some)) => {
            let others = some
                .iter()
                .filter(|namespace| !settings.is_selectable_namespace(namespace));
            others.cloned().map(NamespaceScope::Served).collect()
        }
    };
    counting
        .map(NamespaceScope::Selectable)
        .chain(served)
        .collect()
}

// === impl NamespaceScope ===

impl NamespaceScope {
    fn watched(&self, client: &Client) -> (Api<TolerantCatalogSource>, watcher::Config) {
        let config = watcher::Config::default();
        match self {
            Self::Selectable(namespace) | Self::Served(namespace) => {
                (Api::namespaced(client.clone(), namespace), config)
            }
            Self::Other(namespaces) => {
                let others = namespaces
                    .iter()
                    .map(|namespace| format!("metadata.namespace!={namespace}"));
                let others = others.collect::<Vec<_>>().join(",");
                (Api::all(client.clone()), config.fields(&others))
            }
        }
    }

    fn has(&self, key: &CatalogKey) -> bool {
        match self {
            Self::Selectable(namespace) | Self::Served(namespace) => *namespace == key.namespace,
            Self::Other(namespaces) => !namespaces.contains(&key.namespace),
        }
    }
}

/// Returns the message for a namespace where listing CatalogSources is forbidden, or `None` for a temporary error.
fn forbidden_message(namespace: &str, error: &watcher::Error) -> Option<String> {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))) = error
    else {
        return None;
    };
    let message: String = status.message.chars().take(400).collect();
    matches!(status.code, 401 | 403).then(|| {
        format!(
            "failed to list CatalogSources: {message}; grant the provisioner's ServiceAccount list and watch on \
             catalogsources.{GROUP} in namespace {namespace}, or remove the namespace from --catalog-namespaces"
        )
    })
}

fn key(source: &CatalogSource) -> CatalogKey {
    CatalogKey {
        namespace: source.namespace().unwrap_or_default(),
        name: source.name_any(),
    }
}

/// Workers of all followed catalogs.
struct CatalogWorkers {
    shared: Arc<CatalogContext>,
    catalogs: BTreeMap<CatalogKey, WorkerHandle>,
}

/// Handle of one worker. Dropping it stops the worker.
struct WorkerHandle {
    source: watch::Sender<Arc<CatalogSource>>,
    /// Rukpak's conditions in the status, which other clients may remove.
    conditions: watch::Sender<Vec<Condition>>,
    task: AbortHandle,
}

// === impl CatalogWorkers ===

impl CatalogWorkers {
    fn add(&mut self, source: CatalogSource) {
        let key = key(&source);
        let former = self
            .catalogs
            .get(&key)
            .map(|catalog| catalog.source.borrow().clone());
        if let Some(former) = former.filter(|former| is_replacement(former, &source)) {
            // Content of the former CatalogSource must not be used for the new one.
            self.remove(&key);
            self.forget(former.uid());
            if let Some(serving) = &self.shared.serving {
                serving.catalog_removed(&key);
            }
        }
        cluster_facts::require(&self.shared.facts, templates(&source));
        // The cache is updated here and not by the worker, which may still be busy when the catalog is deleted.
        let (identity, priority) = (CatalogIdentity::from_source(&source), source.spec.priority);
        let ctx = &self.shared.ctx;
        if ctx.settings.is_selectable_namespace(&key.namespace) {
            ctx.catalogs
                .change(|cache| cache.add(&key, &identity, priority.unwrap_or_default()));
        }
        let conditions = own_conditions(&source);
        if let Some(catalog) = self.catalogs.get(&key) {
            catalog.source.send_if_modified(|stored| {
                let differs = relevant_fields(stored) != relevant_fields(&source);
                *stored = Arc::new(source);
                differs
            });
            catalog.conditions.send_if_modified(|stored| {
                let differs = *stored != conditions;
                *stored = conditions;
                differs
            });
            return;
        }
        let (sender, receiver) = watch::channel(Arc::new(source));
        let (conditions, changes) = watch::channel(conditions);
        let following = reconcile::run(Arc::clone(&self.shared), key.clone(), receiver, changes);
        let catalog = WorkerHandle {
            source: sender,
            conditions,
            task: tokio::spawn(following).abort_handle(),
        };
        self.catalogs.insert(key, catalog);
    }

    fn remove(&mut self, key: &CatalogKey) {
        if self.catalogs.remove(key).is_some() {
            let ctx = &self.shared.ctx;
            ctx.catalogs.change(|cache| {
                ctx.metrics.catalog_gone(key);
                cache.remove(key)
            });
        }
    }

    /// Removes the recorded digest, which must not be used for another CatalogSource of the same name.
    fn forget(&self, uid: Option<String>) {
        let digest_cache = self.shared.digest_cache.clone();
        // The result is not awaited.
        drop(spawn_blocking(move || {
            uid.map(|uid| digest_cache.forget(&uid))
        }));
    }

    /// Removes catalogs that were deleted while the watch was down.
    fn retain(&mut self, scope: &NamespaceScope, listed: &BTreeSet<CatalogKey>) {
        let removed: Vec<CatalogKey> = self
            .catalogs
            .keys()
            .filter(|key| scope.has(key) && !listed.contains(key))
            .cloned()
            .collect();
        for key in removed {
            self.remove(&key);
        }
    }
}

impl Drop for CatalogWorkers {
    fn drop(&mut self) {
        let all: Vec<CatalogKey> = self.catalogs.keys().cloned().collect();
        for key in all {
            self.remove(&key);
        }
        let ctx = &self.shared.ctx;
        for namespace in &ctx.settings.catalog_namespaces {
            ctx.metrics.catalog_gone(&hidden(namespace));
        }
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reports whether a CatalogSource was replaced by another one of the same name while the watch was down.
fn is_replacement(old: &CatalogSource, new: &CatalogSource) -> bool {
    old.metadata.uid != new.metadata.uid
}

/// Returns the fields that can affect the catalog. OLM frequently updates other fields.
fn relevant_fields(source: &CatalogSource) -> impl PartialEq + '_ {
    let status = source.status.as_ref();
    let connection: Option<&ConnectionState> =
        status.and_then(|status| status.connection_state.as_ref());
    let service: Option<&RegistryService> =
        status.and_then(|status| status.registry_service.as_ref());
    (
        &source.spec,
        &source.metadata.uid,
        connection,
        service,
        // Templates, and the annotations that are copied to the registry pod.
        &source.metadata.annotations,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::settings::{NamespaceQuota, Ports, Serving};

    #[test]
    fn recreated_source_is_a_replacement() {
        let source = |uid: &str, version: &str, image: &str| -> CatalogSource {
            object!({
                "metadata": {"name": "mine", "namespace": "catalogs", "uid": uid, "resourceVersion": version},
                "spec": {"sourceType": "grpc", "image": image},
            })
        };
        let former = source("a", "1", "example.com/one");
        for (now, expected) in [
            (source("a", "2", "example.com/one"), false),
            (source("a", "2", "example.com/two"), false),
            // Even with the same spec.
            (source("b", "2", "example.com/one"), true),
            (source("b", "2", "example.com/two"), true),
        ] {
            assert_eq!(is_replacement(&former, &now), expected, "{now:?}");
        }
    }

    #[test]
    fn overlapping_namespaces_are_watched_once() {
        let counting = |name: &str| NamespaceScope::Selectable(name.to_owned());
        let served = |namespaces| {
            let settings = Settings {
                catalog_namespaces: vec!["b".to_owned(), "a".to_owned()],
                serving: Some(Serving {
                    address: [10, 0, 0, 1].into(),
                    ports: Ports::Any,
                    namespaces,
                    pods: false,
                    share: NamespaceQuota::default(),
                }),
                ..Settings::default()
            };
            scopes(&settings)
        };
        let some =
            |names: &[&str]| Namespaces::Some(names.iter().map(|&name| name.to_owned()).collect());
        let both = [counting("b"), counting("a")];
        assert_eq!(served(some(&["a", "b"])), both);
        assert_eq!(served(some(&[])), both);
        assert_rows!(served(some(&["a", "c"])) => [&both[..], &[NamespaceScope::Served("c".to_owned())]].concat());
        let others = NamespaceScope::Other(vec!["b".to_owned(), "a".to_owned()]);
        assert_rows!(served(Namespaces::All) => [&both[..], std::slice::from_ref(&others)].concat());
        for (namespace, is_other) in [("a", false), ("b", false), ("c", true)] {
            assert_rows! {
                others.has(&CatalogKey { namespace: namespace.to_owned(), name: "mine".to_owned() }) => is_other, "{namespace}";
            }
        }
    }
}

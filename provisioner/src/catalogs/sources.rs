//! Which catalogs there are: the watch of CatalogSources, in each namespace that catalogs are taken from.

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
    Key,
    around::{self, Part},
    follow::{Shared, follow},
    found::Found,
    image::{Loaded, Remembered},
    known::{Identity, Known, hidden},
    plan::templates,
    pods::Watches,
    report::own_conditions,
    serving::Serving,
};
use crate::{
    context::Context,
    settings::{Namespaces, Settings},
};
use apply::{api_error as answer, backoff::patient};

const VERSION: &str = "v1alpha1";

/// Follows the catalogs of the namespaces that they are taken from, until `stop`.
pub async fn run(ctx: Context, stop: CancellationToken) {
    let (has_sources, sources) = watch::channel(false);
    let shared = Arc::new(Shared {
        ctx: ctx.clone(),
        loaded: Loaded::default(),
        remembered: Remembered::new(ctx.store.folder()),
        around: watch::Sender::default(),
        serving: Serving::of(&ctx).map(Arc::new),
        pods: Watches::default(),
    });
    tokio::select! {
        () = look(&ctx, &has_sources) => {}
        () = around::follow(&ctx, &shared.around) => {}
        () = follow_while_served(&shared, sources) => {}
        () = stop.cancelled() => {}
    }
}

/// Tells whether there are CatalogSources at all.
async fn look(ctx: &Context, has_sources: &watch::Sender<bool>) {
    let sources = GroupVersionKind::gvk(GROUP, VERSION, "CatalogSource");
    let sources = ctx.kinds.while_served(&sources, |kind| {
        has_sources.send_replace(kind.is_some());
        if kind.is_none() {
            // Nothing else would tell those who wait for the first look.
            ctx.catalogs.change(Known::has_none);
        }
        future::ready(())
    });
    sources.await;
}

async fn follow_while_served(shared: &Arc<Shared>, mut sources: watch::Receiver<bool>) {
    let ctx = &shared.ctx;
    // Known before the first catalog is: who has an OLM leaves images to it at first.
    let mut around = shared.around.subscribe();
    let is_known = around.wait_for(|around| !around.pending.contains(&Part::Olm));
    if is_known.await.is_err() {
        return;
    }
    drop(around);
    loop {
        if sources.wait_for(|served| *served).await.is_err() {
            return;
        }
        ctx.catalogs.change(|known| {
            known.begin(&ctx.settings.catalog_namespaces);
            true
        });
        tokio::select! {
            () = follow_all(shared) => return,
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
    let mut events = stream::select_all(scopes(&ctx.settings).into_iter().map(|scope| {
        let (api, config): (Api<Found>, _) = scope.watched(&ctx.client);
        patient(watcher::watcher(api, config))
            .map(move |event| (scope.clone(), event))
            .boxed()
    }));
    let mut seen: BTreeMap<Scope, BTreeSet<Key>> = BTreeMap::new();
    while let Some((scope, event)) = events.next().await {
        match event {
            Ok(Event::Init) => {
                seen.insert(scope, BTreeSet::new());
            }
            Ok(Event::InitApply(Found(source))) => {
                seen.entry(scope).or_default().insert(key(&source));
                followed.add(source);
            }
            Ok(Event::InitDone) => {
                let seen = seen.remove(&scope).unwrap_or_default();
                followed.retain(&scope, &seen);
                if let Scope::Counting(namespace) = &scope {
                    ctx.catalogs.change(|known| {
                        ctx.metrics.catalog_gone(&hidden(namespace));
                        known.listed(namespace)
                    });
                }
            }
            Ok(Event::Apply(Found(source))) => followed.add(source),
            Ok(Event::Delete(Found(source))) => {
                followed.remove(&key(&source));
                followed.forget(source.metadata.uid);
            }
            Err(error) => {
                warn!(?scope, %error, "the watch of CatalogSources failed; it is taken up again");
                if answer::is_outage(answer::code(&error)) {
                    // The API server may come back as another version.
                    ctx.versions.doubt();
                }
                if let Scope::Counting(namespace) = &scope
                    && let Some(why) = refusal(namespace, &error)
                {
                    ctx.catalogs.change(|known| {
                        ctx.metrics.catalog(&hidden(namespace), false);
                        known.refused(namespace, why)
                    });
                }
            }
        }
    }
}

/// What one watch sees.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// The CatalogSources of a namespace, from which platform operators choose.
    Counting(String),
    /// Those of another namespace, which are only served.
    Served(String),
    /// Those of all namespaces but these, which are only served, too.
    Others(Vec<String>),
}

/// What is watched: each namespace that counts, and where else catalogs are served.
fn scopes(settings: &Settings) -> Vec<Scope> {
    let counting = settings.catalog_namespaces.iter().cloned();
    let served = match settings.serving.as_ref().map(|it| &it.namespaces) {
        None => Vec::new(),
        Some(Namespaces::All) => vec![Scope::Others(settings.catalog_namespaces.clone())],
        Some(Namespaces::Some(some)) => {
            let others = some.iter().filter(|it| !settings.counts(it));
            others.cloned().map(Scope::Served).collect()
        }
    };
    counting.map(Scope::Counting).chain(served).collect()
}

// === impl Scope ===

impl Scope {
    fn watched(&self, client: &Client) -> (Api<Found>, watcher::Config) {
        let config = watcher::Config::default();
        match self {
            Self::Counting(namespace) | Self::Served(namespace) => {
                (Api::namespaced(client.clone(), namespace), config)
            }
            Self::Others(namespaces) => {
                let others = namespaces
                    .iter()
                    .map(|it| format!("metadata.namespace!={it}"));
                let others = others.collect::<Vec<_>>().join(",");
                (Api::all(client.clone()), config.fields(&others))
            }
        }
    }

    fn has(&self, key: &Key) -> bool {
        match self {
            Self::Counting(namespace) | Self::Served(namespace) => *namespace == key.namespace,
            Self::Others(namespaces) => !namespaces.contains(&key.namespace),
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
    /// Our conditions in its status, which other clients may remove.
    conditions: watch::Sender<Vec<Condition>>,
    task: AbortHandle,
}

// === impl Followed ===

impl Followed {
    fn add(&mut self, source: CatalogSource) {
        let key = key(&source);
        let former = self.catalogs.get(&key).map(|it| it.source.borrow().clone());
        if let Some(former) = former.filter(|it| is_another(it, &source)) {
            // What was read of the former, and is served, is not this one's.
            self.remove(&key);
            self.forget(former.uid());
            if let Some(serving) = &self.shared.serving {
                serving.is_gone(&key);
            }
        }
        around::require(&self.shared.around, templates(&source));
        // Here, and not by who follows it: he may still be at it when it is gone.
        let (of, priority) = (Identity::of(&source), source.spec.priority);
        let ctx = &self.shared.ctx;
        if ctx.settings.counts(&key.namespace) {
            ctx.catalogs
                .change(|known| known.add(&key, &of, priority.unwrap_or_default()));
        }
        let conditions = own_conditions(&source);
        if let Some(catalog) = self.catalogs.get(&key) {
            catalog.source.send_if_modified(|known| {
                let differs = matters(known) != matters(&source);
                *known = Arc::new(source);
                differs
            });
            catalog.conditions.send_if_modified(|known| {
                let differs = *known != conditions;
                *known = conditions;
                differs
            });
            return;
        }
        let (sender, receiver) = watch::channel(Arc::new(source));
        let (conditions, changes) = watch::channel(conditions);
        let following = follow(Arc::clone(&self.shared), key.clone(), receiver, changes);
        let catalog = Catalog {
            source: sender,
            conditions,
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

    /// What its image had is not for another one of its name.
    fn forget(&self, uid: Option<String>) {
        let remembered = self.shared.remembered.clone();
        // Nobody waits for that.
        drop(spawn_blocking(move || {
            uid.map(|uid| remembered.forget(&uid))
        }));
    }

    /// Forgets those that went while nobody watched.
    fn retain(&mut self, scope: &Scope, seen: &BTreeSet<Key>) {
        let gone: Vec<Key> = self
            .catalogs
            .keys()
            .filter(|key| scope.has(key) && !seen.contains(key))
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

/// Reports whether this one has taken the place of another one of its name, which went while nobody watched.
fn is_another(known: &CatalogSource, now: &CatalogSource) -> bool {
    known.metadata.uid != now.metadata.uid
}

/// What of a CatalogSource may lead to another catalog. OLM writes more than that into it, again and again.
fn matters(source: &CatalogSource) -> impl PartialEq + '_ {
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
        // Templates, and whatever its pod gets of them.
        &source.metadata.annotations,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Ports, Serving, Share};

    #[test]
    fn who_has_the_name_of_another_one_is_not_that() {
        let source = |uid: &str, version: &str, image: &str| -> CatalogSource {
            object!({
                "metadata": {"name": "mine", "namespace": "catalogs", "uid": uid, "resourceVersion": version},
                "spec": {"sourceType": "grpc", "image": image},
            })
        };
        let known = source("a", "1", "example.com/one");
        for (now, expected) in [
            (source("a", "2", "example.com/one"), false),
            (source("a", "2", "example.com/two"), false),
            // Also where it says the same.
            (source("b", "2", "example.com/one"), true),
            (source("b", "2", "example.com/two"), true),
        ] {
            assert_eq!(is_another(&known, &now), expected, "{now:?}");
        }
    }

    #[test]
    fn each_namespace_is_watched_once() {
        let counting = |name: &str| Scope::Counting(name.to_owned());
        let served = |namespaces| {
            let settings = Settings {
                catalog_namespaces: vec!["b".to_owned(), "a".to_owned()],
                serving: Some(Serving {
                    address: [10, 0, 0, 1].into(),
                    ports: Ports::Any,
                    namespaces,
                    pods: false,
                    share: Share::default(),
                }),
                ..Settings::default()
            };
            scopes(&settings)
        };
        let some =
            |names: &[&str]| Namespaces::Some(names.iter().map(|&it| it.to_owned()).collect());
        let both = [counting("b"), counting("a")];
        assert_eq!(served(some(&["a", "b"])), both);
        assert_eq!(served(some(&[])), both);
        assert_rows!(served(some(&["a", "c"])) => [&both[..], &[Scope::Served("c".to_owned())]].concat());
        let others = Scope::Others(vec!["b".to_owned(), "a".to_owned()]);
        assert_rows!(served(Namespaces::All) => [&both[..], std::slice::from_ref(&others)].concat());
        for (namespace, is_other) in [("a", false), ("b", false), ("c", true)] {
            assert_rows! {
                others.has(&Key { namespace: namespace.to_owned(), name: "mine".to_owned() }) => is_other, "{namespace}";
            }
        }
    }
}

//! Watches Bundles and what they are made from, and drives each towards content that is stored.

use std::{
    fmt::Debug,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{PartialObjectMeta, Patch, PatchParams},
    core::NamespaceResourceScope,
    runtime::{
        Controller, PredicateConfig, WatchStreamExt as _,
        controller::{Action, Config},
        events::EventType,
        reflector::{self, ObjectRef, Store as Reader},
        watcher::{self, Event, watcher},
    },
};
use manifests::api::{
    Class,
    bundle::{Bundle, BundleStatus, Phase},
    condition::reason,
    labels,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::{
    sync::{Semaphore, mpsc},
    task::spawn_blocking,
    time,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use unpacker::{Digest, job::chain};

use super::{
    backoff::Backoff,
    check, class_of,
    fetch::{self, ApiError, Brought},
    held::Held,
    source,
    status::{self, Outcome, is_unpacked},
    uid,
    upkeep::{self, Seen},
};
use crate::{apply::MANAGER, context::Context, metrics};

/// How many Bundles are looked at at once.
const RECONCILES: u16 = 64;
/// How many are fetched at once: a server that does not answer must not hold up all the others.
const FETCHES: usize = 16;
/// How many are converted at once: each takes a processor, and several times its size in memory.
const CONVERSIONS: usize = 2;
/// How long the apiserver may take for one request.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the reconciles share.
pub(super) struct Shared {
    pub(super) ctx: Context,
    backoff: Backoff,
    held: Held,
    fetches: Semaphore,
    conversions: Semaphore,
}

impl Shared {
    /// A Bundle is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.backoff.forget(uid);
        self.held.release(uid);
    }

    /// Forgets Bundles that do not exist.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.backoff.retain(&exists);
        self.held.retain(&exists);
    }
}

/// Why a Bundle could not be looked at; what is wrong with the Bundle itself stands in its status.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The apiserver does not tell.
    #[error("failed to read Bundle {bundle}")]
    Read {
        bundle: String,
        #[source]
        source: ApiError,
    },
    /// The apiserver does not take the status.
    #[error("failed to write the status of Bundle {bundle}")]
    Write {
        bundle: String,
        #[source]
        source: ApiError,
    },
}

/// Looks after all Bundles until it is told to stop; what has begun is brought to its end.
pub async fn run(ctx: Context, stop: CancellationToken) {
    let client = ctx.client.clone();
    let namespace = ctx.settings.system_namespace.clone();
    let shared = Arc::new(Shared {
        ctx,
        backoff: Backoff::default(),
        held: Held::default(),
        fetches: Semaphore::new(FETCHES),
        conversions: Semaphore::new(CONVERSIONS),
    });
    let (reader, writer) = reflector::store::<Bundle>();
    let (seen, events) = mpsc::unbounded_channel();
    let bundles = watcher(
        Api::<Bundle>::all(client.clone()),
        watcher::Config::default(),
    )
    .modify(|bundle| bundle.managed_fields_mut().clear())
    .default_backoff()
    .reflect(writer)
    .inspect(move |event| {
        // The receiver lives as long as this stream, or the process ends.
        let _ = match event {
            Ok(Event::InitDone) => seen.send(Seen::All),
            Ok(Event::Delete(bundle)) => seen.send(Seen::Deleted(Arc::new(bundle.clone()))),
            _ => Ok(()),
        };
    })
    .applied_objects()
    .predicate_filter(wakes, PredicateConfig::default());
    let upkeep = tokio::spawn(upkeep::run(
        Arc::clone(&shared),
        reader.clone(),
        events,
        stop.clone(),
    ));
    let ready = shared.ctx.ready.task("list Bundles");
    let synced = {
        let reader = reader.clone();
        async move {
            let _ = reader.wait_until_ready().await;
            ready.done();
        }
    };
    let secrets = touched::<Secret>(client.clone(), &namespace);
    let config_maps = touched::<ConfigMap>(client, &namespace);
    let of_secret = {
        let reader = reader.clone();
        move |secret: PartialObjectMeta<Secret>| {
            let name = secret.name_any();
            waiting(&reader, |bundle| {
                source::secret(&bundle.spec.source) == Some(&name)
            })
        }
    };
    let of_config_map = {
        let reader = reader.clone();
        move |map: PartialObjectMeta<ConfigMap>| {
            let name = map.name_any();
            let owner = owner(&map).map(str::to_owned);
            waiting(&reader, |bundle| {
                let spec = &bundle.spec.source;
                source::reads(spec, &name)
                    || source::is_upload(spec) && owner.as_ref() == bundle.metadata.name.as_ref()
            })
        }
    };
    let controller = Controller::for_stream(bundles, reader)
        .with_config(Config::default().concurrency(RECONCILES))
        .watches_stream(secrets, of_secret)
        .watches_stream(config_maps, of_config_map)
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(reconcile, again, shared)
        .for_each(|result| async move {
            match result {
                Ok((bundle, _)) => debug!(bundle = bundle.name, "looked at a Bundle"),
                Err(error) => warn!(error = chain(&error), "the Bundle controller has a problem"),
            }
        });
    futures::join!(controller, synced);
    upkeep.abort();
}

/// A status that only tells more of what we did is no reason to look again, as a status that was taken away is.
fn wakes(bundle: &Bundle) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    bundle.metadata.generation.hash(&mut hasher);
    bundle
        .metadata
        .deletion_timestamp
        .is_some()
        .hash(&mut hasher);
    is_unpacked(bundle).hash(&mut hasher);
    bundle.status.is_some().hash(&mut hasher);
    Some(hasher.finish())
}

/// The names of objects that come, go and change.
fn touched<K>(
    client: Client,
    namespace: &str,
) -> impl Stream<Item = Result<PartialObjectMeta<K>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::namespaced(client, namespace);
    watcher(api, watcher::Config::default())
        .default_backoff()
        .touched_objects()
}

/// The Bundle that a ConfigMap was made for.
fn owner(map: &PartialObjectMeta<ConfigMap>) -> Option<&str> {
    let labels = map.labels();
    let is_bundle = labels
        .get(labels::OWNER_KIND)
        .is_some_and(|kind| kind == "Bundle");
    is_bundle.then(|| labels.get(labels::OWNER_NAME).map(String::as_str))?
}

/// Bundles whose content is not there yet and may come now.
fn waiting(reader: &Reader<Bundle>, concerns: impl Fn(&Bundle) -> bool) -> Vec<ObjectRef<Bundle>> {
    let bundles = reader.state();
    let concerned = bundles
        .iter()
        .filter(|bundle| !is_unpacked(bundle) && concerns(bundle));
    concerned
        .map(|bundle| ObjectRef::from_obj(&**bundle))
        .collect()
}

fn again(bundle: Arc<Bundle>, _: &Error, shared: Arc<Shared>) -> Action {
    Action::requeue(shared.backoff.next(uid(&bundle), false))
}

/// Drives one Bundle towards content that is stored. Whatever is in its way stands in its status.
async fn reconcile(seen: Arc<Bundle>, shared: Arc<Shared>) -> Result<Action, Error> {
    let ctx = &shared.ctx;
    let _measure = ctx.metrics.reconcile(metrics::Controller::Bundle);
    if is_settled(&shared, &seen).await {
        return Ok(Action::requeue(ctx.settings.resync));
    }
    // What the watch shows may be older than our own last word: then something unpacked would be unpacked again.
    let fresh = fetch::fresh(ctx, &seen).await;
    let fresh = fresh.map_err(|source| Error::Read {
        bundle: seen.name_any(),
        source,
    })?;
    let Some(bundle) = fresh.filter(|bundle| bundle.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    let Some(class) = class_of(&bundle) else {
        return unknown(ctx, &bundle).await;
    };
    if is_settled(&shared, &bundle).await {
        return Ok(Action::requeue(ctx.settings.resync));
    }
    let uid = uid(&bundle);
    let work = bring(&shared, &bundle, class).await?;
    write(ctx, &bundle, &work.outcome).await?;
    match work.outcome {
        Outcome::Failed(_) => {
            ctx.metrics.failed(metrics::Controller::Bundle, work.reason);
            Ok(Action::requeue(shared.backoff.next(uid, work.is_terminal)))
        }
        _ => {
            shared.backoff.forget(uid);
            Ok(Action::requeue(ctx.settings.resync))
        }
    }
}

/// Whether nothing is left to do: it is unpacked, or leaving, and the store has its content.
async fn is_settled(shared: &Shared, bundle: &Bundle) -> bool {
    if bundle.metadata.deletion_timestamp.is_some() {
        return true;
    }
    let digest = bundle
        .status
        .as_ref()
        .and_then(|status| status.content_digest.as_ref());
    let Some(digest) = digest.and_then(|digest| digest.parse::<Digest>().ok()) else {
        return false;
    };
    if !is_unpacked(bundle) || class_of(bundle).is_none() {
        return false;
    }
    // Held or not: somebody may have emptied the folder.
    let store = shared.ctx.store.clone();
    let Ok(Ok(hold)) = spawn_blocking(move || store.hold(&digest)).await else {
        return false;
    };
    if !shared.held.has(uid(bundle), &digest) {
        let can_be_fetched = !source::is_upload(&bundle.spec.source);
        shared.held.keep(uid(bundle), hold, can_be_fetched);
    }
    true
}

/// Answers once; whoever serves the class has the last word.
async fn unknown(ctx: &Context, bundle: &Bundle) -> Result<Action, Error> {
    let is_untouched = bundle
        .status
        .as_ref()
        .is_none_or(|status| status.phase.is_none() && status.conditions.is_empty());
    if is_untouched {
        write(ctx, bundle, &Outcome::UnknownClass).await?;
    }
    Ok(Action::await_change())
}

/// What came of fetching and checking.
struct Work {
    outcome: Outcome,
    reason: &'static str,
    is_terminal: bool,
}

impl Work {
    fn done(outcome: Outcome) -> Self {
        Self {
            outcome,
            reason: "",
            is_terminal: false,
        }
    }

    fn failed(message: String, reason: &'static str, is_terminal: bool) -> Self {
        Self {
            outcome: Outcome::Failed(message),
            reason,
            is_terminal,
        }
    }
}

/// Fetches and checks, and says in the status that it does, unless that tells more already.
async fn bring(shared: &Shared, bundle: &Bundle, class: Class) -> Result<Work, Error> {
    let ctx = &shared.ctx;
    let phase = bundle.status.as_ref().and_then(|status| status.phase);
    let is_new = matches!(phase, None | Some(Phase::Pending));
    let permit = match shared.fetches.try_acquire() {
        Ok(permit) => Some(permit),
        Err(_) => {
            if phase.is_none() {
                let waits = "waiting for other Bundles to be unpacked first".to_owned();
                write(ctx, bundle, &Outcome::Pending(waits)).await?;
            }
            // Closed is only what nobody closes.
            shared.fetches.acquire().await.ok()
        }
    };
    // An upload that has not come is not being unpacked.
    if is_new && !source::is_upload(&bundle.spec.source) {
        write(ctx, bundle, &Outcome::Unpacking).await?;
    }
    let fetched = fetch::fetch(ctx, bundle).await;
    drop(permit);
    let Brought { resolved, stored } = match fetched {
        Ok(Some(brought)) => brought,
        Ok(None) => {
            let waits = "waiting for bundle to be uploaded".to_owned();
            return Ok(Work::done(Outcome::Pending(waits)));
        }
        Err(error) => {
            let message = format!("source bundle content: {}", chain(&error));
            return Ok(Work::failed(message, error.reason(), error.is_terminal()));
        }
    };
    let digest = stored.digest;
    let can_be_fetched = !source::is_upload(&bundle.spec.source);
    let before = bundle.status.as_ref();
    let facts = match before.filter(|status| status.content_digest == Some(digest.to_string())) {
        // It was checked when it was pinned.
        Some(status) => status.facts.clone(),
        None => match checked(shared, class, digest).await {
            Ok(facts) => facts,
            Err(work) => return Ok(work),
        },
    };
    shared.held.keep(uid(bundle), stored.hold, can_be_fetched);
    Ok(Work::done(Outcome::Unpacked {
        resolved,
        digest,
        facts,
    }))
}

/// What content says of itself, once it turned out to be good.
async fn checked(
    shared: &Shared,
    class: Class,
    digest: Digest,
) -> Result<manifests::api::bundle::Facts, Work> {
    let ctx = &shared.ctx;
    let version = ctx.versions.kubernetes().await.map_err(|error| {
        let message = format!(
            "failed to ask the apiserver for its version: {}",
            chain(&error)
        );
        Work::failed(message, "ApiserverUnavailable", false)
    })?;
    let _permit = shared.conversions.acquire().await;
    let (store, limits) = (ctx.store.clone(), ctx.settings.unpack.limits);
    let checked = spawn_blocking(move || {
        let content = store.get(&digest, &limits)?;
        Ok::<_, unpacker::store::Error>(check::check(class, &content, version))
    });
    match checked.await {
        Ok(Ok(Ok(facts))) => Ok(facts),
        Ok(Ok(Err(refusal))) => Err(Work::failed(refusal, "ContentRefused", true)),
        Ok(Err(error)) => {
            let message = format!("persist bundle content: {}", chain(&error));
            Err(Work::failed(message, error.reason(), error.is_terminal()))
        }
        Err(error) if error.is_panic() => Err(Work::failed(
            "the conversion of the content failed in a way that nobody thought of; report it with the provisioner's log"
                .to_owned(),
            "Panicked",
            true,
        )),
        Err(_) => Err(Work::failed("the provisioner is about to end".to_owned(), "Cancelled", false)),
    }
}

/// Writes the status, if it says something new, and tells people.
async fn write(ctx: &Context, bundle: &Bundle, outcome: &Outcome) -> Result<(), Error> {
    let status = status::of(bundle, outcome, &ctx.settings.external_address, (ctx.now)());
    if status::is_written(bundle, &status) {
        return Ok(());
    }
    match patch(ctx, bundle, &status).await {
        Ok(()) => {}
        // It is gone, or another one has its name.
        Err(ApiError::Kube(kube::Error::Api(said))) if matches!(said.code, 404 | 409) => {
            return Ok(());
        }
        Err(source) => {
            return Err(Error::Write {
                bundle: bundle.name_any(),
                source,
            });
        }
    }
    let Some(condition) = status.conditions.first() else {
        return Ok(());
    };
    info!(
        bundle = bundle.name_any(),
        reason = condition.reason,
        "the status of a Bundle changed"
    );
    let type_ = match outcome {
        Outcome::Unpacked { .. } => EventType::Normal,
        Outcome::Failed(_) | Outcome::UnknownClass => EventType::Warning,
        Outcome::Pending(_) | Outcome::Unpacking => return Ok(()),
    };
    let action = if condition.reason == reason::UNKNOWN_CLASS {
        "Reconcile"
    } else {
        "Unpack"
    };
    let about = bundle.object_ref(&());
    ctx.events
        .publish(&about, type_, &condition.reason, action, &condition.message)
        .await;
    Ok(())
}

async fn patch(ctx: &Context, bundle: &Bundle, status: &BundleStatus) -> Result<(), ApiError> {
    let api: Api<Bundle> = Api::all(ctx.client.clone());
    let name = bundle.name_any();
    let patch = json!({
        "apiVersion": Bundle::api_version(&()),
        "kind": Bundle::kind(&()),
        // The uid makes sure that it is not a later one of the same name.
        "metadata": {"name": name, "uid": uid(bundle)},
        "status": status,
    });
    let params = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(&patch);
    let patched = time::timeout(PATIENCE, api.patch_status(&name, &params, &patch)).await;
    patched.map_err(|_| ApiError::Silent)??;
    Ok(())
}

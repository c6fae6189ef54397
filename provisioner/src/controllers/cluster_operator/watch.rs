//! Watch of one object or of all objects of a kind, while the kind is served.
//!
//! Listed objects remain valid for a short outage of the watch, since an API server that restarts is available again by
//! then. The grace period starts whenever objects are not listed and watched: at the start, at a failure, and when a list
//! starts again, whether the API server rejects the request, is overloaded or does not answer. After a failure all objects
//! are listed again: a watch that works again and has no events does not show its recovery, and a complete list does.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Resource,
    core::GroupVersionKind,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, warn};

use super::{
    cache::{ClusterState, ObjectCache},
    controller::AggregatorState,
    reduce,
};
use apply::{
    api_error::{self, code, is_refusal},
    backoff::WatchBackoff,
};

/// Grace period of a watch that does not work.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// Watched kind, and the cache of its objects.
pub(crate) struct Informer<K, T> {
    pub(crate) config: watcher::Config,
    /// Returns the cached part of an object; `None` if the object is not needed.
    pub(crate) read: fn(K) -> Option<T>,
    pub(crate) place: fn(&mut ClusterState) -> &mut ObjectCache<T>,
}

impl<K, T> Informer<K, T>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    T: PartialEq + Send + 'static,
{
    /// Watches until the future is dropped.
    pub(super) async fn run(self, shared: &AggregatorState) {
        let kind = GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &K::kind(&()));
        let watched = shared.ctx.discovery.while_served(&kind, |served| {
            let follow = &self;
            async move {
                match served {
                    Some(_) => follow.watch(shared).await,
                    None => shared.change(|facts| (follow.place)(facts).mark_not_served()),
                }
            }
        });
        // Without an answer to discovery, no watch starts that could report the failure.
        let silent = async {
            sleep(GRACE_PERIOD).await;
            let why = list_error(&K::plural(&()), &no_answer());
            shared.change(|facts| {
                let place = (self.place)(facts);
                !place.is_synced() && place.fails(&why)
            });
        };
        tokio::join!(watched, silent);
    }

    async fn watch(&self, shared: &AggregatorState) {
        let mut backoff = WatchBackoff::default();
        let mut outage = Some(WatchOutage::start());
        loop {
            if let Err(error) = self.once(shared, &mut outage).await {
                if api_error::is_outage(code(&error)) {
                    // The API server may have another version after its restart.
                    shared.ctx.versions.doubt();
                }
                let text = api_error::chain(&error);
                let outage = outage.get_or_insert_with(WatchOutage::start);
                outage.why = match code(&error) {
                    Some(401 | 403) => FORBIDDEN.to_owned(),
                    _ => text.clone(),
                };
                let is_refusal = code(&error).is_some_and(is_refusal);
                self.report(shared, outage, is_refusal);
                let kind = K::kind(&());
                if outage.is_reported {
                    warn!(%kind, error = text, "watch keeps failing; relisting");
                } else {
                    debug!(%kind, error = text, "watch failed; relisting");
                }
                // Not before the time that the API server requests, up to a limit.
                let requested = api_error::wait(&error)
                    .unwrap_or_default()
                    .min(GRACE_PERIOD);
                sleep(backoff.after(is_refusal).max(requested)).await;
            }
        }
    }

    /// Lists and watches until that fails, or a new list is required.
    async fn once(
        &self,
        shared: &AggregatorState,
        outage: &mut Option<WatchOutage>,
    ) -> Result<(), watcher::Error> {
        let api = Api::<K>::all(shared.ctx.clients.client_without_retry().clone());
        let mut events = pin!(watcher(api, self.config.clone()));
        let mut listing = BTreeMap::new();
        loop {
            let unreported = outage.as_mut().filter(|outage| !outage.is_reported);
            let next = if let Some(outage) = unreported {
                let Ok(next) = timeout_at(outage.end(), events.next()).await else {
                    self.report(shared, outage, false);
                    continue;
                };
                next
            } else {
                events.next().await
            };
            let Some(event) = next else {
                return Ok(());
            };
            match event {
                Ok(Event::Init) => {
                    outage.get_or_insert_with(WatchOutage::start);
                    listing.clear();
                }
                Ok(Event::InitApply(object)) => {
                    let name = reduce::name(&object);
                    if let Some(read) = (self.read)(object) {
                        listing.insert(name, read);
                    }
                }
                Ok(Event::InitDone) => {
                    *outage = None;
                    let listed = std::mem::take(&mut listing);
                    shared.change(|facts| (self.place)(facts).list(listed));
                }
                Ok(Event::Apply(object)) => {
                    let name = reduce::name(&object);
                    let read = (self.read)(object);
                    shared.change(|facts| match read {
                        Some(read) => (self.place)(facts).put(name, read),
                        None => (self.place)(facts).remove(&name),
                    });
                }
                Ok(Event::Delete(object)) => {
                    let name = reduce::name(&object);
                    shared.change(|facts| (self.place)(facts).remove(&name));
                }
                // The watcher starts a new list by itself.
                Err(error) if code(&error) == Some(410) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reports an outage that exceeds the grace period. Before the first list, a rejected request is reported at once.
    fn report(&self, shared: &AggregatorState, outage: &mut WatchOutage, is_refusal: bool) {
        let is_overdue = outage.end() <= Instant::now();
        let why = list_error(&K::plural(&()), &outage.why);
        shared.change(|facts| {
            let place = (self.place)(facts);
            outage.is_reported |= is_overdue || (is_refusal && !place.is_listed());
            outage.is_reported && place.fails(&why)
        });
    }
}

/// An interruption of a watch.
struct WatchOutage {
    since: Instant,
    why: String,
    /// Whether it was reported.
    is_reported: bool,
}

impl WatchOutage {
    fn start() -> Self {
        Self {
            since: Instant::now(),
            why: no_answer(),
            is_reported: false,
        }
    }

    /// Returns the end of the grace period.
    fn end(&self) -> Instant {
        self.since + GRACE_PERIOD
    }
}

/// Returns the reason of an outage without an answer.
fn no_answer() -> String {
    format!(
        "the API server has not responded for {} s",
        GRACE_PERIOD.as_secs()
    )
}

const FORBIDDEN: &str = "forbidden for the provisioner; apply the install manifests of this version again to grant the \
                         permission";

fn list_error(plural: &str, why: &str) -> String {
    format!("failed to list {plural}: {why}")
}

//! Carries the events of one watch to what is known, and keeps at it.

use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt as _};
use kube::{
    Api, Client, Resource,
    core::{ApiResource, DynamicObject, DynamicResourceScope, PartialObjectMeta},
    runtime::watcher::{self, Config, Event, watcher},
};
use manifests::object::shortened;
use tokio::{sync::Notify, time::timeout};

use crate::{
    backoff::Pauses,
    informers::{
        Shared,
        known::Data,
        object::{self, Full, Observed},
        scope::{Depth, Scope},
    },
};

/// How many whole objects are listed at once: each may have more than a megabyte.
const FULL_PAGE: u32 = 50;
/// Two objects of a listing, or its pages, come within this time.
const LISTING_TIMEOUT: Duration = Duration::from_secs(60);
/// So many failures in a row are worth telling, and reason to begin anew.
const TROUBLE: u32 = 3;
/// The maximum length of a reported message of the API server, in characters.
const LONGEST_REASON: usize = 400;

/// Watches until it is aborted.
pub(super) async fn run(shared: Weak<Shared>, scope: Arc<Scope>, retry: Arc<Notify>) {
    let mut watch = Watch {
        shared,
        scope,
        retry,
        pauses: Pauses::default(),
    };
    while watch.once().await.is_some() {}
}

struct Watch {
    shared: Weak<Shared>,
    scope: Arc<Scope>,
    retry: Arc<Notify>,
    pauses: Pauses,
}

/// The reason why a watch does not work.
#[derive(Debug)]
struct Failure {
    /// HTTP status, where there was an answer.
    code: Option<u16>,
    words: String,
}

// === impl Watch ===

impl Watch {
    /// Lists and watches until that has to begin anew; `None` when nobody wants to know any more.
    async fn once(&mut self) -> Option<()> {
        let account = self.scope.only.as_ref().map(|only| &only.account);
        let client = self.shared.upgrade()?.accounts.client(account);
        let client = match client {
            Ok(client) => client,
            Err(error) => return self.pause(Failure::of(&error), false).await.map(drop),
        };
        let config = Config::default().labels(&self.scope.selector());
        match self.scope.depth {
            Depth::Metadata => {
                let api = self.api::<PartialObjectMeta<DynamicObject>>(client);
                self.follow(watcher(api, config), object::of_metadata).await
            }
            Depth::Full => {
                let events = watcher(self.api::<Full>(client), config.page_size(FULL_PAGE));
                let resource = self.scope.resource.clone();
                self.follow(events, |object| object::of_full(object, &resource))
                    .await
            }
        }
    }

    fn api<K>(&self, client: Client) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        let resource = &self.scope.resource;
        match &self.scope.only {
            Some(only) if !only.namespace.is_empty() => {
                Api::namespaced_with(client, &only.namespace, resource)
            }
            _ => Api::all_with(client, resource),
        }
    }

    async fn follow<K>(
        &mut self,
        events: impl Stream<Item = watcher::Result<Event<K>>>,
        read: impl Fn(K) -> Observed,
    ) -> Option<()> {
        let mut events = pin!(events);
        let mut listing: Option<Vec<Observed>> = None;
        loop {
            let next = match &listing {
                // The client waits for an answer as long as the connection looks alive.
                Some(_) => timeout(LISTING_TIMEOUT, events.next()).await,
                None => Ok(events.next().await),
            };
            let event = match next {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => {
                    let is_listing = listing.take().is_some();
                    match self.pause(Failure::of_watcher(&error), is_listing).await? {
                        Next::Resume => continue,
                        Next::Anew => return Some(()),
                    }
                }
                Ok(None) => return Some(()),
                Err(_) => {
                    let words = format!("no answer within {} s", LISTING_TIMEOUT.as_secs());
                    self.pause(Failure { code: None, words }, true).await?;
                    return Some(());
                }
            };
            let shared = self.shared.upgrade()?;
            let mut state = shared.state();
            let known = &mut state.known;
            let wakes = match event {
                Event::Init => {
                    listing = Some(Vec::new());
                    known.begin(&self.scope);
                    continue;
                }
                Event::InitApply(object) => {
                    listing.get_or_insert_default().push(read(object));
                    continue;
                }
                Event::InitDone => {
                    self.pauses = Pauses::default();
                    known.listed(&self.scope, listing.take().unwrap_or_default())
                }
                Event::Apply(object) => known.seen(&self.scope, read(object)),
                Event::Delete(object) => known.gone(&self.scope, read(object)),
            };
            drop(state);
            shared.wake(wakes);
        }
    }

    /// Reports a failure, and waits. The time of a listing that fails does not end a row of failures.
    async fn pause(&mut self, failure: Failure, is_listing: bool) -> Option<Next> {
        let refused = failure.is_refusal();
        if is_listing {
            self.pauses.continue_row(Instant::now());
        }
        let pause = self.pauses.after(refused);
        let count = self.pauses.count;
        let told = refused || count >= TROUBLE;
        tracing::debug!(scope = %self.scope, error = failure.words, count, "a watch failed");
        if told {
            let data = if refused { Data::Lost } else { Data::Kept };
            let words = failure.tell(&self.scope);
            let shared = self.shared.upgrade()?;
            let wakes = shared.state().known.failed(&self.scope, words, data);
            shared.wake(wakes);
        }
        // Whoever asks for another try gets it before its time.
        let _ = timeout(pause, self.retry.notified()).await;
        // A quiet watch that works again says nothing, a listing does.
        Some(if told { Next::Anew } else { Next::Resume })
    }
}

/// How to go on after a failure.
enum Next {
    /// From where the watch was.
    Resume,
    /// With a listing.
    Anew,
}

// === impl Failure ===

impl Failure {
    fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::answered(status.code, &status.message),
            error => Self {
                code: None,
                words: shortened(&error.to_string(), LONGEST_REASON),
            },
        }
    }

    fn of_watcher(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::of(error),
            watcher::Error::WatchError(status) => Self::answered(status.code, &status.message),
            watcher::Error::NoResourceVersion => Self {
                code: None,
                words: shortened(&error.to_string(), LONGEST_REASON),
            },
        }
    }

    fn answered(code: u16, message: &str) -> Self {
        let words = match message.trim() {
            "" => format!("the apiserver answered {code}"),
            message => shortened(message, LONGEST_REASON),
        };
        Self {
            code: Some(code),
            words,
        }
    }

    /// Reports whether a retry fails in the same way: the permission is missing, or the kind is not served or not watchable.
    fn is_refusal(&self) -> bool {
        matches!(self.code, Some(401 | 403 | 404 | 405))
    }

    fn tell(&self, scope: &Scope) -> String {
        let words = &self.words;
        let remedy = match self.code {
            Some(401 | 403) => {
                let who = match &scope.only {
                    Some(only) => format!(
                        "{} (and let the provisioner impersonate it)",
                        only.account.user()
                    ),
                    None => "the provisioner".to_owned(),
                };
                format!(
                    "allow {who} to list and watch {scope}; until then nobody notices when they change"
                )
            }
            Some(404) => format!(
                "the API {} is not served; it is tried again, at once when its definition is applied",
                scope.resource.api_version
            ),
            Some(405) => {
                "the API cannot list or watch this kind, so nobody notices when they change"
                    .to_owned()
            }
            _ => "it is tried again".to_owned(),
        };
        format!("{scope} cannot be watched: {words}; {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_listings_and_refusals_are_failures_in_a_row() {
        let minute = Duration::from_secs(60);
        for (is_refused, is_listing, took, expected) in [
            (false, true, 2 * minute, 5),
            (true, false, Duration::from_secs(1), 5),
            // A quiet connection that a proxy or the client ends.
            (false, false, Duration::from_secs(75), 1),
        ] {
            let (mut pauses, mut now) = (Pauses::default(), Instant::now());
            for _ in 0..5 {
                if is_listing {
                    pauses.continue_row(now);
                }
                now += pauses.at(is_refused, now) + took;
            }
            assert_eq!(pauses.count, expected, "{took:?}");
        }
    }
}

//! Task of one watch: feeds the events into the cache, and reconnects after failures.

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
use manifests::object::truncate;
use tokio::{sync::Notify, time::timeout};

use super::{
    Shared,
    cache::Staleness,
    object::{self, HealthView, ReducedObject},
    scope::{Depth, Scope},
};
use crate::backoff::WatchBackoff;

/// Page size of a list of whole objects, each of which may exceed a megabyte.
const HEALTH_PAGE_SIZE: u32 = 50;
/// Maximum time between two objects of a list, or between its pages.
const LISTING_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of consecutive failures after which a failure is reported and the watch is listed again.
const REPORT_AFTER_FAILURES: u32 = 3;
/// Maximum length of a reported message of the API server, in characters.
const MAX_MESSAGE_LEN: usize = 400;

/// Watches a scope until the task is aborted.
pub(super) async fn run(shared: Weak<Shared>, scope: Arc<Scope>, retry: Arc<Notify>) {
    let mut watch = Watch {
        shared,
        scope,
        retry,
        backoff: WatchBackoff::default(),
    };
    while watch.list_and_watch().await.is_some() {}
}

struct Watch {
    shared: Weak<Shared>,
    scope: Arc<Scope>,
    retry: Arc<Notify>,
    backoff: WatchBackoff,
}

/// Reason of a failed watch.
#[derive(Debug)]
struct Failure {
    /// HTTP status code; `None` if the API server did not respond.
    code: Option<u16>,
    message: String,
}

// === impl Watch ===

impl Watch {
    /// Lists and watches until a new list is necessary; `None` if the informers were dropped.
    async fn list_and_watch(&mut self) -> Option<()> {
        let account = self.scope.instance.as_ref().map(|only| &only.account);
        let client = self.shared.upgrade()?.accounts.client(account);
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                return self
                    .back_off(Failure::from_error(&error), false)
                    .await
                    .map(drop);
            }
        };
        let config = Config::default().labels(&self.scope.selector());
        match self.scope.depth {
            Depth::Metadata => {
                let api = self.api::<PartialObjectMeta<DynamicObject>>(client);
                self.follow(watcher(api, config), object::from_metadata)
                    .await
            }
            Depth::HealthView => {
                let events = watcher(
                    self.api::<HealthView>(client),
                    config.page_size(HEALTH_PAGE_SIZE),
                );
                let resource = self.scope.resource.clone();
                self.follow(events, |object| object::from_health_view(object, &resource))
                    .await
            }
        }
    }

    fn api<K>(&self, client: Client) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        let resource = &self.scope.resource;
        match &self.scope.instance {
            Some(only) if !only.namespace.is_empty() => {
                Api::namespaced_with(client, &only.namespace, resource)
            }
            _ => Api::all_with(client, resource),
        }
    }

    async fn follow<K>(
        &mut self,
        events: impl Stream<Item = watcher::Result<Event<K>>>,
        read: impl Fn(K) -> ReducedObject,
    ) -> Option<()> {
        let mut events = pin!(events);
        let mut listing: Option<Vec<ReducedObject>> = None;
        loop {
            let next = match &listing {
                // The client itself waits for an answer as long as the connection looks alive.
                Some(_) => timeout(LISTING_TIMEOUT, events.next()).await,
                None => Ok(events.next().await),
            };
            let event = match next {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => {
                    let is_listing = listing.take().is_some();
                    match self
                        .back_off(Failure::from_watcher_error(&error), is_listing)
                        .await?
                    {
                        Next::Resume => continue,
                        Next::Relist => return Some(()),
                    }
                }
                Ok(None) => return Some(()),
                Err(_) => {
                    let message = format!("no response within {} s", LISTING_TIMEOUT.as_secs());
                    self.back_off(
                        Failure {
                            code: None,
                            message,
                        },
                        true,
                    )
                    .await?;
                    return Some(());
                }
            };
            let shared = self.shared.upgrade()?;
            let mut state = shared.state.lock();
            let cache = &mut state.cache;
            let wakes = match event {
                Event::Init => {
                    listing = Some(Vec::new());
                    cache.start_list(&self.scope);
                    continue;
                }
                Event::InitApply(object) => {
                    listing.get_or_insert_default().push(read(object));
                    continue;
                }
                Event::InitDone => {
                    self.backoff = WatchBackoff::default();
                    cache.listed(&self.scope, listing.take().unwrap_or_default())
                }
                Event::Apply(object) => cache.seen(&self.scope, read(object)),
                Event::Delete(object) => cache.remove(&self.scope, read(object)),
            };
            drop(state);
            shared.wake(wakes);
        }
    }

    /// Reports a failure and waits for the back-off. The duration of a failed list does not end a series of failures.
    async fn back_off(&mut self, failure: Failure, is_listing: bool) -> Option<Next> {
        let refused = failure.is_refusal();
        if is_listing {
            self.backoff.continue_row(Instant::now());
        }
        let delay = self.backoff.after(refused);
        let count = self.backoff.count;
        let is_reported = refused || count >= REPORT_AFTER_FAILURES;
        tracing::debug!(scope = %self.scope, error = failure.message, count, "watch failed");
        if is_reported {
            let data = if refused {
                Staleness::Lost
            } else {
                Staleness::Stale
            };
            let report = failure.describe(&self.scope);
            let shared = self.shared.upgrade()?;
            let wakes = shared.state.lock().cache.failed(&self.scope, report, data);
            shared.wake(wakes);
        }
        // A requested retry ends the back-off early.
        let _ = timeout(delay, self.retry.notified()).await;
        // A watch without events does not show that it works again; a list does.
        Some(if is_reported {
            Next::Relist
        } else {
            Next::Resume
        })
    }
}

/// Continuation after a failure.
enum Next {
    /// Resumes the watch at its last resourceVersion.
    Resume,
    /// Starts with a new list.
    Relist,
}

// === impl Failure ===

impl Failure {
    fn from_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(status.code, &status.message),
            error => Self {
                code: None,
                message: truncate(&error.to_string(), MAX_MESSAGE_LEN),
            },
        }
    }

    fn from_watcher_error(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::from_error(error),
            watcher::Error::WatchError(status) => Self::from_status(status.code, &status.message),
            watcher::Error::NoResourceVersion => Self {
                code: None,
                message: truncate(&error.to_string(), MAX_MESSAGE_LEN),
            },
        }
    }

    fn from_status(code: u16, message: &str) -> Self {
        let message = match message.trim() {
            "" => format!("the API server returned {code}"),
            message => truncate(message, MAX_MESSAGE_LEN),
        };
        Self {
            code: Some(code),
            message,
        }
    }

    /// Reports whether a retry fails in the same way: the permission is missing, or the kind is not served or not
    /// watchable.
    fn is_refusal(&self) -> bool {
        matches!(self.code, Some(401 | 403 | 404 | 405))
    }

    fn describe(&self, scope: &Scope) -> String {
        let message = &self.message;
        let remedy = match self.code {
            Some(401 | 403) => {
                let subject = match &scope.instance {
                    Some(only) => format!(
                        "{} (and allow the provisioner to impersonate it)",
                        only.account.service_account_user()
                    ),
                    None => "the provisioner".to_owned(),
                };
                format!(
                    "grant {subject} list and watch on {scope}; until then drift is not detected"
                )
            }
            Some(404) => format!(
                "API {} is not served; retrying when its CRD is applied",
                scope.resource.api_version
            ),
            Some(405) => {
                "the API does not support list and watch for this kind, so drift is not detected"
                    .to_owned()
            }
            _ => "retrying".to_owned(),
        };
        format!("failed to watch {scope}: {message}; {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_lists_and_refusals_are_consecutive_failures() {
        for (is_refused, is_listing, took, expected) in [
            (false, true, Duration::from_secs(120), 5),
            (true, false, Duration::from_secs(1), 5),
            // A proxy or the client closes an idle connection.
            (false, false, Duration::from_secs(75), 1),
        ] {
            let (mut backoff, mut now) = (WatchBackoff::default(), Instant::now());
            for _ in 0..5 {
                if is_listing {
                    backoff.continue_row(now);
                }
                now += backoff.at(is_refused, now) + took;
            }
            assert_eq!(backoff.count, expected, "{took:?}");
        }
    }
}

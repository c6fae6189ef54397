//! Whether others lead to a catalog's Service as well, while it is taken over from a pod, or by one.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api, Client, ResourceExt as _,
    runtime::watcher::{self, Event},
};
use manifests::api::labels::CATALOG;
use tokio::time::timeout;
use tracing::debug;

use crate::catalogs::Key;
use apply::backoff::patient;

/// How long Kubernetes' own controllers may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// On an EndpointSlice: its Service.
const SERVICE: &str = "kubernetes.io/service-name";

/// Waits until somebody else leads to a catalog, or nobody does; not for long, and not at all where that may not be seen.
pub(super) async fn wait(client: &Client, key: &Key, leads: bool) {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &key.namespace);
    let service = key.name.replace('.', "-");
    let config = watcher::Config::default().labels(&format!("{SERVICE}={service},!{CATALOG}"));
    let events = patient(watcher::watcher(slices, config));
    drop(timeout(PATIENCE, until(pin!(events), leads)).await);
}

/// A watch that fails is taken up again, for what was seen before may not be true any more.
async fn until<S>(mut events: S, leads: bool)
where
    S: Stream<Item = watcher::Result<Event<EndpointSlice>>> + Unpin,
{
    let mut known = Known::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if known.see(event) == Some(leads) {
                    return;
                }
            }
            Err(error) if is_refused(&error) => return,
            Err(error) => debug!(%error, "the watch of who leads to a catalog failed"),
        }
    }
}

/// Reports whether it will not be seen later either.
fn is_refused(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    matches!(status.code, 401 | 403)
}

/// Which EndpointSlices have endpoints.
#[derive(Debug, Default)]
struct Known {
    slices: BTreeMap<String, bool>,
    is_whole: bool,
}

// === impl Known ===

impl Known {
    /// Reports whether any has, as soon as all are known.
    fn see(&mut self, event: Event<EndpointSlice>) -> Option<bool> {
        match event {
            Event::Init => *self = Self::default(),
            Event::InitDone => self.is_whole = true,
            Event::Apply(slice) | Event::InitApply(slice) => {
                self.slices.insert(slice.name_any(), has_endpoints(&slice));
            }
            Event::Delete(slice) => drop(self.slices.remove(&slice.name_any())),
        }
        self.is_whole.then(|| self.slices.values().any(|it| *it))
    }
}

/// Reports whether it leads anywhere: to what is ready, or is not known not to be.
fn has_endpoints(slice: &EndpointSlice) -> bool {
    let mut endpoints = slice.endpoints.iter().flatten();
    endpoints.any(|it| {
        let conditions = it.conditions.as_ref();
        conditions.and_then(|it| it.ready) != Some(false) && !it.addresses.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, stream};
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;

    fn slice(name: &str, endpoints: &Value) -> EndpointSlice {
        object!({"metadata": {"name": name}, "addressType": "IPv4", "endpoints": endpoints})
    }

    #[test]
    fn somebody_leads_there_when_any_slice_has_what_is_ready() {
        let ready = json!([{"addresses": ["10.0.0.1"]}]);
        let not = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]);
        let mut known = Known::default();
        for (event, expected) in [
            (Event::Init, None),
            (Event::InitApply(slice("a", &ready)), None),
            (Event::InitDone, Some(true)),
            (Event::Apply(slice("a", &not)), Some(false)),
            (Event::Apply(slice("b", &json!([]))), Some(false)),
            (Event::Apply(slice("b", &ready)), Some(true)),
            (Event::Delete(slice("b", &ready)), Some(false)),
            (Event::Apply(slice("a", &ready)), Some(true)),
            // The watch begins anew.
            (Event::Init, None),
            (Event::InitDone, Some(false)),
        ] {
            assert_eq!(known.see(event), expected, "{known:?}");
        }
    }
    #[test]
    fn who_waits_goes_on_where_a_watch_fails() {
        let there = json!([{"addresses": ["10.0.0.1"]}]);
        let failed = |code: u16| {
            let status = Status::failure("no", "Any").with_code(code);
            watcher::Error::WatchFailed(kube::Error::Api(Box::new(status)))
        };
        let whole = |endpoints: &Value| {
            let slice = slice("a", endpoints);
            [Event::Init, Event::InitApply(slice), Event::InitDone].map(Ok)
        };
        let ends = |events: Vec<watcher::Result<Event<EndpointSlice>>>| {
            let events = stream::iter(events).chain(stream::pending());
            until(pin!(events), false).now_or_never().is_some()
        };
        let failing = |code: u16| -> Vec<_> {
            let whole = whole(&there).into_iter();
            whole.chain([Err(failed(code))]).collect()
        };
        let again = |endpoints: &Value| failing(503).into_iter().chain(whole(endpoints)).collect();
        assert_rows! {
            [410, 503].map(|code| ends(failing(code))) => [false; 2];
            ends(again(&there)) => false;
            ends(again(&json!([]))) => true;
            // Who may not look does not wait.
            ends(failing(403)) => true;
        }
    }
}

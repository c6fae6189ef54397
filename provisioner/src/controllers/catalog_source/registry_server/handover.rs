//! Waits for the EndpointSlices of other controllers while a catalog's Service is handed over from or to a registry pod.

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

use crate::controllers::catalog_source::CatalogKey;
use apply::{api_error, backoff::patient};

/// Maximum time to wait for the EndpointSlice controllers of Kubernetes.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(30);
/// Label of an EndpointSlice with the name of its Service.
const SERVICE: &str = "kubernetes.io/service-name";

/// Waits until another controller's EndpointSlice of a catalog has endpoints (`leads`), or until none has. Returns after a
/// timeout, and at once if listing EndpointSlices is forbidden.
pub(super) async fn wait_for_endpoints(client: &Client, key: &CatalogKey, leads: bool) {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &key.namespace);
    let service = key.name.replace('.', "-");
    let config = watcher::Config::default().labels(&format!("{SERVICE}={service},!{CATALOG}"));
    let events = patient(watcher::watcher(slices, config));
    drop(timeout(HANDOVER_TIMEOUT, until(pin!(events), leads)).await);
}

/// Waits until any slice has endpoints (`leads`) or none has. A failed watch starts over, because the known state may be
/// outdated.
async fn until<S>(mut events: S, leads: bool)
where
    S: Stream<Item = watcher::Result<Event<EndpointSlice>>> + Unpin,
{
    let mut endpoints = ForeignEndpoints::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if endpoints.observe(event) == Some(leads) {
                    return;
                }
            }
            // Missing permissions are permanent.
            Err(error) if matches!(api_error::code(&error), Some(401 | 403)) => return,
            Err(error) => {
                let error = api_error::chain(&error);
                debug!(error, "watch of the EndpointSlices of a catalog failed");
            }
        }
    }
}

/// Observed EndpointSlices, and whether each has endpoints.
#[derive(Debug, Default)]
struct ForeignEndpoints {
    slices: BTreeMap<String, bool>,
    is_synced: bool,
}

// === impl ForeignEndpoints ===

impl ForeignEndpoints {
    /// Records an event. Returns whether any slice has endpoints, or `None` until the initial list is complete.
    fn observe(&mut self, event: Event<EndpointSlice>) -> Option<bool> {
        match event {
            Event::Init => *self = Self::default(),
            Event::InitDone => self.is_synced = true,
            Event::Apply(slice) | Event::InitApply(slice) => {
                self.slices.insert(slice.name_any(), has_endpoints(&slice));
            }
            Event::Delete(slice) => drop(self.slices.remove(&slice.name_any())),
        }
        self.is_synced
            .then(|| self.slices.values().any(|has_endpoints| *has_endpoints))
    }
}

/// Reports whether a slice has an endpoint that is ready, or whose readiness is unknown.
fn has_endpoints(slice: &EndpointSlice) -> bool {
    let mut endpoints = slice.endpoints.iter().flatten();
    endpoints.any(|endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|conditions| conditions.ready) != Some(false)
            && !endpoint.addresses.is_empty()
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
    fn any_slice_with_a_ready_endpoint_counts() {
        let ready = json!([{"addresses": ["10.0.0.1"]}]);
        let not = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]);
        let mut endpoints = ForeignEndpoints::default();
        assert_each!(|event, expected| endpoints.observe(event) => expected;
            Event::Init => None;
            Event::InitApply(slice("a", &ready)) => None;
            Event::InitDone => Some(true);
            Event::Apply(slice("a", &not)) => Some(false);
            Event::Apply(slice("b", &json!([]))) => Some(false);
            Event::Apply(slice("b", &ready)) => Some(true);
            Event::Delete(slice("b", &ready)) => Some(false);
            Event::Apply(slice("a", &ready)) => Some(true);
            // The watch starts over.
            Event::Init => None;
            Event::InitDone => Some(false);
        );
    }

    #[test]
    fn failed_watch_ends_the_wait() {
        let ready_endpoints = json!([{"addresses": ["10.0.0.1"]}]);
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
            let whole = whole(&ready_endpoints).into_iter();
            whole.chain([Err(failed(code))]).collect()
        };
        let again = |endpoints: &Value| failing(503).into_iter().chain(whole(endpoints)).collect();
        assert_rows! {
            [410, 503].map(|code| ends(failing(code))) => [false; 2];
            ends(again(&ready_endpoints)) => false;
            ends(again(&json!([]))) => true;
            // Without the permission to list, the wait ends at once.
            ends(failing(403)) => true;
        }
    }
}

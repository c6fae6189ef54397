//! Watches of the objects that change the served kinds: CRDs and APIServices.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Instant,
};

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, ResourceExt,
    core::{ApiResource, Object},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use tracing::warn;

use super::{
    Discovery, GroupVersion,
    crd::{self, PartialCrd, Status},
    pending::{self, PendingKinds},
};
use crate::{api_error, backoff::WatchBackoff};

/// Page size of the initial list. CRDs are large.
const PAGE_SIZE: u32 = 50;

/// The kinds (`None`: any) and versions of a group that the API server serves because of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Served {
    group: String,
    kind: Option<String>,
    versions: BTreeSet<String>,
}

/// A change of the kinds that the API server serves because of an object.
#[derive(Debug)]
struct ServedChange {
    group: String,
    kind: Option<String>,
    /// Versions by name; true for a version that is served now.
    versions: BTreeMap<String, bool>,
}

/// The fields of an APIService that this module reads.
type ApiService = Object<ApiServiceSpec, Status>;

#[derive(Debug, Clone, Deserialize)]
struct ApiServiceSpec {
    #[serde(default)]
    group: String,
    version: String,
    /// `None` for an API that the API server itself serves, built in or from a CRD.
    #[serde(default)]
    service: Option<serde::de::IgnoredAny>,
}

/// Watches CRDs and APIServices. Never returns.
pub(super) async fn all(kinds: &Discovery) {
    let services = ApiResource {
        group: "apiregistration.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiregistration.k8s.io/v1".to_owned(),
        kind: "APIService".to_owned(),
        plural: "apiservices".to_owned(),
    };
    let crds = crd::resource();
    futures::join!(
        follow(kinds, &crds, from_crd, |event| kinds.crds.record(event)),
        follow(kinds, &services, from_api_service, |_| {}),
    );
}

fn from_crd(crd: &PartialCrd) -> Served {
    let spec = &crd.spec;
    let established = crd
        .status
        .as_ref()
        .is_some_and(|status| status.is("Established"));
    let versions = spec.served().filter(|_| established);
    Served {
        group: spec.group.clone(),
        kind: Some(spec.names.kind.clone()),
        versions: versions.map(str::to_owned).collect(),
    }
}

fn from_api_service(service: &ApiService) -> Served {
    let spec = &service.spec;
    if spec.service.is_none() {
        return Served::default();
    }
    let available = service
        .status
        .as_ref()
        .is_some_and(|status| status.is("Available"));
    Served {
        group: spec.group.clone(),
        kind: None,
        versions: available
            .then(|| spec.version.clone())
            .into_iter()
            .collect(),
    }
}

/// Watches the objects of one kind. A change drops the cached groups that the object serves. If a caller has requested the
/// group, subscribers are notified once discovery shows the change. Each event is recorded afterwards.
async fn follow<P, U>(
    kinds: &Discovery,
    resource: &ApiResource,
    served: fn(&Object<P, U>) -> Served,
    record: impl Fn(&Event<Object<P, U>>),
) where
    P: Clone + Debug + DeserializeOwned + Send + 'static,
    U: Clone + Debug + Default + DeserializeOwned + Send + 'static,
{
    let api: Api<Object<P, U>> = Api::all_with(kinds.client.clone(), resource);
    let config = watcher::Config::default().page_size(PAGE_SIZE);
    let mut events = watcher::watcher(api, config)
        .backoff(WatchBackoff::default())
        .boxed();
    let mut latest: BTreeMap<String, Served> = BTreeMap::new();
    let mut listing: BTreeMap<String, Served> = BTreeMap::new();
    let mut pending = PendingKinds::new(kinds);
    let mut synced = false;
    let mut requested_groups = kinds.requested_groups.subscribe();
    let mut unrequested: Vec<(Instant, ServedChange)> = Vec::new();
    loop {
        let event = tokio::select! {
            Some(()) = pending.next() => continue,
            Ok(()) = requested_groups.changed() => {
                for (_, change) in unrequested.extract_if(.., |(_, change)| kinds.is_requested(&change.group)) {
                    change.wait_until_served(&mut pending);
                }
                continue;
            }
            event = events.try_next() => event,
        };
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                let error = api_error::chain(&error);
                warn!(kind = %resource.kind, error, "failed to watch CRDs or APIServices");
                continue;
            }
        };
        let changes: Vec<ServedChange> = match &event {
            Event::Init => {
                listing.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                listing.insert(object.name_any(), served(object));
                Vec::new()
            }
            Event::InitDone if !synced => {
                // The initial list may contain hundreds of CRDs; none of them has just changed.
                synced = true;
                latest = std::mem::take(&mut listing);
                for served in latest.values() {
                    kinds.invalidate(&served.group);
                }
                kinds.changed();
                Vec::new()
            }
            Event::InitDone => {
                let before = std::mem::replace(&mut latest, std::mem::take(&mut listing));
                differences(before, &latest)
            }
            Event::Apply(object) => {
                let now = served(object);
                let before = latest.insert(object.name_any(), now.clone());
                ServedChange::between(before.unwrap_or_default(), now)
                    .into_iter()
                    .collect()
            }
            Event::Delete(object) => {
                let before = latest.remove(&object.name_any()).unwrap_or_default();
                ServedChange::between(before, Served::default())
                    .into_iter()
                    .collect()
            }
        };
        for change in changes {
            let is_requested = kinds.is_requested(&change.group);
            kinds.invalidate(&change.group);
            if is_requested {
                change.wait_until_served(&mut pending);
            } else {
                // A caller that requests the group before discovery shows the change must be notified of it.
                unrequested.retain(|(since, _)| since.elapsed() < pending::DISCOVERY_LAG);
                unrequested.push((Instant::now(), change));
            }
        }
        record(&event);
    }
}

/// Returns the differences between two lists, in both directions.
fn differences(
    mut before: BTreeMap<String, Served>,
    now: &BTreeMap<String, Served>,
) -> Vec<ServedChange> {
    let added = now.iter().filter_map(|(name, served)| {
        let before = before.remove(name).unwrap_or_default();
        ServedChange::between(before, served.clone())
    });
    let mut changes: Vec<_> = added.collect();
    let removed = before
        .into_values()
        .filter_map(|served| ServedChange::between(served, Served::default()));
    changes.extend(removed);
    changes
}

impl ServedChange {
    fn between(before: Served, now: Served) -> Option<Self> {
        if before == now {
            return None;
        }
        let (group, kind) = if now == Served::default() {
            (before.group, before.kind)
        } else {
            (now.group, now.kind)
        };
        let removed = before.versions.into_iter().map(|version| (version, false));
        let added = now.versions.into_iter().map(|version| (version, true));
        Some(Self {
            group,
            kind,
            versions: removed.chain(added).collect(),
        })
    }

    /// Starts polling discovery until it shows the change, which takes a moment.
    fn wait_until_served(self, pending: &mut PendingKinds<'_>) {
        for (version, served) in self.versions {
            let version = GroupVersion {
                group: self.group.clone(),
                version,
            };
            pending.expect(version, self.kind.clone(), served);
        }
    }
}

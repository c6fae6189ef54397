//! Watching what changes which kinds are served: definitions and aggregated APIs.

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
    GroupVersion, Kinds,
    appear::{self, Appearing},
    definition::{self, Definition, Status},
};
use crate::backoff::Pauses;

/// Definitions are large.
const PAGE: u32 = 50;

/// The kinds (`None`: any) and versions of a group that the API server serves because of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Served {
    group: String,
    kind: Option<String>,
    versions: BTreeSet<String>,
}

/// A change of the kinds that the API server serves because of an object.
#[derive(Debug)]
struct Change {
    group: String,
    kind: Option<String>,
    /// Whether each is served now.
    versions: BTreeMap<String, bool>,
}

/// An APIService, as far as it matters here.
type Service = Object<ServiceSpec, Status>;

#[derive(Debug, Clone, Deserialize)]
struct ServiceSpec {
    #[serde(default)]
    group: String,
    version: String,
    /// None: served by the API server itself, from a definition or built in.
    #[serde(default)]
    service: Option<serde::de::IgnoredAny>,
}

/// Never ends.
pub(super) async fn all(kinds: &Kinds) {
    let services = ApiResource {
        group: "apiregistration.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiregistration.k8s.io/v1".to_owned(),
        kind: "APIService".to_owned(),
        plural: "apiservices".to_owned(),
    };
    let definitions = definition::resource();
    futures::join!(
        follow(kinds, &definitions, of_definition, |event| kinds
            .definitions
            .note(event)),
        follow(kinds, &services, of_service, |_| {}),
    );
}

fn of_definition(definition: &Definition) -> Served {
    let spec = &definition.spec;
    let established = definition
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

fn of_service(service: &Service) -> Served {
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

/// Watches the objects of one kind. What they serve is forgotten and, where somebody has looked for it, said to have
/// changed when discovery shows it; then the event is noted.
async fn follow<P, U>(
    kinds: &Kinds,
    resource: &ApiResource,
    served: fn(&Object<P, U>) -> Served,
    note: impl Fn(&Event<Object<P, U>>),
) where
    P: Clone + Debug + DeserializeOwned + Send + 'static,
    U: Clone + Debug + Default + DeserializeOwned + Send + 'static,
{
    let api: Api<Object<P, U>> = Api::all_with(kinds.client.clone(), resource);
    let config = watcher::Config::default().page_size(PAGE);
    let mut events = watcher::watcher(api, config)
        .backoff(Pauses::default())
        .boxed();
    let mut latest: BTreeMap<String, Served> = BTreeMap::new();
    let mut listing: BTreeMap<String, Served> = BTreeMap::new();
    let mut appearing = Appearing::new(kinds);
    let mut synced = false;
    let mut sought = kinds.sought.subscribe();
    let mut unasked: Vec<(Instant, Change)> = Vec::new();
    loop {
        let event = tokio::select! {
            Some(()) = appearing.next() => continue,
            Ok(()) = sought.changed() => {
                for (_, change) in unasked.extract_if(.., |(_, it)| kinds.is_sought(&it.group)) {
                    change.appear(&mut appearing);
                }
                continue;
            }
            event = events.try_next() => event,
        };
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(kind = %resource.kind, error, "failed to watch what is served");
                continue;
            }
        };
        let changes: Vec<Change> = match &event {
            Event::Init => {
                listing.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                listing.insert(object.name_any(), served(object));
                Vec::new()
            }
            Event::InitDone if !synced => {
                // Hundreds of definitions may be there already; none of them has just changed.
                synced = true;
                latest = std::mem::take(&mut listing);
                for served in latest.values() {
                    kinds.forget(&served.group);
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
                Change::between(before.unwrap_or_default(), now)
                    .into_iter()
                    .collect()
            }
            Event::Delete(object) => {
                let before = latest.remove(&object.name_any()).unwrap_or_default();
                Change::between(before, Served::default())
                    .into_iter()
                    .collect()
            }
        };
        for change in changes {
            let is_sought = kinds.is_sought(&change.group);
            kinds.forget(&change.group);
            if is_sought {
                change.appear(&mut appearing);
            } else {
                // Whoever asks before discovery shows it has to be told.
                unasked.retain(|(since, _)| since.elapsed() < appear::LAG);
                unasked.push((Instant::now(), change));
            }
        }
        note(&event);
    }
}

/// What one listing has that the other has not, either way.
fn differences(
    mut before: BTreeMap<String, Served>,
    now: &BTreeMap<String, Served>,
) -> Vec<Change> {
    let come = now.iter().filter_map(|(name, served)| {
        let before = before.remove(name).unwrap_or_default();
        Change::between(before, served.clone())
    });
    let mut changes: Vec<_> = come.collect();
    let gone = before
        .into_values()
        .filter_map(|served| Change::between(served, Served::default()));
    changes.extend(gone);
    changes
}

impl Change {
    fn between(before: Served, now: Served) -> Option<Self> {
        if before == now {
            return None;
        }
        let (group, kind) = if now == Served::default() {
            (before.group, before.kind)
        } else {
            (now.group, now.kind)
        };
        let gone = before.versions.into_iter().map(|version| (version, false));
        let come = now.versions.into_iter().map(|version| (version, true));
        Some(Self {
            group,
            kind,
            versions: gone.chain(come).collect(),
        })
    }

    /// Has it waited for until discovery shows it, which it does a moment later.
    fn appear(self, appearing: &mut Appearing<'_>) {
        for (version, served) in self.versions {
            let version = GroupVersion {
                group: self.group.clone(),
                version,
            };
            appearing.expect(version, self.kind.clone(), served);
        }
    }
}

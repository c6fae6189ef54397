//! The kinds that the API server serves, cached until a CustomResourceDefinition or an APIService changes.

mod client;
pub(crate) mod crd;
mod crd_states;
mod crd_watch;
mod pending;
mod while_served;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

pub(crate) use self::crd_states::CrdState;
use self::crd_states::CrdStates;

/// Time for which the answer "not served" is cached. CRDs are watched, but their kinds appear in discovery a moment later,
/// and aggregated APIs come and go with the pods that serve them.
const NEGATIVE_TTL: Duration = Duration::from_secs(10);
/// Maximum number of concurrent requests for group versions.
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// Number of uncached group versions above which the list of all groups is requested first: a bundle may name thousands of
/// group versions that do not exist.
const LIST_GROUPS_THRESHOLD: usize = 4;
/// Maximum number of cached group versions that are not served.
const MAX_NEGATIVE_ENTRIES: usize = 1024;

/// Maximum number of recorded groups of [`Discovery::request_group`]. Above it, every group counts as requested.
const MAX_REQUESTED_GROUPS: usize = 1024;

/// A kind as the API server serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKind {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether the objects of the kind are namespaced.
    pub namespaced: bool,
}

/// Cached answer for a kind.
pub enum CachedKind {
    /// The kind was never requested, or its entry was invalidated.
    Unknown,
    /// The API server did not serve the kind.
    NotServed,
    /// The API server serves the kind.
    Served(Arc<ApiKind>),
}

/// Requested kinds as the API server serves them; `None` for a kind that is not served.
pub type DiscoveredKinds = HashMap<GroupVersionKind, Option<Arc<ApiKind>>>;

/// Discovery cache of the requested kinds, including those that are not served.
pub struct Discovery {
    client: Client,
    cache: Mutex<GroupVersionCache>,
    requested_groups: watch::Sender<BTreeSet<String>>,
    changes: watch::Sender<u64>,
    crds: CrdStates,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct GroupVersion {
    group: String,
    version: String,
}

/// Cached answer for a group version. Concurrent callers wait for the same request.
type GroupVersionEntry = OnceCell<Served>;

/// Cached answers, ordered so that the versions of a group are adjacent.
#[derive(Debug)]
struct GroupVersionCache {
    entries: BTreeMap<GroupVersion, Arc<GroupVersionEntry>>,
    /// Number of entries above which entries of group versions that are not served are dropped.
    threshold: usize,
}

/// Kinds of a group version.
#[derive(Debug)]
struct Served {
    /// Kinds by name; `None` if the group version is not served.
    kinds: Option<HashMap<String, Arc<ApiKind>>>,
    loaded_at: Instant,
}

impl Discovery {
    /// Creates an empty cache.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            cache: Mutex::default(),
            requested_groups: watch::Sender::default(),
            changes: watch::Sender::new(0),
            crds: CrdStates::default(),
        }
    }

    /// Looks up several kinds and sends requests only for those that are not cached. `None` stands for a kind that is not
    /// served.
    ///
    /// # Errors
    /// Returns an error if the API server does not respond.
    pub async fn find(
        &self,
        requested: impl IntoIterator<Item = GroupVersionKind> + Send,
    ) -> Result<DiscoveredKinds, kube::Error> {
        let mut by_version: BTreeMap<GroupVersion, Vec<GroupVersionKind>> = BTreeMap::new();
        for kind in requested {
            let version = GroupVersion {
                group: kind.group.clone(),
                version: kind.version.clone(),
            };
            by_version.entry(version).or_default().push(kind);
        }
        let entries = self.entries(&by_version);
        let unknown = entries
            .iter()
            .filter(|(_, entry)| !entry.initialized())
            .count();
        let listed = if unknown > LIST_GROUPS_THRESHOLD {
            Some(client::groups(&self.client).await?)
        } else {
            None
        };
        let answers: Vec<_> = stream::iter(entries)
            .map(|(version, entry)| {
                let listed = listed.as_ref();
                async move {
                    let ask = || async {
                        let kinds = match listed {
                            Some(listed) if !listed.contains(&version) => None,
                            _ => client::kinds(&self.client, &version).await?,
                        };
                        Ok::<_, kube::Error>(Served::new(kinds))
                    };
                    entry.get_or_try_init(ask).await?;
                    Ok::<_, kube::Error>((version, entry))
                }
            })
            .buffer_unordered(MAX_CONCURRENT_REQUESTS)
            .try_collect()
            .await?;

        let mut found = HashMap::new();
        for (version, entry) in answers {
            for kind in by_version.remove(&version).unwrap_or_default() {
                let served = entry.get().and_then(|served| served.find(&kind.kind));
                if served.is_none() {
                    self.request_group(&kind.group);
                }
                found.insert(kind, served);
            }
        }
        Ok(found)
    }

    /// Returns the cached answer for a kind, without a request.
    pub fn cached(&self, kind: &GroupVersionKind) -> CachedKind {
        let version = GroupVersion {
            group: kind.group.clone(),
            version: kind.version.clone(),
        };
        let entry = self.cache.lock().entries.get(&version).cloned();
        match entry.as_ref().and_then(|entry| entry.get()) {
            Some(served) => served
                .find(&kind.kind)
                .map_or(CachedKind::NotServed, CachedKind::Served),
            None => CachedKind::Unknown,
        }
    }

    /// Looks up a kind in any version, the requested version first: an object that was applied in a version that is no
    /// longer served still exists in another one.
    ///
    /// # Errors
    /// Returns an error if the API server does not respond, or if the server of an aggregated API is unavailable.
    pub async fn find_any(
        &self,
        requested: GroupVersionKind,
    ) -> Result<Option<Arc<ApiKind>>, kube::Error> {
        if let Some(kind) = self
            .find([requested.clone()])
            .await?
            .remove(&requested)
            .flatten()
        {
            return Ok(Some(kind));
        }
        let versions = client::groups(&self.client).await?;
        for version in versions
            .iter()
            .filter(|version| version.group == requested.group)
        {
            let kinds = client::kinds(&self.client, version).await?;
            let Some(kinds) = kinds else {
                let problem = format!(
                    "the aggregated API {}/{} is unavailable; check its APIService",
                    version.group, version.version
                );
                return Err(kube::Error::Service(problem.into()));
            };
            if let Some(kind) = kinds.get(&requested.kind) {
                return Ok(Some(kind.clone()));
            }
        }
        Ok(None)
    }

    /// Drops the entries of a group, after a CRD of the group was applied or deleted, or after the API server answered 404.
    pub fn invalidate(&self, group: &str) {
        self.cache.lock().forget(group);
    }

    /// Marks a group as requested, so that discovery is polled when a kind of the group becomes served. Groups that no
    /// caller has requested are not polled.
    pub fn request_group(&self, group: &str) {
        self.requested_groups.send_if_modified(|requested_groups| {
            requested_groups.len() < MAX_REQUESTED_GROUPS
                && requested_groups.insert(group.to_owned())
        });
    }

    /// Reports whether a caller has requested the kinds of a group.
    fn is_requested(&self, group: &str) -> bool {
        let is_requested = {
            let requested_groups = self.requested_groups.borrow();
            requested_groups.len() >= MAX_REQUESTED_GROUPS || requested_groups.contains(group)
        };
        is_requested || self.cache.lock().versions(group).next().is_some()
    }

    /// Returns a counter of the changes of the served kinds, so that a caller can wait for a missing API.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Watches CustomResourceDefinitions and APIServices until canceled, and drops the entries that they change. The
    /// watches read whole objects, because metadata does not contain the condition Established.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = crd_watch::all(self) => {}
        }
    }

    /// Returns the state of a CRD as the watch has reported it.
    pub(crate) fn crd(&self, name: &str) -> Option<CrdState> {
        self.crds.get(name)
    }

    /// Returns a notifier of the changes of all CRDs; `None` while they are not watched.
    pub(crate) fn crds(&self) -> Option<watch::Receiver<()>> {
        let changes = self.crds.changes();
        self.crds.is_synced().then_some(changes)
    }

    /// Stores the kinds of a group version as discovery shows them.
    fn record(&self, version: &GroupVersion, kinds: Option<HashMap<String, Arc<ApiKind>>>) {
        let entry = GroupVersionEntry::new_with(Some(Served::new(kinds)));
        self.cache
            .lock()
            .entries
            .insert(version.clone(), Arc::new(entry));
    }

    /// Returns the entries of group versions. An entry is empty if it is missing, or if its answer "not served" has
    /// expired.
    fn entries(
        &self,
        requested: &BTreeMap<GroupVersion, Vec<GroupVersionKind>>,
    ) -> Vec<(GroupVersion, Arc<GroupVersionEntry>)> {
        let mut cache = self.cache.lock();
        cache.bound();
        requested
            .iter()
            .map(|(version, kinds)| {
                let entry = cache.entries.entry(version.clone()).or_default();
                if entry.get().is_some_and(|served| served.is_stale(kinds)) {
                    *entry = Arc::default();
                }
                (version.clone(), entry.clone())
            })
            .collect()
    }

    /// Notifies subscribers of a change, after the changed entries were dropped.
    fn changed(&self) {
        self.changes
            .send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl GroupVersionCache {
    /// Returns the group versions of a group.
    fn versions(&self, group: &str) -> impl Iterator<Item = &GroupVersion> {
        let first = GroupVersion {
            group: group.to_owned(),
            version: String::new(),
        };
        let versions = self.entries.range(first..).map(|(version, _)| version);
        versions.take_while(move |version| version.group == group)
    }

    fn forget(&mut self, group: &str) {
        let versions: Vec<GroupVersion> = self.versions(group).cloned().collect();
        for version in &versions {
            self.entries.remove(version);
        }
    }

    /// Drops the group versions that are not served once the cache exceeds its limit. The limit then grows with the number
    /// of served group versions, so that a large cluster does not scan all entries on each call.
    fn bound(&mut self) {
        if self.entries.len() > self.threshold {
            self.entries
                .retain(|_, entry| entry.get().is_none_or(|served| served.kinds.is_some()));
            self.threshold = self.entries.len() + MAX_NEGATIVE_ENTRIES;
        }
    }
}

impl Default for GroupVersionCache {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            threshold: MAX_NEGATIVE_ENTRIES,
        }
    }
}

impl Served {
    fn new(kinds: Option<HashMap<String, Arc<ApiKind>>>) -> Self {
        let loaded_at = Instant::now();
        Self { kinds, loaded_at }
    }

    fn find(&self, kind: &str) -> Option<Arc<ApiKind>> {
        self.kinds.as_ref()?.get(kind).cloned()
    }

    /// Reports whether a requested kind is missing from an answer that has expired.
    fn is_stale(&self, requested: &[GroupVersionKind]) -> bool {
        self.loaded_at.elapsed() > NEGATIVE_TTL
            && requested.iter().any(|kind| self.find(&kind.kind).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_versions_are_found_and_forgotten_by_group() {
        let mut cache = GroupVersionCache::default();
        let record =
            |cache: &mut GroupVersionCache, group: &str, version: &str, is_served: bool| {
                let served = Served::new(is_served.then(HashMap::new));
                let [group, version] = [group, version].map(str::to_owned);
                let entry = Arc::new(GroupVersionEntry::new_with(Some(served)));
                cache.entries.insert(GroupVersion { group, version }, entry);
            };
        let served = ::tests::pairs("a v1, a.b v1, a.b v2, a.b.c v1");
        for (group, version) in served.chain([("", "v1")]) {
            record(&mut cache, group, version, true);
        }
        assert_rows!(cache.versions("a.b").map(|found| found.version.clone()).collect::<Vec<_>>() => ["v1", "v2"]);
        assert_eq!(cache.versions("a.c").next(), None);
        cache.forget("a.b");
        assert_rows!(cache.entries.keys().map(|left| left.group.as_str()).collect::<Vec<_>>() => ["", "a", "a.b.c"]);
        for number in 0..MAX_NEGATIVE_ENTRIES {
            record(&mut cache, &format!("absent-{number}"), "v1", false);
            record(&mut cache, &format!("served-{number}"), "v1", true);
        }
        cache.bound();
        assert_rows!((cache.entries.len(), cache.versions("absent-0").next()) => (MAX_NEGATIVE_ENTRIES + 3, None));
        // The next cleanup runs only after as many more entries were added.
        record(&mut cache, "absent", "v1", false);
        cache.bound();
        assert!(cache.versions("absent").next().is_some());
    }
}

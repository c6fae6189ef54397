//! The kinds that the API server serves, cached until a CustomResourceDefinition or an APIService changes.

mod appear;
mod ask;
pub(crate) mod definition;
mod definitions;
mod follow;
mod served;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
};
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use self::definitions::Definitions;
pub(crate) use self::definitions::State;

/// How long a "not served" is believed. Definitions are watched, but what they lead to appears in discovery a moment
/// later, and aggregated APIs come and go with the pods behind them.
const ABSENCE: Duration = Duration::from_secs(10);
/// How many group versions are asked for at the same time.
const CONCURRENCY: usize = 8;
/// From so many unknown group versions on, the list of all groups is asked for first: a bundle may name thousands that
/// do not exist.
const MANY: usize = 4;
/// How many group versions that are not served are remembered.
const MOST_ABSENT: usize = 1024;

/// How many groups that were looked for are remembered; with more of them, each group counts as looked for.
const MOST_SOUGHT: usize = 1024;

/// A kind as the API server serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// What is known of a kind without asking.
pub enum Remembered {
    /// It has not been asked for, or that was forgotten.
    Nothing,
    /// It was not served.
    NotServed,
    /// It is served.
    Served(Arc<Kind>),
}

/// What is served of what was asked for.
pub type Found = HashMap<GroupVersionKind, Option<Arc<Kind>>>;

/// What is known about the kinds that were asked for, those that are not served included.
pub struct Kinds {
    client: Client,
    known: Mutex<Slots>,
    sought: watch::Sender<BTreeSet<String>>,
    changes: watch::Sender<u64>,
    definitions: Definitions,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct GroupVersion {
    group: String,
    version: String,
}

/// The answer for a group version; whoever asks while it is on its way waits for the same one.
type Slot = OnceCell<Served>;

/// The answers, in the order of groups, so that those of a group are found together.
#[derive(Debug)]
struct Slots {
    slots: BTreeMap<GroupVersion, Arc<Slot>>,
    /// The number of slots from which on those without a group version are forgotten.
    most: usize,
}

/// What a group version holds.
#[derive(Debug)]
struct Served {
    /// `None`: there is no such group version.
    kinds: Option<HashMap<String, Arc<Kind>>>,
    asked: Instant,
}

impl Kinds {
    /// Knows nothing yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            sought: watch::Sender::default(),
            changes: watch::Sender::new(0),
            definitions: Definitions::default(),
        }
    }

    /// Looks several kinds up, asking only for what is not known. `None` is not served.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer.
    pub async fn find(
        &self,
        wanted: impl IntoIterator<Item = GroupVersionKind> + Send,
    ) -> Result<Found, kube::Error> {
        let mut by_version: BTreeMap<GroupVersion, Vec<GroupVersionKind>> = BTreeMap::new();
        for kind in wanted {
            let version = GroupVersion {
                group: kind.group.clone(),
                version: kind.version.clone(),
            };
            by_version.entry(version).or_default().push(kind);
        }
        let slots = self.slots(&by_version);
        let unknown = slots.iter().filter(|(_, slot)| !slot.initialized()).count();
        let listed = if unknown > MANY {
            Some(ask::groups(&self.client).await?)
        } else {
            None
        };
        let answers: Vec<_> = stream::iter(slots)
            .map(|(version, slot)| {
                let listed = listed.as_ref();
                async move {
                    let ask = || async {
                        let kinds = match listed {
                            Some(listed) if !listed.contains(&version) => None,
                            _ => ask::kinds(&self.client, &version).await?,
                        };
                        Ok::<_, kube::Error>(Served::new(kinds))
                    };
                    slot.get_or_try_init(ask).await?;
                    Ok::<_, kube::Error>((version, slot))
                }
            })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await?;

        let mut found = HashMap::new();
        for (version, slot) in answers {
            for kind in by_version.remove(&version).unwrap_or_default() {
                let served = slot.get().and_then(|served| served.find(&kind.kind));
                if served.is_none() {
                    self.seek(&kind.group);
                }
                found.insert(kind, served);
            }
        }
        Ok(found)
    }

    /// What is remembered of a kind, without asking.
    pub fn remembered(&self, kind: &GroupVersionKind) -> Remembered {
        let version = GroupVersion {
            group: kind.group.clone(),
            version: kind.version.clone(),
        };
        let slot = self.known().slots.get(&version).cloned();
        match slot.as_ref().and_then(|slot| slot.get()) {
            Some(served) => served
                .find(&kind.kind)
                .map_or(Remembered::NotServed, Remembered::Served),
            None => Remembered::Nothing,
        }
    }

    /// Looks a kind up whatever its version is, that one first: what was applied in a version that is served no longer is
    /// still there in another.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer, or if the server of an aggregated API is unavailable.
    pub async fn find_any(
        &self,
        wanted: GroupVersionKind,
    ) -> Result<Option<Arc<Kind>>, kube::Error> {
        if let Some(kind) = self.find([wanted.clone()]).await?.remove(&wanted).flatten() {
            return Ok(Some(kind));
        }
        let versions = ask::groups(&self.client).await?;
        for version in versions
            .iter()
            .filter(|version| version.group == wanted.group)
        {
            let kinds = ask::kinds(&self.client, version).await?;
            let Some(kinds) = kinds else {
                let problem = format!(
                    "the server behind the API {}/{} is not available",
                    version.group, version.version
                );
                return Err(kube::Error::Service(problem.into()));
            };
            if let Some(kind) = kinds.get(&wanted.kind) {
                return Ok(Some(kind.clone()));
            }
        }
        Ok(None)
    }

    /// Forgets what is known of a group: a CRD of it was applied or deleted, or the API server answered 404.
    pub fn forget(&self, group: &str) {
        self.known().forget(group);
    }

    /// Has discovery followed when something of a group begins to be served: somebody waits for it. What nobody has
    /// looked for is not asked for.
    pub fn seek(&self, group: &str) {
        self.sought.send_if_modified(|sought| {
            sought.len() < MOST_SOUGHT && sought.insert(group.to_owned())
        });
    }

    /// Reports whether anybody wants to know what is served of a group.
    fn is_sought(&self, group: &str) -> bool {
        let is_sought = {
            let sought = self.sought.borrow();
            sought.len() >= MOST_SOUGHT || sought.contains(group)
        };
        is_sought || self.known().versions(group).next().is_some()
    }

    /// Counts the changes of what is served, so that whoever misses an API can wait for one.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Watches CustomResourceDefinitions and APIServices (metadata would not tell Established: conditions are needed)
    /// until cancelled, and forgets what they change.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow::all(self) => {}
        }
    }

    /// How far a definition is, as far as the watch has told.
    pub(crate) fn definition(&self, name: &str) -> Option<State> {
        self.definitions.get(name)
    }

    /// Tells of every change of a definition; `None` while they are not watched.
    pub(crate) fn definitions(&self) -> Option<watch::Receiver<()>> {
        let changes = self.definitions.changes();
        self.definitions.are_told().then_some(changes)
    }

    /// Keeps what discovery shows of a group version.
    fn learn(&self, version: &GroupVersion, kinds: Option<HashMap<String, Arc<Kind>>>) {
        let slot = Slot::new_with(Some(Served::new(kinds)));
        self.known().slots.insert(version.clone(), Arc::new(slot));
    }

    /// The slots of group versions: those there are, unless they say "not served" for too long, or empty ones.
    fn slots(
        &self,
        wanted: &BTreeMap<GroupVersion, Vec<GroupVersionKind>>,
    ) -> Vec<(GroupVersion, Arc<Slot>)> {
        let mut known = self.known();
        known.bound();
        wanted
            .iter()
            .map(|(version, kinds)| {
                let slot = known.slots.entry(version.clone()).or_default();
                if slot.get().is_some_and(|served| served.is_stale(kinds)) {
                    *slot = Arc::default();
                }
                (version.clone(), slot.clone())
            })
            .collect()
    }

    fn known(&self) -> MutexGuard<'_, Slots> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something has changed, once it is forgotten.
    fn changed(&self) {
        self.changes
            .send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl Slots {
    /// Returns the group versions of a group.
    fn versions(&self, group: &str) -> impl Iterator<Item = &GroupVersion> {
        let first = GroupVersion {
            group: group.to_owned(),
            version: String::new(),
        };
        let versions = self.slots.range(first..).map(|(version, _)| version);
        versions.take_while(move |version| version.group == group)
    }

    fn forget(&mut self, group: &str) {
        let versions: Vec<GroupVersion> = self.versions(group).cloned().collect();
        for version in &versions {
            self.slots.remove(version);
        }
    }

    /// Forgets group versions that are not served once there may be many of them. A cluster may serve as many, which are not
    /// looked through each time.
    fn bound(&mut self) {
        if self.slots.len() > self.most {
            self.slots
                .retain(|_, slot| slot.get().is_none_or(|served| served.kinds.is_some()));
            self.most = self.slots.len() + MOST_ABSENT;
        }
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            most: MOST_ABSENT,
        }
    }
}

impl Served {
    fn new(kinds: Option<HashMap<String, Arc<Kind>>>) -> Self {
        let asked = Instant::now();
        Self { kinds, asked }
    }

    fn find(&self, kind: &str) -> Option<Arc<Kind>> {
        self.kinds.as_ref()?.get(kind).cloned()
    }

    /// Reports whether a wanted kind was not there, and that was long ago.
    fn is_stale(&self, wanted: &[GroupVersionKind]) -> bool {
        self.asked.elapsed() > ABSENCE && wanted.iter().any(|kind| self.find(&kind.kind).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_versions_are_found_and_forgotten_by_group() {
        let mut known = Slots::default();
        let version = |group: &str, version: &str| GroupVersion {
            group: group.to_owned(),
            version: version.to_owned(),
        };
        let learn = |known: &mut Slots, group: &str, name: &str, is_served: bool| {
            let slot = Slot::new_with(Some(Served::new(is_served.then(HashMap::new))));
            known.slots.insert(version(group, name), Arc::new(slot));
        };
        for (group, name) in [
            ("a", "v1"),
            ("a.b", "v1"),
            ("a.b", "v2"),
            ("a.b.c", "v1"),
            ("", "v1"),
        ] {
            learn(&mut known, group, name, true);
        }
        assert_rows!(known.versions("a.b").map(|found| found.version.clone()).collect::<Vec<_>>() => ["v1", "v2"]);
        assert_eq!(known.versions("a.c").next(), None);
        known.forget("a.b");
        assert_rows!(known.slots.keys().map(|left| left.group.as_str()).collect::<Vec<_>>() => ["", "a", "a.b.c"]);
        for number in 0..MOST_ABSENT {
            learn(&mut known, &format!("absent-{number}"), "v1", false);
            learn(&mut known, &format!("served-{number}"), "v1", true);
        }
        known.bound();
        assert_eq!(known.slots.len(), MOST_ABSENT + 3);
        assert_eq!(known.versions("absent-0").next(), None);
        // As many again may come before the next look through all of them.
        learn(&mut known, "absent", "v1", false);
        known.bound();
        assert!(known.versions("absent").next().is_some());
    }
}

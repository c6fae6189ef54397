//! Cache of the watched objects, and the instances that each event affects. Pure; no I/O.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use manifests::object::Identity;

use super::{
    InstanceView, WatchedObjects,
    entry::{self, CachedObject, Entry, RareState},
    object::ReducedObject,
    scope::{self, Depth, Key, Scope},
};
use crate::{account::Account, health::Health, ssa::AppliedObject};

/// Names of the instances to reconcile.
pub(super) type WakeSet = BTreeSet<Arc<str>>;

/// Objects of an instance in a scope that covers them, sorted.
type ScopeObjects = (Arc<Scope>, Box<[Key]>);

/// Watched objects of all instances.
#[derive(Debug, Default)]
pub(super) struct InformerCache {
    /// Objects of each instance, sorted by [`Scope::order`].
    instances: HashMap<Arc<str>, Box<[ScopeObjects]>>,
    tables: HashMap<Arc<Scope>, ScopeCache>,
    /// Scopes with a failing watch.
    failing: HashSet<Arc<Scope>>,
    /// Number of the last write note, which distinguishes the notes of the same object.
    notes: u64,
}

/// Cached objects of a scope.
#[derive(Debug, Default)]
struct ScopeCache {
    objects: HashSet<CachedObject>,
    /// Whether the initial list is complete.
    synced: bool,
    failing: Option<String>,
    /// Latest resourceVersion of an event since the last list. The watch has reported all earlier changes.
    latest_version: u64,
    users: HashSet<Arc<str>>,
}

/// Watches to start and to stop.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) started: Vec<Arc<Scope>>,
    pub(super) stopped: Vec<Arc<Scope>>,
}

/// Validity of the cached objects after a watch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Staleness {
    /// The cache keeps the objects, which may be outdated.
    Stale,
    /// The objects are dropped: the kind was removed from the API, or the request is forbidden.
    Lost,
}

/// Recorded writes of the provisioner, which expire together.
#[derive(Debug)]
pub(super) struct WriteNote {
    keys: Vec<(Arc<Scope>, Key)>,
    note: u64,
}

// === impl InformerCache ===

impl InformerCache {
    pub(super) fn set_watched(
        &mut self,
        instance: &str,
        account: Option<&Account>,
        objects: &WatchedObjects,
    ) -> Change {
        let name = self.name(instance);
        let before = self.instances.remove(&name).unwrap_or_default();
        let mut before: HashSet<_> = before.into_iter().map(|(scope, _)| scope).collect();
        let mut change = Change::default();
        let mut objects_by_scope = Vec::new();
        for (scope, mut keys) in scope::scopes(instance, account, objects) {
            keys.sort_unstable();
            let scope = match self.tables.get_key_value(&scope) {
                Some((scope, _)) => Arc::clone(scope),
                None => Arc::new(scope),
            };
            before.remove(&scope);
            let table = self.tables.entry(Arc::clone(&scope)).or_insert_with(|| {
                change.started.push(Arc::clone(&scope));
                ScopeCache::default()
            });
            table.users.insert(Arc::clone(&name));
            for key in &mut keys {
                if let Some(existing) = table.objects.get(key) {
                    *key = existing.key().clone();
                }
            }
            objects_by_scope.push((scope, keys.into_boxed_slice()));
        }
        self.instances
            .insert(Arc::clone(&name), objects_by_scope.into_boxed_slice());
        change.stopped = self.release_scopes(&name, before.into_iter());
        change
    }

    pub(super) fn forget(&mut self, instance: &str) -> Vec<Arc<Scope>> {
        match self.instances.remove_entry(instance) {
            Some((name, scopes)) => {
                self.release_scopes(&name, scopes.into_iter().map(|(scope, _)| scope))
            }
            None => Vec::new(),
        }
    }

    fn release_scopes(
        &mut self,
        instance: &Arc<str>,
        scopes: impl Iterator<Item = Arc<Scope>>,
    ) -> Vec<Arc<Scope>> {
        let mut stopped = Vec::new();
        for scope in scopes {
            let Some(table) = self.tables.get_mut(&scope) else {
                continue;
            };
            table.users.remove(instance);
            if table.users.is_empty() {
                self.tables.remove(&scope);
                self.failing.remove(&scope);
                stopped.push(scope);
            }
        }
        stopped
    }

    /// Starts a list. Versions of earlier events are not comparable with it.
    pub(super) fn start_list(&mut self, scope: &Scope) {
        if let Some(table) = self.tables.get_mut(scope) {
            table.latest_version = 0;
        }
    }

    /// Replaces the objects of a scope with a complete list.
    pub(super) fn listed(&mut self, scope: &Scope, listing: Vec<ReducedObject>) -> WakeSet {
        let Some(table) = self.tables.get_mut(scope) else {
            return WakeSet::new();
        };
        let first = !std::mem::replace(&mut table.synced, true);
        let failed = table.failing.take().is_some();
        self.failing.remove(scope);
        let mut before = std::mem::take(&mut table.objects);
        let mut affected = HashSet::new();
        for observed in listing {
            let (key, new) = shared(&self.instances, scope, observed);
            let object = match before.take(&key) {
                Some(old) if old.entry().is_newer_note_than(&new) => old,
                old => {
                    let old = old.as_ref().map(CachedObject::entry);
                    new.collect_affected(old, &key, &mut affected);
                    CachedObject::new(key, new)
                }
            };
            table.objects.replace(object);
        }
        for old in before {
            if old.entry().rare().note.is_some() {
                // The object may have been created after the list. If no event confirms it, the note expires.
                table.objects.replace(old);
            } else {
                affected.insert((Arc::clone(&old.entry().owner), old.key().clone()));
            }
        }
        if first || failed {
            return self.users_in_sync(scope, failed);
        }
        self.affected(scope, affected)
    }

    /// Returns the instances that waited for this list: those with all scopes listed, or all users of the scope after a
    /// reported failure.
    fn users_in_sync(&self, scope: &Scope, failed: bool) -> WakeSet {
        let users = self.tables.get(scope).map(|table| &table.users);
        users
            .into_iter()
            .flatten()
            .filter(|user| failed || self.is_synced(user))
            .cloned()
            .collect()
    }

    fn is_synced(&self, instance: &str) -> bool {
        self.instances.get(instance).is_some_and(|scopes| {
            scopes
                .iter()
                .all(|(scope, _)| self.tables.get(scope).is_some_and(|table| table.synced))
        })
    }

    /// Records a created or changed object.
    pub(super) fn seen(&mut self, scope: &Scope, observed: ReducedObject) -> WakeSet {
        let (key, new) = shared(&self.instances, scope, observed);
        let Some(table) = self.tables.get_mut(scope) else {
            return WakeSet::new();
        };
        table.latest_version = table.latest_version.max(new.version);
        let old = table.objects.get(&key).map(CachedObject::entry);
        if old.is_some_and(|old| old.is_newer_note_than(&new)) {
            return WakeSet::new();
        }
        let mut affected = HashSet::new();
        new.collect_affected(old, &key, &mut affected);
        table.objects.replace(CachedObject::new(key, new));
        self.affected(scope, affected)
    }

    /// Records that an object was deleted, or no longer carries the owner labels.
    pub(super) fn remove(&mut self, scope: &Scope, (key, last): ReducedObject) -> WakeSet {
        let Some(table) = self.tables.get_mut(scope) else {
            return WakeSet::new();
        };
        table.latest_version = table.latest_version.max(last.version);
        match table.objects.get(&key).map(CachedObject::entry) {
            Some(old) if !old.is_newer_note_than(&last) => {
                let owner = Arc::clone(&old.owner);
                table.objects.remove(&key);
                self.affected(scope, HashSet::from([(owner, key)]))
            }
            _ => WakeSet::new(),
        }
    }

    /// Records the failure of a watch.
    pub(super) fn failed(&mut self, scope: &Scope, message: String, data: Staleness) -> WakeSet {
        let Some((stored_scope, _)) = self.tables.get_key_value(scope) else {
            return WakeSet::new();
        };
        self.failing.insert(Arc::clone(stored_scope));
        let Some(table) = self.tables.get_mut(scope) else {
            return WakeSet::new();
        };
        let mut is_new = table.failing.as_ref() != Some(&message);
        table.failing = Some(message);
        if data == Staleness::Lost {
            is_new |= table.synced;
            table.synced = false;
            table.objects = HashSet::new();
        }
        if is_new {
            table.users.iter().cloned().collect()
        } else {
            WakeSet::new()
        }
    }

    /// Returns the scopes with a failing watch.
    pub(super) fn failing(&self) -> Vec<Arc<Scope>> {
        self.failing.iter().cloned().collect()
    }

    /// Records writes of the provisioner. A write that the watch has already reported or superseded is not recorded.
    pub(super) fn record_applied(
        &mut self,
        instance: &str,
        applied: &BTreeMap<Identity, AppliedObject>,
    ) -> Option<WriteNote> {
        let (name, scopes) = self.instances.get_key_value(instance)?;
        let mut keys = Vec::new();
        self.notes += 1;
        for (identity, applied) in applied {
            let key = Key::from_identity(identity);
            let mut scopes = scopes.iter().filter(|(scope, _)| scope.has(identity));
            let Some((scope, key)) =
                scopes.find_map(|(scope, keys)| Some((scope, find(keys, &key)?)))
            else {
                continue;
            };
            let Some(table) = self.tables.get_mut(scope) else {
                continue;
            };
            let version = entry::number(&applied.resource_version);
            let old = table.objects.get(key).map(CachedObject::entry);
            let old_version = old.map_or(0, |old| old.version);
            if version <= old_version.max(table.latest_version) {
                continue;
            }
            let rare = RareState {
                deleting: false,
                health: health_after_write(scope),
                writer: old.and_then(|old| old.rare().writer.clone()),
                note: Some(self.notes),
            };
            let entry = Entry {
                owner: Arc::clone(name),
                uid: entry::hash(&applied.uid),
                version,
                fields: applied.fields,
                hash: applied.hash,
                rare: rare.boxed(),
            };
            table.objects.replace(CachedObject::new(key.clone(), entry));
            keys.push((Arc::clone(scope), key.clone()));
        }
        (!keys.is_empty()).then_some(WriteNote {
            keys,
            note: self.notes,
        })
    }

    /// Drops recorded writes that the watches have not confirmed.
    pub(super) fn expire(&mut self, write_note: WriteNote) -> WakeSet {
        let mut wakes = WakeSet::new();
        for (scope, key) in write_note.keys {
            let Some(table) = self.tables.get_mut(&scope) else {
                continue;
            };
            // Before the initial list is complete, the watch does not contradict the note.
            if table.synced
                && let Some(entry) = table.objects.get(&key).map(CachedObject::entry)
                && entry.rare().note == Some(write_note.note)
            {
                wakes.insert(Arc::clone(&entry.owner));
                table.objects.remove(&key);
            }
        }
        wakes
    }

    pub(super) fn view(&self, instance: &str) -> InstanceView {
        let Some(scopes) = self.instances.get(instance) else {
            return InstanceView::default();
        };
        let mut view = InstanceView {
            synced: true,
            ..InstanceView::default()
        };
        for (scope, keys) in scopes {
            let Some(table) = self.tables.get(scope) else {
                continue;
            };
            view.synced &= table.synced;
            view.failing.extend(table.failing.clone());
            for key in keys {
                match table.objects.get(key).map(CachedObject::entry) {
                    Some(entry) if *entry.owner == *instance => {
                        view.objects.insert(scope.identity(key), entry.seen());
                    }
                    _ if table.synced => {
                        view.absent.insert(scope.identity(key));
                    }
                    _ => {
                        view.unknown.insert(scope.identity(key));
                    }
                }
            }
        }
        view.failing.sort();
        view
    }

    fn affected(&self, scope: &Scope, affected: HashSet<(Arc<str>, Key)>) -> WakeSet {
        affected
            .into_iter()
            .filter(|(owner, key)| self.is_watched_by(owner, scope, key))
            .map(|(owner, _)| owner)
            .collect()
    }

    /// Reports whether the instance watches the object. Labels alone wake no instance, because any client can set them.
    fn is_watched_by(&self, instance: &str, scope: &Scope, key: &Key) -> bool {
        self.instances
            .get(instance)
            .and_then(|scopes| find(keys_in(scopes, scope)?, key))
            .is_some()
    }

    fn name(&self, instance: &str) -> Arc<str> {
        match self.instances.get_key_value(instance) {
            Some((name, _)) => Arc::clone(name),
            None => instance.into(),
        }
    }
}

/// Returns the observed object with the strings of the instance in its owner label, if that instance watches the object. A
/// table and the instances thus share one copy of each string.
fn shared(
    instances: &HashMap<Arc<str>, Box<[ScopeObjects]>>,
    scope: &Scope,
    (key, mut entry): ReducedObject,
) -> ReducedObject {
    let Some((name, scopes)) = instances.get_key_value(&entry.owner) else {
        return (key, entry);
    };
    entry.owner = Arc::clone(name);
    let existing = keys_in(scopes, scope).and_then(|keys| find(keys, &key));
    (existing.cloned().unwrap_or(key), entry)
}

/// Returns the objects of an instance in a scope.
fn keys_in<'a>(objects: &'a [ScopeObjects], scope: &Scope) -> Option<&'a [Key]> {
    let order = scope.order();
    let position = objects.binary_search_by(|(stored, _)| stored.order().cmp(&order));
    let (stored, keys) = objects.get(position.ok()?)?;
    (**stored == *scope).then_some(&**keys)
}

fn find<'a>(keys: &'a [Key], key: &Key) -> Option<&'a Key> {
    keys.get(keys.binary_search(key).ok()?)
}

/// Returns the health of a newly written object: its earlier health no longer applies.
fn health_after_write(scope: &Scope) -> Health {
    match scope.depth {
        Depth::Metadata => Health::Current,
        Depth::HealthView => Health::InProgress("was just applied".to_owned()),
    }
}

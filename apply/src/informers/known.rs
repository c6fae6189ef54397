//! What the watches know, and whom an event concerns. No I/O: events in, names of instances out.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use manifests::object::Identity;

use crate::{
    account::Account,
    health::Health,
    informers::{
        View, Wanted,
        entry::{self, Entry},
        object::Observed,
        scope::{self, Depth, Key, Scope},
    },
    ssa::Applied,
};

/// The instances to look at.
pub(super) type Wakes = BTreeSet<Arc<str>>;

/// The objects of an instance, sorted, by the scope that covers them.
type Objects = HashMap<Arc<Scope>, Box<[Key]>>;

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct Known {
    instances: HashMap<Arc<str>, Objects>,
    tables: HashMap<Arc<Scope>, Table>,
    /// The scopes whose watches do not work.
    failing: HashSet<Arc<Scope>>,
    /// Counts our notes, so that each can be told from a later one of the same object.
    notes: u64,
}

/// The objects of a scope.
#[derive(Debug, Default)]
struct Table {
    /// Boxed, because up to half of the places in a table are empty.
    objects: HashMap<Key, Box<Entry>>,
    /// Whether everything was listed.
    synced: bool,
    failing: Option<String>,
    /// The latest resourceVersion that an event had since it was listed. The watch has told of everything before.
    horizon: u64,
    users: HashSet<Arc<str>>,
}

/// What to start and to stop.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) started: Vec<Arc<Scope>>,
    pub(super) stopped: Vec<Arc<Scope>>,
}

/// Whether what is known still counts when a watch fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// It may be a little old.
    Kept,
    /// The kind is gone, or we may not look.
    Lost,
}

/// What was noted of our own writes, to let it expire.
#[derive(Debug)]
pub(super) struct Noted {
    places: Vec<(Arc<Scope>, Key)>,
    note: u64,
}

// === impl Known ===

impl Known {
    pub(super) fn want(
        &mut self,
        instance: &str,
        account: Option<&Account>,
        objects: &Wanted,
    ) -> Change {
        let name = self.name(instance);
        let mut before = self.instances.remove(&name).unwrap_or_default();
        let mut change = Change::default();
        let mut wanted = HashMap::new();
        for (scope, mut keys) in scope::scopes(instance, account, objects) {
            keys.sort_unstable();
            let scope = match self.tables.get_key_value(&scope) {
                Some((scope, _)) => Arc::clone(scope),
                None => Arc::new(scope),
            };
            before.remove(&scope);
            let table = self.tables.entry(Arc::clone(&scope)).or_insert_with(|| {
                change.started.push(Arc::clone(&scope));
                Table::default()
            });
            table.users.insert(Arc::clone(&name));
            for key in &mut keys {
                if let Some((known, _)) = table.objects.get_key_value(key) {
                    *key = known.clone();
                }
            }
            wanted.insert(scope, keys.into_boxed_slice());
        }
        self.instances.insert(Arc::clone(&name), wanted);
        change.stopped = self.leave(&name, before.into_keys());
        change
    }

    pub(super) fn forget(&mut self, instance: &str) -> Vec<Arc<Scope>> {
        match self.instances.remove_entry(instance) {
            Some((name, scopes)) => self.leave(&name, scopes.into_keys()),
            None => Vec::new(),
        }
    }

    fn leave(
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

    /// A listing begins: events of before say nothing about it.
    pub(super) fn begin(&mut self, scope: &Scope) {
        if let Some(table) = self.tables.get_mut(scope) {
            table.horizon = 0;
        }
    }

    /// A listing is complete.
    pub(super) fn listed(&mut self, scope: &Scope, listing: Vec<Observed>) -> Wakes {
        let Some(table) = self.tables.get_mut(scope) else {
            return Wakes::new();
        };
        let first = !std::mem::replace(&mut table.synced, true);
        let failed = table.failing.take().is_some();
        self.failing.remove(scope);
        let mut before = std::mem::take(&mut table.objects);
        let mut concerned = HashSet::new();
        for observed in listing {
            let (key, new) = shared(&self.instances, scope, observed);
            let old = before.remove(&key);
            let entry = match old {
                Some(old) if old.is_newer_note_than(&new) => old,
                old => {
                    new.concern(old.as_deref(), &key, &mut concerned);
                    Box::new(new)
                }
            };
            table.objects.insert(key, entry);
        }
        for (key, old) in before {
            if old.note.is_some() {
                // It may have come after the listing. If it does not come at all, the note expires.
                table.objects.insert(key, old);
            } else {
                concerned.insert((Arc::clone(&old.owner), key));
            }
        }
        if first || failed {
            return self.users_in_sync(scope, failed);
        }
        self.concerned(scope, concerned)
    }

    /// Those who have waited for this listing: an instance has nothing to do before its last one, unless it was told of
    /// a failure.
    fn users_in_sync(&self, scope: &Scope, failed: bool) -> Wakes {
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
                .keys()
                .all(|scope| self.tables.get(scope).is_some_and(|table| table.synced))
        })
    }

    /// An object is there, or has changed.
    pub(super) fn seen(&mut self, scope: &Scope, observed: Observed) -> Wakes {
        let (key, new) = shared(&self.instances, scope, observed);
        let Some(table) = self.tables.get_mut(scope) else {
            return Wakes::new();
        };
        table.horizon = table.horizon.max(new.version);
        let old = table.objects.get(&key).map(AsRef::as_ref);
        if old.is_some_and(|old| old.is_newer_note_than(&new)) {
            return Wakes::new();
        }
        let mut concerned = HashSet::new();
        new.concern(old, &key, &mut concerned);
        table.objects.insert(key, Box::new(new));
        self.concerned(scope, concerned)
    }

    /// An object is gone, or carries our labels no longer.
    pub(super) fn gone(&mut self, scope: &Scope, (key, last): Observed) -> Wakes {
        let Some(table) = self.tables.get_mut(scope) else {
            return Wakes::new();
        };
        table.horizon = table.horizon.max(last.version);
        match table.objects.get(&key) {
            Some(old) if !old.is_newer_note_than(&last) => {
                let owner = Arc::clone(&old.owner);
                table.objects.remove(&key);
                self.concerned(scope, HashSet::from([(owner, key)]))
            }
            _ => Wakes::new(),
        }
    }

    /// A watch does not work.
    pub(super) fn failed(&mut self, scope: &Scope, words: String, data: Data) -> Wakes {
        let Some((known, _)) = self.tables.get_key_value(scope) else {
            return Wakes::new();
        };
        self.failing.insert(Arc::clone(known));
        let Some(table) = self.tables.get_mut(scope) else {
            return Wakes::new();
        };
        let mut news = table.failing.as_ref() != Some(&words);
        table.failing = Some(words);
        if data == Data::Lost {
            news |= table.synced;
            table.synced = false;
            table.objects = HashMap::new();
        }
        if news {
            table.users.iter().cloned().collect()
        } else {
            Wakes::new()
        }
    }

    /// The watches that do not work.
    pub(super) fn failing(&self) -> Vec<Arc<Scope>> {
        self.failing.iter().cloned().collect()
    }

    /// We wrote objects ourselves. Whatever the watch has told already, or has passed, is not noted.
    pub(super) fn applied(
        &mut self,
        instance: &str,
        applied: &BTreeMap<Identity, Applied>,
    ) -> Option<Noted> {
        let (name, scopes) = self.instances.get_key_value(instance)?;
        let mut places = Vec::new();
        self.notes += 1;
        for (identity, applied) in applied {
            let key = Key::of(identity);
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
            let old = table.objects.get(key);
            let known = old.map_or(0, |old| old.version);
            if version <= known.max(table.horizon) {
                continue;
            }
            let entry = Entry {
                owner: Arc::clone(name),
                uid: entry::hash(&applied.uid),
                version,
                fields: applied.fields,
                hash: applied.hash,
                deleting: false,
                health: health_of_news(scope),
                writer: old.and_then(|old| old.writer.clone()),
                note: Some(self.notes),
            };
            table.objects.insert(key.clone(), Box::new(entry));
            places.push((Arc::clone(scope), key.clone()));
        }
        (!places.is_empty()).then_some(Noted {
            places,
            note: self.notes,
        })
    }

    /// What the watches have not told of by now is not so.
    pub(super) fn expire(&mut self, noted: Noted) -> Wakes {
        let mut wakes = Wakes::new();
        for (scope, key) in noted.places {
            let Some(table) = self.tables.get_mut(&scope) else {
                continue;
            };
            // A watch that has not listed knows nothing better.
            if table.synced
                && let Some(entry) = table.objects.get(&key)
                && entry.note == Some(noted.note)
            {
                wakes.insert(Arc::clone(&entry.owner));
                table.objects.remove(&key);
            }
        }
        wakes
    }

    pub(super) fn view(&self, instance: &str) -> View {
        let Some(scopes) = self.instances.get(instance) else {
            return View::default();
        };
        let mut view = View {
            synced: true,
            ..View::default()
        };
        for (scope, keys) in scopes {
            let Some(table) = self.tables.get(scope) else {
                continue;
            };
            view.synced &= table.synced;
            view.failing.extend(table.failing.clone());
            for key in keys {
                match table.objects.get(key) {
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

    fn concerned(&self, scope: &Scope, concerned: HashSet<(Arc<str>, Key)>) -> Wakes {
        concerned
            .into_iter()
            .filter(|(owner, key)| self.wants(owner, scope, key))
            .map(|(owner, _)| owner)
            .collect()
    }

    /// Labels alone wake nobody: anybody can write them on an object of theirs.
    fn wants(&self, instance: &str, scope: &Scope, key: &Key) -> bool {
        self.instances
            .get(instance)
            .and_then(|scopes| find(scopes.get(scope)?, key))
            .is_some()
    }

    fn name(&self, instance: &str) -> Arc<str> {
        match self.instances.get_key_value(instance) {
            Some((name, _)) => Arc::clone(name),
            None => instance.into(),
        }
    }
}

/// Returns the observation with the texts of the instance that its labels name, if that wants the object: a table and the
/// instances hold each text once.
fn shared(
    instances: &HashMap<Arc<str>, Objects>,
    scope: &Scope,
    (key, mut entry): Observed,
) -> Observed {
    let Some((name, scopes)) = instances.get_key_value(&entry.owner) else {
        return (key, entry);
    };
    entry.owner = Arc::clone(name);
    let known = scopes.get(scope).and_then(|keys| find(keys, &key));
    (known.cloned().unwrap_or(key), entry)
}

fn find<'a>(keys: &'a [Key], key: &Key) -> Option<&'a Key> {
    keys.get(keys.binary_search(key).ok()?)
}

/// What was just written is not healthy because it was healthy before.
fn health_of_news(scope: &Scope) -> Option<Box<Health>> {
    match scope.depth {
        Depth::Metadata => None,
        Depth::Full => Some(Box::new(Health::InProgress("was just applied".to_owned()))),
    }
}

//! Events that instances wait for: a served API, released objects of another instance, a new version of the cluster. An
//! event wakes only the instances that wait for it. Pure; no I/O.

use std::collections::{BTreeSet, HashMap};

use kube::core::GroupVersionKind;
use parking_lot::Mutex;

/// An event that an instance waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Event {
    /// An API is served.
    Api(Api),
    /// A BundleInstance has released objects.
    Release(Release),
    /// The version of the cluster changed, or the constraints that catalogs declare.
    Version,
}

/// The API that an instance waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Api {
    /// Any API, since the needed one is not known yet: the instance is being planned.
    Any,
    /// A kind, with its group, version and name.
    Kind(String, String, String),
}

/// The BundleInstance whose objects an instance waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Release {
    /// Any instance: the objects are being looked up, or their owner is not a BundleInstance.
    Any,
    /// The instance with this name.
    Of(String),
}

/// Registry of the waiting instances.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    instances: HashMap<String, Entry>,
    /// Names of the instances, by event.
    waiting: HashMap<Event, BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct Entry {
    events: BTreeSet<Event>,
    retry_epoch: u64,
}

// === impl Waiting ===

impl Waiting {
    /// Replaces the APIs that an instance waits for.
    pub(crate) fn await_apis(&self, name: &str, apis: impl IntoIterator<Item = Api>) {
        let events = apis.into_iter().map(Event::Api);
        let is_other = |event: &Event| !matches!(event, Event::Api(_));
        self.0.lock().replace(name, events.collect(), is_other);
    }

    /// Replaces all other events that an instance waits for.
    pub(crate) fn await_objects(&self, name: &str, events: impl IntoIterator<Item = Event>) {
        let is_other = |event: &Event| matches!(event, Event::Api(_));
        let events = events.into_iter().collect();
        self.0.lock().replace(name, events, is_other);
    }

    /// Removes a deleted instance.
    pub(crate) fn forget(&self, name: &str) {
        let mut state = self.0.lock();
        state.replace(name, BTreeSet::new(), |_| false);
        state.instances.remove(name);
    }

    /// Returns the kinds that instances wait for.
    pub(crate) fn kinds(&self) -> Vec<GroupVersionKind> {
        let state = self.0.lock();
        let kinds = state.waiting.keys().filter_map(|event| match event {
            Event::Api(Api::Kind(group, version, kind)) => {
                Some(GroupVersionKind::gvk(group, version, kind))
            }
            _ => None,
        });
        kinds.collect()
    }

    /// Returns the instances to wake for events. If an instance waits for more than APIs, its next attempt starts at once.
    pub(crate) fn wake(&self, events: &[Event]) -> BTreeSet<String> {
        let mut state = self.0.lock();
        let State { instances, waiting } = &mut *state;
        let names = |is_api: bool| -> BTreeSet<String> {
            let events = events.iter();
            let events = events.filter(|event| matches!(event, Event::Api(_)) == is_api);
            let names = events.filter_map(|event| waiting.get(event));
            names.flatten().cloned().collect()
        };
        let mut woken = names(false);
        for name in &woken {
            if let Some(entry) = instances.get_mut(name) {
                entry.retry_epoch += 1;
            }
        }
        woken.append(&mut names(true));
        woken
    }

    /// Returns how often an instance was woken because objects or versions changed.
    pub(crate) fn retry_epoch(&self, name: &str) -> u64 {
        self.0
            .lock()
            .instances
            .get(name)
            .map_or(0, |entry| entry.retry_epoch)
    }
}

// === impl State ===

impl State {
    /// Replaces the events of an instance except those that `is_other` selects.
    fn replace(
        &mut self,
        name: &str,
        mut events: BTreeSet<Event>,
        is_other: impl Fn(&Event) -> bool,
    ) {
        let Self { instances, waiting } = self;
        if !instances.contains_key(name) {
            if events.is_empty() {
                return;
            }
            instances.insert(name.to_owned(), Entry::default());
        }
        let Some(entry) = instances.get_mut(name) else {
            return;
        };
        events.extend(entry.events.iter().filter(|event| is_other(event)).cloned());
        for event in entry.events.difference(&events) {
            if let Some(names) = waiting.get_mut(event) {
                names.remove(name);
                if names.is_empty() {
                    waiting.remove(event);
                }
            }
        }
        for event in events.difference(&entry.events) {
            let names = waiting.entry(event.clone()).or_default();
            names.insert(name.to_owned());
        }
        entry.events = events;
    }
}

// === impl Api ===

impl From<&GroupVersionKind> for Api {
    fn from(kind: &GroupVersionKind) -> Self {
        Self::Kind(kind.group.clone(), kind.version.clone(), kind.kind.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Api {
        Api::from(&GroupVersionKind::gvk("example.com", "v1", name))
    }

    fn event(name: &str) -> Event {
        Event::Release(Release::Of(name.to_owned()))
    }

    #[test]
    fn event_wakes_only_instances_that_wait_for_it() {
        let waiting = Waiting::default();
        let names = |events: &[Event]| {
            let woken: Vec<String> = waiting.wake(events).into_iter().collect();
            woken.join(" ")
        };
        let any = Event::Release(Release::Any);
        waiting.await_objects("a", [event("x"), event("y")]);
        waiting.await_objects("b", [event("x"), Event::Version]);
        waiting.await_objects("c", [any.clone()]);
        waiting.await_apis("c", [kind("A"), kind("B")]);
        waiting.await_apis("d", [kind("B"), Api::Any]);
        waiting.await_apis("e", []);
        let kinds = with!(waiting.kinds() => |kinds| kinds.sort_by_key(|kind| kind.kind.clone()));
        assert_rows!(kinds => ["A", "B"].map(|kind| GroupVersionKind::gvk("example.com", "v1", kind)));
        assert_each!(|events, expected| names(&events) => expected;
            vec![event("x")] => "a b";
            vec![event("y")] => "a";
            vec![event("z")] => "";
            vec![event("z"), any.clone()] => "c";
            vec![event("x"), event("y"), Event::Version] => "a b";
            vec![Event::Api(kind("B"))] => "c d";
            vec![Event::Api(kind("A")), Event::Api(Api::Any)] => "c d";
        );
        // A served API does not cause a retry after a different failure.
        assert_rows!(["a", "b", "c", "d", "e"].map(|name| waiting.retry_epoch(name)) => [3, 2, 1, 0, 0]);
        // The two kinds of events are replaced independently.
        waiting.await_objects("c", []);
        assert_eq!(names(&[any, Event::Api(kind("A"))]), "c");
        waiting.await_apis("c", [kind("B")]);
        assert_eq!(names(&[Event::Api(kind("A"))]), "");
        for name in ["a", "b", "c", "d", "e"] {
            waiting.forget(name);
        }
        let state = waiting.0.lock();
        assert!(state.instances.is_empty() && state.waiting.is_empty());
    }
}

//! Doing the same thing once for all who ask for it at the same time.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

/// What is being done, by what it is done for.
#[derive(Debug)]
pub(super) struct Flights<K, V> {
    running: Mutex<HashMap<K, Arc<Flight<V>>>>,
}

#[derive(Debug)]
struct Flight<V> {
    state: Mutex<State<V>>,
    ended: Condvar,
}

#[derive(Debug)]
enum State<V> {
    Running,
    Done(V),
    /// Whoever did it panicked.
    Lost,
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Flights<K, V> {
    /// Works, or waits for another who does. `joined` is called before waiting.
    pub(super) fn run(&self, key: &K, joined: impl Fn(), work: impl FnOnce() -> V) -> V {
        loop {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(flight) = running.get(key).map(Arc::clone) else {
                let flight = Arc::new(Flight {
                    state: Mutex::new(State::Running),
                    ended: Condvar::new(),
                });
                running.insert(key.clone(), Arc::clone(&flight));
                drop(running);
                let lead = Lead {
                    flights: self,
                    key,
                    flight,
                };
                let value = work();
                lead.end(State::Done(value.clone()));
                return value;
            };
            drop(running);
            joined();
            if let Some(value) = flight.wait() {
                return value;
            }
        }
    }
}

impl<V: Clone> Flight<V> {
    fn wait(&self) -> Option<V> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_running = |state: &mut State<V>| matches!(state, State::Running);
        let state = self.ended.wait_while(state, is_running);
        match &*state.unwrap_or_else(PoisonError::into_inner) {
            State::Done(value) => Some(value.clone()),
            State::Running | State::Lost => None,
        }
    }
}

/// Who works. Dropping it lets one of those who wait take over.
struct Lead<'a, K: Eq + Hash, V> {
    flights: &'a Flights<K, V>,
    key: &'a K,
    flight: Arc<Flight<V>>,
}

impl<K: Eq + Hash, V> Lead<'_, K, V> {
    fn end(&self, state: State<V>) {
        let mut running = self
            .flights
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        running.remove(self.key);
        drop(running);
        *self
            .flight
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = state;
        self.flight.ended.notify_all();
    }
}

impl<K: Eq + Hash, V> Drop for Lead<'_, K, V> {
    fn drop(&mut self) {
        let state = self
            .flight
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_running = matches!(*state, State::Running);
        drop(state);
        if is_running {
            self.end(State::Lost);
        }
    }
}

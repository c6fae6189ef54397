//! Single-flight execution: concurrent calls with the same key share one execution.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::{Condvar, Mutex};

/// The running executions by key.
#[derive(Debug)]
pub(super) struct SingleFlight<K, V> {
    running: Mutex<HashMap<K, Arc<InFlight<V>>>>,
}

#[derive(Debug)]
struct InFlight<V> {
    state: Mutex<State<V>>,
    finished: Condvar,
}

#[derive(Debug)]
enum State<V> {
    Running,
    Done(V),
    /// The executing thread panicked.
    Abandoned,
}

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> SingleFlight<K, V> {
    /// Executes `work`, or waits for the running execution with the same key. `on_wait` is called before waiting.
    pub(super) fn run(&self, key: &K, on_wait: impl Fn(), work: impl FnOnce() -> V) -> V {
        loop {
            let mut running = self.running.lock();
            let Some(flight) = running.get(key).map(Arc::clone) else {
                let flight = Arc::new(InFlight {
                    state: Mutex::new(State::Running),
                    finished: Condvar::new(),
                });
                running.insert(key.clone(), Arc::clone(&flight));
                drop(running);
                let leader = Leader {
                    flights: self,
                    key,
                    flight,
                };
                let value = work();
                leader.finish(State::Done(value.clone()));
                return value;
            };
            drop(running);
            on_wait();
            if let Some(value) = flight.wait() {
                return value;
            }
        }
    }
}

impl<V: Clone> InFlight<V> {
    fn wait(&self) -> Option<V> {
        let mut state = self.state.lock();
        self.finished
            .wait_while(&mut state, |state| matches!(state, State::Running));
        match &*state {
            State::Done(value) => Some(value.clone()),
            State::Running | State::Abandoned => None,
        }
    }
}

/// The executing call. If it is dropped without a result, one of the waiting calls takes over.
struct Leader<'a, K: Eq + Hash, V> {
    flights: &'a SingleFlight<K, V>,
    key: &'a K,
    flight: Arc<InFlight<V>>,
}

impl<K: Eq + Hash, V> Leader<'_, K, V> {
    fn finish(&self, state: State<V>) {
        let mut running = self.flights.running.lock();
        running.remove(self.key);
        drop(running);
        *self.flight.state.lock() = state;
        self.flight.finished.notify_all();
    }
}

impl<K: Eq + Hash, V> Drop for Leader<'_, K, V> {
    fn drop(&mut self) {
        let state = self.flight.state.lock();
        let is_running = matches!(*state, State::Running);
        drop(state);
        if is_running {
            self.finish(State::Abandoned);
        }
    }
}

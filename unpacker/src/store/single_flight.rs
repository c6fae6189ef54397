//! Single-flight execution: concurrent calls with the same key share one execution.

use std::{collections::HashMap, hash::Hash, panic};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;

/// An execution that is polled by its callers, and dropped with the last of them. Its result is `None` if it panicked.
type Flight<V> = BoxFuture<'static, Option<V>>;

/// The running executions by key.
#[derive(Debug)]
pub(crate) struct SingleFlight<K, V> {
    running: Mutex<HashMap<K, WeakShared<Flight<V>>>>,
}

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
        }
    }
}

impl<K: Eq + Hash, V: Clone + Send + Sync + 'static> SingleFlight<K, V> {
    /// Waits for the running execution with this key, or starts `work`. Calls `on_join` before it waits for the
    /// execution of another caller.
    ///
    /// # Panics
    /// Panics if the execution panics.
    pub(crate) async fn run(
        &self,
        key: K,
        on_join: impl FnOnce(),
        work: impl Future<Output = V> + Send + 'static,
    ) -> V {
        let (flight, is_joined) = self.join_or_start(key, work);
        if is_joined {
            on_join();
        }
        let value = flight.await;
        value.unwrap_or_else(|| panic::resume_unwind(Box::new("the shared execution panicked")))
    }

    fn join_or_start(
        &self,
        key: K,
        work: impl Future<Output = V> + Send + 'static,
    ) -> (Shared<Flight<V>>, bool) {
        let mut running = self.running.lock();
        let flight = running.get(&key).and_then(WeakShared::upgrade);
        // A caller that has not been woken yet may hold a finished execution.
        if let Some(flight) = flight.filter(|flight| flight.peek().is_none()) {
            return (flight, true);
        }
        running.retain(|_, other| other.upgrade().is_some());
        // A panic inside of `Shared` would not wake the other callers.
        let work = panic::AssertUnwindSafe(work).catch_unwind();
        let flight = work.map(Result::ok).boxed().shared();
        running.extend(flight.downgrade().map(|weak| (key, weak)));
        (flight, false)
    }

    /// Returns the number of waiting callers.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        let running = self.running.lock();
        let waiting = |flight: &WeakShared<Flight<V>>| flight.upgrade()?.strong_count();
        // Without the clone that was created for counting.
        let counts = running.values().filter_map(waiting);
        counts.map(|count| count - 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use futures::executor::block_on;

    use super::*;

    #[test]
    fn panic_reaches_all_callers_and_the_next_call_starts_again() {
        static IS_JOINED: AtomicBool = AtomicBool::new(false);
        let flights = SingleFlight::default();
        let work = || async {
            while !IS_JOINED.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            panic!("a bug");
        };
        let on_join = || IS_JOINED.store(true, Ordering::SeqCst);
        thread::scope(|scope| {
            let call = || block_on(flights.run("key", on_join, work()));
            for caller in [(); 2].map(|()| scope.spawn(call)) {
                caller.join().unwrap_err();
            }
        });
        assert_eq!(block_on(flights.run("key", || {}, async { 1 })), 1);
    }
}

//! Parallel work with results in order.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

/// Stack size of a worker thread, equal to that of the main thread, because documents may be nested as deeply.
const STACK_SIZE: usize = 8 << 20;

/// Returns the number of available processors.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Calls `work` for every item, for `width` of them concurrently, and passes the results to `done` in the order of the
/// items. Each result is passed as soon as all earlier ones are available. Stops early if `done` fails.
///
/// # Errors
/// Returns the error of `done`, or an error if threads cannot be started.
pub(crate) fn each<'a, T: Sync, R: Send, E: From<io::Error>>(
    items: &'a [T],
    width: usize,
    work: impl Fn(&'a T) -> R + Sync,
    mut done: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let threads = width.clamp(1, items.len().max(1));
    let next = AtomicUsize::new(0);
    // The channel is bounded, because results that wait for a slow `done` use memory.
    let (sender, results) = mpsc::sync_channel(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, work) = (&next, &work);
            let worker = move || {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(at)
                    && sender.send((at, work(item))).is_ok()
                {}
            };
            thread::Builder::new()
                .stack_size(STACK_SIZE)
                .spawn_scoped(scope, worker)?;
        }
        drop(sender);
        let results = results;
        let mut pending = BTreeMap::new();
        let mut next_result = 0;
        for (at, result) in &results {
            pending.insert(at, result);
            while let Some(result) = pending.remove(&next_result) {
                done(result)?;
                next_result += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..50).collect();
        let mut results = Vec::new();
        let work = |item: &u64| {
            thread::sleep(Duration::from_micros((50 - item) * 20));
            item * 2
        };
        let outcome: io::Result<()> = each(&items, 4, work, |double| {
            results.push(double);
            Ok(())
        });
        assert!(outcome.is_ok());
        ::tests::assert_rows!(results => items.iter().map(|item| item * 2).collect::<Vec<_>>());
    }

    #[test]
    fn first_failure_ends_the_run() {
        let items = [1, 2, 3, 4];
        let mut count = 0;
        let take = |item| {
            count += 1;
            let error = || io::Error::other("two");
            (item != 2).then_some(()).ok_or_else(error)
        };
        let error = each(&items, 2, |item| *item, take).unwrap_err();
        assert_eq!((error.to_string().as_str(), count), ("two", 2));
    }
}

//! Many things at once, and their results in order.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

/// What the main thread has, for documents as deep as any that are read there.
const STACK: usize = 8 << 20;

/// As many threads as there are processors.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` for every item, for `width` of them at a time, and gives `done` the results in the order of the items, each as soon
/// as it and all before it are there. Stops early when `done` fails.
///
/// # Errors
/// That of `done`, or when threads cannot be started.
pub(crate) fn each<'a, T: Sync, R: Send, E: From<io::Error>>(
    items: &'a [T],
    width: usize,
    work: impl Fn(&'a T) -> R + Sync,
    mut done: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let threads = width.clamp(1, items.len().max(1));
    let next = AtomicUsize::new(0);
    // Bounded: results that wait for a slower `done` take memory.
    let (sender, results) = mpsc::sync_channel(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, work) = (&next, &work);
            let turns = move || {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(at)
                    && sender.send((at, work(item))).is_ok()
                {}
            };
            thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, turns)?;
        }
        drop(sender);
        let results = results;
        let mut early = BTreeMap::new();
        let mut turn = 0;
        for (at, result) in &results {
            early.insert(at, result);
            while let Some(result) = early.remove(&turn) {
                done(result)?;
                turn += 1;
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
        let mut seen = Vec::new();
        let work = |item: &u64| {
            thread::sleep(Duration::from_micros((50 - item) * 20));
            item * 2
        };
        let outcome: io::Result<()> = each(&items, 4, work, |double| {
            seen.push(double);
            Ok(())
        });
        assert!(outcome.is_ok());
        assert_eq!(seen, items.iter().map(|item| item * 2).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_failure_ends_it() {
        let items = [1, 2, 3, 4];
        let mut seen = 0;
        let take = |item| {
            seen += 1;
            let error = || io::Error::other("two");
            (item != 2).then_some(()).ok_or_else(error)
        };
        let error = each(&items, 2, |item| *item, take).unwrap_err();
        assert_eq!((error.to_string().as_str(), seen), ("two", 2));
    }
}

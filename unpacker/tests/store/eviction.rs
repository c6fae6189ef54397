//! What goes when there is no room, and what does not.

use std::fs;

use unpacker::{Limits, store::Error};

use crate::{assert_whole, digests, listed, open, tree};

/// The bytes that content of 100 000 bytes takes.
fn one() -> u64 {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), 1 << 30, 0)
        .put(&tree(0, 100_000))
        .unwrap()
        .size
}

#[test]
fn what_was_used_longest_ago_goes_first_and_what_is_held_stays() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = open(folder, 3 * one(), 0);
    let [first, second, third] = [1, 2, 3].map(|seed| {
        let stored = store.put(&tree(seed, 100_000)).unwrap();
        stored.digest
    });
    store.get(&first, &Limits::default()).unwrap();
    let hold = store.hold(&second).unwrap();
    // Used last to first: second, first, third.
    let fourth = store.put(&tree(4, 100_000)).unwrap();
    assert!(matches!(store.hold(&third), Err(Error::Missing { .. })));
    let fifth = store.put(&tree(5, 100_000)).unwrap();
    assert!(matches!(store.hold(&first), Err(Error::Missing { .. })));
    // All that is left is held, by us or by who stored it, and by clones too.
    let clone = hold.clone();
    drop(hold);
    let error = store.put(&tree(6, 100_000)).unwrap_err();
    assert!(
        matches!(error, Error::OverBudget { used, .. } if used == 3 * one()),
        "{error:?}"
    );
    assert!(matches!(store.remove(&second), Err(Error::Held { .. })));
    assert!(listed(folder, "tmp").is_empty());
    assert_eq!(store.stats().held, 3);
    drop((clone, fourth.hold));
    let sixth = store.put(&tree(6, 100_000)).unwrap();
    let mut left = [fourth.digest, fifth.digest, sixth.digest];
    left.sort();
    assert_eq!(digests(folder), left);
    assert_eq!(store.stats().evicted, 3);
    assert_whole(&store, folder);
}

#[test]
fn holds_count_for_other_stores_on_the_folder_and_so_does_what_they_use() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (ours, theirs) = (open(folder, 2 * one(), 0), open(folder, 2 * one(), 0));
    let first = ours.put(&tree(1, 100_000)).unwrap();
    let second = ours.put(&tree(2, 100_000)).unwrap().digest;
    let third = theirs.put(&tree(3, 100_000)).unwrap().digest;
    assert!(matches!(ours.hold(&second), Err(Error::Missing { .. })));
    theirs.get(&first.digest, &Limits::default()).unwrap();
    assert!(matches!(
        theirs.remove(&first.digest),
        Err(Error::Held { .. })
    ));
    theirs.remove(&third).unwrap();
    theirs.remove(&third).unwrap();
    drop(first.hold);
    theirs.remove(&first.digest).unwrap();
    assert_eq!((digests(folder), ours.stats().disk), (vec![], 0));
}

#[test]
fn what_can_never_fit_is_refused_before_anything_is_evicted_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = open(folder, 2 * one(), 0);
    let kept = store.put(&tree(1, 100_000)).unwrap();
    let idle = store.put(&tree(2, 50_000)).unwrap().digest;
    for size in [150_000, 500_000] {
        let error = store.put(&tree(3, size)).unwrap_err();
        assert!(matches!(error, Error::OverBudget { .. }), "{error:?}");
        assert!(
            error.to_string().contains("raise the disk budget"),
            "{error}"
        );
        assert!(fs::exists(crate::file(folder, &idle)).unwrap());
    }
    drop(kept);
    store.put(&tree(3, 150_000)).unwrap();
    assert_eq!(store.stats().evicted, 1);
}

#[test]
fn the_same_content_is_stored_once_even_by_two_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stores = [0, 1].map(|_| open(folder, 1 << 30, 0));
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for at in 0..8 {
            let (store, barrier) = (&stores[at % 2], &barrier);
            scope.spawn(move || {
                barrier.wait();
                store.put(&tree(1, 300_000)).unwrap()
            });
        }
    });
    let [ours, theirs] = stores.map(|store| store.stats());
    assert_eq!(ours.written + theirs.written, 1);
    assert_eq!(ours.duplicates + theirs.duplicates, 7);
    assert_whole(&open(folder, 1 << 30, 0), folder);
}

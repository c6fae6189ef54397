//! What goes when there is no room, and what does not.

use crate::*;

/// The bytes that content of 100 000 bytes takes.
fn one() -> u64 {
    let (_folder, store) = fresh(1 << 30, 0);
    put(&store, 0, 100_000).size
}

#[test]
fn what_was_used_longest_ago_goes_first_and_what_is_held_stays() {
    let (folder, store) = fresh(3 * one(), 0);
    let folder = folder.path();
    let [first, second, third] = [1, 2, 3].map(|seed| put(&store, seed, 100_000).digest);
    store.get(&first, &Limits::default()).unwrap();
    let hold = store.hold(&second).unwrap();
    // Used last to first: second, first, third.
    let fourth = put(&store, 4, 100_000);
    assert!(is_missing(&store, &third));
    let fifth = put(&store, 5, 100_000);
    assert!(is_missing(&store, &first));
    // All that is left is held, by us or by who stored it, and by clones too.
    let clone = hold.clone();
    drop(hold);
    let error = store.put(&tree(6, 100_000)).unwrap_err();
    assert_rows!(matches!(error, Error::OverBudget { used, .. } if used == 3 * one()) => true, "{error:?}");
    assert!(matches!(store.remove(&second), Err(Error::Held { .. })));
    assert!(listed(folder, "tmp").is_empty());
    assert_eq!(store.stats().held, 3);
    drop((clone, fourth.hold));
    let sixth = put(&store, 6, 100_000);
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
    let first = put(&ours, 1, 100_000);
    let second = put(&ours, 2, 100_000).digest;
    let third = put(&theirs, 3, 100_000).digest;
    assert!(is_missing(&ours, &second));
    theirs.get(&first.digest, &Limits::default()).unwrap();
    let held = theirs.remove(&first.digest);
    assert!(matches!(held, Err(Error::Held { .. })), "{held:?}");
    theirs.remove(&third).unwrap();
    theirs.remove(&third).unwrap();
    drop(first.hold);
    theirs.remove(&first.digest).unwrap();
    assert_eq!((digests(folder), ours.stats().disk), (vec![], 0));
}

#[test]
fn what_can_never_fit_is_refused_before_anything_is_evicted_for_it() {
    let (folder, store) = fresh(2 * one(), 0);
    let kept = put(&store, 1, 100_000);
    let idle = put(&store, 2, 50_000).digest;
    for size in [150_000, 500_000] {
        let error = store.put(&tree(3, size)).unwrap_err();
        assert!(matches!(error, Error::OverBudget { .. }), "{error:?}");
        assert_has(&error, "raise the disk budget");
        assert!(fs::exists(file(folder.path(), &idle)).unwrap());
    }
    drop(kept);
    put(&store, 3, 150_000);
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
                put(store, 1, 300_000)
            });
        }
    });
    let [ours, theirs] = stores.map(|store| store.stats());
    assert_eq!(ours.written + theirs.written, 1);
    assert_eq!(ours.duplicates + theirs.duplicates, 7);
    assert_whole(&open(folder, 1 << 30, 0), folder);
}

/// Runs one test again, in a process that may open few files and needs permission to read them, as root too.
fn restricted(test: &str) {
    let as_user = "setpriv --bounding-set -dac_override,-dac_read_search";
    let start = if is_root() { as_user } else { "" };
    let script = format!("ulimit -n 64 && exec {start} \"$@\"");
    again(test, Command::new("sh").args(["-c", &script]));
}

#[test]
fn more_content_is_evicted_at_once_than_files_may_be_open() {
    let Some((_, folder)) = role() else {
        return restricted("eviction::more_content_is_evicted_at_once_than_files_may_be_open");
    };
    let store = open(&folder, 1_000_000, 0);
    for seed in 0..150 {
        put(&store, seed, 1000);
    }
    let large = put(&store, 1000, 950_000);
    assert!(digests(&folder).contains(&large.digest));
    assert!(store.stats().evicted > 100, "{:?}", store.stats());
    assert_whole(&store, &folder);
}

#[test]
fn unreadable_content_does_not_protect_other_content() {
    let Some((_, folder)) = role() else {
        return restricted("eviction::unreadable_content_does_not_protect_other_content");
    };
    let store = open(&folder, 2 * one(), 0);
    let [first, second] = [1, 2].map(|seed| put(&store, seed, 100_000).digest);
    fs::set_permissions(file(&folder, &first), fs::Permissions::from_mode(0o000)).unwrap();
    assert!(fs::File::open(file(&folder, &first)).is_err());
    let third = put(&store, 3, 100_000);
    let mut left = [first, third.digest];
    left.sort();
    assert_eq!(digests(&folder), left);
    assert!(is_missing(&store, &second));
    // And who brings it again repairs it.
    let again = store.put(&tree(1, 50_000)).err();
    assert!(matches!(again, Some(Error::OverBudget { .. })), "{again:?}");
    drop(third);
    put(&store, 1, 100_000);
    store.reader(&first).unwrap();
}

#[test]
fn a_clock_that_was_set_back_does_not_turn_the_order_round() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for reopened in [false, true] {
        let mut store = open(folder, 3 * one(), 0);
        let stored = [1, 2, 3].map(|seed| put(&store, seed, 100_000).digest);
        // As if all that had been while the clock was an hour ahead.
        for (at, digest) in (0..).zip(&stored) {
            let file = fs::File::options().write(true).open(file(folder, digest));
            let ahead = SystemTime::now() + Duration::from_secs(3600 + at);
            file.unwrap().set_modified(ahead).unwrap();
        }
        if reopened {
            store = open(folder, 3 * one(), 0);
        } else {
            store.hold(&stored[2]).unwrap(); // whoever used it last knows when that was
        }
        let [first, second, third] = stored;
        store.hold(&first).unwrap();
        for (seed, gone) in [(4, second), (5, third)] {
            put(&store, seed, 100_000);
            assert!(is_missing(&store, &gone));
        }
        assert!(store.hold(&first).is_ok());
        for digest in digests(folder) {
            store.remove(&digest).unwrap();
        }
    }
}

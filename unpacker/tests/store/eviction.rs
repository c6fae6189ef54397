//! Eviction of content when the disk budget is exhausted, and its protection by holds.

use crate::*;

/// Returns the stored size of content of 100 000 bytes.
fn one() -> u64 {
    let (_directory, store) = fresh(1 << 30, 0);
    put(&store, 0, 100_000).size
}

#[test]
fn holds_and_uses_count_for_all_stores_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (own, other) = (open(directory, 2 * one(), 0), open(directory, 2 * one(), 0));
    let first = put(&own, 1, 100_000);
    let second = put(&own, 2, 100_000).digest;
    let third = put(&other, 3, 100_000).digest;
    assert!(is_missing(&own, &second));
    // Content that does not fit beside held content, or not at all, evicts nothing.
    for size in [150_000, 500_000] {
        let error = own.put(&tree(4, size)).unwrap_err();
        assert_rows!(matches!(error, Error::BudgetExceeded { used, .. } if used == one()) => true, "{error:?}");
        assert_has(&error, "raise the disk budget");
        assert!(listed(directory, "tmp").is_empty() && !is_missing(&own, &third));
    }
    other.get(&first.digest, &Limits::default()).unwrap();
    let (digest, clone) = (first.digest, first.hold.clone());
    drop(first);
    let held = other.remove(&digest);
    assert!(matches!(held, Err(Error::InUse { .. })), "{held:?}");
    assert_eq!((own.stats().held, other.stats().evicted), (1, 1));
    other.remove(&third).unwrap();
    other.remove(&third).unwrap();
    drop(clone);
    other.remove(&digest).unwrap();
    assert_eq!((digests(directory), own.stats().disk), (vec![], 0));
    put(&own, 4, 150_000);
}

#[test]
fn concurrent_writers_store_equal_content_once() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let stores = [0, 1].map(|_| open(directory, 1 << 30, 0));
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
    let [first, second] = stores.map(|store| store.stats());
    assert_rows!((first.written + second.written, first.duplicates + second.duplicates) => (1, 7));
    assert_whole(&open(directory, 1 << 30, 0), directory);
}

/// Runs a test in a process that can open few files and, even as root, needs permission to read them.
fn restricted(test: &str) {
    let as_user = "setpriv --bounding-set -dac_override,-dac_read_search";
    let start = if is_root() { as_user } else { "" };
    let script = format!("ulimit -n 64 && exec {start} \"$@\"");
    run_again(test, Command::new("sh").args(["-c", &script]));
}

#[test]
fn eviction_is_not_limited_by_the_number_of_open_files() {
    let Some((_, directory)) = role() else {
        return restricted("eviction::eviction_is_not_limited_by_the_number_of_open_files");
    };
    let store = open(&directory, 1_000_000, 0);
    for seed in 0..150 {
        put(&store, seed, 1000);
    }
    let large = put(&store, 1000, 950_000);
    assert!(digests(&directory).contains(&large.digest));
    assert!(store.stats().evicted > 100, "{:?}", store.stats());
    assert_whole(&store, &directory);
}

#[test]
fn unreadable_content_does_not_protect_other_content() {
    let Some((_, directory)) = role() else {
        return restricted("eviction::unreadable_content_does_not_protect_other_content");
    };
    let store = open(&directory, 2 * one(), 0);
    let [first, second] = [1, 2].map(|seed| put(&store, seed, 100_000).digest);
    fs::set_permissions(file(&directory, &first), fs::Permissions::from_mode(0o000)).unwrap();
    assert!(fs::File::open(file(&directory, &first)).is_err());
    let third = put(&store, 3, 100_000);
    let mut left = [first, third.digest];
    left.sort();
    assert_rows!((digests(&directory), is_missing(&store, &second)) => (left.to_vec(), true));
    // Storing the content again repairs it.
    let again = store.put(&tree(1, 50_000)).err();
    assert_rows!(matches!(again, Some(Error::BudgetExceeded { .. })) => true, "{again:?}");
    drop(third);
    put(&store, 1, 100_000);
    store.reader(&first).unwrap();
}

#[test]
fn clock_that_is_set_back_keeps_the_eviction_order() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    for reopened in [false, true] {
        let mut store = open(directory, 3 * one(), 0);
        let stored = [1, 2, 3].map(|seed| put(&store, seed, 100_000).digest);
        // The content was used while the clock was an hour ahead.
        for (at, digest) in (0..).zip(&stored) {
            let path = file(directory, digest);
            let file = fs::File::options().write(true).open(path);
            let ahead = SystemTime::now() + Duration::from_secs(3600 + at);
            file.unwrap().set_modified(ahead).unwrap();
        }
        if reopened {
            store = open(directory, 3 * one(), 0);
        } else {
            store.hold(&stored[2]).unwrap(); // the store knows the time of this use
        }
        let [first, second, third] = stored;
        store.hold(&first).unwrap();
        for (seed, evicted) in [(4, second), (5, third)] {
            put(&store, seed, 100_000);
            assert!(is_missing(&store, &evicted));
        }
        assert!(store.hold(&first).is_ok());
        for digest in digests(directory) {
            store.remove(&digest).unwrap();
        }
    }
}

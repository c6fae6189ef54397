//! Content in memory, and reads that callers share.

use crate::*;

#[test]
fn memory_holds_recent_content_within_its_budget() {
    let (directory, store) = fresh(1 << 30, 250_000);
    let limits = Limits::default();
    let [first, second, third, large] =
        [100_000, 100_001, 100_002, 300_000].map(|size| put(&store, 1, size).digest);
    for (digest, reads) in [
        (&first, 1),
        (&first, 1),
        (&second, 2),
        (&first, 2),
        (&third, 3), // evicts the second
        (&first, 3),
        (&second, 4),
        (&large, 5), // larger than the budget: evicts nothing
        (&large, 6),
        (&second, 6),
        (&first, 6),
    ] {
        store.get(digest, &limits).unwrap();
        assert_rows!((store.stats().reads, store.stats().memory <= 250_000) => (reads, true));
    }
    assert_eq!((store.stats().hits, store.stats().misses), (5, 6));
    // Content in memory needs no file, and removed content is not served from memory.
    fs::remove_file(file(directory.path(), &first)).unwrap();
    store.get(&first, &limits).unwrap();
    store.remove(&first).unwrap();
    assert_rows!(matches!(store.get(&first, &limits), Err(Error::Missing { .. })) => true);
}

#[test]
fn limits_hold_for_content_in_memory_as_for_content_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let [cold, warm] = [0, 1 << 20].map(|memory| open(directory.path(), 1 << 30, memory));
    let digest = put(&cold, 1, 30_000).digest;
    let wide = Limits::default();
    let exact = with!(wide => total: 30_000, file: 20_000, entries: 2, path: 135, depth: 2);
    warm.get(&digest, &wide).unwrap();
    warm.get(&digest, &exact).unwrap();
    cold.get(&digest, &exact).unwrap();
    let changes: [fn(&mut Limits); 5] = [
        |limits| limits.total -= 1,
        |limits| limits.file -= 1,
        |limits| limits.entries -= 1,
        |limits| limits.path -= 1,
        |limits| limits.depth -= 1,
    ];
    for change in changes {
        let mut limits = exact;
        change(&mut limits);
        let refusals = [&cold, &warm].map(|store| store.get(&digest, &limits).unwrap_err());
        let [on_disk, in_memory] = &refusals;
        assert_eq!(on_disk.to_string(), in_memory.to_string());
        assert!(on_disk.is_terminal() && in_memory.reason() == "LimitExceeded");
    }
    assert_eq!(warm.stats().reads, 1);
}

#[test]
fn concurrent_callers_share_one_read_and_its_result() {
    for is_damaged in [false, true] {
        let (directory, store) = fresh(1 << 30, 0); // without memory, only the read can be shared
        let digest = put(&store, 1, 30_000).digest;
        let path = file(directory.path(), &digest);
        if is_damaged {
            fs::write(&path, "x").unwrap();
        }
        let file = fs::File::open(&path).unwrap();
        file.lock().unwrap(); // the reader waits for it
        let outcomes = thread::scope(|scope| {
            let get = || store.get(&digest, &Limits::default());
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(get)).collect();
            let deadline = Instant::now() + Duration::from_secs(60);
            while store.stats().shared < 15 {
                assert!(Instant::now() < deadline, "{:?}", store.stats());
                thread::yield_now();
            }
            file.unlock().unwrap();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.collect::<Vec<_>>()
        });
        assert_eq!((store.stats().reads, store.stats().misses), (1, 16));
        for outcome in &outcomes {
            assert!(match (outcome, &outcomes[0]) {
                (Ok(content), Ok(first)) => !is_damaged && Arc::ptr_eq(content, first),
                (outcome, _) => is_damaged && matches!(outcome, Err(Error::Corrupt { .. })),
            });
        }
    }
}

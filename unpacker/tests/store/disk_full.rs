//! Full and read-only disks: small file systems in a mount namespace that ends with its process.

use crate::*;

/// Runs a test again on a separate disk of 2 MiB.
fn on_a_small_disk(test: &str, then: &str) {
    let script = format!("mount -t tmpfs -o size=2m tmpfs \"$0\" {then} && exec \"$@\"");
    let namespace = if is_root() { "-m" } else { "-rm" };
    let mut command = Command::new("unshare");
    run_again(test, command.args([namespace, "sh", "-c", &script]));
}

#[test]
fn full_disk_is_reported_and_leaves_nothing_half_written() {
    let name = "disk_full::full_disk_is_reported_and_leaves_nothing_half_written";
    let Some((_, directory)) = role() else {
        return on_a_small_disk(name, "");
    };
    let store = open(&directory, 1 << 30, 0);
    let mut held: Vec<_> = (0..3).map(|seed| put(&store, seed, 550_000)).collect();
    let before = listed(&directory, "content");
    for size in [550_000, 3_000_000] {
        let error = store.put(&tree(9, size)).unwrap_err();
        assert_rows!(matches!(error, Error::DiskFull { .. }) && !error.is_terminal() => true, "{error:?}");
        assert_has(&error, "enlarge it or delete bundles");
        assert_eq!(listed(&directory, "content"), before);
        assert_whole(&store, &directory);
    }
    // Content without a hold is evicted.
    let released = held.remove(1);
    let digest = released.digest;
    drop(released);
    let stored = put(&store, 9, 550_000);
    assert_rows!(*store.get(&stored.digest, &Limits::default()).unwrap() => content(9, 550_000));
    assert_rows!((is_missing(&store, &digest), store.stats().evicted) => (true, 1));
    assert_whole(&open(&directory, 1 << 30, 0), &directory);
}

#[test]
fn disks_that_cannot_be_written_are_reported_when_opened() {
    let Some((_, directory)) = role() else {
        let name = "disk_full::disks_that_cannot_be_written_are_reported_when_opened";
        let fill = "&& (head -c 3m /dev/zero > \"$0\"/other 2> /dev/null || true)";
        on_a_small_disk(name, fill);
        return on_a_small_disk(name, "&& mount -o remount,ro tmpfs \"$0\"");
    };
    let error = Store::open(&directory.join("store"), Budget { disk: 1, memory: 1 }).unwrap_err();
    assert!(matches!(error, Error::Open { .. }), "{error:?}");
    assert_has(&error, "use a directory that can be written");
    if fs::remove_file(directory.join("other")).is_ok() {
        put(&open(&directory.join("store"), 1 << 20, 0), 1, 10);
    }
}

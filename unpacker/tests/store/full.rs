//! A disk that is full, or cannot be written: small ones of our own, in a mount namespace that ends with its process.

use std::{fs, os::unix::fs::MetadataExt, path::Path, process::Command};

use unpacker::{
    Limits, Store,
    store::{Budget, Error},
};

use crate::{FOLDER, ROLE, assert_whole, content, listed, open, role, tree};

/// Runs one test again, on a disk of 2 MiB of its own.
fn on_a_small_disk(test: &str, then: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("mount -t tmpfs -o size=2m tmpfs \"$0\" {then} && exec \"$@\"");
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let output = Command::new("unshare")
        .arg(if is_root { "-m" } else { "-rm" })
        .args(["sh", "-c", &script])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ROLE, "small disk")
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "run this as root, or where users may make mount namespaces (unshare -rm):\n{text}"
    );
}

#[test]
fn a_full_disk_is_told_leaves_nothing_half_written_and_works_again_when_there_is_room() {
    let Some((_, folder)) = role() else {
        return on_a_small_disk(
            "full::a_full_disk_is_told_leaves_nothing_half_written_and_works_again_when_there_is_room",
            "",
        );
    };
    let store = open(&folder, 1 << 30, 0);
    let mut held: Vec<_> = (0..3)
        .map(|seed| store.put(&tree(seed, 550_000)).unwrap())
        .collect();
    let before = listed(&folder, "content");
    for size in [550_000, 3_000_000] {
        let error = store.put(&tree(9, size)).unwrap_err();
        assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
        assert!(
            error.to_string().contains("enlarge it or delete bundles"),
            "{error}"
        );
        assert!(!error.is_terminal());
        assert_eq!(listed(&folder, "content"), before);
        assert_whole(&store, &folder);
    }
    // One is no longer needed: it makes room.
    let gone = held.remove(1);
    let digest = gone.digest;
    drop(gone);
    let stored = store.put(&tree(9, 550_000)).unwrap();
    assert_eq!(
        *store.get(&stored.digest, &Limits::default()).unwrap(),
        content(9, 550_000)
    );
    assert!(matches!(store.hold(&digest), Err(Error::Missing { .. })));
    assert_eq!(store.stats().evicted, 1);
    assert_whole(&open(&folder, 1 << 30, 0), &folder);
}

#[test]
fn a_disk_without_any_room_and_one_that_is_read_only_are_told_when_opening() {
    let Some((_, folder)) = role() else {
        let name = "full::a_disk_without_any_room_and_one_that_is_read_only_are_told_when_opening";
        on_a_small_disk(
            name,
            "&& (head -c 3m /dev/zero > \"$0\"/other 2> /dev/null || true)",
        );
        return on_a_small_disk(name, "&& mount -o remount,ro tmpfs \"$0\"");
    };
    let budget = Budget { disk: 1, memory: 1 };
    let opened = |at: &Path| Store::open(at, budget).unwrap_err();
    let error = opened(&folder.join("store"));
    assert!(matches!(error, Error::Open { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("give it a folder that can be written"),
        "{error}"
    );
    if fs::remove_file(folder.join("other")).is_ok() {
        open(&folder.join("store"), 1 << 20, 0)
            .put(&tree(1, 10))
            .unwrap();
    }
}

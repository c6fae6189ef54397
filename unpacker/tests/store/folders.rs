//! The folder, and what else may be in it.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
};

use unpacker::{Content, Digest, Limits, Store, Tree, store::Budget};

use crate::{Dice, assert_whole, listed, open, tree};

const BUDGET: Budget = Budget {
    disk: 1 << 20,
    memory: 0,
};

#[test]
fn only_its_owner_may_look_into_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a/store");
    let stored = open(&root, 1 << 20, 0).put(&tree(1, 10)).unwrap();
    for (path, mode) in [
        (root.clone(), 0o700),
        (root.join("content"), 0o700),
        (root.join("sources"), 0o700),
        (root.join("tmp"), 0o700),
        (root.join("state"), 0o600),
        (crate::file(&root, &stored.digest), 0o600),
    ] {
        assert_eq!(
            fs::metadata(&path).unwrap().mode() & 0o777,
            mode,
            "{path:?}"
        );
    }
}

#[test]
fn what_is_no_folder_or_belongs_to_others_is_refused_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "").unwrap();
    fs::create_dir_all(at("theirs/content")).unwrap();
    fs::write(at("theirs/content/mine.txt"), "mine").unwrap();
    fs::create_dir_all(at("state")).unwrap();
    fs::write(at("state/state"), "other").unwrap();
    fs::create_dir_all(at("odd")).unwrap();
    fs::write(at("odd/content"), "").unwrap();
    symlink("/nowhere/at/all", at("dangling")).unwrap();
    for (name, problem) in [
        ("file", "is not a folder"),
        ("file/below", "is not a folder"),
        ("theirs", "holds files of something else"),
        ("state", "holds files of something else"),
        ("odd", "is not a folder"),
        ("dangling", "is not a folder"),
        ("/proc/store", "failed to open the content store"),
    ] {
        let error = Store::open(&at(name), BUDGET).unwrap_err();
        assert!(error.to_string().contains(problem), "{name}: {error}");
        assert_eq!(
            (error.reason(), error.is_terminal()),
            ("StoreUnavailable", false)
        );
    }
    assert_eq!(
        fs::read_to_string(at("theirs/content/mine.txt")).unwrap(),
        "mine"
    );
}

#[test]
fn opening_sweeps_what_does_not_belong_and_leaves_what_is_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let store = open(root, 1 << 20, 0);
    let stored = store.put(&tree(1, 1000)).unwrap();
    let name = Digest::of(b"").hex();
    fs::write(root.join("mine.txt"), "").unwrap();
    fs::write(root.join("tmp/left"), "over").unwrap();
    fs::write(root.join("tmp/busy"), "being written").unwrap();
    symlink("nowhere", root.join("tmp/link")).unwrap();
    fs::write(root.join("content/foreign.txt"), "").unwrap();
    fs::write(
        root.join(format!("content/{}.tar", name.to_uppercase())),
        "",
    )
    .unwrap();
    fs::create_dir(root.join("content/lost+found")).unwrap();
    fs::write(root.join("sources").join(&name), "").unwrap();
    symlink(
        format!("../content/{name}.tar"),
        root.join("sources").join(&name[1..]),
    )
    .unwrap();
    symlink(
        format!("../content/{name}.tar"),
        root.join("sources").join(Digest::of(b"1").hex()),
    )
    .unwrap();
    symlink(
        "/etc/passwd",
        root.join("sources").join(Digest::of(b"2").hex()),
    )
    .unwrap();
    let busy = fs::File::open(root.join("tmp/busy")).unwrap();
    busy.lock_shared().unwrap();

    let again = open(root, 1 << 20, 0);
    let names = |folder| listed(root, folder).into_keys().collect::<Vec<_>>();
    assert_eq!(names("tmp"), ["busy"]);
    let kept = format!("{}.tar", stored.digest.hex());
    let mut left = [kept, "lost+found".to_owned()];
    left.sort();
    assert_eq!(names("content"), left);
    assert!(names("sources").is_empty());
    assert_eq!(again.stats().disk, stored.size + 13);
    assert!(root.join("mine.txt").exists());

    busy.unlock().unwrap();
    fs::remove_dir(root.join("content/lost+found")).unwrap();
    assert_whole(&open(root, 1 << 20, 0), root);
}

#[test]
fn a_count_that_is_wrong_or_no_number_is_found_out_when_it_matters() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let store = open(root, 200_000, 0);
    store.put(&tree(1, 50_000)).unwrap();
    let state = fs::read(root.join("state")).unwrap();
    for digits in [
        *b"99999999999999999999",
        *b"00000000000000190000",
        *b"xxxxxxxxxxxxxxxxxxxx",
    ] {
        let mut wrong = state.clone();
        let at = wrong.len() - 20;
        wrong[at..].copy_from_slice(&digits);
        fs::write(root.join("state"), wrong).unwrap();
        store.put(&tree(2, 50_000)).unwrap();
        assert_eq!(store.stats().evicted, 0);
        assert_eq!(
            store.stats().disk,
            listed(root, "content").values().sum::<u64>()
        );
    }
}

#[test]
fn content_of_any_shape_takes_exactly_the_space_that_was_made_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let store = open(root, 1 << 30, 0);
    let mut dice = Dice(3);
    let mut trees = vec![Tree::from_content(Content::default())];
    for path in [1, 99, 100, 101, 102, 511, 512, 513, 1000] {
        for size in [0, 1, 511, 512, 513, dice.below(5000)] {
            let mut files = manifests::content::Builder::new(Limits::default());
            let bytes = vec![b'x'; usize::try_from(size).unwrap()];
            files
                .add(&"p".repeat(path), 0o644, &mut bytes.as_slice())
                .unwrap();
            trees.push(Tree::from_content(files.finish()));
        }
    }
    for tree in trees {
        // A budget without a byte to spare shows whether less was reckoned with than is written.
        let mut tar = Vec::new();
        tree.write_tar(&mut tar).unwrap();
        let exact = tempfile::tempdir().unwrap();
        let size = tar.len() as u64;
        assert!(
            Store::open(
                exact.path(),
                Budget {
                    disk: size - 1,
                    memory: 0
                }
            )
            .unwrap()
            .put(&tree)
            .is_err()
        );
        let tight = open(exact.path(), size, 0);
        assert_eq!(tight.put(&tree).unwrap().size, size);
        assert_whole(&tight, exact.path());
        let stored = store.put(&tree).unwrap();
        let found = store.get(&stored.digest, &Limits::default()).unwrap();
        assert_eq!(*found, tree.into_content().unwrap());
    }
}

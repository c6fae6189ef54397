//! The directory of a store, and foreign files in it.

use crate::*;

#[test]
fn only_its_owner_can_read_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("a/store");
    let stored = put(&open(&root, 1 << 20, 0), 1, 10);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
    assert_rows! {
        ["", "content", "sources", "tmp"].map(|name| mode(root.join(name))) => [0o700; 4];
        [root.join("state"), crate::file(&root, &stored.digest)].map(mode) => [0o600; 2];
    }
}

#[test]
fn files_and_foreign_directories_are_rejected_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (path, text) in [
        ("file", ""),
        ("theirs/content/mine.txt", "mine"),
        ("state/state", "other"),
        ("odd/content", ""),
    ] {
        write(directory.path(), path, text);
    }
    symlink("/nowhere/at/all", at("dangling")).unwrap();
    for (name, problem) in [
        ("file", "is not a directory"),
        ("file/below", "is not a directory"),
        ("theirs", "contains files of another program"),
        ("state", "contains files of another program"),
        ("odd", "is not a directory"),
        ("dangling", "is not a directory"),
        ("/proc/store", "failed to open the content store"),
    ] {
        let (disk, memory) = (1 << 20, 0);
        let error = Store::open(&at(name), Budget { disk, memory }).unwrap_err();
        assert_has(&error, problem);
        assert_rows!((error.reason(), error.is_terminal()) => ("StoreUnavailable", false));
    }
    assert_rows!(fs::read_to_string(at("theirs/content/mine.txt")).unwrap() => "mine");
}

#[test]
fn opening_removes_foreign_files_and_keeps_active_writes() {
    let (directory, store) = fresh(1 << 20, 0);
    let root = directory.path();
    let stored = put(&store, 1, 1000);
    let name = Digest::sha256(b"").hex();
    let capital = format!("content/{}.tar", name.to_uppercase());
    let source = format!("sources/{name}");
    let foreign = "mine.txt tmp/left content/foreign.txt".split(' ');
    for path in foreign.chain([&*capital, &source]) {
        write(root, path, "");
    }
    write(root, "tmp/busy", "being written");
    fs::create_dir(root.join("content/lost+found")).unwrap();
    let content = format!("../content/{name}.tar");
    let sha256 = |bytes| Digest::sha256(bytes).hex();
    for (target, link) in tests::rows![
        "nowhere" => "tmp/link".to_owned();
        &content => format!("sources/{}", &name[1..]);
        &content => format!("sources/{}", sha256(b"1"));
        "/etc/passwd" => format!("sources/{}", sha256(b"2"));
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let busy = fs::File::open(root.join("tmp/busy")).unwrap();
    busy.lock_shared().unwrap();

    let reopened = open(root, 1 << 20, 0);
    let names = |directory| listed(root, directory).into_keys().collect::<Vec<_>>();
    assert_eq!(names("tmp"), ["busy"]);
    let content_file = format!("{}.tar", stored.digest.hex());
    let mut remaining = [content_file, "lost+found".to_owned()];
    remaining.sort();
    assert_rows!((names("content"), names("sources")) => (remaining.to_vec(), vec![]));
    assert_rows!((reopened.stats().disk, root.join("mine.txt").exists()) => (stored.size + 13, true));

    busy.unlock().unwrap();
    fs::remove_dir(root.join("content/lost+found")).unwrap();
    assert_whole(&open(root, 1 << 20, 0), root);
}

#[test]
fn wrong_usage_count_is_corrected_before_eviction() {
    let (directory, store) = fresh(200_000, 0);
    let root = directory.path();
    put(&store, 1, 50_000);
    let state = fs::read(root.join("state")).unwrap();
    let nines = "9".repeat(20);
    for digits in [&nines, "00000000000000190000", "xxxxxxxxxxxxxxxxxxxx"] {
        let wrong = [&state[..state.len() - 20], digits.as_bytes()].concat();
        fs::write(root.join("state"), wrong).unwrap();
        put(&store, 2, 50_000);
        assert_rows!((store.stats().evicted, store.stats().disk) => (0, listed(root, "content").values().sum::<u64>()));
    }
}

#[test]
fn content_takes_exactly_the_space_reserved_for_it() {
    let (_folder, store) = fresh(1 << 30, 0);
    let mut random = Random::new(3);
    let mut trees = vec![Tree::from_content(Content::default())];
    for path in [1, 99, 100, 101, 102, 511, 512, 513, 1000] {
        for size in [0, 1, 511, 512, 513, random.below(5000)] {
            let mut files = manifests::content::Builder::new(Limits::default());
            let (path, bytes) = ("p".repeat(path), vec![b'x'; size]);
            files.add(&path, 0o644, &mut bytes.as_slice()).unwrap();
            trees.push(Tree::from_content(files.finish()));
        }
    }
    for tree in trees {
        // A budget of exactly this size shows whether the reservation covers all written bytes.
        let mut tar = Vec::new();
        tree.write_tar(&mut tar).unwrap();
        let exact = tempfile::tempdir().unwrap();
        let size = tar.len() as u64;
        assert!(open(exact.path(), size - 1, 0).put(&tree).is_err());
        let tight = open(exact.path(), size, 0);
        assert_eq!(tight.put(&tree).unwrap().size, size);
        assert_whole(&tight, exact.path());
        let stored = store.put(&tree).unwrap();
        assert_rows!(*store.get(&stored.digest, &Limits::default()).unwrap() => tree.into_content().unwrap());
    }
}

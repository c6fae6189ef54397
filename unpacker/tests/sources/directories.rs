use crate::*;

#[test]
fn links_fifos_and_sockets_are_recorded_and_never_opened() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret", "s");
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, "manifests/csv.yaml", "csv");
    for (target, path) in tests::rows![
        &*outside.path().join("secret") => "leak";
        outside.path() => "outside";
        ".".as_ref() => "loop";
        "loop2".as_ref() => "loop2";
        "nowhere".as_ref() => "dangling";
        "manifests/csv.yaml".as_ref() => "inside";
    ] {
        symlink(target, root.join(path)).unwrap();
    }
    assert_rows!(Command::new("mkfifo").arg(root.join("fifo")).status().unwrap().success() => true);
    let _socket = UnixListener::bind(root.join("socket")).unwrap();

    let content = open(root, &Options::default()).unwrap().content;
    assert_eq!(listed(&content), [("manifests/csv.yaml", "csv")]);
    let skipped = content.assess().skipped;
    assert_eq!((skipped.symlinks, skipped.special), (6, 2));
    let found = outcome(open(&root.join("fifo"), &Options::default()));
    assert_has(&found, "neither a directory nor a file");
    let linked = tempfile::tempdir().unwrap().path().with_extension("link");
    symlink(root, &linked).unwrap();
    assert_rows!(open(&linked, &Options::default()).unwrap().content => content, "the root may be a link");
    fs::remove_file(linked).unwrap();
}

#[test]
fn selected_names_that_are_not_utf8_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"bad\xff");
    write(directory.path(), "manifests/a", "1");
    if fs::write(directory.path().join(name), "").is_err() {
        return; // the file system rejects such names
    }
    let found = outcome(open(directory.path(), &Options::default()));
    assert_rows!(found.contains("name \"bad\u{fffd}\" is not UTF-8; rename the file") => true, "{found}");
    let options = with!(Options::default() => select: only(&["manifests"]));
    assert_rows!(outcome(open(directory.path(), &options)) => "manifests/a +0 links");
}

#[test]
fn only_the_selected_part_of_a_checkout_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ".git/objects/aa/1 bundle/manifests/a bundle/manifests/b/c bundle/tests/d go.mod";
    for path in paths.split(' ') {
        write(directory.path(), path, path);
    }
    // Five entries at the root and in bundle, three in manifests.
    let options =
        with!(Options::default() => limits.entries: 8, select: only(&["bundle/manifests"]));
    let found = open(directory.path(), &options).unwrap();
    let paths: Vec<_> = found.content.files().map(|(path, _)| path).collect();
    assert_eq!(paths, ["bundle/manifests/a", "bundle/manifests/b/c"]);
    assert_eq!(found.unselected, 3);
}

#[test]
fn limits_apply_to_directories() {
    type Change = fn(&mut Limits);
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for number in 0..20 {
        write(root, &format!("many/{number:02}"), "12345");
    }
    write(root, &format!("{}deep", "d/".repeat(40)), "");
    let changes: [(Change, &str); 6] = tests::rows![
        |_| {} => "d/d/";
        |limits| limits.entries = 60 => "more than 60 entries";
        |limits| limits.depth = 20 => "limit of 20 directories";
        |limits| limits.path = 30 => "limit of 30 bytes";
        |limits| limits.file = 4 => "file \"many/00\" is larger than the limit of 4 bytes";
        |limits| limits.total = 52 => "limit of 52 bytes (reached in \"many/10\")";
    ];
    for (change, expected) in changes {
        let mut options = with!(Options::default() => limits.depth: 50);
        change(&mut options.limits);
        assert_has(outcome(open(root, &options)), expected);
    }
}

#[test]
fn unreadable_files_and_directories_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "manifests/closed/a", "1");
    for path in ["manifests/closed/a", "manifests/closed"] {
        let at = directory.path().join(path);
        fs::set_permissions(&at, fs::Permissions::from_mode(0o000)).unwrap();
        let may_read_all = fs::File::open(&at).is_ok(); // true for root
        let result = open(directory.path(), &Options::default());
        fs::set_permissions(&at, fs::Permissions::from_mode(0o700)).unwrap();
        if !may_read_all {
            let error = result.unwrap_err();
            let problem = format!("failed to read \"{path}\"; check that it still exists");
            assert_has(chain(&error), &(problem + " and is readable: "));
            assert_eq!(kind(&error), ("ReadFailed", false));
        }
    }
}

use crate::*;

#[test]
fn the_root_may_be_a_link_but_no_fifo() {
    let directory = tempfile::tempdir().unwrap();
    let [root, fifo, link] = ["bundle", "fifo", "link"].map(|name| directory.path().join(name));
    write(&root, "manifests/csv.yaml", "csv");
    assert_rows!(Command::new("mkfifo").arg(&fifo).status().unwrap().success() => true);
    let found = outcome(open(&fifo, &Options::default()));
    assert_has(&found, "neither a directory nor a file");
    symlink(&root, &link).unwrap();
    assert_rows!(outcome(open(&link, &Options::default())) => "manifests/csv.yaml +0 links");
}

#[test]
fn a_manifest_is_not_an_archive() {
    let directory = tempfile::tempdir().unwrap();
    for (name, expected) in tests::rows![
        "csv.yaml" => "but YAML; use the directory of the file";
        "csv.json" => "but JSON; use the directory of the file";
        "csv" => "but of an unknown format; pack the bundle with \"tar czf\"";
    ] {
        write(directory.path(), name, "kind: A");
        let found = outcome(open(&directory.path().join(name), &Options::default()));
        assert_has(&found, expected);
    }
}

#[test]
fn selected_names_that_are_not_utf8_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"bad\xff");
    write(directory.path(), "manifests/a", "1");
    fs::write(directory.path().join(name), "").unwrap();
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
    assert_rows!((paths, found.unselected) => (vec!["bundle/manifests/a", "bundle/manifests/b/c"], 3));
}

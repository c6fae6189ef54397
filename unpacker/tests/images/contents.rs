//! Images in all saved forms are read with the files that a container sees.

use crate::*;

/// Checks that every form of the image has the files that a container sees, and returns their paths.
#[track_caller]
fn assert_seen(store: &Store, image: &str, select: &Selection) -> String {
    let bundle = ["manifests", "metadata", "tests"].map(str::to_owned);
    let selected = match select {
        Selection::Default => Selection::Only(bundle.to_vec()),
        select => select.clone(),
    };
    let options = with!(Options, select: selected);
    let expected = store.mounted(image, |root| listed(&open_tree(root, &options).unwrap().0));
    store.save(image);
    for form in [
        Local::OciLayout(store.path("layout"), None),
        Local::OciArchive(store.path("oci.tar"), None),
        Local::DockerArchive(store.path("docker.tar"), None),
    ] {
        assert_rows!(listed(&read(&form, select.clone()).tree) => expected, "{form}");
    }
    expected.1.join(" ")
}

/// Creates files that only operating systems contain: unusual names, links, devices and holes.
const SYSTEM: &str = r#"
    mkdir -p etc usr/bin usr/lib/systemd usr/odd var/lib
    for path in etc/os-release usr/bin/tool usr/lib/a.so.1.2 var/lib/data; do printf "$path" >"$path"; done
    ln -s usr/bin bin
    ln -s usr/lib lib
    ln -s /nowhere dangling
    cd usr
    ln bin/tool bin/other
    : >"odd/$(printf 'caf\351')"
    : >'lib/systemd/system-systemd\x2dcryptsetup.slice'
    long=$(printf '%200s')
    mkdir "odd/$(echo "$long" | tr ' ' n)"
    printf long >"odd/$(echo "$long" | tr ' ' n)/$(echo "$long" | tr ' ' d)"
    mknod odd/null c 1 3
    mknod odd/disk b 8 0
    mkfifo odd/pipe
    chmod 6755 bin/tool
    truncate -s 1M odd/holes
"#;

#[test]
fn a_bundle_from_scratch_is_read_from_every_form() {
    let expected = "manifests/crd.yaml manifests/csv.yaml metadata/annotations.yaml tests/scorecard/config.yaml";
    let dockerfile = "FROM scratch\n\
         LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1\n\
         LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/\n\
         LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/\n\
         COPY manifests /manifests/\n\
         COPY metadata /metadata/\n\
         COPY tests/scorecard /tests/scorecard/\n\
         COPY README.md /\n";
    let store = Store::new(&format!("{expected} README.md"), &[("bundle", dockerfile)]);
    let files = |select| assert_seen(&store, "bundle", &select);
    assert_rows!([Selection::Default, Selection::All].map(files) => [expected.to_owned(), format!("README.md {expected}")]);
}

#[test]
fn upper_layers_delete_replace_and_add_as_in_a_container() {
    let files = "manifests/deleted.yaml manifests/kept.yaml manifests/replaced.yaml manifests/folder/a manifests/folder/b \
         manifests/emptied/a metadata/file tests/deleted/a";
    let dockerfile =
        "FROM scratch\nCOPY manifests /manifests/\nCOPY metadata /metadata/\nCOPY tests /tests/\n";
    let store = Store::new(files, &[("lower", dockerfile)]);
    let change = "
        rm -r manifests/deleted.yaml manifests/folder manifests/emptied metadata/file tests
        printf new >manifests/replaced.yaml
        printf 'now a file' >manifests/folder
        mkdir manifests/emptied metadata/file
        printf b >manifests/emptied/b
        : >'metadata/file/now a directory'
    ";
    store.layer("lower", "middle", change);
    let paths = |image| assert_seen(&store, image, &Selection::Default);
    let remaining =
        "manifests/emptied/b manifests/folder manifests/kept.yaml manifests/replaced.yaml";
    let middle = format!("{remaining} metadata/file/now a directory");
    assert_eq!(paths("middle"), middle);
    let change = "
        printf 'back again' >manifests/deleted.yaml
        rm -r metadata
        ln -s /etc metadata
        mkdir tests
        : >tests/new
    ";
    store.layer("middle", "upper", change);
    assert_rows!(paths("upper") => format!("manifests/deleted.yaml {remaining} tests/new"));
}

// parity: rukpak-20
#[test]
fn only_the_bundle_in_an_operating_system_image_is_read() {
    let store = Store::new("", &[("empty", "FROM scratch\n")]);
    store.layer("empty", "base", SYSTEM);
    let change = "
        mkdir manifests metadata
        printf csv >manifests/csv.yaml
        ln manifests/csv.yaml manifests/same.yaml
        printf annotations >metadata/annotations.yaml
        rm -r usr/odd/null var
    ";
    store.layer("base", "bundle", change);
    let expected = "manifests/csv.yaml manifests/same.yaml metadata/annotations.yaml";
    assert_eq!(assert_seen(&store, "bundle", &Selection::Default), expected);
    let layout = Local::OciLayout(store.path("layout"), None);
    let fetched = read(&layout, Selection::Default);
    assert_rows!((fetched.unselected >= 12, fetched.tree.irregular().count()) => (true, 0), "{}", fetched.unselected);
    // A device, and one that an upper layer deletes.
    for (path, irregular) in [("usr/odd/disk", 1), ("usr/odd/null", 0)] {
        let tree = read(&layout, Selection::Only(vec![path.to_owned()])).tree;
        assert_eq!((tree.len(), tree.irregular().count()), (0, irregular));
    }
}

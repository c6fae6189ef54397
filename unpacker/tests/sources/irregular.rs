//! Entries that are not regular files: rejected where a bundle needs them, else counted.

use crate::*;

fn read(tar: Tar) -> Tree {
    let (tree, _) = stream_tree(gzip(&tar.end()).as_slice(), &Options::default()).unwrap();
    tree.strip_top_folder()
}

/// Returns the files, and the reason of the rejection or the skipped entries.
fn outcome(tree: &Tree) -> String {
    let paths: Vec<_> = tree.files().map(|(path, _)| path).collect();
    let found = match tree.ensure_regular() {
        Ok(skipped) if skipped.is_empty() => "complete".to_owned(),
        Ok(skipped) => skipped.to_string(),
        Err(error) => {
            assert_eq!(kind(&error), ("EntryRefused", true));
            chain(&error)
        }
    };
    format!("{}: {found}", paths.join(" "))
}

// parity: rukpak-19
#[test]
fn entries_of_archives_are_rejected_where_a_bundle_needs_them() {
    let bundle = || tar().file("manifests/a", "1");
    let sparse =
        |name: &str, key: &str, value: &str| bundle().pax(b'x', &[(key, value)]).file(name, "1");
    let rejected = "manifests/a: entry \"manifests/b\" is a sparse file, not a regular file; pack the bundle without --sparse";
    assert_each!(|tar, expected| outcome(&read(tar)) => expected;
        bundle() => "manifests/a: complete";
        link(bundle(), b'2', "manifests/b", "a")
            => "manifests/a: entry \"manifests/b\" is a symbolic link to \"a\", not a regular file; replace the link with a \
             copy of the file";
        link(bundle(), b'1', "manifests/b", "elsewhere/c")
            => "manifests/a: entry \"manifests/b\" is a hard link to \"elsewhere/c\", not a regular file; replace the link \
             with a copy of the file, or pack the bundle with \"tar --hard-dereference\"";
        bundle().entries("3 metadata/null, 6 manifests/fifo")
            => "manifests/a: entry \"manifests/fifo\" is a device, FIFO or socket, not a regular file (and 1 more \
                entry); remove the entry from the bundle";
        bundle().with(b'S', "manifests/b", b"1") => rejected;
        sparse("manifests/b", "GNU.sparse.major", "1") => rejected;
        // Formats of star and of the tar of Solaris.
        sparse("manifests/b", "SCHILY.realsize", "70000") => rejected;
        sparse("manifests/b", "SCHILY.filetype", "sparse") => rejected;
        sparse("manifests/b", "SUN.holesdata", " 0 69632 ") => rejected;
        bundle().entries("2 docs/link, 1 docs/hard, 4 docs/disk, S docs/sparse 1")
            => "manifests/a: 1 symbolic link, 1 hard link, 1 special file, 1 sparse file (docs/disk, docs/hard, docs/link, \
             docs/sparse)";
        sparse("docs/b", "GNU.sparse.major", "1") => "manifests/a: 1 sparse file (docs/b)";
        sparse("docs/b", "SUN.holesdata", " 0 69632 ") => "manifests/a: 1 sparse file (docs/b)";
        sparse("manifests/b", "SCHILY.filetype", "regular") => "manifests/a manifests/b: complete";
        link(tar().file("b/manifests/a", "1"), b'2', "b/metadata", "x").with(b'2', "latest", b"")
            => "manifests/a: entry \"metadata\" is a symbolic link to \"x\", not a directory; replace the link with a copy of \
             the directory";
        tar().file("b/manifests/a", "1").with(b'2', "latest", b"") => "manifests/a: 1 symbolic link (../latest)";
    );
}

#[test]
fn hard_links_to_files_of_the_archive_are_read() {
    let file = || tar().file("manifests/a", "1");
    assert_each!(|tar, expected| outcome(&read(tar)) => expected;
        link(file(), b'1', "manifests/b", "manifests/a") => "manifests/a manifests/b: complete";
        link(file(), b'1', "manifests/b", "./manifests//a") => "manifests/a manifests/b: complete";
        link(file(), b'1', "x/b", "manifests/later").file("manifests/later", "")
            => "manifests/a manifests/later: 1 hard link (x/b)";
        link(file(), b'1', "x/b", "/manifests/a") => "manifests/a: 1 hard link (x/b)";
        link(file().with(b'2', "l", b""), b'1', "x/b", "l") => "manifests/a: 1 symbolic link, 1 hard link (l, x/b)";
    );
    let many = (0..100).fold(tar().file("0", &"x".repeat(1000)), |tar, number| {
        link(tar, b'1', &format!("more/{number}"), "0")
    });
    let options = with!(Options::default() => limits.total: 50_000);
    let error = stream_tree(many.end().as_slice(), &options).unwrap_err();
    assert_eq!(error.reason(), "LimitExceeded", "{error}");
}

/// GNU tar fails if the link leaves the directory, and writes through other links to their targets.
#[test]
fn paths_of_files_and_links_are_unique_and_have_no_children() {
    let linked = |target: &str| link(tar().file("manifests/a", "1"), b'2', "data", target);
    let (twice, below) = ("appears twice", "requires one; remove one of them");
    for (tar, expected) in tests::rows![
        tar().file("a", "1").with(b'2', "a", b"") => twice;
        tar().with(b'2', "a", b"").file("a", "1") => twice;
        tar().with(b'2', "a", b"").with(b'2', "./a", b"") => twice;
        link(tar(), b'1', "a", "b").with(b'6', "a", b"") => twice;
        linked("../x").file("data/file", "1") => below;
        linked("other").file("./data//deep/file", "1") => below;
        tar().file("data/file", "1").with(b'2', "data", b"") => below;
        linked("x").with(b'2', "data/link", b"") => below;
        tar().with(b'2', "data/link", b"").with(b'6', "data", b"") => below;
        tar().file("data", "1").with(b'2', "data/link", b"") => below;
        tar().with(b'2', "data/link", b"").file("data", "1") => below;
        link(linked("x"), b'1', "data/hard", "manifests/a") => below;
    ] {
        let error = stream_tree(tar.end().as_slice(), &Options::default()).unwrap_err();
        let text = error.to_string();
        assert_has(&text, expected);
        if expected == below {
            assert_eq!(error.reason(), "InvalidPath", "{text}");
            let start = "\"data\" is not a directory, but \"data/";
            assert!(text.starts_with(start) && text.ends_with(below), "{text}");
        }
    }
    let beside = linked("x").file("data.yaml", "").file("data2/file", "");
    assert_rows!(outcome(&read(beside)) => "data.yaml data2/file manifests/a: 1 symbolic link (data)");
}

#[test]
fn links_of_a_local_bundle_to_its_own_files_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let named = "annotations: {operators.operatorframework.io.bundle.manifests.v1: deploy/}";
    write(root, "shared/annotations.yaml", named);
    for (path, text) in pairs("shared/crd.yaml crd, deploy/csv.yaml csv") {
        write(root, path, text);
    }
    fs::create_dir(root.join("metadata")).unwrap();
    fs::create_dir(root.join("deploy/deep")).unwrap();
    // Only the link to the annotations shows that the manifests are in deploy.
    let links = "../shared/crd.yaml deploy/crd.yaml, ../../shared/crd.yaml deploy/deep/crd.yaml, ./csv.yaml deploy/same.yaml, \
                 ../shared/annotations.yaml metadata/annotations.yaml, shared/crd.yaml latest";
    for (target, path) in pairs(links) {
        symlink(target, root.join(path)).unwrap();
    }
    let (tree, _) = open_tree(root, &Options::default()).unwrap();
    let expected = "deploy/crd.yaml deploy/csv.yaml deploy/deep/crd.yaml deploy/same.yaml metadata/annotations.yaml \
                    shared/annotations.yaml shared/crd.yaml: 1 symbolic link (latest)";
    assert_eq!(outcome(&tree), expected);
    assert_rows!(tree.into_content().unwrap().read("deploy/crd.yaml").unwrap() => "crd");
    // The content of followed links counts.
    let options = with!(Options::default() => limits.total: named.len() as u64 + 8);
    let error = open_tree(root, &options).unwrap_err();
    assert_eq!(error.reason(), "LimitExceeded", "{error}");
}

#[test]
fn other_links_of_a_local_bundle_are_rejected() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret", "s");
    let secret = outside.path().join("secret");
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, "manifests/a", "1");
    write(root, "deep/file", "2");
    symlink("deep", root.join("indirect")).unwrap();
    symlink(outside.path(), root.join("out")).unwrap();
    let name = outside.path().file_name().unwrap().display();
    let beside = format!("../../{name}/secret");
    let inside = root.join("manifests/a");
    let odd = "../out/secret ../indirect/file ../deep/../deep/file ../deep link nowhere a/ .. .";
    let absolute = [&secret, &inside].map(|path| path.to_str().unwrap());
    for target in absolute.into_iter().chain([&*beside]).chain(odd.split(' ')) {
        let link = root.join("manifests/link");
        symlink(target, &link).unwrap();
        let (tree, _) = open_tree(root, &Options::default()).unwrap();
        let found = outcome(&tree);
        let expected = "deep/file manifests/a: entry \"manifests/link\" is a symbolic link to ";
        assert!(found.starts_with(expected), "{target}: {found}");
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_delivered_archive_keeps_the_digest_of_the_files() {
    let (file, long) = (tar().file("b/manifests/a", "1"), "x".repeat(150));
    let linked = link(file, b'2', "b/manifests/l", &long);
    let tree = read(linked.entries("1 b/hard, 6 b/fifo, S b/sparse 1, 2 latest"));
    let mut archive = Vec::new();
    assert_rows!(tree.deliver(&mut archive).unwrap() => tree.write_tar(std::io::sink()).unwrap());
    let (received, _) = stream_tree(archive.as_slice(), &Options::default()).unwrap();
    let kinds = |tree: &Tree| -> Vec<(String, Kind)> {
        let entries = tree.irregular();
        let kinds = entries.map(|(path, entry)| (path.to_owned(), entry.kind));
        kinds.collect()
    };
    let mut sent = kinds(&tree);
    assert_eq!(sent[0].0, "../latest");
    sent[0].0 = ".../latest".to_owned();
    assert_eq!(kinds(&received), sent);
    let refusal = |tree: &Tree| tree.ensure_regular().unwrap_err().to_string();
    assert_eq!(refusal(&received), refusal(&tree));

    // Without such entries the archive equals the packed one.
    let plain = read(tar().file("manifests/a", "1"));
    let (mut delivered, mut packed) = (Vec::new(), Vec::new());
    plain.deliver(&mut delivered).unwrap();
    plain.pack(Format::Tar, &mut packed).unwrap();
    let mut inflated = Vec::new();
    let mut gzip = GzDecoder::new(delivered.as_slice());
    gzip.read_to_end(&mut inflated).unwrap();
    assert_eq!(inflated, packed);
}

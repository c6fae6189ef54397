use crate::*;

/// Reads plain and compressed archives alike. Paths are compared whole, and messages by a part.
#[track_caller]
fn assert_outcome(tar: &[u8], expected: &str) {
    for bytes in [tar.to_vec(), gzip(tar)] {
        assert_read(&bytes, expected);
    }
}

#[track_caller]
fn assert_read(bytes: &[u8], expected: &str) {
    let found = outcome(stream(bytes, &Options::default()));
    if expected.ends_with(" links") {
        assert_eq!(found, expected);
    } else {
        assert_has(&found, expected);
    }
}

#[test]
fn entries_are_read_or_rejected_with_a_remedy() {
    let long = format!("{}/{}", "d".repeat(90), "f".repeat(90));
    for (tar, expected) in tests::rows![
        tar().file("a", "1").file("b/c", "2") => "a b/c +0 links";
        tar().file("./a", "1").with(b'5', "./", b"") => "a +0 links";
        tar().with(b'5', "b", b"").with(b'5', "b/", b"").file("b/c", "") => "b/c +0 links";
        tar().with(0, "old", b"1").with(b'7', "contiguous", b"2") => "contiguous old";
        tar().with(0, "old/", b"").file("old/a", "") => "old/a +0 links";
        tar().file("a", "").with(b'2', "link", b"") => "a +1 links";
        tar().with(b'L', "././@LongLink", format!("{long}\0").as_bytes()).file("short", "") => &long;
        tar().with(b'L', "././@LongLink", long.as_bytes()).file("short", "") => &long;
        tar().with(b'K', "././@LongLink", b"far\0").with(b'2', "link", b"") => " +1 links";
        tar().pax(b'x', &[("path", &long), ("mtime", "1.5")]).file("short", "") => &long;
        tar().pax(b'x', &[("path", "grün")]).file("short", "") => "grün +0";
        tar().pax(b'x', &[("size", "1")]).file("a", "1") => "a +0";
        tar().pax(b'g', &[("comment", "0123abcd")]).file("a", "1") => "a +0";
        tar() => " +0 links";
        // Names that cannot be content.
        tar().file("../a", "") => "leaves the root";
        tar().file(&format!("{}b", "a/".repeat(40)), "") => "limit of 32 directories";
        tar().file("a/../../b", "") => "leaves the root";
        tar().file("/etc/passwd", "") => "is absolute";
        tar().file("a\nb", "") => "control character";
        tar().with(b'5', "/etc/", b"") => "is absolute";
        tar().with(b'2', "../link", b"") => "leaves the root";
        tar().pax(b'x', &[("path", "../a")]).file("a", "") => "leaves the root";
        tar().pax(b'x', &[("path", "a\0b")]).file("a", "") => "control character";
        tar().with(b'L', "long", b"../a\0").file("a", "") => "leaves the root";
        tar().with(b'L', "long", b"a\0b\0").file("a", "") => "control character";
        tar().entry(b'0', b"a\xffb", 0, b"") => "name \"a\u{fffd}b\" is not UTF-8; rename";
        tar().file("a", "1").file("./a", "2") => "entry \"a\" appears twice";
        tar().file("a", "1").file("a/b", "2") => "\"a\" is not a directory, but \"a/b\" requires one; remove one of them";
        // Ambiguous entries.
        tar().with(b'1', "h", b"1") => "entry \"h\" is a link or a device with content; pack the bundle";
        tar().with(b'3', "c", b"1") => "a link or a device with content";
        tar().with(b'V', "volume", b"") => "is of an unknown kind";
        tar().with(b'5', "d/", b"12345") => "a directory or a symbolic link with content";
        tar().with(b'0', "d/", b"12345") => "a directory or a symbolic link with content";
        tar().with(b'2', "l", b"12345") => "a directory or a symbolic link with content";
        tar().pax(b'x', &[("size", "2")]).file("a", "1") => "is declared with two different sizes";
        tar().with(b'L', "l", b"one").pax(b'x', &[("path", "two")]).file("a", "") => "named differently by two";
        tar().pax(b'x', &[]).pax(b'x', &[]).file("a", "") => "two extended headers of the same kind";
        tar().with(b'L', "l", b"a").with(b'L', "l", b"b").file("a", "") => "two extended headers of the same kind";
        tar().with(b'x', "pax", b"rubbish").file("a", "") => "is malformed";
        tar().with(b'g', "pax", b"rubbish").file("a", "") => "is malformed";
        tar().pax(b'g', &[("path", "b")]).file("a", "") => "sets one name or size for all entries";
        tar().pax(b'x', &[("path", "b")]) => "truncated after an extended header";
    ] {
        assert_outcome(&tar.end(), expected);
    }
}

#[test]
fn other_formats_are_reported_by_name() {
    let zstd = zstd::encode_all(&b"x"[..], 1).unwrap();
    let window = [&b"\x28\xb5\x2f\xfd\x00\xa8"[..], &[0; 100]].concat(); // two gigabytes
    for (bytes, expected) in tests::rows![
        b"".as_slice() => "the archive is empty";
        b"x" => "not a tar archive, plain or compressed with gzip or zstd, but of an unknown format";
        &[0; 10] => "of an unknown format";
        &[b'x'; 4096] => "of an unknown format";
        b"PK\x03\x04" => "but a zip archive; pack the bundle with \"tar czf\"";
        b"\x28\xb5\x2f\xfd\0" => "truncated at byte 0";
        b"\x28\xb5\x2f\xfd not zstd" => "cannot be decompressed";
        &window => "cannot be decompressed; fetch it again or pack it again: Frame requires too much memory";
        &zstd => "something else compressed with zstd";
        b"{\"kind\": 1}" => "JSON";
        b"<?xml" => "but HTML or XML";
        b"\x1f\x8b" => "truncated at byte 0";
        b"\x1f\x8b\x07 not gzip" => "cannot be decompressed";
        &gzip(b"") => "the archive is empty";
        &gzip(b"x") => "something else compressed with gzip";
        &gzip(&gzip(b"x")) => "compressed with gzip twice";
    ] {
        assert_read(bytes, expected);
    }
}

#[test]
fn truncated_archive_is_never_accepted() {
    let is_cut =
        |error: &Error| matches!(error, Error::Truncated { .. } | Error::NotArchive { .. });
    let whole = tar().file("a", &"1".repeat(700)).file("b", "2").end();
    let whole = &whole[..whole.len() - 512]; // one block of zeros is enough
    assert_outcome(whole, "a b +0");
    for end in 0..whole.len() {
        let error = stream(&whole[..end], &Options::default()).unwrap_err();
        let is_cut = is_cut(&error) || matches!(error, Error::Empty);
        assert_rows!(is_cut && (end < 512 || !error.is_terminal()) => true, "{end}: {}", chain(&error));
    }
    let packed = gzip(whole);
    for end in 1..packed.len() {
        let error = stream(&packed[..end], &Options::default()).unwrap_err();
        assert_rows!(is_cut(&error) => true, "{end}: {}", chain(&error));
    }
    let packed = zstd::encode_all(whole, 3).unwrap();
    for end in 1..packed.len() {
        assert_rows!(stream(&packed[..end], &Options::default()).is_err() => true, "{end}");
    }
    let error = stream(&whole[..900], &Options::default()).unwrap_err();
    assert_rows!(chain(&error) => "the archive is truncated in \"a\"; fetch it again or pack it again");
}

#[test]
fn archive_ends_at_its_end_marker() {
    let [a, b] = ["a", "b"].map(|name| tar().file(name, "").end());
    let joined = "data follows the end marker, as in archives joined with cat";
    assert_outcome(&[&*a, &b].concat(), joined);
    assert_outcome(&[&*a, &[0; 10_240]].concat(), "a +0 links");
    let (unmarked, marked) = (tar().file("a", "1").open(), tar().file("a", "1").end());
    let (head, tail) = marked.split_at(300);
    let mut wrong = gzip(&marked);
    let at = wrong.len() - 6;
    wrong[at] ^= 1;
    for (bytes, expected) in tests::rows![
        unmarked.clone() => "truncated at byte 1024";
        gzip(&unmarked) => "a +0 links";
        [gzip(head), gzip(b""), gzip(tail)].concat() => "a +0 links";
        wrong => "cannot be decompressed";
    ] {
        assert_read(&bytes, expected);
    }
    for trailing in [
        &b"x"[..],
        b"rubbish",
        &[0; 512],
        b"rubbish without a gzip header",
    ] {
        let trailed = [&gzip(&marked), trailing].concat();
        let error = stream(trailed.as_slice(), &Options::default()).unwrap_err();
        assert!(error.is_terminal());
        let expected = "the archive is corrupt at byte 1536 of the tar: data follows the end of the gzip stream and cannot be \
                        decompressed; fetch it again or pack it again";
        assert_eq!(chain(&error), expected);
    }
}

#[test]
fn corrupt_headers_are_reported_with_their_offset() {
    let mut bytes = tar().file("a", "1").file("b", "2").end();
    bytes[1024] ^= 1;
    let damaged = "corrupt at byte 1024 of the tar: invalid header checksum";
    assert_outcome(&bytes, damaged);
    let mut unnumbered = tar().file("a", "1").end();
    unnumbered[124..135].copy_from_slice(b"9999999999x");
    fix_checksums(&mut unnumbered);
    assert_outcome(&unnumbered, "the size of an entry is not a number");
}

#[test]
fn only_the_selected_part_is_read_and_the_rest_is_counted() {
    let archive = tar()
        .entries("0 manifests/csv.yaml csv, 0 manifests2/x x")
        .file("tests/big", &"1".repeat(5000))
        .entries("2 tests/link, 0 metadata/annotations.yaml a, 0 README r");
    let select = only(&["manifests/", "./metadata", "README"]);
    let options = with!(Options::default() => limits.file: 10, select: select);
    let unpacked = stream(archive.clone().end().as_slice(), &options).unwrap();
    let (readme, csv) = (("README", "r"), ("manifests/csv.yaml", "csv"));
    assert_rows!(listed(&unpacked.content) => [readme, csv, ("metadata/annotations.yaml", "a")]);
    assert_rows!((unpacked.unselected, unpacked.content.irregular().count()) => (3, 0));
    // Names of entries that are not read are checked all the same.
    let error = stream(archive.file("../tests", "").end().as_slice(), &options).unwrap_err();
    assert_has(chain(&error), "leaves the root");
}

#[test]
fn formats_are_detected_by_content_and_errors_name_files() {
    let directory = tempfile::tempdir().unwrap();
    let opened = |name: &str| open(&directory.path().join(name), &Options::default());
    let tar = tar().file("a", "1").end();
    for (name, bytes) in [("bundle.zip", tar.clone()), ("bundle", gzip(&tar))] {
        write(directory.path(), name, bytes);
        assert_eq!(outcome(opened(name)), "a +0 links");
    }
    write(directory.path(), "empty.tgz", "");
    let error = opened("empty.tgz").unwrap_err();
    let text = chain(&error);
    assert_rows!(text.starts_with("failed to unpack \"") && text.contains("empty.tgz\": the archive is empty") => true, "{text}");
    assert_eq!(kind(&error), ("ArchiveTruncated", false));
    let missing = opened("none").unwrap_err();
    assert_has(chain(&missing), "none\"; check that it exists");
}

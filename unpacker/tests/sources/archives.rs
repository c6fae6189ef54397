use std::fs;

use unpacker::{Error, Limits, Options, Selection, stream};

use crate::{
    chain, listed, outcome,
    raw::{Tar, gzip},
};

fn tar() -> Tar {
    Tar::default()
}

/// Plain and compressed must come out the same.
#[track_caller]
fn assert_outcome(tar: &[u8], expected: &str) {
    let options = Options::default();
    for bytes in [tar.to_vec(), gzip(tar)] {
        let found = outcome(stream(bytes.as_slice(), &options));
        assert!(
            found.contains(expected),
            "\n found {found}\nwanted {expected}"
        );
    }
}

#[test]
fn ordinary_archives_are_read_whatever_wrote_them() {
    let long = format!("{}/{}", "d".repeat(90), "f".repeat(90));
    let cases = tests::rows![
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
    ];
    for (tar, expected) in cases {
        assert_outcome(&tar.end(), expected);
    }
}

#[test]
fn names_that_cannot_be_content_are_refused() {
    let cases = tests::rows![
        tar().file("../a", "") => "leaves the root";
        tar().file(&format!("{}b", "a/".repeat(40)), "") => "limit of 32 folders";
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
    ];
    for (tar, expected) in cases {
        assert_outcome(&tar.end(), expected);
    }
}

#[test]
fn ambiguous_entries_are_refused_with_a_remedy() {
    let cases = tests::rows![
        tar().with(b'1', "h", b"1") => "entry \"h\" is a link or a device with content; pack the bundle";
        tar().with(b'3', "c", b"1") => "a link or a device with content";
        tar().with(b'V', "volume", b"") => "is of an unknown kind";
        tar().with(b'5', "d/", b"12345") => "a folder or a symbolic link with content";
        tar().with(b'0', "d/", b"12345") => "a folder or a symbolic link with content";
        tar().with(b'2', "l", b"12345") => "a folder or a symbolic link with content";
        tar().pax(b'x', &[("size", "2")]).file("a", "1") => "is given two sizes";
        tar().with(b'L', "l", b"one").pax(b'x', &[("path", "two")]).file("a", "") => "named differently by two";
        tar().pax(b'x', &[]).pax(b'x', &[]).file("a", "") => "two extended headers of one kind";
        tar().with(b'L', "l", b"a").with(b'L', "l", b"b").file("a", "") => "two extended headers of one kind";
        tar().with(b'x', "pax", b"rubbish").file("a", "") => "is not well formed";
        tar().with(b'g', "pax", b"rubbish").file("a", "") => "is not well formed";
        tar().pax(b'g', &[("path", "b")]).file("a", "") => "gives all entries one name or size";
        tar().pax(b'x', &[("path", "b")]) => "cut short behind an extended header";
    ];
    for (tar, expected) in cases {
        assert_outcome(&tar.end(), expected);
    }
}

#[test]
fn what_is_no_archive_is_called_what_it_is() {
    for (bytes, expected) in tests::rows![
        b"".as_slice() => "the archive is empty";
        b"x" => "neither a tar nor one compressed with gzip or zstd, but of an unknown format";
        &[0; 10] => "of an unknown format";
        &[b'x'; 4096] => "of an unknown format";
        b"PK\x03\x04" => "but a zip; pack the bundle with \"tar czf\"";
        b"\x28\xb5\x2f\xfd\0" => "cut short at byte 0";
        b"\x28\xb5\x2f\xfd not zstd" => "cannot be decompressed";
        b"{\"kind\": 1}" => "JSON";
        b"\x1f\x8b" => "cut short at byte 0";
        b"\x1f\x8b\x07 not gzip" => "cannot be decompressed";
        &gzip(b"") => "the archive is empty";
        &gzip(b"x") => "something else compressed with gzip";
        &gzip(&gzip(b"x")) => "compressed with gzip twice";
    ] {
        let found = outcome(stream(bytes, &Options::default()));
        assert!(
            found.contains(expected),
            "\n found {found}\nwanted {expected}"
        );
    }
}

#[test]
fn an_archive_that_was_cut_anywhere_is_never_taken_for_a_whole_one() {
    let whole = tar().file("a", &"1".repeat(700)).file("b", "2").end();
    let whole = &whole[..whole.len() - 512]; // one block of zeros is enough
    assert_outcome(whole, "a b +0");
    for end in 0..whole.len() {
        let error = stream(&whole[..end], &Options::default()).unwrap_err();
        let is_cut = matches!(
            error,
            Error::Empty | Error::Truncated { .. } | Error::NotArchive { .. }
        );
        assert!(
            is_cut && (end < 512 || !error.is_terminal()),
            "{end}: {}",
            chain(&error)
        );
    }
    let packed = gzip(whole);
    for end in 1..packed.len() {
        let error = stream(&packed[..end], &Options::default()).unwrap_err();
        let is_cut = matches!(error, Error::Truncated { .. } | Error::NotArchive { .. });
        assert!(is_cut, "{end}: {}", chain(&error));
    }
    let error = stream(&whole[..900], &Options::default()).unwrap_err();
    assert_eq!(
        chain(&error),
        "the archive is cut short in \"a\"; fetch it again or pack it again"
    );
}

#[test]
fn the_end_is_the_end() {
    let options = Options::default();
    let joined = [tar().file("a", "").end(), tar().file("b", "").end()].concat();
    assert_outcome(
        &joined,
        "data follows the end marker, as in archives joined with cat",
    );
    let padded = [tar().file("a", "").end(), vec![0; 10_240]].concat();
    assert_outcome(&padded, "a +0 links");

    let unmarked = tar().file("a", "1").open();
    let found = outcome(stream(unmarked.as_slice(), &options));
    assert!(found.contains("cut short at byte 1024"), "{found}");
    assert_eq!(
        outcome(stream(gzip(&unmarked).as_slice(), &options)),
        "a +0 links"
    );

    let marked = tar().file("a", "1").end();
    let (head, tail) = marked.split_at(300);
    let members = [gzip(head), gzip(b""), gzip(tail)].concat();
    assert_eq!(outcome(stream(members.as_slice(), &options)), "a +0 links");
    let trailed = [gzip(&marked), b"rubbish that is no gzip".to_vec()].concat();
    let found = outcome(stream(trailed.as_slice(), &options));
    assert!(found.contains("cannot be decompressed"), "{found}");
    for trailing in [&b"x"[..], b"rubbish", &[0; 512], b"rubbish that is no gzip"] {
        let trailed = [&gzip(&marked), trailing].concat();
        let error = stream(trailed.as_slice(), &options).unwrap_err();
        assert!(error.is_terminal());
        assert_eq!(
            chain(&error),
            "the archive is damaged at byte 1536 of the tar: data follows the end of the gzip stream and cannot be \
             decompressed; fetch it again or pack it again"
        );
    }
    let mut wrong = gzip(&marked);
    let at = wrong.len() - 6;
    wrong[at] ^= 1;
    let found = outcome(stream(wrong.as_slice(), &options));
    assert!(found.contains("cannot be decompressed"), "{found}");
}

#[test]
fn damaged_headers_say_where() {
    let mut bytes = tar().file("a", "1").file("b", "2").end();
    bytes[1024] ^= 1;
    assert_outcome(
        &bytes,
        "damaged at byte 1024 of the tar: the checksum of a header is wrong",
    );
    let mut unnumbered = tar().file("a", "1");
    unnumbered.0[124..135].copy_from_slice(b"9999999999x");
    let sum: u32 = (0..512)
        .map(|at| {
            if (148..156).contains(&at) {
                32
            } else {
                u32::from(unnumbered.0[at])
            }
        })
        .sum();
    unnumbered.0[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_outcome(&unnumbered.end(), "the size of an entry is not a number");
}

#[test]
fn only_the_selected_part_is_read_and_the_rest_is_counted() {
    let archive = tar()
        .file("manifests/csv.yaml", "csv")
        .file("manifests2/x", "x")
        .file("tests/big", &"1".repeat(5000))
        .with(b'2', "tests/link", b"")
        .file("metadata/annotations.yaml", "a");
    let options = Options {
        limits: Limits {
            file: 10,
            ..Limits::default()
        },
        select: Selection::Only(vec!["manifests/".to_owned(), "./metadata".to_owned()]),
        ..Options::default()
    };
    let unpacked = stream(archive.clone().end().as_slice(), &options).unwrap();
    assert_eq!(
        listed(&unpacked.content),
        [
            ("manifests/csv.yaml", "csv"),
            ("metadata/annotations.yaml", "a")
        ]
    );
    assert_eq!(
        (unpacked.unselected, unpacked.content.irregular().count()),
        (3, 0)
    );
    let error = stream(archive.file("../tests", "").end().as_slice(), &options).unwrap_err();
    assert!(
        chain(&error).contains("leaves the root"),
        "what is not read is checked all the same"
    );
}

#[test]
fn files_are_told_apart_by_content_and_errors_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let tar = tar().file("a", "1").end();
    for (name, bytes) in [("bundle.zip", tar.clone()), ("bundle", gzip(&tar))] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        assert_eq!(
            outcome(unpacker::open(&path, &Options::default())),
            "a +0 links"
        );
    }
    let path = folder.path().join("empty.tgz");
    fs::write(&path, "").unwrap();
    let error = unpacker::open(&path, &Options::default()).unwrap_err();
    let text = chain(&error);
    assert!(
        text.starts_with("failed to unpack \"")
            && text.contains("empty.tgz\": the archive is empty"),
        "{text}"
    );
    assert_eq!(
        (error.reason(), error.is_terminal()),
        ("ArchiveTruncated", false)
    );
    let error = unpacker::open(&folder.path().join("none"), &Options::default()).unwrap_err();
    assert!(
        chain(&error).contains("none\"; check that it exists"),
        "{}",
        chain(&error)
    );
}

//! Untrusted image layers, from top to bottom.

mod limits;
mod links;
mod symlinks;

use crate::*;

fn options() -> Options {
    with!(Options::default() => select: only(&["manifests", "app/metadata"]))
}

fn push(layers: &mut Layers, layer: impl Read) -> Result<()> {
    layers.push("sha256:0", layer)
}

fn read(layers: &[Vec<u8>], options: &Options) -> Result<(Tree, usize)> {
    let mut stack = Layers::new(options)?;
    for layer in layers {
        push(&mut stack, layer.as_slice())?;
    }
    Ok(stack.finish())
}

/// Returns paths with the text of the files, or the last hard link without a target, or the error message.
fn outcome(result: Result<(Tree, usize)>) -> String {
    let tree = match result {
        Ok((tree, _)) => tree,
        Err(error) => return chain(&error),
    };
    let entries = tree.irregular();
    let links = entries.filter(|(_, entry)| entry.kind == Kind::HardLink);
    if let Some((path, link)) = links.last() {
        return format!("{path} is {link}");
    }
    let content = tree.into_content().unwrap();
    let files = listed(&content).into_iter();
    let files = files.map(|(path, text)| format!("{path}={text}"));
    files.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn assert_outcome(layers: Vec<Tar>, expected: &str) {
    let layers: Vec<_> = layers.into_iter().map(Tar::end).collect();
    let zstd = |tar: &Vec<u8>| zstd::encode_all(tar.as_slice(), 1).unwrap();
    for layers in [
        layers.clone(),
        layers.iter().map(|tar| gzip(tar)).collect(),
        layers.iter().map(zstd).collect(),
    ] {
        let found = outcome(read(&layers, &options()));
        let is_message = expected.contains(' ') && !expected.contains('=');
        let fits = found == expected || is_message && found.contains(expected);
        assert!(fits, "\n found {found}\nwanted {expected}");
    }
}

#[test]
fn upper_layers_win_and_hide() {
    let lower = || tar().entries("0 manifests/a 1, 0 manifests/b/c 2, 0 app/metadata/m 3");
    for (upper, expected) in tests::rows![
        tar() => "app/metadata/m=3 manifests/a=1 manifests/b/c=2";
        tar().file("manifests/a", "new") => "app/metadata/m=3 manifests/a=new manifests/b/c=2";
        tar().file("/manifests/.wh.a", "") => "app/metadata/m=3 manifests/b/c=2";
        tar().file("manifests/.wh.b", "").file("manifests/b/d", "4") => "app/metadata/m=3 manifests/a=1 manifests/b/d=4";
        tar().file("manifests/b/d", "4").file("manifests/.wh.b", "") => "app/metadata/m=3 manifests/a=1 manifests/b/d=4";
        tar().file("manifests/.wh..wh..opq", "").file("manifests/d", "4") => "app/metadata/m=3 manifests/d=4";
        tar().file(".wh..wh..opq", "") => "";
        // A link hides the paths below it, and is not followed.
        tar().with(b'2', "manifests", b"") => "app/metadata/m=3";
        tar().with(b'2', "app", b"") => "manifests/a=1 manifests/b/c=2";
        // Metadata of aufs, and whiteouts of unselected paths.
        tar().file(".wh..wh.aufs", "").file(".wh..wh.plnk/1.2", "").file("etc/.wh.x", "")
            => "app/metadata/m=3 manifests/a=1 manifests/b/c=2";
        tar().file("manifests/.wh..wh..opq", "").file("manifests/a", "6").with(b'5', "manifests/b/", b"")
            => "app/metadata/m=3 manifests/a=6";
        // A directory hides a file, and not a directory.
        tar().with(b'5', "manifests/a/", b"").with(b'5', "manifests/b/", b"") => "app/metadata/m=3 manifests/b/c=2";
        tar().file("manifests/a/x", "4") => "app/metadata/m=3 manifests/a/x=4 manifests/b/c=2";
        tar().file("manifests/a/.wh.x", "") => "app/metadata/m=3 manifests/b/c=2";
    ] {
        assert_outcome(vec![upper, lower()], expected);
    }
    for (upper, between, expected) in tests::rows![
        tar().file("manifests/a", "back"), tar().file("manifests/.wh.a", "")
            => "app/metadata/m=3 manifests/a=back manifests/b/c=2";
        tar().with(b'5', "manifests/b/", b""), tar().file("manifests/b", "") => "app/metadata/m=3 manifests/a=1";
        tar().with(b'5', "manifests/b/", b""), tar().file("manifests/.wh.b", "") => "app/metadata/m=3 manifests/a=1";
        tar(), tar().file("manifests/.wh.b", "") => "app/metadata/m=3 manifests/a=1";
        tar().file("manifests/b/.wh..wh..opq", ""), tar().file("manifests/b/d", "4") => "app/metadata/m=3 manifests/a=1";
        tar().file("manifests/b/d", "4"), tar().file("manifests/b", "") => "app/metadata/m=3 manifests/a=1 manifests/b/d=4";
        tar().file("manifests/b", "4"), tar().with(b'5', "manifests/b/", b"") => "app/metadata/m=3 manifests/a=1 manifests/b=4";
        tar().file("manifests/b", "4"), tar().file("manifests/bc", "5")
            => "app/metadata/m=3 manifests/a=1 manifests/b=4 manifests/bc=5";
    ] {
        assert_outcome(vec![upper, between, lower()], expected);
    }
}

#[test]
fn names_are_resolved_within_the_root_of_the_image() {
    for (layer, expected) in tests::rows![
        tar().file("/manifests/a", "1") => "manifests/a=1";
        tar().with(b'5', "/", b"").with(b'5', "./", b"").file("./manifests//a", "1") => "manifests/a=1";
        tar().file("manifests/a", "1").file("manifests/A", "2").file("Manifests/a", "3") => "manifests/A=2 manifests/a=1";
        tar().file("manifests/a", "1").entry(b'0', b"etc/\xff", 0, b"") => "manifests/a=1";
        tar().file("manifests/a", "1").file("etc/a\\x2db", "").file("etc/a\nb", "") => "manifests/a=1";
        tar().entry(b'0', b"manifests/\xff", 0, b"") => "is not UTF-8; rename the file";
        tar().file("manifests/a\\b", "") => "contains a backslash";
        tar().file("../a", "") => "named with \"..\"; build the image again";
        tar().with(b'5', "..", b"") => "named with \"..\"";
        tar().pax(b'x', &[("path", "manifests\0/a")]).file("a", "") => "named with a zero byte";
        tar().file("manifests", "a file") => "manifests=a file";
        tar().file("./", "").file(".", "") => "the root of the image, but not a directory";
        // whiteouts
        tar().file("manifests/.wh.", "") => "a whiteout without a name";
        tar().file(".wh..", "") => "a whiteout without a name";
        tar().file(".wh.manifests/a", "") => "below a whiteout";
        tar().file(&format!("manifests/{}", "d/".repeat(40)), "") => "limit of 32 directories";

        // Entries that tools interpret differently.
        tar().file("manifests/a", "1").file("manifests/a", "2") => "\"manifests/a\" appears twice; keep one";
        tar().file("etc/a", "1").file("etc/a", "2") => "";
        tar().with(b'5', "manifests/", b"").with(b'5', "manifests/", b"").file("manifests/a", "1") => "manifests/a=1";
        tar().with(b'2', "manifests", b"").file("manifests/a", "1")
            => "\"manifests\" is not a directory, but \"manifests/a\" requires one";
        tar().file("manifests/a", "1").with(b'2', "manifests", b"")
            => "\"manifests\" is not a directory, but \"manifests/a\" requires one";
        tar().with(b'2', "app", b"").file("app/metadata/m", "") => "\"app\" is not a directory, but";
        tar().file("manifests/a", "").with(b'5', "manifests/a/", b"")
            => "\"manifests/a\" is not a directory, but \"manifests/a/\"";
        tar().file("manifests/a", "1").file("manifests/a/.wh..wh..opq", "") => "manifests/a=1";
        tar().file("manifests/a", "1").file("manifests/a/.wh.b", "") => "manifests/a=1";
        tar().file("manifests/a", "1").file("manifests/.wh.a", "").file("manifests/b/c", "2").file("manifests/b/.wh.c", "")
            => "manifests/a=1 manifests/b/c=2";
        tar().file("manifests/a", "1").with(b'5', "manifests/", b"") => "manifests/a=1";
        tar().with(b'5', "manifests/a/", b"").file("manifests/a", "")
            => "\"manifests/a\" is not a directory, but \"manifests/a/\"";
        tar().file("manifests/a", "").with(b'5', "manifests/a/b/", b"")
            => "\"manifests/a\" is not a directory, but \"manifests/a/b";
        tar().with(b'5', "manifests/b/c/", b"").file("manifests/b", "")
            => "\"manifests/b\" is not a directory, but \"manifests/b/c";
        tar().with(b'5', "etc/", b"12345") => "a directory or a symbolic link with content";
        tar().with(b'1', "etc/hard", b"12345") => "a link or a device with content";
        tar().with(b'3', "dev/x", b"12345") => "a link or a device with content";
        tar().pax(b'x', &[("size", "2")]).file("etc/a", "1") => "is declared with two different sizes";
        tar().with(b'L', "l", b"one").pax(b'x', &[("path", "two")]).file("a", "") => "named differently by two";
    ] {
        assert_outcome(vec![layer], expected);
    }
}

#[test]
fn irregular_entries_are_recorded_unless_hidden() {
    let mut sparse =
        with!(tar().entry(b'S', b"etc/sparse", 512, b"") => |sparse| sparse.0[482] = 1);
    fix_checksums(&mut sparse.0);
    for more in [1, 0] {
        sparse.0.extend(with!([0; 512] => |map| map[504] = more));
    }
    sparse.0.extend([b'x'; 512]);
    let capability = ("SCHILY.xattr.security.capability", "=");
    let outside = sparse
        .entries("3 dev/null, 4 dev/disk, 6 run/pipe, 2 lib, V etc/volume 12345")
        .pax(b'x', &[("GNU.sparse.major", "1"), capability])
        .file("usr/holes", "12345");
    let (tree, unselected) = read(&[outside.file("manifests/a", "1").end()], &options()).unwrap();
    assert_rows!((tree.len(), unselected, tree.irregular().count()) => (1, 7, 0));
    for (kind, expected) in [
        (b'2', "is a symbolic link"),
        (b'3', "is a device, FIFO or socket"),
        (b'4', "is a device, FIFO or socket"),
        (b'6', "is a device, FIFO or socket"),
        (b'S', "is a sparse file"),
    ] {
        let lower = || tar().with(kind, "manifests/x", b"");
        let (tree, _) = read(&[lower().end()], &options()).unwrap();
        let error = tree.ensure_regular().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let upper = tar().file("manifests/.wh.x", "");
        let (tree, _) = read(&[upper.end(), lower().end()], &options()).unwrap();
        assert_eq!(tree.irregular().count(), 0);
    }
    // A link above a selected directory.
    let (tree, unselected) = read(&[tar().with(b'2', "app", b"").end()], &options()).unwrap();
    assert_rows!((tree.irregular().map(|(path, _)| path).collect::<Vec<_>>(), unselected) => (vec!["app"], 0));
    let unknown = || tar().with(b'V', "manifests/x", b"");
    assert_outcome(vec![unknown()], "is of an unknown kind");
    assert_outcome(vec![tar().file("manifests/.wh.x", ""), unknown()], "");
}

struct Dripping<R>(R);

impl<R: Read> Read for Dripping<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = buffer.len().min(1);
        self.0.read(&mut buffer[..end])
    }
}

#[test]
fn streams_of_single_bytes_frames_and_members_are_read_alike() {
    let text = "text ".repeat(500);
    let tar = tar().file("manifests/a", &text).file("b", "2").end();
    let (head, tail) = tar.split_at(700);
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let skipped = b"\x53\x2a\x4d\x18\x05\0\0\0notes".to_vec();
    let plain = outcome(read(std::slice::from_ref(&tar), &options()));
    assert!(plain.starts_with("manifests/a=text"), "{plain}");
    let empty = "failed to read layer sha256:0: the archive is empty";
    assert_has(outcome(read(&[Vec::new()], &options())), empty);
    for layer in [
        tar.clone(),
        gzip(&tar),
        [gzip(head), gzip(b""), gzip(tail)].concat(),
        zstd(&tar),
        [zstd(head), zstd(b""), skipped.clone(), zstd(tail)].concat(),
        [skipped.clone(), zstd(&tar), skipped].concat(),
    ] {
        let mut stack = Layers::new(&options()).unwrap();
        push(&mut stack, Dripping(layer.as_slice())).unwrap();
        assert_rows!([Ok(stack.finish()), read(&[layer], &options())].map(outcome) => [&*plain; 2]);
    }
}

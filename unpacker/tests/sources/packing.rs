use crate::*;

fn content(paths: &[&str]) -> Content {
    let file = |tar: Tar, path: &&str| tar.file(path, path.rsplit('/').next().unwrap());
    read(&paths.iter().fold(tar(), file).end())
}

fn read(archive: &[u8]) -> Content {
    stream(archive, &Options::default()).unwrap().content
}

#[test]
fn equal_content_packs_to_equal_bytes_in_any_order() {
    let long = format!("{}/{}", "d".repeat(99), "f".repeat(120));
    let one = content(&["a", "b/c", "d"]);
    let other = content(&["d", "b//c", "./a"]);
    let packed = |content: &Content, format| {
        let mut bytes = Vec::new();
        (pack(content, format, &mut bytes).unwrap(), bytes)
    };
    for format in [Format::Tar, Format::TarGz] {
        let first = packed(&one, format);
        assert_eq!(first, packed(&other, format));
        assert_eq!(read(&first.1), one);
    }
    // XFL in the gzip header is the compression level: images use the default, and archives the fastest.
    let (image, mut archive) = (packed(&one, Format::TarGz).1, Vec::new());
    let tree = Tree::from_content(one);
    tree.pack(Format::TarGz, &mut archive).unwrap();
    assert_eq!((image[8], archive[8]), (0, 4));
    let deep = tar().with(b'L', "long", long.as_bytes());
    let deep = read(&deep.file("x", "1").end());
    assert_eq!(read(&packed(&deep, Format::TarGz).1), deep);
}

#[test]
fn the_digest_is_that_of_the_bytes_written() {
    let digest = pack(&Content::default(), Format::Tar, io::sink()).unwrap();
    // sha256sum of 1024 zeros
    assert_rows!(digest.to_string() => "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef");
    let full: &mut [u8] = &mut [0; 10];
    let error = pack(&content(&["a"]), Format::TarGz, full).unwrap_err();
    assert!(matches!(error, Error::Write { .. }) && !error.is_terminal());
}

#[test]
fn bundle_is_moved_out_of_its_only_top_directory() {
    let rows = "
        bundle       | b-1.0/manifests/a b-1.0/metadata/x | manifests/a metadata/x
        metadata     | b/metadata/x b/other/a | metadata/x other/a
        at the top   | manifests/a metadata/x | manifests/a metadata/x
        twice        | manifests/manifests/a | manifests/manifests/a
        file beside  | b/manifests/a README | README b/manifests/a
        two          | b/manifests/a c/manifests/a | b/manifests/a c/manifests/a
        common start | b/manifests/a b-2/manifests/a | b-2/manifests/a b/manifests/a
        no bundle    | deploy/a deploy/b | deploy/a deploy/b
        a file       | b/manifests | b/manifests
        at the top alone | a | a
        nothing      | |
    ";
    table::compare(rows, &Values::default(), |[paths]: &[Cell; 1]| {
        let content = content(&paths.words().collect::<Vec<_>>());
        let tree = Tree::from_content(content).strip_top_folder();
        let paths = tree.files().map(|(path, _)| path);
        paths.collect::<Vec<_>>().join(" ")
    });
}

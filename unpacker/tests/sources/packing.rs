use std::io;

use unpacker::{Content, Error, Format, Options, pack, stream, strip_top_folder};

use crate::{listed, raw::Tar};

fn content(paths: &[&str]) -> Content {
    let tar = paths.iter().fold(Tar::default(), |tar, path| {
        tar.file(path, path.rsplit('/').next().unwrap())
    });
    stream(tar.end().as_slice(), &Options::default())
        .unwrap()
        .content
}

#[test]
fn equal_content_packs_to_equal_bytes_whatever_order_it_came_in() {
    let long = format!("{}/{}", "d".repeat(99), "f".repeat(120));
    let one = content(&["a", "b/c", "d"]);
    let other = content(&["d", "b//c", "./a"]);
    for format in [Format::Tar, Format::TarGz] {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert_eq!(
            pack(&one, format, &mut first).unwrap(),
            pack(&other, format, &mut second).unwrap()
        );
        assert_eq!(first, second);
        assert_eq!(
            stream(first.as_slice(), &Options::default())
                .unwrap()
                .content,
            one
        );
    }
    let tar = Tar::default()
        .with(b'L', "long", long.as_bytes())
        .file("x", "1")
        .end();
    let deep = stream(tar.as_slice(), &Options::default()).unwrap().content;
    let mut packed = Vec::new();
    pack(&deep, Format::TarGz, &mut packed).unwrap();
    assert_eq!(
        stream(packed.as_slice(), &Options::default())
            .unwrap()
            .content,
        deep
    );
}

#[test]
fn the_digest_is_that_of_the_bytes_written() {
    let digest = pack(&Content::default(), Format::Tar, io::sink()).unwrap();
    // sha256sum of 1024 zeros
    let zeros = "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef";
    assert_eq!(digest.to_string(), zeros);
    let full: &mut [u8] = &mut [0; 10];
    let error = pack(&content(&["a"]), Format::TarGz, full).unwrap_err();
    assert!(matches!(error, Error::Write { .. }) && !error.is_terminal());
}

#[test]
fn a_bundle_comes_out_of_its_only_folder_and_nothing_else_does() {
    for (paths, stripped) in [
        (
            &["b-1.0/manifests/a", "b-1.0/metadata/x"][..],
            &["manifests/a", "metadata/x"][..],
        ),
        (&["b/metadata/x", "b/other/a"], &["metadata/x", "other/a"]),
        (
            &["manifests/a", "metadata/x"],
            &["manifests/a", "metadata/x"],
        ),
        (&["manifests/manifests/a"], &["manifests/manifests/a"]),
        (&["b/manifests/a", "README"], &["README", "b/manifests/a"]),
        (
            &["b/manifests/a", "c/manifests/a"],
            &["b/manifests/a", "c/manifests/a"],
        ),
        (
            &["b/manifests/a", "b-2/manifests/a"],
            &["b-2/manifests/a", "b/manifests/a"],
        ),
        (&["deploy/a", "deploy/b"], &["deploy/a", "deploy/b"]),
        (&["b/manifests"], &["b/manifests"]),
        (&["a"], &["a"]),
        (&[], &[]),
    ] {
        let result = strip_top_folder(content(paths));
        let found: Vec<_> = listed(&result).into_iter().map(|(path, _)| path).collect();
        assert_eq!(found, stripped);
    }
}

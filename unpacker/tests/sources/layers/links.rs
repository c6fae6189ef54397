//! Hard links within layers.

use unpacker::{Limits, Options};

use super::{assert_outcome, options, outcome, read, tar};
use crate::raw::Tar;

/// A hard link, whose target stands in the header.
fn link(tar: Tar, name: &str, target: &str) -> Tar {
    tar.pax(b'x', &[("linkpath", target)]).with(b'1', name, b"")
}

#[test]
fn hard_links_keep_what_upper_layers_remove_under_another_name() {
    let missing = "manifests/b is a hard link to \"manifests/a\"";
    let file = || tar().file("manifests/a", "1");
    for (layers, expected) in tests::rows![
        vec![link(tar(), "manifests/b", "manifests/a"), file()] => missing;
        vec![tar().file("manifests/a", "2"), link(file(), "manifests/b", "manifests/a")] => "manifests/a=2 manifests/b=1";
        vec![tar().file("manifests/.wh.a", ""), link(file(), "manifests/b", "manifests/a")] => "manifests/b=1";
        vec![tar().file("manifests/.wh.a", ""), link(tar(), "manifests/b", "manifests/a"), file()] => missing;
        vec![tar().file("manifests/.wh.b", ""), link(tar(), "manifests/b", "none")] => "";
    ] {
        assert_outcome(layers, expected);
    }
}

#[test]
fn hard_links_to_files_of_the_same_layer_are_read() {
    let file = || tar().file("manifests/a", "1");
    for (layers, expected) in tests::rows![
        vec![link(file(), "manifests/b", "manifests/a")] => "manifests/a=1 manifests/b=1";
        vec![link(file(), "app/metadata/b", "/manifests/./a")] => "app/metadata/b=1 manifests/a=1";
        vec![link(link(file(), "manifests/b", "manifests/a"), "manifests/c", "manifests/b")]
            => "manifests/a=1 manifests/b=1 manifests/c=1";
        vec![file().with(b'K', "k", b"manifests/a\0").with(b'1', "manifests/b", b"")] => "manifests/a=1 manifests/b=1";
        vec![link(tar().file("etc/a", "1"), "etc/b", "etc/a")] => "";
        vec![link(tar().file("etc/a", "1"), "manifests/b", "etc/a")] => "manifests/b is a hard link to \"etc/a\"";
        vec![link(tar(), "manifests/b", "manifests/a").file("manifests/a", "1")]
            => "manifests/b is a hard link to \"manifests/a\"";
        vec![link(tar(), "manifests/b", "manifests/b")] => "manifests/b is a hard link to \"manifests/b\"";
        vec![link(file(), "manifests/b", "../../etc/shadow")] => "named with \"..\"";
        vec![link(file(), "manifests/b", "/etc/shadow")] => "manifests/b is a hard link to \"/etc/shadow\"";
        vec![link(file().with(b'2', "manifests/l", b""), "manifests/b", "manifests/l")]
            => "manifests/b is a hard link to \"manifests/l\"";
        vec![file().with(b'K', "k", b"one").pax(b'x', &[("linkpath", "two")]).with(b'1', "manifests/b", b"")]
            => "named differently by two";
    ] {
        assert_outcome(layers, expected);
    }
    let mut layer = tar().file("manifests/0", &"x".repeat(1000));
    for number in 1..100 {
        layer = link(layer, &format!("manifests/{number}"), "manifests/0");
    }
    let limits = Limits {
        total: 50_000,
        ..Limits::default()
    };
    let found = outcome(read(
        &[layer.end()],
        &Options {
            limits,
            ..options()
        },
    ));
    assert!(
        found.contains("limit of 50000 bytes"),
        "links cost what they unpack to: {found}"
    );
}

//! Hard links within layers.

use super::*;

fn link(tar: Tar, name: &str, target: &str) -> Tar {
    crate::link(tar, b'1', name, target)
}

#[test]
fn hard_links_keep_files_that_upper_layers_remove() {
    let missing = "manifests/b is a hard link to \"manifests/a\"";
    let file = || tar().file("manifests/a", "1");
    for (layers, expected) in tests::rows![
        vec![link(tar(), "manifests/b", "manifests/a"), file()] => missing;
        vec![tar().file("manifests/a", "2"), link(file(), "manifests/b", "manifests/a")] => "manifests/a=2 manifests/b=1";
        vec![tar().file("manifests/.wh.a", ""), link(file(), "manifests/b", "manifests/a")] => "manifests/b=1";
        vec![tar().file("manifests/.wh.a", ""), link(tar(), "manifests/b", "manifests/a"), file()] => missing;
        vec![tar().file("manifests/.wh.b", ""), link(tar(), "manifests/b", "none")] => "";
        // Links to files of the same layer.
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
    // A link counts with the size of its file.
    let options = with!(options() => limits.total: 50_000);
    let found = outcome(read(&[layer.end()], &options));
    assert_has(&found, "limit of 50000 bytes");
}

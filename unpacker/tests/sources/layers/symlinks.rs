//! Symbolic links of lower layers, and entries of upper layers that name paths below these.

use super::*;

fn link(tar: Tar, name: &str, target: &str) -> Tar {
    crate::link(tar, b'2', name, target)
}

fn directory(tar: Tar, name: &str) -> Tar {
    tar.with(b'5', name, b"")
}

/// Returns a link in place of `manifests`, and its target.
fn linked() -> Tar {
    link(tar(), "manifests", "deploy").file("deploy/a", "1")
}

/// Returns a directory of the bundle, and a link to it from outside of the selection.
fn aliased() -> Tar {
    link(tar().file("manifests/a", "1"), "extra", "./manifests/")
}

#[test]
fn a_link_that_an_upper_layer_writes_through_is_rejected() {
    let problem =
        |link: &str, path: &str| format!("{link:?} is not a directory, but {path:?} requires one");
    let through = problem("manifests", "manifests/x");
    let file = |path: &str| tar().file(path, "2");
    let other = || tar().file("app/metadata/m", "3");
    for (layers, expected) in tests::rows![
        vec![file("manifests/x"), linked()] => &through;
        vec![file("manifests/x"), other(), linked()] => &through;
        vec![file("/manifests/x"), other(), linked()] => &through;
        vec![directory(tar(), "manifests/x/"), linked()] => &through;
        // The entry of the directory is after the file, or in a higher layer.
        vec![directory(file("manifests/x"), "manifests/"), linked()] => &through;
        vec![directory(tar(), "manifests/"), file("manifests/x"), linked()] => &through;
        vec![file("manifests/.wh.a"), linked()] => &problem("manifests", "manifests/.wh.a");
        vec![file("app/metadata/x"), link(tar(), "app", "opt").file("opt/metadata/m", "3")]
            => &problem("app", "app/metadata/x");
    ] {
        assert_outcome(layers, expected);
    }
}

#[test]
fn a_link_that_an_upper_layer_replaces_is_hidden() {
    let file = |tar: Tar| tar.file("manifests/x", "2");
    let replaced = "manifests/x=2";
    let both = "manifests/a=1 manifests/x=2";
    for (layers, expected) in tests::rows![
        vec![file(directory(tar(), "manifests/")), linked()] => replaced;
        vec![file(tar()), directory(tar(), "manifests/"), linked()] => replaced;
        vec![file(tar().file(".wh.manifests", "")), linked()] => replaced;
        vec![file(tar()), tar().file(".wh.manifests", ""), linked()] => replaced;
        vec![file(tar()), tar().file(".wh..wh..opq", ""), linked()] => replaced;
        vec![file(directory(tar(), "./manifests").file("manifests/.wh..wh..opq", "")), linked()] => replaced;
        // A directory in a middle layer, and a link in the topmost layer.
        vec![file(tar()), tar().file("manifests/a", "1")] => both;
        vec![link(tar(), "extra", "manifests"), tar().file("extra/x", "2").file("manifests/a", "1")] => "manifests/a=1";
        // Links outside of the selection that do not lead to it, as in most operating systems.
        vec![tar().file("bin/x", "2").file("manifests/a", "1"), link(tar(), "bin", "usr/bin")] => "manifests/a=1";
        // Entries below links outside of the selection are not content.
        vec![tar().file("extra/x", "2"), aliased()] => "manifests/a=1";
        vec![directory(tar(), "extra/").file("extra/x", "2"), aliased()] => "manifests/a=1";
        vec![tar().file(".wh.extra", "").file("extra/x", "2"), aliased()] => "manifests/a=1";
        vec![tar().file("extra/x", "2"), tar().file("extra", "3"), aliased()] => "manifests/a=1";
    ] {
        assert_outcome(layers, expected);
    }
}

/// Layers may repeat directories, and paths outside of the selection do not count.
#[test]
fn directories_are_bounded_and_counted_once() {
    let options = with!(Options::default() => select: only(&["manifests"]));
    let deep = format!("usr/{}x", "d/".repeat(200_000));
    let name = |at: usize| {
        let [d, e, f] = ["d", "e", "f"].map(|letter| letter.repeat(240));
        format!("manifests/{d}{at}/{e}/{f}/x")
    };
    let file = |tar: Tar, path: &str| tar.pax(b'x', &[("path", path)]).file("a", "");
    let layer = |count| (0..count).fold(tar(), |tar, at| file(tar, &name(at)));
    let layers =
        with!(vec![layer(300).end(); 29] => |layers| layers[0] = file(layer(300), &deep).end());
    let found = outcome(read(&layers, &options));
    assert!(found.starts_with("manifests/"), "{found}");
    let found = outcome(read(&[layer(9000).end()], &options));
    assert_has(&found, "bytes of directory names");
}

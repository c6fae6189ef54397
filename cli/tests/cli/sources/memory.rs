//! Memory of commands that read a large image.

use std::fs;

use tests::{Buildah, Registry, noise};

use crate::{
    bundle::{Args as _, Workspace},
    memory,
};

/// Image size, many times the allowed memory.
const SIZE: usize = 200 << 20;
/// Maximum anonymous memory in KiB. The mapped binary does not count because it is large when it is not optimized.
const ALLOWED: u64 = 32 << 10;

#[test]
fn memory_does_not_grow_with_the_image() {
    let workspace = Workspace::with_tide();
    let registry = Registry::plain();
    for file in ["system/usr/large", "catalog/configs/large"] {
        workspace.write(file, noise(1, SIZE));
    }
    // Several layers, so that some are fetched ahead.
    let layered = "FROM scratch\nCOPY catalog /\nCOPY system /\nCOPY tide /\n";
    let image = registry.image("large:v1");
    Buildah::new().publish(layered, &workspace.path(""), &image, &["--layers"]);
    for args in [
        format!("unpack {image}"),
        format!("convert {image}"),
        format!("unpack {image} --only configs --max-size=300Mi --max-file-size=300Mi -o out.tar"),
    ] {
        let peak = peak(&workspace, &args);
        assert!(peak < ALLOWED, "{args} took {peak} KiB");
    }
    let size = fs::metadata(workspace.path("out.tar")).unwrap().len();
    assert!(size > SIZE as u64, "{size}");
}

/// Returns the peak anonymous memory of a command that must succeed.
pub(crate) fn peak(workspace: &Workspace, args: &str) -> u64 {
    let mut command = workspace.command();
    command.args(args.words()).arg("--tls-verify=false");
    let (peak, ended) = memory::peak(&mut command, "RssAnon:");
    assert!(ended.success(), "{args:?}");
    peak
}

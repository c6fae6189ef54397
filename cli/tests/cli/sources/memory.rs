//! What an image takes of memory, however large it is.

use std::fs;

use tests::{Buildah, Registry, noise};

use crate::{
    bundle::{Args as _, Place},
    memory,
};

/// More than fits into what a command may take, many times over.
const SIZE: usize = 200 << 20;
/// In KiB, without the program's own file, which is large where it is not optimized.
const ALLOWED: u64 = 32 << 10;

#[test]
fn memory_does_not_grow_with_the_image() {
    let place = Place::with_tide();
    let registry = Registry::plain();
    for file in ["system/usr/large", "catalog/configs/large"] {
        place.write(file, noise(1, SIZE));
    }
    // One after the other, so that there are layers to be fetched ahead.
    let layered = "FROM scratch\nCOPY catalog /\nCOPY system /\nCOPY tide /\n";
    let image = registry.image("large:v1");
    Buildah::new().publish(layered, &place.path(""), &image, &["--layers"]);
    for args in [
        format!("unpack {image}"),
        format!("convert {image}"),
        format!("unpack {image} --only configs --max-size=300Mi --max-file-size=300Mi -o out.tar"),
    ] {
        let peak = peak(&place, &args);
        assert!(peak < ALLOWED, "{args} took {peak} KiB");
    }
    let size = fs::metadata(place.path("out.tar")).unwrap().len();
    assert!(size > SIZE as u64, "{size}");
}

/// The most memory of a command that succeeds, without that of files.
pub(crate) fn peak(place: &Place, args: &str) -> u64 {
    let mut command = place.command();
    command.args(args.words()).arg("--tls-verify=false");
    let (peak, ended) = memory::peak(&mut command, "RssAnon:");
    assert!(ended.success(), "{args:?}");
    peak
}

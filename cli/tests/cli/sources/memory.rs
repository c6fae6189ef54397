//! What an image takes of memory, however large it is.

use std::fs;

use tests::{Buildah, Registry, fuzz::Random};

use super::{Desk, PLAIN};
use crate::{bundle::Args as _, memory};

/// More than fits into what a command may take, many times over.
const SIZE: usize = 200 << 20;
/// In KiB, without the program's own file, which is large where it is not optimized.
const ALLOWED: u64 = 32 << 10;

#[test]
fn memory_does_not_grow_with_the_image() {
    let desk = Desk::new();
    let registry = Registry::plain();
    let buildah = Buildah::new();
    for (folder, file) in [("system", "usr/large"), ("catalog", "configs/large")] {
        let path = desk.place.path(folder).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, Random::new(1).bytes(SIZE)).unwrap();
    }
    // One after the other, so that there are layers to be fetched ahead.
    let layered = "FROM scratch\nCOPY catalog /\nCOPY system /\nCOPY tide /\n";
    let image = registry.image("large:v1");
    buildah.publish(layered, &desk.place.path(""), &image, &["--layers"]);
    for args in [
        format!("unpack {image}"),
        format!("convert {image}"),
        format!("unpack {image} --only configs --max-size=300Mi --max-file-size=300Mi -o out.tar"),
    ] {
        let peak = peak(&desk, &args);
        assert!(peak < ALLOWED, "{args} took {peak} KiB");
    }
    let size = fs::metadata(desk.place.path("out.tar")).unwrap().len();
    assert!(size > SIZE as u64, "{size}");
}

/// The most memory of a command that succeeds, without that of files.
pub(crate) fn peak(desk: &Desk, args: &str) -> u64 {
    let mut command = desk.command();
    command.args(args.words()).arg(PLAIN);
    let (peak, ended) = memory::peak(&mut command, "RssAnon:");
    assert!(ended.success(), "{args:?}");
    peak
}

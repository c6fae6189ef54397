//! Generates a catalog for measurements: `generate FOLDER [PACKAGES [BUNDLES [BYTES]]]`.

use std::{env, io, path::Path};

use catalog::generate::CatalogShape;

fn main() -> io::Result<()> {
    let mut args = env::args().skip(1);
    let usage = || io::Error::other("generate FOLDER [PACKAGES [BUNDLES [BYTES]]]");
    let dir = args.next().ok_or_else(usage)?;
    let mut shape = CatalogShape::default();
    for field in [
        &mut shape.packages,
        &mut shape.bundles,
        &mut shape.bundle_size,
    ] {
        if let Some(text) = args.next() {
            *field = text.parse().map_err(|_| usage())?;
        }
    }
    shape.write(Path::new(&dir))
}

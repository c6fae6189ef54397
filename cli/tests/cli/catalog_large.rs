//! A catalog of very many bundles.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    path::Path,
};

use crate::sources::{Desk, memory};

const PACKAGES: usize = 200;
/// Of each package. A million bundles are within the bounds as well, and take five times as long and as much.
const BUNDLES: usize = 1000;
/// What a bundle may take, in bytes, all that belongs to it included. Its document has 150.
const EACH: usize = 1300;

/// The least that a bundle can be, in as long a channel as there is none.
fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for package in 0..PACKAGES {
        let name = format!("p{package}");
        let mut file = BufWriter::new(File::create(folder.join(&name))?);
        writeln!(
            file,
            "{{\"schema\":\"olm.package\",\"name\":\"{name}\",\"defaultChannel\":\"a\"}}"
        )?;
        write!(
            file,
            "{{\"schema\":\"olm.channel\",\"package\":\"{name}\",\"name\":\"a\",\"entries\":[{{\"name\":\"{name}.0\"}}"
        )?;
        for at in 1..BUNDLES {
            let before = at - 1;
            write!(
                file,
                ",{{\"name\":\"{name}.{at}\",\"replaces\":\"{name}.{before}\"}}"
            )?;
        }
        writeln!(file, "]}}")?;
        for at in 0..BUNDLES {
            writeln!(
                file,
                "{{\"schema\":\"olm.bundle\",\"package\":\"{name}\",\"name\":\"{name}.{at}\",\"image\":\"a/b:c\",\"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"{name}\",\"version\":\"0.{at}.0\"}}}}]}}"
            )?;
        }
        file.flush()?;
    }
    Ok(())
}

// parity: load-10
#[test]
fn what_a_bundle_takes_of_memory_is_bounded() {
    let desk = Desk::new();
    write(&desk.place.path("catalog")).unwrap();
    let peak = memory::peak(&desk, "catalog validate catalog");
    let allowed = (PACKAGES * BUNDLES * EACH) as u64 >> 10;
    eprintln!("{} bundles, at most {peak} KiB", PACKAGES * BUNDLES);
    assert!(peak < allowed, "{peak} KiB, and {allowed} are allowed");
}

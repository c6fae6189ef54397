//! Loads and validates a catalog, and prints the time and memory that this takes: `load FOLDER`.

use std::{env, fs, io, path::Path, time::Instant};

use catalog::{Limits, Source};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> io::Result<()> {
    let dir = env::args()
        .nth(1)
        .ok_or_else(|| io::Error::other("load FOLDER"))?;
    let start = Instant::now();
    let source = Source::Directory(Path::new(&dir));
    let catalog = catalog::load(source, &Limits::default()).map_err(io::Error::other)?;
    let took = start.elapsed();
    let bundles: usize = catalog
        .packages
        .values()
        .map(|package| package.bundles.len())
        .sum();
    let status = fs::read_to_string("/proc/self/status")?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!(
        "{} packages, {bundles} bundles, {} findings in {took:.2?}; memory at most {}",
        catalog.packages.len(),
        catalog.findings.len(),
        memory.unwrap_or_default().trim()
    );
    Ok(())
}

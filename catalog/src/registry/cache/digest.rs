//! Digest of a catalog, computed from the names and bytes of its files.
//!
//! Times, owners and modes do not affect it, because they change when an image is copied or mirrored. Files are hashed
//! in parallel, so the digest covers the list of file hashes.

use std::{
    io::{self, Read},
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use sha2::{Digest as _, Sha256};

use crate::{
    Limits, Source,
    registry::store::Digest,
    source::{Entry, Error, Meter},
};

const BUFFER: usize = 256 << 10;

/// Computes the digest of all files of the catalog, in the order of their paths.
pub(super) fn compute(source: Source<'_>, limits: &Limits) -> Result<Digest, Error> {
    let entries = source.entries(limits)?;
    let next = AtomicUsize::new(0);
    let meter = Meter::new(limits);
    let work = || {
        let mut hashes = Vec::new();
        let mut buffer = vec![0; BUFFER];
        while let Some((at, entry)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            entries.get(at).map(|entry| (at, entry))
        } {
            hashes.push((at, hash(entry, &meter, &mut buffer)));
        }
        hashes
    };
    let threads = match limits.threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    };
    let mut hashes = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(entries.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let mut hashes = work();
        for other in others {
            match other.join() {
                Ok(hashed) => hashes.extend(hashed),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        hashes
    });
    meter.check()?;
    hashes.sort_unstable_by_key(|(at, _)| *at);
    let mut all = Sha256::new();
    for (entry, (_, hash)) in entries.iter().zip(hashes) {
        all.update((entry.path.len() as u64).to_le_bytes());
        all.update(&entry.path);
        all.update(hash);
    }
    Ok(Digest(all.finalize().into()))
}

/// Hashes one file. An unreadable file does not change the identity of the catalog; it is reported with the other
/// findings.
fn hash(entry: &Entry<'_>, meter: &Meter, buffer: &mut [u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut read = || -> io::Result<()> {
        let mut file = meter.exceeded(entry.open()?);
        loop {
            match file.read(buffer)? {
                0 => return Ok(()),
                count => hash.update(buffer.get(..count).unwrap_or_default()),
            }
        }
    };
    let is_read = read().is_ok();
    hash.update([u8::from(is_read)]);
    hash.finalize().into()
}

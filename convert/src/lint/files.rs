//! Files of the bundle.

use std::{collections::BTreeMap, io::Write};

use flate2::{Compression, write::GzEncoder};
use manifests::path::Path;

use super::Input;
use crate::finding::{Findings, Location, code::Code};

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    hidden(input, findings);
    one_object(input, findings);
    size(input, findings);
}

fn hidden(input: Input<'_>, findings: &mut Findings) {
    let dir = &input.metadata.manifests_dir;
    for (name, _) in input
        .content
        .dir(dir)
        .filter(|(name, _)| name.starts_with('.') && !name.contains('/'))
    {
        findings.warn(
            Code::HiddenFile,
            Location::file(format!("{dir}/{name}")),
            format!("bundle manifests dir has hidden file {name:?}: opm skips it, and operator-sdk rejects the bundle"),
            "remove or rename it",
        );
    }
}

/// Reports files with several objects. This conversion installs all of them, but other tools read only the first document
/// of a file, and no lists.
fn one_object(input: Input<'_>, findings: &mut Findings) {
    let csv = input.csv.map(|csv| csv.path_place(&Path::root()));
    let mut files: BTreeMap<&str, Vec<&Location>> = BTreeMap::new();
    for place in csv
        .iter()
        .chain(input.others.iter().map(|item| &item.place))
    {
        files.entry(&place.file).or_default().push(place);
    }
    for (file, places) in files {
        let first = places
            .iter()
            .map(|place| place.document)
            .min()
            .unwrap_or_default();
        let mut later = places
            .iter()
            .filter(|place| place.document != first)
            .peekable();
        if let Some(place) = later.peek().map(|place| (**place).clone()) {
            findings.warn(
                Code::SeveralDocuments,
                place,
                format!(
                    "opm and operator-sdk read only the first document of {file:?}; they drop {} of its objects",
                    later.count()
                ),
                "put every object into a separate file",
            );
        }
        if let Some(listed) = places.iter().find(|place| !place.path.is_root()) {
            let place = Location {
                path: Path::root(),
                ..(**listed).clone()
            };
            findings.warn(
                Code::SeveralDocuments,
                place,
                format!("{file:?} contains a list of objects; opm and operator-sdk reject lists"),
                "put every object into a separate file",
            );
        }
    }
}

/// Maximum size of a bundle in etcd, in the form in which OLM transfers it to a cluster: each file compressed and
/// base64-encoded.
pub(super) const LIMIT: u64 = 1 << 20;
/// Size from which authors are warned: 85 % of the limit.
pub(super) const WARN_SIZE: u64 = LIMIT * 85 / 100;

fn size(input: Input<'_>, findings: &mut Findings) {
    let files = || {
        let dirs = [input.metadata.manifests_dir.as_str(), "metadata"];
        dirs.into_iter()
            .flat_map(|dir| input.content.dir(dir))
            .map(|(_, file)| file.bytes.as_ref())
    };
    // Compression adds no more than this, and most bundles are small.
    if files()
        .map(|bytes| base64(bytes.len() as u64 * 101 / 100 + 64))
        .sum::<u64>()
        <= WARN_SIZE
    {
        return;
    }
    let compressed = files().map(|bytes| base64(gzip(bytes))).sum();
    check_size(
        compressed,
        files().map(|bytes| bytes.len() as u64).sum(),
        findings,
    );
}

/// Reports a size above the limit, or close to it.
pub(super) fn check_size(compressed: u64, uncompressed: u64, findings: &mut Findings) {
    let remedy =
        "shorten descriptions in CRDs, or remove images from the CSV's icon and description";
    if compressed > LIMIT {
        findings.warn(
            Code::BundleSize,
            None,
            format!(
                "maximum bundle compressed size with gzip size exceeded: size=~{compressed} B, max={LIMIT} B; uncompressed, \
                 the bundle has {uncompressed} B. OLM cannot unpack the bundle, and operator-sdk rejects it"
            ),
            remedy,
        );
    } else if compressed > WARN_SIZE {
        findings.warn(
            Code::BundleSize,
            None,
            format!(
                "nearing maximum bundle compressed size with gzip: size=~{compressed} B, max={LIMIT} B; uncompressed, \
                 the bundle has {uncompressed} B"
            ),
            remedy,
        );
    }
}

const fn base64(bytes: u64) -> u64 {
    bytes.div_ceil(3) * 4
}

/// Returns the compressed size in bytes.
fn gzip(bytes: &[u8]) -> u64 {
    let mut encoder = GzEncoder::new(Counter(0), Compression::default());
    // Counting cannot fail.
    let _ = encoder.write_all(bytes);
    encoder
        .finish()
        .map(|counter| counter.0)
        .unwrap_or_default()
}

/// A writer that only counts bytes.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

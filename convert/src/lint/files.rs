//! The bundle as a set of files.

use std::{collections::BTreeMap, io::Write};

use flate2::{Compression, write::GzEncoder};
use manifests::path::Path;

use super::Input;
use crate::{
    code::Code,
    report::{Findings, Place},
};

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    hidden(input, findings);
    one_object(input, findings);
    size(input, findings);
}

fn hidden(input: Input<'_>, findings: &mut Findings) {
    let folder = &input.metadata.manifests_dir;
    for (name, _) in input
        .content
        .folder(folder)
        .filter(|(name, _)| name.starts_with('.') && !name.contains('/'))
    {
        findings.warn(
            Code::HiddenFile,
            Place::file(format!("{folder}/{name}")),
            format!("bundle manifests dir has hidden file {name:?}: opm skips it, operator-sdk refuses the bundle"),
            "remove or rename it",
        );
    }
}

/// All objects are installed here; the peers read the first document of a file, and no lists.
fn one_object(input: Input<'_>, findings: &mut Findings) {
    let csv = input.csv.map(|csv| csv.at(&Path::root()));
    let mut files: BTreeMap<&str, Vec<&Place>> = BTreeMap::new();
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
                "give every object a file of its own",
            );
        }
        if let Some(listed) = places.iter().find(|place| !place.path.is_root()) {
            let place = Place {
                path: Path::root(),
                ..(**listed).clone()
            };
            findings.warn(
                Code::SeveralDocuments,
                place,
                format!("{file:?} holds a list of objects; opm and operator-sdk refuse lists"),
                "give every object a file of its own",
            );
        }
    }
}

/// What etcd takes, and what OLM makes of a bundle on its way into a cluster: each file compressed, as base64.
pub(super) const LIMIT: u64 = 1 << 20;
/// From where on an author should know: 85 % of the limit.
pub(super) const NEAR: u64 = LIMIT * 85 / 100;

fn size(input: Input<'_>, findings: &mut Findings) {
    let files = || {
        let folders = [input.metadata.manifests_dir.as_str(), "metadata"];
        folders
            .into_iter()
            .flat_map(|folder| input.content.folder(folder))
            .map(|(_, file)| file.bytes.as_ref())
    };
    // Compressing makes nothing larger by more than this, and most bundles are small.
    if files()
        .map(|bytes| base64(bytes.len() as u64 * 101 / 100 + 64))
        .sum::<u64>()
        <= NEAR
    {
        return;
    }
    let compressed = files().map(|bytes| base64(gzip(bytes))).sum();
    judge(
        compressed,
        files().map(|bytes| bytes.len() as u64).sum(),
        findings,
    );
}

/// Tells a size that is over the limit, and one that comes near it.
pub(super) fn judge(compressed: u64, uncompressed: u64, findings: &mut Findings) {
    let remedy = "shorten descriptions in CustomResourceDefinitions, or remove images from the CSV's icon and description";
    if compressed > LIMIT {
        findings.warn(
            Code::BundleSize,
            None,
            format!(
                "maximum bundle compressed size with gzip size exceeded: size=~{compressed} B, max={LIMIT} B; \
                 uncompressed, the bundle has {uncompressed} B. OLM cannot unpack it, operator-sdk refuses it"
            ),
            remedy,
        );
    } else if compressed > NEAR {
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

/// The compressed size in bytes.
fn gzip(bytes: &[u8]) -> u64 {
    let mut encoder = GzEncoder::new(Counter(0), Compression::default());
    // Counting does not fail.
    let _ = encoder.write_all(bytes);
    encoder
        .finish()
        .map(|counter| counter.0)
        .unwrap_or_default()
}

/// Counts what is written and keeps nothing of it.
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

//! Index builder: combines the validated catalog with the file ranges of its documents. The index contains valid
//! packages, without bundles in formats that OLM does not support.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use super::{
    document::{self, DocumentPart},
    filter_channel,
    index::{Api, BlobRow, BundleRow, ChannelRow, EntryRow, Index, PackageRow},
};
use crate::{
    Catalog, Level,
    model::{self, Entry, Gvk, Package, REGISTRY_V1},
};

/// Default message limit of gRPC clients, in bytes. A larger message would end the list for all packages.
const MAX_MESSAGE_SIZE: usize = 4 << 20;
/// Bytes reserved for channel names, deprecation messages, and the keys and lengths of fields.
const MESSAGE_MARGIN: usize = 64 << 10;
/// Maximum number and length of reported reasons.
const MAX_REASONS: usize = 1000;
const MAX_REASON_LEN: usize = 2000;

/// Parts of the documents that were written to the file, by package.
#[derive(Default)]
struct IndexBuilder {
    packages: BTreeMap<String, document::Package>,
    /// Rows by package and bundle name.
    bundles: HashMap<(String, String), BundleRow>,
    rejected: BTreeMap<String, String>,
}

/// Problem because of which a package is not served.
type Reason = String;

/// Builds the index of all packages that can be served.
pub(super) fn index(catalog: &Catalog, parts: Vec<DocumentPart>) -> Index {
    let mut index = Index::default();
    let mut pieces = IndexBuilder::default();
    let mut left_out = Vec::new();
    for part in parts {
        match part {
            DocumentPart::Package(package) => {
                drop(pieces.packages.insert(package.name.clone(), package));
            }
            DocumentPart::Bundle(bundle) => {
                let key = (bundle.package, bundle.row.name.clone());
                pieces.bundles.insert(key, bundle.row);
            }
            DocumentPart::Rejected { package, reason } => {
                pieces.rejected.entry(package).or_insert(reason);
            }
            DocumentPart::Blob(blob) => index.blobs.push(blob),
            DocumentPart::Unindexed(reason) => left_out.push(reason),
            DocumentPart::Empty => {}
        }
    }
    let findings = catalog.findings.iter();
    let global =
        findings.filter(|finding| finding.level == Level::Error && finding.package.is_none());
    left_out.extend(global.map(ToString::to_string));
    for name in catalog.broken.keys() {
        let reason = catalog.why_broken(name).unwrap_or_default();
        left_out.push(format!("package {name:?}: skipped: {reason}"));
    }
    let mut apis = ApiTable::default();
    for package in catalog.packages.values() {
        let mut notes = Vec::new();
        let name = &package.name;
        match row(package, &mut pieces, &mut apis, &mut notes) {
            Ok(package) => index.packages.push(package),
            Err(reason) => notes = vec![format!("skipped: {reason}")],
        }
        left_out.extend(
            notes
                .into_iter()
                .map(|note| format!("package {name:?}: {note}")),
        );
    }
    apis.sort(&mut index);
    // Stable sort: blobs with equal keys keep the order of the files.
    index.blobs.sort_by(|a, b| key(a).cmp(&key(b)));
    index.left_out = bounded(left_out);
    index
}

fn key(blob: &BlobRow) -> (&str, &str) {
    (&blob.schema, &blob.package)
}

fn bounded(mut reasons: Vec<Reason>) -> Vec<Reason> {
    let more = reasons.len().saturating_sub(MAX_REASONS);
    reasons.truncate(MAX_REASONS);
    for reason in &mut reasons {
        if reason.len() > MAX_REASON_LEN {
            let start: String = reason.chars().take(MAX_REASON_LEN / 4).collect();
            *reason = format!("{start}…");
        }
    }
    if more > 0 {
        reasons.push(format!("and {more} more"));
    }
    reasons
}

/// Builds the row of a package. `notes` receives each skipped part of a package that is served.
fn row(
    package: &Package,
    pieces: &mut IndexBuilder,
    apis: &mut ApiTable,
    notes: &mut Vec<String>,
) -> Result<PackageRow, Reason> {
    let name = &package.name;
    if let Some(reason) = pieces.rejected.remove(name) {
        return Err(reason);
    }
    // Every package of the model comes from a document.
    let texts = pieces
        .packages
        .remove(name)
        .ok_or("its olm.package is missing")?;
    let mut bundles = Vec::with_capacity(package.bundles.len());
    let mut foreign = BTreeSet::new();
    for bundle in package.bundles.values() {
        let format = bundle.media_type();
        if format != REGISTRY_V1 {
            notes.push(format!(
                "bundle {:?} is skipped: OLM does not support the format {format:?}",
                bundle.name
            ));
            foreign.insert(bundle.name.as_str());
            continue;
        }
        let row = pieces.bundles.remove(&(name.clone(), bundle.name.clone()));
        let row = row.ok_or_else(|| format!("bundle {:?} is missing", bundle.name))?;
        bundles.push((bundle, row));
    }

    let mut channels = Vec::new();
    for channel in package.channels.values() {
        let entries = filter_channel::without_bundles(channel.entries.clone(), |name| {
            !foreign.contains(name)
        })
        .map_err(|problem| format!("channel {:?} {problem}", channel.name))?;
        if entries.is_empty() && !foreign.is_empty() {
            notes.push(format!(
                "channel {:?} is skipped: all of its bundles are skipped",
                channel.name
            ));
            continue;
        }
        let row = channel_row(channel, entries, &bundles, !foreign.is_empty());
        channels.push(row.map_err(|problem| format!("channel {:?} {problem}", channel.name))?);
    }
    let mut default_channel = package.default_channel.clone();
    if !channels
        .iter()
        .any(|channel| channel.name == default_channel)
    {
        let heads = channels
            .iter()
            .filter_map(|channel| Some((head(channel, &bundles)?, &channel.name)));
        let best = heads.max_by(|(a, an), (b, bn)| newer(a, b).then_with(|| bn.cmp(an)));
        let Some((_, name)) = best else {
            return Err("OLM supports none of its bundles".into());
        };
        notes.push(format!(
            "its default channel is {name:?}, because {default_channel:?} is skipped"
        ));
        default_channel.clone_from(name);
    }
    let rows = bundles.into_iter().map(|(bundle, row)| BundleRow {
        provides: apis.add(&bundle.provides),
        deprecation: bundle.deprecation.clone(),
        ..row
    });
    Ok(PackageRow {
        name: package.name.clone(),
        default_channel,
        deprecation: package.deprecation.clone(),
        bundles: rows.collect(),
        channels,
        icon: texts.icon,
        description: texts.description,
    })
}

/// Served bundles of a package, sorted by name.
type Bundles<'a> = [(&'a model::Bundle, BundleRow)];

/// Builds the row of a channel. If some of its bundles were removed, several heads can remain; the newest becomes the
/// head.
fn channel_row(
    channel: &model::Channel,
    mut entries: Vec<Entry>,
    bundles: &Bundles<'_>,
    is_reduced: bool,
) -> Result<ChannelRow, Reason> {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let heads = filter_channel::heads(&entries);
    let mut row = ChannelRow {
        name: channel.name.clone(),
        deprecation: channel.deprecation.clone(),
        ..ChannelRow::default()
    };
    for entry in entries {
        let at = bundles.binary_search_by(|(bundle, _)| bundle.name.cmp(&entry.name));
        let at = at.map_err(|_| format!("has no bundle {:?}", entry.name))?;
        let entry_row = EntryRow {
            bundle: u32::try_from(at).map_err(|_| "has too many bundles")?,
            replaces: entry.replaces.unwrap_or_default(),
            skips: entry.skips,
            skip_range: entry.skip_range.unwrap_or_default(),
        };
        let size = bundles
            .get(at)
            .map_or(0, |(_, bundle_row)| message_size(bundle_row, &entry_row));
        if size > MAX_MESSAGE_SIZE {
            return Err(format!(
                "has a bundle {:?} of {size} bytes in lists; clients accept {MAX_MESSAGE_SIZE}",
                entry.name
            ));
        }
        row.entries.push(entry_row);
    }
    let bundle = |at: &usize| {
        let entry = row.entries.get(*at)?;
        Some((*at, bundles.get(entry.bundle as usize)?.0))
    };
    let head = match heads.as_slice() {
        [one] => Some(*one),
        several if is_reduced => {
            let newest = several
                .iter()
                .filter_map(bundle)
                .max_by(|(_, a), (_, b)| newer(a, b));
            newest.map(|(at, _)| at)
        }
        _ => None,
    };
    row.head =
        u32::try_from(head.ok_or("does not have exactly one head")?).map_err(|_| "is too long")?;
    Ok(row)
}

fn head<'a>(channel: &ChannelRow, bundles: &Bundles<'a>) -> Option<&'a model::Bundle> {
    let entry = channel.entries.get(channel.head as usize)?;
    Some(bundles.get(entry.bundle as usize)?.0)
}

fn newer(a: &model::Bundle, b: &model::Bundle) -> Ordering {
    a.version
        .cmp_precedence(&b.version)
        .then_with(|| a.name.cmp(&b.name))
}

/// Returns an upper bound for the size of an entry in ListBundles, in bytes.
fn message_size(bundle: &BundleRow, entry: &EntryRow) -> usize {
    let manifests = if bundle.has_image {
        0
    } else {
        bundle.csv.length as usize * 2 + bundle.objects.length as usize
    };
    let skips: usize = entry.skips.iter().map(|skip| skip.len() + 4).sum();
    let edges = skips + entry.replaces.len() + entry.skip_range.len();
    bundle.list_fields.length as usize + manifests + edges + MESSAGE_MARGIN
}

/// Numbers APIs in order of appearance; `sort` renumbers them in sorted order.
#[derive(Default)]
struct ApiTable {
    numbers: HashMap<Api, u32>,
}

// === impl ApiTable ===

impl ApiTable {
    fn add(&mut self, apis: &[Gvk]) -> Vec<u32> {
        let mut number = |api: &Gvk| {
            let Gvk {
                group,
                version,
                kind,
            } = api.clone();
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            *self
                .numbers
                .entry(Api {
                    group,
                    version,
                    kind,
                })
                .or_insert(next)
        };
        apis.iter().map(&mut number).collect()
    }

    fn sort(self, index: &mut Index) {
        let mut all: Vec<(Api, u32)> = self.numbers.into_iter().collect();
        all.sort_unstable();
        let mut positions = vec![0; all.len()];
        for ((_, number), place) in all.iter().zip(0..) {
            if let Some(slot) = positions.get_mut(*number as usize) {
                *slot = place;
            }
        }
        for bundle in index
            .packages
            .iter_mut()
            .flat_map(|package| &mut package.bundles)
        {
            for number in &mut bundle.provides {
                *number = positions.get(*number as usize).copied().unwrap_or_default();
            }
            bundle.provides.sort_unstable();
            bundle.provides.dedup();
        }
        index.apis = all.into_iter().map(|(api, _)| api).collect();
    }
}

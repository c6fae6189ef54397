//! What is known of a catalog, and where its pieces are, to an index: packages that are sound, without the bundles that
//! OLM does not know.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use super::{
    graph,
    index::{Api, BlobRow, BundleRow, ChannelRow, EntryRow, Index, PackageRow},
    part::{self, Part},
};
use crate::{
    Catalog, Level,
    model::{self, Entry, Gvk, Package, REGISTRY_V1},
};

/// What clients of gRPC take by default, in bytes; a larger message would end the list for all packages.
const LARGEST_MESSAGE: usize = 4 << 20;
/// What is left for names of channels, texts of deprecations, and the keys and lengths of fields.
const MARGIN: usize = 64 << 10;
/// How many reasons are kept for people, and how long one may be.
const REASONS: usize = 1000;
const REASON: usize = 2000;

/// What documents gave to the file, by package.
#[derive(Default)]
struct Pieces {
    packages: BTreeMap<String, part::Package>,
    /// By package and name.
    bundles: HashMap<(String, String), BundleRow>,
    refused: BTreeMap<String, String>,
}

/// Why a package is not served.
type Reason = String;

/// Makes the index of what can be served.
pub(super) fn index(catalog: &Catalog, parts: Vec<Part>) -> Index {
    let mut index = Index::default();
    let mut pieces = Pieces::default();
    let mut left_out = Vec::new();
    for part in parts {
        match part {
            Part::Package(it) => drop(pieces.packages.insert(it.name.clone(), it)),
            Part::Bundle(it) => {
                let key = (it.package, it.row.name.clone());
                pieces.bundles.insert(key, it.row);
            }
            Part::Refused { package, reason } => {
                pieces.refused.entry(package).or_insert(reason);
            }
            Part::Blob(it) => index.blobs.push(it),
            Part::Odd(reason) => left_out.push(reason),
            Part::Nothing => {}
        }
    }
    let findings = catalog.findings.iter();
    let of_nobody = findings.filter(|it| it.level == Level::Error && it.package.is_none());
    left_out.extend(of_nobody.map(ToString::to_string));
    for name in catalog.broken.keys() {
        let why = catalog.why_broken(name).unwrap_or_default();
        left_out.push(format!("package {name:?}: it is left out: {why}"));
    }
    let mut apis = Apis::default();
    for package in catalog.packages.values() {
        let mut notes = Vec::new();
        let name = &package.name;
        match row(package, &mut pieces, &mut apis, &mut notes) {
            Ok(package) => index.packages.push(package),
            Err(reason) => notes = vec![format!("it is left out: {reason}")],
        }
        left_out.extend(
            notes
                .into_iter()
                .map(|it| format!("package {name:?}: {it}")),
        );
    }
    apis.sort(&mut index);
    // Those that are equal in both keep the order of the files.
    index.blobs.sort_by(|a, b| key(a).cmp(&key(b)));
    index.left_out = bounded(left_out);
    index
}

fn key(blob: &BlobRow) -> (&str, &str) {
    (&blob.schema, &blob.package)
}

fn bounded(mut reasons: Vec<Reason>) -> Vec<Reason> {
    let more = reasons.len().saturating_sub(REASONS);
    reasons.truncate(REASONS);
    for reason in &mut reasons {
        if reason.len() > REASON {
            let start: String = reason.chars().take(REASON / 4).collect();
            *reason = format!("{start}…");
        }
    }
    if more > 0 {
        reasons.push(format!("and {more} more"));
    }
    reasons
}

/// `notes` get what is left out of a package that is served.
fn row(
    package: &Package,
    pieces: &mut Pieces,
    apis: &mut Apis,
    notes: &mut Vec<String>,
) -> Result<PackageRow, Reason> {
    let name = &package.name;
    if let Some(reason) = pieces.refused.remove(name) {
        return Err(reason);
    }
    // What is in the model was in a document.
    let texts = pieces
        .packages
        .remove(name)
        .ok_or("its olm.package is gone")?;
    let mut bundles = Vec::with_capacity(package.bundles.len());
    let mut foreign = BTreeSet::new();
    for bundle in package.bundles.values() {
        let format = bundle.media_type();
        if format != REGISTRY_V1 {
            notes.push(format!(
                "bundle {:?} is left out: OLM does not know the format {format:?}",
                bundle.name
            ));
            foreign.insert(bundle.name.as_str());
            continue;
        }
        let row = pieces.bundles.remove(&(name.clone(), bundle.name.clone()));
        let row = row.ok_or_else(|| format!("the bundle {:?} is gone", bundle.name))?;
        bundles.push((bundle, row));
    }

    let mut channels = Vec::new();
    for channel in package.channels.values() {
        let entries = graph::without(channel.entries.clone(), |it| !foreign.contains(it))
            .map_err(|it| format!("channel {:?} {it}", channel.name))?;
        if entries.is_empty() && !foreign.is_empty() {
            notes.push(format!(
                "channel {:?} is left out: all of its bundles are",
                channel.name
            ));
            continue;
        }
        let row = channel_row(channel, entries, &bundles, !foreign.is_empty());
        channels.push(row.map_err(|it| format!("channel {:?} {it}", channel.name))?);
    }
    let mut default_channel = package.default_channel.clone();
    if !channels.iter().any(|it| it.name == default_channel) {
        let heads = channels
            .iter()
            .filter_map(|it| Some((head(it, &bundles)?, &it.name)));
        let best = heads.max_by(|(a, an), (b, bn)| newer(a, b).then_with(|| bn.cmp(an)));
        let Some((_, name)) = best else {
            return Err("OLM knows none of its bundles".into());
        };
        notes.push(format!(
            "its default channel is {name:?}, for {default_channel:?} is left out"
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

/// The bundles of a package that are served, by name.
type Bundles<'a> = [(&'a model::Bundle, BundleRow)];

/// The row of a channel. With some of its bundles gone there may be several heads; then the newest is the one.
fn channel_row(
    channel: &model::Channel,
    mut entries: Vec<Entry>,
    bundles: &Bundles<'_>,
    is_reduced: bool,
) -> Result<ChannelRow, Reason> {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let heads = graph::heads(&entries);
    let mut row = ChannelRow {
        name: channel.name.clone(),
        deprecation: channel.deprecation.clone(),
        ..ChannelRow::default()
    };
    for entry in entries {
        let at = bundles.binary_search_by(|(it, _)| it.name.cmp(&entry.name));
        let at = at.map_err(|_| format!("has no bundle {:?}", entry.name))?;
        let entry_row = EntryRow {
            bundle: u32::try_from(at).map_err(|_| "has too many bundles")?,
            replaces: entry.replaces.unwrap_or_default(),
            skips: entry.skips,
            skip_range: entry.skip_range.unwrap_or_default(),
        };
        let size = bundles
            .get(at)
            .map_or(0, |(_, it)| message_size(it, &entry_row));
        if size > LARGEST_MESSAGE {
            return Err(format!(
                "has a bundle {:?} that takes {size} bytes in lists, of which clients take {LARGEST_MESSAGE}",
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
    row.head = u32::try_from(head.ok_or("has no head, or several")?).map_err(|_| "is too long")?;
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

/// What an entry takes in ListBundles, at most.
fn message_size(bundle: &BundleRow, entry: &EntryRow) -> usize {
    let manifests = if bundle.has_image {
        0
    } else {
        bundle.csv.length as usize * 2 + bundle.objects.length as usize
    };
    let skips: usize = entry.skips.iter().map(|it| it.len() + 4).sum();
    let edges = skips + entry.replaces.len() + entry.skip_range.len();
    bundle.light.length as usize + manifests + edges + MARGIN
}

/// Numbers APIs as they come, and in the end by their order.
#[derive(Default)]
struct Apis {
    numbers: HashMap<Api, u32>,
}

// === impl Apis ===

impl Apis {
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
        let mut places = vec![0; all.len()];
        for ((_, number), place) in all.iter().zip(0..) {
            if let Some(slot) = places.get_mut(*number as usize) {
                *slot = place;
            }
        }
        for bundle in index.packages.iter_mut().flat_map(|it| &mut it.bundles) {
            for number in &mut bundle.provides {
                *number = places.get(*number as usize).copied().unwrap_or_default();
            }
            bundle.provides.sort_unstable();
            bundle.provides.dedup();
        }
        index.apis = all.into_iter().map(|(api, _)| api).collect();
    }
}

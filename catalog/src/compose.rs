//! Composition of a catalog from an index and the bundles of a developer, for `run bundle` and `run bundle-upgrade`.
//!
//! ```text
//! index (render: a directory, an image, a database; or none) ─┐
//! bundle 1, bundle 2, … (render, in the order of time) ───────┼─► compose ─► validate ─► ComposedCatalog
//! package, channel, mode ─────────────────────────────────────┘
//! ```
//!
//! All content of the index is retained. The bundles extend a channel: each replaces the previous one, and the first
//! replaces the head of the channel in the index. If the tag of the index has moved, it can contain bundles that were
//! injected before; these are then taken from the index. The result is validated like any catalog. Errors of other
//! packages are those of the index and are reported as warnings.

mod error;
pub mod history;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    io::{self, Read},
    slice,
};

use manifests::{content::Content, names};
use serde_json::{Map, Value, json};

pub use self::error::Error;
use crate::{
    Catalog,
    finding::{self, Finding, Level as Severity},
    load,
    render::{
        BundleImageRef, Format, Level, Render, Rendered,
        blob::{Blob, BlobKind},
    },
    source::{FileSource, Limits, Source},
};

/// Index that denotes no index. With it, a catalog contains only the injected bundles.
pub const DEFAULT_INDEX: &str = "quay.io/operator-framework/opm:latest";
/// Channel from which `run bundle` installs.
pub const CHANNEL: &str = "operator-sdk-run-bundle";
/// Only file of a composed catalog.
const FILE: &str = "catalog.json";
/// Maximum number of names in a message.
const MAX_NAMES: usize = 10;

/// Command that composes the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComposeMode {
    /// `run bundle`: the channel must not exist in the index.
    Run,
    /// `run bundle-upgrade`: the entries of the channel in the index are upgraded.
    Upgrade,
}

/// A rendered index.
#[derive(Debug)]
pub struct Index<'a> {
    /// Name of the index as the user specified it.
    pub name: &'a str,
    /// Content of the index; see [`Render::catalog`].
    pub rendered: Rendered,
}

/// Package and channel of the injected bundles.
#[derive(Debug, Clone, Copy)]
pub struct ChannelRef<'a> {
    /// Name of the package.
    pub package: &'a str,
    /// Name of the channel.
    pub channel: &'a str,
}

/// A bundle to inject.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// Name of its ClusterServiceVersion.
    pub name: String,
    /// Name of its package.
    pub package: String,
    /// Image reference of the bundle.
    pub image: String,
    blob: Blob,
}

/// A composed catalog with the injected bundles.
#[derive(Debug)]
pub struct ComposedCatalog {
    /// All documents, sorted.
    pub rendered: Rendered,
    /// Validated model of the catalog.
    pub catalog: Catalog,
    /// Problems of other packages.
    pub warnings: Vec<String>,
}

// === impl Index ===

impl Index<'_> {
    /// Returns the default channel of a package, or `None` if the index does not contain the package.
    pub fn default_channel(&self, package: &str) -> Option<String> {
        let mut blobs = self.rendered.blobs.iter();
        let blob =
            blobs.find(|blob| blob.class == BlobKind::Package && *blob.package == *package)?;
        let blob: Value = serde_json::from_slice(&blob.json).ok()?;
        let channel = blob.get("defaultChannel")?.as_str()?;
        Some(channel.to_owned()).filter(|channel| !channel.is_empty())
    }
}

// === impl Bundle ===

impl Bundle {
    /// Renders the files of a bundle, migrated up to `level`. `warn` receives each skipped part.
    ///
    /// # Errors
    /// Returns the errors of [`Render::bundle`].
    pub fn read(
        content: &Content,
        image: &str,
        level: Level,
        warn: impl FnMut(String),
    ) -> Result<Self, Error> {
        let mut render = Render::new(level);
        render.bundle(content, BundleImageRef::Reference(image))?;
        render.take_warnings().into_iter().for_each(warn);
        // A bundle renders to a single document.
        let blob = render.finish().blobs.pop().ok_or(Error::NoBundles)?;
        Ok(Self {
            name: blob.key.as_ref().to_owned(),
            package: blob.package.as_ref().to_owned(),
            image: image.to_owned(),
            blob,
        })
    }

    /// Returns the size of the bundle in memory in bytes.
    pub fn size(&self) -> usize {
        self.blob.json.len()
    }
}

// === impl ComposedCatalog ===

impl ComposedCatalog {
    /// Returns each document as YAML, without `---`.
    ///
    /// # Errors
    /// Returns an error if a document cannot be written, which [`compose`] has ruled out.
    pub fn documents(&self) -> impl Iterator<Item = io::Result<String>> + '_ {
        self.rendered.blobs.iter().map(|blob| {
            let one = Rendered {
                blobs: vec![blob.clone()],
            };
            let mut text = Vec::new();
            one.write(Format::Yaml, &mut text)?;
            let text = String::from_utf8(text).map_err(io::Error::other)?;
            Ok(text.strip_prefix("---\n").unwrap_or(&text).to_owned())
        })
    }
}

/// Injects bundles into a catalog. Each bundle replaces the previous one in `bundles`.
///
/// # Errors
/// Returns an error if the index already contains the bundles, or if the head of the channel is ambiguous. Also returns
/// an error if the result is not a valid catalog.
pub fn compose(
    index: Option<Index<'_>>,
    place: ChannelRef<'_>,
    form: ComposeMode,
    bundles: Vec<Bundle>,
    limits: &Limits,
) -> Result<ComposedCatalog, Error> {
    check(place, &bundles)?;
    let (index_name, mut blobs) = match index {
        Some(index) => (index.name.to_owned(), index.rendered.blobs),
        None => (DEFAULT_INDEX.to_owned(), Vec::new()),
    };
    let is_match =
        |blob: &Blob, class: BlobKind| *blob.package == *place.package && blob.class == class;
    let existing: BTreeSet<&str> = blobs
        .iter()
        .filter(|blob| is_match(blob, BlobKind::Bundle))
        .map(|blob| &*blob.key)
        .collect();
    let is_existing = |bundle: &&Bundle| existing.contains(bundle.name.as_str());
    // The last bundle is the requested one.
    if let Some(bundle) = bundles.last().filter(is_existing) {
        return Err(Error::BundleExists {
            bundle: bundle.name.clone(),
            index: index_name,
            form,
        });
    }
    let from_index: BTreeSet<String> = bundles
        .iter()
        .filter(is_existing)
        .map(|bundle| bundle.name.clone())
        .collect();
    let at = blobs
        .iter()
        .position(|blob| is_match(blob, BlobKind::Channel) && *blob.key == *place.channel);
    let channel = match at {
        Some(_) if form == ComposeMode::Run => {
            return Err(Error::ChannelExists {
                channel: place.channel.to_owned(),
                index: index_name,
            });
        }
        Some(at) => blobs.remove(at).json,
        None => json!({"schema": "olm.channel", "name": place.channel, "package": place.package})
            .to_string()
            .into_bytes()
            .into(),
    };
    blobs.push(extend_channel(&channel, place, &bundles)?);
    if !blobs.iter().any(|blob| is_match(blob, BlobKind::Package)) {
        let package = json!({"schema": "olm.package", "name": place.package, "defaultChannel": place.channel});
        let json = package.to_string().into_bytes();
        blobs.push(Blob::new(
            place.package,
            BlobKind::Package,
            place.package,
            json,
        ));
    }
    let injected = bundles
        .into_iter()
        .filter(|bundle| !from_index.contains(&bundle.name));
    blobs.extend(injected.map(|bundle| bundle.blob));
    let rendered = Rendered::from_blobs(blobs);
    rendered.check(Format::Yaml)?;
    let catalog = load(Source::Files(&MemoryFiles(&rendered.blobs)), limits)?;
    let mut warnings = validate(&catalog, place.package)?;
    if !from_index.is_empty() {
        let from_index = format_names(from_index.iter().map(String::as_str).collect());
        warnings.push(format!(
            "the index {index_name} now contains bundles that were injected before; using those of the index: {from_index}"
        ));
    }
    Ok(ComposedCatalog {
        rendered,
        catalog,
        warnings,
    })
}

/// Checks the bundles independently of the index.
fn check(place: ChannelRef<'_>, bundles: &[Bundle]) -> Result<(), Error> {
    names::dns_label(place.package).map_err(|problem| Error::Name {
        name: place.package.chars().take(100).collect(),
        problem,
    })?;
    if bundles.is_empty() {
        return Err(Error::NoBundles);
    }
    for (at, bundle) in bundles.iter().enumerate() {
        if bundle.package != place.package {
            return Err(Error::Package {
                bundle: bundle.name.clone(),
                image: bundle.image.clone(),
                found: bundle.package.clone(),
                package: place.package.to_owned(),
            });
        }
        let earlier = bundles
            .iter()
            .take(at)
            .find(|other| other.name == bundle.name);
        if let Some(first) = earlier {
            return Err(Error::DuplicateBundle {
                name: bundle.name.clone(),
                first: first.image.clone(),
                second: bundle.image.clone(),
            });
        }
    }
    Ok(())
}

/// Returns the channel with the bundles appended.
fn extend_channel(
    channel: &[u8],
    place: ChannelRef<'_>,
    bundles: &[Bundle],
) -> Result<Blob, Error> {
    let unreadable = |problem: &dyn std::fmt::Display| {
        Error::Invalid(format!(
            "channel {:?} cannot be read: {problem}",
            place.channel
        ))
    };
    let mut channel: Map<String, Value> =
        serde_json::from_slice(channel).map_err(|error| unreadable(&error))?;
    let mut entries = match channel.remove("entries") {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    };
    let mut previous = channel_head(&entries, place)?.map(str::to_owned);
    let existing: BTreeSet<String> = entries.iter().filter_map(name).map(str::to_owned).collect();
    for bundle in bundles
        .iter()
        .filter(|bundle| !existing.contains(&bundle.name))
    {
        let mut entry = json!({"name": bundle.name});
        if let (Some(previous), Value::Object(entry)) = (previous, &mut entry) {
            entry.insert("replaces".to_owned(), previous.into());
        }
        entries.push(entry);
        previous = Some(bundle.name.clone());
    }
    channel.insert("entries".to_owned(), entries.into());
    let json = Value::Object(channel).to_string().into_bytes();
    Ok(Blob::new(
        place.package,
        BlobKind::Channel,
        place.channel,
        json,
    ))
}

fn name(entry: &Value) -> Option<&str> {
    entry.get("name").and_then(Value::as_str)
}

/// Returns the entry that no other entry replaces. Of several such entries, those that another entry skips are ignored.
fn channel_head<'a>(entries: &'a [Value], place: ChannelRef<'_>) -> Result<Option<&'a str>, Error> {
    let text = |entry: &'a Value, key| entry.get(key).and_then(Value::as_str);
    let replaced: BTreeSet<&str> = entries
        .iter()
        .filter_map(|entry| text(entry, "replaces"))
        .collect();
    let names: BTreeSet<&str> = entries.iter().filter_map(name).collect();
    let mut heads: BTreeSet<&str> = names.difference(&replaced).copied().collect();
    if heads.len() > 1 {
        let skips = entries
            .iter()
            .filter_map(|entry| entry.get("skips")?.as_array());
        for skipped in skips.flatten().filter_map(Value::as_str) {
            heads.remove(skipped);
        }
    }
    let (channel, package) = (place.channel.to_owned(), place.package.to_owned());
    match heads.len() {
        0 if entries.is_empty() => Ok(None),
        0 => Err(Error::NoHead { channel, package }),
        1 => Ok(heads.pop_first()),
        _ => Err(Error::SeveralHeads {
            channel,
            package,
            heads: format_names(heads),
        }),
    }
}

/// Rejects errors of the package. Returns errors of other packages as warnings.
fn validate(catalog: &Catalog, package: &str) -> Result<Vec<String>, Error> {
    let relevant: Vec<Finding> = catalog
        .findings
        .iter()
        .filter(|finding| {
            finding
                .package
                .as_deref()
                .is_none_or(|name| name == package)
        })
        .cloned()
        .collect();
    if relevant
        .iter()
        .any(|finding| finding.level == Severity::Error)
    {
        let text = finding::as_opm(&relevant).unwrap_or_default();
        return Err(Error::Invalid(text.trim_end().to_owned()));
    }
    if !catalog.packages.contains_key(package) {
        let problem = catalog.why_broken(package);
        let problem =
            problem.unwrap_or_else(|| format!("package {package:?} is not in the result"));
        return Err(Error::Invalid(problem));
    }
    let broken: BTreeSet<&str> = catalog.broken.keys().map(String::as_str).collect();
    if broken.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![format!(
        "the index has packages with errors, which some catalog servers reject: {}",
        format_names(broken)
    )])
}

/// Formats names as `a, b and 3 more`.
fn format_names(names: BTreeSet<&str>) -> String {
    let count = names.len();
    let first: Vec<&str> = names.into_iter().take(MAX_NAMES).collect();
    match count.saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Blobs as a single in-memory file, so that they are read like any catalog.
#[derive(Debug)]
struct MemoryFiles<'a>(&'a [Blob]);

impl FileSource for MemoryFiles<'_> {
    fn paths(&self) -> Vec<String> {
        vec![FILE.to_owned()]
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        if path != FILE {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(BlobTexts {
            blobs: self.0.iter(),
            remaining: &[],
        }))
    }
}

/// Reader of the concatenated blobs.
struct BlobTexts<'a> {
    blobs: slice::Iter<'a, Blob>,
    remaining: &'a [u8],
}

impl Read for BlobTexts<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.remaining.is_empty() {
            match self.blobs.next() {
                Some(blob) => self.remaining = &blob.json,
                None => return Ok(0),
            }
        }
        self.remaining.read(buffer)
    }
}

//! Bundles of a developer in a catalog: what `run bundle` and `run bundle-upgrade` serve, or check with.
//!
//! ```text
//!  index (render: a folder, an image, a database; or none) ─┐
//!  bundle 1, bundle 2, … (render, in the order of time) ────┼─► compose ─► check ─► Composed: documents, facts, warnings
//!  package, channel, form ──────────────────────────────────┘
//! ```
//!
//! Everything that the index has stays. The bundles are one line of a channel: each replaces the one before it, and the
//! first the head that the index has there. An index whose tag has moved may have bundles by now that were injected before:
//! these are its own then. What results is checked as any other catalog; errors of other packages are the index's own, and
//! are told.

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
        Format, Image, Level, Render, Rendered,
        blob::{Blob, Class},
    },
    source::{Files, Limits, Source},
};

/// The index that stands for none: with it a catalog has the injected bundles and nothing else.
pub const DEFAULT_INDEX: &str = "quay.io/operator-framework/opm:latest";
/// The channel that `run bundle` installs from.
pub const CHANNEL: &str = "operator-sdk-run-bundle";
/// The only file of a catalog that was composed.
const FILE: &str = "catalog.json";
/// Names that are listed in one message.
const MOST_NAMES: usize = 10;

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `run bundle`: the channel is new.
    Run,
    /// `run bundle-upgrade`: what the index has of the channel is upgraded from.
    Upgrade,
}

/// An index, whatever it was read from.
#[derive(Debug)]
pub struct Index<'a> {
    /// As it was named.
    pub name: &'a str,
    /// All of it; see [`Render::catalog`].
    pub rendered: Rendered,
}

/// Where bundles belong.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The package.
    pub package: &'a str,
    /// The channel.
    pub channel: &'a str,
}

/// A bundle to be injected.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The name of its ClusterServiceVersion.
    pub name: String,
    /// Its package.
    pub package: String,
    /// Its image.
    pub image: String,
    blob: Blob,
}

/// A catalog with the bundles in it.
#[derive(Debug)]
pub struct Composed {
    /// All documents, in their order.
    pub rendered: Rendered,
    /// What decisions need of it.
    pub catalog: Catalog,
    /// What is wrong with other packages.
    pub warnings: Vec<String>,
}

// === impl Index ===

impl Index<'_> {
    /// The channel that counts in a package when none is asked for, if the package is in the index.
    pub fn default_channel(&self, package: &str) -> Option<String> {
        let mut blobs = self.rendered.blobs.iter();
        let blob = blobs.find(|it| it.class == Class::Package && *it.package == *package)?;
        let blob: Value = serde_json::from_slice(&blob.json).ok()?;
        let channel = blob.get("defaultChannel")?.as_str()?;
        Some(channel.to_owned()).filter(|it| !it.is_empty())
    }
}

// === impl Bundle ===

impl Bundle {
    /// Renders a bundle's files, migrated up to a level; `warn` is told what of them is left out.
    ///
    /// # Errors
    /// As [`Render::bundle`].
    pub fn read(
        content: &Content,
        image: &str,
        level: Level,
        warn: impl FnMut(String),
    ) -> Result<Self, Error> {
        let mut render = Render::new(level);
        render.bundle(content, Image::Reference(image))?;
        render.take_warnings().into_iter().for_each(warn);
        // One bundle makes one document.
        let blob = render.finish().blobs.pop().ok_or(Error::Nothing)?;
        Ok(Self {
            name: blob.key.as_ref().to_owned(),
            package: blob.package.as_ref().to_owned(),
            image: image.to_owned(),
            blob,
        })
    }

    /// How much of it is kept in memory, in bytes.
    pub fn size(&self) -> usize {
        self.blob.json.len()
    }
}

// === impl Composed ===

impl Composed {
    /// Each document as YAML, by itself, without `---`.
    ///
    /// # Errors
    /// When one cannot be written; [`compose`] has tried.
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

/// Puts bundles into a catalog, in the order in which they replace one another.
///
/// # Errors
/// When the index has the bundles already, or it is not clear what the first one replaces, or the result is no catalog.
pub fn compose(
    index: Option<Index<'_>>,
    place: Place<'_>,
    form: Form,
    bundles: Vec<Bundle>,
    limits: &Limits,
) -> Result<Composed, Error> {
    check(place, &bundles)?;
    let (index_name, mut blobs) = match index {
        Some(index) => (index.name.to_owned(), index.rendered.blobs),
        None => (DEFAULT_INDEX.to_owned(), Vec::new()),
    };
    let is_here =
        |blob: &Blob, class: Class| *blob.package == *place.package && blob.class == class;
    let known: BTreeSet<&str> = blobs
        .iter()
        .filter(|blob| is_here(blob, Class::Bundle))
        .map(|blob| &*blob.key)
        .collect();
    let is_known = |it: &&Bundle| known.contains(it.name.as_str());
    // It is the last one that is asked for.
    if let Some(bundle) = bundles.last().filter(is_known) {
        return Err(Error::BundleExists {
            bundle: bundle.name.clone(),
            index: index_name,
            form,
        });
    }
    let theirs: BTreeSet<String> = bundles
        .iter()
        .filter(is_known)
        .map(|it| it.name.clone())
        .collect();
    let at = blobs
        .iter()
        .position(|it| is_here(it, Class::Channel) && *it.key == *place.channel);
    let channel = match at {
        Some(_) if form == Form::Run => {
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
    blobs.push(longer(&channel, place, &bundles)?);
    if !blobs.iter().any(|it| is_here(it, Class::Package)) {
        let package = json!({"schema": "olm.package", "name": place.package, "defaultChannel": place.channel});
        let json = package.to_string().into_bytes();
        blobs.push(Blob::new(
            place.package,
            Class::Package,
            place.package,
            json,
        ));
    }
    let ours = bundles.into_iter().filter(|it| !theirs.contains(&it.name));
    blobs.extend(ours.map(|it| it.blob));
    let rendered = Rendered::of(blobs);
    rendered.check(Format::Yaml)?;
    let catalog = load(Source::Files(&InMemory(&rendered.blobs)), limits)?;
    let mut warnings = judge(&catalog, place.package)?;
    if !theirs.is_empty() {
        let theirs = listed(theirs.iter().map(String::as_str).collect());
        warnings.push(format!(
            "the index {index_name} has bundles by now that were injected before, and they are taken from it: {theirs}"
        ));
    }
    Ok(Composed {
        rendered,
        catalog,
        warnings,
    })
}

/// The bundles by themselves.
fn check(place: Place<'_>, bundles: &[Bundle]) -> Result<(), Error> {
    names::dns_label(place.package).map_err(|problem| Error::Name {
        name: place.package.chars().take(100).collect(),
        problem,
    })?;
    if bundles.is_empty() {
        return Err(Error::Nothing);
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
        let earlier = bundles.iter().take(at).find(|it| it.name == bundle.name);
        if let Some(first) = earlier {
            return Err(Error::Twice {
                name: bundle.name.clone(),
                first: first.image.clone(),
                second: bundle.image.clone(),
            });
        }
    }
    Ok(())
}

/// The channel with the bundles at its end.
fn longer(channel: &[u8], place: Place<'_>, bundles: &[Bundle]) -> Result<Blob, Error> {
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
    let mut before = head(&entries, place)?.map(str::to_owned);
    let there: BTreeSet<String> = entries.iter().filter_map(name).map(str::to_owned).collect();
    for bundle in bundles.iter().filter(|it| !there.contains(&it.name)) {
        let mut entry = json!({"name": bundle.name});
        if let (Some(before), Value::Object(entry)) = (before, &mut entry) {
            entry.insert("replaces".to_owned(), before.into());
        }
        entries.push(entry);
        before = Some(bundle.name.clone());
    }
    channel.insert("entries".to_owned(), entries.into());
    let json = Value::Object(channel).to_string().into_bytes();
    Ok(Blob::new(
        place.package,
        Class::Channel,
        place.channel,
        json,
    ))
}

fn name(entry: &Value) -> Option<&str> {
    entry.get("name").and_then(Value::as_str)
}

/// The entry that no other replaces. Of several, those that another one skips are passed over by whoever upgrades.
fn head<'a>(entries: &'a [Value], place: Place<'_>) -> Result<Option<&'a str>, Error> {
    let text = |entry: &'a Value, key| entry.get(key).and_then(Value::as_str);
    let replaced: BTreeSet<&str> = entries
        .iter()
        .filter_map(|it| text(it, "replaces"))
        .collect();
    let names: BTreeSet<&str> = entries.iter().filter_map(name).collect();
    let mut heads: BTreeSet<&str> = names.difference(&replaced).copied().collect();
    if heads.len() > 1 {
        let skips = entries.iter().filter_map(|it| it.get("skips")?.as_array());
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
            heads: listed(heads),
        }),
    }
}

/// Refuses what is wrong with the package, and tells what is wrong with others.
fn judge(catalog: &Catalog, package: &str) -> Result<Vec<String>, Error> {
    let ours: Vec<Finding> = catalog
        .findings
        .iter()
        .filter(|it| it.package.as_deref().is_none_or(|name| name == package))
        .cloned()
        .collect();
    if ours.iter().any(|it| it.level == Severity::Error) {
        let text = finding::as_opm(&ours).unwrap_or_default();
        return Err(Error::Invalid(text.trim_end().to_owned()));
    }
    if !catalog.packages.contains_key(package) {
        let why = catalog.why_broken(package);
        let why = why.unwrap_or_else(|| format!("package {package:?} is not in the result"));
        return Err(Error::Invalid(why));
    }
    let broken: BTreeSet<&str> = catalog.broken.keys().map(String::as_str).collect();
    if broken.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![format!(
        "the index has packages with errors, which some servers refuse to serve: {}",
        listed(broken)
    )])
}

/// `a, b and 3 more`.
fn listed(names: BTreeSet<&str>) -> String {
    let count = names.len();
    let first: Vec<&str> = names.into_iter().take(MOST_NAMES).collect();
    match count.saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Blobs as a file, so that they are read as any catalog.
#[derive(Debug)]
struct InMemory<'a>(&'a [Blob]);

impl Files for InMemory<'_> {
    fn paths(&self) -> Vec<String> {
        vec![FILE.to_owned()]
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        if path != FILE {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(Texts {
            blobs: self.0.iter(),
            rest: &[],
        }))
    }
}

/// The texts of blobs, one behind the other.
struct Texts<'a> {
    blobs: slice::Iter<'a, Blob>,
    rest: &'a [u8],
}

impl Read for Texts<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.blobs.next() {
                Some(blob) => self.rest = &blob.json,
                None => return Ok(0),
            }
        }
        self.rest.read(buffer)
    }
}

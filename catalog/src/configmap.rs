//! Catalogs in ConfigMaps, in the format of OLM's early versions: three lists in YAML.
//!
//! ```text
//! packages ─────────────────► channels and their heads ───────► replaces, replaces, …
//! clusterServiceVersions ───► bundles                               │
//! customResourceDefinitions ► owners                                ▼
//! documents, load, render, serve ◄── one file of blobs per package ─┘
//! ```
//!
//! A channel contains its head, the bundle that the head replaces, and so on. It also contains the bundles that these
//! skip, if the ConfigMap has them (OLM v0 parity). Bundles outside of all channels are skipped and reported.
//!
//! A ConfigMap implements [`FileSource`]: it looks like a directory with one file per package. Its bundles have no image.
//! Their blobs contain the manifests (`olm.bundle.object`) and the properties that `opm render` would derive. Blobs are
//! built while they are read, so a CRD that several bundles own is in memory only once.

mod blobs;
mod parse;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
};

use manifests::{object::text, yaml};
use serde_json::Value;

use crate::source::{FileSource, Limits};

/// Key of the packages.
pub const PACKAGES: &str = "packages";
/// Key of the bundles.
pub const CSVS: &str = "clusterServiceVersions";
/// Key of the CRDs that the bundles own.
pub const CRDS: &str = "customResourceDefinitions";

/// Maximum size of the blobs of one ConfigMap in bytes. The ConfigMap itself has at most one mebibyte, but each bundle
/// contains a copy of the CRDs that it owns.
const MAX_BYTES: u64 = 256 << 20;
/// Maximum number of entries in all channels.
const MAX_ENTRIES: usize = 100_000;

/// Reasons why a ConfigMap is not a catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key is missing.
    #[error("couldn't find expected key {key} in configmap; add the key, whose value may be empty")]
    Missing {
        /// Key that is missing.
        key: &'static str,
    },
    /// The text of a key is not valid YAML.
    #[error("failed to parse the value of key {key}")]
    Yaml {
        /// Key of the text.
        key: &'static str,
        /// Cause of the failure.
        #[source]
        source: yaml::Error,
    },
    /// The text of a key is not a list of objects.
    #[error("the value of key {key} is {found}; set it to a list of {of}")]
    Shape {
        /// Key of the text.
        key: &'static str,
        /// Description of the actual content.
        found: &'static str,
        /// Expected kind of objects.
        of: &'static str,
    },
    /// A CRD occurs twice.
    #[error("can't add the same CRD twice in one configmap: {0}; remove one of them")]
    DuplicateCrd(String),
    /// The catalog exceeds a limit.
    #[error("the catalog of the configmap has more than {limit} {unit}; serve it from an image")]
    TooLarge {
        /// Limit that was exceeded.
        limit: u64,
        /// Unit of the limit.
        unit: &'static str,
    },
}

/// A catalog in a ConfigMap.
#[derive(Debug)]
pub struct ConfigMap {
    packages: BTreeMap<String, Package>,
    csvs: Vec<Csv>,
    crds: Vec<Value>,
    left_out: Vec<String>,
}

#[derive(Debug)]
struct Package {
    default_channel: String,
    /// Entries of each channel, the head first.
    channels: BTreeMap<String, Vec<Entry>>,
}

/// An entry of a channel.
#[derive(Debug)]
struct Entry {
    /// Position of the bundle in `csvs`.
    csv: usize,
    /// True if the bundle is the head or was reached through `replaces`, and not only through `skips`.
    is_on_chain: bool,
}

/// A bundle with its CRDs and edges.
#[derive(Debug)]
struct Csv {
    name: String,
    object: Value,
    /// Positions of the CRDs that the bundle owns.
    owns: BTreeSet<usize>,
    /// Position of the replaced bundle; `None` if the ConfigMap does not contain it.
    replaces: Option<usize>,
    /// Positions of the skipped bundles that the ConfigMap contains.
    skips: BTreeSet<usize>,
}

// === impl ConfigMap ===

impl ConfigMap {
    /// Reads the data of a ConfigMap.
    ///
    /// # Errors
    /// Returns an error if the data is not a valid catalog, or exceeds a limit.
    pub fn read(data: &BTreeMap<String, String>, limits: &Limits) -> Result<Self, Error> {
        let mut yaml_limits = yaml::Limits::default();
        let mut list = |key, of| read_list(data, key, of, &mut yaml_limits);
        let crds = list(CRDS, "CustomResourceDefinitions")?;
        let csvs = list(CSVS, "ClusterServiceVersions")?;
        let packages = list(PACKAGES, "packages")?;
        parse::read(crds, csvs, &packages, limits)
    }

    /// Reads a ConfigMap that the kubelet has mounted as one file per key. Returns `None` for other files.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read), and an error if a file cannot be read.
    pub fn mounted(files: &dyn FileSource, limits: &Limits) -> io::Result<Option<Self>> {
        let paths = files.paths();
        if [PACKAGES, CSVS, CRDS]
            .iter()
            .any(|key| !paths.iter().any(|path| path == key))
        {
            return Ok(None);
        }
        let mut data = BTreeMap::new();
        for key in [PACKAGES, CSVS, CRDS] {
            let mut text = String::new();
            let limit = limits.document as u64;
            let mut file = files.open(key)?.take(limit.saturating_add(1));
            file.read_to_string(&mut text)?;
            if file.limit() == 0 {
                return Err(io::Error::other(Error::TooLarge {
                    limit,
                    unit: "bytes in one key",
                }));
            }
            data.insert(key.to_owned(), text);
        }
        Self::read(&data, limits)
            .map(Some)
            .map_err(io::Error::other)
    }

    /// Returns the skipped content of the ConfigMap, with the reasons.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

// === impl Package ===

impl Package {
    /// Returns the positions of the bundles of all channels.
    fn bundles(&self) -> BTreeSet<usize> {
        self.channels
            .values()
            .flatten()
            .map(|entry| entry.csv)
            .collect()
    }
}

// === impl Csv ===

impl Csv {
    fn replaced_name(&self) -> &str {
        text(&self.object, &["spec", "replaces"]).unwrap_or_default()
    }

    fn skipped_names(&self) -> impl Iterator<Item = &str> {
        let skips = self.object.pointer("/spec/skips").and_then(Value::as_array);
        skips.into_iter().flatten().filter_map(Value::as_str)
    }

    fn skip_range(&self) -> Option<&str> {
        let range = text(&self.object, &["metadata", "annotations", "olm.skipRange"]);
        range.filter(|range| !range.is_empty())
    }
}

/// Reads the objects below a key. An empty text yields an empty list.
fn read_list(
    data: &BTreeMap<String, String>,
    key: &'static str,
    of: &'static str,
    limits: &mut yaml::Limits,
) -> Result<Vec<Value>, Error> {
    let text = data.get(key).ok_or(Error::Missing { key })?;
    let mut documents = yaml::documents_with(text.as_bytes(), *limits);
    let first = documents.next().unwrap_or(Ok(Value::Null));
    let first = first.map_err(|source| Error::Yaml { key, source })?;
    let found = match &first {
        Value::Null => "",
        Value::Array(items) if items.iter().all(Value::is_object) => "",
        Value::Array(_) => "a list with items that are not objects",
        _ => "not a list",
    };
    if documents.next().is_some() {
        let found = "several documents";
        return Err(Error::Shape { key, found, of });
    }
    *limits = documents.remaining_values();
    match first {
        Value::Array(items) if found.is_empty() => Ok(items),
        Value::Null => Ok(Vec::new()),
        _ => Err(Error::Shape { key, found, of }),
    }
}

//! Catalogs in ConfigMaps, as OLM's first users wrote them: three lists in YAML.
//!
//! ```text
//!  packages ─────────────────► channels and their heads ──► replaces, replaces, …
//!  clusterServiceVersions ───► bundles                          │
//!  customResourceDefinitions ► whoever owns them                ▼
//!  walk, load, render, serve ◄── one file of blobs for each package
//! ```
//!
//! A channel has its head, what that replaces, and so on, and what these skip, as far as it is there (OLM v0 parity). What no
//! channel leads to is left out, and told.
//!
//! A ConfigMap is [`Files`]: for everybody else it is a folder with a file for each package. Its bundles have no image:
//! their manifests are in them (`olm.bundle.object`), with the properties that `opm render` would find there. A blob is
//! made when it is read, so that definitions that many bundles own are in memory once.

mod blobs;
mod read;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
};

use manifests::{object::text, yaml};
use serde_json::Value;

use crate::source::{Files, Limits};

/// The key of the packages.
pub const PACKAGES: &str = "packages";
/// The key of the bundles.
pub const CSVS: &str = "clusterServiceVersions";
/// The key of what they own.
pub const CRDS: &str = "customResourceDefinitions";

/// What the blobs of one ConfigMap may come to, in bytes. It holds a mebibyte, and what several bundles own is in each.
const MOST_BYTES: u64 = 256 << 20;
/// Entries of all its channels.
const MOST_ENTRIES: usize = 100_000;

/// Why a ConfigMap is no catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A list is not there at all.
    #[error(
        "couldn't find expected key {key} in configmap; it has to be there, with an empty text if there are none"
    )]
    Missing {
        /// Its key.
        key: &'static str,
    },
    /// A list cannot be read.
    #[error("the text of key {key} cannot be read")]
    Yaml {
        /// Its key.
        key: &'static str,
        /// Why.
        #[source]
        source: yaml::Error,
    },
    /// A list has something else in it.
    #[error("the text of key {key} is {found}; write a list of {of}")]
    Shape {
        /// Its key.
        key: &'static str,
        /// What is there.
        found: &'static str,
        /// What has to be.
        of: &'static str,
    },
    /// A definition is there twice.
    #[error("can't add the same CRD twice in one configmap: {0}; remove one of them")]
    Twice(String),
    /// What is in it would come to more than it may.
    #[error("the catalog of the configmap has more than {limit} {unit}; serve it from an image")]
    TooLarge {
        /// The limit.
        limit: u64,
        /// Of what.
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
    /// Channels and their bundles, the head first.
    channels: BTreeMap<String, Vec<Entry>>,
}

/// A bundle of a channel.
#[derive(Debug)]
struct Entry {
    /// Its place among the bundles.
    csv: usize,
    /// Whether it was found by following `replaces`, and not only among what others skip.
    is_followed: bool,
}

/// A bundle.
#[derive(Debug)]
struct Csv {
    name: String,
    object: Value,
    /// The definitions that it owns, by their places.
    owns: BTreeSet<usize>,
    /// The bundle that it replaces, if it is there.
    replaces: Option<usize>,
    /// The bundles that it skips, as far as they are there.
    skips: BTreeSet<usize>,
}

// === impl ConfigMap ===

impl ConfigMap {
    /// Reads the data of a ConfigMap.
    ///
    /// # Errors
    /// When it is no catalog, or more of one than it may be.
    pub fn read(data: &BTreeMap<String, String>, limits: &Limits) -> Result<Self, Error> {
        let mut left = yaml::Limits::default();
        let mut list = |key, of| read_list(data, key, of, &mut left);
        let crds = list(CRDS, "CustomResourceDefinitions")?;
        let csvs = list(CSVS, "ClusterServiceVersions")?;
        let packages = list(PACKAGES, "packages")?;
        read::read(crds, csvs, &packages, limits)
    }

    /// The ConfigMap that files are, as a kubelet mounts one: a file for each key. Nothing if they are something else.
    ///
    /// # Errors
    /// As [`read`](Self::read), and when a file cannot be read.
    pub fn mounted(files: &dyn Files, limits: &Limits) -> io::Result<Option<Self>> {
        let paths = files.paths();
        if [PACKAGES, CSVS, CRDS]
            .iter()
            .any(|key| !paths.iter().any(|it| it == key))
        {
            return Ok(None);
        }
        let mut data = BTreeMap::new();
        for key in [PACKAGES, CSVS, CRDS] {
            let mut text = String::new();
            let most = limits.document as u64;
            let mut file = files.open(key)?.take(most.saturating_add(1));
            file.read_to_string(&mut text)?;
            if file.limit() == 0 {
                return Err(io::Error::other(Error::TooLarge {
                    limit: most,
                    unit: "bytes in one key",
                }));
            }
            data.insert(key.to_owned(), text);
        }
        Self::read(&data, limits)
            .map(Some)
            .map_err(io::Error::other)
    }

    /// What is no part of the catalog, and why, in words.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

// === impl Package ===

impl Package {
    /// The places of its bundles, each of them once.
    fn bundles(&self) -> BTreeSet<usize> {
        self.channels.values().flatten().map(|it| it.csv).collect()
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
        range.filter(|it| !it.is_empty())
    }
}

/// The objects below a key; without any text there are none.
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
        Value::Array(_) => "a list of something else",
        _ => "no list",
    };
    if documents.next().is_some() {
        let found = "several documents";
        return Err(Error::Shape { key, found, of });
    }
    *limits = documents.left();
    match first {
        Value::Array(items) if found.is_empty() => Ok(items),
        Value::Null => Ok(Vec::new()),
        _ => Err(Error::Shape { key, found, of }),
    }
}

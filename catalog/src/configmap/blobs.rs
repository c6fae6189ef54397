//! Blobs of a package, built while they are read.

use std::{
    collections::{btree_map, btree_set},
    io::{self, Read},
};

use manifests::{
    content::{self, Builder},
    object::{text, truncate},
};
use serde_json::{Value, json};

use super::{ConfigMap, Csv, Entry, MAX_BYTES, Package};
use crate::{go_json, render, source::FileSource};

// === impl ConfigMap ===

impl ConfigMap {
    /// Builds the blob of a bundle.
    fn bundle(&self, package: &str, csv: &Csv) -> Result<Vec<u8>, render::Error> {
        let mut files = Builder::new(content::Limits {
            total: MAX_BYTES,
            file: MAX_BYTES,
            ..content::Limits::default()
        });
        let mut add = |path: &str, value: &Value| {
            // The limit exceeds the size of a ConfigMap, so this never fails.
            drop(files.add(path, 0o644, &mut value.to_string().as_bytes()));
        };
        let annotations =
            json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": package}});
        add("metadata/annotations.yaml", &annotations);
        add("manifests/csv.yaml", &csv.object);
        for at in &csv.owns {
            if let Some(crd) = self.crds.get(*at) {
                add(&format!("manifests/{at}.yaml"), crd);
            }
        }
        render::bundle_blob(&files.finish())
    }

    fn channel(&self, package: &str, name: &str, entries: &[Entry]) -> Value {
        let entries: Vec<Value> = (entries.iter())
            .filter_map(|entry| Some(self.csvs.get(entry.csv)?.entry(entry.is_on_chain)))
            .collect();
        json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
    }

    /// Returns the icon of the bundle at the head of the default channel, as other catalog formats do.
    pub(super) fn icon(&self, package: &Package) -> Option<Value> {
        let head = package.channels.get(&package.default_channel)?.first()?;
        let icon = self.csvs.get(head.csv)?.object.pointer("/spec/icon/0")?;
        let data = go_json::icon_data(text(icon, &["base64data"])?)?;
        let mediatype = text(icon, &["mediatype"]).unwrap_or_default();
        Some(json!({"base64data": data, "mediatype": mediatype}))
    }
}

impl FileSource for ConfigMap {
    fn paths(&self) -> Vec<String> {
        self.packages
            .keys()
            .map(|name| format!("{name}.json"))
            .collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let name = path.strip_suffix(".json").unwrap_or(path);
        let entry = self.packages.get_key_value(name);
        let (name, package) = entry.ok_or(io::ErrorKind::NotFound)?;
        let mut blob = json!({"schema": "olm.package", "name": name, "defaultChannel": package.default_channel});
        if let Some(icon) = self.icon(package) {
            put(&mut blob, "icon", icon);
        }
        Ok(Box::new(BlobStream {
            map: self,
            package: name,
            channels: package.channels.iter(),
            bundles: package.bundles().into_iter(),
            buffer: format!("{blob}\n").into_bytes(),
            read: 0,
        }))
    }
}

// === impl Csv ===

impl Csv {
    /// Returns the entry of the bundle in a channel. A bundle that was reached only through `skips` has no edges.
    fn entry(&self, is_on_chain: bool) -> Value {
        let mut entry = json!({"name": self.name});
        let replaces = self.replaced_name();
        if is_on_chain && !replaces.is_empty() {
            put(&mut entry, "replaces", replaces);
        }
        let skips: Vec<&str> = self.skipped_names().collect();
        if is_on_chain && !skips.is_empty() {
            put(&mut entry, "skips", json!(skips));
        }
        if let Some(range) = self.skip_range() {
            put(&mut entry, "skipRange", range);
        }
        entry
    }
}

/// Reader of the consecutive blobs of a package.
struct BlobStream<'a> {
    map: &'a ConfigMap,
    package: &'a str,
    channels: btree_map::Iter<'a, String, Vec<Entry>>,
    bundles: btree_set::IntoIter<usize>,
    buffer: Vec<u8>,
    read: usize,
}

// === impl BlobStream ===

impl BlobStream<'_> {
    fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        if let Some((channel, entries)) = self.channels.next() {
            let blob = self.map.channel(self.package, channel, entries);
            return Some(Ok(blob.to_string().into_bytes()));
        }
        let bundle = self.bundles.next().and_then(|at| self.map.csvs.get(at))?;
        let blob = self.map.bundle(self.package, bundle);
        Some(blob.map_err(|error| {
            let name = truncate(&bundle.name, 100);
            io::Error::other(format!("ClusterServiceVersion {name:?}: {error}"))
        }))
    }
}

impl Read for BlobStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.buffer.len() {
            self.read = 0;
            self.buffer.clear();
            let Some(blob) = self.next() else {
                return Ok(0);
            };
            self.buffer = blob?;
            self.buffer.push(b'\n');
        }
        let mut remaining = self.buffer.get(self.read..).unwrap_or_default();
        let count = remaining.read(out)?;
        self.read += count;
        Ok(count)
    }
}

/// Sets a field of an object.
fn put(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value.into());
    }
}

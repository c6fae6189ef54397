//! The blobs of a package, made while they are read.

use std::{
    collections::{btree_map, btree_set},
    io::{self, Read},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use manifests::{
    content::{self, Builder},
    object::{shortened, text},
};
use serde_json::{Value, json};

use super::{ConfigMap, Csv, Entry, MOST_BYTES, Package};
use crate::{render, source::Files};

// === impl ConfigMap ===

impl ConfigMap {
    /// The blob of a bundle.
    fn bundle(&self, package: &str, csv: &Csv) -> Result<Vec<u8>, render::Error> {
        let mut files = Builder::new(content::Limits {
            total: MOST_BYTES,
            file: MOST_BYTES,
            ..content::Limits::default()
        });
        let mut add = |path: &str, value: &Value| {
            // It was in a ConfigMap and fits.
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
            .filter_map(|entry| Some(self.csvs.get(entry.csv)?.entry(entry.is_followed)))
            .collect();
        json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
    }

    /// The picture of the bundle at the head of the default channel, as in other catalogs.
    pub(super) fn icon(&self, package: &Package) -> Option<Value> {
        let head = package.channels.get(&package.default_channel)?.first()?;
        let icon = self.csvs.get(head.csv)?.object.pointer("/spec/icon/0")?;
        let data = text(icon, &["base64data"])?.replace(' ', "");
        STANDARD.decode(&data).ok().filter(|it| !it.is_empty())?;
        let mediatype = text(icon, &["mediatype"]).unwrap_or_default();
        Some(json!({"base64data": data, "mediatype": mediatype}))
    }
}

impl Files for ConfigMap {
    fn paths(&self) -> Vec<String> {
        self.packages
            .keys()
            .map(|it| format!("{it}.json"))
            .collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        let name = path.strip_suffix(".json").unwrap_or(path);
        let found = self.packages.get_key_value(name);
        let (name, package) = found.ok_or(io::ErrorKind::NotFound)?;
        let mut blob = json!({"schema": "olm.package", "name": name, "defaultChannel": package.default_channel});
        if let Some(icon) = self.icon(package) {
            put(&mut blob, "icon", icon);
        }
        Ok(Box::new(Text {
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
    /// As an entry of a channel. What is there only because others skip it has nothing before it in it.
    fn entry(&self, is_followed: bool) -> Value {
        let mut entry = json!({"name": self.name});
        let replaces = self.replaced_name();
        if is_followed && !replaces.is_empty() {
            put(&mut entry, "replaces", replaces);
        }
        let skips: Vec<&str> = self.skipped_names().collect();
        if is_followed && !skips.is_empty() {
            put(&mut entry, "skips", json!(skips));
        }
        if let Some(range) = self.skip_range() {
            put(&mut entry, "skipRange", range);
        }
        entry
    }
}

/// The blobs of a package one after the other.
struct Text<'a> {
    map: &'a ConfigMap,
    package: &'a str,
    channels: btree_map::Iter<'a, String, Vec<Entry>>,
    bundles: btree_set::IntoIter<usize>,
    buffer: Vec<u8>,
    read: usize,
}

// === impl Text ===

impl Text<'_> {
    fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        if let Some((channel, entries)) = self.channels.next() {
            let blob = self.map.channel(self.package, channel, entries);
            return Some(Ok(blob.to_string().into_bytes()));
        }
        let bundle = self.bundles.next().and_then(|at| self.map.csvs.get(at))?;
        let blob = self.map.bundle(self.package, bundle);
        Some(blob.map_err(|error| {
            let name = shortened(&bundle.name, 100);
            io::Error::other(format!("ClusterServiceVersion {name:?}: {error}"))
        }))
    }
}

impl Read for Text<'_> {
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
        let mut rest = self.buffer.get(self.read..).unwrap_or_default();
        let count = rest.read(out)?;
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

//! Blobs of a package as `opm migrate` writes them: the package, its channels, then its bundles.

mod blobs;
mod legacy;
mod memory;
mod properties;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
};

use manifests::{
    object::{get_path, text},
    openshift::{INSTALLED_PROPERTIES_ANNOTATION, MAX_ANNOTATION, PROPERTIES_ANNOTATION},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use self::{
    blobs::{BundleBlob, ChannelBlob, Entry, Icon, PackageBlob, Property, RelatedImage},
    memory::BlobMemory,
    properties::{BundleRecord, Properties},
};
use super::{
    connection::SqliteConnection,
    rows::{Package, RowIndex},
};
use crate::go_json;

/// Maximum number of values in the manifests of a bundle, which are parsed in memory. The largest known bundles have
/// 53,000.
const MAX_VALUES: usize = 1_000_000;

/// Annotations of a ClusterServiceVersion that contain constraints.
const CONSTRAINT_ANNOTATIONS: [&str; 3] = [
    MAX_ANNOTATION,
    PROPERTIES_ANNOTATION,
    INSTALLED_PROPERTIES_ANNOTATION,
];

/// Iterator over the blobs of a package.
pub(super) struct PackageBlobs<'a> {
    tables: &'a SqliteConnection,
    rows: &'a RowIndex,
    package: &'a str,
    /// Maximum size of a blob in bytes.
    limit: usize,
    pending: VecDeque<Step<'a>>,
    /// Bundles that are part of the catalog.
    bundles: BTreeMap<&'a str, BundleColumns>,
}

enum Step<'a> {
    Package(&'a Package),
    Channel(&'a str),
    Bundles,
    Bundle(&'a str),
}

/// Small columns of a bundle's row.
struct BundleColumns {
    version: String,
    image: String,
    skip_range: String,
}

/// Parts of a ClusterServiceVersion that are read here. The reader of the catalog checks the rest.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Csv {
    #[serde(deserialize_with = "blobs::null_as_default")]
    kind: String,
    #[serde(deserialize_with = "blobs::null_as_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "blobs::null_as_default")]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    annotations: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    version: Option<String>,
    icon: Option<Vec<Option<IconField>>>,
    #[serde(rename = "relatedImages")]
    related_images: Option<Vec<Option<RelatedImage>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct IconField {
    #[serde(deserialize_with = "blobs::null_as_default")]
    base64data: String,
    #[serde(deserialize_with = "blobs::null_as_default")]
    mediatype: String,
}

// === impl PackageBlobs ===

impl<'a> PackageBlobs<'a> {
    pub(super) fn new(
        tables: &'a SqliteConnection,
        rows: &'a RowIndex,
        package: &str,
        limit: usize,
    ) -> Self {
        let mut pending = VecDeque::new();
        let mut name = "";
        if let Some((interned, package)) = rows.package(package) {
            name = interned;
            pending.push_back(Step::Package(package));
            pending.extend(package.heads.keys().map(|channel| Step::Channel(channel)));
            pending.push_back(Step::Bundles);
        }
        Self {
            tables,
            rows,
            package: name,
            limit,
            pending,
            bundles: BTreeMap::new(),
        }
    }

    /// Writes the next blob. Returns whether a blob was written.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let Some(step) = self.pending.pop_front() else {
            return Ok(false);
        };
        match step {
            Step::Package(package) => {
                self.bundles = self.versions()?;
                let blob = PackageBlob {
                    schema: "olm.package",
                    name: self.package,
                    default_channel: &package.default_channel,
                    icon: self.icon(package)?,
                };
                self.memory("package", self.package).write(&blob, out)?;
            }
            Step::Channel(name) => {
                let blob = self.channel(name);
                self.memory("channel", name).write(&blob, out)?;
            }
            Step::Bundles => {
                let bundles = self.bundles.keys().map(|bundle| Step::Bundle(bundle));
                self.pending.extend(bundles);
                return self.next(out);
            }
            Step::Bundle(name) => self.bundle(name, out)?,
        }
        out.push(b'\n');
        Ok(true)
    }

    fn memory(&self, kind: &'static str, name: &'a str) -> BlobMemory<'a> {
        BlobMemory::new(kind, name, self.limit)
    }

    /// Returns the bundles of all channels that have a row with an image and a version, and are not truncated.
    fn versions(&self) -> io::Result<BTreeMap<&'a str, BundleColumns>> {
        let (rows, package) = (self.rows, self.package);
        let channels = rows
            .package(package)
            .into_iter()
            .flat_map(|(_, package)| package.heads.keys());
        let names: BTreeSet<&str> = channels
            .flat_map(|channel| rows.entries_of(package, channel).into_keys())
            .collect();
        let mut memory = self.memory("package", package);
        let mut bundles = BTreeMap::new();
        for name in names.into_iter().filter(|name| !rows.is_truncated(name)) {
            if let Some(columns) = self.bundle_columns(name)? {
                memory.reserve(
                    columns.version.len() + columns.image.len() + columns.skip_range.len(),
                )?;
                bundles.insert(name, columns);
            }
        }
        Ok(bundles)
    }

    fn bundle_columns(&self, bundle: &str) -> io::Result<Option<BundleColumns>> {
        let has = |name| self.tables.layout.has("operatorbundle", name);
        let columns = ["version", "bundlepath", "skiprange"];
        let [mut version, mut image, skip_range] = self.texts(bundle, columns)?;
        let mut skip_range = skip_range.unwrap_or_default();
        if !has("version") {
            let csv: Csv = self.csv(bundle)?.unwrap_or_default();
            version = csv.spec.version;
            let mut annotations = csv.metadata.annotations.unwrap_or_default();
            skip_range = annotations
                .remove("olm.skipRange")
                .flatten()
                .unwrap_or_default();
        }
        if !has("bundlepath") {
            image = Some(String::new());
        }
        Ok(version.zip(image).map(|(version, image)| BundleColumns {
            version,
            image,
            skip_range,
        }))
    }

    /// Reads columns of a bundle's row.
    fn texts<const N: usize>(
        &self,
        bundle: &str,
        columns: [&str; N],
    ) -> io::Result<[Option<String>; N]> {
        let row = self.rows.bundle_row(bundle);
        self.tables.texts("operatorbundle", columns, row)
    }

    /// Reads the ClusterServiceVersion of a bundle. Returns `None` if it is absent or malformed.
    fn csv<T: DeserializeOwned>(&self, bundle: &str) -> io::Result<Option<T>> {
        let [csv] = self.texts(bundle, ["csv"])?;
        let csv = csv.unwrap_or_default();
        check_value_count(bundle, &csv)?;
        Ok(serde_json::from_str(&csv).ok())
    }

    /// Returns the icon of the bundle at the head of the default channel.
    fn icon(&self, package: &Package) -> io::Result<Option<Icon>> {
        let Some(head) = package.heads.get(&package.default_channel) else {
            return Ok(None);
        };
        let csv: Csv = self.csv(head)?.unwrap_or_default();
        let icon = csv.spec.icon.into_iter().flatten().next();
        Ok(icon.flatten().and_then(|icon| {
            Some(Icon {
                base64data: go_json::icon_data(&icon.base64data)?,
                mediatype: icon.mediatype,
            })
        }))
    }

    fn channel<'b>(&'b self, name: &'b str) -> ChannelBlob<'b> {
        let mut entries = Vec::new();
        for (bundle, (replaces, skips)) in self.rows.entries_of(self.package, name) {
            if let Some(version) = self.bundles.get(bundle) {
                entries.push(Entry {
                    name: bundle,
                    replaces,
                    skips,
                    skip_range: &version.skip_range,
                });
            }
        }
        ChannelBlob {
            schema: "olm.channel",
            package: self.package,
            name,
            entries,
        }
    }

    fn bundle(&self, name: &'a str, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(version) = self.bundles.get(name) else {
            return Ok(());
        };
        let mut memory = self.memory("bundle", name);
        let [objects] = self.texts(name, ["bundle"])?;
        let objects = match objects.filter(|objects| !objects.is_empty()) {
            Some(objects) => objects,
            None => self.lone_csv(name)?,
        };
        let objects = manifests(name, &objects, &mut memory)?;
        let csv = self.old_csv(name)?;
        let record = BundleRecord {
            bundle: name,
            package: self.package,
            version: &version.version,
            csv: csv.as_ref().filter(|_| !self.has_table("api_requirer")),
        };
        let properties = Properties {
            tables: self.tables,
            rows: self.rows,
        };
        let mut all = properties.read_tables(record, &mut memory)?;
        properties::objects(&objects, &mut all);
        properties::sort_and_dedup(&mut all);
        let mut related_images = related(&objects);
        let more = if self.has_table("related_image") {
            self.images(name, &mut memory)?
        } else {
            csv.as_ref().map(legacy::images).unwrap_or_default()
        };
        add(more, &mut related_images);
        let blob = BundleBlob {
            schema: "olm.bundle",
            name,
            package: self.package,
            image: &version.image,
            properties: all,
            related_images,
        };
        self.memory("bundle", name).write(&blob, out)
    }

    /// Reports whether the database has this table. Without it, the ClusterServiceVersion supplies the data.
    fn has_table(&self, table: &str) -> bool {
        let layout = &self.tables.layout;
        layout.has(table, "operatorbundle_name") || layout.has(table, "channel_entry_id")
    }

    /// Returns the ClusterServiceVersion of a bundle, if a table with the same data is missing.
    fn old_csv(&self, bundle: &str) -> io::Result<Option<Value>> {
        if self.has_table("api_requirer") && self.has_table("related_image") {
            return Ok(None);
        }
        self.csv(bundle)
    }

    /// Returns the ClusterServiceVersion of a row without manifests if it declares constraints, which exist nowhere
    /// else. Without constraints it is omitted, as in opm.
    fn lone_csv(&self, bundle: &str) -> io::Result<String> {
        let csv: Option<Value> = self.csv(bundle)?;
        if !csv.as_ref().is_some_and(has_constraints) {
            return Ok(String::new());
        }
        let [text] = self.texts(bundle, ["csv"])?;
        Ok(text.unwrap_or_default())
    }

    /// Returns the images that only the database lists.
    fn images(&self, bundle: &str, memory: &mut BlobMemory<'_>) -> io::Result<BTreeSet<String>> {
        let mut images = BTreeSet::new();
        for row in self.rows.rows_of("related_image", bundle) {
            let [image] = self.tables.texts("related_image", ["image"], Some(*row))?;
            memory.reserve(image.as_ref().map_or(0, String::len))?;
            images.extend(image);
        }
        Ok(images)
    }
}

/// Reports whether a ClusterServiceVersion declares constraints for the cluster.
fn has_constraints(csv: &Value) -> bool {
    let declares = |path: &[&str]| match get_path(csv, path) {
        None | Some(Value::Null) => false,
        // An empty maximum is invalid, which is reported.
        Some(value) => value != "" || path.ends_with(&[MAX_ANNOTATION]),
    };
    let is_annotated = |annotation| declares(&["metadata", "annotations", annotation]);
    text(csv, &["kind"]) == Some("ClusterServiceVersion")
        && (CONSTRAINT_ANNOTATIONS.into_iter().any(is_annotated)
            || declares(&["spec", "minKubeVersion"]))
}

/// Splits the concatenated manifests of a bundle.
fn manifests<'a>(
    bundle: &str,
    json: &'a str,
    memory: &mut BlobMemory<'_>,
) -> io::Result<Vec<&'a RawValue>> {
    check_value_count(bundle, json)?;
    let mut all = Vec::new();
    for object in serde_json::Deserializer::from_str(json).into_iter() {
        let object: &RawValue = object.map_err(|error| {
            io::Error::other(format!(
                "the objects of bundle {bundle:?} are not valid JSON: {error}"
            ))
        })?;
        // Manifests are written as base64.
        memory.reserve(object.get().len().div_ceil(3) * 4)?;
        all.push(object);
    }
    Ok(all)
}

/// Checks that JSON does not have too many values to parse in memory. Each value starts with, or follows, one of these
/// characters.
fn check_value_count(bundle: &str, json: &str) -> io::Result<()> {
    let values = memchr::memchr3_iter(b',', b'[', b'{', json.as_bytes());
    if values.take(MAX_VALUES + 1).count() <= MAX_VALUES {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the manifests of bundle {bundle:?} have more than {MAX_VALUES} values"
    )))
}

/// Adds images that are not listed yet.
fn add(mut images: BTreeSet<String>, all: &mut Vec<RelatedImage>) {
    for listed in all.iter() {
        images.remove(&listed.image);
    }
    all.extend(images.into_iter().map(|image| RelatedImage {
        name: String::new(),
        image,
    }));
}

fn related(objects: &[&RawValue]) -> Vec<RelatedImage> {
    let mut csvs = objects.iter().filter_map(|object| {
        let csv: Csv = serde_json::from_str(object.get()).ok()?;
        (csv.kind == "ClusterServiceVersion").then_some(csv)
    });
    let images = csvs.next().and_then(|csv| csv.spec.related_images);
    let images = images.into_iter().flatten();
    images.map(Option::unwrap_or_default).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_constraints_do_not_count() {
        let has = |annotations: &Value, minimum: &Value| {
            let metadata = json!({"annotations": annotations});
            let spec = json!({"minKubeVersion": minimum});
            let csv = json!({"kind": "ClusterServiceVersion", "metadata": metadata, "spec": spec});
            has_constraints(&csv)
        };
        assert_each!(|annotations, minimum, expected| has(&annotations, &minimum) => expected;
            json!({}), json!("1.20.0") => true;
            json!({MAX_ANNOTATION: "4.8"}), json!(null) => true;
            json!({MAX_ANNOTATION: ""}), json!("") => true;
            json!({PROPERTIES_ANNOTATION: "[]"}), json!(null) => true;
            json!({MAX_ANNOTATION: null}), json!("") => false;
            json!({PROPERTIES_ANNOTATION: ""}), json!(null) => false;
        );
    }
}

//! The blobs of a package: the package, its channels, then its bundles, as `opm migrate` writes them.

mod blobs;
mod old;
mod properties;
mod room;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use manifests::{
    object::{at, text},
    openshift::{INSTALLED_PROPERTIES_ANNOTATION, MAX_ANNOTATION, PROPERTIES_ANNOTATION},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use self::{
    blobs::{BundleBlob, ChannelBlob, Entry, Icon, PackageBlob, Property, RelatedImage},
    properties::{Of, Properties},
    room::Room,
};
use super::{
    rows::{Package, Rows},
    tables::Tables,
};

/// Values in the manifests of a bundle, of which the largest known have 53,000: what is read of them is in memory.
const MOST_VALUES: usize = 1_000_000;

/// Annotations of a ClusterServiceVersion with constraints.
const CONSTRAINT_ANNOTATIONS: [&str; 3] = [
    MAX_ANNOTATION,
    PROPERTIES_ANNOTATION,
    INSTALLED_PROPERTIES_ANNOTATION,
];

/// The blobs that are still to come.
pub(super) struct Documents<'a> {
    tables: &'a Tables,
    rows: &'a Rows,
    package: &'a str,
    /// Bytes of one of them.
    limit: usize,
    todo: VecDeque<Step<'a>>,
    /// Those that are part of the catalog.
    bundles: BTreeMap<&'a str, Light>,
}

enum Step<'a> {
    Package(&'a Package),
    Channel(&'a str),
    Bundles,
    Bundle(&'a str),
}

/// What a bundle's row says in few words.
struct Light {
    version: String,
    image: String,
    skip_range: String,
}

/// The part of a ClusterServiceVersion that is read here; whoever reads the catalog looks at the rest.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Csv {
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    version: Option<String>,
    icon: Option<Vec<Picture>>,
    #[serde(rename = "relatedImages")]
    related_images: Option<Vec<RelatedImage>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Picture {
    base64data: String,
    mediatype: String,
}

// === impl Documents ===

impl<'a> Documents<'a> {
    pub(super) fn new(tables: &'a Tables, rows: &'a Rows, package: &str, limit: usize) -> Self {
        let mut todo = VecDeque::new();
        let mut name = "";
        if let Some((known, package)) = rows.package(package) {
            name = known;
            todo.push_back(Step::Package(package));
            todo.extend(package.heads.keys().map(|it| Step::Channel(it)));
            todo.push_back(Step::Bundles);
        }
        Self {
            tables,
            rows,
            package: name,
            limit,
            todo,
            bundles: BTreeMap::new(),
        }
    }

    /// Writes the next blob. Says whether there was one.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let Some(step) = self.todo.pop_front() else {
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
                self.room("package", self.package).write(&blob, out)?;
            }
            Step::Channel(name) => {
                let blob = self.channel(name);
                self.room("channel", name).write(&blob, out)?;
            }
            Step::Bundles => {
                let bundles = self.bundles.keys().map(|it| Step::Bundle(it));
                self.todo.extend(bundles);
                return self.next(out);
            }
            Step::Bundle(name) => self.bundle(name, out)?,
        }
        out.push(b'\n');
        Ok(true)
    }

    fn room(&self, kind: &'static str, name: &'a str) -> Room<'a> {
        Room::new(kind, name, self.limit)
    }

    /// The bundles of all channels that have a row of their own with an image and a version, and were not cut off.
    fn versions(&self) -> io::Result<BTreeMap<&'a str, Light>> {
        let (rows, package) = (self.rows, self.package);
        let channels = rows
            .package(package)
            .into_iter()
            .flat_map(|(_, it)| it.heads.keys());
        let names: BTreeSet<&str> = channels
            .flat_map(|channel| rows.entries_of(package, channel).into_keys())
            .collect();
        let mut room = self.room("package", package);
        let mut bundles = BTreeMap::new();
        for name in names.into_iter().filter(|it| !rows.is_cut_off(it)) {
            if let Some(light) = self.light(name)? {
                room.take(light.version.len() + light.image.len() + light.skip_range.len())?;
                bundles.insert(name, light);
            }
        }
        Ok(bundles)
    }

    fn light(&self, bundle: &str) -> io::Result<Option<Light>> {
        let has = |name| self.tables.layout.has("operatorbundle", name);
        let columns = ["version", "bundlepath", "skiprange"];
        let [mut version, mut image, skip_range] = self.texts(bundle, columns)?;
        let mut skip_range = skip_range.unwrap_or_default();
        if !has("version") {
            let csv: Csv = self.csv(bundle)?.unwrap_or_default();
            version = csv.spec.version;
            let mut annotations = csv.metadata.annotations.unwrap_or_default();
            skip_range = annotations.remove("olm.skipRange").unwrap_or_default();
        }
        if !has("bundlepath") {
            image = Some(String::new());
        }
        Ok(version.zip(image).map(|(version, image)| Light {
            version,
            image,
            skip_range,
        }))
    }

    /// Columns of a bundle's row.
    fn texts<const N: usize>(
        &self,
        bundle: &str,
        columns: [&str; N],
    ) -> io::Result<[Option<String>; N]> {
        let row = self.rows.of_bundle(bundle);
        self.tables.texts("operatorbundle", columns, row)
    }

    /// What is read of a bundle's ClusterServiceVersion, if it has one that can be read.
    fn csv<T: DeserializeOwned>(&self, bundle: &str) -> io::Result<Option<T>> {
        let [csv] = self.texts(bundle, ["csv"])?;
        let csv = csv.unwrap_or_default();
        few(bundle, &csv)?;
        Ok(serde_json::from_str(&csv).ok())
    }

    /// The picture of the bundle at the head of the default channel.
    fn icon(&self, package: &Package) -> io::Result<Option<Icon>> {
        let Some(head) = package.heads.get(&package.default_channel) else {
            return Ok(None);
        };
        let csv: Csv = self.csv(head)?.unwrap_or_default();
        let picture = csv.spec.icon.into_iter().flatten().next();
        Ok(picture.and_then(|picture| {
            // opm: some have spaces in them.
            let data = BASE64_STANDARD
                .decode(&picture.base64data)
                .or_else(|_| BASE64_STANDARD.decode(picture.base64data.replace(' ', "")))
                .ok()
                .filter(|data| !data.is_empty())?;
            Some(Icon {
                base64data: BASE64_STANDARD.encode(data),
                mediatype: picture.mediatype,
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
        let mut room = self.room("bundle", name);
        let [objects] = self.texts(name, ["bundle"])?;
        let objects = match objects.filter(|objects| !objects.is_empty()) {
            Some(objects) => objects,
            None => self.lone_csv(name)?,
        };
        let objects = manifests(name, &objects, &mut room)?;
        let csv = self.old_csv(name)?;
        let of = Of {
            bundle: name,
            package: self.package,
            version: &version.version,
            csv: csv.as_ref().filter(|_| !self.knows("api_requirer")),
        };
        let properties = Properties {
            tables: self.tables,
            rows: self.rows,
        };
        let mut all = properties.of(of, &mut room)?;
        properties::objects(&objects, &mut all);
        properties::arrange(&mut all);
        let mut related_images = related(&objects);
        let more = if self.knows("related_image") {
            self.images(name, &mut room)?
        } else {
            csv.as_ref().map(old::images).unwrap_or_default()
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
        self.room("bundle", name).write(&blob, out)
    }

    /// Whether there is a table of something that the ClusterServiceVersion says as well.
    fn knows(&self, table: &str) -> bool {
        let layout = &self.tables.layout;
        layout.has(table, "operatorbundle_name") || layout.has(table, "channel_entry_id")
    }

    /// The ClusterServiceVersion of a bundle, where there are not all tables yet that say the same.
    fn old_csv(&self, bundle: &str) -> io::Result<Option<Value>> {
        if self.knows("api_requirer") && self.knows("related_image") {
            return Ok(None);
        }
        self.csv(bundle)
    }

    /// The ClusterServiceVersion of a row without manifests if it has constraints, which are nowhere else. `opm` leaves it
    /// out, so without constraints it is left out here, too.
    fn lone_csv(&self, bundle: &str) -> io::Result<String> {
        let csv: Option<Value> = self.csv(bundle)?;
        if !csv.as_ref().is_some_and(has_constraints) {
            return Ok(String::new());
        }
        let [text] = self.texts(bundle, ["csv"])?;
        Ok(text.unwrap_or_default())
    }

    /// Images that the database alone knows.
    fn images(&self, bundle: &str, room: &mut Room<'_>) -> io::Result<BTreeSet<String>> {
        let mut images = BTreeSet::new();
        for row in self.rows.of("related_image", bundle) {
            let [image] = self.tables.texts("related_image", ["image"], Some(*row))?;
            room.take(image.as_ref().map_or(0, String::len))?;
            images.extend(image);
        }
        Ok(images)
    }
}

/// Reports whether a ClusterServiceVersion may say which clusters its bundle is for.
fn has_constraints(csv: &Value) -> bool {
    let declares = |path: &[&str]| match at(csv, path) {
        None | Some(Value::Null) => false,
        // An empty maximum is an invalid one, which is reported.
        Some(value) => value != "" || path.ends_with(&[MAX_ANNOTATION]),
    };
    let is_annotated = |annotation| declares(&["metadata", "annotations", annotation]);
    text(csv, &["kind"]) == Some("ClusterServiceVersion")
        && (CONSTRAINT_ANNOTATIONS.into_iter().any(is_annotated)
            || declares(&["spec", "minKubeVersion"]))
}

/// The manifests of a bundle, one behind the other.
fn manifests<'a>(
    bundle: &str,
    json: &'a str,
    room: &mut Room<'_>,
) -> io::Result<Vec<&'a RawValue>> {
    few(bundle, json)?;
    let mut all = Vec::new();
    for object in serde_json::Deserializer::from_str(json).into_iter() {
        let object: &RawValue = object.map_err(|error| {
            io::Error::other(format!(
                "the objects of bundle {bundle:?} are no JSON: {error}"
            ))
        })?;
        // They are written as Base64.
        room.take(object.get().len().div_ceil(3) * 4)?;
        all.push(object);
    }
    Ok(all)
}

/// Sees that JSON has no more values than may be in memory; a value begins with one of these, or comes behind one.
fn few(bundle: &str, json: &str) -> io::Result<()> {
    let values = memchr::memchr3_iter(b',', b'[', b'{', json.as_bytes());
    if values.take(MOST_VALUES + 1).count() <= MOST_VALUES {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the manifests of bundle {bundle:?} have more than {MOST_VALUES} values"
    )))
}

/// Adds images that nobody has named.
fn add(mut images: BTreeSet<String>, all: &mut Vec<RelatedImage>) {
    for known in all.iter() {
        images.remove(&known.image);
    }
    all.extend(images.into_iter().map(|image| RelatedImage {
        name: String::new(),
        image,
    }));
}

fn related(objects: &[&RawValue]) -> Vec<RelatedImage> {
    let mut csvs = objects.iter().filter_map(|it| {
        let csv: Csv = serde_json::from_str(it.get()).ok()?;
        (csv.kind == "ClusterServiceVersion").then_some(csv)
    });
    let images = csvs.next().and_then(|it| it.spec.related_images);
    images.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_constraints_do_not_count() {
        let csv = |annotations: Value, minimum: Value| {
            json!({
                "kind": "ClusterServiceVersion",
                "metadata": {"annotations": annotations},
                "spec": {"minKubeVersion": minimum},
            })
        };
        for (annotations, minimum, expected) in [
            (json!({}), json!("1.20.0"), true),
            (json!({MAX_ANNOTATION: "4.8"}), json!(null), true),
            (json!({MAX_ANNOTATION: ""}), json!(""), true),
            (json!({PROPERTIES_ANNOTATION: "[]"}), json!(null), true),
            (json!({MAX_ANNOTATION: null}), json!(""), false),
            (json!({PROPERTIES_ANNOTATION: ""}), json!(null), false),
        ] {
            let csv = csv(annotations, minimum);
            assert_eq!(has_constraints(&csv), expected, "{csv}");
        }
    }
}

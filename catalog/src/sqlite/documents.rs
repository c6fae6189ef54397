//! The blobs of a package: the package, its channels, then its bundles, as `opm migrate` writes them.

mod blobs;
mod old;
mod properties;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use self::{
    blobs::{BundleBlob, ChannelBlob, Entry, Icon, PackageBlob, Property, RelatedImage},
    properties::{Of, Properties},
};
use super::{
    layout::Layout,
    rows::{Package, Rows, text},
};

/// Bundles that opm has cut off say so.
const DEPRECATED: &str = "olm.deprecated";

/// The blobs that are still to come.
pub(super) struct Documents<'a> {
    connection: Connection,
    layout: &'a Layout,
    rows: &'a Rows,
    package: &'a str,
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
    pub(super) fn new(
        connection: Connection,
        layout: &'a Layout,
        rows: &'a Rows,
        package: &str,
    ) -> Self {
        let mut todo = VecDeque::new();
        let mut name = "";
        if let Some((known, package)) = rows.package(package) {
            name = known;
            todo.push_back(Step::Package(package));
            todo.extend(package.heads.keys().map(|it| Step::Channel(it)));
            todo.push_back(Step::Bundles);
        }
        Self {
            connection,
            layout,
            rows,
            package: name,
            todo,
            bundles: BTreeMap::new(),
        }
    }

    /// Writes the next blob, of `limit` bytes at most. Says whether there was one.
    pub(super) fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> io::Result<bool> {
        let Some(step) = self.todo.pop_front() else {
            return Ok(false);
        };
        match step {
            Step::Package(package) => {
                self.bundles = self.versions().map_err(io::Error::other)?;
                let icon = self.icon(package).map_err(io::Error::other)?;
                write(
                    out,
                    &PackageBlob {
                        schema: "olm.package",
                        name: self.package,
                        default_channel: &package.default_channel,
                        icon,
                    },
                )?;
            }
            Step::Channel(name) => write(out, &self.channel(name))?,
            Step::Bundles => {
                let bundles = self.bundles.keys().map(|it| Step::Bundle(it));
                self.todo.extend(bundles);
                return self.next(limit, out);
            }
            Step::Bundle(name) => self.bundle(name, limit, out)?,
        }
        out.push(b'\n');
        Ok(true)
    }

    /// The bundles of all channels that have a row of their own with an image and a version, and were not cut off.
    fn versions(&self) -> rusqlite::Result<BTreeMap<&'a str, Light>> {
        let (rows, package) = (self.rows, self.package);
        let channels = rows
            .package(package)
            .into_iter()
            .flat_map(|(_, it)| it.heads.keys());
        let names: BTreeSet<&str> = channels
            .flat_map(|channel| rows.entries_of(package, channel).into_keys())
            .collect();
        let column = |name| self.layout.or_null("operatorbundle", name);
        let mut statement = self.connection.prepare(&format!(
            "SELECT {}, {}, {}, csv FROM operatorbundle WHERE name = ?1",
            column("version"),
            column("bundlepath"),
            column("skiprange"),
        ))?;
        let has = |name| self.layout.has("operatorbundle", name);
        let mut bundles = BTreeMap::new();
        for name in names {
            let found = statement
                .query_row([name], |row| {
                    let mut version = text(row.get_ref(0)?);
                    let mut image = text(row.get_ref(1)?);
                    let mut skip_range = text(row.get_ref(2)?).unwrap_or_default();
                    if !has("version") {
                        let csv = text(row.get_ref(3)?).unwrap_or_default();
                        let csv: Csv = serde_json::from_str(&csv).unwrap_or_default();
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
                })
                .optional()?;
            if let Some(version) = found.flatten()
                && !self.is_cut_off(name)?
            {
                bundles.insert(name, version);
            }
        }
        Ok(bundles)
    }

    fn is_cut_off(&self, bundle: &str) -> rusqlite::Result<bool> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT type FROM properties WHERE _rowid_ = ?1")
            .ok();
        for row in self.rows.of("properties", bundle) {
            let Some(statement) = &mut statement else {
                break;
            };
            let type_ = statement.query_row([row], |row| Ok(text(row.get_ref(0)?)))?;
            if type_.as_deref() == Some(DEPRECATED) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The picture of the bundle at the head of the default channel.
    fn icon(&self, package: &Package) -> rusqlite::Result<Option<Icon>> {
        let head = package.heads.get(&package.default_channel);
        let Some(head) = head else {
            return Ok(None);
        };
        let mut statement = self
            .connection
            .prepare("SELECT csv FROM operatorbundle WHERE name = ?1")?;
        let csv = statement
            .query_row([head], |row| Ok(text(row.get_ref(0)?)))
            .optional()?
            .flatten();
        let csv: Csv = serde_json::from_str(&csv.unwrap_or_default()).unwrap_or_default();
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

    fn bundle(&self, name: &str, limit: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(version) = self.bundles.get(name) else {
            return Ok(());
        };
        let too_large = || {
            io::Error::other(format!(
                "bundle {name:?} is larger than the limit of {limit} bytes"
            ))
        };
        let mut statement = self
            .connection
            .prepare_cached("SELECT bundle FROM operatorbundle WHERE name = ?1")
            .map_err(io::Error::other)?;
        let objects = statement
            .query_row([name], |row| Ok(text(row.get_ref(0)?)))
            .map_err(io::Error::other)?
            .unwrap_or_default();
        if objects.len() > limit {
            return Err(too_large());
        }
        let objects: Vec<&RawValue> = serde_json::Deserializer::from_str(&objects)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|error| {
                io::Error::other(format!(
                    "the objects of bundle {name:?} are no JSON: {error}"
                ))
            })?;
        let properties = Properties {
            connection: &self.connection,
            layout: self.layout,
            rows: self.rows,
            limit,
        };
        let csv = self.old_csv(name).map_err(io::Error::other)?;
        let of = Of {
            bundle: name,
            package: self.package,
            version: &version.version,
            csv: csv.as_ref().filter(|_| !self.knows("api_requirer")),
        };
        let mut all = properties
            .of(of)
            .map_err(io::Error::other)?
            .ok_or_else(too_large)?;
        properties::objects(&objects, &mut all);
        properties::arrange(&mut all);
        let mut related_images = related(&objects);
        let more = if self.knows("related_image") {
            self.images(name).map_err(io::Error::other)?
        } else {
            csv.as_ref().map(old::images).unwrap_or_default()
        };
        add(more, &mut related_images);
        write(
            out,
            &BundleBlob {
                schema: "olm.bundle",
                name,
                package: self.package,
                image: &version.image,
                properties: all,
                related_images,
            },
        )
    }

    /// Whether there is a table of something that the ClusterServiceVersion says as well.
    fn knows(&self, table: &str) -> bool {
        self.layout.has(table, "operatorbundle_name") || self.layout.has(table, "channel_entry_id")
    }

    /// The ClusterServiceVersion of a bundle, where there are not all tables yet that say the same.
    fn old_csv(&self, bundle: &str) -> rusqlite::Result<Option<Value>> {
        if self.knows("api_requirer") && self.knows("related_image") {
            return Ok(None);
        }
        let mut statement = self
            .connection
            .prepare_cached("SELECT csv FROM operatorbundle WHERE name = ?1")?;
        let csv = statement.query_row([bundle], |row| Ok(text(row.get_ref(0)?)))?;
        Ok(csv.and_then(|it| serde_json::from_str(&it).ok()))
    }

    /// Images that the database alone knows.
    fn images(&self, bundle: &str) -> rusqlite::Result<BTreeSet<String>> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT image FROM related_image WHERE _rowid_ = ?1")?;
        let mut images = BTreeSet::new();
        for row in self.rows.of("related_image", bundle) {
            images.extend(statement.query_row([row], |row| Ok(text(row.get_ref(0)?)))?);
        }
        Ok(images)
    }
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

fn write(out: &mut Vec<u8>, blob: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(out, blob).map_err(io::Error::other)
}

//! Properties of a bundle from the tables of the database: properties, former dependencies, and manifests.

use std::io;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{MAX_VALUES, Property, legacy, memory::BlobMemory};
use crate::{
    go_json::{self, GoStruct},
    json::{Node, Tape},
    sqlite::{
        connection::SqliteConnection,
        rows::{DEPRECATED, RowIndex},
    },
};

const GVK: &str = "olm.gvk";
const REQUIRED_GVK: &str = "olm.gvk.required";
const PACKAGE: &str = "olm.package";

/// Source of properties.
pub(super) struct Properties<'a> {
    pub(super) tables: &'a SqliteConnection,
    pub(super) rows: &'a RowIndex,
}

/// A bundle whose properties are read.
#[derive(Clone, Copy)]
pub(super) struct BundleRecord<'a> {
    pub(super) bundle: &'a str,
    pub(super) package: &'a str,
    pub(super) version: &'a str,
    /// ClusterServiceVersion, if it is the only source of required APIs.
    pub(super) csv: Option<&'a Value>,
}

/// An API. The order of the fields is that of opm.
#[derive(Debug, Serialize)]
pub(super) struct Gvk {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) version: String,
}

#[derive(Serialize)]
struct Package {
    #[serde(rename = "packageName")]
    name: String,
    version: String,
}

#[derive(Serialize)]
struct Required {
    #[serde(rename = "packageName")]
    name: String,
    #[serde(rename = "versionRange")]
    range: String,
}

#[derive(Serialize)]
struct Object {
    data: String,
}

// === impl Properties ===

impl Properties<'_> {
    /// Reads the properties from the tables.
    pub(super) fn read_tables(
        &self,
        record: BundleRecord<'_>,
        memory: &mut BlobMemory<'_>,
    ) -> io::Result<Vec<Property>> {
        let (bundle, layout) = (record.bundle, &self.tables.layout);
        let mut all = Vec::new();
        for (table, is_requirement) in [("properties", false), ("dependencies", true)] {
            if !layout.has(table, "value") {
                continue;
            }
            // Rows match by bundle name only, as in opm; version and image of the row are ignored.
            for row in self.rows.rows_of(table, bundle) {
                let pair = self.tables.texts(table, ["type", "value"], Some(*row))?;
                let [Some(type_), Some(value)] = pair else {
                    continue;
                };
                memory.reserve(type_.len() + value.len())?;
                all.extend(if is_requirement {
                    dependency(&type_, &value)
                } else {
                    property(type_, &value)
                });
            }
        }
        if !layout.has("properties", "value") {
            self.apis("api_provider", GVK, bundle, &mut all, memory)?;
        }
        if !layout.has("dependencies", "value") {
            self.apis("api_requirer", REQUIRED_GVK, bundle, &mut all, memory)?;
            let required = record.csv.map(legacy::required).unwrap_or_default();
            all.extend(
                required
                    .iter()
                    .filter_map(|gvk| synthesized(REQUIRED_GVK, gvk)),
            );
        }
        if !all.iter().any(|property| property.type_ == PACKAGE) {
            let value = Package {
                name: record.package.to_owned(),
                version: record.version.to_owned(),
            };
            all.extend(synthesized(PACKAGE, &value));
        }
        Ok(all)
    }

    /// Reads APIs from tables that predate the table `properties`.
    fn apis(
        &self,
        table: &str,
        type_: &str,
        bundle: &str,
        all: &mut Vec<Property>,
        memory: &mut BlobMemory<'_>,
    ) -> io::Result<()> {
        for row in self.rows.rows_of(table, bundle) {
            let columns = ["group_name", "version", "kind"];
            let texts = self.tables.texts(table, columns, Some(*row))?;
            let [group, version, kind] = texts.map(Option::unwrap_or_default);
            memory.reserve(group.len() + version.len() + kind.len())?;
            let gvk = Gvk {
                group,
                kind,
                version,
            };
            all.extend(synthesized(type_, &gvk));
        }
        Ok(())
    }
}

/// Returns a property without changes, except that only the identifying fields of an API are retained.
fn property(type_: String, value: &str) -> Option<Property> {
    if type_ == DEPRECATED {
        return None;
    }
    let mut tape = Tape::default();
    if type_ == GVK
        && let Some(node) = checked(&mut tape, value, &go_json::GVK)
    {
        return synthesized(GVK, &gvk(node));
    }
    let value = raw(value)?;
    Some(Property { type_, value })
}

/// Converts a required API or package to a property. Other types are omitted, as in opm.
fn dependency(type_: &str, value: &str) -> Option<Property> {
    let (required, fields) = match type_ {
        GVK => (REQUIRED_GVK, &go_json::GVK_REQUIRED),
        PACKAGE => ("olm.package.required", &go_json::PACKAGE_PROPERTY),
        _ => return None,
    };
    let mut tape = Tape::default();
    let Some(node) = checked(&mut tape, value, fields) else {
        // A malformed or invalid value becomes a string, which the check of the catalog reports.
        return synthesized(required, &value);
    };
    if type_ == GVK {
        return synthesized(required, &gvk(node));
    }
    let [name, range] = ["packageName", "version"].map(|field| go_json::text(node, field));
    synthesized(required, &Required { name, range })
}

/// Parses a value that Go can decode into a struct; `None` for other values.
fn checked<'a>(tape: &'a mut Tape, value: &'a str, fields: &'static GoStruct) -> Option<Node<'a>> {
    let node = tape.read(value.as_bytes(), MAX_VALUES).ok()?;
    go_json::check(node, fields).ok().map(|()| node)
}

fn gvk(node: Node<'_>) -> Gvk {
    let [group, kind, version] =
        ["group", "kind", "version"].map(|field| go_json::text(node, field));
    Gvk {
        group,
        kind,
        version,
    }
}

/// Adds the manifests as properties.
pub(super) fn objects(objects: &[&RawValue], all: &mut Vec<Property>) {
    for object in objects {
        let data = BASE64_STANDARD.encode(object.get());
        all.extend(synthesized("olm.bundle.object", &Object { data }));
    }
}

/// Sorts properties by type and value, and removes duplicates.
pub(super) fn sort_and_dedup(all: &mut Vec<Property>) {
    all.sort_by(|a, b| (a.type_.as_str(), a.value.get()).cmp(&(b.type_.as_str(), b.value.get())));
    all.dedup_by(|a, b| a.type_ == b.type_ && a.value.get() == b.value.get());
}

fn synthesized(type_: &str, value: &impl Serialize) -> Option<Property> {
    Some(Property {
        type_: type_.to_owned(),
        value: to_raw_value(value).ok()?,
    })
}

/// Returns the value as JSON. A malformed value becomes a string, which the check of the catalog reports.
fn raw(value: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(value.to_owned())
        .or_else(|_| to_raw_value(value))
        .ok()
}

//! What a bundle says of itself: properties, what were dependencies, and the manifests.

use std::io;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{Property, old, room::Room};
use crate::sqlite::{
    rows::{DEPRECATED, Rows},
    tables::Tables,
};

const GVK: &str = "olm.gvk";
const REQUIRED_GVK: &str = "olm.gvk.required";
const PACKAGE: &str = "olm.package";

/// Where they are read from.
pub(super) struct Properties<'a> {
    pub(super) tables: &'a Tables,
    pub(super) rows: &'a Rows,
}

/// A bundle that has properties.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) bundle: &'a str,
    pub(super) package: &'a str,
    pub(super) version: &'a str,
    /// Its ClusterServiceVersion, where it alone knows what no table does.
    pub(super) csv: Option<&'a Value>,
}

/// In the order in which opm writes it.
#[derive(Debug, Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct Gvk {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) version: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
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
    /// Those of tables.
    pub(super) fn of(&self, of: Of<'_>, room: &mut Room<'_>) -> io::Result<Vec<Property>> {
        let (bundle, layout) = (of.bundle, &self.tables.layout);
        let mut all = Vec::new();
        for (table, is_needed) in [("properties", false), ("dependencies", true)] {
            if !layout.has(table, "value") {
                continue;
            }
            // Whatever version and image a row is of: names are enough for opm, too.
            for row in self.rows.of(table, bundle) {
                let pair = self.tables.texts(table, ["type", "value"], Some(*row))?;
                let [Some(type_), Some(value)] = pair else {
                    continue;
                };
                room.take(type_.len() + value.len())?;
                all.extend(if is_needed {
                    dependency(&type_, &value)
                } else {
                    property(type_, &value)
                });
            }
        }
        if !layout.has("properties", "value") {
            self.apis("api_provider", GVK, bundle, &mut all, room)?;
        }
        if !layout.has("dependencies", "value") {
            self.apis("api_requirer", REQUIRED_GVK, bundle, &mut all, room)?;
            let required = of.csv.map(old::required).unwrap_or_default();
            all.extend(required.iter().filter_map(|it| made(REQUIRED_GVK, it)));
        }
        if !all.iter().any(|it| it.type_ == PACKAGE) {
            let value = Package {
                name: of.package.to_owned(),
                version: of.version.to_owned(),
            };
            all.extend(made(PACKAGE, &value));
        }
        Ok(all)
    }

    /// APIs, in the tables that were there before properties.
    fn apis(
        &self,
        table: &str,
        type_: &str,
        bundle: &str,
        all: &mut Vec<Property>,
        room: &mut Room<'_>,
    ) -> io::Result<()> {
        for row in self.rows.of(table, bundle) {
            let columns = ["group_name", "version", "kind"];
            let texts = self.tables.texts(table, columns, Some(*row))?;
            let [group, version, kind] = texts.map(Option::unwrap_or_default);
            room.take(group.len() + version.len() + kind.len())?;
            let gvk = Gvk {
                group,
                kind,
                version,
            };
            all.extend(made(type_, &gvk));
        }
        Ok(())
    }
}

/// A property as it is; of APIs only what names them.
fn property(type_: String, value: &str) -> Option<Property> {
    if type_ == DEPRECATED {
        return None;
    }
    if type_ == GVK
        && let Ok(gvk) = serde_json::from_str::<Gvk>(value)
    {
        return made(GVK, &gvk);
    }
    let value = raw(value)?;
    Some(Property { type_, value })
}

/// What a bundle needs: APIs and packages. Other types are left out, as by opm.
fn dependency(type_: &str, value: &str) -> Option<Property> {
    match type_ {
        GVK => {
            let gvk: Gvk = serde_json::from_str(value).unwrap_or_default();
            made(REQUIRED_GVK, &gvk)
        }
        PACKAGE => {
            let package: Package = serde_json::from_str(value).unwrap_or_default();
            let required = Required {
                name: package.name,
                range: package.version,
            };
            made("olm.package.required", &required)
        }
        _ => None,
    }
}

/// The manifests themselves.
pub(super) fn objects(objects: &[&RawValue], all: &mut Vec<Property>) {
    for object in objects {
        let data = BASE64_STANDARD.encode(object.get());
        all.extend(made("olm.bundle.object", &Object { data }));
    }
}

/// By type and value, each once.
pub(super) fn arrange(all: &mut Vec<Property>) {
    all.sort_by(|a, b| (a.type_.as_str(), a.value.get()).cmp(&(b.type_.as_str(), b.value.get())));
    all.dedup_by(|a, b| a.type_ == b.type_ && a.value.get() == b.value.get());
}

fn made(type_: &str, value: &impl Serialize) -> Option<Property> {
    Some(Property {
        type_: type_.to_owned(),
        value: to_raw_value(value).ok()?,
    })
}

/// What is no JSON is a text: whoever checks the catalog says what is wrong with it.
fn raw(value: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(value.to_owned())
        .or_else(|_| to_raw_value(value))
        .ok()
}

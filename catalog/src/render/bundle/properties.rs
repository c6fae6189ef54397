//! Properties of a bundle: its package, and the APIs that it provides and requires.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use manifests::openshift::{MAX_PROPERTY, Unquoted, properties};
use serde_json::{Number, Value, value::RawValue};

use super::{
    super::{
        Error,
        blob::{BUNDLE_OBJECT, Property},
        json,
    },
    Api,
    csv::CsvView,
    metadata::{Metadata, quote},
};
use crate::json::{Kind, Tape, write_text};

const PACKAGE: &str = "olm.package";
const GVK: &str = "olm.gvk";

/// Maximum number of values in one property.
const MAX_VALUES: usize = 1_000_000;

/// Returns the properties that a bundle declares, without duplicates: those of its properties file, its package, those
/// of the annotation, and the provided APIs.
pub(super) fn declared_properties(
    csv: &CsvView<'_>,
    metadata: &Metadata,
    provided: &BTreeSet<Api>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Property>, Error> {
    let mut listed = metadata.properties.clone();
    if !metadata.package.is_empty() {
        let (version, release) = (csv.version()?, csv.release()?);
        listed.push(package(&metadata.package, version, &release));
    }
    if let Some(annotation) = csv.annotation("olm.properties") {
        match annotation_properties(annotation) {
            Ok(more) => listed.extend(more),
            Err(error) => warnings.push(format!(
                "failed to unmarshal csv annotation properties: {error}; the annotation olm.properties is ignored"
            )),
        }
    }
    listed.extend(provided.iter().map(|api| Api::property(api, GVK)));
    let mut unique = BTreeSet::new();
    listed.retain(|property| unique.insert(property.clone()));
    let declared = listed
        .iter_mut()
        .filter(|property| property.type_ == MAX_PROPERTY);
    for property in declared {
        let is_number = serde_json::from_slice::<Number>(&property.value).is_ok();
        if is_number {
            let number = String::from_utf8_lossy(&property.value).into_owned();
            warnings.push(quote(property, &Unquoted::new(&number)));
        }
    }
    Ok(listed)
}

/// Returns the version in the first declared package.
pub(super) fn first_version(listed: &[Property]) -> Result<String, Error> {
    match listed
        .iter()
        .enumerate()
        .find(|(_, property)| property.type_ == PACKAGE)
    {
        Some((at, property)) => read(at, property, ["version"]).map(|[version]| version),
        None => Ok(String::new()),
    }
}

/// Returns all properties of a bundle, sorted.
pub(super) fn all(
    csv: &CsvView<'_>,
    metadata: &Metadata,
    listed: &[Property],
    provided: &BTreeSet<Api>,
    objects: &[Value],
) -> Result<Vec<Property>, Error> {
    let mut all: Vec<Property> = objects.iter().map(object).collect();
    // Sets, because several sources can declare the same API.
    let (mut provided_apis, mut required_apis) = (BTreeSet::new(), BTreeSet::new());
    let mut own = None;
    for (at, property) in listed.iter().enumerate() {
        match property.type_.as_str() {
            GVK => {
                provided_apis.insert(read(at, property, ["group", "kind", "version"])?);
            }
            PACKAGE => {
                let [name, version, release] =
                    read(at, property, ["packageName", "version", "release"])?;
                own = Some(package(&name, &version, &release));
            }
            _ => all.push(property.clone()),
        }
    }
    for (at, dependency) in metadata.dependencies.iter().enumerate() {
        match dependency.type_.as_str() {
            GVK => {
                required_apis.insert(read(at, dependency, ["group", "kind", "version"])?);
            }
            PACKAGE => {
                let [name, range] = read(at, dependency, ["packageName", "version"])?;
                let fields = [("packageName", name), ("versionRange", range)];
                all.push(texts("olm.package.required", &fields));
            }
            _ => all.push(dependency.clone()),
        }
    }
    let key = |api: Api| [api.group, api.kind, api.version];
    provided_apis.extend(provided.iter().cloned().map(key));
    required_apis.extend(csv.required()?.into_iter().map(key));
    all.push(match own {
        Some(own) => own,
        None => package(&metadata.package, csv.version()?, &csv.release()?),
    });
    all.extend(provided_apis.iter().map(|api| gvk(GVK, api)));
    all.extend(required_apis.iter().map(|api| gvk("olm.gvk.required", api)));
    all.sort_by(|a, b| a.type_.cmp(&b.type_).then_with(|| a.value.cmp(&b.value)));
    Ok(all)
}

fn object(object: &Value) -> Property {
    let mut data = Vec::new();
    json::value(object, &mut data);
    let data = STANDARD.encode(json::escape_html(&data));
    texts(BUNDLE_OBJECT, &[("data", data)])
}

fn package(name: &str, version: &str, release: &str) -> Property {
    let mut fields = vec![
        ("packageName", name.to_owned()),
        ("version", version.to_owned()),
    ];
    if !release.is_empty() {
        fields.push(("release", release.to_owned()));
    }
    texts(PACKAGE, &fields)
}

fn gvk(type_: &str, [group, kind, version]: &[String; 3]) -> Property {
    let fields = [("group", group), ("kind", kind), ("version", version)];
    texts(type_, &fields.map(|(key, text)| (key, text.clone())))
}

impl Api {
    fn property(&self, type_: &str) -> Property {
        gvk(
            type_,
            &[self.group.clone(), self.kind.clone(), self.version.clone()],
        )
    }
}

/// Returns a property whose value consists of strings in the given order.
fn texts(type_: &str, fields: &[(&str, String)]) -> Property {
    let mut value = vec![b'{'];
    for (at, (key, text)) in fields.iter().enumerate() {
        if at > 0 {
            value.push(b',');
        }
        write_text(key, &mut value);
        value.push(b':');
        write_text(text, &mut value);
    }
    value.push(b'}');
    Property {
        type_: type_.to_owned(),
        value,
    }
}

/// Reads string fields of a property's value.
fn read<const N: usize>(
    index: usize,
    property: &Property,
    names: [&str; N],
) -> Result<[String; N], Error> {
    let fail = |problem: String| Error::Property {
        index,
        type_: property.type_.clone(),
        problem,
    };
    let mut tape = Tape::default();
    let root = tape
        .read(&property.value, MAX_VALUES)
        .map_err(|error| fail(error.message))?;
    if !matches!(root.kind(), Kind::Object | Kind::Null) {
        return Err(fail(format!(
            "json: cannot unmarshal {} into an object",
            root.kind().name()
        )));
    }
    let mut read = [const { String::new() }; N];
    for (slot, name) in read.iter_mut().zip(names) {
        let Some(node) = root.field(name) else {
            continue;
        };
        let Some(text) = node.text() else {
            let kind = node.kind().name();
            return Err(fail(format!(
                "json: cannot unmarshal {kind} into field {name} of type string"
            )));
        };
        *slot = text.into_owned();
    }
    Ok(read)
}

/// Parses the JSON list of the annotation as Go does. Values are not changed.
fn annotation_properties(text: &str) -> Result<Vec<Property>, String> {
    let list = properties::parse_list(text).map_err(|error| error.to_string())?;
    list.into_iter().map(entry).collect()
}

fn entry(property: properties::Property) -> Result<Property, String> {
    let json = property.value.as_deref().map_or("null", RawValue::get);
    let mut tape = Tape::default();
    let root = tape.read(json.as_bytes(), MAX_VALUES);
    let mut value = Vec::new();
    root.map_err(|error| error.message)?.compact(&mut value);
    Ok(Property {
        type_: property.type_,
        value,
    })
}

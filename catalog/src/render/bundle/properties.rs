//! The properties of a bundle: what it is, brings and needs.

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
    csv::Csv,
    metadata::{Metadata, quote},
};
use crate::json::{Kind, Tape, write_text};

const PACKAGE: &str = "olm.package";
const GVK: &str = "olm.gvk";

/// Values in one property.
const VALUES: usize = 1_000_000;

/// The properties that a bundle lists: those of its file, its package, those of the annotation, and the APIs it brings.
/// Each of them once.
pub(super) fn listed(
    csv: &Csv<'_>,
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
        match annotated(annotation) {
            Ok(more) => listed.extend(more),
            Err(error) => warnings.push(format!(
                "failed to unmarshal csv annotation properties: {error}; the annotation olm.properties is left out"
            )),
        }
    }
    listed.extend(provided.iter().map(|api| Api::property(api, GVK)));
    let mut seen = BTreeSet::new();
    listed.retain(|it| seen.insert(it.clone()));
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

/// The version in the first package that is listed.
pub(super) fn first_version(listed: &[Property]) -> Result<String, Error> {
    match listed
        .iter()
        .enumerate()
        .find(|(_, it)| it.type_ == PACKAGE)
    {
        Some((at, property)) => read(at, property, ["version"]).map(|[version]| version),
        None => Ok(String::new()),
    }
}

/// All properties of a bundle, sorted.
pub(super) fn all(
    csv: &Csv<'_>,
    metadata: &Metadata,
    listed: &[Property],
    provided: &BTreeSet<Api>,
    objects: &[Value],
) -> Result<Vec<Property>, Error> {
    let mut all: Vec<Property> = objects.iter().map(object).collect();
    // A set each, as several places may say the same.
    let (mut brings, mut needs) = (BTreeSet::new(), BTreeSet::new());
    let mut own = None;
    for (at, property) in listed.iter().enumerate() {
        match property.type_.as_str() {
            GVK => {
                brings.insert(read(at, property, ["group", "kind", "version"])?);
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
                needs.insert(read(at, dependency, ["group", "kind", "version"])?);
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
    brings.extend(provided.iter().cloned().map(key));
    needs.extend(csv.required()?.into_iter().map(key));
    all.push(match own {
        Some(own) => own,
        None => package(&metadata.package, csv.version()?, &csv.release()?),
    });
    all.extend(brings.iter().map(|it| gvk(GVK, it)));
    all.extend(needs.iter().map(|it| gvk("olm.gvk.required", it)));
    all.sort_by(|a, b| a.type_.cmp(&b.type_).then_with(|| a.value.cmp(&b.value)));
    Ok(all)
}

fn object(object: &Value) -> Property {
    let mut data = Vec::new();
    json::value(object, &mut data);
    let data = STANDARD.encode(json::escaped(&data));
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

/// A property whose value has texts only, in this order.
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

/// The texts in a property's value.
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
        .read(&property.value, VALUES)
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

/// The JSON list of the annotation as Go reads it; values stay as they are.
fn annotated(text: &str) -> Result<Vec<Property>, String> {
    let list = properties::parse_list(text).map_err(|error| error.to_string())?;
    list.into_iter().map(entry).collect()
}

fn entry(property: properties::Property) -> Result<Property, String> {
    let json = property.value.as_deref().map_or("null", RawValue::get);
    let mut tape = Tape::default();
    let root = tape.read(json.as_bytes(), VALUES);
    let mut value = Vec::new();
    root.map_err(|error| error.message)?.compact(&mut value);
    Ok(Property {
        type_: property.type_,
        value,
    })
}

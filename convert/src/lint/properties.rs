//! Properties and dependencies, checked for the fields that catalogs and OLM's resolver read.

use std::collections::BTreeSet;

use manifests::object::type_name;
use manifests::openshift::{MAX_PROPERTY, Unquoted};
use manifests::path::{Path, Step};
use manifests::version;
use manifests::version_range::Range;
use serde_json::Value;

use super::{Input, constraint};
use crate::{
    finding::{Findings, Location, code::Code},
    property::{self, Property},
    render::deployments::PROPERTIES,
};

/// A problem within a value.
pub(super) struct Problem {
    path: Path,
    message: String,
}

impl Problem {
    pub(super) fn new(path: Path, text: String) -> Self {
        Self {
            path,
            message: text,
        }
    }
}

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    let metadata = input.metadata;
    let own = input.csv.and_then(|csv| {
        let place = csv.path_place(&Path::from(["metadata", "annotations", PROPERTIES]));
        Some((
            place,
            property::parse_list(csv.annotation(PROPERTIES)?).unwrap_or_default(),
        ))
    });
    let listed = metadata
        .properties
        .iter()
        .flatten()
        .zip(&metadata.property_places);
    // Values in an annotation have no separate position.
    let mut all: Vec<(&Property, &Location, bool)> = listed
        .map(|(property, place)| (property, place, true))
        .collect();
    all.extend(
        own.iter()
            .flat_map(|(place, list)| list.iter().map(move |property| (property, place, false))),
    );
    let mut unique = BTreeSet::new();
    for (property, place, has_lines) in all {
        typed(property, place, has_lines, findings);
        spelling(property, place, findings);
        package(property, place, input, findings);
        if !has_lines {
            unquoted(property, place, findings);
        }
        if !unique.insert((&property.type_, property.value.get())) {
            let message = format!(
                "property {} is listed twice with the same value",
                property.type_
            );
            findings.warn(Code::Property, place.clone(), message, "keep one of them");
        }
    }
    for (property, place) in metadata
        .dependencies
        .iter()
        .zip(&metadata.dependency_places)
    {
        dependency(property, place, findings);
    }
}

/// Returns the fields that a property of a known type must have.
fn fields(type_: &str) -> &'static [&'static str] {
    match type_ {
        "olm.package" => &["packageName", "version"],
        "olm.package.required" => &["packageName", "versionRange"],
        "olm.gvk" | "olm.gvk.required" => &["group", "version", "kind"],
        "olm.bundle.object" => &["data"],
        "olm.channel" => &["channelName"],
        "olm.label" => &["label"],
        _ => &[],
    }
}

fn typed(property: &Property, place: &Location, has_lines: bool, findings: &mut Findings) {
    let value = parsed(property);
    let root = Path::root();
    let mut problems = Vec::new();
    match property.type_.as_str() {
        "olm.constraint" => check_constraint(property, &value, &mut problems),
        "olm.csv.metadata" | "olm.deprecated" if !value.is_object() => {
            problems.push(Problem::new(
                root,
                format!("is {}, not a mapping", type_name(&value)),
            ));
        }
        type_ => {
            for name in fields(type_) {
                match *name {
                    "versionRange" => range_field(&value, name, &root, &mut problems),
                    "version" if type_ == "olm.package" => {
                        version_field(&value, name, &root, &mut problems);
                    }
                    name => field(&value, name, &root, &mut problems),
                }
            }
        }
    }
    for Problem {
        path,
        message: text,
    } in problems
    {
        let place = if has_lines {
            place.at(&known_field(&value, &path))
        } else {
            place.clone()
        };
        let message = format!("property {}: {}{text}", property.type_, named(&path));
        findings.warn(
            Code::Property,
            place,
            message,
            "correct it; opm rejects catalogs with it",
        );
    }
}

/// Reports a type that is missing, or differs from a known one only by case, and therefore has no effect.
fn spelling(property: &Property, place: &Location, findings: &mut Findings) {
    const KNOWN: [&str; 11] = [
        "olm.bundle.object",
        "olm.channel",
        "olm.constraint",
        "olm.csv.metadata",
        "olm.deprecated",
        "olm.gvk",
        "olm.gvk.required",
        "olm.label",
        MAX_PROPERTY,
        "olm.package",
        "olm.package.required",
    ];
    let type_ = property.type_.as_str();
    if type_.is_empty() {
        let message = "a property without a type has no effect".to_owned();
        findings.warn(
            Code::Property,
            place.clone(),
            message,
            "set `type` and `value`",
        );
    }
    let correct = KNOWN
        .into_iter()
        .find(|correct| correct.eq_ignore_ascii_case(type_) && *correct != type_);
    if let Some(correct) = correct {
        let message = format!("property {type_:?} has no effect; OLM recognizes {correct:?}");
        findings.warn(Code::Property, place.clone(), message, "correct its case");
    }
}

/// Reports unquoted numbers, which catalogs shorten: opm converts 4.10 to 4.1. Numbers in the file are reported when it is
/// read.
fn unquoted(property: &Property, place: &Location, findings: &mut Findings) {
    if property.type_ == MAX_PROPERTY && parsed(property).is_number() {
        let number = Unquoted::new(property.value.get());
        let message = number.message(&format!("property {MAX_PROPERTY}"));
        findings.warn(
            Code::UnquotedNumber,
            place.clone(),
            message,
            &number.remedy(),
        );
    }
}

/// Reports a package property that differs from the annotations and the CSV, because opm gives it precedence over them.
fn package(property: &Property, place: &Location, input: Input<'_>, findings: &mut Findings) {
    if property.type_ != "olm.package" {
        return;
    }
    let value = parsed(property);
    let declared = (
        super::string_at(&value, &["packageName"]),
        super::string_at(&value, &["version"]),
    );
    let expected = (input.facts.package.as_str(), input.facts.version.as_str());
    if declared != expected {
        findings.warn(
            Code::Property,
            place.clone(),
            format!(
                "property olm.package declares {:?} {:?}, but the bundle is {:?} {:?}; opm uses the property",
                declared.0, declared.1, expected.0, expected.1
            ),
            "remove the property; opm generates it from the bundle",
        );
    }
}

fn dependency(property: &Property, place: &Location, findings: &mut Findings) {
    let value = parsed(property);
    let root = Path::root();
    let mut problems = Vec::new();
    match property.type_.as_str() {
        "olm.package" => {
            field(&value, "packageName", &root, &mut problems);
            range_field(&value, "version", &root, &mut problems);
        }
        "olm.gvk" | "olm.label" => {
            for name in fields(&property.type_) {
                field(&value, name, &root, &mut problems);
            }
        }
        "olm.constraint" => check_constraint(property, &value, &mut problems),
        other => findings.warn(
            Code::Dependency,
            place.clone(),
            format!("unsupported dependency type {other}; opm rejects the bundle"),
            "use olm.package, olm.gvk, olm.label or olm.constraint",
        ),
    }
    for Problem {
        path,
        message: text,
    } in problems
    {
        findings.warn(
            Code::Dependency,
            place.at(&known_field(&value, &path)),
            format!(
                "dependency {}: {}{text}; opm rejects the bundle",
                property.type_,
                named(&path)
            ),
            "correct it",
        );
    }
}

fn check_constraint(property: &Property, value: &Value, problems: &mut Vec<Problem>) {
    let size = property.value.get().len();
    if size > constraint::LIMIT {
        let text = format!(
            "value is greater than max constraint size {} bytes: it has {size}",
            constraint::LIMIT
        );
        problems.push(Problem::new(Path::root(), text));
    }
    constraint::check(value, Path::root(), problems);
}

/// Checks a field that must be a non-empty string.
pub(super) fn field(value: &Value, name: &str, path: &Path, problems: &mut Vec<Problem>) {
    let text = match value.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => return,
        Some(Value::String(_)) => "is empty".to_owned(),
        Some(other) => format!("is {}, not a string", type_name(other)),
        None => "is missing".to_owned(),
    };
    problems.push(Problem::new(path.clone().key(name), text));
}

/// Checks a field that must be a version range.
pub(super) fn range_field(value: &Value, name: &str, path: &Path, problems: &mut Vec<Problem>) {
    match value
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.trim().is_empty())
        .map(Range::parse)
    {
        None => field(value, name, path, problems),
        Some(Err(error)) => problems.push(Problem::new(
            path.clone().key(name),
            format!("is invalid: {error}"),
        )),
        Some(Ok(_)) => {}
    }
}

fn version_field(value: &Value, name: &str, path: &Path, problems: &mut Vec<Problem>) {
    match value
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.trim().is_empty())
        .map(version::parse_strict)
    {
        None => field(value, name, path, problems),
        Some(Err(error)) => problems.push(Problem::new(
            path.clone().key(name),
            format!("is invalid: {error}"),
        )),
        Some(Ok(_)) => {}
    }
}

fn parsed(property: &Property) -> Value {
    serde_json::from_str(property.value.get()).unwrap_or_default()
}

/// Formats the path of a field for a message.
fn named(path: &Path) -> String {
    if path.is_root() {
        String::new()
    } else {
        format!("{path} ")
    }
}

/// Returns the existing prefix of a path in a value.
fn known_field(value: &Value, path: &Path) -> Path {
    let mut prefix = Path::root();
    let mut value = value;
    for step in path.steps() {
        let (next, further) = match step {
            Step::Key(key) => (value.get(key), prefix.clone().key(key)),
            Step::Index(at) => (value.get(at), prefix.clone().index(*at)),
        };
        let Some(next) = next else { break };
        value = next;
        prefix = further;
    }
    prefix
}

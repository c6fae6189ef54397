//! Parser for the four OLM schemas. It accepts the same documents as Go's decoder with opm's structs.

use manifests::{
    openshift::{MAX_ANNOTATION, MAX_PROPERTY, MaxOpenShiftVersion, Problem, Spelling, maximum},
    path::Path,
};

use crate::{
    documents::{Meta, ReadError, ValuePosition},
    go_json::{self, list, property_value, text, type_name_of},
    json::Node,
    model::{Entry, Requirement},
    properties::{BundleProperties, CONVERT, END},
};

/// Maximum number of related images that are checked per bundle.
const MAX_RELATED_IMAGES: usize = 10_000;
/// Maximum number of warnings per bundle.
const MAX_WARNINGS: usize = 20;

/// A parsed document with its location.
#[derive(Debug, Clone)]
pub(crate) struct ParsedBlob {
    pub(crate) file: Box<str>,
    pub(crate) line: usize,
    pub(crate) blob: Blob,
    /// True if the rest of the file was not read.
    pub(crate) ends_file: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Blob {
    Package(Package),
    Channel(Channel),
    Bundle(Box<Bundle>),
    Deprecations(Deprecations),
    /// Blob of another schema, with its package or an empty string.
    Other(String),
    /// Invalid blob: the problem, and the package, if known.
    Broken(String, Option<String>),
}

#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) default_channel: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub(crate) struct Bundle {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) image: String,
    /// Data from the properties, or the error of the first invalid property.
    pub(crate) properties: Result<BundleProperties, String>,
    /// First related image with an invalid reference: position, reference and problem.
    pub(crate) invalid_related_image: Option<(usize, String, String)>,
    /// Effective max OpenShift version.
    pub(crate) max_openshift: Option<MaxOpenShiftVersion>,
    /// Content that other programs interpret differently or ignore.
    pub(crate) warnings: Vec<Warning>,
}

/// A warning about a bundle.
#[derive(Debug, Clone)]
pub(crate) struct Warning {
    /// Line in the file, starting at 1.
    pub(crate) line: usize,
    pub(crate) message: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Deprecations {
    pub(crate) package: String,
    pub(crate) entries: Vec<Deprecation>,
}

#[derive(Debug, Clone)]
pub(crate) struct Deprecation {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) message: String,
}

/// Parses a document.
pub(crate) fn parse_blob(meta: Result<Meta<'_>, ReadError>) -> ParsedBlob {
    let meta = match meta {
        Ok(meta) => meta,
        Err(fault) => {
            return ParsedBlob {
                file: fault.file.into(),
                line: fault.line,
                blob: Blob::Broken(fault.message, fault.package),
                ends_file: fault.ends_file,
            };
        }
    };
    let root = meta.root;
    let read = match &*meta.schema {
        "olm.package" => package(root).map_err(|problem| format!("parse package: {problem}")),
        "olm.channel" => channel(root).map_err(|problem| format!("parse channel: {problem}")),
        "olm.bundle" => bundle(&meta),
        "olm.deprecations" => {
            deprecations(root).map_err(|problem| format!("parse deprecation: {problem}"))
        }
        _ => Ok(Blob::Other(meta.package.to_string())),
    };
    ParsedBlob {
        file: meta.file.into(),
        line: meta.line,
        blob: read.unwrap_or_else(|problem| {
            let package = Some(meta.package_name())
                .filter(|name| !name.is_empty())
                .map(str::to_owned);
            Blob::Broken(problem, package)
        }),
        ends_file: false,
    }
}

fn package(root: Node<'_>) -> Result<Blob, String> {
    go_json::check(root, &go_json::PACKAGE)?;
    if let Some(icon) = root.field("icon") {
        go_json::base64(&type_name_of(icon, "base64data"))?;
    }
    Ok(Blob::Package(Package {
        name: text(root, "name"),
        default_channel: text(root, "defaultChannel"),
    }))
}

fn channel(root: Node<'_>) -> Result<Blob, String> {
    go_json::check(root, &go_json::CHANNEL)?;
    let non_empty = |text: String| Some(text).filter(|text| !text.is_empty());
    let entries = list(root, "entries").map(|entry| Entry {
        name: text(entry, "name"),
        replaces: non_empty(text(entry, "replaces")),
        skips: list(entry, "skips")
            .map(|skip| skip.text().unwrap_or_default().into_owned())
            .collect(),
        skip_range: non_empty(text(entry, "skipRange")),
    });
    Ok(Blob::Channel(Channel {
        name: text(root, "name"),
        package: text(root, "package"),
        entries: entries.collect(),
    }))
}

fn bundle(meta: &Meta<'_>) -> Result<Blob, String> {
    let root = meta.root;
    go_json::check(root, &go_json::BUNDLE).map_err(|problem| format!("parse bundle: {problem}"))?;
    let (name, package) = (text(root, "name"), text(root, "package"));
    let images = list(root, "relatedImages").take(MAX_RELATED_IMAGES);
    let invalid_related_image = images.enumerate().find_map(|(at, image)| {
        let image = type_name_of(image, "image");
        let problem = validate_pull_spec(&image)?;
        Some((at, image.chars().take(300).collect(), problem))
    });
    let mut facts = BundleProperties::default();
    // First invalid property. If it is a manifest, opm does not load the catalog at all.
    let mut problem = None;
    let mut warnings: Vec<Warning> = unquoted(meta).collect();
    for (at, property) in list(root, "properties").enumerate() {
        let type_ = type_name_of(property, "type");
        let value = property_value(property);
        if type_ == "olm.bundle.object" {
            let read = value.ok_or_else(|| END.to_owned());
            if let Err(problem) = read.and_then(|value| facts.read_object(value)) {
                let problem = match problem.strip_prefix(CONVERT) {
                    Some(problem) => {
                        format!("convert bundle object property at index {at} to JSON: {problem}")
                    }
                    None => format!("parse property at index {at} as bundle object: {problem}"),
                };
                return Err(format!(
                    "read bundle objects: package {package:?}, bundle {name:?}: {problem}"
                ));
            }
            continue;
        }
        if type_ == MAX_PROPERTY
            && let Some(text) = value.and_then(Node::text)
            && let Some(unquoted) = meta.unquoted.iter().find(|unquoted| unquoted.is(&text))
        {
            facts.add_unquoted(&unquoted.number);
            continue;
        }
        let needs = facts.requires.len();
        if let Err(error) = facts.add(at, &type_, value) {
            problem.get_or_insert(error);
        }
        if let Some(Requirement::Unreadable(reason)) = facts.requires.get(needs)
            && warnings.len() < MAX_WARNINGS
        {
            warnings.push(Warning {
                line: meta.line,
                message: format!(
                    "property[{at}] of type \"olm.constraint\" cannot be read by OLM: {reason}"
                ),
            });
        }
    }
    let decision = facts.max_openshift();
    let problems = meta.problems.iter().chain(&decision.problems);
    warnings.extend(problems.map(|problem| Warning {
        line: line_of(meta, problem.declared().source),
        message: sentence(problem),
    }));
    Ok(Blob::Bundle(Box::new(Bundle {
        image: text(root, "image"),
        properties: problem.map_or(Ok(facts), Err),
        invalid_related_image,
        max_openshift: decision.declared,
        warnings,
        name,
        package,
    })))
}

/// Warns of max OpenShift versions that are not strings.
fn unquoted(meta: &Meta<'_>) -> impl Iterator<Item = Warning> {
    meta.unquoted.iter().map(|unquoted| {
        let number = &unquoted.number;
        let message = if unquoted.place == ValuePosition::Annotation {
            sentence(&Problem::not_a_string(number.spelling()))
        } else {
            format!("{}; {}", number.message(MAX_PROPERTY), number.remedy())
        };
        let line = unquoted.line;
        Warning { line, message }
    })
}

fn sentence(problem: &Problem) -> String {
    format!("{}; {}", problem.explained(), problem.remedy())
}

/// Returns the line in which a spelling declares the max OpenShift version; of several, the first invalid one.
fn line_of(meta: &Meta<'_>, spelling: Spelling) -> usize {
    let root = meta.root;
    let of_type = |type_: &'static str| {
        let properties = list(root, "properties").enumerate();
        let properties =
            properties.filter(move |(_, property)| type_name_of(*property, "type") == type_);
        properties.filter_map(|(at, property)| {
            let path = Path::from(["properties"]).index(at).key("value");
            Some((path, property_value(property)?))
        })
    };
    let declaration = if let Some(annotation) = spelling.annotation() {
        of_type("olm.csv.metadata").find_map(|(path, metadata)| {
            let value = metadata.field("annotations")?.get(annotation)?;
            Some((path.key("annotations").key(annotation), value))
        })
    } else {
        let key = root.get(MAX_ANNOTATION);
        let key = key.map(|value| (Path::from([MAX_ANNOTATION]), value));
        let is_several = of_type(MAX_PROPERTY).nth(1).is_some();
        // The key is the location of a property that the file does not contain.
        let is_key = spelling == Spelling::CatalogKey || (meta.problems.is_empty() && !is_several);
        let values = || {
            let properties = of_type(MAX_PROPERTY).filter(|_| spelling != Spelling::CatalogKey);
            let key = key.clone().filter(|_| is_key);
            key.into_iter().chain(properties)
        };
        let is_invalid = |(_, value): &(Path, Node<'_>)| {
            maximum(&String::from_utf8_lossy(value.source())).is_err()
        };
        values().find(is_invalid).or_else(|| values().next())
    };
    declaration.map_or(meta.line, |(path, value)| meta.line_at(&path, value))
}

fn deprecations(root: Node<'_>) -> Result<Blob, String> {
    go_json::check(root, &go_json::DEPRECATION)?;
    let entries = list(root, "entries").map(|entry| {
        let reference = entry.field("reference");
        let field = |name| reference.map_or_else(String::new, |reference| text(reference, name));
        Deprecation {
            schema: field("schema"),
            name: field("name"),
            message: text(entry, "message"),
        }
    });
    Ok(Blob::Deprecations(Deprecations {
        package: text(root, "package"),
        entries: entries.collect(),
    }))
}

/// Returns the problem of an image reference. An empty reference is accepted.
pub(crate) fn validate_pull_spec(image: &str) -> Option<String> {
    if image.is_empty() {
        return None;
    }
    let parsed: Result<manifests::image::Reference, _> = image.parse();
    parsed.err().map(|error| error.to_string())
}

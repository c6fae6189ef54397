//! `metadata/`: annotations, properties and dependencies of a registry+v1 bundle.

use std::collections::BTreeMap;

use manifests::{
    content::{
        Content, MetadataMatch, field_name, find_document, first_document, is_named_after,
        metadata_limits,
    },
    object::type_name,
    openshift::Unquoted,
    path::Path,
    yaml,
};
use serde_json::Value;

use crate::{
    bundle,
    finding::{Findings, Level, Location, code::Code},
    property::{self, Property},
};

/// Annotation keys of a bundle.
pub(crate) mod keys {
    pub(crate) const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
    pub(crate) const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
    pub(crate) const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";
    pub(crate) const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
    pub(crate) const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
    pub(crate) const DEFAULT_CHANNEL: &str =
        "operators.operatorframework.io.bundle.channel.default.v1";
}

/// The content of `metadata/`.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    /// Annotations of the bundle.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Place of the annotations.
    pub(crate) place: Location,
    /// Directory of the objects.
    pub(crate) manifests_dir: String,
    /// Entries of `properties.yaml`; `None` if the file is missing or empty.
    pub(crate) properties: Option<Vec<Property>>,
    /// Places of the values of `properties`.
    pub(crate) property_places: Vec<Location>,
    /// Max OpenShift versions in `properties` that are numbers, by index.
    pub(crate) unquoted: BTreeMap<usize, Unquoted>,
    /// Entries of `dependencies.yaml`.
    pub(crate) dependencies: Vec<Property>,
    /// Places of the values of `dependencies`.
    pub(crate) dependency_places: Vec<Location>,
}

impl Metadata {
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    pub(crate) fn package(&self) -> &str {
        self.annotation(keys::PACKAGE).unwrap_or_default()
    }

    pub(crate) fn channels(&self) -> Vec<String> {
        self.annotation(keys::CHANNELS)
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|channel| !channel.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

pub(crate) fn read(content: &Content, limits: yaml::Limits, findings: &mut Findings) -> Metadata {
    let max = metadata_limits();
    let limits = yaml::Limits {
        bytes: max.bytes,
        memory: limits.memory.min(max.memory),
        ..limits
    };
    let find = |dir: &str, key, findings: &mut Findings| find(content, dir, key, limits, findings);
    let mut metadata = Metadata {
        manifests_dir: "manifests".into(),
        ..Metadata::default()
    };
    let mut dir = "metadata".to_owned();
    if let Some(found) = find("metadata", "annotations", findings) {
        metadata.place = Location::file(&*found.file);
        metadata.annotations = texts(content, found, findings);
        media_type(&metadata, findings);
        let mut named = |key, default| {
            let named = metadata.annotation(key);
            bundle::dir(content, named, default, key, &metadata.place, findings)
        };
        dir = named(keys::METADATA, "metadata");
        metadata.manifests_dir = named(keys::MANIFESTS, "manifests");
    } else {
        missing(content, findings);
    }
    let find = |key, findings: &mut Findings| {
        let found = find(&dir, key, findings);
        ignored(content, &dir, (key, found.as_ref()), limits, findings);
        found
    };
    if let Some(found) = find("properties", findings) {
        let listed = property::read_file(content, "properties", &found, findings);
        metadata.properties = Some(listed.entries);
        metadata.property_places = listed.places;
        metadata.unquoted = listed.unquoted;
    }
    if let Some(found) = find("dependencies", findings) {
        let listed = property::read_file(content, "dependencies", &found, findings);
        (metadata.dependencies, metadata.dependency_places) = (listed.entries, listed.places);
    }
    metadata
}

/// Reports missing annotations, unless a file error was already reported.
fn missing(content: &Content, findings: &mut Findings) {
    const FILE: &str = "metadata/annotations.yaml";
    if findings.is_rejected() {
        return;
    }
    let (place, message) = match content.read(FILE) {
        Some(_) => (
            Some(Location::file(FILE)),
            "metadata/annotations.yaml has no annotations",
        ),
        None => (None, "metadata/annotations.yaml not found"),
    };
    findings.error(
        Code::Missing,
        place,
        message,
        "a registry+v1 bundle declares its package and channels there, under `annotations:`; create it with `operator-sdk \
         generate bundle` or `opm alpha bundle generate`",
    );
}

/// Checks the media type: a Helm chart is rejected, and any other unexpected type is a warning.
fn media_type(metadata: &Metadata, findings: &mut Findings) {
    let at = metadata
        .place
        .at(&Path::from(["annotations", keys::MEDIA_TYPE]));
    match metadata.annotation(keys::MEDIA_TYPE) {
        Some("registry+v1") => {}
        Some(other @ ("helm" | "helm+v3")) => findings.error(
            Code::BundleAnnotation,
            at,
            format!("the bundle's media type is {other:?}, a chart"),
            "install the chart with helm",
        ),
        Some(other) => findings.warn(
            Code::BundleAnnotation,
            at,
            format!(
                "annotation {:?} is {other:?}; the bundle is read as registry+v1",
                keys::MEDIA_TYPE
            ),
            "set it to \"registry+v1\"",
        ),
        None => findings.warn(
            Code::BundleAnnotation,
            metadata.place.at(&Path::from(["annotations"])),
            format!("annotation {:?} is missing", keys::MEDIA_TYPE),
            "set it to \"registry+v1\"",
        ),
    }
}

/// Finds the file in a directory whose document has a non-empty `key`; see [`find_document`].
fn find(
    content: &Content,
    dir: &str,
    key: &str,
    limits: yaml::Limits,
    findings: &mut Findings,
) -> Option<MetadataMatch> {
    let names = content.dir(dir).map(|(name, _)| name);
    match find_document(dir, key, names, limits, |path| content.read(path)) {
        Ok(found) => found,
        Err((file, error)) => {
            unreadable(&file, key, &error, findings);
            None
        }
    }
}

/// Reports parts of `properties` or `dependencies` that this conversion or opm ignores: files without the list, documents
/// after the first one, and a second file with a list.
fn ignored(
    content: &Content,
    dir: &str,
    (key, found): (&str, Option<&MetadataMatch>),
    limits: yaml::Limits,
    findings: &mut Findings,
) {
    let code = if key == "dependencies" {
        Code::Dependency
    } else {
        Code::Property
    };
    let used = found.map(|found| found.file.as_str());
    for (name, file) in content.dir(dir) {
        if !is_named_after(name, key) {
            continue;
        }
        let path = format!("{dir}/{name}");
        let mut documents = yaml::documents_with(&file.bytes, limits);
        let has_list = match documents.next() {
            Some(Ok(Value::Object(map))) => field_name(&map, key).is_some(),
            Some(Ok(Value::Null)) | None => used != Some(&path),
            Some(Ok(_)) => false,
            Some(Err(_)) => continue,
        };
        if !has_list {
            findings.warn(
                code,
                Location::file(&*path),
                format!("the first document has no list {key:?}; the file is ignored"),
                &format!("put the list under `{key}:`"),
            );
        } else if matches!(documents.next(), Some(Ok(document)) if !document.is_null()) {
            findings.warn(
                code,
                Location::file(&*path),
                "only the first document is used",
                "move all entries to the first document",
            );
        }
    }
    let names = content.dir("metadata").map(|(name, _)| name);
    let rendered = first_document("metadata", key, names, limits, |path| content.read(path));
    if let Some(rendered) = rendered
        && used != Some(&rendered.file)
    {
        let file = used.map_or_else(
            || format!("the conversion finds none in {dir}/"),
            |used| format!("the conversion uses those of {used}"),
        );
        findings.warn(
            code,
            Location::file(&*rendered.file),
            format!("opm renders catalogs with the {key} of this file, but {file}"),
            &format!("keep {key} in one file, metadata/{key}.yaml"),
        );
    }
}

/// Reports a file that is malformed or exceeds the limits. Malformed dependencies are a warning, because the reference
/// implementation converts bundles without reading them: they only affect catalogs.
fn unreadable(file: &str, key: &str, error: &yaml::Error, findings: &mut Findings) {
    let level = if key == "dependencies" {
        Level::Warning
    } else {
        Level::Error
    };
    let (code, message, remedy) = if error.is_limit() {
        (
            Code::TooMany,
            error.message().to_owned(),
            "shorten the file",
        )
    } else {
        (
            Code::Unreadable,
            format!("is not YAML or JSON: {}", error.message()),
            "fix the file",
        )
    };
    let place = bundle::unreadable(file, error);
    findings.add(level, code, Some(place), message, remedy);
}

/// Converts annotation values to strings like Go: `yes` becomes "true", and `1.10` becomes "1.1". Both are reported,
/// because they are unexpected.
fn texts(
    content: &Content,
    found: MetadataMatch,
    findings: &mut Findings,
) -> BTreeMap<String, String> {
    let MetadataMatch { file, key, value } = found;
    let (place, root) = (Location::file(file), key.as_str());
    let Value::Object(map) = value else {
        findings.error(
            Code::WrongShape,
            place.at(&Path::from([root])),
            format!("annotations is {}, not a mapping", type_name(&value)),
            "write one `key: value` per line under `annotations:`",
        );
        return BTreeMap::new();
    };
    let surprising = map
        .iter()
        .filter(|(_, value)| value.is_boolean() || value.is_number());
    let paths: Vec<_> = surprising.map(|(key, _)| Path::from([root, key])).collect();
    let bytes = content.read(&place.file);
    let bytes = bytes.map(AsRef::as_ref).unwrap_or_default();
    let mut scalars = yaml::written_all(bytes, 0, &paths).into_iter();
    let mut texts = BTreeMap::new();
    for (key, value) in map {
        let at = || place.at(&Path::from([root, &key]));
        let text = match value {
            Value::String(text) => text,
            Value::Null => String::new(),
            Value::Bool(_) | Value::Number(_) => {
                let read = value.to_string();
                let scalar = scalars.next().flatten();
                let spelling = scalar.map(|scalar| scalar.text).unwrap_or_default();
                if spelling != read {
                    findings.warn(
                        Code::UnquotedNumber,
                        at(),
                        format!("annotation {key:?} is written {spelling} and read as {read:?} by Kubernetes tools"),
                        "put the value in quotes",
                    );
                }
                read
            }
            other => {
                findings.error(
                    Code::WrongShape,
                    at(),
                    format!("annotation {key:?} is {}, not a string", type_name(&other)),
                    "set it to a string",
                );
                continue;
            }
        };
        texts.insert(key, text);
    }
    texts
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::testing::{ANNOTATIONS, content};

    #[test]
    fn annotations_without_quotes_are_looked_up_together() {
        let mut text = "annotations:\n  a: yes\n  z: 1\n".to_owned();
        for at in 0..4000 {
            writeln!(text, "  k{at}: {at}.10\n  t{at}: \"1.10\"").unwrap();
        }
        let mut findings = Findings::default();
        let content = content([(ANNOTATIONS, &*text)]);
        assert_rows!(read(&content, yaml::Limits::default(), &mut findings).annotation("k7") => Some("7.1"));
        let mut unquoted = findings.finish();
        unquoted.retain(|finding| finding.code == Code::UnquotedNumber);
        assert_eq!(unquoted.len(), 4001);
        for text in [
            "annotation \"a\" is written yes and read as \"true\" by Kubernetes tools",
            "annotation \"k3999\" is written 3999.10 and read as \"3999.1\" by Kubernetes tools",
        ] {
            assert_rows!(unquoted.iter().any(|finding| finding.message == text) => true, "{text}");
        }
    }
}

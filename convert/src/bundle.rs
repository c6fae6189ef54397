//! Reading a bundle's files: directories, documents, and the single ClusterServiceVersion.

pub(crate) mod metadata;

use manifests::{
    content::{self, Content},
    object::{self, truncate, type_name},
    path::Path,
    yaml,
};
use serde_json::Value;

use self::metadata::Metadata;
use crate::{
    budget::{self, Budget},
    finding::{Findings, Location, code::Code},
};

/// An object of the bundle, and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) value: Value,
    pub(crate) place: Location,
}

impl Item {
    pub(crate) fn kind(&self) -> &str {
        object::text(&self.value, &["kind"]).unwrap_or_default()
    }

    pub(crate) fn api_version(&self) -> &str {
        object::text(&self.value, &["apiVersion"]).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        object::text(&self.value, &["metadata", "name"]).unwrap_or_default()
    }

    /// Returns a label for messages, such as `Deployment "x"`. Names are truncated to the maximum of valid names, because
    /// every message contains the label.
    pub(crate) fn label(&self) -> String {
        const MAX_NAME_LEN: usize = 253;
        let short = |text| truncate(text, MAX_NAME_LEN);
        match self.name() {
            "" => format!("a {} without a name", short(self.kind())),
            name => format!("{} {:?}", short(self.kind()), short(name)),
        }
    }
}

/// Parts of a registry+v1 bundle.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) metadata: Metadata,
    /// The ClusterServiceVersion, or `None` unless the bundle has exactly one.
    pub(crate) csv: Option<Item>,
    /// All other objects.
    pub(crate) objects: Vec<Item>,
    /// The remaining memory.
    pub(crate) budget: Budget,
}

/// Reads a registry+v1 bundle. A malformed file is a finding, and reading continues.
pub(crate) fn read(content: &Content, limits: yaml::Limits, findings: &mut Findings) -> Bundle {
    let metadata = metadata::read(content, limits, findings);
    let Objects {
        items,
        budget,
        is_complete,
    } = objects(content, &metadata.manifests_dir, limits, findings);
    let (mut csvs, others): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item| item.kind() == "ClusterServiceVersion");
    if csvs.len() > 1 {
        let files: Vec<_> = csvs.iter().map(|csv| csv.place.describe()).collect();
        findings.error(
            Code::CSVCount,
            csvs.last().map(|csv| csv.place.clone()),
            format!(
                "the bundle has {} ClusterServiceVersions: {}",
                csvs.len(),
                files.join(", ")
            ),
            "keep the one that belongs to this version; each version needs a separate bundle",
        );
    }
    if csvs.is_empty() && is_complete && !findings.are_absences_hidden() {
        findings.error(
            Code::CSVCount,
            None,
            format!(
                "no ClusterServiceVersion found in \"{}\"",
                metadata.manifests_dir
            ),
            "add the operator's ClusterServiceVersion to the manifests directory",
        );
    }
    let csv = if csvs.len() == 1 { csvs.pop() } else { None };
    Bundle {
        metadata,
        csv,
        objects: others,
        budget,
    }
}

/// The objects of a directory.
#[derive(Debug)]
pub(crate) struct Objects {
    /// All objects in the order of files and documents, with lists flattened.
    pub(crate) items: Vec<Item>,
    /// The remaining memory.
    pub(crate) budget: Budget,
    /// Whether all files were read: reading stops at the first limit.
    pub(crate) is_complete: bool,
}

/// Reads the objects of the manifests directory.
pub(crate) fn objects(
    content: &Content,
    dir: &str,
    limits: yaml::Limits,
    findings: &mut Findings,
) -> Objects {
    let mut reader = Reader {
        items: Vec::new(),
        limits,
        findings,
    };
    let mut last_folder = None;
    let mut is_complete = true;
    for (name, file) in content.dir(dir) {
        if let Some((sub, _)) = name.split_once('/') {
            if last_folder.replace(sub) != Some(sub) {
                reader.findings.error(
                    Code::Subdirectory,
                    Location::file(format!("{dir}/{sub}")),
                    format!(
                        "subdirectories are not allowed within the \"{dir}\" directory of the bundle image \
                         filesystem: found \"{dir}/{sub}\""
                    ),
                    "move its files to the parent directory",
                );
            }
            continue;
        }
        if !reader.file(&format!("{dir}/{name}"), &file.bytes) {
            is_complete = false;
            break;
        }
    }
    Objects {
        items: reader.items,
        budget: Budget::new(reader.limits),
        is_complete,
    }
}

/// Reads files in sequence.
struct Reader<'f> {
    items: Vec<Item>,
    /// The limits for the remaining files.
    limits: yaml::Limits,
    findings: &'f mut Findings,
}

impl Reader<'_> {
    /// Reads one file, and reports whether the limits allow another one.
    fn file(&mut self, file: &str, bytes: &[u8]) -> bool {
        let mut documents = yaml::documents_with(bytes, self.limits);
        let mut number = 0;
        while let Some(document) = documents.next() {
            number += 1;
            let mut place = Location::file(file);
            place.document = number;
            match document {
                Ok(Value::Null) => {}
                Ok(value) => {
                    if !self.flatten(Item { value, place }, &mut documents) {
                        return false;
                    }
                }
                Err(error) if error.is_limit() => {
                    let place = unreadable(file, &error);
                    self.findings
                        .error(Code::TooMany, place, error.message(), budget::REMEDY);
                    return false;
                }
                Err(error) => {
                    self.findings.error(
                        Code::Unreadable,
                        unreadable(file, &error),
                        format!("is not YAML or JSON: {}", error.message()),
                        "every file of this directory must be a Kubernetes manifest; fix the file or move it out of the \
                         directory",
                    );
                }
            }
        }
        self.limits = documents.remaining_values();
        true
    }

    /// Replaces lists by their items, whose places include the position in the list. Reports whether the memory suffices.
    fn flatten(&mut self, item: Item, documents: &mut yaml::Documents<'_>) -> bool {
        let mut open = vec![(item, 0)];
        while let Some((mut item, depth)) = open.pop() {
            let is_list = object::is_list(&item.value);
            if is_list && depth == MAX_LISTS {
                self.findings.error(
                    Code::TooMany,
                    item.place,
                    format!("lists are nested deeper than the limit of {MAX_LISTS}"),
                    "write the objects as separate documents",
                );
                continue;
            }
            let items = item.value.get("items").filter(|_| is_list);
            let objects = match items.and_then(Value::as_array) {
                Some(items) => items.len(),
                None => usize::from(depth == 0),
            };
            let bytes = objects.saturating_mul(budget::OBJECT + item.place.file.len());
            if !documents.reserve(bytes) {
                let subject = if is_list {
                    format!("a list of {objects} objects")
                } else {
                    item.label()
                };
                self.findings.too_large(item.place, &subject);
                return false;
            }
            if is_list {
                let listed = object::take_items(&mut item.value);
                open.extend(listed.into_iter().enumerate().rev().map(|(at, value)| {
                    let place = item.place.at(&Path::from(["items"]).index(at));
                    (Item { value, place }, depth + 1)
                }));
            } else {
                self.add(item);
            }
        }
        true
    }

    /// Adds an object; any other value is a finding.
    fn add(&mut self, item: Item) {
        if !item.value.is_object() {
            self.findings.error(
                Code::WrongShape,
                item.place,
                format!("the document is {}, not an object", type_name(&item.value)),
                "every document of this directory must be a Kubernetes object; fix the document or move it out of the \
                 directory",
            );
        } else if item.kind().is_empty() {
            self.findings.error(
                Code::Unidentified,
                item.place,
                "Object 'Kind' is missing",
                "set kind and apiVersion, or move the file out of the directory",
            );
        } else {
            self.items.push(item);
        }
    }
}

/// Returns the place of an error in a file.
pub(crate) fn unreadable(file: &str, error: &yaml::Error) -> Location {
    Location {
        file: file.to_owned(),
        document: error.document() + 1,
        line: error.line(),
        column: error.column(),
        ..Location::default()
    }
}

/// Maximum nesting of lists; each level lengthens the places of all items in it.
const MAX_LISTS: usize = 4;

/// Returns the directory that an annotation names, or the default. The directory is always inside of the bundle.
pub(crate) fn dir(
    content: &Content,
    named: Option<&str>,
    default: &str,
    annotation: &str,
    place: &Location,
    findings: &mut Findings,
) -> String {
    let Some(named) = named.map(str::trim).filter(|named| !named.is_empty()) else {
        return default.to_owned();
    };
    let place = place.at(&Path::from(["annotations", annotation]));
    // The bundle's root in any spelling is not accepted, because `metadata/` would be a subdirectory of it.
    if named.split('/').all(|part| matches!(part, "" | ".")) {
        findings.warn(
            Code::BundleAnnotation,
            place,
            format!("annotation {annotation:?} refers to the bundle's root directory; \"{default}\" is used"),
            &format!("set it to \"{default}/\""),
        );
        return default.to_owned();
    }
    match content::normalize(named.trim_start_matches('/')) {
        Ok(dir) if dir == default || content.has_folder(&dir) => dir,
        Ok(dir) => {
            if !findings.are_absences_hidden() {
                findings.warn(
                    Code::BundleAnnotation,
                    place,
                    format!("annotation {annotation:?} refers to directory {dir:?}, which does not exist; \"{default}\" \
                             is used"),
                    "set the annotation to the directory that contains the files",
                );
            }
            default.to_owned()
        }
        Err(error) => {
            findings.error(
                Code::BundleAnnotation,
                place,
                format!("annotation {annotation:?} does not refer to a directory of this bundle: {error}"),
                &format!("set it to \"{default}/\""),
            );
            default.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::content;

    #[test]
    fn values_and_repeated_text_are_counted_over_all_files() {
        let paths = ["manifests/a.yaml", "manifests/b.yaml", "manifests/c.yaml"];
        let content = content(paths.map(|path| (path, "kind: &a ConfigMap\ndata: [*a]\n")));
        for (values, text, expected) in [(9, 27, 3), (8, 27, 2), (9, 26, 2)] {
            let limits = with!(yaml::Limits, values, text);
            let objects = objects(&content, "manifests", limits, &mut Findings::default());
            assert_eq!(objects.items.len(), expected, "{values} {text}");
        }
    }
}

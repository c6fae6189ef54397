//! Reading a bundle's files: folders, documents, the one ClusterServiceVersion.

use manifests::{
    content::{self, Content},
    object::{self, shortened, type_name},
    path::Path,
    yaml,
};
use serde_json::Value;

use crate::{
    budget::{self, Budget},
    code::Code,
    metadata::{self, Metadata},
    report::{Findings, Place},
};

/// An object of the bundle, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) value: Value,
    pub(crate) place: Place,
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

    /// `Deployment "x"`, for messages. Never longer than legal names are: it is part of every message.
    pub(crate) fn label(&self) -> String {
        const LONGEST: usize = 253;
        let short = |text| shortened(text, LONGEST);
        match self.name() {
            "" => format!("a {} without a name", short(self.kind())),
            name => format!("{} {:?}", short(self.kind()), short(name)),
        }
    }
}

/// What a registry+v1 bundle consists of.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) metadata: Metadata,
    /// The ClusterServiceVersion, unless there is none or more than one.
    pub(crate) csv: Option<Item>,
    /// All other objects.
    pub(crate) others: Vec<Item>,
    /// The memory that the objects left.
    pub(crate) budget: Budget,
}

/// Reads a registry+v1 bundle. What cannot be read is a finding, and the rest goes on.
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
        let files: Vec<_> = csvs.iter().map(|csv| csv.place.in_full()).collect();
        findings.error(
            Code::CSVCount,
            csvs.last().map(|csv| csv.place.clone()),
            format!(
                "the bundle has {} ClusterServiceVersions: {}",
                csvs.len(),
                files.join(", ")
            ),
            "keep the one that belongs to this version; each version is a bundle of its own",
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
            "add the operator's ClusterServiceVersion to the manifests folder",
        );
    }
    let csv = if csvs.len() == 1 { csvs.pop() } else { None };
    Bundle {
        metadata,
        csv,
        others,
        budget,
    }
}

/// The objects of a folder.
#[derive(Debug)]
pub(crate) struct Objects {
    /// All of them, lists flattened, in the order of files and documents.
    pub(crate) items: Vec<Item>,
    /// The memory that they leave.
    pub(crate) budget: Budget,
    /// Whether all files were read: reading ends at the first limit.
    pub(crate) is_complete: bool,
}

/// Reads the objects of the manifests folder.
pub(crate) fn objects(
    content: &Content,
    folder: &str,
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
    for (name, file) in content.folder(folder) {
        if let Some((sub, _)) = name.split_once('/') {
            if last_folder.replace(sub) != Some(sub) {
                reader.findings.error(
                    Code::Subdirectory,
                    Place::file(format!("{folder}/{sub}")),
                    format!(
                        "subdirectories are not allowed within the \"{folder}\" directory of the bundle image \
                         filesystem: found \"{folder}/{sub}\""
                    ),
                    "move its files up",
                );
            }
            continue;
        }
        if !reader.file(&format!("{folder}/{name}"), &file.bytes) {
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

/// Reads files one after the other.
struct Reader<'f> {
    items: Vec<Item>,
    /// The limits for all that is still to be read.
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
            let mut place = Place::file(file);
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
                        "every file of this folder must be a Kubernetes manifest; fix it or move it out of the folder",
                    );
                }
            }
        }
        self.limits = documents.left();
        true
    }

    /// Lists become their items; each item knows its place within the list. Reports whether there is memory for them.
    fn flatten(&mut self, item: Item, documents: &mut yaml::Documents<'_>) -> bool {
        let mut open = vec![(item, 0)];
        while let Some((mut item, depth)) = open.pop() {
            let is_list = object::is_list(&item.value);
            if is_list && depth == MAX_LISTS {
                self.findings.error(
                    Code::TooMany,
                    item.place,
                    format!("lists are nested deeper than the limit of {MAX_LISTS}"),
                    "write the objects as documents of their own",
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

    /// Adds an object; anything else is a finding.
    fn add(&mut self, item: Item) {
        if !item.value.is_object() {
            self.findings.error(
                Code::WrongShape,
                item.place,
                format!("the document is {}, not an object", type_name(&item.value)),
                "every document of this folder must be a Kubernetes object; fix it or move it out of the folder",
            );
        } else if item.kind().is_empty() {
            self.findings.error(
                Code::Unidentified,
                item.place,
                "Object 'Kind' is missing",
                "set kind and apiVersion, or move the file out of the folder",
            );
        } else {
            self.items.push(item);
        }
    }
}

/// Returns the place where reading a file failed.
pub(crate) fn unreadable(file: &str, error: &yaml::Error) -> Place {
    Place {
        file: file.to_owned(),
        document: error.document() + 1,
        line: error.line(),
        column: error.column(),
        ..Place::default()
    }
}

/// Lists within lists; each level makes the places of all items below longer.
const MAX_LISTS: usize = 4;

/// The folder an annotation names, or the usual one. Never a place outside of the bundle.
pub(crate) fn folder(
    content: &Content,
    named: Option<&str>,
    usual: &str,
    annotation: &str,
    place: &Place,
    findings: &mut Findings,
) -> String {
    let Some(named) = named.map(str::trim).filter(|named| !named.is_empty()) else {
        return usual.to_owned();
    };
    let place = place.at(&Path::from(["annotations", annotation]));
    // The root itself, however it is spelt, cannot be the folder: `metadata/` would be a sub-directory of it.
    if named.split('/').all(|part| matches!(part, "" | ".")) {
        findings.warn(
            Code::BundleAnnotation,
            place,
            format!("annotation {annotation:?} names the bundle's root; \"{usual}\" is used"),
            &format!("write \"{usual}/\""),
        );
        return usual.to_owned();
    }
    match content::normalize(named.trim_start_matches('/')) {
        Ok(folder) if folder == usual || content.has_folder(&folder) => folder,
        Ok(folder) => {
            if !findings.are_absences_hidden() {
                findings.warn(
                    Code::BundleAnnotation,
                    place,
                    format!("annotation {annotation:?} names folder {folder:?}, which does not exist; \"{usual}\" is used"),
                    "let the annotation name the folder that holds the files",
                );
            }
            usual.to_owned()
        }
        Err(error) => {
            findings.error(
                Code::BundleAnnotation,
                place,
                format!("annotation {annotation:?} names no folder of this bundle: {error}"),
                &format!("write \"{usual}/\""),
            );
            usual.to_owned()
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

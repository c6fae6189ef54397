//! CatalogSources of one file, and the problems of the file itself. Only `report` does I/O: it prints to standard error.

use std::collections::BTreeMap;

use manifests::{
    object::truncate,
    path::{Path, Step},
    yaml,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    super::objects::{Objects, text},
    crd::Crd,
};
use crate::output::message;

/// Maximum number of reported problems of a file, besides those of its CatalogSources.
const MAX_PROBLEMS: usize = 100;
/// Maximum number of kinds that a note about skipped objects names.
const MAX_KINDS: usize = 10;
/// Maximum length of a kind or a version in such a note.
const MAX_WORD_LEN: usize = 80;

/// CatalogSource of a file, and the errors that the API server would report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Validated {
    file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    pub(super) errors: Vec<String>,
}

/// Result of the validation of a file.
#[derive(Debug)]
pub(super) struct File {
    name: String,
    pub(super) sources: Vec<Validated>,
    /// Problems of the file; at most [`MAX_PROBLEMS`].
    problems: Vec<String>,
    /// Number of problems that are not reported.
    hidden: usize,
    /// Number of objects of other kinds, by kind and version.
    skipped: BTreeMap<String, usize>,
}

/// CatalogSources of a document: the path of each, and its index in `sources` of the file.
type Places = Vec<(Path, usize)>;

// === impl File ===

impl File {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            sources: Vec::new(),
            problems: Vec::new(),
            hidden: 0,
            skipped: BTreeMap::new(),
        }
    }

    /// Adds the reason why the file, or a document of it, cannot be read.
    pub(super) fn add_unreadable(&mut self, error: &anyhow::Error) {
        self.add_problem(format!("failed to read {}: {error:#}", self.name));
    }

    fn add_problem(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.hidden += 1;
        }
    }

    /// Validates the CatalogSources in the text of the file.
    pub(super) fn validate(&mut self, input: &[u8], crd: &mut Crd) -> anyhow::Result<()> {
        let mut documents = BTreeMap::new();
        for (number, document) in yaml::documents(input).enumerate() {
            match document {
                // The document has only comments.
                Ok(Value::Null) => {}
                Ok(document) => {
                    let places = self.validate_document(document, input, number, crd)?;
                    documents.insert(number, places);
                }
                Err(error) => self.add_unreadable(&error.into()),
            }
        }
        self.check_duplicates(input, &documents);
        if self.sources.is_empty() && self.problems.is_empty() {
            self.add_problem(format!(
                "{}: no CatalogSource found; check apiVersion and kind, or leave the file out",
                self.name
            ));
        }
        Ok(())
    }

    fn validate_document(
        &mut self,
        document: Value,
        input: &[u8],
        number: usize,
        crd: &mut Crd,
    ) -> anyhow::Result<Places> {
        let (mut places, mut malformed) = (Vec::new(), Vec::new());
        let remaining = MAX_PROBLEMS - self.problems.len();
        let mut objects = Objects::new(document);
        while let Some(object) = objects.next() {
            if let Some(problem) = malformation(&object) {
                if malformed.len() < remaining {
                    malformed.push((objects.path(), problem));
                } else {
                    self.hidden += 1;
                }
            } else if text(&object, "kind") == "CatalogSource" {
                places.push((objects.path(), self.sources.len()));
                let metadata = object.get("metadata");
                let metadata = |field| metadata.map_or("", |metadata| text(metadata, field));
                self.sources.push(Validated {
                    file: self.name.clone(),
                    namespace: metadata("namespace").to_owned(),
                    name: metadata("name").to_owned(),
                    errors: crd.errors(object)?,
                });
            } else {
                let [kind, version] = ["kind", "apiVersion"]
                    .map(|field| truncate(text(&object, field), MAX_WORD_LEN));
                *self
                    .skipped
                    .entry(format!("{kind} ({version})"))
                    .or_default() += 1;
            }
        }
        let paths: Vec<Path> = malformed.iter().map(|(path, _)| path.clone()).collect();
        let lines = yaml::locate_nearest(input, number, &paths);
        for ((path, problem), place) in malformed.into_iter().zip(lines) {
            let line = place.map(|(line, _)| format!("line {line}: "));
            let path = Some(path).filter(|path| !path.is_root());
            let path = path.map(|path| format!("{path}: "));
            self.add_problem(format!(
                "{}: {}{}{problem}",
                self.name,
                line.unwrap_or_default(),
                path.unwrap_or_default()
            ));
        }
        Ok(places)
    }

    /// Reports the duplicate fields of CatalogSources, and of other objects the duplicate fields that identify the object.
    fn check_duplicates(&mut self, input: &[u8], documents: &BTreeMap<usize, Places>) {
        let numbers = documents.keys().copied().collect();
        for (number, repeated) in yaml::repeated_all(input, &numbers) {
            let places = documents.get(&number).map_or(&[][..], Vec::as_slice);
            let Some(repeated) = repeated else {
                if !places.is_empty() {
                    self.add_problem(format!(
                        "{}: document {} is too large to be checked for duplicate fields; split it",
                        self.name,
                        number + 1
                    ));
                }
                continue;
            };
            let hidden = repeated.count - repeated.keys.len();
            for (path, line) in repeated.keys {
                self.add_duplicate(&path, line, places);
            }
            if hidden > 0 && !places.is_empty() {
                self.add_problem(format!(
                    "{}: {hidden} more duplicate fields are not shown",
                    self.name
                ));
            }
        }
    }

    fn add_duplicate(&mut self, path: &Path, line: usize, places: &[(Path, usize)]) {
        let error = |path: &[Step]| format!("line {line}: duplicate field \"{}\"", dotted(path));
        let within = places
            .iter()
            .find_map(|(place, at)| Some((path.steps().strip_prefix(place.steps())?, *at)));
        if let Some((path, at)) = within {
            if let Some(source) = self.sources.get_mut(at) {
                source.errors.push(error(path));
            }
        } else if is_identity(path.steps()) {
            self.add_problem(format!("{}: {}", self.name, error(path.steps())));
        }
    }

    /// Reports whether the file has CatalogSources, all of them are valid, and no other problem was found.
    pub(super) fn is_valid(&self) -> bool {
        self.problems.is_empty() && self.sources.iter().all(|source| source.errors.is_empty())
    }

    /// Prints the problems, and a note about skipped objects.
    pub(super) fn report(&self) {
        if let Some(skipped) = self.describe_skipped() {
            message::note(&format!("{}: skipped {skipped}", self.name));
        }
        for problem in &self.problems {
            message::error(problem);
        }
        if self.hidden > 0 {
            message::error(&format!(
                "{}: {} more problems are not shown",
                self.name, self.hidden
            ));
        }
        for source in &self.sources {
            for error in &source.errors {
                message::error(&format!(
                    "{}: CatalogSource {}: {error}",
                    self.name,
                    source.title()
                ));
            }
        }
    }

    /// Describes the objects of other kinds: `3 objects of other kinds: 2 ConfigMap (v1), 1 Deployment (apps/v1)`.
    fn describe_skipped(&self) -> Option<String> {
        let objects = match self.skipped.values().sum() {
            0_usize => return None,
            1 => "1 object of another kind".to_owned(),
            several => format!("{several} objects of other kinds"),
        };
        let kinds = self.skipped.iter().take(MAX_KINDS);
        let mut kinds: Vec<String> = kinds
            .map(|(kind, number)| format!("{number} {kind}"))
            .collect();
        if let Some(hidden @ 1..) = self.skipped.len().checked_sub(MAX_KINDS) {
            kinds.push(format!("and {}", message::count(hidden, "more kind")));
        }
        Some(format!("{objects}: {}", kinds.join(", ")))
    }
}

/// Returns why an object cannot be identified: the messages of Kubernetes, with a remedy.
fn malformation(object: &Value) -> Option<&'static str> {
    let is_empty = |field| text(object, field).is_empty();
    let has_items = || object.get("items").is_some_and(|items| !items.is_null());
    if !object.is_object() {
        Some("not an object; set apiVersion and kind")
    } else if is_empty("kind") {
        Some("Object 'Kind' is missing; set apiVersion and kind")
    } else if is_empty("apiVersion") {
        Some("Object 'apiVersion' is missing; set apiVersion and kind")
    } else if text(object, "kind").ends_with("List") && has_items() {
        Some("items is not a list; write the objects as a list")
    } else {
        None
    }
}

/// Reports whether a field of a List, of one of its items, or of a document identifies the object.
fn is_identity(mut path: &[Step]) -> bool {
    while let [Step::Key(items), Step::Index(_), rest @ ..] = path
        && items == "items"
    {
        path = rest;
    }
    matches!(path, [Step::Key(key)] if ["apiVersion", "kind", "items"].contains(&key.as_str()))
}

/// Formats a path as the API server does.
fn dotted(path: &[Step]) -> String {
    let steps = path.iter().enumerate().map(|(at, step)| match step {
        Step::Index(index) => format!("[{index}]"),
        Step::Key(key) if at == 0 => key.clone(),
        Step::Key(key) => format!(".{key}"),
    });
    steps.collect()
}

// === impl Validated ===

impl Validated {
    /// Returns the name, with the namespace, if any.
    pub(super) fn title(&self) -> String {
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => "without a name".to_owned(),
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        }
    }
}

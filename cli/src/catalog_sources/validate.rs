//! `rukpak catalogsource validate`: CatalogSources as the API server checks them, without one.
//!
//! ```text
//!  object ─ name ─ unknown fields ─ schema ──► messages
//!                                     └─ nothing that blocks ─ CEL rules ──► messages
//! ```
//!
//! The schema and the rules are those of rukpak's definition. They are checked for an object that is created: a rule that
//! spares what was stored before has nothing to spare here.

mod schema;

use std::{collections::BTreeMap, path::Path};

use anyhow::Context;
use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator, compile_schema};
use manifests::{
    api::{catalog_source::convert::Version, definitions},
    yaml,
};
use serde::Serialize;
use serde_json::{Map, Value};

use self::schema::Findings;
use super::{is_catalog_source, read};
use crate::{Exit, args::CatalogSourceValidateArgs, message, output};

/// The expression by which a rule recognizes an update. A file creates objects.
const HAS_OLD: &str = "oldSelf.hasValue()";

/// The maximum length of a name.
const MAX_NAME_LEN: usize = 253;
/// The message of the API server for a name of another form.
const NOT_A_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                               and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                               validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A CatalogSource of a file, and what the API server would report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Validated {
    file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    errors: Vec<String>,
}

/// The definition of CatalogSources in one version of the API.
struct Definition {
    schema: Value,
    rules: CompiledSchema,
}

pub(super) fn run(args: &CatalogSourceValidateArgs) -> anyhow::Result<Exit> {
    let mut checker = Checker::default();
    let mut all = Vec::new();
    for path in &args.files {
        let failed = || format!("failed to read {}", path.display());
        let text = read(path).with_context(failed)?;
        for document in yaml::documents(&text) {
            let document = document.with_context(failed)?;
            checker.validate(path, document, &mut all)?;
        }
    }
    if let Some(text) = output::described(&all, args.output)? {
        output::print(&text)?;
    } else {
        let valid = all.iter().filter(|source| source.errors.is_empty());
        for source in valid {
            output::print(&format!("{}: valid\n", source.title()))?;
        }
    }
    if all.is_empty() {
        message::error("the files have no CatalogSource; check apiVersion and kind");
    }
    for source in &all {
        for error in &source.errors {
            message::error(&format!(
                "{}: CatalogSource {}: {error}",
                source.file,
                source.title()
            ));
        }
    }
    let is_valid = !all.is_empty() && all.iter().all(|source| source.errors.is_empty());
    Ok(if is_valid { Exit::Done } else { Exit::Failed })
}

/// Definitions that were compiled, by version of the API.
#[derive(Default)]
struct Checker {
    definitions: BTreeMap<String, Definition>,
}

// === impl Checker ===

impl Checker {
    /// Validates the CatalogSources of a document, which may be a List.
    fn validate(
        &mut self,
        path: &Path,
        mut document: Value,
        all: &mut Vec<Validated>,
    ) -> anyhow::Result<()> {
        let items = document.get_mut("items").and_then(Value::as_array_mut);
        let objects = match items {
            Some(items) => std::mem::take(items),
            None => vec![document],
        };
        for object in objects.into_iter().filter(is_catalog_source) {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            all.push(Validated {
                file: path.display().to_string(),
                namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
                name: text("/metadata/name").unwrap_or_default().to_owned(),
                errors: self.errors(object)?,
            });
        }
        Ok(())
    }

    fn errors(&mut self, object: Value) -> anyhow::Result<Vec<String>> {
        let Some(version) = Version::of(&object) else {
            let version = object.get("apiVersion").and_then(Value::as_str);
            let version = version.unwrap_or_default();
            return Ok(vec![format!(
                "no matches for kind \"CatalogSource\" in version {version:?}; use {}",
                Version::V1alpha1.api_version()
            )]);
        };
        let definition = match self.definitions.entry(version.api_version()) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(unknown) => {
                unknown.insert(Definition::new(version)?)
            }
        };
        definition.errors(object)
    }
}

// === impl Definition ===

impl Definition {
    fn new(version: Version) -> anyhow::Result<Self> {
        let schema = definitions::catalog_source_schema(version);
        let schema = schema.context("the definition of CatalogSources has no schema")?;
        let rules = schema.to_string().replace(HAS_OLD, "false");
        let rules = serde_json::from_str(&rules).context("failed to read the rules")?;
        Ok(Self {
            schema,
            rules: compile_schema(&rules),
        })
    }

    /// Returns what the API server would report of an object that is created.
    fn errors(&self, mut object: Value) -> anyhow::Result<Vec<String>> {
        let mut findings = Findings::default();
        if let Value::Object(object) = &object {
            check_name(object, &mut findings);
        }
        schema::prune(&mut object, &self.schema, &mut findings);
        schema::check(&object, &self.schema, &mut findings);
        let (mut errors, is_blocked) = findings.into_errors();
        if is_blocked {
            return Ok(errors);
        }
        let failures = Validator::new().validate_compiled(&self.rules, &object, None);
        for failure in failures
            .err()
            .iter()
            .flat_map(kube_cel::ValidationErrors::as_slice)
        {
            errors.push(describe(failure)?);
        }
        Ok(errors)
    }
}

/// Checks the name as the API server does before it reads the rest.
fn check_name(object: &Map<String, Value>, findings: &mut Findings) {
    let text = |field: &str| {
        let text = object
            .get("metadata")
            .and_then(|metadata| metadata.get(field)?.as_str());
        text.filter(|text| !text.is_empty())
    };
    match text("name") {
        None if text("generateName").is_none() => {
            findings.block("metadata.name: Required value: name or generateName is required");
        }
        Some(name) => {
            let invalid = format!("metadata.name: Invalid value: {name:?}: ");
            if name.len() > MAX_NAME_LEN {
                findings.add(format!(
                    "{invalid}must be no more than {MAX_NAME_LEN} characters"
                ));
            }
            if !is_subdomain(name) {
                findings.add(format!("{invalid}{NOT_A_SUBDOMAIN}"));
            }
        }
        None => {}
    }
}

/// Reports whether a text has the form of a DNS subdomain, of any length.
fn is_subdomain(text: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.split('.').all(|label| {
        label.starts_with(is_alphanumeric)
            && label.ends_with(is_alphanumeric)
            && label.chars().all(|c| is_alphanumeric(c) || c == '-')
    })
}

/// Describes the failure of a rule as the API server does.
fn describe(failure: &ValidationError) -> anyhow::Result<String> {
    anyhow::ensure!(
        failure.kind == ErrorKind::ValidationFailure,
        "failed to evaluate a rule of the definition: {}",
        failure.message
    );
    let reason = match failure.reason.as_deref() {
        Some("FieldValueForbidden") => "Forbidden",
        Some("FieldValueRequired") => "Required value",
        _ => "Invalid value",
    };
    Ok(format!(
        "{}: {reason}: {}",
        failure.field_path, failure.message
    ))
}

// === impl Validated ===

impl Validated {
    /// Its name, with its namespace if it has one.
    fn title(&self) -> String {
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => "without a name".to_owned(),
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        }
    }
}

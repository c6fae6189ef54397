//! The CRD of CatalogSources, and the errors of the API server for an object that is created. Pure; no I/O.

use std::collections::{BTreeMap, btree_map::Entry};

use anyhow::Context;
use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator, compile_schema};
use manifests::{
    api::{catalog_source::convert::Version, definitions},
    object::shortened,
};
use serde_json::{Map, Value};

use super::{
    super::objects::text,
    schema::{self, Findings},
};

/// The expression by which a rule recognizes an update. A file creates objects.
const HAS_OLD: &str = "oldSelf.hasValue()";

/// The maximum length of a name.
const MAX_NAME_LEN: usize = 253;
/// The message of the API server for a name of another form.
const NOT_A_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                               and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                               validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A version of the CRD.
struct CrdVersion {
    schema: Value,
    rules: CompiledSchema,
}

/// The versions of the CRD whose rules were compiled, by `apiVersion`.
#[derive(Default)]
pub(super) struct Crd(BTreeMap<String, CrdVersion>);

// === impl Crd ===

impl Crd {
    /// Returns the errors of the API server for creating an object of the kind CatalogSource.
    pub(super) fn errors(&mut self, object: Value) -> anyhow::Result<Vec<String>> {
        let Some(version) = Version::of(&object) else {
            let version = shortened(text(&object, "apiVersion"), MAX_NAME_LEN);
            return Ok(vec![format!(
                "no matches for kind \"CatalogSource\" in version {version:?}; use {}",
                Version::V1alpha1.api_version()
            )]);
        };
        let crd = match self.0.entry(version.api_version()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(CrdVersion::new(version)?),
        };
        crd.errors(object)
    }
}

// === impl CrdVersion ===

impl CrdVersion {
    fn new(version: Version) -> anyhow::Result<Self> {
        let schema = definitions::catalog_source_schema(version);
        let schema = schema.context("the CRD of CatalogSources has no schema")?;
        let rules = schema.to_string().replace(HAS_OLD, "false");
        let rules = serde_json::from_str(&rules).context("failed to read the rules")?;
        Ok(Self {
            schema,
            rules: compile_schema(&rules),
        })
    }

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
        "failed to evaluate a rule of the CRD: {}",
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

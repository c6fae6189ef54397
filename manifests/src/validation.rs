//! Validation errors of the API server for an object of a CRD, without an API server. Pure; no I/O.
//!
//! ```text
//!  object ─ name ─ unknown fields, nulls ─ schema ──► messages
//!                                            └─ nothing that blocks ─ CEL rules ──► messages
//! ```

mod schema;
#[cfg(test)]
mod tests;

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, compile_schema};
use serde_json::{Map, Value};

use self::schema::Findings;

/// Expression with which a rule detects an update. kube-cel does not support optional values.
const HAS_OLD: &str = "oldSelf.hasValue()";

/// Maximum length of a name.
const MAX_NAME_LEN: usize = 253;
/// Message of the API server for a malformed name.
const NOT_A_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                               and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                               validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A CRD that cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rules of the schema are malformed.
    #[error("failed to read the rules of the CRD")]
    Rules(#[from] serde_json::Error),
    /// The evaluation of a rule fails.
    #[error("failed to evaluate a rule of the CRD: {0}")]
    Rule(String),
}

/// The validation of one version of a CRD.
#[derive(Debug)]
pub struct Validator {
    schema: Value,
    rules: CompiledSchema,
}

// === impl Validator ===

impl Validator {
    /// Compiles the rules of a schema (`openAPIV3Schema`).
    ///
    /// # Errors
    ///
    /// Returns [`Error::Rules`] if the rules are malformed.
    pub fn new(schema: Value) -> Result<Self, Error> {
        let rules = schema.to_string().replace(HAS_OLD, "false");
        Ok(Self {
            rules: compile_schema(&serde_json::from_str(&rules)?),
            schema,
        })
    }

    /// Returns the errors of the API server for creating an object, or for replacing an old one.
    ///
    /// Rules with `oldSelf.hasValue()` are evaluated as for the creation of the object.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Rule`] if a rule cannot be evaluated.
    pub fn errors(&self, mut object: Value, old: Option<&Value>) -> Result<Vec<String>, Error> {
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
        let validator = kube_cel::Validator::new();
        let failures = validator.validate_compiled(&self.rules, &object, old);
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

/// Validates the name, which the API server does before all other checks.
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

/// Reports whether text is a DNS subdomain, of any length.
fn is_subdomain(text: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.split('.').all(|label| {
        label.starts_with(is_alphanumeric)
            && label.ends_with(is_alphanumeric)
            && label.chars().all(|c| is_alphanumeric(c) || c == '-')
    })
}

/// Describes the failure of a rule like the API server.
fn describe(failure: &ValidationError) -> Result<String, Error> {
    if failure.kind != ErrorKind::ValidationFailure {
        return Err(Error::Rule(failure.message.clone()));
    }
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

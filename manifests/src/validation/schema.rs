//! Structural validation of the API server, limited to the keywords in our CRDs. Pure; no I/O.
//!
//! The texts are those of Kubernetes 1.36, including `<nil>`. A test compares them with the API server.

use serde_json::{Map, Number, Value};

use crate::object::truncate;

/// Maximum number of reported findings for one object.
const MAX_FINDINGS: usize = 100;
/// Maximum length of a finding in characters: field names may have megabytes.
const MAX_MESSAGE_LEN: usize = 2000;
/// Message after findings that prevent the evaluation of rules.
const NOT_CHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; \
                           correct the existing errors to complete validation";
/// Fields of ObjectMeta.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Problems of an object.
#[derive(Debug, Default)]
pub(super) struct Findings {
    messages: Vec<String>,
    /// Number of findings that are not reported.
    skipped: usize,
    /// Whether the API server evaluates no rules after these findings.
    is_blocking: bool,
}

// === impl Findings ===

impl Findings {
    /// Adds a finding.
    pub(super) fn add(&mut self, message: impl Into<String>) {
        if self.messages.len() < MAX_FINDINGS {
            self.messages
                .push(truncate(&message.into(), MAX_MESSAGE_LEN));
        } else {
            self.skipped += 1;
        }
    }

    /// Adds a finding after which the API server evaluates no rules.
    pub(super) fn block(&mut self, message: impl Into<String>) {
        self.is_blocking = true;
        self.add(message);
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the messages, and whether the evaluation of rules is prevented.
    pub(super) fn into_errors(mut self) -> (Vec<String>, bool) {
        if self.skipped > 0 {
            self.messages
                .push(format!("{} more errors are not shown", self.skipped));
        }
        if self.is_blocking {
            self.messages.push(NOT_CHECKED.to_owned());
        }
        (self.messages, self.is_blocking)
    }
}

/// Removes and reports unknown fields. Removes nulls, which count as unset fields.
pub(super) fn prune(object: &mut Value, schema: &Value, findings: &mut Findings) {
    if let Some(metadata) = object.get("metadata").and_then(Value::as_object) {
        let unknown = metadata
            .keys()
            .filter(|key| !METADATA.contains(&key.as_str()));
        unknown.for_each(|key| findings.add(format!("unknown field \"metadata.{key}\"")));
    }
    prune_below(object, schema, "", findings);
}

fn prune_below(value: &mut Value, schema: &Value, path: &str, findings: &mut Findings) {
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let free = schema.get("additionalProperties");
            let keeps_unknown =
                schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
            map.retain(|key, value| {
                let at = child(path, key);
                if path.is_empty() && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                let property = properties.and_then(|all| all.get(key)).or(free);
                let Some(property) = property else {
                    if keeps_unknown {
                        return true;
                    }
                    findings.add(format!("unknown field {at:?}"));
                    return false;
                };
                if value.is_null() {
                    return false;
                }
                prune_below(value, property, &at, findings);
                true
            });
        }
        Value::Array(list) => {
            let Some(items) = schema.get("items") else {
                return;
            };
            for (index, item) in list.iter_mut().enumerate() {
                prune_below(item, items, &format!("{path}[{index}]"), findings);
            }
        }
        _ => {}
    }
}

/// Reports values that the schema does not allow.
pub(super) fn check(object: &Value, schema: &Value, findings: &mut Findings) {
    check_at(object, schema, "", findings);
}

fn check_at(value: &Value, schema: &Value, path: &str, findings: &mut Findings) {
    if has_type(value, schema, path, findings) {
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !allowed.contains(value)
        {
            let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
            findings.block(format!(
                "{path}: Unsupported value: {value}: supported values: {}",
                allowed.join(", ")
            ));
        }
        match value {
            Value::String(text) => check_text(text, schema, path, findings),
            Value::Array(list) => check_list(list, schema, path, findings),
            Value::Object(map) => check_map(map, schema, path, findings),
            Value::Number(number) => check_number(number, schema, path, findings),
            _ => {}
        }
    }
    check_one_of(value, schema, path, findings);
}

/// Reports whether a value has the type that a schema declares, and adds a finding otherwise.
fn has_type(value: &Value, schema: &Value, path: &str, findings: &mut Findings) -> bool {
    let word = |key: &str| schema.get(key).and_then(Value::as_str);
    let is_either = schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    let found = type_of(value);
    let expected = match word("type") {
        _ if is_either => "integer,string",
        Some(expected) => expected,
        None => return true,
    };
    if expected.split(',').any(|expected| expected == found) {
        let is_in_range = word("format") != Some("int32") || fits_int32(value);
        if !is_in_range {
            findings.add(not_of_format("int32", path));
        }
        return is_in_range;
    }
    if let (Value::Number(_), "integer", Some(format)) = (value, expected, word("format")) {
        findings.block(format!(
            "{path}: Invalid value: \"float64\": {path} in body must be of type {format}: \"float64\""
        ));
        findings.add(not_of_format(format, path));
    } else {
        findings.block(format!(
            "{path}: Invalid value: {found:?}: {path} in body must be of type {expected}: {found:?}"
        ));
    }
    false
}

fn not_of_format(format: &str, path: &str) -> String {
    format!(
        "<nil>: Invalid value: \"\": Checked value must be of type integer with format {format} in {path}"
    )
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if as_integer(number).is_some() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Converts a number to an integer. `1.0` is accepted; a number that exceeds 64 bits is not.
fn as_integer(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|_| number.is_f64())?;
        (float.fract() == 0.0).then(|| format!("{float:.0}").parse().ok())?
    })
}

fn fits_int32(value: &Value) -> bool {
    let integer = value.as_number().and_then(as_integer);
    integer.is_some_and(|integer| i32::try_from(integer).is_ok())
}

/// Compares an integer with its bounds, with the messages of the API server.
fn check_number(number: &Number, schema: &Value, path: &str, findings: &mut Findings) {
    let Some(integer) = as_integer(number) else {
        return;
    };
    let bound = |keyword: &str| schema.get(keyword)?.as_number().and_then(as_integer);
    if let Some(most) = bound("maximum").filter(|most| integer > *most) {
        findings.add(format!(
            "{path}: Invalid value: {integer}: {path} in body should be less than or equal to {most}"
        ));
    }
    if let Some(least) = bound("minimum").filter(|least| integer < *least) {
        findings.add(format!(
            "{path}: Invalid value: {integer}: {path} in body should be greater than or equal to {least}"
        ));
    }
}

fn check_text(text: &str, schema: &Value, path: &str, findings: &mut Findings) {
    let length = text.chars().count() as u64;
    if let Some(most) = limit(schema, "maxLength")
        && length > most
    {
        findings.block(format!(
            "{path}: Too long: may not be more than {most} bytes"
        ));
    }
    if let Some(least) = limit(schema, "minLength")
        && length < least
    {
        findings.add(format!(
            "{path}: Invalid value: {text:?}: {path} in body should be at least {least} chars long"
        ));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && !regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
    {
        findings.add(format!(
            "{path}: Invalid value: {text:?}: {path} in body should match '{pattern}'"
        ));
    }
}

fn check_list(list: &[Value], schema: &Value, path: &str, findings: &mut Findings) {
    check_count(list.len(), limit(schema, "maxItems"), path, findings);
    let count = list.len();
    if let Some(least) = limit(schema, "minItems").filter(|least| (count as u64) < *least) {
        findings.add(format!(
            "{path}: Invalid value: {count}: {path} in body should have at least {least} items"
        ));
    }
    let Some(items) = schema.get("items") else {
        return;
    };
    for (index, item) in list.iter().enumerate() {
        check_at(item, items, &format!("{path}[{index}]"), findings);
    }
}

fn check_map(map: &Map<String, Value>, schema: &Value, path: &str, findings: &mut Findings) {
    check_count(map.len(), limit(schema, "maxProperties"), path, findings);
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            findings.block(format!("{}: Required value", child(path, name)));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let free = schema.get("additionalProperties");
    for (key, value) in map {
        if let Some(property) = properties.and_then(|all| all.get(key)).or(free) {
            check_at(value, property, &child(path, key), findings);
        }
    }
}

fn check_count(count: usize, most: Option<u64>, path: &str, findings: &mut Findings) {
    if let Some(most) = most.filter(|most| count as u64 > *most) {
        findings.block(format!(
            "{path}: Too many: {count}: must have at most {most} items"
        ));
    }
}

fn check_one_of(value: &Value, schema: &Value, path: &str, findings: &mut Findings) {
    let Some(alternatives) = schema.get("oneOf").and_then(Value::as_array) else {
        return;
    };
    let mut rejected = Vec::new();
    for alternative in alternatives {
        let mut alternative_findings = Findings::default();
        check_at(value, alternative, path, &mut alternative_findings);
        if !alternative_findings.is_empty() {
            rejected.push(alternative_findings);
        }
    }
    let accepted = alternatives.len() - rejected.len();
    if accepted == 1 {
        return;
    }
    let count = match accepted {
        0 => "none valid".to_owned(),
        accepted => format!("{accepted} valid alternatives"),
    };
    findings.add(format!(
        "<nil>: Invalid value: \"\": \"{path}\" must validate one and only one schema (oneOf). Found {count}"
    ));
    let first = rejected.into_iter().next().filter(|_| accepted == 0);
    for message in first.into_iter().flat_map(|first| first.messages) {
        findings.block(message);
    }
}

fn limit(schema: &Value, keyword: &str) -> Option<u64> {
    schema.get(keyword).and_then(Value::as_u64)
}

fn child(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{catalog_source::convert::Version, crds};

    /// Keywords that only describe, and those that prune(), check() and kube-cel read.
    const KNOWN: &str = "
        additionalProperties default description enum format items maxItems maxLength maxProperties maximum minItems minLength
        minimum oneOf pattern properties required type x-kubernetes-int-or-string x-kubernetes-list-type x-kubernetes-map-type
        x-kubernetes-preserve-unknown-fields x-kubernetes-validations
    ";

    #[test]
    fn crds_use_only_keywords_that_are_checked() {
        fn keywords(schema: &Value, all: &mut Vec<String>) {
            let Value::Object(map) = schema else { return };
            for (keyword, value) in map {
                all.push(keyword.clone());
                match keyword.as_str() {
                    "properties" => {
                        let fields = value.as_object().unwrap().values();
                        fields.for_each(|below| keywords(below, all));
                    }
                    "items" | "additionalProperties" => keywords(value, all),
                    _ => {}
                }
            }
        }
        let crds = crds::all().into_iter().chain(crds::optional_crds());
        let schemas = crds.map(|crd| {
            let schema = crd.spec.versions[0].schema.as_ref().unwrap();
            serde_json::to_value(&schema.open_api_v3_schema).unwrap()
        });
        for schema in schemas.chain(crds::catalog_source_schema(Version::V1)) {
            // The validator gets no objects with a status.
            let mut all = Vec::new();
            keywords(&schema["properties"]["spec"], &mut all);
            all.retain(|keyword| !KNOWN.split_whitespace().any(|name| name == keyword));
            assert_eq!(all, [""; 0], "{}", schema["description"]);
        }
    }

    #[test]
    fn findings_of_one_object_are_bounded() {
        let schema = serde_json::json!({"type": "object", "properties": {
            "a": {"type": "array", "items": {"type": "string"}},
        }});
        let object = serde_json::json!({"a": vec![5; 1000], "b": 1});
        let mut findings = Findings::default();
        check(&object, &schema, &mut findings);
        let (errors, is_blocked) = findings.into_errors();
        assert_eq!((is_blocked, errors.len()), (true, MAX_FINDINGS + 2));
        assert_eq!(errors[MAX_FINDINGS], "900 more errors are not shown");
    }
}

//! Validation of `olm.constraint`. Constraints are not evaluated here, but those that OLM cannot read are reported.

use manifests::version_range::Range;

use super::cel;
use crate::{go_json, json::Node};

/// Maximum size in OLM's library, in bytes.
const MAX_SIZE: usize = 2 << 16;

/// Kinds of constraints.
const KINDS: [&str; 6] = ["cel", "package", "gvk", "all", "any", "not"];

/// Checks that OLM can read a constraint: known fields, a single kind per constraint, valid version ranges, and CEL
/// that compiles to a boolean.
///
/// # Errors
/// Returns the problem, with OLM's message if OLM has one.
pub(super) fn check(value: Node<'_>) -> Result<(), String> {
    if value.source().len() > MAX_SIZE {
        return Err(format!(
            "olm.constraint value is greater than max constraint size {MAX_SIZE} bytes"
        ));
    }
    // This check also limits the depth.
    go_json::check(value, &go_json::CONSTRAINT)?;
    single_kind(value)
}

fn single_kind(value: Node<'_>) -> Result<(), String> {
    let kinds: Vec<(&str, Node<'_>)> = KINDS
        .iter()
        .filter_map(|kind| Some((*kind, value.field(kind)?)))
        .collect();
    let [(kind, inner)] = kinds.as_slice() else {
        let present: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
        let present = if present.is_empty() {
            "none".to_owned()
        } else {
            present.join(" and ")
        };
        return Err(format!(
            "a constraint must have exactly one of cel, package, gvk, all, any and not; found {present}"
        ));
    };
    let is_empty = |field| go_json::type_name_of(*inner, field).is_empty();
    match *kind {
        "cel" if is_empty("rule") => Err("the CEL expression is missing".to_owned()),
        "cel" => cel::check(&go_json::type_name_of(*inner, "rule")),
        "package" if is_empty("packageName") => Err("the package has no name".to_owned()),
        "package" => {
            let range = Range::parse(&go_json::type_name_of(*inner, "versionRange"));
            range.map(drop).map_err(|error| error.to_string())
        }
        "gvk" if is_empty("kind") || is_empty("version") => {
            Err("the API has no kind or no version".to_owned())
        }
        "all" | "any" | "not" => {
            let mut inner = go_json::list(*inner, "constraints").peekable();
            if inner.peek().is_none() {
                return Err(format!("{kind} has no constraints"));
            }
            inner.try_for_each(single_kind)
        }
        _ => Ok(()),
    }
}

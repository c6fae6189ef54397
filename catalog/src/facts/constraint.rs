//! `olm.constraint`: nothing here evaluates one, but whether OLM could read it is worth knowing.

use manifests::range::Range;

use super::cel;
use crate::{json::Node, shape};

/// What OLM's library takes.
const SIZE: usize = 2 << 16;

/// The kinds that a constraint may be of.
const KINDS: [&str; 6] = ["cel", "package", "gvk", "all", "any", "not"];

/// Whether OLM could read it: fields that there are, one kind for each, ranges that are ranges, CEL that compiles and
/// gives a boolean.
///
/// # Errors
/// What is wrong, in OLM's words where it has any.
pub(super) fn check(value: Node<'_>) -> Result<(), String> {
    if value.raw().len() > SIZE {
        return Err(format!(
            "olm.constraint value is greater than max constraint size {SIZE} bytes"
        ));
    }
    // This bounds the depth, too.
    shape::check(value, &shape::CONSTRAINT)?;
    one_kind(value)
}

fn one_kind(value: Node<'_>) -> Result<(), String> {
    let kinds: Vec<(&str, Node<'_>)> = KINDS
        .iter()
        .filter_map(|kind| Some((*kind, value.field(kind)?)))
        .collect();
    let [(kind, inner)] = kinds.as_slice() else {
        let found: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
        let found = if found.is_empty() {
            "none".to_owned()
        } else {
            found.join(" and ")
        };
        return Err(format!(
            "a constraint is one of cel, package, gvk, all, any and not, and here is {found}"
        ));
    };
    let is_empty = |field| shape::borrowed(*inner, field).is_empty();
    match *kind {
        "cel" if is_empty("rule") => Err("the CEL expression is missing".to_owned()),
        "cel" => cel::check(&shape::borrowed(*inner, "rule")),
        "package" if is_empty("packageName") => Err("the package has no name".to_owned()),
        "package" => {
            let range = Range::parse(&shape::borrowed(*inner, "versionRange"));
            range.map(drop).map_err(|error| error.to_string())
        }
        "gvk" if is_empty("kind") || is_empty("version") => {
            Err("the API has no kind or no version".to_owned())
        }
        "all" | "any" | "not" => {
            let mut inner = shape::list(*inner, "constraints").peekable();
            if inner.peek().is_none() {
                return Err(format!("{kind} has no constraints"));
            }
            inner.try_for_each(one_kind)
        }
        _ => Ok(()),
    }
}

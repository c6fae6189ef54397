//! Processing of a document before its schema is known.

use std::{borrow::Cow, collections::BTreeMap};

use manifests::yaml::{self, Limits as YamlLimits};
use serde_json::Value;

use super::max_openshift::{Normalized, quote_yaml};
use crate::{
    json::{self, Node},
    source::Limits,
};

/// Length of the text that is quoted on each side of a marker.
const EXCERPT_LEN: usize = 300;

/// Fields that every document can have.
pub(super) struct RootFields<'a> {
    pub(super) schema: Cow<'a, str>,
    pub(super) package: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
}

/// Reads schema, package and name.
pub(super) fn meta(root: Node<'_>) -> Result<RootFields<'_>, String> {
    if root.kind() != json::Kind::Object && !root.is_null() {
        let problem = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            root.kind().name()
        );
        return Err(with_marker(&problem, root.source(), 1));
    }
    if let Some(problem) = duplicates(root) {
        return Err(problem);
    }
    let head = RootFields {
        schema: string(root, "schema")?,
        package: string(root, "package")?,
        name: string(root, "name")?,
    };
    if head.schema.is_empty() {
        // Go retains nothing of a document without a value.
        let mut text = Vec::new();
        if !root.is_null() {
            root.compact(&mut text);
        }
        return Err(format!(
            "object '{}' is missing root schema field",
            excerpt(&String::from_utf8_lossy(&text))
        ));
    }
    Ok(head)
}

/// Returns the package that an invalid document declares.
pub(super) fn package(root: Node<'_>) -> Option<String> {
    let is_package = root
        .field("schema")
        .is_some_and(|schema| schema.is("olm.package"));
    let key = if is_package { "name" } else { "package" };
    let name = root.field(key)?.text()?;
    (!name.is_empty()).then(|| name.into_owned())
}

fn string<'a>(root: Node<'a>, name: &str) -> Result<Cow<'a, str>, String> {
    // Distinct keys that fold to the same name were rejected before. Of equal keys, the last one is used.
    let entry = root
        .entries()
        .filter(|(key, _)| key.equals_fold(name))
        .last();
    match entry.map(|(_, value)| (value, value.text())) {
        None => Ok(Cow::Borrowed("")),
        Some((_, Some(text))) => Ok(text),
        Some((value, None)) => Err(format!(
            "expected value for key {name:?} to be a string, got {}: {}",
            value.kind().name(),
            excerpt(&String::from_utf8_lossy(value.source()))
        )),
    }
}

/// Reports distinct keys that fold to the same name. The common case compares a few short keys without allocation.
fn duplicates(root: Node<'_>) -> Option<String> {
    const MAX_QUICK_KEYS: usize = 12;
    let is_plain = |key: Node<'_>| key.source().is_ascii() && !key.source().contains(&b'\\');
    if root.entries().take(MAX_QUICK_KEYS + 1).count() <= MAX_QUICK_KEYS
        && root.entries().all(|(key, _)| is_plain(key))
        && root.entries().enumerate().all(|(at, (key, _))| {
            root.entries()
                .take(at)
                .all(|(other, _)| !key.source().eq_ignore_ascii_case(other.source()))
        })
    {
        return None;
    }
    let mut names: BTreeMap<String, Vec<Cow<'_, str>>> = BTreeMap::new();
    for (key, _) in root.entries() {
        let text = key.text().unwrap_or_default();
        names.entry(json::folded(&text)).or_default().push(text);
    }
    let problems: Vec<String> = names
        .into_iter()
        .filter_map(|(name, mut keys)| {
            keys.sort();
            keys.dedup();
            (keys.len() > 1).then(|| {
                let keys: Vec<String> = keys.iter().take(10).map(|key| excerpt(key)).collect();
                let name = excerpt(&name);
                format!("duplicate keys for key {name:?}: [{}]", keys.join(" "))
            })
        })
        .take(10)
        .collect();
    match problems.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// Formats a problem with the surrounding text, in which `<==` follows the last byte that was read.
pub(crate) fn with_marker(problem: &str, text: &[u8], offset: usize) -> String {
    let (before, behind) = text.split_at_checked(offset).unwrap_or((text, &[]));
    let before = before
        .get(before.len().saturating_sub(EXCERPT_LEN)..)
        .unwrap_or_default();
    let behind = behind.get(..EXCERPT_LEN).unwrap_or(behind);
    format!(
        "{problem} at offset {offset} (indicated by <==)\n {} <== {}",
        printable(before),
        printable(behind)
    )
}

/// Replaces control characters except line breaks and tabs, because terminals interpret them.
fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}

fn excerpt(text: &str) -> String {
    let short: String = text.chars().take(EXCERPT_LEN).collect();
    if short.len() < text.len() {
        format!("{short}…")
    } else {
        short
    }
}

/// Converts a YAML document to JSON. `first` is its first line in the file. The error contains the line in the
/// document, starting at 0, and the problem.
pub(super) fn from_yaml(
    text: &[u8],
    first: usize,
    limits: &Limits,
) -> Result<Normalized, (usize, String)> {
    let yaml_limits = YamlLimits {
        bytes: limits.document.saturating_mul(2),
        values: limits.values.min(YamlLimits::default().values),
        // The limits of bytes and values are sufficient for documents of a catalog.
        memory: usize::MAX,
        ..YamlLimits::default()
    };
    let mut documents = yaml::documents_with(text, yaml_limits);
    let mut value = match documents.next() {
        None => Value::Null,
        Some(Ok(value)) => value,
        Some(Err(error)) => {
            let line = error.line().map_or(0, |line| line.saturating_sub(1));
            return Err((
                line,
                format!("error converting YAML to JSON: {}", error.message()),
            ));
        }
    };
    if documents.next().is_some() {
        return Err((
            0,
            "more than one JSON value in a YAML document; separate them with ---".into(),
        ));
    }
    let unquoted = quote_yaml(text, first, &mut value);
    let bytes = serde_json::to_vec(&value).map_err(|error| (0, error.to_string()))?;
    Ok(Normalized {
        bytes,
        unquoted,
        problems: Vec::new(),
    })
}

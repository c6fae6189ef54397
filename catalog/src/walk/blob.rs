//! What can be said of a document before its schema is known.

use std::{borrow::Cow, collections::BTreeMap};

use manifests::yaml::{self, Limits as YamlLimits};
use serde_json::Value;

use super::max_openshift::{Normalized, quote_yaml};
use crate::{
    json::{self, Node},
    source::Limits,
};

/// How much of a text is shown around a mark.
const EXCERPT: usize = 300;

/// The keys that every document may have.
pub(super) struct Head<'a> {
    pub(super) schema: Cow<'a, str>,
    pub(super) package: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
}

/// Reads schema, package and name.
pub(super) fn meta(root: Node<'_>) -> Result<Head<'_>, String> {
    if root.kind() != json::Kind::Object && !root.is_null() {
        let problem = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            root.kind().name()
        );
        return Err(marked(&problem, root.raw(), 1));
    }
    if let Some(problem) = duplicates(root) {
        return Err(problem);
    }
    let head = Head {
        schema: string(root, "schema")?,
        package: string(root, "package")?,
        name: string(root, "name")?,
    };
    if head.schema.is_empty() {
        // Of no value at all Go keeps nothing.
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

/// The package that a document names although it cannot be taken.
pub(super) fn package(root: Node<'_>) -> Option<String> {
    let is_package = root.field("schema").is_some_and(|it| it.is("olm.package"));
    let key = if is_package { "name" } else { "package" };
    let name = root.field(key)?.text()?;
    (!name.is_empty()).then(|| name.into_owned())
}

fn string<'a>(root: Node<'a>, name: &str) -> Result<Cow<'a, str>, String> {
    // Distinct keys that fold to one name are no more here, and of equal ones the last counts.
    let found = root.entries().filter(|(key, _)| key.folds_to(name)).last();
    match found.map(|(_, value)| (value, value.text())) {
        None => Ok(Cow::Borrowed("")),
        Some((_, Some(text))) => Ok(text),
        Some((value, None)) => Err(format!(
            "expected value for key {name:?} to be a string, got {}: {}",
            value.kind().name(),
            excerpt(&String::from_utf8_lossy(value.raw()))
        )),
    }
}

/// Distinct keys that fold to the same name; the common case compares few short texts and takes no memory.
fn duplicates(root: Node<'_>) -> Option<String> {
    const FEW: usize = 12;
    let is_plain = |key: Node<'_>| key.raw().is_ascii() && !key.raw().contains(&b'\\');
    if root.entries().take(FEW + 1).count() <= FEW
        && root.entries().all(|(key, _)| is_plain(key))
        && root.entries().enumerate().all(|(at, (key, _))| {
            root.entries()
                .take(at)
                .all(|(other, _)| !key.raw().eq_ignore_ascii_case(other.raw()))
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
                let keys: Vec<String> = keys.iter().take(10).map(|it| excerpt(it)).collect();
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

/// A problem with the text around it, where `<==` shows what was read last.
pub(crate) fn marked(problem: &str, text: &[u8], offset: usize) -> String {
    let (before, behind) = text.split_at_checked(offset).unwrap_or((text, &[]));
    let before = before
        .get(before.len().saturating_sub(EXCERPT)..)
        .unwrap_or_default();
    let behind = behind.get(..EXCERPT).unwrap_or(behind);
    format!(
        "{problem} at offset {offset} (indicated by <==)\n {} <== {}",
        printable(before),
        printable(behind)
    )
}

/// Lines stay, and nothing else that a terminal would act upon.
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
    let short: String = text.chars().take(EXCERPT).collect();
    if short.len() < text.len() {
        format!("{short}…")
    } else {
        short
    }
}

/// A YAML document as JSON; or the line in it where it is wrong, from 0, and why. `first` is the line in its file where it
/// begins.
pub(super) fn from_yaml(
    text: &[u8],
    first: usize,
    limits: &Limits,
) -> Result<Normalized, (usize, String)> {
    let yaml_limits = YamlLimits {
        bytes: limits.document.saturating_mul(2),
        values: limits.values.min(YamlLimits::default().values),
        // The limits of bytes and values bound a catalog's documents.
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
            "more than one JSON value in a YAML document; separate them by ---".into(),
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

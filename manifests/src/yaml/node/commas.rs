//! Detection of tags that are followed by a comma, as in `[!x,]`: libyaml-safer 0.3 panics there in
//! its scanner, and the panic hook reports a panic even if it is caught. Therefore, these tags are found before
//! parsing.

use super::{Kind, Node, ScalarStyle, compose};
use crate::yaml::{Limits, error::DocumentError};

/// Rejects documents in which a tag is followed by a comma.
///
/// Only suspicious text is examined further. With a space before these commas, it parses without a panic, and to the same
/// nodes, where the commas belong to plain text. The tree then shows if one of the commas follows a tag.
pub(super) fn check(text: &str, limits: &Limits) -> Result<(), DocumentError> {
    let commas = suspects(text);
    if commas.is_empty() {
        return Ok(());
    }
    if commas.len() > limits.values {
        return Err(DocumentError::too_many(None, limits));
    }
    let mut spaced = String::with_capacity(text.len() + commas.len());
    let mut done = 0;
    for &comma in &commas {
        spaced.push_str(text.get(done..comma).unwrap_or_default());
        spaced.push(' ');
        done = comma;
    }
    spaced.push_str(text.get(done..).unwrap_or_default());
    let spaces: Vec<usize> = (0..)
        .zip(&commas)
        .map(|(before, comma)| comma + before)
        .collect();
    let original = |at: usize| at - spaces.partition_point(|space| *space < at);
    let tree = compose(&spaced, limits).map_err(|fault| DocumentError {
        at: fault.at.map(original),
        ..fault
    })?;
    match tree
        .nodes
        .iter()
        .find(|node| is_empty_and_tagged(node) && runs_into_comma(text, original(node.start)))
    {
        Some(node) => Err(DocumentError::new(
            original(node.start),
            "a tag cannot end in a comma",
        )),
        None => Ok(()),
    }
}

/// Returns the commas that follow a `!` without space between, in text with a flow collection.
fn suspects(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    if memchr::memchr2(b'[', b'{', bytes).is_none() {
        return Vec::new();
    }
    let mut commas = Vec::new();
    let mut end = 0;
    for at in memchr::memchr_iter(b'!', bytes) {
        // One word can contain many of them.
        if at < end {
            continue;
        }
        end = word_end(text, at).unwrap_or(bytes.len());
        commas.extend(comma_after(text, at, end));
    }
    commas
}

/// Returns the end of the word that contains `at`, if a separator follows.
fn word_end(text: &str, at: usize) -> Option<usize> {
    let separators = [',', ' ', '\t', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
    Some(at + text.get(at..)?.find(separators)?)
}

/// Returns the comma at the end of a word.
fn comma_after(text: &str, at: usize, end: usize) -> Option<usize> {
    // After a colon, a space would create a key. A tag that ends with a colon is left to `catch_unwind`.
    let is_tag = text.get(end..)?.starts_with(',') && !text.get(at..end)?.ends_with(':');
    is_tag.then_some(end)
}

fn is_empty_and_tagged(node: &Node) -> bool {
    let Kind::Scalar {
        tag: Some(_),
        text,
        style,
        ..
    } = &node.kind
    else {
        return false;
    };
    text.is_empty() && *style == ScalarStyle::Plain
}

/// Reports whether the tag of a node at `start`, possibly after an anchor, is followed by a comma.
fn runs_into_comma(text: &str, start: usize) -> bool {
    let tag = text.get(start..).and_then(|node| node.find('!'));
    let comma = tag.and_then(|tag| {
        let at = start + tag;
        comma_after(text, at, word_end(text, at)?)
    });
    comma.is_some()
}

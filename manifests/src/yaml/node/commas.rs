//! Tags that run into a comma, as in `[!x,]`: libyaml-safer 0.3 panics there (`scanner.rs`, "TODO: What is expected
//! here?"), and a panic that is caught has already been reported. So they are found beforehand.

use super::{Kind, Node, ScalarStyle, compose};
use crate::yaml::{Limits, error::Fault};

/// Refuses documents in which a tag runs into a comma.
///
/// Only text that looks like it is examined further: with a space before these commas it parses without a panic,
/// and to the same nodes, where they belong to plain text. The tree then tells whether one of them follows a tag.
pub(super) fn check(text: &str, limits: &Limits) -> Result<(), Fault> {
    let commas = suspects(text);
    if commas.is_empty() {
        return Ok(());
    }
    let mut spaced = String::with_capacity(text.len() + commas.len());
    let mut done = 0;
    for &comma in &commas {
        spaced.push_str(text.get(done..comma).unwrap_or_default());
        spaced.push(' ');
        done = comma;
    }
    spaced.push_str(text.get(done..).unwrap_or_default());
    let original = |at: usize| {
        at - commas
            .iter()
            .zip(0..)
            .filter(|(comma, before)| *comma + before < at)
            .count()
    };
    let tree = compose(&spaced, limits).map_err(|fault| Fault {
        at: fault.at.map(original),
        ..fault
    })?;
    match tree
        .nodes
        .iter()
        .find(|node| is_empty_and_tagged(node) && runs_into_comma(text, original(node.start)))
    {
        Some(node) => Err(Fault::new(
            original(node.start),
            "a tag cannot end in a comma",
        )),
        None => Ok(()),
    }
}

/// The commas that follow a `!` without space between, in texts with a flow collection.
fn suspects(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    if memchr::memchr2(b'[', b'{', bytes).is_none() {
        return Vec::new();
    }
    let mut commas: Vec<usize> = memchr::memchr_iter(b'!', bytes)
        .filter_map(|at| comma_after(text, at))
        .collect();
    commas.dedup();
    commas
}

fn comma_after(text: &str, at: usize) -> Option<usize> {
    let word = text.get(at..)?;
    let end = word.find([',', ' ', '\t', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])?;
    // Behind a colon, a space would make a key; the tag that ends in one is left to the net below.
    (word.get(end..)?.starts_with(',') && !word.get(..end)?.ends_with(':')).then_some(at + end)
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

/// Whether the tag of a node at `start`, which may come behind an anchor, does.
fn runs_into_comma(text: &str, start: usize) -> bool {
    let tag = text.get(start..).and_then(|node| node.find('!'));
    tag.is_some_and(|tag| comma_after(text, start + tag).is_some())
}

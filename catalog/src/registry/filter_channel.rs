//! Upgrade graph of a channel after some of its bundles are removed.
//!
//! OLM supports a single bundle format. A channel with bundles in other formats is served without them, and upgrades
//! that led through a removed bundle lead past it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Entry;

/// Limit for edges that lead past removed bundles, in bytes. Each entry before a long chain of removed bundles inherits
/// all skips of the chain.
const MAX_EDGE_BYTES: usize = 16 << 20;
/// Size of an edge in addition to its text, and cost of one step along a chain, in bytes.
const EDGE_OVERHEAD: usize = 32;

/// Removes all entries for which `is_retained` returns false. An entry that replaced a removed bundle inherits the
/// `replaces`, `skips` and `skipRange` of that bundle.
///
/// # Errors
/// Returns an error if the inherited edges exceed the limit.
pub(super) fn without_bundles(
    entries: Vec<Entry>,
    is_retained: impl Fn(&str) -> bool,
) -> Result<Vec<Entry>, String> {
    let (mut retained, removed): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|entry| is_retained(&entry.name));
    if removed.is_empty() {
        return Ok(retained);
    }
    let mut remaining = MAX_EDGE_BYTES;
    let mut pay = |bytes: usize| match remaining.checked_sub(bytes) {
        Some(rest) => {
            remaining = rest;
            Ok(())
        }
        None => Err(format!(
            "has too many upgrades through skipped bundles: their replacements exceed {MAX_EDGE_BYTES} bytes"
        )),
    };
    let removed: BTreeMap<&str, &Entry> = removed
        .iter()
        .map(|entry| (entry.name.as_str(), entry))
        .collect();
    for entry in &mut retained {
        let mut passed = BTreeSet::new();
        while let Some(next) = entry.replaces.as_deref().and_then(|name| removed.get(name)) {
            // A repeated name means that the chain is a cycle.
            if !passed.insert(next.name.as_str()) {
                entry.replaces = None;
                break;
            }
            let skips: usize = next
                .skips
                .iter()
                .map(|skip| skip.len() + EDGE_OVERHEAD)
                .sum();
            let range = next.skip_range.as_ref().map_or(0, String::len);
            pay(EDGE_OVERHEAD + skips + range)?;
            entry.replaces.clone_from(&next.replaces);
            entry.skips.extend(next.skips.iter().cloned());
            if let Some(range) = &next.skip_range {
                extend_skip_range(&mut entry.skip_range, range);
            }
        }
        let mut unique = BTreeSet::new();
        let name = entry.name.clone();
        entry.skips.retain(|skip| {
            !removed.contains_key(skip.as_str()) && *skip != name && unique.insert(skip.clone())
        });
    }
    Ok(retained)
}

/// Extends a range with the versions of another one. `||` has the lowest precedence.
fn extend_skip_range(range: &mut Option<String>, other: &str) {
    match range {
        Some(range) if range == other => {}
        Some(range) => {
            range.push_str(" || ");
            range.push_str(other);
        }
        None => *range = Some(other.to_owned()),
    }
}

/// Returns the positions of entries that no other entry replaces or skips.
pub(super) fn heads(entries: &[Entry]) -> Vec<usize> {
    let targets: BTreeSet<&str> = entries
        .iter()
        .flat_map(|entry| entry.replaces.iter().chain(&entry.skips))
        .map(String::as_str)
        .collect();
    let is_head = |(_, entry): &(usize, &Entry)| !targets.contains(entry.name.as_str());
    entries
        .iter()
        .enumerate()
        .filter(is_head)
        .map(|(at, _)| at)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, replaces: &str, skips: &[&str], skip_range: &str) -> Entry {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Entry {
            name: name.into(),
            replaces: some(replaces),
            skips: skips.iter().map(|&name| name.into()).collect(),
            skip_range: some(skip_range),
        }
    }

    #[test]
    fn edges_bypass_removed_bundles() {
        let before = vec![
            link("v1", "", &[], ""),
            link("x2", "v1", &["v1.1"], "<1.0.0"),
            link("x3", "x2", &["v1.2", "x2"], ""),
            link("v4", "x3", &["v1.1", "x2"], ">=1.3.0"),
            link("x5", "v4", &[], ""),
        ];
        let after = without_bundles(before.clone(), |name| name.starts_with('v')).unwrap();
        assert_rows!(after => [link("v1", "", &[], ""), link("v4", "v1", &["v1.1", "v1.2"], ">=1.3.0 || <1.0.0")]);
        let several = [("a", ""), ("b", ""), ("c", "a")];
        assert_rows! {
            heads(&before) => [4];
            heads(&after) => [1];
            heads(&several.map(|(name, replaces)| link(name, replaces, &[], ""))) => [1, 2];
            without_bundles(before.clone(), |_| true) => Ok(before.clone());
            without_bundles(before, |_| false) => Ok(vec![]);
        }
    }

    // parity: validate-3
    #[test]
    fn cycles_of_removed_bundles_terminate() {
        let before = vec![
            link("v1", "x2", &[], ""),
            link("x2", "x3", &[], ""),
            link("x3", "x2", &["v1"], ""),
        ];
        assert_rows!(without_bundles(before, |name| name == "v1").unwrap() => [link("v1", "", &[], "")]);
    }

    #[test]
    fn bypassing_edges_are_bounded() {
        // Each retained bundle follows all removed ones.
        let chain =
            (0..3000).map(|at| link(&format!("x{at}"), &format!("x{}", at + 1), &[], "<1.0.0"));
        let retained = (0..3000).map(|at| link(&format!("v{at}"), "x0", &[], ""));
        let is_retained = |name: &str| name.starts_with('v');
        let error = without_bundles(chain.chain(retained).collect(), is_retained);
        assert!(error.unwrap_err().contains("too many upgrades"));
        // A removed bundle skips very many others.
        let names: Vec<String> = (0..10_000).map(|at| format!("s{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let retained = (0..3000).map(|at| link(&format!("v{at}"), "x", &[], ""));
        let all = retained.chain([link("x", "", &names, "")]).collect();
        assert!(without_bundles(all, is_retained).is_err());
    }
}

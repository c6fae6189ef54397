//! A channel without some of its bundles.
//!
//! OLM knows bundles of one format only. What it is shown of a channel that has others is the same channel without
//! them: who could be upgraded through a bundle that is gone can be upgraded past it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Entry;

/// What edges may take that lead past bundles which are gone, in bytes: each entry before a long chain of them gets all
/// that the chain skips.
const EDGES: usize = 16 << 20;
/// What one more takes beside its text, and one step along a chain.
const EDGE: usize = 32;

/// Leaves out all entries that `stays` does not know. What an entry replaced through one that is gone it replaces
/// itself; what that skipped, it skips.
///
/// # Errors
/// When that would be more edges than anybody wrote.
pub(super) fn without(
    entries: Vec<Entry>,
    stays: impl Fn(&str) -> bool,
) -> Result<Vec<Entry>, String> {
    let (mut kept, gone): (Vec<_>, Vec<_>) = entries.into_iter().partition(|it| stays(&it.name));
    if gone.is_empty() {
        return Ok(kept);
    }
    let mut left = EDGES;
    let mut pay = |bytes: usize| match left.checked_sub(bytes) {
        Some(rest) => {
            left = rest;
            Ok(())
        }
        None => Err(format!(
            "has too many upgrades through bundles that are left out: past these they take more than {EDGES} bytes"
        )),
    };
    let gone: BTreeMap<&str, &Entry> = gone.iter().map(|it| (it.name.as_str(), it)).collect();
    for entry in &mut kept {
        let mut passed = BTreeSet::new();
        while let Some(next) = entry.replaces.as_deref().and_then(|it| gone.get(it)) {
            // A chain that is no circle ends.
            if !passed.insert(next.name.as_str()) {
                entry.replaces = None;
                break;
            }
            let skips: usize = next.skips.iter().map(|it| it.len() + EDGE).sum();
            let range = next.skip_range.as_ref().map_or(0, String::len);
            pay(EDGE + skips + range)?;
            entry.replaces.clone_from(&next.replaces);
            entry.skips.extend(next.skips.iter().cloned());
            if let Some(range) = &next.skip_range {
                widen(&mut entry.skip_range, range);
            }
        }
        let mut seen = BTreeSet::new();
        let name = entry.name.clone();
        entry
            .skips
            .retain(|it| !gone.contains_key(it.as_str()) && *it != name && seen.insert(it.clone()));
    }
    Ok(kept)
}

/// Versions of either range: `||` binds less than all else.
fn widen(range: &mut Option<String>, other: &str) {
    match range {
        Some(range) if range == other => {}
        Some(range) => {
            range.push_str(" || ");
            range.push_str(other);
        }
        None => *range = Some(other.to_owned()),
    }
}

/// The entries that no other one replaces or skips, by position.
pub(super) fn heads(entries: &[Entry]) -> Vec<usize> {
    let targets: BTreeSet<&str> = entries
        .iter()
        .flat_map(|it| it.replaces.iter().chain(&it.skips))
        .map(String::as_str)
        .collect();
    let is_head = |(_, it): &(usize, &Entry)| !targets.contains(it.name.as_str());
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
        let some = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty());
        Entry {
            name: name.into(),
            replaces: some(replaces),
            skips: skips.iter().map(|&it| it.into()).collect(),
            skip_range: some(skip_range),
        }
    }

    #[test]
    fn edges_lead_past_what_is_gone() {
        let before = vec![
            link("v1", "", &[], ""),
            link("x2", "v1", &["v1.1"], "<1.0.0"),
            link("x3", "x2", &["v1.2", "x2"], ""),
            link("v4", "x3", &["v1.1", "x2"], ">=1.3.0"),
            link("x5", "v4", &[], ""),
        ];
        let after = without(before.clone(), |name| name.starts_with('v')).unwrap();
        let expected = vec![
            link("v1", "", &[], ""),
            link("v4", "v1", &["v1.1", "v1.2"], ">=1.3.0 || <1.0.0"),
        ];
        assert_eq!(after, expected);
        assert_eq!(heads(&before), [4]);
        assert_eq!(heads(&after), [1]);
        let several = [("a", ""), ("b", ""), ("c", "a")]
            .map(|(name, replaces)| link(name, replaces, &[], ""));
        assert_eq!(heads(&several), [1, 2]);
        assert_eq!(without(before.clone(), |_| true), Ok(before.clone()));
        assert_eq!(without(before, |_| false), Ok(vec![]));
    }

    // parity: validate-3
    #[test]
    fn circles_among_what_is_gone_end() {
        let before = vec![
            link("v1", "x2", &[], ""),
            link("x2", "x3", &[], ""),
            link("x3", "x2", &["v1"], ""),
        ];
        let after = without(before, |name| name == "v1").unwrap();
        assert_eq!(after, [link("v1", "", &[], "")]);
    }

    #[test]
    fn edges_do_not_multiply_without_end() {
        // Each of the kept ones comes after all that are gone.
        let chain =
            (0..3000).map(|at| link(&format!("x{at}"), &format!("x{}", at + 1), &[], "<1.0.0"));
        let kept = (0..3000).map(|at| link(&format!("v{at}"), "x0", &[], ""));
        let error = without(chain.chain(kept).collect(), |name| name.starts_with('v'));
        assert!(error.unwrap_err().contains("too many upgrades"));
        // One that is gone skips very many.
        let names: Vec<String> = (0..10_000).map(|at| format!("s{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let kept = (0..3000).map(|at| link(&format!("v{at}"), "x", &[], ""));
        let all = kept.chain([link("x", "", &names, "")]).collect();
        assert!(without(all, |name| name.starts_with('v')).is_err());
    }
}

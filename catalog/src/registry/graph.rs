//! A channel without some of its bundles.
//!
//! OLM knows bundles of one format only. What it is shown of a channel that has others is the same channel without
//! them: who could be upgraded through a bundle that is gone can be upgraded past it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Entry;

/// Leaves out all entries that `stays` does not know. What an entry replaced through one that is gone it replaces
/// itself; what that skipped, it skips.
pub(super) fn without(entries: Vec<Entry>, stays: impl Fn(&str) -> bool) -> Vec<Entry> {
    let (mut kept, gone): (Vec<_>, Vec<_>) = entries.into_iter().partition(|it| stays(&it.name));
    if gone.is_empty() {
        return kept;
    }
    let gone: BTreeMap<&str, &Entry> = gone.iter().map(|it| (it.name.as_str(), it)).collect();
    for entry in &mut kept {
        let mut passed = BTreeSet::new();
        while let Some(next) = entry.replaces.as_deref().and_then(|it| gone.get(it)) {
            // A chain that is no circle ends.
            if !passed.insert(next.name.as_str()) {
                entry.replaces = None;
                break;
            }
            entry.replaces.clone_from(&next.replaces);
            entry.skips.extend(next.skips.iter().cloned());
            entry.skip_range = either(entry.skip_range.take(), next.skip_range.as_deref());
        }
        let mut seen = BTreeSet::new();
        let name = entry.name.clone();
        entry
            .skips
            .retain(|it| !gone.contains_key(it.as_str()) && *it != name && seen.insert(it.clone()));
    }
    kept
}

/// Versions of either range: `||` binds less than all else.
fn either(one: Option<String>, other: Option<&str>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Some(format!("{one} || {other}")),
        (None, Some(other)) => Some(other.to_owned()),
        (one, _) => one,
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
        let after = without(before.clone(), |name| name.starts_with('v'));
        let expected = vec![
            link("v1", "", &[], ""),
            link("v4", "v1", &["v1.1", "v1.2"], ">=1.3.0 || <1.0.0"),
        ];
        assert_eq!(after, expected);
        assert_eq!(heads(&before), [4]);
        assert_eq!(heads(&after), [1]);
        assert_eq!(without(before.clone(), |_| true), before);
        assert_eq!(without(before, |_| false), []);
    }

    #[test]
    fn circles_among_what_is_gone_end() {
        let before = vec![
            link("v1", "x2", &[], ""),
            link("x2", "x3", &[], ""),
            link("x3", "x2", &["v1"], ""),
        ];
        let after = without(before, |name| name == "v1");
        assert_eq!(after, [link("v1", "", &[], "")]);
    }

    #[test]
    fn several_heads_are_found() {
        let entries = [
            link("a", "", &[], ""),
            link("b", "", &[], ""),
            link("c", "a", &["d"], ""),
        ];
        assert_eq!(heads(&entries), [1, 2]);
    }
}

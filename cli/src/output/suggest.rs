//! Suggestions for misspelled names. Pure; no I/O.

/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 3;
/// Maximum length of a name for which suggestions are computed.
const MAX_NAME_LEN: usize = 64;

/// Returns the most similar names, the closest first: with letters that are swapped, missing, added or wrong.
pub(crate) fn similar_names<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let max_distance = (name.len() / 3).clamp(1, 4);
    let mut similar: Vec<(usize, &str)> = names
        .filter(|other| {
            other.len() <= MAX_NAME_LEN && other.len().abs_diff(name.len()) <= max_distance
        })
        .map(|other| (distance(name.as_bytes(), other.as_bytes()), other))
        .filter(|(distance, _)| *distance <= max_distance)
        .collect();
    similar.sort_unstable();
    similar.dedup();
    similar
        .into_iter()
        .take(MAX_SUGGESTIONS)
        .map(|(_, name)| name)
        .collect()
}

/// Returns the edit distance of two names, in which a swap of adjacent letters is one edit.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let changed = at(&row, j) + usize::from(x != y);
            let mut min = changed.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let is_swap = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if is_swap {
                min = min.min(at(&before, j - 1) + 1);
            }
            next.push(min);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: openshift-26
    #[test]
    fn typos_are_similar_and_other_names_are_not() {
        let names = ["etcd", "tidewatch", "tidewatcher", "prometheus", "grafana"];
        ::tests::assert_rows! {
            similar_names("tidewacth", names.into_iter()) => ["tidewatch", "tidewatcher"];
            similar_names("tidewatche", names.into_iter()) => ["tidewatch", "tidewatcher"];
            similar_names("ectd", names.into_iter()) => ["etcd"];
            similar_names("promtheus", names.into_iter()) => ["prometheus"];
            similar_names("x", names.into_iter()) => [""; 0];
            similar_names("kafka", names.into_iter()) => [""; 0];
        }
        let long = "a".repeat(1 << 20);
        assert!(similar_names("aaa", [long.as_str()].into_iter()).is_empty());
    }
}

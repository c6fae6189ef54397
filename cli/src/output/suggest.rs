//! Suggestions for misspelled names. Pure; no I/O.

use manifests::go_types::edit_distance;

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
        .map(|other| (edit_distance(name, other), other))
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
        assert!(similar_names("aaa", ["a".repeat(1 << 20).as_str()].into_iter()).is_empty());
    }
}

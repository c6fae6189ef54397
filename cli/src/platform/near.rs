//! Names that are nearly the one that was written. No I/O.

/// How many are told.
const FEW: usize = 3;
/// A longer name is nobody's typo.
const LONGEST: usize = 64;

/// The names that are closest to one, the closest first: letters that were swapped, left out, added or mistaken.
pub(super) fn to<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let most = (name.len() / 3).clamp(1, 4);
    let mut near: Vec<(usize, &str)> = names
        .filter(|other| other.len() <= LONGEST && other.len().abs_diff(name.len()) <= most)
        .map(|other| (distance(name.as_bytes(), other.as_bytes()), other))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(FEW).map(|(_, name)| name).collect()
}

/// How many letters have to be changed, a swap of neighbors being one change.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let changed = at(&row, j) + usize::from(x != y);
            let mut least = changed.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let is_swap = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if is_swap {
                least = least.min(at(&before, j - 1) + 1);
            }
            next.push(least);
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
    fn a_typo_is_near_and_another_name_is_not() {
        let names = ["etcd", "tidewatch", "tidewatcher", "prometheus", "grafana"];
        ::tests::assert_rows! {
            to("tidewacth", names.into_iter()) => ["tidewatch", "tidewatcher"];
            to("tidewatche", names.into_iter()) => ["tidewatch", "tidewatcher"];
            to("ectd", names.into_iter()) => ["etcd"];
            to("promtheus", names.into_iter()) => ["prometheus"];
            to("x", names.into_iter()) => [""; 0];
            to("kafka", names.into_iter()) => [""; 0];
        }
        let long = "a".repeat(1 << 20);
        assert!(to("aaa", [long.as_str()].into_iter()).is_empty());
    }
}

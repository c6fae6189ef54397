//! Suggestions for unknown fields.

use super::{
    Struct,
    conform::{PathFrame, Suggestion},
};

/// Maximum length of a name for which the edit distance is computed.
const MAX_NAME_LEN: usize = 64;

/// Suggests the same name with another case, else a field of that name in an enclosing struct, else a name at an edit
/// distance of one or two.
pub(super) fn suggest(key: &str, ty: &'static Struct, at: &PathFrame<'_>) -> Option<Suggestion> {
    let names = || ty.fields.iter().map(|field| field.name);
    if let Some(name) = names().find(|name| name.eq_ignore_ascii_case(key)) {
        return Some(Suggestion::Spelling(name));
    }
    outer(key, at).or_else(|| {
        let tolerated = (key.len() / 3).min(2);
        names()
            .filter(|name| name.len().abs_diff(key.len()) <= tolerated && key.len() <= MAX_NAME_LEN)
            .map(|name| (edit_distance(key, name), name))
            .filter(|(distance, _)| *distance <= tolerated)
            .min()
            .map(|(_, name)| Suggestion::Spelling(name))
    })
}

/// Reports whether every object has a field of this name, which then does not indicate a parent.
fn is_everywhere(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata" | "name" | "spec")
}

fn outer(key: &str, at: &PathFrame<'_>) -> Option<Suggestion> {
    if is_everywhere(key) {
        return None;
    }
    std::iter::successors(at.above, |frame| frame.above)
        .find(|frame| frame.of.is_some_and(|ty| ty.field(key).is_some()))
        .map(|frame| Suggestion::Parent(frame.path().key(key)))
}

/// Returns the number of letters to insert, delete, replace or swap with a neighbor. The time grows with the product of the
/// lengths.
pub fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous = None;
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let mut cost = (at(&last, j + 1) + 1)
                .min(at(&row, j) + 1)
                .min(at(&last, j) + usize::from(x != y));
            if previous == Some(y) && j > 0 && b.get(j - 1) == Some(x) {
                cost = cost.min(at(&before, j - 1) + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
        previous = Some(x);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::edit_distance;

    #[test]
    fn typing_errors_are_counted() {
        assert_each!(|a, b, expected| [edit_distance(a, b), edit_distance(b, a)] => [expected; 2];
            "replicas", "replicas" => 0;
            "replica", "replicas" => 1;
            "repilcas", "replicas" => 1;
            "imagePullPolcy", "imagePullPolicy" => 1;
            "volumesMount", "volumeMounts" => 2;
            "", "abc" => 3;
        );
    }
}

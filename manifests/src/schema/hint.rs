//! What an unknown field was probably meant to be.

use super::{
    Struct,
    conform::{Frame, Hint},
};

/// The longest name that is compared letter by letter.
const LONGEST: usize = 64;

/// The same name in another case, else the field of that name in a struct around this one, else a name that is one
/// or two typing errors away.
pub(super) fn of(key: &str, ty: &'static Struct, at: &Frame<'_>) -> Option<Hint> {
    let names = || ty.fields.iter().map(|field| field.name);
    if let Some(name) = names().find(|name| name.eq_ignore_ascii_case(key)) {
        return Some(Hint::Spelling(name));
    }
    outer(key, at).or_else(|| {
        let tolerated = (key.len() / 3).min(2);
        names()
            .filter(|name| name.len().abs_diff(key.len()) <= tolerated && key.len() <= LONGEST)
            .map(|name| (distance(key.as_bytes(), name.as_bytes()), name))
            .filter(|(distance, _)| *distance <= tolerated)
            .min()
            .map(|(_, name)| Hint::Spelling(name))
    })
}

/// Every object has these, so they say nothing about where a stray one belongs.
fn is_everywhere(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata" | "name" | "spec")
}

fn outer(key: &str, at: &Frame<'_>) -> Option<Hint> {
    if is_everywhere(key) {
        return None;
    }
    std::iter::successors(at.above, |frame| frame.above)
        .find(|frame| frame.of.is_some_and(|ty| ty.field(key).is_some()))
        .map(|frame| Hint::Outer(frame.path().key(key)))
}

/// How many letters to insert, delete, replace or swap with their neighbor.
fn distance(a: &[u8], b: &[u8]) -> usize {
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
    use super::distance;

    #[test]
    fn typing_errors_are_counted() {
        for (a, b, expected) in [
            ("replicas", "replicas", 0),
            ("replica", "replicas", 1),
            ("repilcas", "replicas", 1),
            ("imagePullPolcy", "imagePullPolicy", 1),
            ("volumesMount", "volumeMounts", 2),
            ("", "abc", 3),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), expected, "{b} {a}");
        }
    }
}

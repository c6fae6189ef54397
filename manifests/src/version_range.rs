//! Version ranges with the semantics of blang's `semver.ParseRange`: `>=1.0.0 <2.0.0 || 3.x`.
//!
//! A space means "and"; `||` means "or", with lower precedence. Versions have three parts; `1.x` and `1.2.x` match all
//! versions with that prefix. Pre-releases are ordered like all versions: `>=1.0.0` matches `2.0.0-rc.1`, in contrast to
//! Cargo and npm.

use std::cmp::Ordering;

use crate::version::{self, Version};

/// A set of versions.
///
/// ```
/// use manifests::{version::parse_strict, version_range::Range};
/// let range = Range::parse(">=1.0.0 <2.0.0 || 3.x").unwrap();
/// assert!(range.matches(&parse_strict("1.9.0-rc.1").unwrap()));
/// assert!(!range.matches(&parse_strict("2.0.0").unwrap()));
/// assert!(Range::parse("^1.0.0").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range(Vec<Vec<Bound>>);

/// Error of text that is not a version range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("version range {text:?} {problem}")]
pub struct Error {
    text: String,
    problem: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    comparator: Comparator,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Range {
    /// Parses a range.
    ///
    /// Two forms that blang accepts are rejected: a single character, which blang drops (`! 1.0.0` becomes `1.0.0`), and an
    /// empty operand of `||`, on which blang crashes.
    ///
    /// # Errors
    /// Returns an error if the text is malformed.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fail = |problem| Error {
            text: text.chars().take(64).collect(),
            problem,
        };
        let mut alternatives = Vec::new();
        let mut all = Vec::new();
        for part in parts(text) {
            if part == "||" {
                alternatives.push(std::mem::take(&mut all));
            } else {
                bounds(&part, &mut all).map_err(fail)?;
            }
        }
        alternatives.push(all);
        if alternatives.iter().any(Vec::is_empty) {
            let problem = if alternatives.len() == 1 {
                "is empty"
            } else {
                "has no version on one side of ||"
            };
            return Err(fail(problem.into()));
        }
        Ok(Self(alternatives))
    }

    /// Reports whether the range contains a version. Build metadata is ignored.
    pub fn matches(&self, version: &Version) -> bool {
        self.0
            .iter()
            .any(|all| all.iter().all(|bound| bound.matches(version)))
    }
}

impl Bound {
    fn matches(&self, version: &Version) -> bool {
        let order = version.cmp_precedence(&self.version);
        match self.comparator {
            Comparator::Equal => order == Ordering::Equal,
            Comparator::Unequal => order != Ordering::Equal,
            Comparator::Less => order == Ordering::Less,
            Comparator::LessOrEqual => order != Ordering::Greater,
            Comparator::Greater => order == Ordering::Greater,
            Comparator::GreaterOrEqual => order != Ordering::Less,
        }
    }
}

/// Splits text at spaces. A space after a comparator is not a separator: `> 1.0.0` is one part.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut last = ' ';
    for c in text.chars() {
        match parts.last_mut() {
            Some(part) if c != ' ' => {
                part.push(c);
                last = c;
            }
            _ if !matches!(last, '>' | '<' | '=') => parts.push(String::new()),
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Parses one part: one bound, or two for a wildcard.
fn bounds(part: &str, all: &mut Vec<Bound>) -> Result<(), String> {
    let digit = part
        .find(|c: char| c.is_ascii_digit())
        .ok_or_else(|| format!("has no version in {part:?}"))?;
    let (comparator, number) = part.split_at(digit);
    let exact = |comparator, number: &str| match version::parse_strict(number) {
        Ok(version) => Ok(Bound {
            comparator,
            version,
        }),
        Err(_) => Err(format!(
            "has {number:?} where a version <major>.<minor>.<patch> is expected"
        )),
    };
    let comparator = match comparator.trim() {
        "" | "=" | "==" => Comparator::Equal,
        "!" | "!=" => Comparator::Unequal,
        "<" => Comparator::Less,
        "<=" => Comparator::LessOrEqual,
        ">" => Comparator::Greater,
        ">=" => Comparator::GreaterOrEqual,
        // As in blang, an unknown comparator before a wildcard is ignored: `~1.2.x` is 1.2.0.
        _ if number.contains('x') => {
            all.push(exact(Comparator::Equal, &flat(number))?);
            return Ok(());
        }
        other => {
            return Err(format!(
                "uses {other:?} in {part:?}; the comparators are =, !=, <, <=, > and >="
            ));
        }
    };
    // Any x is a wildcard, even within a pre-release, as in blang.
    if !number.contains('x') {
        all.push(exact(comparator, number)?);
        return Ok(());
    }
    let from = exact(Comparator::GreaterOrEqual, &flat(number))?.version;
    let above = || {
        next(number, &from)
            .ok_or_else(|| format!("has a wildcard in {part:?} that is not the last component"))
    };
    let mut push = |comparator, version| {
        all.push(Bound {
            comparator,
            version,
        });
    };
    match comparator {
        Comparator::Greater => push(Comparator::GreaterOrEqual, above()?),
        Comparator::GreaterOrEqual => push(Comparator::GreaterOrEqual, from),
        Comparator::Less => push(Comparator::Less, from),
        Comparator::LessOrEqual => push(Comparator::Less, above()?),
        Comparator::Equal => {
            let above = above()?;
            push(Comparator::GreaterOrEqual, from);
            push(Comparator::Less, above);
        }
        // blang requires "below" and "above" together, which matches no version.
        Comparator::Unequal => {
            let above = above()?;
            push(Comparator::Less, from);
            push(Comparator::GreaterOrEqual, above);
        }
    }
    Ok(())
}

/// Returns the lowest version of a wildcard: `1.x` is 1.0.0.
fn flat(number: &str) -> String {
    let number = number.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if number.split('.').count() == 2 {
        number + ".0"
    } else {
        number
    }
}

/// Returns the first version above a wildcard: 1.3.0 for `1.2.x`, 2.0.0 for `1.x`, and, as in blang, 1.1.0 for `1.x.x`.
fn next(number: &str, from: &Version) -> Option<Version> {
    let parts: Vec<&str> = number.split('.').collect();
    match parts.as_slice() {
        [_, "x"] => Some(Version::new(from.major.checked_add(1)?, 0, 0)),
        [_, _, "x"] => Some(Version::new(from.major, from.minor.checked_add(1)?, 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of blang v4.0.0 for [`VERSIONS`], one letter each; `None` for an error.
    // parity: validate-6
    #[test]
    fn ranges_match_the_versions_of_blang() {
        const VERSIONS: &str =
            "0.9.0 1.0.0-rc.1 1.0.0 1.0.0+b 1.0.5 1.2.0-alpha 1.2.3 1.3.0 2.0.0-rc.1 2.0.0 3.1.0";
        let letters = |range: &str| {
            let range = Range::parse(range).ok()?;
            let holds = |text| range.matches(&Version::parse(text).unwrap());
            let letter = |text| ['f', 't'][usize::from(holds(text))];
            Some(VERSIONS.split(' ').map(letter).collect::<String>())
        };
        assert_each!(|ranges, holds| ranges.iter().find(|range| letters(range).as_deref() != holds) => None;
            &["1.2.3", "=1.2.3", "==1.2.3", "1.2.x"][..] => Some("fffffftffff");
            // Only 1.2.0 matches.
            &["~1.2.x", "^1.2.x", "=<1.2.x"] => Some("fffffffffff");
            &["!1.2.3", "!=1.2.3"] => Some("ttttttftttt");
            &["!= 1.0.0"] => Some("ttffttttttt");
            &[">1.0.0", ">=1.x.3"] => Some("ffffttttttt");
            &[">=1.0.0", ">=1.0.0 ||  <0.5.0 || 3.1.0", ">=1.0.0-xyz", ">=1.0.0+zz", "> =1.0.0", ">=1.x"] => Some("ffttttttttt");
            &["<1.0.0", "<1.x"] => Some("ttfffffffff");
            &["<=1.0.0"] => Some("ttttfffffff");
            &[">=1.0.0 <2.0.0", " >=1.0.0  <2.0.0 ", ">= 1.0.0 <  2.0.0", "1.x", "=1.x"] => Some("fftttttttff");
            &["<1.0.0 || >=2.0.0"] => Some("ttffffffftt");
            &[">=1.0.0-rc.1"] => Some("ftttttttttt");
            &[">1.0.0-rc.1 <1.0.0", "!=1.x", "18446744073709551615.0.0"] => Some("fffffffffff");
            &["1.x.x"] => Some("fftttffffff");
            &[">1.x"] => Some("ffffffffftt");
            &["<=1.x"] => Some("tttttttttff");
            &[">1.2.x"] => Some("ffffffftttt");
            &["<=1.2.x"] => Some("tttttttffff");
            &["<=1.x.x"] => Some("tttttffffff");
            &[">=0.x"] => Some("ttttttttttt");
            &["1.x || 3.x"] => Some("fftttttttft");
            &[
                "", "  ", "x", "*", "1.*", "1.X", ">=x", "1.x.0", "1.2.xx", "1.x-rc", "1.x.x.x", "1.0.0-xyz", "<=1.0.0-x",
                "18446744073709551616.0.0", "18446744073709551615.x", "^1.0.0", "~1.0.0", "=>1.0.0", "<>1.0.0", "===1.0.0",
                "v1.0.0", ">=v1.0.0", "1.0", ">=01.0.0", "1.2.3-01", "1.2.3.4", "-1.0.0", "1.2.3 -2.0.0", "1 .0.0",
                ">=1.0.0,<2.0.0", ">=1.0.0<2.0.0", ">=1.0.0\t<2.0.0", "<1.0.0||>=2.0.0", "|| 1.0.0", "1.0.0 ||",
            ] => None;
        );
    }

    #[test]
    fn input_that_blang_drops_or_crashes_on_is_rejected() {
        assert_each!(|range, problem| Range::parse(range).unwrap_err().to_string() => problem;
            "! 1.0.0" => r#"version range "! 1.0.0" has no version in "!""#;
            "1.2.3 - 2.0.0" => r#"version range "1.2.3 - 2.0.0" has no version in "-""#;
            ">=1.0.0 2" => r#"version range ">=1.0.0 2" has "2" where a version <major>.<minor>.<patch> is expected"#;
            "1.0.0 || || 2.0.0" => r#"version range "1.0.0 || || 2.0.0" has no version on one side of ||"#;
            "x.1.0" => r#"version range "x.1.0" uses "x." in "x.1.0"; the comparators are =, !=, <, <=, > and >="#;
        );
    }
}

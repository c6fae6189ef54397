//! Tests as tables: a row is a case, one test runs all rows, and its failure names every row with another outcome.
//!
//! ```text
//! # A comment. A row has a name, the cells of the test, and the expected outcome, in which `*` stands for any text.
//! busy once | 503 then 200 << content | 2 requests: 200 content
//! a lie     | 200; Content-Length: 9 << abc
//!   | 1 request: ConnectionBroken*after 3 bytes*
//! ```
//!
//! A line that starts with `|` or `&` continues the row above. Cells support the escapes of Rust (`\r`, `\x1b`, `\u{e9}`, `\|`
//! for a bar), and `{name}` and `{name*1000}` for [`Values`].

use std::{
    any::Any,
    collections::BTreeMap,
    fmt::{Debug, Display},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use futures::{FutureExt as _, StreamExt as _, future, stream};

const MAX_CONCURRENT_ROWS: usize = 4;

/// Named bytes that cells refer to.
#[derive(Debug, Clone, Default)]
pub struct Values(BTreeMap<String, Arc<[u8]>>);

impl Values {
    /// Returns values that include this one.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.0.insert(name.to_owned(), value.into().into());
        self
    }

    /// Returns one of the values.
    pub fn get(&self, name: &str) -> &[u8] {
        let value = self.0.get(name);
        value.unwrap_or_else(|| panic!("no value {name:?}"))
    }

    pub(crate) fn expand(&self, text: &str) -> Vec<u8> {
        let mut expanded = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let after = &rest[first.len_utf8()..];
            rest = match first {
                '\\' => escape(after, &mut expanded),
                '{' if let Some((reference, after)) = reference(after) => {
                    let (name, count) = reference.split_once('*').unwrap_or((reference, "1"));
                    expanded.extend(self.get(name).repeat(count.parse().unwrap()));
                    after
                }
                _ => {
                    expanded.extend(first.to_string().bytes());
                    after
                }
            };
        }
        expanded
    }
}

/// Appends the character of an escape, and returns the text after it.
fn escape<'a>(text: &'a str, expanded: &mut Vec<u8>) -> &'a str {
    let (kind, rest) = text.split_at(1);
    let simple = |byte: u8| (vec![byte], rest);
    let (bytes, rest) = match kind {
        "n" => simple(b'\n'),
        "r" => simple(b'\r'),
        "t" => simple(b'\t'),
        "0" => simple(0),
        "x" => {
            let (digits, rest) = rest.split_at(2);
            (vec![u8::from_str_radix(digits, 16).unwrap()], rest)
        }
        "u" => {
            let (digits, rest) = rest[1..].split_once('}').unwrap();
            let code = u32::from_str_radix(digits, 16).unwrap();
            (char::from_u32(code).unwrap().to_string().into_bytes(), rest)
        }
        _ => (kind.as_bytes().to_vec(), rest),
    };
    expanded.extend(bytes);
    rest
}

/// Splits the reference at the start of a text from the rest. Other braces, as in JSON, are literal.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (reference, rest) = text.split_once('}')?;
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_*-".contains(letter);
    let is_reference = reference.starts_with(|first: char| first.is_ascii_lowercase());
    (is_reference && reference.chars().all(is_part)).then_some((reference, rest))
}

/// One cell of a row.
#[derive(Debug, Clone)]
pub struct Cell {
    raw: String,
    values: Arc<Values>,
}

impl Cell {
    /// Returns the cell as written.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Returns the values that the cell can refer to.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Returns the bytes that the cell stands for.
    pub fn bytes(&self) -> Vec<u8> {
        self.values.expand(&self.raw)
    }

    /// Returns the text that the cell stands for.
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    /// Returns the cell with more values to refer to.
    #[must_use]
    pub fn with(&self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        let values = Arc::new(Values::clone(&self.values).with(name, value));
        let raw = self.raw.clone();
        Self { raw, values }
    }

    /// Returns the cell's words, as settings of a test.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.raw.split_whitespace()
    }

    /// Reports whether the cell has a word.
    pub fn has(&self, word: &str) -> bool {
        self.words().any(|found| found == word)
    }
}

struct Row<const N: usize> {
    name: String,
    cells: [Cell; N],
    expected: Cell,
}

fn rows<const N: usize>(table: &str, values: &Values) -> Vec<Row<N>> {
    let values = Arc::new(values.clone());
    let mut lines: Vec<String> = Vec::new();
    for line in table.lines().map(str::trim) {
        match lines.last_mut() {
            Some(row) if line.starts_with(['|', '&']) => row.extend([" ", line]),
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => lines.push(line.to_owned()),
        }
    }
    assert!(!lines.is_empty(), "a table without rows");
    let row = |line: &String| {
        let cells = split(line).into_iter().map(|raw| {
            let (raw, values) = (raw.trim().to_owned(), Arc::clone(&values));
            Cell { raw, values }
        });
        let mut cells: Vec<Cell> = cells.collect();
        let (expected, name) = (cells.pop().unwrap(), cells.remove(0).raw);
        let cells = <[Cell; N]>::try_from(cells).unwrap_or_else(|cells| {
            panic!("{name}: {N} cells expected, and {} found", cells.len())
        });
        Row {
            name,
            cells,
            expected,
        }
    };
    lines.iter().map(row).collect()
}

/// Splits a line at its bars, but not at escaped ones.
fn split(line: &str) -> Vec<&str> {
    let mut previous = ' ';
    let is_bar = |letter: char| {
        let is_escaped = std::mem::replace(&mut previous, letter) == '\\';
        letter == '|' && !is_escaped
    };
    line.split(is_bar).collect()
}

/// Reports whether a text has the parts between the stars of a pattern, in their order and from its start to its end.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let text = text.strip_prefix(start);
    let Some(text) = text.and_then(|text| text.strip_suffix(end)) else {
        return false;
    };
    let mut parts = middle.split('*');
    let rest = parts.try_fold(text, |text, part| Some(text.split_once(part)?.1));
    rest.is_some()
}

/// Runs a test for all rows of a table, and compares its result with the last cell of each.
pub async fn check<const N: usize>(
    table: &str,
    values: &Values,
    test: impl AsyncFn(&[Cell; N]) -> String,
) {
    let rows = rows(table, values);
    let test = &test;
    let outcomes = stream::iter(&rows).map(async |row: &Row<N>| {
        let outcome = AssertUnwindSafe(test(&row.cells)).catch_unwind().await;
        let expected = row.expected.text();
        // A panic fails the row, even if the row accepts any outcome.
        let (is_expected, found) = match outcome {
            Ok(found) => (matches(&expected, &found), found),
            Err(panic) => (false, format!("a panic: {}", message(&*panic))),
        };
        (!is_expected).then(|| format!("{}\n  expected: {expected}\n  found:    {found}", row.name))
    });
    let failed = outcomes.buffered(MAX_CONCURRENT_ROWS);
    let failed: Vec<_> = failed.filter_map(future::ready).collect().await;
    let (count, all, lines) = (failed.len(), rows.len(), failed.join("\n"));
    assert!(count == 0, "{count} of {all} rows failed:\n{lines}");
}

/// [`check`] for synchronous tests.
pub fn compare<const N: usize>(table: &str, values: &Values, test: impl Fn(&[Cell; N]) -> String) {
    let test = async |cells: &[Cell; N]| test(cells);
    futures::executor::block_on(check(table, values, test));
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_default()
}

/// Compares results. An expected error is a pattern, in which `*` stands for any text.
#[expect(clippy::needless_pass_by_value, reason = "rows own what they expect")]
#[track_caller]
pub fn assert_outcome<T: Debug + PartialEq, E: Display>(
    found: Result<T, E>,
    expected: Result<T, &str>,
    row: impl Debug,
) {
    let found = found.map_err(|error| error.to_string());
    let is_expected = match (&found, &expected) {
        (Err(found), Err(pattern)) => matches(pattern, found),
        (found, expected) => found.as_ref().ok() == expected.as_ref().ok(),
    };
    assert!(is_expected, "{row:?}: {found:?}, not {expected:?}");
}

/// Returns an array of tuples with Rust values, in a form that rustfmt does not change: a row on a line, and the expected
/// outcome after its arrow.
///
/// ```
/// for (text, expected) in tests::rows![
///     // The reason for the row.
///     "12" => Some(12);
///     "x" => None;
/// ] {
///     assert_eq!(text.parse().ok(), expected, "{text}");
/// }
/// ```
#[macro_export]
macro_rules! rows {
    ($($($input:expr),+ => $expected:expr;)+) => {
        [$(($($input),+, $expected)),+]
    };
}

/// Compares an expression of a row with the row's last value, or asserts that the text `has` that part. Failures show the
/// row.
///
/// ```
/// tests::assert_each!(|text, expected| text.parse().ok() => expected;
///     "12" => Some(12);
///     "x" => None;
/// );
/// tests::assert_each!(|text, problem| text.parse::<u8>().unwrap_err() => has problem;
///     "x" => "invalid digit";
/// );
/// ```
#[macro_export]
macro_rules! assert_each {
    (|$($name:ident),+| $found:expr => has $part:expr; $($rows:tt)+) => {
        for ($($name),+) in $crate::rows![$($rows)+] {
            let row = format!("{:?}", ($(&$name),+));
            let found = $found.to_string();
            assert!(found.contains($part), "{row:.2000}: {found:.2000}");
        }
    };
    (|$($name:ident),+| $found:expr => $expected:expr; $($rows:tt)+) => {
        for ($($name),+) in $crate::rows![$($rows)+] {
            let row = format!("{:?}", ($(&$name),+));
            assert_eq!($found, $expected, "{row:.2000}");
        }
    };
}

/// Compares the left side of each arrow with its right side. As in [`rows!`], rustfmt does not change the rows.
///
/// ```
/// tests::assert_rows! {
///     1 + 1 => 2;
///     "a".len() => 1, "length of {}", "a";
/// }
/// ```
#[macro_export]
macro_rules! assert_rows {
    (@) => { "" };
    (@ $($message:tt)+) => { format_args!($($message)+) };
    ($($found:expr => $expected:expr $(, $message:literal $(, $value:expr)*)?);+ $(;)?) => {
        $(assert_eq!(
            $found, $expected, "{} {}", stringify!($found), $crate::assert_rows!(@ $($message $(, $value)*)?)
        );)+
    };
}

/// A value with changes, or a struct with default fields except for the given ones.
///
/// ```
/// # #[derive(Clone, Default, PartialEq, Debug)]
/// # struct Limits { files: u8, total: u8 }
/// let few = tests::with!(Limits, files: 3);
/// assert_eq!(few, tests::with!(Limits::default() => files: 3));
/// assert_eq!(few, tests::with!(few.clone() => |limits| limits.files += 1; limits.files -= 1));
/// let small = tests::with!(Limits, total: 5; ..few); // the other fields are those of `few`
/// assert_eq!((small.files, small.total), (3, 5));
/// ```
#[macro_export]
macro_rules! with {
    ($value:expr => $($($field:ident).+: $new:expr),+ $(,)?) => {
        match $value {
            mut value => {
                $(value.$($field).+ = $new;)+
                value
            }
        }
    };
    ($value:expr => |$name:ident| $($change:expr);+) => {
        match $value {
            mut $name => {
                $($change;)+
                $name
            }
        }
    };
    ($($type:ident)::+, $($field:ident $(: $value:expr)?),+) => {
        $crate::with!($($type)::+, $($field $(: $value)?),+; ..<$($type)::+>::default())
    };
    ($($type:ident)::+, $($field:ident $(: $value:expr)?),+; ..$base:expr) => {
        $($type)::+ { $($field $(: $value)?,)+ ..$base }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_from_start_to_end() {
        for (pattern, text, expected) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*c", "abc", true),
            ("*b*", "abc", true),
            ("a*b*c", "a-b-c", true),
            ("a*c*b*", "abc", false),
            ("ab*bc", "abc", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn cells_are_expanded() {
        let values = Values::default().with("word", "ab");
        let table = r#"
            # comment
            row | {word*2}\x00\u{e9}\| | {"json": {word}}
              | \t
        "#;
        let [row] = <[Row<2>; 1]>::try_from(rows(table, &values)).ok().unwrap();
        assert_eq!(row.cells[0].bytes(), "abab\0é|".as_bytes());
        assert_eq!(row.cells[1].text(), r#"{"json": ab}"#);
        assert_eq!((row.name, row.expected.text()), ("row".into(), "\t".into()));
    }

    #[test]
    fn failed_rows_are_named() {
        let table = "good | a | a\nbad | b | c\nworse | panic | *";
        let failure = std::panic::catch_unwind(|| {
            compare(table, &Values::default(), |[cell]| {
                assert_ne!(cell.raw(), "panic", "no row");
                cell.text()
            });
        });
        let text = message(&*failure.unwrap_err());
        let start = "2 of 3 rows failed:\nbad\n  expected: c\n  found:    b\nworse";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("a panic: "), "{text}");
    }
}

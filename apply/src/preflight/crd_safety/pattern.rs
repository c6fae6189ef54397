//! Regular expressions of schemas. They have Go's syntax; the `regex` crate accepts nearly all of them, a few with another
//! meaning.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled expression in bytes. A larger expression counts as unreadable.
const SIZE_LIMIT: usize = 1 << 20;

/// A regular expression. Two expressions are equal if their texts are.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// Expression as the schema declares it.
    pub(super) text: String,
    regex: Option<Regex>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Pattern {
    /// Compiles an expression. An unreadable one is kept, and matches every text.
    pub(super) fn new(text: &str) -> Self {
        let regex = translate(text).and_then(|text| {
            RegexBuilder::new(&text)
                .size_limit(SIZE_LIMIT)
                .nest_limit(100)
                .build()
                .ok()
        });
        Self {
            text: text.to_owned(),
            regex,
        }
    }

    /// Reports whether the expression can be evaluated.
    pub(super) fn is_readable(&self) -> bool {
        self.regex.is_some()
    }

    /// Reports whether the expression matches any part of a text; an unreadable one matches every text.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

/// Translates an expression of Go for the `regex` crate. In Go, letter classes are ASCII, `\<` is a literal character, and
/// so are `[`, `&` and `~` within brackets. `None` if the crate cannot express it.
fn translate(go: &str) -> Option<String> {
    let mut out = String::with_capacity(go.len() + 16);
    let mut chars = go.chars().peekable();
    let mut in_class = false;
    while let Some(char) = chars.next() {
        match (char, in_class) {
            ('\\', _) => escape(chars.next()?, &mut chars, &mut out)?,
            ('[', false) => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // Directly after the opening bracket, `]` is a literal character.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            ('[', true) if chars.peek() == Some(&':') => {
                let mut name = String::from("[");
                for char in chars.by_ref() {
                    name.push(char);
                    if char == ']' {
                        break;
                    }
                }
                out.push_str(&name);
            }
            ('[' | '&' | '~', true) => {
                out.push('\\');
                out.push(char);
            }
            ('-', true) if chars.peek() == Some(&'-') => return None,
            (']', true) => {
                in_class = false;
                out.push(']');
            }
            _ => out.push(char),
        }
    }
    (!in_class).then_some(out)
}

fn escape(
    char: char,
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    out: &mut String,
) -> Option<()> {
    match char {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\x0C\\r ]"),
        'S' => out.push_str("[^\\t\\n\\x0C\\r ]"),
        'b' => out.push_str("(?-u:\\b)"),
        // These also match between the bytes of a character, which the crate cannot do in a text.
        'B' | 'C' => return None,
        'Q' => loop {
            match chars.next() {
                Some('\\') if chars.next_if_eq(&'E').is_some() => break,
                Some(char) => push_literal(char, out),
                None => break,
            }
        },
        char if char.is_ascii_punctuation() => push_literal(char, out),
        char => {
            out.push('\\');
            out.push(char);
        }
    }
    Some(())
}

fn push_literal(char: char, out: &mut String) {
    let _ = write!(out, "\\x{{{:X}}}", u32::from(char)); // writing to a String does not fail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        let compiled = Pattern::new;
        assert_each!(|pattern, text, fits| (compiled(pattern).is_readable(), compiled(pattern).matches(text)) => (true, fits);
            r"^\d+$", "123" => true;
            r"^\d+$", "\u{0661}" => false;
            r"^\w+$", "\u{e4}" => false;
            r"^[\w.-]+$", "a.b-c" => true;
            r"^[\W]$", "-" => true;
            r"^[^\s]+$", "a b" => false;
            r"^[[]$", "[" => true;
            r"^[]a]+$", "]a" => true;
            r"^[^]]$", "]" => false;
            r"^[a&&b]+$", "a&b" => true;
            r"^[[:alpha:]]+$", "ab" => true;
            r"\<", "<" => true;
            r"^\Qa.b\E$", "a.b" => true;
            r"^\Qa.b\E$", "axb" => false;
            r"^a\/b$", "a/b" => true;
            r"b", "abc" => true;
            r"^$", "\n" => false;
            r"^(?i)abc$", "ABC" => true;
        );
    }

    #[test]
    fn unreadable_pattern_matches_every_text() {
        let patterns = r"(?!a) ( [ \ \B [+--] (((a{1000}){1000}){1000})".split(' ');
        for pattern in patterns.chain([&*"(".repeat(1000)]) {
            let compiled = Pattern::new(pattern);
            assert_rows!((compiled.is_readable(), compiled.matches("anything")) => (false, true), "{pattern}");
        }
    }
}

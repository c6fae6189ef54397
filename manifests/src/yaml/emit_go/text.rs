//! Scalar styles and escapes of go-yaml.

use std::fmt::Write;

use super::super::{scalar::Scalar, tagged};

/// Style of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Returns the style that go-yaml selects for text. A key has one line.
pub(super) fn style(text: &str, is_key: bool) -> Style {
    let AllowedStyles {
        plain,
        single,
        block,
    } = AllowedStyles::new(text);
    let preferred = if text.contains('\n') {
        Style::Literal
    } else if is_text(text) {
        Style::Plain
    } else {
        Style::Double
    };
    match preferred {
        Style::Literal if block && !is_key => Style::Literal,
        Style::Plain if plain => Style::Plain,
        Style::Plain if single => Style::Single,
        _ => Style::Double,
    }
}

/// Reports whether text without quotes is parsed as text.
fn is_text(text: &str) -> bool {
    matches!(Scalar::plain(text), Scalar::Text(_)) && !is_timestamp(text) && !is_base_60(text)
}

fn is_timestamp(text: &str) -> bool {
    let year = text.bytes().take(4).filter(u8::is_ascii_digit).count() == 4;
    year && text.as_bytes().get(4) == Some(&b'-') && tagged::is_timestamp(text)
}

/// Reports whether text is a base-60 number of YAML 1.1, such as `1:30`. go-yaml does not parse these, but other parsers
/// do.
fn is_base_60(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (digits, fraction) = match digits.split_once('.') {
        Some((digits, fraction)) => (digits, fraction),
        None => (digits, ""),
    };
    let mut parts = digits.split(':');
    let first = parts.next().unwrap_or_default();
    let number = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut rest = parts.peekable();
    first.starts_with(|c: char| c.is_ascii_digit())
        && number(first)
        && number(fraction)
        && rest.peek().is_some()
        && rest.all(|part| match part.as_bytes() {
            [digit] => digit.is_ascii_digit(),
            [ten, digit] => (b'0'..=b'5').contains(ten) && digit.is_ascii_digit(),
            _ => false,
        })
}

/// Styles that the characters of a text allow.
struct AllowedStyles {
    plain: bool,
    single: bool,
    block: bool,
}

impl AllowedStyles {
    fn new(text: &str) -> Self {
        if text.is_empty() {
            return Self {
                plain: true,
                single: true,
                block: false,
            };
        }
        let (mut indicators, mut special, mut broken) = (false, false, false);
        let (mut break_space, mut space_break) = (false, false);
        let mut before = None;
        let mut rest = text.chars().peekable();
        indicators |= text.starts_with("---") || text.starts_with("...");
        while let Some(c) = rest.next() {
            let before_blank = rest.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            indicators |= match c {
                ':' => before_blank,
                '#' => before.is_none_or(|c| matches!(c, ' ' | '\t' | '\0') || is_break(c)),
                '?' | '-' => before.is_none() && before_blank,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
                | '@' | '`' => before.is_none(),
                _ => false,
            };
            special |= !is_printable(c);
            broken |= is_break(c);
            break_space |= c == ' ' && before.is_some_and(is_break);
            space_break |= is_break(c) && before == Some(' ');
            before = Some(c);
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let edges = edge(text.chars().next()) || edge(before);
        Self {
            plain: !(edges || break_space || space_break || special || broken || indicators),
            single: !(break_space || space_break || special),
            block: !(space_break || special || before == Some(' ')),
        }
    }
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Reports whether go-yaml writes a character without an escape. Characters above 16 bits are always escaped.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && c != '\u{feff}'
}

/// Passes the escape of a character in double quotes to `push`.
pub(super) fn escape(c: char, mut push: impl FnMut(&str)) {
    let short = match c {
        '\0' => "\\0",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        '\r' => "\\r",
        '\u{1b}' => "\\e",
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{85}' => "\\N",
        '\u{a0}' => "\\_",
        '\u{2028}' => "\\L",
        '\u{2029}' => "\\P",
        _ => "",
    };
    if !short.is_empty() {
        return push(short);
    }
    let mut escape = String::new();
    let code = u32::from(c);
    // Writing to a String cannot fail.
    let _ = match code {
        ..=0xff => write!(escape, "\\x{code:02X}"),
        0x100..=0xffff => write!(escape, "\\u{code:04X}"),
        _ => write!(escape, "\\U{code:08X}"),
    };
    push(&escape);
}

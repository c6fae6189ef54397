//! Encoding and decoding of JSON strings.

use std::borrow::Cow;

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Decodes the content of a string whose syntax was checked.
pub(super) fn decode(inner: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', inner).is_none()
        && let Ok(text) = std::str::from_utf8(inner)
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at_checked(at).unwrap_or_default();
        lossy(before, &mut out);
        rest = match escape {
            [_, b'u', more @ ..] => unicode(more, &mut out),
            [_, c, more @ ..] => {
                out.push(match c {
                    b'b' => '\u{8}',
                    b'f' => '\u{c}',
                    b'n' => '\n',
                    b'r' => '\r',
                    b't' => '\t',
                    other => char::from(*other),
                });
                more
            }
            _ => &[],
        };
    }
    lossy(rest, &mut out);
    Cow::Owned(out)
}

/// Replaces each byte of an invalid sequence separately, as Go does.
fn lossy(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| REPLACEMENT));
    }
}

/// Decodes the character after `\u`. An unpaired surrogate is replaced.
fn unicode<'a>(text: &'a [u8], out: &mut String) -> &'a [u8] {
    let Some((high, rest)) = hex(text) else {
        return &[];
    };
    if let 0xD800..0xDC00 = high
        && let Some((low @ 0xDC00..0xE000, rest)) = rest.strip_prefix(br"\u").and_then(hex)
    {
        let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        out.push(char::from_u32(code).unwrap_or(REPLACEMENT));
        return rest;
    }
    out.push(char::from_u32(high).unwrap_or(REPLACEMENT));
    rest
}

fn hex(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

/// Folds case like Unicode. Upper case comes first, because `ß` becomes `SS` and `ſ` becomes `S`.
pub(super) fn fold(text: &str) -> String {
    text.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Appends a string, including quotes, as [`write_text`] writes its content. The syntax must have been checked.
///
/// Most strings of a catalog were written by Go; their bytes are copied.
pub(super) fn write_string(raw: &[u8], out: &mut Vec<u8>) {
    match raw {
        [b'"', inner @ .., b'"'] if !is_canonical(inner) => write_text(&decode(inner), out),
        _ => out.extend_from_slice(raw),
    }
}

#[expect(
    clippy::needless_bitwise_bool,
    reason = "without branches and an early exit, the compiler compares many bytes at once"
)]
/// Reports whether Go's encoder is certain to write the text of a checked string with the same bytes. An escaped
/// backslash before `u` counts as another escape, which only costs time.
fn is_canonical(inner: &[u8]) -> bool {
    let pairs = inner.iter().zip(inner.get(1..).unwrap_or_default());
    let has_other_escape = pairs.fold(false, |any, (&first, &second)| {
        any | ((first == b'\\') & ((second == b'u') | (second == b'/')))
    });
    !has_other_escape && (inner.is_ascii() || is_plain_unicode(inner))
}

/// Reports whether bytes are UTF-8 without the two characters beyond ASCII that Go escapes.
fn is_plain_unicode(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(['\u{2028}', '\u{2029}']))
}

/// Appends a quoted text as Go's encoder writes it without HTML escapes.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut from = 0;
    let bytes = text.as_bytes();
    for (at, c) in text.char_indices() {
        let escape: &[u8] = match c {
            '"' => b"\\\"",
            '\\' => b"\\\\",
            '\n' => b"\\n",
            '\r' => b"\\r",
            '\t' => b"\\t",
            '\u{8}' => b"\\b",
            '\u{c}' => b"\\f",
            '\u{2028}' => b"\\u2028",
            '\u{2029}' => b"\\u2029",
            '\0'..' ' => b"",
            _ => continue,
        };
        out.extend_from_slice(bytes.get(from..at).unwrap_or_default());
        if escape.is_empty() {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes());
        } else {
            out.extend_from_slice(escape);
        }
        from = at + c.len_utf8();
    }
    out.extend_from_slice(bytes.get(from..).unwrap_or_default());
    out.push(b'"');
}

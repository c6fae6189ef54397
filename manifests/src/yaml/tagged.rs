//! Scalars with an explicit tag (`!!int "12"`), which are rare.

use super::scalar::Scalar;

/// Resolves `text` with a `tag` in its long form. The style is irrelevant, because Go also resolves quoted text.
///
/// # Errors
/// Returns the message if the text is invalid for the tag.
pub(super) fn resolve<'a>(tag: &str, text: &'a str) -> Result<Scalar<'a>, String> {
    let name = tag.strip_prefix("tag:yaml.org,2002:").unwrap_or_default();
    let scalar = match name {
        "binary" => {
            let bytes = base64(text).ok_or("!!binary value contains invalid base64 data")?;
            return Ok(Scalar::Text(as_json_text(&bytes).into()));
        }
        "timestamp" if is_timestamp(text) => return Ok(Scalar::Text(text.into())),
        "bool" | "int" | "float" | "null" | "timestamp" => Scalar::plain(text),
        // !!str, and tags that Go does not know.
        _ => return Ok(Scalar::Text(text.into())),
    };
    match (name, scalar) {
        #[allow(clippy::cast_precision_loss)] // as Go does
        ("float", Scalar::Int(int)) => Ok(Scalar::Float(int as f64)),
        ("float", scalar @ Scalar::Float(_))
        | ("int", scalar @ (Scalar::Int(_) | Scalar::Uint(_)))
        | ("bool", scalar @ Scalar::Bool(_))
        | ("null", scalar @ Scalar::Null) => Ok(scalar),
        (name, scalar) => Err(format!(
            "cannot decode {} {text:?} as a !!{name}",
            scalar.tag()
        )),
    }
}

/// Decodes standard base64 with padding. Like Go, ignores line breaks and does not check leftover bits.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|b| !matches!(b, b'\r' | b'\n'))
        .collect();
    let (groups, []) = digits.as_chunks::<4>() else {
        return None;
    };
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (at, group) in groups.iter().enumerate() {
        let padding = match group {
            _ if at + 1 < groups.len() => 0,
            [_, _, b'=', b'='] => 2,
            [_, _, _, b'='] => 1,
            _ => 0,
        };
        let mut bits = 0_u32;
        for &digit in group.get(..4 - padding)? {
            bits = bits << 6 | u32::from(sextet(digit)?);
        }
        let [_, decoded @ ..] = (bits << (6 * padding)).to_be_bytes();
        bytes.extend_from_slice(decoded.get(..3 - padding)?);
    }
    Some(bytes)
}

fn sextet(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Replaces every byte that is not UTF-8 by U+FFFD, like `encoding/json`.
fn as_json_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Implements Go's `parseTimestamp`: a date, or a date and a time, with a zone after `T` and without one after a space.
pub(super) fn is_timestamp(text: &str) -> bool {
    let (date, rest) = match text.split_once(['T', 't', ' ']) {
        Some((date, rest)) => (date, Some(rest)),
        None => (text, None),
    };
    is_date(date)
        && match rest {
            None => true,
            Some(time) if text.contains(' ') => is_time(time),
            Some(time) => zoneless(time).is_some_and(is_time),
        }
}

fn is_date(date: &str) -> bool {
    let parts: Vec<&str> = date.split('-').collect();
    let &[year, month, day] = parts.as_slice() else {
        return false;
    };
    let (Some(y), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return false;
    };
    let leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    year.len() == 4 && (1..=days).contains(&day)
}

fn is_time(time: &str) -> bool {
    // Go also accepts a comma before the fraction.
    let (clock, fraction) = match time.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (time, None),
    };
    let parts: Vec<Option<u32>> = clock.split(':').map(|part| number(part, 2)).collect();
    matches!(parts.as_slice(), [Some(..24), Some(..60), Some(..60)])
        && fraction.is_none_or(|f| !f.is_empty() && f.bytes().all(|b| b.is_ascii_digit()))
}

/// Removes `Z` or `±hh:mm` from the end.
fn zoneless(time: &str) -> Option<&str> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some(time);
    }
    let (time, zone) = time.split_at_checked(time.len().checked_sub(6)?)?;
    let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
    let ok = hours.len() == 2
        && number(hours, 2)? <= 24
        && minutes.len() == 2
        && number(minutes, 2)? < 60;
    ok.then_some(time)
}

fn number(digits: &str, max_digits: usize) -> Option<u32> {
    let plain = digits.len() <= max_digits && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_the_standard_encoding_of_go() {
        assert_each!(|text, bytes| base64(text).as_deref() => bytes.map(str::as_bytes);
            "" => Some("");
            "aGVsbG8=" => Some("hello");
            "aGVs\nbG8=" => Some("hello");
            "aA==" => Some("h");
            "aGVs" => Some("hel");
            "aGVsbG8" => None;
            "aA==aGVs" => None;
            "a===" => None;
            "aG s" => None;
        );
    }

    #[test]
    fn timestamps_are_the_four_forms_of_go_yaml() {
        assert_each!(|texts, is| texts.iter().find(|text| is_timestamp(text) != is) => None;
            &["2020-01-02", "2020-1-2", "2020-01-02T03:04:05Z", "2020-01-02t3:4:5.25+02:00", "2020-01-02 03:04:05.1"][..] => true;
            &["2020-02-30", "2020-01-02 03:04:05Z", "2020-01-02T03:04:05", "2020-01-02T24:04:05Z", "20-01-02", "soon"] => false;
        );
    }
}

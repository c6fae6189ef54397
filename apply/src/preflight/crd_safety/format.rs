//! Formats of strings and numbers, as the API server checks them.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Formats that the API server checks and this module does not.
const UNKNOWN: &str = "bsonobjectid uri email hostname isbn isbn10 isbn13 creditcard ssn hexcolor rgbcolor mac \
                       k8s-short-name k8s-long-name";
/// The units of durations.
const UNITS: &str = "ns us µs μs ms s m h d w nano nanos nanosecond nanoseconds micro micros microsecond microseconds \
                     milli millis millisecond milliseconds sec secs second seconds min mins minute minutes hr hrs hour \
                     hours day days week weeks wk wks";

/// Reports whether the API server checks a format that is not checked here.
pub(super) fn is_unknown(format: &str) -> bool {
    is_one_of(UNKNOWN, &normalized(format))
}

/// Reports whether a text has the format. A format that is not checked accepts every text.
pub(super) fn accepts(format: &str, text: &str) -> bool {
    match normalized(format).as_str() {
        "datetime" => is_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "ipv4" => is_ipv4(text),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "byte" => !text.is_empty() && STANDARD.decode(text).is_ok(),
        _ => true,
    }
}

/// Reports whether a number has the format.
pub(super) fn accepts_number(format: &str, number: f64) -> bool {
    match format {
        "int32" => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
        "float" => number.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

/// Normalizes the name of a format. For the API server, `date-time` and `datetime` are the same.
fn normalized(format: &str) -> String {
    if format.starts_with("k8s-") {
        return format.to_owned();
    }
    format.replace('-', "")
}

/// Reports whether a text is a time of RFC 3339, with letters of either case and any offset.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else {
        return false;
    };
    let (Some(clock), Some(rest)) = (time.get(..8), time.get(8..)) else {
        return false;
    };
    let is_clock = clock
        .bytes()
        .zip(*b"29:59:59")
        .enumerate()
        .all(|(at, (byte, max))| match at {
            2 | 5 => byte == b':',
            1 if clock.starts_with('2') => (b'0'..=b'3').contains(&byte),
            _ => (b'0'..=max).contains(&byte),
        });
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (fraction, offset) = rest.split_at(rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len()));
    let is_offset = match offset.strip_prefix(['+', '-']) {
        Some(offset) => {
            offset.len() == 5
                && offset
                    .split(':')
                    .all(|part| part.len() == 2 && digits(part))
        }
        None => offset.eq_ignore_ascii_case("z"),
    };
    is_date(date)
        && is_clock
        && (fraction.is_empty() || fraction.strip_prefix('.').is_some_and(digits))
        && is_offset
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Reports whether `word` is one of the words in a text with single spaces between them. The empty word is not.
fn is_one_of(words: &str, word: &str) -> bool {
    words.split(' ').any(|candidate| candidate == word)
}

/// Reports whether a text is a duration: `1h30m`, or with written units, `3 days`.
fn is_duration(text: &str) -> bool {
    let mut remaining = text.trim_start_matches(['+', '-']);
    if remaining == "0" {
        return true;
    }
    let mut any = false;
    while !remaining.is_empty() {
        let digits = remaining
            .find(|char: char| !char.is_ascii_digit() && char != '.')
            .unwrap_or(remaining.len());
        let (number, tail) = remaining.split_at(digits);
        let tail = tail.trim_start();
        let letters = tail
            .find(|char: char| !char.is_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        if number.parse::<f64>().is_err() || !is_one_of(UNITS, &unit.to_lowercase()) {
            return false;
        }
        any = true;
        remaining = tail.trim_start();
    }
    any
}

/// Reports whether a text is an IPv4 address. The API server uses Go's lenient parser, which accepts leading zeros.
fn is_ipv4(text: &str) -> bool {
    let bare: Vec<&str> = text
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            bare => bare,
        })
        .collect();
    bare.join(".").parse::<Ipv4Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let max_bits = if is_ipv4(address) {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    bits.bytes().all(|byte| byte.is_ascii_digit())
        && bits.parse::<u8>().is_ok_and(|bits| bits <= max_bits)
}

/// Reports whether a text is a UUID, with all or some of its hyphens. Versions 4 and 5 also restrict the seventeenth digit.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut digits = Vec::with_capacity(32);
    for char in text.chars() {
        match char {
            '-' if matches!(digits.len(), 8 | 12 | 16 | 20) => {}
            char if char.is_ascii_hexdigit() => digits.push(char.to_ascii_lowercase()),
            _ => return false,
        }
    }
    let has_variant = || matches!(digits.get(16), Some('8' | '9' | 'a' | 'b'));
    digits.len() == 32
        && !text.contains("--")
        && version.is_none_or(|version| {
            digits.get(12) == Some(&version) && (version == '3' || has_variant())
        })
}

//! Formats of strings and numbers, as the apiserver checks them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Formats that the apiserver checks and nothing here does.
const UNKNOWN: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "mac",
    "k8s-short-name",
    "k8s-long-name",
];

/// Whether the apiserver checks a format that is not checked here.
pub(super) fn is_unknown(format: &str) -> bool {
    UNKNOWN.contains(&normalized(format).as_str())
}

/// Whether a text has the format. Formats that nobody checks are fulfilled by everything.
pub(super) fn accepts(format: &str, text: &str) -> bool {
    match normalized(format).as_str() {
        "datetime" => is_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "byte" => STANDARD.decode(text).is_ok(),
        _ => true,
    }
}

/// Whether a number has the format.
pub(super) fn accepts_number(format: &str, number: f64) -> bool {
    match format {
        "int32" => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number),
        "float" => number.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

/// The apiserver takes `date-time` and `datetime` for the same.
fn normalized(format: &str) -> String {
    if format.starts_with("k8s-") {
        return format.to_owned();
    }
    format.replace('-', "")
}

fn is_time(text: &str) -> bool {
    text.get(..10).is_some_and(is_date)
        && matches!(text.as_bytes().get(10), Some(b'T' | b't'))
        && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// `1h30m`, and in words, too: `3 days`.
fn is_duration(text: &str) -> bool {
    let units = |unit: &str| {
        matches!(
            unit,
            "ns" | "us"
                | "µs"
                | "μs"
                | "ms"
                | "s"
                | "m"
                | "h"
                | "d"
                | "w"
                | "nano"
                | "nanos"
                | "nanosecond"
                | "nanoseconds"
                | "micro"
                | "micros"
                | "microsecond"
                | "microseconds"
                | "milli"
                | "millis"
                | "millisecond"
                | "milliseconds"
                | "sec"
                | "secs"
                | "second"
                | "seconds"
                | "min"
                | "mins"
                | "minute"
                | "minutes"
                | "hr"
                | "hrs"
                | "hour"
                | "hours"
                | "day"
                | "days"
                | "week"
                | "weeks"
                | "wk"
                | "wks"
        )
    };
    let mut rest = text.trim_start_matches(['+', '-']);
    if rest == "0" {
        return true;
    }
    let mut any = false;
    while !rest.is_empty() {
        let digits = rest
            .find(|char: char| !char.is_ascii_digit() && char != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let letters = tail
            .find(|char: char| !char.is_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        if number.parse::<f64>().is_err() || !units(unit.to_lowercase().as_str()) {
            return false;
        }
        any = true;
        rest = tail.trim_start();
    }
    any
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.bytes().all(|byte| byte.is_ascii_digit())
        && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let bare: Vec<char> = text.chars().filter(|char| *char != '-').collect();
    bare.len() == 32
        && bare.iter().all(char::is_ascii_hexdigit)
        && version.is_none_or(|version| bare.get(12) == Some(&version))
}

//! Conditional and range requests: a request receives the whole content, a part of it, or nothing if the content is
//! unchanged. As in catalogd, only dates identify contents, without entity tags.

use std::{ops::Range, time::SystemTime};

use http::{HeaderMap, HeaderName, header};

/// Result of a request's preconditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precondition {
    /// The request is answered.
    Holds,
    /// The client already has the content.
    NotModified,
    /// The client expects another content.
    Failed,
}

/// Part of the content that a `Range` header requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RangeRequest {
    /// The whole content.
    Whole,
    /// A range of bytes.
    Bytes(Range<u64>),
    /// The requested range lies outside of the content.
    NotSatisfiable,
}

/// Evaluates the preconditions of a GET or HEAD request, in the order of RFC 9110.
pub(super) fn check(headers: &HeaderMap, since: SystemTime) -> Precondition {
    let text = |name| text(headers, name);
    let at = |name| text(name).and_then(|text| httpdate::parse_http_date(text).ok());
    // Without entity tags, only "*" matches.
    match text(header::IF_MATCH) {
        Some("*") => {}
        Some(_) => return Precondition::Failed,
        None => {
            if at(header::IF_UNMODIFIED_SINCE).is_some_and(|expected| since > expected) {
                return Precondition::Failed;
            }
        }
    }
    let is_current = match text(header::IF_NONE_MATCH) {
        Some(tags) => tags == "*",
        None => at(header::IF_MODIFIED_SINCE).is_some_and(|date| since <= date),
    };
    if is_current {
        Precondition::NotModified
    } else {
        Precondition::Holds
    }
}

/// Returns the requested range. Requests with several ranges or a malformed range receive the whole content.
pub(super) fn requested_range(headers: &HeaderMap, since: SystemTime, length: u64) -> RangeRequest {
    let Some(range) = text(headers, header::RANGE).and_then(|text| text.strip_prefix("bytes="))
    else {
        return RangeRequest::Whole;
    };
    let is_same = text(headers, header::IF_RANGE)
        .is_none_or(|date| httpdate::parse_http_date(date).is_ok_and(|date| date == since));
    let Some((first, last)) = range.trim().split_once('-').filter(|_| is_same) else {
        return RangeRequest::Whole;
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // The overflowing number is larger than any file.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let bytes = match (first.trim(), last.trim()) {
        ("", last) => match number(last) {
            Some(0) => return RangeRequest::NotSatisfiable,
            Some(last) => length.saturating_sub(last)..length,
            None => return RangeRequest::Whole,
        },
        (first, "") => match number(first) {
            Some(first) => first..length,
            None => return RangeRequest::Whole,
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(length),
            _ => return RangeRequest::Whole,
        },
    };
    if bytes.start < length {
        RangeRequest::Bytes(bytes)
    } else {
        RangeRequest::NotSatisfiable
    }
}

/// Reports whether the response can be compressed with gzip.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::ACCEPT_ENCODING).iter();
    let listed = all.filter_map(|value| value.to_str().ok());
    let mut any = false;
    for entry in listed.flat_map(|list| list.split(',')) {
        let (coding, weight) = entry.split_once(';').unwrap_or((entry, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        let is_accepted = weight.trim().parse().is_ok_and(|weight: f32| weight > 0.0);
        match coding.trim() {
            coding if coding.eq_ignore_ascii_case("gzip") => return is_accepted,
            "*" => any = is_accepted,
            _ => {}
        }
    }
    any
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const BEFORE: &str = "Sat, 01 Aug 2026 00:00:00 GMT";
    const SINCE: &str = "Sat, 01 Aug 2026 00:00:01 GMT";
    const AFTER: &str = "Sat, 01 Aug 2026 00:00:02 GMT";

    fn since() -> SystemTime {
        httpdate::parse_http_date(SINCE).unwrap()
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn conditions_are_checked_in_their_order() {
        use Precondition::{Failed, Holds, NotModified};
        assert_each!(|all, expected| check(&headers(all), since()) => expected;
            &[][..] => Holds;
            &[("if-modified-since", BEFORE)] => Holds;
            &[("if-modified-since", SINCE)] => NotModified;
            &[("if-modified-since", AFTER)] => NotModified;
            &[("if-modified-since", "yesterday")] => Holds;
            &[("if-unmodified-since", BEFORE)] => Failed;
            &[("if-unmodified-since", SINCE)] => Holds;
            &[("if-match", "*"), ("if-unmodified-since", BEFORE)] => Holds;
            &[("if-match", "\"a\"")] => Failed;
            &[("if-none-match", "*")] => NotModified;
            &[("if-none-match", "\"a\""), ("if-modified-since", SINCE)] => Holds;
            &[("if-unmodified-since", BEFORE), ("if-modified-since", SINCE)] => Failed;
        );
    }

    #[test]
    fn ranges_are_limited_to_the_content() {
        use RangeRequest::{Bytes, NotSatisfiable, Whole};
        let requested = |range: &str| requested_range(&headers(&[("range", range)]), since(), 10);
        for (ranges, expected) in ::tests::rows![
            "bytes=0-0" => Bytes(0..1);
            "bytes=2-|bytes=2-100" => Bytes(2..10);
            "bytes=-3" => Bytes(7..10);
            "bytes=-30|bytes=0-99999999999999999999999" => Bytes(0..10);
            "bytes=-0|bytes=10-|bytes=99999999999999999999999-" => NotSatisfiable;
            "bytes=5-2|bytes=0-1,4-5|bytes=|bytes=-|bytes=a-b|lines=0-1" => Whole;
        ] {
            for range in ranges.split('|') {
                assert_eq!(requested(range), expected, "{range}");
            }
        }
        assert_rows!(requested_range(&headers(&[("range", "bytes=0-")]), since(), 0) => NotSatisfiable);
        for (date, expected) in [(SINCE, Bytes(0..1)), (AFTER, Whole), ("\"tag\"", Whole)] {
            let headers = headers(&[("range", "bytes=0-0"), ("if-range", date)]);
            assert_eq!(requested_range(&headers, since(), 10), expected, "{date}");
        }
        assert_rows!(requested_range(&HeaderMap::new(), UNIX_EPOCH + Duration::from_secs(1), 10) => Whole);
    }

    #[test]
    fn gzip_is_used_if_accepted() {
        let refused = "gzip;q=0|gzip; q=0.000|*;q=0|*, gzip;q=0|br||gzip;q=x";
        for (values, is_taken) in [(refused, false), ("gzip|GZIP|deflate, gzip;q=0.5|*", true)] {
            for value in values.split('|') {
                assert_rows!(accepts_gzip(&headers(&[("accept-encoding", value)])) => is_taken, "{value}");
            }
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}

use super::*;
use crate::json::Tape;

fn checked(text: &str, of: &'static GoStruct) -> Result<(), String> {
    let mut tape = Tape::default();
    check(tape.read(text.as_bytes(), 1_000_000).unwrap(), of)
}

/// tests/opm/validation.rs compares more of them with opm itself.
#[test]
fn first_mismatch_is_reported_by_full_name() {
    for (text, of, problem) in ::tests::rows![
        "{}", &CHANNEL => None;
        "null", &CHANNEL => None;
        r#"{"name": null, "other": [1], "entries": [null, {"skips": [null]}]}"#, &CHANNEL => None;
        "[]", &CHANNEL => Some("array into Go value of type declcfg.Channel");
        r#"{"ENTRIES": [{"skips": ["a", 1]}]}"#, &CHANNEL
            => Some("number into Go struct field ChannelEntry.entries.skips of type string");
        // The first one in sort order, not in the text; of equal keys, only the last one is used.
        r#"{"package": 1, "name": []}"#, &CHANNEL => Some("array into Go struct field Channel.name of type string");
        r#"{"name": 1, "name": "x"}"#, &CHANNEL => None;
        r#"{"name": "x", "Name": true}"#, &CHANNEL => Some("bool into Go struct field Channel.name of type string");
        r#"{"priority": 9007199254740993}"#, &CHANNEL_PROPERTY => None;
        r#"{"priority": -1e300}"#, &CHANNEL_PROPERTY
            => Some("number -1e+300 into Go struct field Channel.priority of type int");
        r#"{"data": 1, "other": 1}"#, &BUNDLE_OBJECT => Some("number into Go struct field BundleObject.data of type []uint8");
    ] {
        let result = checked(text, of);
        let expected = problem.map(|problem| format!("json: cannot unmarshal {problem}"));
        assert_eq!(result.err(), expected, "{text}");
    }
}

#[test]
fn nesting_of_constraints_is_bounded() {
    let nested = |levels: usize| {
        let open = r#"{"not":{"constraints":["#.repeat(levels);
        format!("{open}{}", "]}}".repeat(levels))
    };
    assert_eq!(checked(&nested(30), &CONSTRAINT), Ok(()));
    let error = checked(&nested(3_000), &CONSTRAINT).unwrap_err();
    assert!(error.contains("nested deeper than 64 levels"), "{error}");
}

/// Right: the result of Go's `base64.StdEncoding`.
#[test]
fn base64_is_decoded_as_in_go() {
    for (text, decoded) in [
        ("", Ok("")),
        ("YWI=", Ok("ab")),
        ("Y\r\nWI\n=\n", Ok("ab")),
        ("YW==", Ok("a")), // bits left over
        ("?", Err(0)),
        ("YWJj?", Err(4)),
        ("YW", Err(0)),
        ("YWJjZ", Err(4)),
        ("YW\nJ", Err(1)),
        ("=", Err(0)),
        ("Y===", Err(1)),
        ("YQ=", Err(3)),
        ("YQ=a", Err(2)),
        ("YWI=YWI=", Err(4)),
        ("YQ==\nx", Err(5)),
    ] {
        let expected = decoded
            .map(|text: &str| text.as_bytes().to_vec())
            .map_err(|at: usize| format!("illegal base64 data at input byte {at}"));
        assert_eq!(base64(text), expected, "{text:?}");
    }
}

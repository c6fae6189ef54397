//! `tests/opm/validation` compares the reports of mismatches with those of opm.

use super::*;
use crate::{json::Tape, testing::has};

#[test]
fn nesting_of_constraints_is_bounded() {
    let checked = |levels: usize| {
        let text = r#"{"not":{"constraints":["#.repeat(levels) + &"]}}".repeat(levels);
        let mut tape = Tape::default();
        check(tape.read(text.as_bytes(), 1_000_000).unwrap(), &CONSTRAINT)
    };
    assert_eq!(checked(30), Ok(()));
    has(checked(3_000).unwrap_err(), "nested deeper than 64 levels");
}

/// Right: the result of Go's `base64.StdEncoding`.
#[test]
fn base64_is_decoded_as_in_go() {
    let error = |at| format!("illegal base64 data at input byte {at}");
    assert_each!(|text, decoded| base64(text) => decoded.map(Vec::from).map_err(error);
        "" => Ok("");
        "YWI=" => Ok("ab");
        "Y\r\nWI\n=\n" => Ok("ab");
        "YW==" => Ok("a"); // bits left over
        "?" => Err(0);
        "YWJj?" => Err(4);
        "YW" => Err(0);
        "YWJjZ" => Err(4);
        "YW\nJ" => Err(1);
        "=" => Err(0);
        "Y===" => Err(1);
        "YQ=" => Err(3);
        "YQ=a" => Err(2);
        "YWI=YWI=" => Err(4);
        "YQ==\nx" => Err(5);
    );
}

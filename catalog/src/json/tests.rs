use super::*;

fn with<T>(text: &[u8], look: impl FnOnce(Node<'_>) -> T) -> T {
    look(Tape::default().read(text, 1_000_000).unwrap())
}

fn sorted(text: &str) -> String {
    let mut out = Vec::new();
    with(text.as_bytes(), |root| root.sorted(&mut out));
    String::from_utf8(out).unwrap()
}

/// Right: the error of Go's `json.Unmarshal` into an `interface{}`, and the offset of its SyntaxError.
#[test]
fn invalid_json_is_rejected_at_the_offset_of_go() {
    for (text, message, offset) in ::tests::rows![
        "", "unexpected end of JSON input" => 0;
        "{", "unexpected end of JSON input" => 1;
        "[1,", "unexpected end of JSON input" => 3;
        "\"a", "unexpected end of JSON input" => 2;
        "x", "invalid character 'x' looking for beginning of value" => 1;
        "[1,]", "invalid character ']' looking for beginning of value" => 4;
        "{,", "invalid character ',' looking for beginning of object key string" => 2;
        "{\"a\" 1}", "invalid character '1' after object key" => 6;
        "{\"a\":1 2}", "invalid character '2' after object key:value pair" => 8;
        "[1 2]", "invalid character '2' after array element" => 4;
        "{} {}", "invalid character '{' after top-level value" => 4;
        "\"\n\"", "invalid character '\\n' in string literal" => 2;
        "\"\\x\"", "invalid character 'x' in string escape code" => 3;
        "\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape" => 6;
        "-", "unexpected end of JSON input" => 1;
        "01", "invalid character '1' after top-level value" => 2;
        "1.x", "invalid character 'x' after decimal point in numeric literal" => 3;
        "1ex", "invalid character 'x' in exponent of numeric literal" => 3;
        "nul1", "invalid character '1' in literal null (expecting 'l')" => 4;
        "{\"a\":1,}", "invalid character '}' looking for beginning of object key string" => 8;
        "[1e999]", "json: cannot unmarshal number 1e999 into Go value of type float64" => 6;
    ] {
        let error = Tape::default().read(text.as_bytes(), 100).unwrap_err();
        assert_rows!((&*error.message, error.offset) => (message, offset), "{text:?}");
    }
}

// parity: render-8
#[test]
fn depth_and_number_of_values_are_bounded() {
    let mut tape = Tape::default();
    let deep = |levels| "[".repeat(levels) + &"]".repeat(levels);
    tape.read(deep(10_000).as_bytes(), 20_000).unwrap();
    tape.read(b"[1,2]", 3).unwrap();
    assert_each!(|text, values, problem| tape.read(text.as_bytes(), values).unwrap_err().message => problem;
        &*deep(10_001), 20_000 => "exceeded max depth";
        "[1,2,3]", 3 => "more than 3 values in one document";
        "[[[[", 3 => "more than 3 values in one document";
    );
    // Writing needs no stack either.
    let text = format!("{}\"x\"{}", "{\"a\":[".repeat(5_000), "]}".repeat(5_000));
    assert_eq!(sorted(&text), text);
}

#[test]
fn strings_are_decoded_as_in_go() {
    assert_each!(|text, says| with(text, |node| node.text().unwrap().into_owned()) => says;
        &br#""plain""#[..] => "plain";
        br#""a\"\\\/\b\f\n\r\t\u0041""# => "a\"\\/\u{8}\u{c}\n\r\tA";
        br#""\ud83d\ude00""# => "😀";
        br#""\ud83d""# => "\u{fffd}";
        br#""\ud83dx""# => "\u{fffd}x";
        br#""\ud83d\u0041""# => "\u{fffd}A";
        br#""\ude00\ud83d""# => "\u{fffd}\u{fffd}";
        b"\"a\xe2\x82b\xff\"" => "a\u{fffd}\u{fffd}b\u{fffd}";
        "\"é\"".as_bytes() => "é";
    );
    with(b"1", |node| assert_eq!(node.text(), None));
}

#[test]
fn string_ends_are_found_at_every_word_offset() {
    for length in 0..40 {
        for end in ["\"", "\\n\"", "é\""] {
            let text = format!("[\"{}{end},1]", "x".repeat(length));
            with(text.as_bytes(), |node| assert_eq!(node.items().count(), 2));
            let broken = format!("[\"{}\n{end},1]", "x".repeat(length));
            assert_rows!(Tape::default().read(broken.as_bytes(), 9).unwrap_err().offset => length + 3);
        }
    }
}

#[test]
fn fields_are_found_as_in_go() {
    let name = |root: Node<'_>| root.field("name").map(|name| name.source().to_vec());
    assert_each!(|text, value| with(text.as_bytes(), name) => value.map(Vec::from);
        r#"{"name": 1}"# => Some("1");
        r#"{"NAME": 1}"# => Some("1");
        r#"{"n\u0061me": 1}"# => Some("1");
        r#"{"name": 1, "name": 2}"# => Some("2");
        // In sort order, "Name" is first.
        r#"{"name": 1, "Name": 2}"# => Some("1");
        r#"{"Name": 1, "name": 2}"# => Some("2");
        r#"{"name": null}"# => None;
        r#"{"names": 1}"# => None;
        "{}" => None;
        "[1]" => None;
    );
    // The letters that fold to s and k.
    let has_skip = |root: Node<'_>| root.field("skip").is_some();
    assert!(with("{\"ſ\u{212a}ip\": 1}".as_bytes(), has_skip));
    with(br#"{"a": 1, "A": 2, "a": 3}"#, |root| {
        assert_eq!(root.get("a").unwrap().source(), b"3");
        assert!(root.get("b").is_none());
    });
}

/// Right: the output of Go's encoder, without HTML escapes, for the map that its decoder created.
#[test]
fn maps_are_written_as_in_go() {
    assert_each!(|text, written| sorted(text) => written;
        r#"{ "b": 1, "a": [ true, null, {} ], "c": [] }"# => r#"{"a":[true,null,{}],"b":1,"c":[]}"#;
        r#"{"a":1,"a":2,"A":3}"# => r#"{"A":3,"a":2}"#;
        r"[1.0, 4.10, 9007199254740993, 1e21, 1e20, 1e-7, 0.000001, -0, 1E2]"
            => "[1,4.1,9007199254740992,1e+21,100000000000000000000,1e-7,0.000001,-0,100]";
        r#""<>&\u2028\u0001\u007f\/""# => "\"<>&\\u2028\\u0001\u{7f}/\"";
        r#""\ud83d\b\f""# => "\"\u{fffd}\\b\\f\"";
        r#"["a\"\\\n\r\t", "é", "\\u0041", "\u00e9"]"# => r#"["a\"\\\n\r\t","é","\\u0041","é"]"#;
        "[\"a\u{2028}é\", \"\u{2029}\"]" => r#"["a\u2028é","\u2029"]"#;
        "[-12, 999999999999999, 12345678901234567]" => "[-12,999999999999999,12345678901234568]";
        r#"[{"a":{"b":[1,{"c":2}]}},[[]],""]"# => r#"[{"a":{"b":[1,{"c":2}]}},[[]],""]"#;
    );
}

/// All combinations of three parts.
fn threes<'a>(parts: &'a [&'a str]) -> impl Iterator<Item = [&'a str; 3]> {
    let twos = move |first: &'a str| parts.iter().map(move |&second| [first, second]);
    let threes =
        move |[first, second]: [&'a str; 2]| parts.iter().map(move |&third| [first, second, third]);
    parts.iter().copied().flat_map(twos).flat_map(threes)
}

#[test]
fn copied_strings_equal_their_decoded_text() {
    for three in threes(&[
        "a", "u", "/", "é", "\u{2028}", "\u{2029}", r"\\", r#"\""#, r"\/", r"\n", r"\b", r"\u0041",
        r"\u2028", r"\ud83d",
    ]) {
        let string = format!("\"{}\"", three.concat());
        let mut expected = Vec::new();
        with(string.as_bytes(), |node| {
            write_text(&node.text().unwrap(), &mut expected);
        });
        assert_eq!(sorted(&string).as_bytes(), expected, "{string}");
    }
}

/// The quote after a key is greater than a space and less than a letter.
#[test]
fn keys_are_sorted_like_go_maps() {
    for [first, second, third] in threes(&["", "a", "a b", "a!", "ab", "B", "é", r"\u0061"]) {
        let object = format!(r#"{{"{first}":0,"{second}":1,"{third}":2}}"#);
        let expected: serde_json::Value = serde_json::from_str(&object).unwrap();
        assert_eq!(sorted(&object), expected.to_string(), "{object}");
    }
}

#[test]
fn compact_text_keeps_the_spelling() {
    let mut out = Vec::new();
    let text = b" { \"b\" : 4.10 ,\n \"a\\\" c\" : [ \" x \" , 1e1 ] } ";
    with(text, |root| root.compact(&mut out));
    assert_eq!(out, br#"{"b":4.10,"a\" c":[" x ",1e1]}"#);
}

//! Output of go-yaml v2.4.3 through `sigs.k8s.io/yaml` v1.6.0, recorded once. Tests of `catalog` compare far more
//! values with the real library.

use serde_json::{Value, json};

use super::*;

fn printed(value: &Value) -> String {
    let mut text = String::new();
    document(&mut text, value);
    text
}

#[test]
fn collections_have_block_style() {
    let value = json!({"b": [1, [2, [], {"x": {}}], {"z": 1, "y": [3]}], "a": {"k": {"l": null}}, "c": [[[1], 2]]});
    let expected = "\
a:
  k:
    l: null
b:
- 1
- - 2
  - []
  - x: {}
- \"y\":
  - 3
  z: 1
c:
- - - 1
  - 2
";
    assert_eq!(printed(&value), expected);
    assert_rows!([json!([1]), json!({})].map(|value| printed(&value)) => ["- 1\n", "{}\n"]);
}

#[test]
fn strings_are_quoted_if_necessary() {
    let printed = |text: &str| printed(&json!({"m": {"k": text}}));
    for plain in "a b|1.0.0|1:60|it's|-a|?a|<<".split('|') {
        assert_eq!(printed(plain), format!("m:\n  k: {plain}\n"));
    }
    for quoted in "a: b|-|--- a|? a|[a|a ".split('|') {
        assert_eq!(printed(quoted), format!("m:\n  k: '{quoted}'\n"));
    }
    for escaped in "|yes|1.0|1:30|2020-01-02|a\tb|a \nb|a\nb ".split('|') {
        assert_eq!(printed(escaped), format!("m:\n  k: {escaped:?}\n"));
    }
    assert_each!(|text, written| printed(text) => format!("m:\n  k: {written}\n");
        "it's #1" => "'it''s #1'";
        "\u{7f}\u{85}\u{a0}" => "\"\\x7F\\N\u{a0}\"";
        "é\u{1f600}" => "\"é\\U0001F600\"";
        "\u{feff}a" => "\"\\uFEFF\\x61\"";
        "a\n" => "|\n    a";
        "a\nb" => "|-\n    a\n    b";
        "a\n\n" => "|+\n    a\n";
        " a\n" => "|2\n     a";
        "\n" => "|2+\n";
    );
}

#[test]
fn long_lines_are_folded() {
    let line = ["word"; 20].join(" ");
    let (first, rest) = (["word"; 16].join(" "), ["word"; 4].join(" "));
    assert_each!(|text, expected| printed(&json!({"k": text})) => expected;
        line.clone() => format!("k: {first}\n  {rest}\n");
        format!("'{line}") => format!("k: '''{first}\n  {rest}'\n");
        format!("\t{line}") => format!("k: \"\\t{first}\n  {rest}\"\n");
        format!("{}  b c", "x".repeat(90)) => format!("k: {}  b\n  c\n", "x".repeat(90));
    );
    // A key is never folded.
    let key = line.replace(' ', "-");
    assert_rows!(printed(&json!({&key: line})) => format!("{key}: word\n  {first}\n  word word word\n"));
}

#[test]
fn long_and_multiline_keys_have_an_explicit_mark() {
    let long = "k".repeat(129);
    assert_eq!(printed(&json!({&long: [1]})), format!("? {long}\n: - 1\n"));
    assert_rows!(printed(&json!({"a\nb": {"c": 1}})) => "? |-\n  a\n  b\n: c: 1\n");
}

#[test]
fn numbers_have_the_shortest_form() {
    assert_each!(|number, written| printed(&json!([number])) => format!("- {written}\n");
        json!(1) => "1";
        json!(1.0) => "1";
        json!(1e6) => "1e+06";
        json!(123_456.5) => "123456.5";
        json!(1e-5) => "1e-05";
        json!(0.000_1) => "0.0001";
        json!(-0.0) => "0";
        json!(u64::MAX) => "18446744073709551615";
    );
}

//! Results of cel-go v0.26.0 in the environment of operator-framework/api v0.45.0, recorded once. A run with ninety
//! thousand random expressions showed two differences: this checker accepts anything in protobuf messages, and in the
//! keys of lookups in constants.

use super::{types::tests::MADE, *};

/// The expressions of `go.txt`, and whether cel-go compiles them.
fn expressions() -> impl Iterator<Item = (String, bool)> {
    let lines = include_str!("go.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines.map(|line| (line[2..].replace('↵', "\n"), line.starts_with('+')))
}

// parity: validate-9
#[test]
fn expressions_compile_where_cel_go_compiles_them() {
    let mut count = 0;
    for (text, compiles) in expressions() {
        assert_eq!(check(&text).is_ok(), compiles, "{text}");
        count += 1;
    }
    assert_eq!(count, 337);
}

#[test]
fn errors_have_a_position() {
    assert_each!(|text, message| check(text) => Err(message.to_owned());
        "1 + 1" => "the CEL expression has type int; it must have type bool";
        "1 +" => "unexpected end of expression at 4";
        "'é' + 1 == 2" => "found no matching overload for \"_+_\" applied to (string, int) at 5";
        "true tru" => "unexpected \"tru\" at 6";
        "foo.bar" => "undeclared reference to \"foo\" at 1";
        "'a'.foo(1)" => "undeclared reference to \"foo\" at 4";
        "(true" => "expected \")\" but found end of expression at 6";
        "true && 'a" => "unterminated string at 9";
        "if == 1" => "reserved identifier \"if\" at 1";
        "1.exists(p, true)" => "expression of type int cannot be range of a comprehension (must be list, map, or dynamic) at 2";
        "properties.exists(p.x, true)" => "exists() requires a variable name and an expression as arguments, at 19";
        "properties.exists(p, 1)" => "expected type bool but found int in exists() at 11";
        "has(properties)" => "invalid argument to has() at 5";
        "99999999999999999999 == 1" => "invalid int literal at 1";
        "1e999 == 1.0" => "invalid number at 1";
        "properties.foo" => "type list(map(string, any)) does not support field selection of \"foo\" at 11";
    );
}

#[test]
fn hostile_expressions_need_little_time_and_stack() {
    let many = 20_000;
    let chain = |of: &str| format!("[1]{} == []", of.repeat(60));
    let texts = [
        "(".repeat(many),
        "[".repeat(many),
        "{1:".repeat(many),
        "true?true:".repeat(9_000),
        "[1].all(x,".repeat(9_000),
        "size(".repeat(many),
        "a[".repeat(many),
        "x".repeat(MAX_LENGTH + 1),
        "x".repeat(MAX_LENGTH),
        format!("google{}", ".a".repeat(MAX_LENGTH / 3)),
        format!("1.{}", "x".repeat(MAX_LENGTH / 2)),
        format!("{}(1)", "f".repeat(MAX_LENGTH / 2)),
        // Each repetition doubles the type.
        chain(".map(a, {a: a})"),
        chain(".map(a, [a])") + &".map(a, [a])".repeat(5_000),
        "\"".repeat(50_001),
        "'\\u".repeat(9_000),
        "`".repeat(many),
        "1u".repeat(many),
        "\u{feff}true".to_owned(),
        "tr\0ue".to_owned(),
    ];
    let long = [
        format!("{}true", "true && ".repeat(9_000)),
        format!("{}true", "!".repeat(many)),
        format!("properties[0].value{} == 1", ".b".repeat(many)),
        format!("[{}1] == [1]", "1,".repeat(many)),
    ];
    // Less than a thread has; unoptimized code uses a multiple of the stack of a release build.
    let thread = std::thread::Builder::new().stack_size(3 << 19);
    let checked = thread.spawn(move || {
        for text in &texts {
            let message = check(text).expect_err(&text.chars().take(30).collect::<String>());
            assert!(message.chars().count() < 300, "{message}");
        }
        for text in &long {
            assert_eq!(check(text), Ok(()));
        }
    });
    checked.unwrap().join().unwrap();
}

/// The parts of a type are created where the type is written, and not again for every use.
#[test]
fn types_are_created_once() {
    let fields: Vec<String> = (0..30).map(|at| format!("{at}: [[{at}]]")).collect();
    let nested = format!("{}{{1: 1}}{}", "{1: ".repeat(60), "}".repeat(60));
    let wide = format!("{{{}}}", fields.join(", "));
    let used = |text: &str| text.repeat(MAX_LENGTH / 2 / text.len());
    // The declarations of functions, which are read once.
    assert!(!overloads::overloads("size").is_empty());
    for (text, most) in ::tests::rows![
        format!("{}true", used("properties[0].value == 1 && ")) => 10;
        format!("{}true", used("properties.exists(p, p == properties[0]) && ")) => 10;
        format!("[{nested}].all(a, {}true)", used("a == a && ")) => 100;
        format!("[{nested}].all(a, [{nested}].all(b, {}true))", used("a == b && ")) => 200;
        format!("[{wide}].all(a, {}true)", used("a[1] == a[2] && ")) => 200;
        // The sum of two lists is a list.
        format!("[{nested}].all(a, [a] == {}[a])", used("[a] + ")) => MAX_LENGTH / 5;
    ] {
        let short: String = text.chars().take(40).collect();
        let before = MADE.get();
        assert_eq!(check(&text), Ok(()), "{short}");
        let (made, length) = (MADE.get() - before, text.len());
        assert!(made <= most, "{short}: {made} of {length} characters");
    }
}

/// Truncated and modified expressions get an answer.
#[test]
fn modified_expressions_get_an_answer() {
    for (text, _) in expressions() {
        for (at, _) in text.char_indices() {
            let (begin, end) = text.split_at(at);
            let mut rest = end.chars();
            rest.next();
            drop([check(begin), check(&format!("{begin}{}", rest.as_str()))]);
            for odd in ["(", "]", "\\", "'", "0", "é"] {
                drop(check(&format!("{begin}{odd}{end}")));
            }
        }
    }
}

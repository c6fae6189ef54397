//! What cel-go (v0.26.0, in the environment of operator-framework/api v0.45.0) says to each of these was asked once, by a program
//! that calls it, as were ninety thousand random ones: the two differ in messages of protobuf, which are taken for anything
//! here, and in the keys that constants may be looked up by.

use super::{kind::tests::MADE, *};

/// These compile, and give a boolean.
const COMPILE: &[&str] = &[
    "properties.exists(p, p.type == 'certified')",
    "properties.exists(p, p.type == 'certified') && properties.exists(p, p.type == 'stable' && p.value == true)",
    "properties.all(p, p.value)",
    "properties.exists(p, p.value)",
    "properties[0].value == 1",
    r#"properties[0].value.package.name == "x""#,
    "properties.size() > 0",
    "size(properties) > 0",
    r#"semver_compare("1.0.0", "2.0.0") < 0"#,
    "properties.exists(p, p.type == 'olm.package' && (semver_compare(p.value.version, '1.0.0') >= 0))",
    "1 + 1 == 2",
    "null == null",
    r#"timestamp("2020-01-01T00:00:00Z") == null"#,
    "true",
    "false",
    "!true",
    "!!true",
    "-1 == -1",
    "--1 == 1",
    "true ? true : false",
    "properties[0].value ? true : false",
    "properties[0].value && true",
    "!properties[0].value",
    "[1,2,3].exists(x, x > 1)",
    r#"[1,"a"].exists(x, x > 1)"#,
    "[true][0]",
    "([] + [true])[0]",
    "[] + [true] == [true]",
    "{}.exists(k, k)",
    r#"{"a":1}.exists(k, k == "a")"#,
    r#"{"a":true}["a"]"#,
    r#"{"a":true}.a"#,
    r#"{"a":true}.b"#,
    "{1:true}[1]",
    "{1.5:true}[1.5]",
    "{[1]:true} == {[1]:true}",
    "1 in [1]",
    r#""a" in {"a":1}"#,
    r#""a" in properties[0]"#,
    r#""a".startsWith("a")"#,
    r#""a".contains("a")"#,
    r#""a".endsWith("a")"#,
    r#""a".matches("a")"#,
    r#"matches("a","a")"#,
    r#""a".matches("(")"#,
    r#"properties[0].type.startsWith("a")"#,
    "properties.all(p, p.type)",
    "properties.exists_one(p, true)",
    r#"properties.map(p, p.type) == ["a"]"#,
    "properties.map(p, true)[0]",
    r#"properties.filter(p, p.type == "a").size() == 1"#,
    "has(properties[0].value)",
    "has(properties[0].value.x)",
    "has({}.a)",
    r#"int("1") == 1"#,
    "int(1.5) == 1",
    "uint(1) == 1u",
    "double(1) == 1.0",
    r#"string(1) == "1""#,
    r#"bytes("a") == b"a""#,
    r#"bool("true")"#,
    r#"duration("1s") < duration("2s")"#,
    r#"timestamp("2020-01-01T00:00:00Z") < timestamp(1)"#,
    r#"timestamp("2020-01-01T00:00:00Z") + duration("1s") == timestamp(1)"#,
    r#"timestamp(1) - timestamp(2) == duration("1s")"#,
    r#"timestamp(1) - duration("1s") == timestamp(1)"#,
    r#"duration("1s") + duration("1s") == duration("2s")"#,
    r#"duration("1s") + timestamp(1) == timestamp(1)"#,
    "timestamp(1).getFullYear() == 1970",
    r#"timestamp(1).getFullYear("UTC") == 1970"#,
    "timestamp(1).getHours() == 1",
    r#"duration("1s").getHours() == 1"#,
    r#"duration("1s").getMilliseconds() == 1"#,
    "timestamp(1).getDate() == 1 && timestamp(1).getDayOfMonth() == 1 && timestamp(1).getDayOfWeek()==1 && timestamp(1).getDayOfYear()==1 && timestamp(1).getMonth()==1 && timestamp(1).getMinutes()==1 && timestamp(1).getSeconds()==1",
    r#"dyn(1) == "a""#,
    "type(1) == int",
    "int == int",
    "type(int) == type",
    "type(properties) == list",
    "type({}) == map",
    "type(null) == null_type",
    "type(timestamp(1)) == google.protobuf.Timestamp",
    "google.protobuf.BoolValue{value: true} == true",
    "google.protobuf.Int32Value{value: 1} == 1",
    ".properties.size() == 1",
    "1 % 2 == 1",
    "1u % 2u == 1u",
    r#""a" + "b" == "ab""#,
    r#"b"a" + b"b" == b"ab""#,
    "[1] + [2] == [1,2]",
    "{} == {}",
    "1 / 0 == 1",
    "9223372036854775807 == 1",
    "-9223372036854775808 == 1",
    "18446744073709551615u == 1u",
    "0x1F == 31",
    "-0x1 == -1",
    "0x1u == 1u",
    "1e3 == 1000.0",
    "1E+3 == 1000.0",
    ".5 == 0.5",
    "01 == 1",
    r#"'a' == "a""#,
    "'''a\nb''' == \"a\"",
    r#""""a"b""" == "a""#,
    r#"r"\d" == "a""#,
    r#"R'\d' == "a""#,
    r#"br"\d" == b"a""#,
    r"b'\xff' == b'a'",
    r#""\xff" == "a""#,
    r#""\u00e9" == "a""#,
    r#""\U0001F600" == "a""#,
    r#""\101" == "A""#,
    r#"b"\377" == b"a""#,
    r#""\a\b\f\n\r\t\v\\\?\"\'\`" == "a""#,
    r#""" == """#,
    r#"{"if":true}.if"#,
    r#"{"a":true}.`a`"#,
    "(true)",
    "[true,][0]",
    r#"{"a":true,}["a"]"#,
    r#""a".size() == 1"#,
    r#"b"a".size() == 1"#,
    "{}.size() == 0",
    "true // comment",
    "true ? true : true ? true : false",
    "(true ? true : true) ? true : false",
    "true == true == true",
    "1 == 2 != true",
    "!true == false",
    "-1 < 0",
    "- 1 < 0",
    "1 - -1 == 2",
    "1--1 == 2",
    r#"properties.exists(properties, properties.type == "a")"#,
    "properties.exists(p, properties.exists(q, p == q))",
    r#"properties.exists(p, p.exists(k, k == "a"))"#,
    "properties == []",
    "properties == [{}]",
    r#"properties == [{"a": 1}]"#,
    r#"properties + [{"a": 1}] == properties"#,
    r#"properties[0] == {"type": "a", "value": 1}"#,
    "properties[0].value + 1 == 2",
    "properties[0].value < 1",
    "properties[0].value in properties",
    "properties[0].value.size() == 1",
    r#"properties[0].value.startsWith("a")"#,
    r#"properties[0].value.matches("a")"#,
    "size(properties[0].value) == 1",
    r#"string(properties[0].value) == "a""#,
    "bool(properties[0].value)",
    "true in [true, 1]",
    "[1, null] == [1]",
    "[null] == [null]",
    "[1, 1u] == [1]",
    "[1, 2.0] == [1]",
    "[[true]][0][0]",
    "[[], [true]][1][0]",
    r#"[{}, {"a":true}][1].a"#,
    r#"{"a": [], "b": [true]}.b[0]"#,
    "null_type == null_type",
    "uint == uint",
    "bytes == bytes",
    "double == double",
    "string == string",
];

/// These do not.
const FAIL: &[&str] = &[
    "properties[0].value",
    r#"properties[0]["value"]"#,
    r#"properties["a"]"#,
    "properties[0][1]",
    "properties.foo",
    "size(properties)",
    r#"semver_compare("1")"#,
    r#""1.0".semver_compare("2") == 0"#,
    "1 +",
    "1 + 1",
    "1 + 1.0 == 2.0",
    "1 == 1.0",
    "1 < 1.0",
    "1u < 1",
    r#"1 < "a""#,
    r#"1 == "a""#,
    "null == 1",
    "!1",
    "-true",
    "-(1u) == 1",
    "true ? 1 : 2",
    r#"true ? 1 : "a""#,
    "true ? true : properties[0].value",
    "true ? properties[0].value : true",
    "1 ? true : false",
    r#"[1,"a"][0]"#,
    "[][0]",
    r#"{"a":1}.exists(k, k == 1)"#,
    r#"{"a":true,"b":1}.b"#,
    r#"{1:true}["a"]"#,
    r#""a" in [1]"#,
    "1 in 2",
    r#"contains("a","a")"#,
    r#"1.startsWith("a")"#,
    "foo",
    "foo.bar",
    "foo == 1",
    "foo(1)",
    r#""a".foo()"#,
    "properties.exists(1, true)",
    "properties.exists(p.x, true)",
    "properties.exists(p)",
    "properties.exists(p, 1)",
    "properties.existsOne(p, true)",
    r#"properties.map(p, p.type == "a", p.value)[0]"#,
    "properties.map(p, 1, true)[0]",
    r#"properties.filter(p, "a").size() == 1"#,
    "properties.filter(p, true)[0].value",
    "1.exists(p, true)",
    r#""a".exists(p, true)"#,
    "all(p, true)",
    "has(properties)",
    "has(properties[0])",
    "has(foo.a)",
    r#"has("a".b)"#,
    "has(1)",
    "has()",
    "has(properties[0].a, 1)",
    "int(true) == 1",
    r#"string([1]) == "1""#,
    "bool(1)",
    "timestamp(1) * 2 == timestamp(1)",
    "timestamp(1).getFullYear(1) == 1970",
    r#"duration("1s").getFullYear() == 1"#,
    "dyn(1)",
    "dyn(true)",
    "type(1)",
    "int",
    "type(dyn(1)) == dyn",
    "bool",
    "google.protobuf.Timestamp",
    "google.protobuf.BoolValue{value: true}",
    "google.protobuf.Foo{}",
    "Foo{}",
    "google.foo == 1",
    ".foo",
    "1.0 % 2.0 == 1.0",
    r#""a" * 2 == "aa""#,
    r#""a" - "b" == """#,
    r#"b"a" == "a""#,
    r#"[1] + ["a"] == [1]"#,
    r#"[1] == ["a"]"#,
    "[1] == [1.0]",
    r#"{"a":1} + {} == {}"#,
    r#"{"a":1} == {"a":"b"}"#,
    "9223372036854775808 == 1",
    "-9223372036854775809 == 1",
    "18446744073709551616u == 1u",
    "0xFFFFFFFFFFFFFFFF == 1",
    "1. == 1.0",
    "1.e3 == 1.0",
    "1e400 == 1.0",
    "1_000 == 1",
    "\"a\nb\" == \"a\"",
    r#"rb"\d" == b"a""#,
    r#""\q" == "a""#,
    r#""\ud800" == "a""#,
    r#""\U00110000" == "a""#,
    r#""\777" == "A""#,
    r#""\400" == "a""#,
    r#""a"#,
    "'a",
    r#""""#,
    "if == 1",
    "properties.if",
    r#"{"in":true}.in"#,
    r#"{"true":true}.true"#,
    "as",
    "for == 1",
    "package == 1",
    "true || ",
    "|| true",
    "true true",
    "true, true",
    "()",
    "(true",
    "true)",
    "[true",
    "[,]",
    "{,}",
    r#"{"a"}"#,
    r#"{"a":}"#,
    "f(1,)",
    "size([1],)",
    "size()",
    "size(1)",
    "1.size() == 1",
    "// comment",
    "true && // c",
    "true &",
    "true | true",
    "true and true",
    "a ? b",
    "true ? false",
    "1 < 2 < 3",
    "!-1",
    "properties[0].?value",
    "properties[?0]",
    r#"{?"a": 1}"#,
    "[?1]",
    "optional.none()",
    r#""a"[0]"#,
    r#""a".b"#,
    "1.b",
    "true.b",
    "null.b",
    "null.b == 1",
    "properties.exists(p, p.exists(k, k == 1))",
    "properties.exists(p, p.value.exists(k, k))",
    "properties.exists(p, p.value.exists(k, k == 1))",
    "p.exists(p, true)",
    "properties.exists(p, true) && p",
    "properties == {}",
    "properties == 1",
    "properties[0].value + 1",
    r#"properties[0].value + "a" == 2"#,
    "properties[0].value()",
    "properties[0].value.foo()",
    "string(properties[0].value)",
    "[1, dyn(2)][0]",
    "[true, dyn(2)][0]",
    "[dyn(2), true][0]",
    r#"{"a":true, "b":dyn(1)}.a"#,
    "google",
    "int(1)",
    "int.x",
    "int()",
    "list",
    "map",
    "any == any",
    "duration == duration",
    "timestamp(1) == 1",
];

// parity: validate-9
#[test]
fn expressions_compile_where_cel_go_compiles_them() {
    for text in COMPILE {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    for text in FAIL {
        assert!(check(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, said) in ::tests::rows![
        "1 + 1" => "the CEL expression has type int; it must have type bool";
        "1 +" => "unexpected the end at 4";
        "'é' + 1 == 2" => "found no matching overload for \"_+_\" applied to (string, int) at 5";
        "true tru" => "unexpected \"tru\" at 6";
        "foo.bar" => "undeclared reference to \"foo\" at 1";
        "'a'.foo(1)" => "undeclared reference to \"foo\" at 4";
        "(true" => "expected \")\" but found the end at 6";
        "true && 'a" => "a text does not end that begins at 9";
        "if == 1" => "reserved identifier \"if\" at 1";
        "1.exists(p, true)" => "expression of type int cannot be range of a comprehension (must be list, map, or dynamic) at 2";
        "properties.exists(p.x, true)" => "exists() takes a simple name and what to do with each element, at 19";
        "properties.exists(p, 1)" => "expected type bool but found int in exists() at 11";
        "has(properties)" => "invalid argument to has() at 5";
        "99999999999999999999 == 1" => "invalid int literal at 1";
        "1e999 == 1.0" => "invalid number at 1";
        "properties.foo" => "type list(map(string, any)) does not support field selection of \"foo\" at 11";
    ] {
        assert_eq!(check(text), Err(said.to_owned()), "{text}");
    }
}

#[test]
fn hostile_expressions_are_refused_in_no_time_and_with_little_stack() {
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
        "x".repeat(LENGTH + 1),
        "x".repeat(LENGTH),
        format!("google{}", ".a".repeat(LENGTH / 3)),
        format!("1.{}", "x".repeat(LENGTH / 2)),
        format!("{}(1)", "f".repeat(LENGTH / 2)),
        // Each doubles its type.
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
    // Less than threads have, and unoptimised code takes a multiple of what is built for others.
    let thread = std::thread::Builder::new().stack_size(3 << 19);
    let checked = thread.spawn(move || {
        for text in &texts {
            let short: String = text.chars().take(30).collect();
            let said = check(text).expect_err(&short);
            assert!(said.chars().count() < 300, "{said}");
        }
        for text in &long {
            assert_eq!(check(text), Ok(()));
        }
    });
    checked.unwrap().join().unwrap();
}

/// What a type is made of is made where it is written, and not again wherever it is used.
#[test]
fn no_type_is_made_again_where_it_is_used() {
    let fields: Vec<String> = (0..30).map(|at| format!("{at}: [[{at}]]")).collect();
    let nested = format!("{}{{1: 1}}{}", "{1: ".repeat(60), "}".repeat(60));
    let wide = format!("{{{}}}", fields.join(", "));
    let used = |text: &str| text.repeat(LENGTH / 2 / text.len());
    // The declarations of functions, which are read once.
    assert!(!functions::overloads("size").is_empty());
    for (text, most) in ::tests::rows![
        format!("{}true", used("properties[0].value == 1 && ")) => 10;
        format!("{}true", used("properties.exists(p, p == properties[0]) && ")) => 10;
        format!("[{nested}].all(a, {}true)", used("a == a && ")) => 100;
        format!("[{nested}].all(a, [{nested}].all(b, {}true))", used("a == b && ")) => 200;
        format!("[{wide}].all(a, {}true)", used("a[1] == a[2] && ")) => 200;
        // A sum of lists is a list.
        format!("[{nested}].all(a, [a] == {}[a])", used("[a] + ")) => LENGTH / 5;
    ] {
        let short: String = text.chars().take(40).collect();
        let before = MADE.get();
        assert_eq!(check(&text), Ok(()), "{short}");
        let made = MADE.get() - before;
        assert!(
            made <= most,
            "{short}: {made} types for {} characters",
            text.len()
        );
    }
}

/// Whatever is cut from an expression, or put into one, is answered.
#[test]
fn broken_expressions_are_answered() {
    for text in COMPILE.iter().chain(FAIL) {
        for (at, _) in text.char_indices() {
            let (begin, end) = text.split_at(at);
            let mut rest = end.chars();
            rest.next();
            let mut broken = vec![begin.to_owned(), format!("{begin}{}", rest.as_str())];
            let odd = ["(", "]", "\\", "'", "0", "é"];
            broken.extend(odd.map(|odd| format!("{begin}{odd}{end}")));
            for broken in broken {
                drop(check(&broken));
            }
        }
    }
}

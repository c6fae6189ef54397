use std::{collections::BTreeSet, fmt::Write};

use serde_json::{Value, json};

use super::*;
use crate::path::Path;

/// Lines of `input (a JSON string) TAB result of sigs.k8s.io/yaml's YAMLToJSON, or ERR`.
const GO: &str = include_str!("go.tsv");

pub(super) fn vectors() -> impl Iterator<Item = (String, Option<Value>)> {
    GO.lines().map(|line| {
        let (input, output) = line.split_once('\t').unwrap();
        let output = (output != "ERR").then(|| serde_json::from_str(output).unwrap());
        (serde_json::from_str(input).unwrap(), output)
    })
}

/// Compares JSON numbers by value: 2.0 equals 2.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.keys().eq(b.keys()) && a.values().zip(b.values()).all(|(a, b)| same(a, b))
        }
        (a, b) => a == b,
    }
}

#[test]
fn documents_have_the_meaning_of_go() {
    for (input, expected) in vectors() {
        let end = if input.ends_with('\n') { "" } else { "\n" };
        let found = document::value(format!("{input}{end}").as_bytes(), &mut Limits::default());
        let agrees = match (&found, &expected) {
            (Ok(found), Some(expected)) => same(found, expected),
            (found, expected) => found.is_err() && expected.is_none(),
        };
        assert!(agrees, "{input:?}: {found:?}, not {expected:?}");
    }
}

fn all(input: &str) -> Vec<Result<Value, String>> {
    documents(input.as_bytes())
        .map(|read| read.map_err(|error| error.to_string()))
        .collect()
}

#[test]
fn streams_are_split_and_detected_as_in_apimachinery() {
    assert_each!(|input, values| all(input) => values.into_iter().map(Ok).collect::<Vec<_>>();
        "" => vec![];
        "# only\n" => vec![json!(null)];
        "a: 1\n---\n# x\n---\nb: 2\n---\n" => vec![json!({"a": 1}), json!(null), json!({"b": 2})];
        "---\na: 1\r\n--- # c\r\nb: 2" => vec![json!({"a": 1}), json!({"b": 2})];
        " {\"a\": 1}{\"a\": 2.0, \"a\": 3.0}\n[4]" => vec![json!({"a": 1}), json!({"a": 3}), json!([4])];
        "{\"a\": 1}\n---\nb: yes\n" => vec![json!({"a": 1}), json!({"b": true})];
        "{a: 1}\n---\nb: 2\n" => vec![json!({"a": 1}), json!({"b": 2})];
    );
}

#[test]
fn errors_name_the_document_and_the_line_of_the_file() {
    for (input, message) in ::tests::rows![
        "a: b: c\n" => "line 1, column 5: mapping values are not allowed in this context";
        "a: 1\r\n---\r\nb: 1\r\nc: @\r\n" => "document 2, line 4, column 4: ";
        "a: 1\n--- b\nc: 1\n" => "line 2, column 4: only a comment may follow";
        "{\"a\":1}{\"b\":2}\n {\"c\"" => "document 3, line 2, column 5: invalid JSON";
        "a: 1\n---\n\n*x\n" => "document 2, line 4, column 1: unknown anchor \"x\"";
        "é: \"\u{7f}\"\n" => "line 1, column 5: control characters are not allowed";
        "a: .inf\n" => "line 1, column 4: infinity";
        "{{ .Values.x }}: 1\n" => "line 1, column 1: a mapping or sequence cannot be a key";
    ] {
        let error = all(input).into_iter().find_map(Result::err);
        let error = error.unwrap_or_default();
        assert_rows!(error.contains(message) && error.starts_with(&message[..5]) => true, "{input:?}: {error}");
    }
}

/// Parses a path such as `a.0.b`; numbers are indexes.
fn path(text: &str) -> Path {
    let steps = text.split('.').filter(|step| !step.is_empty());
    steps.fold(Path::root(), |path, step| match step.parse() {
        Ok(index) => path.index(index),
        Err(_) => path.key(step),
    })
}

#[test]
fn values_are_located_in_the_file() {
    let yaml = "a: 1\r\n---\r\n# é\r\nspec:\r\n  on: 'yes'\r\n  list:\r\n  - 1.10\r\n  - é: {x: \"é\\n\", z: 0644 }\r\n";
    let json = "{\"a\": 1} {\"b\":\n [true]}\n";
    let merge =
        "base: &b {x: 1, z: 2}\nc:\n  x: 9\n  <<: *b\n  x: 3\nd: *b\ne: {<<: [{x: 4}, *b]}\n";
    for (input, document, steps, expected) in [
        (yaml, 0, "a", "4 in line 1: 1"),
        (yaml, 1, "", "1 in line 4"),
        (yaml, 1, "spec", "1 in line 4"),
        (yaml, 1, "spec.true", "7 in line 5: text yes"),
        (yaml, 1, "spec.list", "3 in line 6"),
        (yaml, 1, "spec.list.0", "5 in line 7: 1.10"),
        (yaml, 1, "spec.list.1.é.x", "12 in line 8: text é\n"),
        (yaml, 1, "spec.list.1.é.z", "22 in line 8: 0644"),
        (yaml, 1, "spec.0", "nowhere"),
        (yaml, 2, "", "nowhere"),
        (json, 1, "b.0", "3 in line 2: true"),
        (json, 1, "b", "11 in line 1"),
        (merge, 0, "c.x", "6 in line 5: 3"),
        (merge, 0, "c.z", "20 in line 1: 2"),
        (merge, 0, "d.x", "14 in line 1: 1"),
        (merge, 0, "e.x", "14 in line 7: 4"),
    ] {
        let found = locate(input.as_bytes(), document, &path(steps));
        let found = found.map_or("nowhere".to_owned(), |found| {
            let place = format!("{} in line {}", found.column, found.line);
            match found.scalar {
                Some(scalar) if scalar.style == Style::Quoted => {
                    format!("{place}: text {}", scalar.text)
                }
                Some(scalar) => format!("{place}: {}", scalar.text),
                None => place,
            }
        });
        assert_eq!(found, expected, "{steps} in {input:?}");
    }
}

#[test]
fn missing_values_are_located_by_their_parents() {
    let input = "a: 1\nspec:\n  list:\n  - x: {z: 1}\n";
    let paths = "spec.list.0.x.z spec.list.0.x.missing.more spec.list.7 other ".split(' ');
    let paths: Vec<_> = paths.map(path).collect();
    assert_rows!(locate_nearest(input.as_bytes(), 0, &paths) => [(4, 12), (4, 8), (3, 3), (1, 1), (1, 1)].map(Some));
    assert_eq!(locate_nearest(input.as_bytes(), 1, &paths), [None; 5]);
}

#[test]
fn many_values_are_located_in_one_pass() {
    let keys: Vec<_> = (0..20_000).map(|at| format!("k{at}")).collect();
    let wide = format!("{{{}: 1.10}}\n", keys.join(": 1.10, "));
    let paths: Vec<_> = keys.iter().map(|key| path(key)).collect();
    let places = locate_all(wide.as_bytes(), 0, &paths);
    assert_eq!(places.last(), Some(&Some((1, wide.len() - 5))));
    assert!(places.iter().all(Option::is_some));
    assert_rows!(written_all(wide.as_bytes(), 0, &paths).into_iter().all(|text| text.unwrap().text == "1.10") => true);
    // Each mapping is merged twice by the next one: a missing key has 2^40 paths.
    let mut merges = "m0: &m0 {x: 1}\n".to_owned();
    for at in 1..=40 {
        let below = at - 1;
        writeln!(merges, "m{at}: &m{at} {{<<: [*m{below}, *m{below}]}}").unwrap();
    }
    let paths = [path("m0.x"), path("m40.x"), path("m40.y"), path("m40.x")];
    assert_rows!(locate_all(merges.as_bytes(), 0, &paths) => [Some((1, 13)), Some((1, 13)), None, None]);
}

#[test]
fn limits_are_enforced() {
    let small = with!(Limits::default() => bytes: 40, depth: 3, documents: 2, values: 40, memory: 1 << 20, text: 40);
    let message = |error: Error| error.to_string();
    assert_each!(|input, expected|
        documents_with(input.as_bytes(), small).find_map(Result::err).map(message).as_deref() => expected;
        "a: 1\n---\nb: 1\n---\nc: 1\n" => Some("document 3, more documents than the limit of 2");
        "a: 1\n---\nb: 1\n---\n" => None;
        "[[[1]]]\n" => None;
        "[[[[1]]]]\n" => Some("line 1, column 4: nested deeper than the limit of 3");
        "a: {b: {c: {}}}\n" => Some("line 1, column 12: nested deeper than the limit of 3");
        "a: &a [1]\nb: {c: {d: *a}}\n" => Some("line 1, column 4: nested deeper than the limit of 3");
        "a: &a 0123456789\nb: [*a,*a,*a,*a]\n" => None;
        "a: &a 0123456789\nb: [*a,*a,*a,*a,*a]\n" => Some("line 1, column 4: document contains excessive aliasing");
        "a: 0123456789012345678901234567890123456789\n" => Some("larger than the limit of 40 bytes");
    );
}

fn limited(values: usize, memory: usize, text: usize) -> Limits {
    with!(Limits, values, memory, text)
}

/// Values, memory and the text that aliases repeat: one of them is limited, and the remaining budget after all
/// documents.
#[test]
fn limits_apply_to_all_documents_together() {
    let usual = Limits::default();
    let (v, m, t) = (usual.values, usual.memory, usual.text);
    let once = "a: &a 12345\nb: *a\n";
    let third = format!("{once}---\n{once}---\na: &a 1\nb: *a\n");
    for (input, limits, left) in ::tests::rows![
        "a: 1\nb: 2\nc: 3\n", limited(3, m, t) => Some(0);
        "[1,2,3,4]\n", limited(3, m, t) => None;
        "? 1\n: [1]\n", limited(3, m, t) => Some(1);
        "a: &a [1]\nb: *a\n", limited(3, m, t) => None;
        "a: 1\n---\n[1,2]\n", limited(3, m, t) => Some(0);
        "a: 1\n---\n[1,2,3]\n", limited(3, m, t) => None;
        "{\"a\":1}", limited(3, m, t) => Some(2);
        "{\"a\":[1,2]}", limited(3, m, t) => Some(0);
        "{\"a\":[1,2,3]}", limited(3, m, t) => None;
        "{\"a\":\",,,,\"}", limited(3, m, t) => Some(2);
        // The first entry of a mapping takes 640 bytes and its key, that of a sequence 128; further ones up to 128.
        "a: {b: {c: 1}}\n", limited(v, 3 * 657, t) => Some(0);
        "a: {b: {c: 1}}\n", limited(v, 3 * 657 - 1, t) => None;
        "a:\n  b:\n    c: 1\n", limited(v, 3 * 657 - 1, t) => None;
        "{\"a\": {\"b\": {\"c\": 1}}}", limited(v, 3000, t) => Some(3000 - 3 * 657);
        "{\"a\": {\"b\": {\"c\": 1}}}", limited(v, 3 * 657 - 1, t) => None;
        "- []\n- {}\n- abcdefghij\n", limited(v, 128 + 2 * 64 + 26, t) => Some(0);
        "- []\n- {}\n- abcdefghij\n", limited(v, 128 + 2 * 64 + 25, t) => None;
        "a: 1\n---\na: 1\n", limited(v, 2 * 657, t) => Some(0);
        "a: 1\n---\na: 1\n", limited(v, 2 * 657 - 1, t) => None;
        // The complete reader also needs nodes, whose budget it returns.
        "a: &a [1]\nb: *a\n", limited(v, 8 << 10, t) => Some((8 << 10) - 674 - 256);
        "a: &a [1]\nb: *a\n", limited(v, 1500, t) => None;
        "a: &a 12345\nb: c\n", limited(v, m, 10) => Some(10);
        once, limited(v, m, 10) => Some(5);
        &format!("{once}---\n{once}"), limited(v, m, 10) => Some(0);
        &third, limited(v, m, 10) => None;
        "a: &a {12345: 67}\nb: {<<: *a}\n", limited(v, m, 10) => Some(3);
        "- &a 123456\n- *a\n- *a\n---\n1\n", limited(v, m, 10) => None;
    ] {
        let mut documents = documents_with(input.as_bytes(), limits);
        let error = documents.find_map(Result::err);
        let rest = documents.remaining_values();
        let rest = match (limits.values == v, limits.memory == m) {
            (false, _) => rest.values,
            (_, false) => rest.memory,
            _ => rest.text,
        };
        assert_rows!(error.is_none().then_some(rest) => left, "{input:?}: {error:?}");
        let is_of_values = |error: &Error| error.message().starts_with("too many values");
        assert_rows!(error.as_ref().is_none_or(|error| limits.values == v || is_of_values(error)) => true);
        assert_rows!(error.is_none_or(|error| limits.memory == m || error.is_limit()) => true, "{input:?}");
    }
    // The other documents are counted after the failed one.
    for (input, left) in [(&*third, 0), ("- &a 123456\n- *a\n- *a\n---\n1\n", 4)] {
        let mut documents = documents_with(input.as_bytes(), limited(v, m, 10));
        assert_rows!((documents.by_ref().filter(Result::is_err).count(), documents.remaining_values().text) => (1, left), "{input:?}");
    }
}

#[test]
fn complete_reader_joins_characters_across_chunks() {
    for before in 0..4 {
        let text = format!("{}{}", "x".repeat(before), "é🌊".repeat(20_000));
        // The fast reader does not support tags.
        let read: Vec<_> = documents(format!("!!str a: {text}\n").as_bytes()).collect();
        assert!(read == [Ok(json!({"a": text}))], "{before}");
    }
}

#[test]
fn reading_ends_at_the_first_limit() {
    let small = with!(Limits, values: 3);
    let mut documents = documents_with(b"a: 1\n---\n[1,2,3]\n---\nb: 1\n---\n*x\n", small);
    assert_rows!(documents.by_ref().map(|read| read.is_ok()).collect::<Vec<bool>>() => [true, false]);
    assert!(documents.next().is_none());
    assert!(documents.reserve(1) && !documents.reserve(usize::MAX));
}

#[test]
fn writer_receives_the_bytes_of_the_text() {
    let within = |value, at: u8| json!({(at.to_string()): value, "x": "y"});
    let deep = (0..200).fold(json!(["a", "b: c\n", {}]), within);
    let wide = (0..20_000).map(|at| (at.to_string(), json!([at, "text"])));
    let wide: Value = wide.collect();
    for value in [json!("a\nb"), json!(null), deep, wide] {
        let mut written = Vec::new();
        write_to(&mut written, &value).unwrap();
        assert!(written == to_string(&value).unwrap().into_bytes());
    }
}

#[test]
fn bombs_and_traps_are_rejected() {
    let mut aliases = "a0: &a0 x\n".to_owned();
    for level in 1..9 {
        let below = vec![format!("*a{}", level - 1); 9].join(",");
        writeln!(aliases, "a{level}: &a{level} [{below}]").unwrap();
    }
    for input in [
        "[".repeat(600),
        "{a: ".repeat(600),
        "- ".repeat(600),
        format!("{}: 1", "k".repeat(1100)),
        aliases,
        "a: &a\n  <<: *a\n".to_owned(),
        "[1, !2,]".to_owned(),
        "[\"x\"!2,]".to_owned(),
        "{a: &b !<x>,}".to_owned(),
        "a: 1\n\u{feff}b: 2".to_owned(),
        "[a?, b]".to_owned(),
    ] {
        let found = all(&input);
        let is_rejected = !found.is_empty() && found.iter().all(Result::is_err);
        assert_rows!(is_rejected => true, "{}", input.get(..20).unwrap_or(&input));
    }
}

#[test]
fn repeated_key_is_found() {
    let at = |key: &str, line| Some((key.to_owned(), line));
    assert_each!(|input, document, expected| repeated(input.as_bytes(), document) => expected;
        "a: 1\nb: {a: 2}\n", 0 => None;
        "a: 1\nb: 2\na: 3\n", 0 => at("a", 3);
        "- {x: 1}\n- y: {z: 1,\n  'z': 2}\n", 0 => at("z", 3);
        "{\"a\": [{\"b\": 1,\n\"b\": 1}]}", 0 => at("b", 2);
        "a: 1\na: 2\n---\nb: 1\n", 1 => None;
        "a: 1\n---\nb: 1\nb: 1\n", 1 => at("b", 4);
        "a: &a {x: 1}\nb: {<<: *a, x: 2}\nc: {<<: *a, <<: *a}\n", 0 => None;
        "1: a\n'1': b\n", 0 => at("1", 2);
        "a: [\n", 0 => None;
        "", 0 => None;
    );
}

/// Lists the repeated keys of documents, one line each.
fn list_repeated(input: &str, documents: &[usize]) -> Vec<String> {
    let found = repeated_all(input.as_bytes(), &documents.iter().copied().collect());
    let lines = found.into_iter().map(|(document, found)| match found {
        None => format!("{document}: unreadable"),
        Some(found) => {
            assert_eq!(found.count, found.keys.len());
            let keys = found.keys.iter();
            let keys = keys.map(|(path, line)| format!(" {path}:{line}"));
            format!("{document}:{}", keys.collect::<String>())
        }
    });
    lines.collect()
}

#[test]
fn repeated_keys_are_found_with_their_paths() {
    let yaml =
        "a: 1\n---\nb:\n- c: {d: 1, d: 2}\n  c: {d: {}}\nb: 2\nb: 3\n---\n[\n---\na: 1\na: 1\n";
    // Escapes and spaces that YAML lacks, and strings with the punctuation of JSON.
    let json = "{\"a\":[0,{\"b\\/c\":\"}],{\\\\\",\n\t\"\\u0062/c\":\"\\ud83c\\udf0a\\\"\"}],\"a\":{\"x\":1}}{\"a\":[{\"a\":1},{\"a\":1}]}\n\
                {\"a\":1,\n\"a\":1}";
    assert_each!(|input, documents, expected| list_repeated(input, documents) => expected;
        yaml, &[0, 1, 2, 7][..] => &["0:", "1: b[0].c.d:4 b[0].c:5 b:6 b:7", "2: unreadable"][..];
        yaml, &[3] => &["3: a:12"];
        yaml, &[] => &[];
        json, &[0, 1, 2] => &["0: a[1][\"b/c\"]:2 a:2", "1:", "2: a:4"];
    );
    for input in [
        "a: 1\n".repeat(1000),
        format!("{{{}}}", ["\"a\":1"; 1000].join(",\n")),
    ] {
        let found = repeated_all(input.as_bytes(), &BTreeSet::from([0])).remove(&0);
        let found = found.flatten().unwrap();
        assert_rows!((found.keys.len(), found.count, found.keys[99].1) => (MAX_REPEATED, 999, 101));
    }
    // The nodes of a document take more memory than its values.
    let large = format!("[{}]", "a,".repeat(600_000));
    let read: Vec<bool> = documents(large.as_bytes())
        .map(|document| document.is_ok())
        .collect();
    assert_eq!(read, [true]);
    assert_eq!(list_repeated(&large, &[0]), ["0: unreadable"]);
}

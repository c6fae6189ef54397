use serde_json::{Value, json};

use super::*;

/// `input (a JSON string) TAB what sigs.k8s.io/yaml's YAMLToJSON returns, or ERR`.
const GO: &str = include_str!("go.tsv");

pub(super) fn vectors() -> impl Iterator<Item = (String, Option<Value>)> {
    GO.lines().map(|line| {
        let (input, output) = line.split_once('\t').unwrap();
        let output = (output != "ERR").then(|| serde_json::from_str(output).unwrap());
        (serde_json::from_str(input).unwrap(), output)
    })
}

/// Equal as JSON numbers: 2.0 is 2.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
        }
        (a, b) => a == b,
    }
}

#[test]
fn one_document_means_what_it_means_to_go() {
    let mut wrong = Vec::new();
    for (input, expected) in vectors() {
        let text = if input.ends_with('\n') {
            input.clone()
        } else {
            format!("{input}\n")
        };
        let got = chunk::value(text.as_bytes(), &Limits::default());
        let agrees = match (&got, &expected) {
            (Ok(got), Some(expected)) => same(got, expected),
            (Err(_), None) => true,
            _ => false,
        };
        if !agrees {
            wrong.push(format!("{input:?}: {got:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn all(input: &str) -> Vec<Result<Value, String>> {
    documents(input.as_bytes())
        .map(|read| read.map_err(|error| error.to_string()))
        .collect()
}

#[test]
fn streams_are_cut_and_sniffed_as_in_apimachinery() {
    let cases = [
        ("", vec![]),
        ("# only\n", vec![json!(null)]),
        (
            "a: 1\n---\n# x\n---\nb: 2\n---\n",
            vec![json!({"a": 1}), json!(null), json!({"b": 2})],
        ),
        (
            "---\na: 1\r\n--- # c\r\nb: 2",
            vec![json!({"a": 1}), json!({"b": 2})],
        ),
        (
            " {\"a\": 1}{\"a\": 2.0, \"a\": 3.0}\n[4]",
            vec![json!({"a": 1}), json!({"a": 3}), json!([4])],
        ),
        (
            "{\"a\": 1}\n---\nb: yes\n",
            vec![json!({"a": 1}), json!({"b": true})],
        ),
        (
            "{a: 1}\n---\nb: 2\n",
            vec![json!({"a": 1}), json!({"b": 2})],
        ),
    ];
    for (input, values) in cases {
        assert_eq!(
            all(input),
            values.into_iter().map(Ok).collect::<Vec<_>>(),
            "{input:?}"
        );
    }
}

#[test]
fn errors_name_the_document_and_the_line_of_the_file() {
    let cases = [
        (
            "a: b: c\n",
            "line 1, column 5: mapping values are not allowed in this context",
        ),
        (
            "a: 1\r\n---\r\nb: 1\r\nc: @\r\n",
            "document 2, line 4, column 4: ",
        ),
        (
            "a: 1\n--- b\nc: 1\n",
            "line 2, column 4: only a comment may follow",
        ),
        (
            "{\"a\":1}{\"b\":2}\n {\"c\"",
            "document 3, line 2, column 5: invalid JSON",
        ),
        (
            "a: 1\n---\n\n*x\n",
            "document 2, line 4, column 1: unknown anchor \"x\"",
        ),
        (
            "é: \"\u{7f}\"\n",
            "line 1, column 5: control characters are not allowed",
        ),
        ("a: .inf\n", "line 1, column 4: infinity"),
        (
            "{{ .Values.x }}: 1\n",
            "line 1, column 1: a mapping or sequence cannot be a key",
        ),
    ];
    for (input, message) in cases {
        let error = all(input)
            .into_iter()
            .find_map(Result::err)
            .unwrap_or_default();
        assert!(
            error.contains(message) && error.starts_with(&message[..5]),
            "{input:?}: {error}"
        );
    }
}

use manifests::content::{Builder, Content, Limits as ContentLimits};

use super::*;

fn content(files: &[(&str, &[u8])]) -> Content {
    let mut builder = Builder::new(ContentLimits::default());
    for (path, text) in files {
        builder.add(path, 0o644, &mut &**text).unwrap();
    }
    builder.finish()
}

/// One line for each document.
fn told(files: &[(&str, &[u8])]) -> Vec<String> {
    let content = content(files);
    let tell = |meta: Result<Meta<'_>, Fault>| match meta {
        Ok(it) => format!(
            "{}:{} {} {}/{}",
            it.file, it.line, it.schema, it.package, it.name
        ),
        Err(fault) => format!("{} [{}]", fault, fault.package.clone().unwrap_or_default()),
    };
    let mut walked = Vec::new();
    let _ = walk(Source::Content(&content), &Limits::default(), |meta| {
        walked.push(tell(meta));
        ControlFlow::<()>::Continue(())
    })
    .unwrap();
    for threads in [1, 4] {
        let limits = Limits {
            threads,
            ..Limits::default()
        };
        assert_eq!(
            collect(Source::Content(&content), &limits, tell).unwrap(),
            walked
        );
    }
    walked
}

fn one(text: &str) -> Vec<String> {
    told(&[("f", text.as_bytes())])
}

// parity: load-2
#[test]
fn documents_of_every_schema_are_found_in_json_and_yaml() {
    assert_eq!(
        told(&[
            ("b/c.json", b"\n{\"schema\":\"olm.package\",\"name\":\"p\"}\n{\"schema\":\"x\",\"package\":\"p\"}"),
            ("a.yaml", b"---\n# one\nschema: olm.channel\nname: c\npackage: p\n--- # two\nschema: other\n"),
            ("z", b""),
        ]),
        ["a.yaml:2 olm.channel p/c", "a.yaml:7 other /", "b/c.json:2 olm.package /p", "b/c.json:3 x p/"]
    );
}

// parity: load-6
#[test]
fn keys_are_folded_and_must_not_meet() {
    assert_eq!(
        one(r#"{"Schema":"s","PACKAGE":"p","nAme":"n"}"#),
        ["f:1 s p/n"]
    );
    assert_eq!(
        one(r#"{"Schema":"s","schema":"t","package":"p"}"#),
        [r#"f:1: duplicate keys for key "schema": [Schema schema] [p]"#]
    );
    assert_eq!(
        one("{\"schema\":\"s\",\"Straße\":1,\"STRASSE\":2,\"b\":1,\"B\":1}"),
        [
            r#"f:1: [duplicate keys for key "b": [B b], duplicate keys for key "strasse": [STRASSE Straße]] []"#
        ]
    );
    // Of equal keys the last counts.
    assert_eq!(one(r#"{"schema":"s","schema":"t"}"#), ["f:1 t /"]);
    let many: Vec<String> = (0..50).map(|at| format!("\"k{at}\":1")).collect();
    let many = many.join(",") + ",";
    assert_eq!(one(&format!("{{{many}\"schema\":\"s\"}}")), ["f:1 s /"]);
    assert_eq!(
        one(&format!("{{{many}\"schema\":\"s\",\"K7\":1}}")),
        [r#"f:1: duplicate keys for key "k7": [K7 k7] []"#]
    );
}

#[test]
fn a_document_that_says_nothing_is_told_and_the_next_is_read() {
    assert_eq!(
        one(
            r#"{"name":"<n>"} {"schema":7,"package":"p"} {"schema":"s","name":null} {"schema":""} {"schema":"s"}"#
        ),
        [
            r#"f:1: object '{"name":"<n>"}' is missing root schema field []"#,
            r#"f:1: expected value for key "schema" to be a string, got number: 7 [p]"#,
            r#"f:1: expected value for key "name" to be a string, got null: null []"#,
            r#"f:1: object '{"schema":""}' is missing root schema field []"#,
            "f:1 s /",
        ]
    );
    // Comments alone are a document.
    assert_eq!(
        one("# nothing\n"),
        ["f:1: object '' is missing root schema field []"]
    );
    assert_eq!(one("schema: s\n---\n# end\n").len(), 2);
}

// parity: load-6
#[test]
fn what_is_no_object_or_no_text_at_all_is_told_with_a_mark() {
    let told = one("[1, 2]");
    assert!(
        told[0].starts_with("f:1: json: cannot unmarshal array into Go value"),
        "{told:?}"
    );
    let told = one("{\"schema\": \"s\"}\n{\"schema\": \"t\"}\n{\"schema\": x}");
    assert_eq!(told[..2], ["f:1 s /", "f:2 t /"]);
    assert_eq!(
        told[2],
        "f:3: invalid character 'x' looking for beginning of value at offset 12 (indicated by <==)\n {\"schema\": x <== } []"
    );
    let told = one("schema: s\nname: [\n");
    assert!(
        told[0].contains("error converting YAML to JSON"),
        "{told:?}"
    );
    let told = self::told(&[("f", b"\xff\xfe\x00binary")]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        one("schema: s\n--- x\nschema: t"),
        ["f:2: invalid Yaml document separator: x []"]
    );
}

#[test]
fn what_begins_like_json_may_be_yaml() {
    assert_eq!(
        one("{schema: s, name: m}\n---\nschema: t\n"),
        ["f:1 s /m", "f:3 t /"]
    );
    assert_eq!(
        one("{\"schema\":\"s\"}\n---\n{\"schema\":\"t\"}\n---\nschema: u\n"),
        ["f:1 s /", "f:3 t /", "f:5 u /"]
    );
    // Broken JSON is told as such, not as YAML.
    let told = one("{\"schema\": \"s\",\n \"name\" \"n\"}");
    assert!(
        told[0].starts_with("f:2: invalid character '\"' after object key"),
        "{told:?}"
    );
}

/// The values of all properties, and the lines of unquoted numbers.
fn properties(text: &str) -> (Vec<String>, Vec<usize>) {
    let content = content(&[("f", text.as_bytes())]);
    let found = collect(Source::Content(&content), &Limits::default(), |meta| {
        let meta = meta.unwrap();
        let properties = meta.root.field("properties");
        let properties = properties.into_iter().flat_map(Node::items);
        let values = properties.map(|property| {
            String::from_utf8_lossy(
                property
                    .field("value")
                    .or(property.get("value"))
                    .unwrap()
                    .raw(),
            )
            .into_owned()
        });
        let lines = meta.unquoted.iter().map(|number| number.line);
        (values.collect(), lines.collect())
    });
    let [found] = &found.unwrap()[..] else {
        panic!("{text}");
    };
    found.clone()
}

// parity: max-olm-14
#[test]
fn max_openshift_keeps_its_digits() {
    let text = "schema: olm.bundle\nproperties:\n- type: olm.maxOpenShiftVersion\n  value: 4.10\n- type: other\n  value: 4.10\n";
    assert_eq!(
        properties(text),
        (vec!["\"4.10\"".into(), "4.1".into()], vec![4])
    );
    let text = "{\"schema\": \"olm.bundle\", \"properties\": [\n{\"type\": \"olm.maxOpenShiftVersion\",\n\"value\": 4.10 },\n\
                {\"type\": \"other\", \"value\": 4.10}]}";
    assert_eq!(
        properties(text),
        (vec!["\"4.10\"".into(), "4.10".into()], vec![3])
    );
    // Go ignores the case of names, and JSON has escapes.
    let text = "Schema: olm.bundle\nProperties:\n- Type: olm.maxOpenShiftVersion\n  Value: 4.10\n";
    assert_eq!(properties(text), (vec!["\"4.10\"".into()], vec![4]));
    let text = "{\"schema\": \"olm.bundle\", \"properties\": [{\"type\": \"olm.maxOpenShiftV\\u0065rsion\", \"value\": 4.10}]}";
    assert_eq!(properties(text), (vec!["\"4.10\"".into()], vec![1]));
    // The property has no meaning in other schemas.
    let text = "{\"schema\": \"x\", \"properties\": [{\"type\": \"olm.maxOpenShiftVersion\", \"value\": 4.10}]}";
    assert_eq!(properties(text), (vec!["4.10".into()], vec![]));
}

// parity: max-5
#[test]
fn max_openshift_key_of_a_bundle_is_a_property() {
    let key = "\"operators.coreos.com/maxOpenShiftVersion\"";
    let same = "{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.8\"}";
    for (rest, expected, unquoted) in ::tests::rows![
        format!("{key}: \"4.8\""), &["\"4.8\""][..] => &[][..];
        format!("{key}:\n4.10"), &["\"4.10\""] => &[2];
        format!("{key}: \"4.8\", \"properties\": []"), &["\"4.8\""] => &[];
        format!("{key}: \"4.8\", \"properties\": null"), &["\"4.8\""] => &[];
        format!("\"properties\": [ {{\"type\": \"a\", \"value\": 1}} ], {key}: null"), &["1", "null"] => &[];
        // The lower release counts.
        format!("{key}: \"4.8\", \"properties\": [{same}]"), &["\"4.8\""] => &[];
        format!("{key}: \"4.9\", \"properties\": [{same}]"), &["\"4.8\""] => &[];
        format!("{key}: \"4.7\", \"properties\": [{same}]"), &["\"4.7\""] => &[];
        format!("\"properties\": [{}],\n{key}: 4.7", same.replace("\"4.8\"", "4.80")), &["\"4.7\""] => &[2, 1];
        format!("{key}: \"4.7\", \"properties\": [{}]", same.replace("4.8", "latest")), &["\"4.7\""] => &[];
        format!("{key}: null, \"properties\": [{same}]"), &["\"4.8\""] => &[];
        format!("{key}: \"4.7\", \"properties\": [{same}, {same}]"), &["\"4.8\"", "\"4.8\""] => &[];
        // The property declares the same release in another form.
        format!("{key}: \" 4.8 \", \"properties\": [{same}]"), &["\"4.8\""] => &[];
        // Something else is an error, which others report.
        format!("{key}: \"4.8\", \"properties\": {{}}"), &[] => &[];
    ] {
        let text = format!("{{\"schema\": \"olm.bundle\", {rest}}}\n");
        let expected: Vec<String> = expected.iter().map(|&json| json.to_owned()).collect();
        assert_eq!(properties(&text), (expected, unquoted.to_vec()), "{text}");
    }
    let yaml = "schema: olm.bundle\n# declared\noperators.coreos.com/maxOpenShiftVersion: 4.10\n";
    assert_eq!(properties(yaml), (vec!["\"4.10\"".into()], vec![3]));
}

#[test]
fn values_have_lines() {
    let text = b"{\"schema\":\"s\"}\n{\n \"schema\":\"s\",\n \"name\":\n \"n\"}";
    let content = content(&[("f", text)]);
    let lines = collect(Source::Content(&content), &Limits::default(), |meta| {
        let meta = meta.unwrap();
        meta.root.field("name").map(|name| meta.line_of(name))
    });
    assert_eq!(lines.unwrap(), [None, Some(5)]);
}

// parity: load-8
#[test]
fn a_walk_ends_when_it_is_told_to() {
    let content = content(&[
        ("a", b"{\"schema\":\"s\"}{\"schema\":\"t\"}"),
        ("b", b"junk: ["),
    ]);
    let mut seen = 0;
    let flow = walk(Source::Content(&content), &Limits::default(), |_| {
        seen += 1;
        ControlFlow::Break("enough")
    });
    assert_eq!((flow.unwrap(), seen), (ControlFlow::Break("enough"), 1));
}

// parity: load-10
#[test]
fn limits_are_told() {
    let many = "{\"schema\":\"s\"}".repeat(20);
    let content = content(&[("a", many.as_bytes()), ("b", many.as_bytes())]);
    let limits = Limits {
        documents: 25,
        ..Limits::default()
    };
    let error = collect(Source::Content(&content), &limits, |_| ()).unwrap_err();
    assert!(
        error.to_string().contains("more than 25 documents"),
        "{error}"
    );
    let large = format!("{{\"schema\":\"s\",\"x\":\"{}\"}}", "x".repeat(1 << 20));
    let content = self::content(&[("a", large.as_bytes()), ("b", b"{\"schema\":\"s\"}")]);
    let limits = Limits {
        document: 1 << 18,
        ..Limits::default()
    };
    let told = collect(Source::Content(&content), &limits, |meta| {
        meta.err().map(|it| it.message)
    });
    assert_eq!(
        told.unwrap(),
        [
            Some("a document is larger than the limit of 262144 bytes; split it".to_owned()),
            None
        ]
    );
}

#[test]
fn what_is_no_regular_file_is_told_and_never_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).unwrap();
    std::fs::write(folder.path().join("x"), "{\"schema\":\"s\"}").unwrap();
    let told = collect(
        Source::Folder(folder.path()),
        &Limits::default(),
        |meta| match meta {
            Ok(meta) => meta.schema.into_owned(),
            Err(fault) => fault.to_string(),
        },
    )
    .unwrap();
    assert!(
        told[0].starts_with("dangling:1: cannot be opened"),
        "{told:?}"
    );
    assert_eq!(told[1], "s");
    assert!(told[2].contains("not a regular file"), "{told:?}");
}

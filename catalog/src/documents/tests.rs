use super::*;
use crate::testing::{content, has, list, starts};

fn walked_lines<T: AsRef<[u8]>>(files: &[(&str, T)]) -> Vec<String> {
    let content = content(files);
    let describe = |meta: Result<Meta<'_>, ReadError>| match meta {
        Ok(meta) => {
            let (file, line, schema) = (meta.file, meta.line, &meta.schema);
            format!("{file}:{line} {schema} {}/{}", meta.package, meta.name)
        }
        Err(fault) => format!("{} [{}]", fault, fault.package.clone().unwrap_or_default()),
    };
    let mut walked = Vec::new();
    let flow = walk(Source::Content(&content), &Limits::default(), |meta| {
        walked.push(describe(meta));
        ControlFlow::<()>::Continue(())
    });
    assert!(flow.unwrap().is_continue());
    for threads in [1, 4] {
        assert_rows!(collect(Source::Content(&content), &with!(Limits, threads), describe).unwrap() => walked);
    }
    walked
}

// parity: load-2
#[test]
fn documents_of_every_schema_are_found_in_json_and_yaml() {
    assert_rows!(walked_lines(&::tests::rows![
        "b/c.json" => "\n{\"schema\":\"olm.package\",\"name\":\"p\"}\n{\"schema\":\"x\",\"package\":\"p\"}";
        "a.yaml" => "---\n# one\nschema: olm.channel\nname: c\npackage: p\n--- # two\nschema: other\n";
        "z" => "";
    ]) => ["a.yaml:2 olm.channel p/c", "a.yaml:7 other /", "b/c.json:2 olm.package /p", "b/c.json:3 x p/"]);
}

// parity: load-6
#[test]
fn documents_and_faults_are_visited_in_order() {
    let many = list(0..50, |at| format!("\"k{at}\":1,"));
    for (text, expected) in ::tests::rows![
        // Keys are folded and must not collide; of equal keys, the last one is used.
        r#"{"Schema":"s","PACKAGE":"p","nAme":"n"}"# => &["f:1 s p/n"][..];
        r#"{"Schema":"s","schema":"t","package":"p"}"# => &[r#"f:1: duplicate keys for key "schema": [Schema schema] [p]"#];
        "{\"schema\":\"s\",\"Straße\":1,\"STRASSE\":2,\"b\":1,\"B\":1}"
            => &[r#"f:1: [duplicate keys for key "b": [B b], duplicate keys for key "strasse": [STRASSE Straße]] []"#];
        r#"{"schema":"s","schema":"t"}"# => &["f:1 t /"];
        &format!("{{{many}\"schema\":\"s\"}}") => &["f:1 s /"];
        &format!("{{{many}\"schema\":\"s\",\"K7\":1}}") => &[r#"f:1: duplicate keys for key "k7": [K7 k7] []"#];
        // An error; the next document is read.
        r#"{"name":"<n>"} {"schema":7,"package":"p"} {"schema":"s","name":null} {"schema":""} {"schema":"s"}"# => &[
            r#"f:1: object '{"name":"<n>"}' is missing root schema field []"#,
            r#"f:1: expected value for key "schema" to be a string, got number: 7 [p]"#,
            r#"f:1: expected value for key "name" to be a string, got null: null []"#,
            r#"f:1: object '{"schema":""}' is missing root schema field []"#,
            "f:1 s /",
        ];
        // A document that contains only comments.
        "# nothing\n" => &["f:1: object '' is missing root schema field []"];
        "schema: s\n---\n# end\n" => &["f:1 s /", "f:3: object '' is missing root schema field []"];
        // Not an object, and not text.
        "[1, 2]" => &["f:1: json: cannot unmarshal array into Go value*"];
        "{\"schema\": \"s\"}\n{\"schema\": \"t\"}\n{\"schema\": x}" => &[
            "f:1 s /",
            "f:2 t /",
            "f:3: invalid character 'x' looking for beginning of value at offset 12 (indicated by <==)\n {\"schema\": x <== } []",
        ];
        "schema: s\nname: [\n" => &["*error converting YAML to JSON*"];
        "schema: s\n--- x\nschema: t" => &["f:2: invalid Yaml document separator: x []"];
        // YAML can start like JSON, and malformed JSON is reported as JSON.
        "{schema: s, name: m}\n---\nschema: t\n" => &["f:1 s /m", "f:3 t /"];
        "{\"schema\":\"s\"}\n---\n{\"schema\":\"t\"}\n---\nschema: u\n" => &["f:1 s /", "f:3 t /", "f:5 u /"];
        "{\"schema\": \"s\",\n \"name\" \"n\"}" => &["f:2: invalid character '\"' after object key*"];
    ] {
        let found = walked_lines(&[("f", text)]);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert_rows!(::tests::table::matches(expected, found) => true, "{found:?}, not {expected:?}");
        }
    }
    let binary = walked_lines(&[("f", b"\xff\xfe\x00binary")]);
    assert_eq!(binary.len(), 1, "{binary:?}");
}

/// Returns the values of all properties, and the lines of unquoted numbers.
fn properties(text: &str) -> (Vec<String>, Vec<usize>) {
    let content = content(&[("f", text.as_bytes())]);
    let found = collect(Source::Content(&content), &Limits::default(), |meta| {
        let meta = meta.unwrap();
        let properties = meta.root.field("properties");
        let properties = properties.into_iter().flat_map(Node::items);
        let values = properties.map(|property| {
            let value = property.field("value").or(property.get("value"));
            String::from_utf8(value.unwrap().source().to_vec()).unwrap()
        });
        let lines = meta.unquoted.iter().map(|number| number.line);
        (values.collect(), lines.collect())
    });
    let [found] = <[_; 1]>::try_from(found.unwrap()).expect(text);
    found
}

// parity: max-olm-14
#[test]
fn max_openshift_keeps_its_digits() {
    assert_each!(|text, values, lines| properties(text) => (values.iter().map(ToString::to_string).collect(), lines.to_vec());
        "schema: olm.bundle\nproperties:\n- type: olm.maxOpenShiftVersion\n  value: 4.10\n- type: other\n  value: 4.10\n",
            &["\"4.10\"", "4.1"][..] => &[4][..];
        "{\"schema\": \"olm.bundle\", \"properties\": [\n{\"type\": \"olm.maxOpenShiftVersion\",\n\"value\": 4.10 },\n\
         {\"type\": \"other\", \"value\": 4.10}]}", &["\"4.10\"", "4.10"] => &[3];
        // Go ignores the case of names, and JSON has escapes.
        "Schema: olm.bundle\nProperties:\n- Type: olm.maxOpenShiftVersion\n  Value: 4.10\n", &["\"4.10\""] => &[4];
        "{\"schema\": \"olm.bundle\", \"properties\": [{\"type\": \"olm.maxOpenShiftV\\u0065rsion\", \"value\": 4.10}]}",
            &["\"4.10\""] => &[1];
        // The property has no meaning in other schemas.
        "{\"schema\": \"x\", \"properties\": [{\"type\": \"olm.maxOpenShiftVersion\", \"value\": 4.10}]}", &["4.10"] => &[];
    );
}

// parity: max-5
#[test]
fn max_openshift_key_of_a_bundle_is_a_property() {
    let key = "\"operators.coreos.com/maxOpenShiftVersion\"";
    let same = "{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.8\"}";
    let found = |rest: &str| properties(&format!("{{\"schema\": \"olm.bundle\", {rest}}}\n"));
    assert_each!(|rest, values, lines| found(&rest) => (values.iter().map(ToString::to_string).collect(), lines.to_vec());
        format!("{key}: \"4.8\""), &["\"4.8\""][..] => &[][..];
        format!("{key}:\n4.10"), &["\"4.10\""] => &[2];
        format!("{key}: \"4.8\", \"properties\": []"), &["\"4.8\""] => &[];
        format!("{key}: \"4.8\", \"properties\": null"), &["\"4.8\""] => &[];
        format!("\"properties\": [ {{\"type\": \"a\", \"value\": 1}} ], {key}: null"), &["1", "null"] => &[];
        // The lower release is used.
        format!("{key}: \"4.8\", \"properties\": [{same}]"), &["\"4.8\""] => &[];
        format!("{key}: \"4.7\", \"properties\": [{same}]"), &["\"4.7\""] => &[];
        format!("\"properties\": [{}],\n{key}: 4.7", same.replace("\"4.8\"", "4.80")), &["\"4.7\""] => &[2, 1];
        format!("{key}: null, \"properties\": [{same}]"), &["\"4.8\""] => &[];
        format!("{key}: \"4.7\", \"properties\": [{same}, {same}]"), &["\"4.8\"", "\"4.8\""] => &[];
        // The property declares the same release in another form.
        format!("{key}: \" 4.8 \", \"properties\": [{same}]"), &["\"4.8\""] => &[];
        // Any other value is an error that other checks report.
        format!("{key}: \"4.8\", \"properties\": {{}}"), &[] => &[];
    );
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
fn walk_ends_on_break() {
    let two = "{\"schema\":\"s\"}{\"schema\":\"t\"}";
    let content = content(&[("a", two), ("b", "junk: [")]);
    let mut visited = 0;
    let flow = walk(Source::Content(&content), &Limits::default(), |_| {
        visited += 1;
        ControlFlow::Break("enough")
    });
    assert_eq!((flow.unwrap(), visited), (ControlFlow::Break("enough"), 1));
}

// parity: load-10
#[test]
fn exceeded_limits_are_reported() {
    let many = "{\"schema\":\"s\"}".repeat(20);
    let two = content(&[("a", &many), ("b", &many)]);
    let collected = collect(Source::Content(&two), &with!(Limits, documents: 25), |_| ());
    has(collected.unwrap_err(), "more than 25 documents");
    let large = format!("{{\"schema\":\"s\",\"x\":\"{}\"}}", "x".repeat(1 << 20));
    let two = content(&[("a", &*large), ("b", "{\"schema\":\"s\"}")]);
    let small = with!(Limits, document: 1 << 18);
    let results = collect(Source::Content(&two), &small, |meta| {
        meta.err().map(|fault| fault.message)
    });
    assert_rows!(results.unwrap() => [Some("a document is larger than the limit of 262144 bytes; split it".to_owned()), None]);
}

#[test]
fn irregular_file_is_reported_without_blocking() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("zero")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
    std::fs::write(dir.path().join("x"), "{\"schema\":\"s\"}").unwrap();
    let describe = |meta: Result<Meta<'_>, ReadError>| {
        meta.map_or_else(|fault| fault.to_string(), |meta| meta.schema.into_owned())
    };
    let results = collect(Source::Directory(dir.path()), &Limits::default(), describe).unwrap();
    starts(&results[0], "dangling:1: cannot be opened");
    assert_eq!(results[1], "s");
    assert!(results[2].contains("not a regular file"), "{results:?}");
}

//! `rukpak catalogsource validate`. What the API server reports is compared with it on a real one (tests/cluster).

use serde_json::{Value, json};

use crate::bundle::{Place, Run};

fn source(spec: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "mine", "namespace": "olm"}, "spec": spec,
    })
}

fn validate(place: &Place, text: &str) -> Run {
    place.run_with(&["catalogsource", "validate", "-"], text.as_bytes())
}

fn errors(run: &Run) -> Vec<&str> {
    let begin = "error: -: CatalogSource olm/mine: ";
    let lines = run.err.lines();
    lines
        .map(|line| line.strip_prefix(begin).unwrap_or(line))
        .collect()
}

#[test]
fn each_catalog_source_of_all_files_is_validated() {
    let place = Place::new();
    let good = source(&json!({"sourceType": "grpc", "image": "r/c:v1", "secrets": null}));
    let bad = source(&json!({"sourceType": "grpc"}));
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "bogus": 1});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [bad, other]});
    place.write("a.yaml", format!("{good}\n---\n# nothing\n---\n{other}\n"));
    place.write("b.json", list.to_string());
    let run = place.fail("catsrc validate a.yaml b.json");
    assert_eq!(run.out, "olm/mine: valid\n");
    let skipped = "a.yaml: skipped 1 object of another kind: 1 ConfigMap (v1)\n";
    assert_eq!(
        run.err,
        format!(
            "{skipped}b.json: skipped 1 object of another kind: 1 ConfigMap (v1)\nerror: b.json: CatalogSource olm/mine: \
             spec.image: Required value: image and address unset: at least one must be set for sourcetype: grpc\n"
        )
    );
    let run = place.fail("catsrc validate a.yaml b.json -o json");
    let read: Value = serde_json::from_str(&run.out).unwrap();
    let valid = json!({"file": "a.yaml", "namespace": "olm", "name": "mine", "errors": []});
    assert_eq!(read[0], valid);
    assert_eq!(read[1]["errors"].as_array().unwrap().len(), 1);
    let run = place.ok("catsrc validate a.yaml");
    assert_eq!(
        (run.out.as_str(), run.err.as_str()),
        ("olm/mine: valid\n", skipped)
    );

    // The version without the deprecated fields, and one that does not exist.
    let mut v1 = source(&json!({"sourceType": "grpc", "image": "r/c:v1"}));
    v1["apiVersion"] = "operators.coreos.com/v1".into();
    let run = validate(&place, &v1.to_string()).exits(1);
    assert_eq!(errors(&run)[0], "unknown field \"spec.image\"");
    v1["apiVersion"] = "operators.coreos.com/v2".into();
    let run = validate(&place, &v1.to_string()).exits(1);
    assert_eq!(
        errors(&run),
        [
            "no matches for kind \"CatalogSource\" in version \"operators.coreos.com/v2\"; use operators.coreos.com/v1alpha1"
        ]
    );
}

// parity: source-16
#[test]
fn hostile_files_are_reported_and_cost_little() {
    let place = Place::new();
    let run = place.fail("catsrc validate none.yaml");
    run.err_has("failed to read none.yaml");
    let run = validate(&place, "a: [b").exits(1);
    run.err_has("failed to read -");

    let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    let text = source(&json!({})).to_string().replace("{}", &deep);
    assert!(!validate(&place, &text).exits(1).err.contains("panicked"));
    let many = json!({"sourceType": "grpc", "image": "r", "secrets": vec![5; 100_000]});
    let run = validate(&place, &source(&many).to_string()).exits(1);
    assert!(run.err.lines().count() < 110, "{}", run.err.len());
    run.err_has("more errors are not shown");
    for object in [
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource"}),
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": 5, "spec": 5}),
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": []}, "spec": []}),
    ] {
        let run = validate(&place, &object.to_string()).exits(1);
        run.err_has("error: -: CatalogSource");
    }

    let repeated = format!("{}spec:\n{}", header("mine"), "  image: a\n".repeat(5_000));
    let run = validate(&place, &repeated).exits(1);
    assert!(run.err.lines().count() < 110, "{}", run.err.len());
    let more = "error: -: 4899 more duplicate fields are not shown\n";
    run.err_has(more);
    let long = "k".repeat(1_000_000);
    let object = format!("{{\"{long}\": {{{}\"b\": 1}}}}", "\"a\": 1, ".repeat(101));
    let text = source(&json!({"image": "r"})).to_string();
    for text in [
        text.replacen("{\"image\"", &format!("{{\"x\": {object}, \"image\""), 1),
        format!(
            "{}spec:\n  ? \"{long}\"\n  : {}a: 1\n",
            header("mine"),
            "a: 1\n    ".repeat(101)
        ),
    ] {
        let run = validate(&place, &text).exits(1);
        run.err_has("duplicate field");
        run.err_has("unknown field");
        assert!(run.err.len() < 100_000, "{}", run.err.len());
    }
    let items = json!({"apiVersion": "v1", "kind": "List", "items": vec![5; 5_000]});
    let run = validate(&place, &items.to_string()).exits(1);
    assert!(run.err.lines().count() < 110, "{}", run.err.len());
    run.err_has("more problems are not shown");
    let kinds = (0..5_000).map(|at| format!("{{apiVersion: v1, kind: A{at}}}\n---\n"));
    let run = validate(&place, &kinds.collect::<String>()).exits(1);
    assert!(run.err.len() < 1000, "{}", run.err.len());
    run.err_has("and 4990 more kinds");
}

fn header(name: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {{name: {name}, namespace: olm}}\n"
    )
}

/// Of equal keys the last one counts. The API server reports them in strict mode.
#[test]
fn duplicate_keys_are_reported_with_file_and_line() {
    let place = Place::new();
    let spec = "spec:\n  sourceType: grpc\n  image: r/c:v1\n";
    let good = format!("{}{spec}", header("good"));
    let bad = format!("{}{spec}  image: r/c:v2\n", header("mine"));
    place.write("a.yaml", format!("{good}---\n# {{a, a}}\n---\n{bad}"));
    let run = place.fail("catalogsource validate a.yaml");
    assert_eq!(run.out, "olm/good: valid\n");
    assert_eq!(
        run.err,
        "error: a.yaml: CatalogSource olm/mine: line 16: duplicate field \"spec.image\"\n"
    );
    let run = place.fail("catalogsource validate a.yaml -o json");
    assert_eq!(
        run.json()[1]["errors"],
        json!(["line 16: duplicate field \"spec.image\""])
    );

    // In JSON, whose escapes are not those of YAML, and in a list.
    let text = source(&json!({"sourceType": "grpc", "image": "r/c:v1"})).to_string();
    let twice = text.replace(
        "\"namespace\":",
        "\"annotations\": {\"a\\/b\": \"\\ud83c\\udf0a\",\n\"a/b\": \"\"},\n\"namespace\":",
    );
    let list = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{text},\n{twice},\n{{\"apiVersion\": \"v1\", \
         \"kind\": \"ConfigMap\", \"data\": {{\"a\": \"1\", \"a\": \"2\"}}}}]}}"
    );
    let run = validate(&place, &list).exits(1);
    assert_eq!(
        errors(&run),
        [
            "-: skipped 1 object of another kind: 1 ConfigMap (v1)",
            "line 4: duplicate field \"metadata.annotations.a/b\""
        ]
    );

    // Whether an object is a CatalogSource depends on these fields.
    for (text, expected) in tests::rows![
        format!("{good}kind: ConfigMap\n") => "error: -: line 7: duplicate field \"kind\"";
        format!("kind: List\napiVersion: v1\nitems: [{text}]\nitems: []\n") => "error: -: line 4: duplicate field \"items\"";
    ] {
        let run = validate(&place, &text).exits(1);
        assert!(run.err.lines().any(|line| line == expected), "{run:?}");
    }
    let run = validate(
        &place,
        &format!("{good}---\nkind: A\napiVersion: v1\nb: 1\nb: 2\n"),
    );
    assert_eq!(run.exits(0).out, "olm/good: valid\n");
}

/// A typed list, such as the API server's own, need not name the kind of its items; kubectl takes it from the list.
#[test]
fn list_items_without_kind_are_not_passed_over() {
    let place = Place::new();
    let good = json!({"metadata": {"name": "good", "namespace": "olm"}, "spec": {"sourceType": "grpc", "image": "r/c:v1"}});
    let bad =
        json!({"metadata": {"name": "mine", "namespace": "olm"}, "spec": {"sourceType": "grpc"}});
    let list = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSourceList", "metadata": {"resourceVersion": ""},
        "items": [good, bad],
    });
    let run = validate(&place, &list.to_string()).exits(1);
    assert_eq!(run.out, "olm/good: valid\n");
    let missing = "spec.image: Required value: image and address unset: at least one must be set for sourcetype: grpc";
    assert_eq!(errors(&run), [missing]);

    place.write(
        "list.yaml",
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: operators.coreos.com/v1alpha1\n  metadata: {name: a}\n- 5\n\
         - kind: List\n  apiVersion: v1\n  items:\n  - kind: CatalogSource\n---\nmetadata: {name: b}\n---\n\
         apiVersion: v1\nkind: List\nitems: 5\n",
    );
    let run = place.fail("catalogsource validate list.yaml");
    assert_eq!(run.out, "");
    assert_eq!(
        run.err.lines().collect::<Vec<_>>(),
        [
            "error: list.yaml: line 4: items[0]: Object 'Kind' is missing; set apiVersion and kind",
            "error: list.yaml: line 6: items[1]: not an object; set apiVersion and kind",
            "error: list.yaml: line 10: items[2].items[0]: Object 'apiVersion' is missing; set apiVersion and kind",
            "error: list.yaml: line 12: Object 'Kind' is missing; set apiVersion and kind",
            "error: list.yaml: line 14: items is not a list; write the objects as a list",
        ]
    );
}

#[test]
fn files_without_a_catalog_source_fail() {
    let place = Place::new();
    let good = source(&json!({"sourceType": "grpc", "image": "r/c:v1"}));
    place.write("a.yaml", good.to_string());
    place.write(
        "b.yaml",
        "apiVersion: v1\nkind: ConfigMap\n---\napiVersion: apps/v1\nkind: Deployment\n---\napiVersion: v1\nkind: ConfigMap\n",
    );
    place.write("c.yaml", "# Nothing.\n");
    let none = "no CatalogSource found; check apiVersion and kind, or leave the file out";
    let run = place.fail("catalogsource validate a.yaml b.yaml c.yaml none.yaml");
    assert_eq!(run.out, "olm/mine: valid\n");
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "b.yaml: skipped 3 objects of other kinds: 2 ConfigMap (v1), 1 Deployment (apps/v1)"
                .to_owned(),
            format!("error: b.yaml: {none}"),
            format!("error: c.yaml: {none}"),
        ]
    );
    assert!(
        lines[3].starts_with("error: failed to read none.yaml: "),
        "{run:?}"
    );
    assert_eq!(lines.len(), 4);

    // The group is part of what a person misspells.
    let mut other = good;
    other["apiVersion"] = "operator.coreos.com/v1alpha1".into();
    let run = validate(&place, &other.to_string()).exits(1);
    assert_eq!(
        errors(&run),
        [
            "no matches for kind \"CatalogSource\" in version \"operator.coreos.com/v1alpha1\"; use operators.coreos.com/v1alpha1"
        ]
    );
}

//! `rukpak catalogsource validate`. `tests/cluster` compares it with a real API server.

use serde_json::{Value, json};

use crate::bundle::Workspace;

const HEADER: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: mine, namespace: olm}\n";

fn object(metadata: &Value, spec: &Value) -> String {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": metadata, "spec": spec})
    .to_string()
}

fn source(spec: &Value) -> String {
    object(&json!({"name": "mine", "namespace": "olm"}), spec)
}

// parity: source-16
#[test]
fn hostile_files_are_reported_and_cost_little() {
    let workspace = Workspace::new();
    let nothing =
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource"}).to_string();
    let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    let deep = source(&json!({})).replace("{}", &deep);
    let many = json!({"sourceType": "grpc", "image": "r", "secrets": vec![5; 100_000]});
    let repeated = format!("{HEADER}spec:\n{}", "  image: a\n".repeat(5_000));
    let long = "k".repeat(1_000_000);
    let twice = format!("{{\"{long}\": {{{}\"b\": 1}}}}", "\"a\": 1, ".repeat(101));
    let in_json = source(&json!({"image": "r"}));
    let in_json = in_json.replacen("{\"image\"", &format!("{{\"x\": {twice}, \"image\""), 1);
    let twice = "a: 1\n    ".repeat(101);
    let in_yaml = format!("{HEADER}spec:\n  ? \"{long}\"\n  : {twice}a: 1\n");
    let items = json!({"apiVersion": "v1", "kind": "List", "items": vec![5; 5_000]});
    let kinds = (0..5_000).map(|at| format!("{{apiVersion: v1, kind: A{at}}}\n---\n"));
    for (text, parts, lines, bytes) in tests::rows![
        "a: [b".to_owned(), &["failed to read -"][..], 110 => 100_000;
        deep, &[], 110 => 100_000;
        source(&many), &["more errors are not shown"], 110 => 100_000;
        nothing, &["error: -: CatalogSource"], 110 => 100_000;
        object(&json!(5), &json!(5)), &["error: -: CatalogSource"], 110 => 100_000;
        object(&json!({"name": []}), &json!([])), &["error: -: CatalogSource"], 110 => 100_000;
        repeated, &["error: -: 4899 more duplicate fields are not shown\n"], 110 => 100_000;
        in_json, &["duplicate field", "unknown field"], 500 => 100_000;
        in_yaml, &["duplicate field", "unknown field"], 500 => 100_000;
        items.to_string(), &["more problems are not shown"], 110 => 100_000;
        kinds.collect(), &["and 4990 more kinds"], 110 => 1000;
    ] {
        let run = workspace.run_with("catalogsource validate -", text.as_bytes());
        let run = run.exits(1);
        run.err_lacks("panicked");
        for part in parts {
            run.err_has(part);
        }
        assert!(run.err.lines().count() < lines, "{text:.100}: {run:.2000?}");
        assert!(run.err.len() < bytes, "{text:.100}: {}", run.err.len());
    }
}

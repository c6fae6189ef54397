//! `rukpak catalogsource validate`. What the API server reports is compared with it on a real one (tests/cluster).

use serde_json::{Value, json};

use crate::bundle::{Place, Run};

const HEADER: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: mine, namespace: olm}\n";

fn source(spec: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "mine", "namespace": "olm"}, "spec": spec,
    })
}

fn validate(place: &Place, text: &str) -> Run {
    place.run_with(&["catalogsource", "validate", "-"], text.as_bytes())
}

// parity: source-16
#[test]
fn hostile_files_are_reported_and_cost_little() {
    let place = Place::new();
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

    let repeated = format!("{}spec:\n{}", HEADER, "  image: a\n".repeat(5_000));
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
            HEADER,
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

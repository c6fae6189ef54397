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
fn misspelled_fields_and_broken_rules_are_reported() {
    let place = Place::new();
    let blocked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct \
                   the existing errors to complete validation";
    let image = |pod: &Value| json!({"catalogImageSource": {"catalogImage": "r/c:v1", "podSpecOverrides": pod}});
    let pod = "spec.catalogImageSource.podSpecOverrides";
    for (spec, expected) in [
        (
            image(&json!({"nodeSelectr": {}, "tolerations": [{"operatr": "Exists"}]})),
            vec![
                format!("unknown field \"{pod}.nodeSelectr\""),
                format!("unknown field \"{pod}.tolerations[0].operatr\""),
            ],
        ),
        (
            image(&json!({"securityContextConfig": "restrictd"})),
            vec![
                format!(
                    "{pod}.securityContextConfig: Unsupported value: \"restrictd\": supported values: \"legacy\", \"restricted\""
                ),
                blocked.to_owned(),
            ],
        ),
        (
            json!({"sourceType": "grpc", "image": "r/c:v1", "address": "a:1"}),
            vec![
                "spec.address: Forbidden: not read beside image: remove it, or remove image to take the catalog from the server \
                 at that address"
                    .to_owned(),
            ],
        ),
        // The spelling of the design document.
        (
            json!({"sourceType": "configMap", "configMap": "m"}),
            vec![
                "spec.sourceType: Invalid value: unknown sourcetype: configMap: must be grpc or configmap"
                    .to_owned(),
            ],
        ),
        (
            json!({"sourceType": "grpc", "image": 5}),
            vec![
                "spec.image: Invalid value: \"integer\": spec.image in body must be of type string: \"integer\"".to_owned(),
                blocked.to_owned(),
            ],
        ),
    ] {
        let run = validate(&place, &source(&spec).to_string()).exits(1);
        assert_eq!(errors(&run), expected, "{spec}");
        assert_eq!(run.out, "");
    }
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
    let run = place
        .run(&["catsrc", "validate", "a.yaml", "b.json"])
        .exits(1);
    assert_eq!(run.out, "olm/mine: valid\n");
    assert_eq!(
        run.err,
        "error: b.json: CatalogSource olm/mine: spec.image: Required value: image and address unset: at least one must be set \
         for sourcetype: grpc\n"
    );
    let run = place
        .run(&["catsrc", "validate", "a.yaml", "b.json", "-o", "json"])
        .exits(1);
    let read: Value = serde_json::from_str(&run.out).unwrap();
    let valid = json!({"file": "a.yaml", "namespace": "olm", "name": "mine", "errors": []});
    assert_eq!(read[0], valid);
    assert_eq!(read[1]["errors"].as_array().unwrap().len(), 1);
    let run = place.run(&["catsrc", "validate", "a.yaml"]).exits(0);
    assert_eq!(
        (run.out.as_str(), run.err.as_str()),
        ("olm/mine: valid\n", "")
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

#[test]
fn hostile_files_are_reported_and_cost_little() {
    let place = Place::new();
    let run = validate(&place, &other()).exits(1);
    let problem = "error: the files have no CatalogSource; check apiVersion and kind\n";
    assert_eq!(run.err, problem);
    let run = place.run(&["catsrc", "validate", "none.yaml"]).exits(1);
    assert!(run.err.contains("failed to read none.yaml"), "{run:?}");
    let run = validate(&place, "a: [b").exits(1);
    assert!(run.err.contains("failed to read -"), "{run:?}");

    let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    let text = source(&json!({})).to_string().replace("{}", &deep);
    assert!(!validate(&place, &text).exits(1).err.contains("panicked"));
    let many = json!({"sourceType": "grpc", "image": "r", "secrets": vec![5; 100_000]});
    let run = validate(&place, &source(&many).to_string()).exits(1);
    assert!(run.err.lines().count() < 110, "{}", run.err.len());
    assert!(run.err.contains("more errors are not shown"), "{run:?}");
    for object in [
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource"}),
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": 5, "spec": 5}),
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": []}, "spec": []}),
    ] {
        let run = validate(&place, &object.to_string()).exits(1);
        assert!(run.err.contains("error: -: CatalogSource"), "{run:?}");
    }
}

fn other() -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap"}).to_string()
}

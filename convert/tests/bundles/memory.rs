//! Memory limits: values, rendered objects, findings.

use super::*;

// parity: convert-8
#[test]
fn conversions_have_a_memory_limit() {
    let numbered =
        |count: usize, entry: &dyn Fn(usize) -> Value| -> Value { (0..count).map(entry).collect() };
    let pod = |containers: Value| json!([{"name": "a", "spec": {"template": {"spec": {"containers": containers}}}}]);
    let definition = |versions: usize, schema: Value| {
        let version = |at| json!({"name": format!("v{at}"), "served": true, "storage": at == 0});
        let versions = numbered(versions, &version);
        let spec = json!({"group": "sea.example.com", "names": {"plural": "moons", "kind": "Moon"},
            "versions": versions, "validation": {"openAPIV3Schema": {"properties": schema}}});
        json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "moons.sea.example.com"}, "spec": spec})
    };
    let schema =
        |value: Value| -> Value { (0..200).map(|at| (at.to_string(), value.clone())).collect() };
    let list = |items: Value| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let good = Bundle::good();
    for (bundle, subject) in tests::rows![
        good.clone().csv(DEPLOYMENTS, numbered(100, &|at| json!({"name": format!("d{at}")}))) => "one of many Deployments";
        good.clone().csv(DEPLOYMENTS, pod(numbered(250, &|_| json!({})))) => "one of many Deployments";
        good.clone().csv("/spec/install/spec/permissions", numbered(100, &|at| json!({"serviceAccountName": format!("a{at}")})))
            => "one of many";
        extra(definition(1, schema(json!({})))) => "the upgrade of CustomResourceDefinition";
        extra(definition(10, schema(json!("")))) => "the upgrade of CustomResourceDefinition";
        extra(list(numbered(1000, &|_| json!({})))) => "a list of 1000 objects";
        extra(list(numbered(2, &|_| list(numbered(500, &|_| json!({})))))) => "a list of 500 objects";
        extra("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n".repeat(500)) => "";
    ] {
        let refusals_within = |memory| -> Vec<String> {
            let limits = with!(yaml::Limits, memory);
            let options = with!(Options, operator_condition: true, limits);
            let conversion = bundle.convert_with(&options);
            let refusals = conversion.report.refusals();
            let of_memory = refusals.filter(|finding| finding.code == Code::TooMany);
            of_memory.map(ToString::to_string).collect()
        };
        assert_eq!(refusals_within(64 << 20), [""; 0], "{subject}");
        let refusals = refusals_within(256 << 10);
        let is_reported =
            |refusal: &String| refusal.contains(subject) && refusal.contains("--max-values");
        assert!(refusals.iter().any(is_reported), "{subject}: {refusals:?}");
    }
}

#[test]
fn reading_ends_at_the_first_limit() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let bundle = Bundle::good()
        .file("manifests/a.yaml", format!("{map}---\n").repeat(500))
        .file("manifests/b.yaml", "no: [yaml");
    let options = with!(Options, limits: yaml::Limits::with_values(100));
    let report = bundle.convert_with(&options).report;
    let refusals: Vec<String> = report.refusals().map(ToString::to_string).collect();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let pattern = "manifests/a.yaml*: too many values: at most *raise the limit with --max-values";
    assert!(tests::table::matches(pattern, &refusals[0]), "{refusals:?}");
}

#[test]
fn findings_have_a_memory_limit() {
    let long = "k".repeat(10_000);
    let wrong = (0..900).map(|at| (format!("a{at}"), json!({"type": 5})));
    let wrong: Value = wrong.collect();
    let mut bundle = Bundle::good();
    for at in 0..10 {
        let schema = json!({"type": "object", "properties": {long.as_str(): {"type": "object", "properties": wrong}}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("a{at}s.b.c")}, "spec": {"group": "b.c", "versions": [version]}});
        bundle = bundle.file(&format!("manifests/crd{at}.yaml"), definition.to_string());
    }
    let findings = bundle.convert().report.findings;
    let places = findings.iter().flat_map(|finding| &finding.location);
    let bytes: usize = places.map(|place| place.path.to_string().len()).sum();
    let count = findings.len();
    assert_rows!(count > 500 && bytes < 12 << 20 => true, "{count} findings, {bytes} bytes");
    let mut last = findings.iter();
    let last = last.find(|finding| finding.code == Code::TooMany);
    assert!(last.is_some_and(|finding| finding.message.ends_with("more findings are omitted")));
}

/// No renderer reads dependencies, so a mistake there does not prevent the conversion.
// parity: convert-6
#[test]
fn malformed_dependencies_are_a_warning() {
    let file = "metadata/dependencies.yaml";
    for (text, code) in tests::rows![
        "dependencies: [".to_owned() => "";
        "dependencies: 5".to_owned() => "";
        "dependencies: {a: b}".to_owned() => "Dependency ";
        "dependencies: [{value: 1}]".to_owned() => "Dependency ";
        format!("dependencies: []\n# {}", "x".repeat(1 << 20)) => "";
        format!("dependencies: [{}]\n", "{a: 1},".repeat(30_000)) => "";
    ] {
        let conversion = Bundle::good().file(file, text).convert();
        assert_eq!(findings(&conversion, Level::Error), [""; 0]);
        assert!(conversion.objects.is_some());
        let warnings = findings(&conversion, Level::Warning);
        let mut places = warnings.iter();
        let is_reported = places.any(|warning| warning.split(' ').nth(1) == Some(file));
        assert!(is_reported && warnings[0].starts_with(code), "{warnings:?}");
    }
    assert_rows!(findings(&Bundle::good().file("metadata/properties.yaml", "properties: [").convert(), Level::Error).len() => 1);
}

use super::*;

const DEPENDENCIES: &str = "metadata/dependencies.yaml";
const PROPERTIES: &str = "metadata/properties.yaml";

fn gvk() -> Value {
    json!({"group": "example.com", "version": "v1", "kind": "A"})
}

fn dependency(type_: &str, value: impl Into<Value>) -> Bundle {
    let file = json!({"dependencies": [{"type": type_, "value": value.into()}]});
    Bundle::good().file(DEPENDENCIES, file)
}

// parity: validate-9, check-15
#[test]
fn dependencies_are_checked() {
    let constraint = |value: Value| dependency("olm.constraint", value);
    let package = |range| dependency("olm.package", json!({"packageName": "a", "version": range}));
    let sized = |size: usize| {
        let rule = "x".repeat(size - json!({"cel": {"rule": ""}}).to_string().len());
        constraint(json!({"cel": {"rule": rule}}))
    };
    let at = |path: &str| format!("Dependency {DEPENDENCIES} (dependencies[0].value{path})");
    let whole = at("");
    check(::tests::rows![
        dependency("olm.gvk", gvk()) => "";
        package(">=1.0.0 <2.0.0 || 3.x") => "";
        dependency("olm.label", json!({"label": "a"})) => "";
        dependency("olm.gvk", json!({"group": "", "version": 1})) => &["", ".group", ".version"].map(at).join(", ");
        dependency("olm.package", json!({"packageName": "a"})) => &whole;
        package("^1.0.0") => &at(".version");
        dependency("olm.label", json!({})) => &whole;
        dependency("olm.gvk.required", gvk()) => &whole;
        constraint(json!({"cel": {"rule": "true"}})) => "";
        constraint(json!({"failureMessage": "no", "gvk": gvk()})) => "";
        constraint(json!({"package": {"packageName": "a", "versionRange": "1.x"}})) => "";
        constraint(json!({"not": {"constraints": [{"any": {"constraints": [{"gvk": gvk()}]}}]}})) => "";
        constraint(json!("a")) => &whole;
        constraint(json!({})) => &whole;
        constraint(json!({"cel": {"rule": ""}})) => &at(".cel.rule");
        constraint(json!({"cel": {"rule": "true"}, "gvk": gvk()})) => &whole;
        constraint(json!({"cel": {"rule": "true"}, "message": "no"})) => &at(".message");
        constraint(json!({"cel": {"rule": "true"}, "failureMessage": 1})) => &at(".failureMessage");
        constraint(json!({"all": {"constraints": []}})) => &at(".all");
        constraint(json!({"all": {"constraints": [{"package": {"packageName": "a", "versionRange": "~1"}}]}}))
            => &at(".all.constraints[0].package.versionRange");
        // Constraints have a size limit.
        sized(131_072) => "";
        sized(131_073) => &whole;
    ]);
}

// parity: check-10, check-16
#[test]
fn properties_are_checked() {
    const LISTED: &str = r#"manifests/csv.yaml (metadata.annotations["olm.properties"])"#;
    let property = |type_: &str, value: Value| {
        let file = json!({"properties": [{"type": type_, "value": value}]});
        Bundle::good().file(PROPERTIES, file)
    };
    let package = |name: &str, version: &str| {
        let package = json!({"packageName": name, "version": version});
        property("olm.package", package)
    };
    let required = |range: &str| {
        let package = json!({"packageName": "a", "versionRange": range});
        property("olm.package.required", package)
    };
    let second = json!({"type": "olm.gvk", "value": gvk()});
    let at = |path: &str| format!("Property {PROPERTIES} (properties[{path})");
    let whole = at("0].value");
    check(::tests::rows![
        property("olm.gvk", gvk()) => "";
        property("olm.gvk.required", gvk()) => "";
        package("etcd", "1.2.3") => "";
        required(">=1.0.0") => "";
        property("olm.maxOpenShiftVersion", json!("4.16")) => "";
        property("olm.csv.metadata", json!({})) => "";
        property("olm.deprecated", json!({})) => "";
        property("example.com/other", json!(null)) => "";
        property("olm.gvk", json!({"group": "a", "version": "v1"})) => &whole;
        required("1.0") => &at("0].value.versionRange");
        package("other", "1.2.3") => &whole;
        package("etcd", "v1.2.3") => &format!("{whole}, {}", at("0].value.version"));
        property("olm.bundle.object", json!({})) => &whole;
        property("olm.channel", json!([])) => &whole;
        property("olm.csv.metadata", json!("a")) => &whole;
        property("olm.deprecated", json!(true)) => &whole;
        property("olm.constraint", json!({})) => &whole;
        property("olm.maxOpenshiftVersion", json!("4.16")) => &whole;
        property("olm.gvk", gvk()).set(PROPERTIES, "/properties/-", second) => &at("1].value");
        Bundle::good().annotation("olm.properties", r#"[{"type": "olm.gvk", "value": {}}]"#) => &format!(
            "Property {LISTED}, Property {LISTED}, Property {LISTED}, PropertiesAnnotation {LISTED}"
        );
    ]);
}

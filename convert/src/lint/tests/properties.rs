use super::*;

const DEPENDENCY: &str = "metadata/dependencies.yaml (dependencies[0].value)";
const LISTED: &str = r#"manifests/csv.yaml (metadata.annotations["olm.properties"])"#;
const PROPERTY: &str = "metadata/properties.yaml (properties[0].value)";

fn gvk() -> Value {
    json!({"group": "example.com", "version": "v1", "kind": "A"})
}

fn dependency(type_: &str, value: impl Into<Value>) -> Bundle {
    let file = json!({"dependencies": [{"type": type_, "value": value.into()}]});
    Bundle::good().file("metadata/dependencies.yaml", file)
}

fn property(type_: &str, value: impl Into<Value>) -> Bundle {
    let file = json!({"properties": [{"type": type_, "value": value.into()}]});
    Bundle::good().file("metadata/properties.yaml", file)
}

// parity: check-15
#[test]
fn dependencies() {
    check(::tests::rows![
        dependency("olm.gvk", gvk()) => &[] as &[_];
        dependency("olm.package", json!({"packageName": "a", "version": ">=1.0.0 <2.0.0 || 3.x"})) => &[];
        dependency("olm.label", json!({"label": "a"})) => &[];
        dependency("olm.gvk", json!({"group": "", "version": 1})) => &[
            (Code::Dependency, DEPENDENCY), (Code::Dependency, "metadata/dependencies.yaml (dependencies[0].value.group)"),
            (Code::Dependency, "metadata/dependencies.yaml (dependencies[0].value.version)"),
        ];
        dependency("olm.package", json!({"packageName": "a"})) => &[(Code::Dependency, DEPENDENCY)];
        dependency("olm.package", json!({"packageName": "a", "version": "^1.0.0"}))
            => &[(Code::Dependency, "metadata/dependencies.yaml (dependencies[0].value.version)")];
        dependency("olm.label", json!({})) => &[(Code::Dependency, DEPENDENCY)];
        dependency("olm.gvk.required", gvk()) => &[(Code::Dependency, DEPENDENCY)];
    ]);
}

// parity: validate-9, check-15
#[test]
fn constraints() {
    check(::tests::rows![
        dependency("olm.constraint", json!({"cel": {"rule": "true"}})) => &[] as &[_];
        dependency("olm.constraint", json!({"failureMessage": "no", "gvk": gvk()})) => &[];
        dependency("olm.constraint", json!({"package": {"packageName": "a", "versionRange": "1.x"}})) => &[];
        dependency("olm.constraint", json!({"not": {"constraints": [{"any": {"constraints": [{"gvk": gvk()}]}}]}})) => &[];
        dependency("olm.constraint", json!("a")) => &[(Code::Dependency, DEPENDENCY)];
        dependency("olm.constraint", json!({})) => &[(Code::Dependency, DEPENDENCY)];
        dependency("olm.constraint", json!({"cel": {"rule": ""}}))
            => &[(Code::Dependency, "metadata/dependencies.yaml (dependencies[0].value.cel.rule)")];
        dependency("olm.constraint", json!({"cel": {"rule": "true"}, "gvk": gvk()})) => &[(Code::Dependency, DEPENDENCY)];
        dependency("olm.constraint", json!({"cel": {"rule": "true"}, "message": "no"}))
            => &[(Code::Dependency, "metadata/dependencies.yaml (dependencies[0].value.message)")];
        dependency("olm.constraint", json!({"cel": {"rule": "true"}, "failureMessage": 1}))
            => &[(Code::Dependency, "metadata/dependencies.yaml (dependencies[0].value.failureMessage)")];
        dependency("olm.constraint", json!({"all": {"constraints": []}}))
            => &[(Code::Dependency, "metadata/dependencies.yaml (dependencies[0].value.all)")];
        dependency("olm.constraint", json!({"all": {"constraints": [{"package": {"packageName": "a", "versionRange": "~1"}}]}}))
            => &[(Code::Dependency, "metadata/dependencies.yaml (dependencies[0].value.all.constraints[0].package.versionRange)")];
    ]);
}

// parity: check-15
#[test]
fn constraints_have_a_size_limit() {
    let sized = |size: usize| {
        let rule = "x".repeat(size - json!({"cel": {"rule": ""}}).to_string().len());
        dependency("olm.constraint", json!({"cel": {"rule": rule}}))
    };
    check(::tests::rows![
        sized(131_072) => &[] as &[_];
        sized(131_073) => &[(Code::Dependency, "metadata/dependencies.yaml (dependencies[0].value)")];
    ]);
}

// parity: check-10
#[test]
fn good_properties() {
    check(::tests::rows![
        property("olm.gvk", gvk()) => &[] as &[_];
        property("olm.gvk.required", gvk()) => &[];
        property("olm.package", json!({"packageName": "etcd", "version": "1.2.3"})) => &[];
        property("olm.package.required", json!({"packageName": "a", "versionRange": ">=1.0.0"})) => &[];
        property("olm.maxOpenShiftVersion", json!("4.16")) => &[];
        property("olm.csv.metadata", json!({})) => &[];
        property("olm.deprecated", json!({})) => &[];
        property("example.com/whatever", json!(null)) => &[];
    ]);
}

// parity: check-16
#[test]
fn wrong_properties() {
    check(::tests::rows![
        property("olm.gvk", json!({"group": "a", "version": "v1"})) => &[(Code::Property, PROPERTY)] as &[_];
        property("olm.package.required", json!({"packageName": "a", "versionRange": "1.0"}))
            => &[(Code::Property, "metadata/properties.yaml (properties[0].value.versionRange)")];
        property("olm.package", json!({"packageName": "other", "version": "1.2.3"})) => &[(Code::Property, PROPERTY)];
        property("olm.package", json!({"packageName": "etcd", "version": "v1.2.3"}))
            => &[(Code::Property, PROPERTY), (Code::Property, "metadata/properties.yaml (properties[0].value.version)")];
        property("olm.bundle.object", json!({})) => &[(Code::Property, PROPERTY)];
        property("olm.channel", json!([])) => &[(Code::Property, PROPERTY)];
        property("olm.csv.metadata", json!("a")) => &[(Code::Property, PROPERTY)];
        property("olm.deprecated", json!(true)) => &[(Code::Property, PROPERTY)];
        property("olm.constraint", json!({})) => &[(Code::Property, PROPERTY)];
        property("olm.maxOpenshiftVersion", json!("4.16")) => &[(Code::Property, PROPERTY)];
        property("olm.gvk", gvk()).set("metadata/properties.yaml", "/properties/-", json!({
            "type": "olm.gvk", "value": gvk(),
        })) => &[(Code::Property, "metadata/properties.yaml (properties[1].value)")];
        Bundle::good().annotation("olm.properties", r#"[{"type": "olm.gvk", "value": {}}]"#) => &[(Code::Property, LISTED), (Code::Property, LISTED), (Code::Property, LISTED), (Code::PropertiesAnnotation, LISTED)];
    ]);
}

use super::*;

const EXAMPLES: &str = "manifests/csv.yaml (metadata.annotations.alm-examples)";
const OWNED: &str = "manifests/csv.yaml (spec.customresourcedefinitions.owned[0])";
const KIND: &str = "manifests/csv.yaml (spec.customresourcedefinitions.owned[0].kind)";
const OWNED_AT: &str = "/spec/customresourcedefinitions/owned/0";

// parity: check-11
#[test]
fn examples() {
    let examples = |json: &str| Bundle::good().annotation("alm-examples", json);
    let good = r#"{"apiVersion": "example.com/v1", "kind": "Etcd"}"#;
    check(::tests::rows![
        Bundle::good().remove(CSV, "/metadata/annotations") => &[(Code::Example, "manifests/csv.yaml (metadata)")] as &[_];
        Bundle::good().remove(CSV, "/metadata/annotations/alm-examples")
            => &[(Code::Example, "manifests/csv.yaml (metadata.annotations)")];
        Bundle::good().annotation("olm.examples", "[]")
            => &[(Code::Example, r#"manifests/csv.yaml (metadata.annotations["olm.examples"])"#)];
        Bundle::good().remove(CSV, "/metadata/annotations/alm-examples").annotation("olm.examples", &format!("[{good}]")) => &[];
        examples("[{]") => &[(Code::Example, EXAMPLES)];
        examples(good) => &[(Code::Example, EXAMPLES)];
        examples(&format!(r#"[{good}, {{"apiVersion": "example.com/v2", "kind": "Etcd"}}]"#)) => &[(Code::Example, EXAMPLES)];
        examples(&format!("[{good}, 1]")) => &[(Code::Example, EXAMPLES)];
        examples("[]") => &[(Code::Example, OWNED)];
    ]);
}

// parity: check-12
#[test]
fn owned_crds() {
    let owned =
        |field: &str, value: &str| Bundle::good().csv(&format!("{OWNED_AT}/{field}"), value.into());
    check(::tests::rows![
        owned("version", "v2") => &[(Code::Example, EXAMPLES), (Code::Example, OWNED), (Code::UnservedVersion, UNSERVED)] as &[_];
        owned("kind", "Other") => &[(Code::Example, EXAMPLES), (Code::Example, OWNED), (Code::OwnedCRD, KIND)];
        owned("description", "") => &[(Code::CRDDescription, OWNED)];
        Bundle::good().csv("/spec/customresourcedefinitions/required", json!([{"name": "others", "kind": "Other", "description": "d"}])) => &[
            (Code::OwnedCRD, "manifests/csv.yaml (spec.customresourcedefinitions.required[0])"),
            (Code::OwnedCRD, "manifests/csv.yaml (spec.customresourcedefinitions.required[0].name)"),
        ];
        Bundle::good().file("manifests/other.yaml", crd("others", "Other")) => &[(Code::UnownedCRD, "manifests/other.yaml")];
    ]);
}

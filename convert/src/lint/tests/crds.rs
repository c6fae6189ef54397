//! CRDs of a bundle, and their descriptions and examples in the CSV.

use super::*;

const VERSIONS: &str = "CRDVersions manifests/crd.yaml (spec.versions)";
const EXAMPLES: &str = "Example manifests/csv.yaml (metadata.annotations.alm-examples)";
/// The start of locations in the owned CRD.
const OWNED: &str = "manifests/csv.yaml (spec.customresourcedefinitions.owned[0]";

fn set(pointer: &str, value: impl Into<Value>) -> Bundle {
    Bundle::good().set(CRD, pointer, value.into())
}

// parity: check-12, check-13
#[test]
fn fields_of_crds_are_checked() {
    let names = |field: &str, value: Value| set(&format!("/spec/names/{field}"), value);
    let without = |pointer: &str| Bundle::good().remove(CRD, pointer);
    let another = |name: &str, served: bool, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = json!({"name": name, "served": served, "storage": storage, "schema": schema});
        set("/spec/versions/-", version)
    };
    let unserved = format!("{VERSIONS}, UnservedVersion {OWNED}.version)");
    check(::tests::rows![
        names("shortNames", json!(["ed"])).set(CRD, "/spec/names/categories", json!(["all"])) => "";
        names("plural", "others".into()) => "CRDNames manifests/crd.yaml (metadata.name)";
        without("/spec/names/plural") => "CRDNames manifests/crd.yaml (spec.names)";
        names("singular", "et_cd".into()) => "CRDNames manifests/crd.yaml (spec.names.singular)";
        names("listKind", "Etcd".into()) => "CRDNames manifests/crd.yaml (spec.names.listKind)";
        names("shortNames", json!(["ed", "e d"])) => "CRDNames manifests/crd.yaml (spec.names.shortNames[1])";
        without("/spec/group") => "CRDNames manifests/crd.yaml (spec)";
        set("/spec/group", "Example.com")
            => "CRDNames manifests/crd.yaml (metadata.name), CRDNames manifests/crd.yaml (spec.group)";
        set("/spec/scope", "Cluster") => "";
        set("/spec/scope", "namespaced") => "CRDScope manifests/crd.yaml (spec.scope)";
        without("/spec/scope") => "CRDScope manifests/crd.yaml (spec)";
        set("/spec/preserveUnknownFields", true) => "CRDVersions manifests/crd.yaml (spec.preserveUnknownFields)";
        set("/spec/preserveUnknownFields", false) => "";
        another("v2", false, false) => "";
        another("v2", true, true) => VERSIONS;
        set("/spec/versions/0/storage", false) => VERSIONS;
        another("v1", true, false) => "CRDVersions manifests/crd.yaml (spec.versions[1])";
        another("2", true, false) => "CRDVersions manifests/crd.yaml (spec.versions[1])";
        set("/spec/versions/0/served", false) => &unserved;
        set("/spec/versions", json!([])) => &unserved;
        // Two CRDs of one kind.
        Bundle::good().file("manifests/other.yaml", crd("others", "Etcd"))
            => "DuplicateKind manifests/other.yaml (spec.names.kind)";
    ]);
}

// parity: check-13
#[test]
fn conversions_of_crds_are_checked() {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "webhook"}, "spec": {"selector": {"app": "etcd"}},
    });
    let by = |name: &str| {
        let client = json!({"service": {"name": name, "namespace": "etcd-system"}});
        let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": client});
        let conversion = json!({"strategy": "Webhook", "webhook": webhook});
        set("/spec/conversion", conversion).file("manifests/service.yaml", service.clone())
    };
    let webhooks = json!([{"type": "ConversionWebhook", "conversionCRDs": ["etcds.example.com"]}]);
    check(::tests::rows![
        set("/spec/conversion", json!({"strategy": "None"})) => "";
        by("webhook") => "";
        by("other").csv("/spec/webhookdefinitions", webhooks) => "";
        by("other") => "CRDConversion manifests/crd.yaml (spec.conversion.webhook.clientConfig.service)";
        by("webhook").remove(CRD, "/spec/conversion/webhook/conversionReviewVersions")
            => "CRDConversion manifests/crd.yaml (spec.conversion.webhook)";
        set("/spec/conversion", json!({"strategy": "Magic"})) => "CRDConversion manifests/crd.yaml (spec.conversion.strategy)";
    ]);
}

/// The short form of v1beta1 is read as the API server read it.
// parity: check-12
#[test]
fn crds_of_v1beta1_are_checked() {
    let properties = r#"{"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]}"#;
    let old = || {
        set("/apiVersion", "apiextensions.k8s.io/v1beta1")
            .remove(CRD, "/spec/versions")
            .set(CRD, "/spec/version", "v1".into())
            .file("metadata/properties.yaml", properties)
    };
    check(::tests::rows![
        old() => "";
        old().remove(CRD, "/spec/scope") => "";
        old().set(CRD, "/spec/version", "v2".into()) => &format!("UnservedVersion {OWNED}.version)");
        old().set(CRD, "/spec/conversion", json!({"strategy": "Webhook", "webhookClientConfig": {"service": {"name": "a"}}}))
            => "CRDConversion manifests/crd.yaml (spec.conversion.webhookClientConfig.service)";
        old().set("metadata/properties.yaml", "/properties/0/value", "4.9".into())
            => "OpenShiftRange manifests/crd.yaml (apiVersion)";
    ]);
    let target = with!(Options, kube_version: "1.21".parse().unwrap());
    let bundle = old().csv("/spec/minKubeVersion", "1.20.0".into());
    assert_rows!(bundle.advice(&target) => "RemovedAPI manifests/crd.yaml (apiVersion)");
}

// parity: check-11, check-12
#[test]
fn owned_crds_and_their_examples_are_checked() {
    let examples = |json: &str| Bundle::good().annotation("alm-examples", json);
    let example = r#"{"apiVersion": "example.com/v1", "kind": "Etcd"}"#;
    let without = |pointer: &str| Bundle::good().remove(CSV, pointer);
    let key = "/metadata/annotations/alm-examples";
    let list = "/spec/customresourcedefinitions/owned";
    let owned = |field: &str, value: &str| csv(&format!("{list}/0/{field}"), value);
    let other = json!([{"name": "others", "kind": "Other", "description": "d"}]);
    check(::tests::rows![
        without("/metadata/annotations") => "Example manifests/csv.yaml (metadata)";
        without(key) => "Example manifests/csv.yaml (metadata.annotations)";
        Bundle::good().annotation("olm.examples", "[]") => r#"Example manifests/csv.yaml (metadata.annotations["olm.examples"])"#;
        without(key).annotation("olm.examples", &format!("[{example}]")) => "";
        examples("[{]") => EXAMPLES;
        examples(example) => EXAMPLES;
        examples(&format!(r#"[{example}, {{"apiVersion": "example.com/v2", "kind": "Etcd"}}]"#)) => EXAMPLES;
        examples(&format!("[{example}, 1]")) => EXAMPLES;
        examples("[]") => &format!("Example {OWNED})");
        owned("version", "v2") => &format!("{EXAMPLES}, Example {OWNED}), UnservedVersion {OWNED}.version)");
        owned("kind", "Other") => &format!("{EXAMPLES}, Example {OWNED}), OwnedCRD {OWNED}.kind)");
        owned("description", "") => &format!("CRDDescription {OWNED})");
        csv("/spec/customresourcedefinitions/required", other)
            => "OwnedCRD manifests/csv.yaml (spec.customresourcedefinitions.required[0]), \
                OwnedCRD manifests/csv.yaml (spec.customresourcedefinitions.required[0].name)";
        Bundle::good().file("manifests/other.yaml", crd("others", "Other")) => "UnownedCRD manifests/other.yaml";
    ]);
}

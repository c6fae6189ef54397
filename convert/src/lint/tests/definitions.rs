use super::*;

const VERSIONS: &str = "manifests/crd.yaml (spec.versions)";

fn crd(pointer: &str, value: Value) -> Bundle {
    Bundle::good().set(CRD, pointer, value)
}

// parity: check-13
#[test]
fn names() {
    let names = |field: &str, value: Value| crd(&format!("/spec/names/{field}"), value);
    check(::tests::rows![
        names("shortNames", json!(["ed"])).set(CRD, "/spec/names/categories", json!(["all"])) => &[] as &[_];
        names("plural", "others".into()) => &[(Code::CRDNames, "manifests/crd.yaml (metadata.name)")];
        Bundle::good().remove(CRD, "/spec/names/plural") => &[(Code::CRDNames, "manifests/crd.yaml (spec.names)")];
        names("singular", "et_cd".into()) => &[(Code::CRDNames, "manifests/crd.yaml (spec.names.singular)")];
        names("listKind", "Etcd".into()) => &[(Code::CRDNames, "manifests/crd.yaml (spec.names.listKind)")];
        names("shortNames", json!(["ed", "e d"])) => &[(Code::CRDNames, "manifests/crd.yaml (spec.names.shortNames[1])")];
        Bundle::good().remove(CRD, "/spec/group") => &[(Code::CRDNames, "manifests/crd.yaml (spec)")];
        crd("/spec/group", "Example.com".into())
            => &[(Code::CRDNames, "manifests/crd.yaml (metadata.name)"), (Code::CRDNames, "manifests/crd.yaml (spec.group)")];
    ]);
}

// parity: check-13
#[test]
fn scope_and_pruning() {
    check(::tests::rows![
        crd("/spec/scope", "Cluster".into()) => &[] as &[_];
        crd("/spec/scope", "namespaced".into()) => &[(Code::CRDScope, "manifests/crd.yaml (spec.scope)")];
        Bundle::good().remove(CRD, "/spec/scope") => &[(Code::CRDScope, "manifests/crd.yaml (spec)")];
        crd("/spec/preserveUnknownFields", true.into())
            => &[(Code::CRDVersions, "manifests/crd.yaml (spec.preserveUnknownFields)")];
        crd("/spec/preserveUnknownFields", false.into()) => &[];
    ]);
}

// parity: check-13
#[test]
fn versions() {
    let another = |name: &str, served: bool, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = json!({"name": name, "served": served, "storage": storage, "schema": schema});
        crd("/spec/versions/-", version)
    };
    check(::tests::rows![
        another("v2", false, false) => &[] as &[_];
        another("v2", true, true) => &[(Code::CRDVersions, VERSIONS)];
        crd("/spec/versions/0/storage", false.into()) => &[(Code::CRDVersions, VERSIONS)];
        another("v1", true, false) => &[(Code::CRDVersions, "manifests/crd.yaml (spec.versions[1])")];
        another("2", true, false) => &[(Code::CRDVersions, "manifests/crd.yaml (spec.versions[1])")];
        crd("/spec/versions/0/served", false.into()) => &[(Code::CRDVersions, VERSIONS), (Code::UnservedVersion, UNSERVED)];
        crd("/spec/versions", json!([])) => &[(Code::CRDVersions, VERSIONS), (Code::UnservedVersion, UNSERVED)];
    ]);
}

// parity: check-13
#[test]
fn conversion() {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "webhook"}, "spec": {"selector": {"app": "etcd"}},
    });
    let by = |name: &str| {
        crd(
            "/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": {
                "name": name, "namespace": "etcd-system",
            }}}}),
        )
        .file("manifests/service.yaml", service.clone())
    };
    check(::tests::rows![
        crd("/spec/conversion", json!({"strategy": "None"})) => &[] as &[_];
        by("webhook") => &[];
        by("other").set(CSV, "/spec/webhookdefinitions", json!([{"type": "ConversionWebhook", "conversionCRDs": [
            "etcds.example.com",
        ]}])) => &[];
        by("other") => &[(Code::CRDConversion, "manifests/crd.yaml (spec.conversion.webhook.clientConfig.service)")];
        by("webhook").remove(CRD, "/spec/conversion/webhook/conversionReviewVersions")
            => &[(Code::CRDConversion, "manifests/crd.yaml (spec.conversion.webhook)")];
        crd("/spec/conversion", json!({"strategy": "Magic"}))
            => &[(Code::CRDConversion, "manifests/crd.yaml (spec.conversion.strategy)")];
    ]);
}

// parity: check-12
#[test]
fn two_crds_of_one_kind() {
    let other = super::crd("others", "Etcd");
    check(::tests::rows![
        Bundle::good().file("manifests/other.yaml", other)
            => &[(Code::DuplicateKind, "manifests/other.yaml (spec.names.kind)")] as &[_];
    ]);
}

/// The short form of v1beta1 is read as the API server read it.
// parity: check-12
#[test]
fn old_crds() {
    let old = || {
        crd("/apiVersion", "apiextensions.k8s.io/v1beta1".into())
            .remove(CRD, "/spec/versions")
            .set(CRD, "/spec/version", "v1".into())
            .file(
                "metadata/properties.yaml",
                json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.8"}]}),
            )
    };
    check(::tests::rows![
        old() => &[] as &[_];
        old().remove(CRD, "/spec/scope") => &[];
        old().set(CRD, "/spec/version", "v2".into()) => &[(Code::UnservedVersion, UNSERVED)];
        old().set(CRD, "/spec/conversion", json!({"strategy": "Webhook", "webhookClientConfig": {"service": {"name": "a"}}}))
            => &[(Code::CRDConversion, "manifests/crd.yaml (spec.conversion.webhookClientConfig.service)")];
        old().set("metadata/properties.yaml", "/properties/0/value", "4.9".into())
            => &[(Code::OpenShiftRange, "manifests/crd.yaml (apiVersion)")];
    ]);
    let target = with!(Options, kube_version: "1.21".parse().unwrap());
    let bundle = old().set(CSV, "/spec/minKubeVersion", "1.20.0".into());
    assert_rows!(bundle.advice(&target) => [(Code::RemovedAPI, "manifests/crd.yaml (apiVersion)".to_owned())]);
}

//! Rejection of an invalid bundle: every reason, with its location.

use super::*;

/// Returns the errors of a bundle. A conversion has either errors or objects.
fn errors(bundle: &Bundle) -> Vec<String> {
    let conversion = bundle.convert();
    let errors = findings(&conversion, Level::Error);
    assert_eq!(conversion.objects.is_none(), !errors.is_empty());
    errors
}

fn webhook(name: &str) -> Value {
    json!({"type": "ValidatingAdmissionWebhook", "generateName": name, "deploymentName": "tide-operator",
        "admissionReviewVersions": ["v1"], "sideEffects": "None"})
}

// parity: platform-17, check-2, convert-2, convert-14
#[test]
fn each_reason_has_its_code_and_location() {
    let object = |api: &str, kind: &str, name: &str| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}});
    let (good, properties) = (Bundle::good, "metadata/properties.yaml");
    let csv = |pointer: &str, value: Value| good().csv(pointer, value);
    let deployment = &good().json(CSV)["spec"]["install"]["spec"]["deployments"][0];
    let service =
        json!({"group": "g", "version": "v1", "kind": "K", "name": "ks", "deploymentName": "d"});
    let in_csv = |code: &str, path: &str| format!("{code} {CSV} {path}");
    let in_extra = |code: &str, path: &str| format!("{code} manifests/x.yaml {path}");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    for (bundle, expected) in tests::rows![
        csv("/spec/installModes", json!([{"type": "OwnNamespace", "supported": true}]))
            => in_csv("InstallMode", "spec.installModes");
        csv("/spec/webhookdefinitions", json!([webhook("v.example.com")])) => in_csv("Webhooks", "spec.webhookdefinitions[0]");
        csv("/spec/apiservicedefinitions/owned", json!([service]))
            => in_csv("APIServices", "spec.apiservicedefinitions.owned[0]");
        csv("/spec/install/strategy", json!("helm")) => in_csv("InstallStrategy", "spec.install.strategy");
        csv("/spec/install/spec/deployments", json!([deployment, deployment]))
            => in_csv("DuplicateDeployment", "spec.install.spec.deployments[1].name");
        csv("/spec/install/spec/deployments/0/name", json!("Tide_Operator"))
            => in_csv("IllegalName", "spec.install.spec.deployments[0].name");
        csv("/spec/install/spec/permissions/0/serviceAccountName", json!("Not Legal"))
            => in_csv("IllegalName", "spec.install.spec.permissions[0].serviceAccountName");
        csv("/metadata/name", json!("")) => in_csv("Unidentified", "metadata.name");
        good().without(CRD) => in_csv("MissingCRD", "spec.customresourcedefinitions.owned[0]");
        extra(good().json(CRD)) => in_extra("DuplicateCRD", "");
        extra(format!("{}\n---\n{}", object("v1", "ConfigMap", "a"), map.clone())) => in_extra("DuplicateObject", "");
        extra(object("apps/v1", "Deployment", "tide-operator")) => in_extra("DuplicateObject", "");
        extra(object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "w")) => in_extra("WebhookObject", "");
        extra(object("apiregistration.k8s.io/v1", "APIService", "v1.example.com")) => in_extra("APIServiceObject", "");
        extra(object("v1", "Service", "1st")) => in_extra("IllegalName", "metadata.name");
        extra(object("v1", "ConfigMap", "Upper")) => in_extra("IllegalName", "metadata.name");
        extra(json!({"apiVersion": "v1", "kind": "ConfigMap"})) => in_extra("Unidentified", "metadata.name");
        extra("kind: ConfigMap\nmetadata: {name: a}") => in_extra("Unidentified", "");
        extra("metadata: {name: a}") => in_extra("Unidentified", "");
        extra("just a text") => in_extra("WrongShape", "");
        extra("a: [") => in_extra("Unreadable", "");
        good().file("manifests/sub/x.yaml", "a: 1") => "Subdirectory manifests/sub".to_owned();
        good().without(CSV) => "CSVCount".to_owned();
        good().file("manifests/a.yaml", good().json(CSV)) => in_csv("CSVCount", "");
        good().without(ANNOTATIONS) => "Missing".to_owned();
        good().file(ANNOTATIONS, "annotations: [") => format!("Unreadable {ANNOTATIONS}");
        good().file(ANNOTATIONS, "annotations: {operators.operatorframework.io.bundle.package.v1: \"\"}")
            => format!("PackageName {ANNOTATIONS} annotations");
        good().file(ANNOTATIONS, "annotations: {operators.operatorframework.io.bundle.package.v1: [a]}")
            => format!("WrongShape {ANNOTATIONS} annotations[\"operators.operatorframework.io.bundle.package.v1\"]");
        csv("/spec/version", json!("one")) => in_csv("WrongShape", "spec.version");
        csv("/metadata/annotations/olm.properties", json!("{}")).file(properties, "properties: [{type: a, value: b}]")
            => in_csv("Property", "metadata.annotations[\"olm.properties\"]");
        good().file(properties, "properties: {a: b}") => "Property metadata/properties.yaml properties".to_owned();
        good().file(properties, "properties: [{value: 1}]") => "Property metadata/properties.yaml properties[0]".to_owned();
    ] {
        let errors = errors(&bundle);
        assert_rows!(errors.iter().any(|error| error == expected.trim_end()) => true, "expected {expected}, found {errors:?}");
    }
    // The same object in an old and a new API is one object, and is reported once.
    let apis = ["extensions/v1beta1", "networking.k8s.io/v1"];
    let [old, mut new] = apis.map(|api| object(api, "Ingress", "x"));
    new["spec"] = json!({"ingressClassName": "c"});
    assert_rows!(errors(&extra(new).file("manifests/a.yaml", old)) => ["DuplicateObject manifests/x.yaml"]);
}

// parity: platform-16
#[test]
fn reasons_are_reported_together() {
    let webhooks = json!([webhook("a.example.com"), webhook("b.example.com")]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "A"}});
    let bundle = extra("a: [")
        .csv("/spec/installModes", json!([]))
        .csv("/spec/webhookdefinitions", webhooks)
        .csv("/spec/install/strategy", json!("helm"))
        .without(CRD)
        .file("manifests/y.yaml", service);
    let errors = errors(&bundle);
    let codes = || errors.iter().map(|error| error.split(' ').next());
    let count = |code| codes().filter(|found| *found == Some(code)).count();
    assert_rows!(["InstallMode", "Webhooks", "InstallStrategy", "MissingCRD", "Unreadable", "IllegalName"].map(count)
        => [1, 2, 1, 1, 1, 1]);
}

// parity: check-1
#[test]
fn every_rejection_has_a_remedy_and_a_line() {
    let text = "kind: ClusterServiceVersion\napiVersion: operators.coreos.com/v1alpha1\nmetadata:\n  name: a.v1.0.0\n\
                spec:\n  version: 1.0.0\n  install:\n    strategy: helm\n  installModes:\n  - type: AllNamespaces\n    supported: true\n";
    let content = Bundle::good().file(CSV, text).content();
    let mut report = convert::plain(&content, &Options::default()).report;
    report.locate(&content);
    let mut refusals = report.refusals();
    let refusal = refusals.find(|finding| finding.code == Code::InstallStrategy);
    let expected = "install strategy \"helm\" is not supported; set `strategy: deployment`";
    assert_rows!(refusal.unwrap().to_string() => format!("{CSV}:8:15 (spec.install.strategy): {expected}"));
}

/// Every value of the CSV is replaced by every wrong type: the result is an error that names its file, never a panic.
#[test]
fn a_csv_of_any_shape_gets_an_answer() {
    let wrong = json!([null, true, 7, -1.5, "text", [], [1, null], {}, {"a": {}}]);
    let mut refused = 0;
    for pointer in pointers(&Bundle::good().json(CSV)) {
        for value in wrong.as_array().unwrap() {
            let bundle = Bundle::good().csv(&pointer, value.clone());
            for finding in bundle.convert().report.with_level(Level::Error) {
                refused += 1;
                let file = finding.location.as_ref().map(|place| place.file.as_str());
                assert_rows!(file.is_some() || finding.code == Code::CSVCount => true, "{pointer} = {value}: {finding}");
            }
        }
    }
    assert_rows!(refused > 200 => true, "only {refused} refusals: the test has lost its subject");
}

#[test]
fn plain_content_is_rejected_with_the_messages_of_rukpak() {
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    for (files, message) in tests::rows![
        vec![("other/x.yaml", map)] => "readdir manifests: file does not exist";
        vec![("manifests/x.yaml", map), ("manifests/sub/y.yaml", map)]
            => "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: \
         found \"manifests/sub\"";
        vec![("manifests/x.yaml", "# nothing\n")]
            => "invalid bundle: found zero objects: plain+v0 bundles are required to contain at least one object";
        vec![("manifests/README.md", "# Readme\n\nA text.\n")] => "the document is a string, not an object";
        vec![("manifests/x.yaml", map), ("manifests/y.yaml", &map.replace("}}", "}, data: {k: v}}"))]
            => "bundle contains ConfigMap \"a\" twice with different content";
        vec![("manifests/x.yaml", "{apiVersion: v1, kind: ConfigMap}")] => "a ConfigMap has no metadata.name";
        vec![("manifests/x.yaml", "{kind: ConfigMap, metadata: {name: a}}")] => "the object has no apiVersion";
    ] {
        let options = with!(Options, class: Some(Class::Plain));
        let conversion = convert::plain(&content(files), &options);
        let mut errors = conversion.report.refusals().map(ToString::to_string);
        let is_reported = errors.any(|error| error.contains(message));
        assert_rows!(is_reported && conversion.objects.is_none() => true, "{message}: {:?}", conversion.report.findings);
    }
}

#[test]
fn rejections_are_reported_despite_many_other_problems() {
    let many: serde_json::Map<_, _> = (0..1100).map(|n| (format!("x{n}"), json!(n))).collect();
    let unknown = Bundle::good()
        .changed(CSV, |csv| {
            csv["metadata"].as_object_mut().unwrap().extend(many);
        })
        .csv(DEPLOYMENTS, json!({"a": "b"}));
    assert!(errors(&unknown).contains(&format!("WrongShape {CSV} spec.install.spec.deployments")));
    let mut annotations = Bundle::good().0[ANNOTATIONS].clone();
    (0..6000).for_each(|n| writeln!(annotations, "  x{n}: {n}.0").unwrap());
    let warned = Bundle::good()
        .csv("/spec/installModes", json!([]))
        .file(ANNOTATIONS, annotations);
    let errors = errors(&warned).join("\n");
    assert_rows!(errors.contains("InstallMode ") && errors.contains("TooMany") => true, "{errors}");
}

// parity: convert-17
#[test]
fn annotations_that_do_not_fit_a_deployment_are_rejected() {
    let examples = "/metadata/annotations/alm-examples";
    let example = |size| Bundle::good().csv(examples, json!("x".repeat(size)));
    assert_rows!(errors(&example(300 << 10)) => [format!("TooMany {CSV} metadata.annotations")]);
    let deployments = (0..1000).map(|n| json!({"name": format!("d{n}")}));
    let errors = errors(&example(100 << 10).csv(DEPLOYMENTS, deployments.collect()));
    assert!(errors.iter().any(|error| error.starts_with("TooMany")));
}

#[test]
fn messages_stay_short_however_long_names_are() {
    let name = "x".repeat(500_000);
    let spec: Value = (0..50).map(|n| (format!("unknown{n}"), json!(1))).collect();
    let metadata = json!({"name": name});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, name: {}});
    let findings = extra(service).convert().report.findings;
    assert!(findings.len() > 50);
    let lengths = findings.iter().map(|finding| finding.to_string().len());
    let longest = lengths.max();
    assert!(longest < Some(6000), "{longest:?} bytes");
}

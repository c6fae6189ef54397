//! What a bad bundle is told: every reason, with its place.

use super::fixture::{ANNOTATIONS, Bundle, CRD, CSV, REMOVED, findings};
use std::fmt::Write;

use convert::{Class, Code, Level, Options};
use manifests::content::{Builder, Content, Limits};
use serde_json::{Value, json};

/// The errors of a bundle; having one and having objects exclude each other.
fn errors(bundle: &Bundle) -> Vec<(Code, String, String)> {
    let conversion = bundle.convert();
    let errors = findings(&conversion, Level::Error);
    assert_eq!(conversion.objects.is_none(), !errors.is_empty());
    errors
}

fn webhook(name: &str) -> Value {
    json!({"type": "ValidatingAdmissionWebhook", "generateName": name, "deploymentName": "tide-operator",
        "admissionReviewVersions": ["v1"], "sideEffects": "None"})
}

#[test]
fn a_good_bundle_is_not_refused_and_has_no_warning() {
    let conversion = Bundle::good().convert();
    assert_eq!(findings(&conversion, Level::Error), []);
    assert_eq!(findings(&conversion, Level::Warning), []);
}

// parity: platform-17, check-2, convert-2, convert-14
#[test]
fn each_reason_names_its_code_and_place() {
    let object = |api: &str, kind: &str, name: &str| {
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}}).to_string()
    };
    let deployment = Bundle::good().csv["spec"]["install"]["spec"]["deployments"][0].clone();
    let extra = |text: String| Bundle::good().file("manifests/x.yaml", text);
    let in_csv = |code, path: &str| (code, CSV, path.to_owned());
    let in_extra = |code, path: &str| (code, "manifests/x.yaml", path.to_owned());
    let cases = tests::rows![
        Bundle::good().csv("/spec/installModes", json!([{"type": "OwnNamespace", "supported": true}]))
            => in_csv(Code::InstallMode, "spec.installModes");
        Bundle::good().csv("/spec/webhookdefinitions", json!([webhook("v.example.com")]))
            => in_csv(Code::Webhooks, "spec.webhookdefinitions[0]");
        Bundle::good().csv(
            "/spec/apiservicedefinitions/owned",
            json!([{"group": "g", "version": "v1", "kind": "K", "name": "ks", "deploymentName": "d"}]),
        ) => in_csv(Code::APIServices, "spec.apiservicedefinitions.owned[0]");
        Bundle::good().csv("/spec/install/strategy", json!("helm")) => in_csv(Code::InstallStrategy, "spec.install.strategy");
        Bundle::good().csv("/spec/install/spec/deployments", json!([deployment, deployment]))
            => in_csv(Code::DuplicateDeployment, "spec.install.spec.deployments[1].name");
        Bundle::good().csv("/spec/install/spec/deployments/0/name", json!("Tide_Operator"))
            => in_csv(Code::IllegalName, "spec.install.spec.deployments[0].name");
        Bundle::good().csv("/spec/install/spec/permissions/0/serviceAccountName", json!("Not Legal"))
            => in_csv(Code::IllegalName, "spec.install.spec.permissions[0].serviceAccountName");
        Bundle::good().csv("/metadata/name", json!("")) => in_csv(Code::Unidentified, "metadata.name");
        Bundle::good().file(CRD, REMOVED) => in_csv(Code::MissingCRD, "spec.customresourcedefinitions.owned[0]");
        extra(Bundle::good().crd.to_string()) => in_extra(Code::DuplicateCRD, "");
        extra(format!(
            "{}\n---\n{}",
            object("v1", "ConfigMap", "a"),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})
        )) => in_extra(Code::DuplicateObject, "");
        extra(object("apps/v1", "Deployment", "tide-operator")) => in_extra(Code::DuplicateObject, "");
        extra(object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "w"))
            => in_extra(Code::WebhookObject, "");
        extra(object("apiregistration.k8s.io/v1", "APIService", "v1.example.com")) => in_extra(Code::APIServiceObject, "");
        extra(object("v1", "Service", "1st")) => in_extra(Code::IllegalName, "metadata.name");
        extra(object("v1", "ConfigMap", "Upper")) => in_extra(Code::IllegalName, "metadata.name");
        extra(json!({"apiVersion": "v1", "kind": "ConfigMap"}).to_string()) => in_extra(Code::Unidentified, "metadata.name");
        extra("kind: ConfigMap\nmetadata: {name: a}".into()) => in_extra(Code::Unidentified, "");
        extra("metadata: {name: a}".into()) => in_extra(Code::Unidentified, "");
        extra("just a text".into()) => in_extra(Code::WrongShape, "");
        extra("a: [".into()) => in_extra(Code::Unreadable, "");
        Bundle::good().file("manifests/sub/x.yaml", "a: 1") => (Code::Subdirectory, "manifests/sub", String::new());
        Bundle::good().file(CSV, REMOVED) => (Code::CSVCount, "", String::new());
        Bundle::good().file("manifests/second.yaml", Bundle::good().csv.to_string()) => in_csv(Code::CSVCount, "");
        Bundle::good().file(ANNOTATIONS, REMOVED) => (Code::Missing, "", String::new());
        Bundle::good().file(ANNOTATIONS, "annotations: [") => (Code::Unreadable, ANNOTATIONS, String::new());
        Bundle::good().file(ANNOTATIONS, "annotations: {operators.operatorframework.io.bundle.package.v1: \"\"}")
            => (Code::PackageName, ANNOTATIONS, "annotations".to_owned());
        Bundle::good().file(ANNOTATIONS, "annotations: {operators.operatorframework.io.bundle.package.v1: [a]}")
            => (Code::WrongShape, ANNOTATIONS, "annotations[\"operators.operatorframework.io.bundle.package.v1\"]".to_owned());
        Bundle::good().csv("/spec/version", json!("one")) => in_csv(Code::WrongShape, "spec.version");
        Bundle::good()
            .file("metadata/properties.yaml", "properties: [{type: a, value: b}]")
            .csv("/metadata/annotations/olm.properties", json!("{}"))
            => in_csv(Code::Property, "metadata.annotations[\"olm.properties\"]");
        Bundle::good().file("metadata/properties.yaml", "properties: {a: b}")
            => (Code::Property, "metadata/properties.yaml", "properties".to_owned());
        Bundle::good().file("metadata/properties.yaml", "properties: [{value: 1}]")
            => (Code::Property, "metadata/properties.yaml", "properties[0]".to_owned());
    ];
    for (bundle, (code, file, path)) in cases {
        let errors = errors(&bundle);
        let expected = (code, file.to_owned(), path);
        assert!(
            errors.contains(&expected),
            "expected {expected:?}, found {errors:?}"
        );
    }
}

// parity: platform-16
#[test]
fn every_reason_is_told_at_once() {
    let bundle = Bundle::good()
        .csv("/spec/installModes", json!([]))
        .csv(
            "/spec/webhookdefinitions",
            json!([webhook("a.example.com"), webhook("b.example.com")]),
        )
        .csv("/spec/install/strategy", json!("helm"))
        .file(CRD, REMOVED)
        .file("manifests/x.yaml", "a: [")
        .file(
            "manifests/y.yaml",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "A"}}).to_string(),
        );
    let codes: Vec<Code> = errors(&bundle).into_iter().map(|error| error.0).collect();
    for code in [
        Code::InstallMode,
        Code::Webhooks,
        Code::InstallStrategy,
        Code::MissingCRD,
        Code::Unreadable,
        Code::IllegalName,
    ] {
        assert!(codes.contains(&code), "{code}: {codes:?}");
    }
    assert_eq!(
        codes.iter().filter(|code| **code == Code::Webhooks).count(),
        2
    );
}

// parity: check-1
#[test]
fn every_refusal_has_a_remedy_and_a_line() {
    let text = "kind: ClusterServiceVersion\napiVersion: operators.coreos.com/v1alpha1\nmetadata:\n  name: a.v1.0.0\n\
                spec:\n  version: 1.0.0\n  install:\n    strategy: helm\n  installModes:\n  - type: AllNamespaces\n    supported: true\n";
    let content = Bundle::good().file(CSV, text).content();
    let mut report = convert::plain(&content, &Options::default()).report;
    report.locate(&content);
    let refusal = report
        .refusals()
        .find(|finding| finding.code == Code::InstallStrategy)
        .unwrap();
    assert_eq!(
        refusal.to_string(),
        format!(
            "{CSV}:8:15 (spec.install.strategy): install strategy \"helm\" is not supported; write `strategy: deployment`"
        )
    );
}

/// Every value of the CSV replaced by every wrong type: a clear answer, never a panic, and an error names its file.
#[test]
fn a_csv_of_any_shape_gets_an_answer() {
    fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
        out.push(at.to_owned());
        let escaped = |key: &str| key.replace('/', "~1");
        match value {
            Value::Object(map) => map
                .iter()
                .for_each(|(key, value)| pointers(value, &format!("{at}/{}", escaped(key)), out)),
            Value::Array(list) => list
                .iter()
                .enumerate()
                .for_each(|(i, value)| pointers(value, &format!("{at}/{i}"), out)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    pointers(&Bundle::good().csv, "", &mut all);
    let wrong = [
        json!(null),
        json!(true),
        json!(7),
        json!(-1.5),
        json!("text"),
        json!([]),
        json!([1, null]),
        json!({}),
        json!({"a": {}}),
    ];
    let mut refused = 0;
    for pointer in all.iter().filter(|pointer| !pointer.is_empty()) {
        for value in &wrong {
            let conversion = Bundle::good()
                .with(|bundle| *bundle.csv.pointer_mut(pointer).unwrap() = value.clone())
                .convert();
            for finding in conversion.report.of(Level::Error) {
                refused += 1;
                let file = finding.place.as_ref().map(|place| place.file.as_str());
                assert!(
                    file.is_some() || finding.code == Code::CSVCount,
                    "{pointer} = {value}: {finding}"
                );
            }
        }
    }
    assert!(
        refused > 200,
        "only {refused} refusals: the test has lost its subject"
    );
}

#[test]
fn a_wrong_type_where_nothing_is_decided_is_a_warning() {
    let conversion = Bundle::good()
        .csv("/spec/icon", json!("none"))
        .csv("/spec/clusterpermissions", json!([]))
        .convert();
    assert!(conversion.objects.is_some());
    let mut warnings: Vec<_> = findings(&conversion, Level::Warning)
        .into_iter()
        .map(|w| (w.0, w.2))
        .collect();
    warnings.sort();
    assert_eq!(
        warnings,
        [
            (Code::WrongShape, "spec.icon".to_owned()),
            (Code::UnknownField, "spec.clusterpermissions".to_owned())
        ]
    );
}

fn plain(files: &[(&str, &str)]) -> Content {
    let mut builder = Builder::new(Limits::default());
    for (path, text) in files {
        builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
    }
    builder.finish()
}

#[test]
fn plain_content_is_refused_in_rukpaks_words() {
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    for (files, message) in tests::rows![
        vec![("other/x.yaml", map)] => "readdir manifests: file does not exist";
        vec![("manifests/x.yaml", map), ("manifests/sub/y.yaml", map)]
            => "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: \
         found \"manifests/sub\"";
        vec![("manifests/x.yaml", "# nothing\n")]
            => "invalid bundle: found zero objects: plain+v0 bundles are required to contain at least one object";
        vec![("manifests/README.md", "# Readme\n\nA text.\n")] => "the document is a text, not an object";
        vec![
            ("manifests/x.yaml", map),
            (
                "manifests/y.yaml",
                "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}",
            ),
        ] => "bundle contains ConfigMap \"a\" twice, and they differ";
        vec![("manifests/x.yaml", "{apiVersion: v1, kind: ConfigMap}")] => "a ConfigMap has no metadata.name";
        vec![("manifests/x.yaml", "{kind: ConfigMap, metadata: {name: a}}")] => "the object has no apiVersion";
    ] {
        let options = Options {
            class: Some(Class::Plain),
            ..Options::default()
        };
        let conversion = convert::plain(&plain(&files), &options);
        let errors: Vec<_> = conversion
            .report
            .refusals()
            .map(ToString::to_string)
            .collect();
        assert!(
            conversion.objects.is_none() && errors.iter().any(|error| error.contains(message)),
            "{message}: {errors:?}"
        );
    }
}

#[test]
fn a_bad_properties_annotation_alone_is_a_warning() {
    for (text, warnings) in [("", 0), ("null", 0), ("{}", 1), ("[", 1)] {
        let conversion = Bundle::good()
            .csv("/metadata/annotations/olm.properties", json!(text))
            .convert();
        assert!(conversion.objects.is_some());
        assert_eq!(
            findings(&conversion, Level::Warning).len(),
            warnings,
            "{text:?}"
        );
    }
}

/// The same object in an old and a new API is one object, and is told once.
#[test]
fn duplicates_are_found_across_apis() {
    let ingress = |api: &str| json!({"apiVersion": api, "kind": "Ingress", "metadata": {"name": "x"}, "spec": {}});
    let bundle = Bundle::good()
        .file(
            "manifests/a.yaml",
            ingress("extensions/v1beta1").to_string(),
        )
        .file(
            "manifests/b.yaml",
            ingress("networking.k8s.io/v1")
                .to_string()
                .replace("\"spec\":{}", "\"spec\":{\"ingressClassName\":\"c\"}"),
        );
    assert_eq!(
        errors(&bundle),
        [(
            Code::DuplicateObject,
            "manifests/b.yaml".to_owned(),
            String::new()
        )]
    );
}

#[test]
fn no_number_of_other_problems_hides_why_a_bundle_is_refused() {
    let many: serde_json::Map<_, _> = (0..1100).map(|n| (format!("x{n}"), json!(n))).collect();
    let unknown = Bundle::good().with(|bundle| {
        bundle.csv["metadata"]
            .as_object_mut()
            .unwrap()
            .extend(many.clone());
        bundle.csv["spec"]["install"]["spec"]["deployments"] = json!({"a": "b"});
    });
    let place = "spec.install.spec.deployments".to_owned();
    assert!(errors(&unknown).contains(&(Code::WrongShape, CSV.to_owned(), place)));
    let warned = Bundle::good()
        .csv("/spec/installModes", json!([]))
        .with(|bundle| {
            let annotations = bundle.files.get_mut(ANNOTATIONS).unwrap();
            for n in 0..6000 {
                writeln!(annotations, "  x{n}: {n}.0").unwrap();
            }
        });
    let errors: Vec<_> = errors(&warned).into_iter().map(|error| error.0).collect();
    assert!(
        errors.contains(&Code::InstallMode) && errors.contains(&Code::TooMany),
        "{errors:?}"
    );
}

// parity: convert-17
#[test]
fn annotations_that_no_deployment_can_carry_are_refused() {
    let long = "x".repeat(300 << 10);
    let bundle = Bundle::good().csv("/metadata/annotations/alm-examples", json!(long));
    assert_eq!(
        errors(&bundle),
        [(
            Code::TooMany,
            CSV.to_owned(),
            "metadata.annotations".to_owned()
        )]
    );
    let many: Vec<_> = (0..1000)
        .map(|n| json!({"name": format!("d{n}")}))
        .collect();
    let bundle = Bundle::good()
        .csv(
            "/metadata/annotations/alm-examples",
            json!("x".repeat(100 << 10)),
        )
        .csv("/spec/install/spec/deployments", json!(many));
    assert!(errors(&bundle).iter().any(|error| error.0 == Code::TooMany));
}

#[test]
fn messages_stay_short_however_long_names_are() {
    let name = "x".repeat(500_000);
    let spec: serde_json::Map<_, _> = (0..50).map(|n| (format!("unknown{n}"), json!(1))).collect();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec, name.clone(): {}});
    let conversion = Bundle::good()
        .file("manifests/x.yaml", service.to_string())
        .convert();
    assert!(conversion.report.findings.len() > 50);
    for finding in &conversion.report.findings {
        assert!(
            finding.to_string().len() < 6000,
            "{} bytes",
            finding.to_string().len()
        );
    }
}

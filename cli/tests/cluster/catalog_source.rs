//! `rukpak catalogsource validate`, compared with the API server whose checks it repeats.

use std::{fs, process::Command};

use cluster::Cluster;
use http::Request;
use kube::{Client, Error};
use manifests::api::{catalog_source::convert::Version, crds};
use serde_json::{Value, json};

use crate::environment::{Run, apply, bare, binary};

/// Creates the CRD of CatalogSources with both versions. No object is stored, so none is converted.
async fn define(cluster: &Cluster) {
    let [_, crd] = crds::optional_crds();
    let mut crd = serde_json::to_value(crd).unwrap();
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    let mut v1 = versions[0].clone();
    v1["name"] = "v1".into();
    v1["storage"] = false.into();
    v1["schema"]["openAPIV3Schema"] = crds::catalog_source_schema(Version::V1).unwrap();
    versions.push(v1);
    apply(cluster, [crd]).await;
}

/// Returns the errors of the API server for creating an object of a version, in JSON.
async fn server(client: &Client, version: Version, object: &str) -> Vec<String> {
    let version = version.api_version();
    let sources = format!("/apis/{version}/namespaces/default/catalogsources");
    let request = Request::post(format!("{sources}?dryRun=All&fieldValidation=Strict"));
    let request = request.header("Content-Type", "application/json");
    let request = request.body(object.as_bytes().to_vec()).unwrap();
    let status = match client.request::<Value>(request).await {
        Ok(_) => return Vec::new(),
        Err(Error::Api(status)) => status,
        Err(error) => panic!("{object}: {error}"),
    };
    if let Some((_, unknown)) = status.message.split_once("strict decoding error: ") {
        return unknown.split(", ").map(str::to_owned).collect();
    }
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let errors = causes.map(|cause| format!("{}: {}", cause.field, cause.message));
    let errors: Vec<String> = errors.collect();
    assert!(!errors.is_empty(), "{object}: {status:?}");
    errors
}

/// Returns the errors of the command for each object. Each object has a separate file.
fn command(objects: &[&str]) -> Vec<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary());
    command.args(["catalogsource", "validate", "-o", "json"]);
    for (number, object) in objects.iter().enumerate() {
        let path = dir.path().join(number.to_string());
        fs::write(&path, object).unwrap();
        command.arg(path);
    }
    let run: Run = command.output().unwrap().into();
    let errors = |source: &Value| serde_json::from_value(source["errors"].clone()).unwrap();
    let all: Vec<Vec<String>> = run.json().as_array().unwrap().iter().map(errors).collect();
    assert_eq!(all.len(), objects.len(), "{run:?}");
    tests::assert_rows!(run.code => Some(i32::from(all.iter().any(|errors| !errors.is_empty()))), "{run:?}");
    all
}

fn list(values: Value) -> Vec<Value> {
    serde_json::from_value(values).unwrap()
}

/// Returns specs with one, no, several and contradictory sources.
fn sources() -> Vec<Value> {
    let (image, service) = (json!({"catalogImage": "r/c:v1"}), json!({"address": "a"}));
    let map = json!({"configMap": "m"});
    list(json!([
        {"catalogImageSource": image}, {"catalogServiceSource": {"address": "some.namespace.svc"}}, {"configMapSource": map},
        {"sourceType": "configMap", "configMap": "m"}, {"sourceType": "internal"}, {"image": "r/c:v1"}, {},
        {"sourceType": "grpc", "address": "a:1", "image": "", "grpcPodConfig": {}}, {"displayName": "a", "grpcPodConfig": {}},
        {"catalogImageSource": image, "catalogServiceSource": service},
        {"catalogImageSource": image, "catalogServiceSource": service, "configMapSource": map},
        {"catalogImageSource": image, "image": "r/c:v1", "grpcPodConfig": {}},
        {"catalogServiceSource": service, "secrets": ["s"], "updateStrategy": {}},
        {"configMapSource": map, "secrets": []}, {"secrets": ["s"]}, {"catalogImageSource": {}},
        {"catalogImageSource": {"catalogImage": ""}, "image": "r/c:v1"},
        {"catalogServiceSource": {"address": "x".repeat(2049)}, "image": "r/c:v1"},
        {"catalogImageSource": null, "sourceType": "grpc", "image": "r/c:v1"},
    ]))
}

/// Returns specs with invalid values and unknown fields.
fn values() -> Vec<Value> {
    let affinity = |term: Value| json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}});
    let many: Value = (0..65).map(|at| (at.to_string(), json!("x"))).collect();
    let of_images = json!([
        {}, {"address": "a:1"}, {"configMap": "m", "grpcPodConfig": {}}, {"sourceType": "configmap"}, {"sourceType": ""},
        {"image": "x".repeat(1025)}, {"image": "é".repeat(1025)}, {"image": "é".repeat(1024)},
        {"secrets": vec!["s"; 65]}, {"secrets": "s"}, {"secrets": [5, "x".repeat(254)]},
        {"secrets": null, "updateStrategy": {"registryPoll": null}},
        {"priority": "5"}, {"priority": 1.0}, {"priority": 1.5}, {"priority": 1e30},
        {"icon": {"mediatype": "a"}}, {"icon": {"base64data": 1, "mediatype": null}},
        {"updateStrategy": {"registryPoll": {"interval": 5}}}, {"updateStrategy": []},
        {"a": 1, "b": null, "grpcPodConfig": {"x": {"y": 1}}},
    ]);
    let of_pods = json!([
        {"securityContextConfig": "bogus"}, {"memoryTarget": "50Mi"}, {"memoryTarget": 5}, {"memoryTarget": "50Mx"},
        {"memoryTarget": "a\"b\n"}, {"memoryTarget": true}, {"memoryTarget": 1.5},
        {"nodeSelector": {"a": 5}}, {"nodeSelector": {"a": null}}, {"nodeSelector": {"a": "x".repeat(64)}},
        {"nodeSelector": many}, {"extractContent": {}}, {"extractContent": null}, {"tolerationz": []},
        {"tolerations": [{"operator": "Exists", "bogus": 1}]}, {"tolerations": [null]},
        {"tolerations": [{"key": null, "tolerationSeconds": "x"}]},
        {"affinity": affinity(json!({"weight": 1}))}, {"affinity": affinity(json!({"weight": 1.5, "preference": {}}))},
        {"affinity": affinity(json!({"weight": 99_999_999_999_i64, "preference": {}}))},
    ]);
    let no_objects = json!([5, null, "x", [], {"catalogImageSource": "x"}, {"catalogImageSource": {"catalogImage": 5}}]);
    let of_images = list(of_images).into_iter().map(|fields| {
        let mut spec = json!({"sourceType": "grpc", "image": "r/c:v1"});
        let fields = fields.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(fields);
        spec
    });
    let of_pods = list(of_pods).into_iter().map(|options| {
        json!({"catalogImageSource": {"catalogImage": "r/c:v1", "podSpecOverrides": options}})
    });
    let specs = list(no_objects).into_iter().chain(of_images);
    specs.chain(of_pods).collect()
}

// parity: source-16
#[tokio::test(flavor = "multi_thread")]
async fn validate_reports_what_the_api_server_reports() {
    let cluster = bare().await;
    let client = cluster.client().unwrap();
    define(&cluster).await;
    let mut objects = Vec::new();
    for version in [Version::V1alpha1, Version::V1] {
        let metadata = json!({"name": "mine", "namespace": "default"});
        let object = |spec: &Value| json!({"apiVersion": version.api_version(), "kind": "CatalogSource", "metadata": metadata, "spec": spec});
        let mut add = |object: &Value| objects.push((version, object.to_string()));
        for spec in sources().iter().chain(&values()) {
            add(&object(spec));
        }
        let good = object(&sources()[0]);
        for name in ["A_b", &"x".repeat(254), &"A_".repeat(200), "a..b-", ""] {
            let mut bad = good.clone();
            bad["metadata"]["name"] = name.into();
            add(&bad);
        }
        let mut unknown = good.clone();
        unknown["bogus"] = 1.into();
        unknown["metadata"]["bogus"] = 1.into();
        add(&unknown);
        let mut nothing = good;
        nothing.as_object_mut().unwrap().remove("spec");
        add(&nothing);
    }
    let texts: Vec<&str> = objects.iter().map(|(_, text)| text.as_str()).collect();
    for ((version, text), mut actual) in objects.iter().zip(command(&texts)) {
        let mut expected = server(&client, *version, text).await;
        let is_unknown = |error: &String| error.starts_with("unknown field");
        // The API server stops at unknown fields.
        if expected.iter().any(is_unknown) {
            actual.retain(is_unknown);
        }
        expected.sort();
        actual.sort();
        assert_eq!(actual, expected, "{text}");
    }
    assert_same_duplicates(&client).await;
}

/// Compares the duplicate fields that are reported. The command adds their lines.
async fn assert_same_duplicates(client: &Client) {
    let text = r#"{
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "mine", "namespace": "default", "annotations": {"a.b\/c": "1",
            "a.b/c": "2"}},
        "spec": {"sourceType": "grpc", "image": "r/c:v1", "image": "r/c:v2",
            "grpcPodConfig": {"tolerations": [{}, {"operator": "Exists", "operator": "Exists"}]}}
    }"#;
    let mut expected = server(client, Version::V1alpha1, text).await;
    expected.sort();
    let actual = command(&[text]).remove(0);
    let numbered = actual.iter().zip(4..).map(|(error, line)| {
        let error = error.strip_prefix(&format!("line {line}: "));
        error.unwrap_or_default().to_owned()
    });
    let mut unnumbered: Vec<String> = numbered.collect();
    unnumbered.sort();
    assert_eq!(unnumbered, expected, "{actual:?}");
    assert_eq!(actual.len(), 3, "{actual:?}");
}

//! Sources of a catalog: the validation rules of CatalogSources, on the API server that enforces them.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use manifests::api::crds;

use super::*;
use crate::support::{catalog_source, delete};

mod warnings;

pub(in crate::api) fn source(name: &str, spec: &Value) -> Value {
    catalog_source("default", name, spec)
}

const GROUP: &str = "stored.example.com";

/// Returns the CRD under another name, with the rules or without them, as in earlier versions.
fn crd(with_rules: bool) -> Value {
    let all = crds::optional_crds();
    let crd = all
        .iter()
        .find(|crd| crd.spec.names.kind == "CatalogSource")
        .unwrap();
    let mut definition = serde_json::to_value(crd).unwrap();
    definition["metadata"]["name"] = format!("catalogsources.{GROUP}").into();
    definition["spec"]["group"] = GROUP.into();
    definition["spec"]["names"]["categories"] = json!([]);
    definition["spec"]["names"]["shortNames"] = json!([]);
    let spec = definition
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec")
        .unwrap();
    if !with_rules {
        spec.as_object_mut()
            .unwrap()
            .remove("x-kubernetes-validations");
    }
    definition
}

async fn define(definition: &Value) {
    let client = defined().await.client().unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let params = PatchParams::apply("test").force();
    let name = definition["metadata"]["name"].as_str().unwrap();
    let applied = api.patch(name, &params, &Patch::Apply(definition)).await;
    applied.unwrap();
    defined().await.wait_established(name).await.unwrap();
}

/// Returns objects that were valid before the rules, with a change of the invalid part.
fn offenders() -> [(&'static str, Value, Value); 16] {
    let both = json!({"sourceType": "grpc", "image": "r/c:v1", "address": "a:1"});
    let forms = json!({"sourceType": "grpc", "image": "r/c:v1", "catalogServiceSource": {"address": "a:1"}});
    tests::rows![
        "both", both.clone() => json!({"address": "b:2"});
        "type", json!({"sourceType": "foo", "image": "r/c:v1"}) => json!({"sourceType": "bar"});
        "forms", forms => json!({"image": "r/c:v2"});
        "members", json!({"catalogImageSource": {"catalogImage": "a"}, "configMapSource": {"configMap": "m"}})
            => json!({"catalogServiceSource": {"address": "a:1"}});
        "other-members", json!({"catalogImageSource": {"catalogImage": "a"}, "configMapSource": {"configMap": "m"}})
            => json!({"catalogServiceSource": {"address": "a:1"}, "configMapSource": null});
        "all-members",
        json!({"catalogImageSource": {"catalogImage": "a"}, "configMapSource": {"configMap": "m"}, "catalogServiceSource": {"address": "a:1"}})
            => json!({"sourceType": "grpc"});
        "typeless", json!({"image": "r/c:v1"}) => json!({"sourceType": "foo"});
        "none", json!({}) => json!({"address": ""});
        "place", json!({"sourceType": "grpc"}) => json!({"configMap": "m"});
        "map", json!({"sourceType": "internal"}) => json!({"image": "r/c:v1"});
        "blank", json!({"sourceType": "grpc", "image": "", "address": "a:1"}) => json!({"address": ""});
        "beside", json!({"sourceType": "configmap", "configMap": "m", "image": "r/c:v1"}) => json!({"image": "r/c:v2"});
        "pod", json!({"sourceType": "grpc", "address": "a:1", "grpcPodConfig": {"memoryTarget": "1Mi"}})
            => json!({"grpcPodConfig": {"memoryTarget": "2Mi"}});
        "both-pods", json!({"catalogServiceSource": {"address": "a:1"}, "sourceType": "grpc", "grpcPodConfig": {}})
            => json!({"grpcPodConfig": {"memoryTarget": "2Mi"}});
        "polled", json!({"configMapSource": {"configMap": "m"}, "updateStrategy": {}})
            => json!({"updateStrategy": {"registryPoll": {}}});
        "secret", json!({"catalogServiceSource": {"address": "a:1"}, "secrets": ["s"]}) => json!({"secrets": ["s", "t"]});
    ]
}

/// Contradictory objects that were stored before stay usable: only their invalid part cannot change.
// parity: source-10, source-11
#[tokio::test]
async fn stored_invalid_sources_stay_writable() {
    define(&crd(false)).await;
    let stored = |name: &str, spec: &Value| {
        let mut object = source(name, spec);
        object["apiVersion"] = format!("{GROUP}/v1alpha1").into();
        object["metadata"]["finalizers"] = json!(["example.com/kept"]);
        object
    };
    let rows = offenders();
    let both = rows[0].1.clone();
    for (name, spec, _) in &rows {
        put(&stored(name, spec), false).await.unwrap();
    }
    define(&crd(true)).await;
    // The rules take effect after a moment.
    let begun = std::time::Instant::now();
    while put(&stored("probe", &both), true).await.is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no rules");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for (name, spec, offence) in &rows {
        let object = stored(name, spec);
        let fine =
            |result: Result<(), String>| result.unwrap_or_else(|error| panic!("{name}: {error}"));
        fine(alter(&object, json!({"metadata": {"labels": {"a": "b"}}})).await);
        let display = json!({"displayName": "mine", "priority": 7, "icon": {"base64data": "", "mediatype": "a"}});
        fine(alter(&object, json!({"spec": display})).await);
        let status = json!({"reason": "SpecInvalidError", "message": "no"});
        let written = write_status(&object, &status).await.unwrap();
        assert_eq!(written["status"], status, "{name}");
        let altered = alter(&object, json!({"spec": offence})).await;
        assert!(altered.is_err(), "{name}: {offence}");
    }
    // Improvements are accepted, also partial ones.
    for (name, better, is_undone) in tests::rows![
        "all-members", json!({"catalogServiceSource": null}) => false;
        "members", json!({"configMapSource": {"configMap": "n"}}) => true;
        "forms", json!({"image": null}) => false;
        "both-pods", json!({"grpcPodConfig": null}) => false;
        "pod", json!({"grpcPodConfig": null}) => false;
    ] {
        let object = stored(name, &json!({}));
        let done = alter(&object, json!({"spec": better})).await;
        done.unwrap_or_else(|error| panic!("{name}: {error}"));
        let again = rows.iter().find(|(of, ..)| *of == name).unwrap().1.clone();
        let undone = alter(&object, json!({"spec": again})).await;
        assert_eq!(undone.is_ok(), is_undone, "{name}: {undone:?}");
    }
    // The image counts, and the address next to it is ignored; so the image may follow its tag.
    let object = stored("both", &both);
    let spec = async |spec: Value| alter(&object, json!({"spec": spec})).await;
    spec(json!({"image": "r/c:v2"})).await.unwrap();
    // A corrected object cannot become invalid again.
    spec(json!({"address": null})).await.unwrap();
    let error = spec(json!({"address": "a:1"})).await.unwrap_err();
    let expected = "spec.address: Forbidden: ignored when image is set";
    assert!(error.contains(expected), "{error}");
    for (name, spec, _) in &rows {
        let object = stored(name, spec);
        let api = api_of(defined().await.client().unwrap(), &object);
        delete(&api, name).await;
        let released = alter(&object, json!({"metadata": {"finalizers": null}})).await;
        released.unwrap();
        assert!(api.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

//! Sources of a catalog: the validation rules of CatalogSources, on the API server that enforces them.

use super::*;
use crate::platform::support::optional_crd;
use crate::support::{catalog_source, define, delete, until};

pub(in crate::api) fn source(name: &str, spec: &Value) -> Value {
    catalog_source("default", name, spec)
}

const GROUP: &str = "stored.example.com";

/// Returns the CRD under another name, with the rules or without them, as in earlier versions.
fn crd(with_rules: bool) -> Value {
    let mut crd = optional_crd("CatalogSource");
    crd["metadata"]["name"] = format!("catalogsources.{GROUP}").into();
    crd["spec"]["group"] = GROUP.into();
    crd["spec"]["names"]["categories"] = json!([]);
    crd["spec"]["names"]["shortNames"] = json!([]);
    let spec = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
    if !with_rules {
        let spec = spec.unwrap().as_object_mut().unwrap();
        spec.remove("x-kubernetes-validations").unwrap();
    }
    crd
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

/// Contradictory objects that were stored before remain usable: only their invalid part cannot change.
// parity: source-10, source-11
#[tokio::test]
async fn stored_invalid_sources_stay_writable() {
    define(defined().await, &crd(false)).await;
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
    define(defined().await, &crd(true)).await;
    // The rules take effect after a moment.
    let probe = stored("probe", &both);
    let accepted = async || put(&probe, true).await.is_ok();
    until("the rules are in force", accepted, |accepted| !accepted).await;
    for (name, spec, offence) in &rows {
        let object = stored(name, spec);
        let display = json!({"displayName": "mine", "priority": 7, "icon": {"base64data": "", "mediatype": "a"}});
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        for valid in [label, json!({"spec": display})] {
            assert_eq!(alter(&object, valid).await, Ok(()), "{name}");
        }
        let status = json!({"reason": "SpecInvalidError", "message": "no"});
        tests::assert_rows!(write_status(&object, &status).await.unwrap()["status"] => status, "{name}");
        tests::assert_rows!(alter(&object, json!({"spec": offence})).await.is_err() => true, "{name}: {offence}");
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
        tests::assert_rows!(alter(&object, json!({"spec": better})).await => Ok(()), "{name}");
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
    assert_has(error, "spec.address: Forbidden: ignored when image is set");
    for (name, spec, _) in &rows {
        let object = stored(name, spec);
        let api = api_of(defined().await.client().unwrap(), &object);
        delete(&api, name).await;
        let released = alter(&object, json!({"metadata": {"finalizers": null}})).await;
        released.unwrap();
        assert!(api.get_opt(name).await.unwrap().is_none(), "{name}");
    }
}

/// Deprecated fields are accepted with a warning, as `kubectl` prints it.
// parity: source-5
#[tokio::test]
async fn deprecated_fields_are_warned_of_and_the_new_form_is_not() {
    let cluster = defined().await;
    let file = manifests("optional/catalogsource-deprecations.yaml");
    let apply = ["apply", "--server-side", "--filename", &file];
    kubectl(cluster, &apply, "").await.unwrap();
    // A warning fails only the command; the object is stored all the same.
    let warned = async |object: &Value| {
        let apply = ["apply", "--warnings-as-errors", "--filename", "-"];
        kubectl(cluster, &apply, &object.to_string()).await.err()
    };
    let probe = source("probe", &json!({"sourceType": "grpc", "image": "r/c:v1"}));
    let probed = async || {
        let warning = warned(&probe).await;
        run("delete catsrc probe").await;
        warning
    };
    until("deprecations are warned of", probed, Option::is_some).await;
    let pod = json!({
        "nodeSelector": {"a": "b"}, "tolerations": [], "affinity": {}, "priorityClassName": "",
        "securityContextConfig": "legacy", "memoryTarget": "1Mi", "extractContent": {"catalogDir": "/configs"},
    });
    let rows = tests::rows![
        json!({"sourceType": "grpc", "image": "r/c:v1", "grpcPodConfig": {}})
            => Some("sourceType, image, grpcPodConfig: deprecated, use catalogImageSource instead");
        json!({"sourceType": "grpc", "address": "a:1"})
            => Some("sourceType, address: deprecated, use catalogServiceSource instead");
        json!({"sourceType": "internal", "configMap": "m"})
            => Some("sourceType, configMap: deprecated, use configMapSource instead");
        json!({"sourceType": "grpc", "address": "a:1", "updateStrategy": {}})
            => Some("updateStrategy: ignored, because only images are polled in a registry");
        json!({"catalogImageSource": {"catalogImage": "r/c:v1", "podSpecOverrides": pod}})
            => None;
        json!({"sourceType": "configmap", "configMap": "m", "secrets": ["s"]})
            => Some("secrets: ignored, because only images are pulled with secrets");
        json!({"catalogImageSource": {"catalogImage": "r/c@sha256:0123"}, "updateStrategy": {"registryPoll": {"interval": "30m"}}})
            => Some("updateStrategy: ignored, because an image with a digest never changes");
        json!({"catalogImageSource": {"catalogImage": "r/c:v1"}, "updateStrategy": {"registryPoll": {"interval": "30m"}}, "secrets": ["s"]})
            => None;
        json!({"catalogServiceSource": {"address": "a:1"}}) => None;
        json!({"configMapSource": {"configMap": "m"}}) => None;
    ];
    for (index, (spec, expected)) in rows.iter().enumerate() {
        let object = source(&format!("warned-{index}"), spec);
        match (warned(&object).await, expected) {
            (None, None) => {}
            (Some(warning), Some(expected)) => assert_has(warning, expected),
            (warning, expected) => panic!("{spec}: {warning:?} where it should be {expected:?}"),
        }
        assert_has(put(&object, true).await.unwrap_err(), "already exists");
    }
    // A change of labels does not warn about fields.
    let label = ["label", "catsrc", "warned-0", "a=b", "--warnings-as-errors"];
    kubectl(cluster, &label, "").await.unwrap();
}

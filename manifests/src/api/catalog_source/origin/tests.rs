use serde_json::json;

use super::*;

/// Returns a catalog whose server has an address and a state, according to OLM.
fn connected(spec: &Value, address: &str, state: &str) -> CatalogSource {
    serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "a"}, "spec": spec,
        "status": {"connectionState": {"address": address, "lastObservedState": state}},
    }))
    .unwrap()
}

fn catalog(spec: &Value) -> CatalogSource {
    with!(connected(spec, "", "") => status: None)
}

#[test]
fn ready_server_precedes_the_image() {
    for (spec, declared) in ::tests::rows![
        &json!({"sourceType": "grpc", "image": "a:1"}) => DeclaredLocation::Image("a:1");
        &json!({"sourceType": "grpc", "image": "", "address": "b:2"}) => DeclaredLocation::Served("b:2".into());
        &json!({"sourceType": "configmap", "configMap": "m"}) => DeclaredLocation::ConfigMap("m");
    ] {
        assert_rows!(catalog(spec).place(true).as_ref() => Ok(&declared));
        for (address, state) in [("olm:1", "IDLE"), ("", "READY")] {
            assert_rows!(connected(spec, address, state).place(true).as_ref() => Ok(&declared), "{address} {state}");
        }
        let ready = connected(spec, "olm:1", "READY");
        assert_rows!(ready.place(true) => Ok(DeclaredLocation::Served("olm:1".into())));
        assert_rows!(ready.place(false) => Ok(declared));
    }
}

// parity: source-1, source-5, source-7, serve-13
#[test]
fn both_forms_have_a_location() {
    let pod = json!({"nodeSelector": {"a": "b"}, "priorityClassName": ""});
    let reference = "a:1";
    let image = |pod| Ok(Origin::Image { reference, pod });
    let service = |address: &'static str| {
        let address = address.into();
        Ok(Origin::Service { address })
    };
    let map = Ok(Origin::ConfigMap { name: "m" });
    assert_each!(|spec, expected| catalog(&spec).origin() => expected;
        json!({"sourceType": "grpc", "image": "a:1"}) => image(None);
        json!({"sourceType": "grpc", "image": "a:1", "grpcPodConfig": pod}) => image(Some(&pod));
        json!({"sourceType": "grpc", "image": "a:1", "address": "b:2", "configMap": "m"}) => image(None);
        json!({"sourceType": "grpc", "image": "", "address": "b:2", "grpcPodConfig": pod}) => service("b:2");
        json!({"sourceType": "configmap", "configMap": "m"}) => map.clone();
        json!({"sourceType": "internal", "configMap": "m", "image": "a:1"}) => map.clone();
        json!({"catalogImageSource": {"catalogImage": "a:1"}}) => image(None);
        json!({"catalogImageSource": {"catalogImage": "a:1", "podSpecOverrides": pod}}) => image(Some(&pod));
        // Empty values count as absent.
        json!({"catalogImageSource": {"catalogImage": "a:1"}, "sourceType": "", "image": ""}) => image(None);
        json!({"catalogServiceSource": {"address": "b:2"}}) => service("b:2");
        json!({"configMapSource": {"configMap": "m"}}) => map;
    );
    // An empty port counts as absent, as in a URL.
    let hosts = "some.namespace.svc some.namespace.svc:50051, 10.0.0.1 10.0.0.1:50051, [fd00::1] [fd00::1]:50051, \
                 fd00::1 [fd00::1]:50051, a: a:50051, 10.0.0.1: 10.0.0.1:50051, [fd00::1]: [fd00::1]:50051, \
                 fd00:: [fd00::]:50051";
    // Other addresses are not interpreted: the connection fails.
    let complete = "[fd00::1]:80 a:80 : a:b: dns:///a: dns:///a:80".split(' ');
    let complete = complete.map(|address| (address, address));
    for (written, address) in ::tests::pairs(hosts).chain(complete) {
        for spec in [
            json!({"catalogServiceSource": {"address": written}}),
            json!({"sourceType": "grpc", "address": written}),
        ] {
            assert_eq!(catalog(&spec).origin(), service(address), "{spec}");
        }
    }
}

// parity: source-18
#[test]
fn missing_or_ambiguous_location_is_rejected() {
    const NEITHER: &str = "image and address unset: at least one must be set for sourcetype: grpc";
    for (spec, message) in ::tests::rows![
        json!({}) => "one of spec.catalogImageSource, spec.catalogServiceSource or spec.configMapSource must be set";
        json!({"image": "a:1"})
            => "sourcetype unset: must be grpc for an image or an address, configmap for a ConfigMap; or set \
             spec.catalogImageSource, spec.catalogServiceSource or spec.configMapSource";
        json!({"sourceType": "grpc", "configMap": "m"}) => NEITHER;
        json!({"sourceType": "grpc", "address": ""}) => NEITHER;
        json!({"sourceType": "configmap", "image": "a:1"}) => "configmap name unset: must be set for sourcetype: configmap";
        json!({"sourceType": "internal", "configMap": ""}) => "configmap name unset: must be set for sourcetype: internal";
        json!({"sourceType": "foo", "image": "a:1"}) => "unknown sourcetype: foo: must be grpc or configmap";
        json!({"sourceType": "configMap", "configMap": "m"}) => "unknown sourcetype: configMap: must be grpc or configmap";
        json!({"catalogImageSource": {}}) => "spec.catalogImageSource.catalogImage unset: must specify the catalog";
        json!({"catalogServiceSource": {"address": ""}}) => "spec.catalogServiceSource.address unset: must specify the catalog";
        json!({"configMapSource": {}}) => "spec.configMapSource.configMap unset: must specify the catalog";
        json!({"catalogImageSource": {"catalogImage": "a"}, "configMapSource": {"configMap": "m"}})
            => "exactly one of spec.catalogImageSource, spec.configMapSource must be set; remove the others";
        json!({"catalogImageSource": {"catalogImage": "a"}, "sourceType": "grpc", "grpcPodConfig": {}})
            => "exactly one of spec.catalogImageSource, spec.sourceType, spec.grpcPodConfig must be set; remove the others";
    ] {
        assert_rows!(catalog(&spec).origin().unwrap_err().to_string() => message, "{spec}");
        assert_rows!(connected(&spec, "olm:1", "READY").place(true).unwrap_err().to_string() => message);
    }
    let long = catalog(&json!({"sourceType": "x".repeat(500)}));
    assert!(long.origin().unwrap_err().to_string().chars().count() < 150);
}

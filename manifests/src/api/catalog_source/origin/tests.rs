use serde_json::json;

use super::*;

#[test]
fn ready_server_precedes_the_image() {
    let ready =
        json!({"connectionState": {"address": "olm.svc:50051", "lastObservedState": "READY"}});
    let idle =
        json!({"connectionState": {"address": "olm.svc:50051", "lastObservedState": "IDLE"}});
    let blank = json!({"connectionState": {"address": "", "lastObservedState": "READY"}});
    let none = json!({});
    for (spec, status, expected) in ::tests::rows![
        json!({"sourceType": "grpc", "image": "a:1"}), &none => Ok(DeclaredLocation::Image("a:1"));
        json!({"sourceType": "grpc", "image": "a:1"}), &ready => Ok(DeclaredLocation::Served("olm.svc:50051".into()));
        json!({"sourceType": "grpc", "image": "a:1"}), &idle => Ok(DeclaredLocation::Image("a:1"));
        json!({"sourceType": "grpc", "image": "a:1"}), &blank => Ok(DeclaredLocation::Image("a:1"));
        json!({"sourceType": "grpc", "image": "a:1", "address": "b:2"}), &none => Ok(DeclaredLocation::Image("a:1"));
        json!({"sourceType": "grpc", "image": "", "address": "b:2"}), &none => Ok(DeclaredLocation::Served("b:2".into()));
        json!({"sourceType": "grpc"}), &ready => Err("image and address unset: at least one must be set for sourcetype: grpc");
        json!({"sourceType": "grpc", "address": ""}), &none => Err("image and address unset");
        json!({"sourceType": "configmap", "configMap": "a"}), &idle => Ok(DeclaredLocation::ConfigMap("a"));
        json!({"sourceType": "configmap", "configMap": "a"}), &ready => Ok(DeclaredLocation::Served("olm.svc:50051".into()));
        json!({"sourceType": "internal"}), &none => Err("configmap name unset: must be set for sourcetype: internal");
        json!({"sourceType": "Grpc", "image": "a"}), &none => Err("unknown sourcetype: Grpc");
    ] {
        let catalog: CatalogSource = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "a"}, "spec": spec, "status": status,
        }))
        .unwrap();
        match (catalog.place(true), expected) {
            (found, Ok(place)) => {
                assert_eq!(found, Ok(place), "{spec}");
                let without = catalog.place(false).unwrap();
                assert_ne!(
                    without,
                    DeclaredLocation::Served("olm.svc:50051".into()),
                    "{spec}"
                );
            }
            (found, Err(problem)) => {
                let message = found.unwrap_err().to_string();
                assert!(message.starts_with(problem), "{message}");
            }
        }
    }
}

fn catalog(spec: &Value) -> CatalogSource {
    serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "a"}, "spec": spec,
    }))
    .unwrap()
}

// parity: source-1, source-5, source-7, serve-13
#[test]
fn both_forms_have_a_location() {
    let pod = json!({"nodeSelector": {"a": "b"}, "priorityClassName": ""});
    let image = |pod| {
        Ok(Origin::Image {
            reference: "a:1",
            pod,
        })
    };
    let service = |address: &'static str| {
        Ok(Origin::Service {
            address: address.into(),
        })
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
    for (written, address) in [
        ("some.namespace.svc", "some.namespace.svc:50051"),
        ("10.0.0.1", "10.0.0.1:50051"),
        ("[fd00::1]", "[fd00::1]:50051"),
        ("fd00::1", "[fd00::1]:50051"),
        ("[fd00::1]:80", "[fd00::1]:80"),
        ("a:80", "a:80"),
        // An empty port counts as absent, as in a URL.
        ("a:", "a:50051"),
        ("10.0.0.1:", "10.0.0.1:50051"),
        ("[fd00::1]:", "[fd00::1]:50051"),
        ("fd00::", "[fd00::]:50051"),
        // The address is not interpreted: the connection fails.
        (":", ":"),
        ("a:b:", "a:b:"),
        ("dns:///a:", "dns:///a:"),
        ("dns:///a:80", "dns:///a:80"),
    ] {
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
    for (spec, message) in ::tests::rows![
        json!({}) => "one of spec.catalogImageSource, spec.catalogServiceSource or spec.configMapSource must be set";
        json!({"image": "a:1"})
            => "sourcetype unset: must be grpc for an image or an address, configmap for a ConfigMap; or set \
             spec.catalogImageSource, spec.catalogServiceSource or spec.configMapSource";
        json!({"sourceType": "grpc", "configMap": "m"})
            => "image and address unset: at least one must be set for sourcetype: grpc";
        json!({"sourceType": "configmap", "image": "a:1"}) => "configmap name unset: must be set for sourcetype: configmap";
        json!({"sourceType": "internal", "configMap": ""}) => "configmap name unset: must be set for sourcetype: internal";
        json!({"sourceType": "foo", "image": "a:1"}) => "unknown sourcetype: foo: must be grpc or configmap";
        json!({"sourceType": "configMap", "configMap": "m"}) => "unknown sourcetype: configMap: must be grpc or configmap";
        json!({"catalogImageSource": {}}) => "spec.catalogImageSource.catalogImage unset: must specify the catalog";
        json!({"catalogServiceSource": {"address": ""}}) => "spec.catalogServiceSource.address unset: must specify the \
                                                             catalog";
        json!({"configMapSource": {}}) => "spec.configMapSource.configMap unset: must specify the catalog";
        json!({"catalogImageSource": {"catalogImage": "a"}, "configMapSource": {"configMap": "m"}})
            => "exactly one of spec.catalogImageSource, spec.configMapSource must be set; remove the others";
        json!({"catalogImageSource": {"catalogImage": "a"}, "sourceType": "grpc", "grpcPodConfig": {}})
            => "exactly one of spec.catalogImageSource, spec.sourceType, spec.grpcPodConfig must be set; remove the others";
    ] {
        assert_rows!(catalog(&spec).origin().unwrap_err().to_string() => message, "{spec}");
        assert_eq!(catalog(&spec).place(true).unwrap_err().to_string(), message);
    }
    let long = catalog(&json!({"sourceType": "x".repeat(500)}));
    assert!(long.origin().unwrap_err().to_string().chars().count() < 150);
}

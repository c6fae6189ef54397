//! What is refused, and in which words.

use super::*;

fn secrets() -> Value {
    json!({"secrets": ["s"]})
}

/// What says two things at once, and what to do about it.
pub(super) fn contradictions() -> Vec<(Value, &'static str)> {
    vec![
        (
            and(&image(), &service()),
            "spec: Forbidden: more than one source: keep one of catalogImageSource, catalogServiceSource, and remove the others",
        ),
        (
            and(&and(&image(), &service()), &map()),
            "spec: Forbidden: more than one source: keep one of catalogImageSource, catalogServiceSource, configMapSource, and remove the others",
        ),
        (
            and(&by_image(), &json!({"address": "a:1"})),
            "spec.address: Forbidden: not read beside image: remove it, or remove image to take the catalog from the server at that address",
        ),
        (
            and(&image(), &by_image()),
            "spec: Forbidden: remove sourceType, image: catalogImageSource says by itself where the catalog is",
        ),
        (
            and(&service(), &by_map()),
            "spec: Forbidden: remove sourceType, configMap: catalogServiceSource says by itself where the catalog is",
        ),
        (
            and(&image(), &json!({"image": "r/c:v1"})),
            "spec: Forbidden: remove image: catalogImageSource says by itself where the catalog is",
        ),
        (
            and(&map(), &json!({"address": ""})),
            "spec: Forbidden: remove address: configMapSource says by itself where the catalog is",
        ),
        (
            and(&image(), &json!({"sourceType": "grpc"})),
            "spec: Forbidden: remove sourceType: catalogImageSource says by itself where the catalog is",
        ),
        (
            and(&image(), &json!({"grpcPodConfig": {}})),
            "spec: Forbidden: remove grpcPodConfig: catalogImageSource says by itself where the catalog is; the options of a pod are catalogImageSource.podSpecOverrides",
        ),
    ]
}

/// What says too little, and what is not read.
pub(super) fn omissions() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({"sourceType": "grpc"}),
            "spec.image: Required value: image and address unset: at least one must be set for sourcetype: grpc",
        ),
        (
            json!({"sourceType": "configmap"}),
            "spec.configMap: Required value: configmap name unset: must be set for sourcetype: configmap",
        ),
        (
            json!({"sourceType": "internal"}),
            "spec.configMap: Required value: configmap name unset: must be set for sourcetype: internal",
        ),
        (
            json!({"image": "r/c:v1"}),
            "spec.sourceType: Required value: image and address count with sourceType grpc, configMap with configmap; or write catalogImageSource, catalogServiceSource or configMapSource instead of any of these",
        ),
        (
            json!({}),
            "spec: Required value: no source: set catalogImageSource, catalogServiceSource or configMapSource",
        ),
        (
            json!({"displayName": "a", "grpcPodConfig": {}}),
            "spec: Required value: no source: set catalogImageSource",
        ),
        (
            json!({"catalogImageSource": {}}),
            "spec.catalogImageSource.catalogImage: Required value",
        ),
        (
            json!({"catalogImageSource": {"catalogImage": ""}}),
            "spec.catalogImageSource.catalogImage in body should be at least 1 chars long",
        ),
        (
            json!({"catalogServiceSource": {}}),
            "spec.catalogServiceSource.address: Required value",
        ),
        (
            json!({"configMapSource": {"configMap": ""}}),
            "spec.configMapSource.configMap in body should be at least 1 chars long",
        ),
        (
            and(&by_map(), &json!({"image": "r/c:v1"})),
            "spec.image: Forbidden: not read with a ConfigMap: remove it, or write sourceType grpc and no configMap",
        ),
        (
            and(&by_map(), &json!({"address": "a:1"})),
            "spec.address: Forbidden: not read with a ConfigMap",
        ),
        (
            and(&by_image(), &json!({"configMap": "m"})),
            "spec.configMap: Forbidden: not read with sourceType grpc: remove it",
        ),
        (
            and(&by_image(), &json!({"sourceType": "foo"})),
            "unknown sourcetype: foo: must be grpc or configmap",
        ),
        (
            json!({"sourceType": "", "image": "r/c:v1"}),
            "unknown sourcetype: : must be grpc or configmap",
        ),
        (
            json!({"sourceType": "configMap", "configMap": "m"}),
            "unknown sourcetype: configMap: must be grpc or configmap",
        ),
        (
            and(&by_address(), &json!({"image": ""})),
            "spec.image: Invalid value: empty: leave the field out",
        ),
        (
            json!({"sourceType": "configmap", "configMap": ""}),
            "spec.configMap: Invalid value: empty: leave the field out",
        ),
        (
            and(&by_address(), &json!({"grpcPodConfig": {}})),
            "spec.grpcPodConfig: Forbidden: only an image is served by a pod of its own: remove grpcPodConfig",
        ),
        (
            and(&by_map(), &json!({"grpcPodConfig": {}})),
            "spec.grpcPodConfig: Forbidden: only an image is served by a pod of its own",
        ),
        (
            and(&service(), &polled()),
            "spec.updateStrategy: Forbidden: only for catalogImageSource, for which a registry is asked again and again: remove updateStrategy",
        ),
        (
            and(&map(), &json!({"updateStrategy": {}})),
            "spec.updateStrategy: Forbidden: only for catalogImageSource",
        ),
        (
            and(&service(), &secrets()),
            "spec.secrets: Forbidden: only for catalogImageSource, whose image is pulled with them: remove secrets",
        ),
    ]
}

/// Every field beside every source: what would not be read is refused. In OLM's form, what OLM has always let pass is taken,
/// and told ([`super::warned`]).
#[tokio::test]
async fn nothing_is_taken_that_nobody_reads() {
    let sources = [
        image(),
        service(),
        map(),
        by_image(),
        by_address(),
        by_map(),
    ];
    let (yes, no) = (true, false);
    for (field, value, taken) in [
        ("sourceType", json!("grpc"), [no, no, no, yes, yes, no]),
        ("image", json!("r/c:v1"), [no, no, no, yes, no, no]),
        ("address", json!("a:50051"), [no, no, no, no, yes, no]),
        ("configMap", json!("m"), [no, no, no, no, no, yes]),
        ("grpcPodConfig", json!({}), [no, no, no, yes, no, no]),
        (
            "catalogImageSource",
            image()["catalogImageSource"].clone(),
            [yes, no, no, no, no, no],
        ),
        (
            "catalogServiceSource",
            service()["catalogServiceSource"].clone(),
            [no, yes, no, no, no, no],
        ),
        (
            "configMapSource",
            map()["configMapSource"].clone(),
            [no, no, yes, no, no, no],
        ),
        (
            "updateStrategy",
            polled()["updateStrategy"].clone(),
            [yes, no, no, yes, yes, yes],
        ),
        ("secrets", json!(["s"]), [yes, no, no, yes, yes, yes]),
        ("secrets", json!([]), [yes; 6]),
        ("priority", json!(-1), [yes; 6]),
        ("displayName", json!("Mine"), [yes; 6]),
        ("description", json!("Mine"), [yes; 6]),
        ("publisher", json!("Me"), [yes; 6]),
        (
            "icon",
            json!({"base64data": "AAAA", "mediatype": "image/png"}),
            [yes; 6],
        ),
    ] {
        for (spec, taken) in sources.iter().zip(taken) {
            let mut beside = json!({});
            beside[field] = value.clone();
            let object = source("beside", &and(spec, &beside));
            let answer = put(&object, true).await;
            assert_eq!(answer.is_ok(), taken, "{object}: {answer:?}");
            if let Err(said) = answer {
                assert!(said.contains("spec"), "{said}");
                assert!(
                    said.contains("remove") || said.contains("unknown"),
                    "{said}"
                );
            }
        }
    }
}

//! The rules of the definitions: one table for each, and every row is a dry run on the API server.
//!
//! A cell is a part of an object as JSON, and the outcome is `accepted` or the message of the API server.

use manifests::api::bounds;
use serde_json::json;
use tests::table::{Cell, Values, check};

use super::{
    platform::{DIGEST, alter, operator, put, sources::source},
    *,
};
use crate::support::unique;

mod tables;

/// Offers an object to the API server.
async fn outcome(object: &Value) -> String {
    let offered = put(object, true).await;
    offered.map_or_else(|message| message, |_| "accepted".to_owned())
}

fn parsed(cell: &Cell) -> Value {
    let text = cell.text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Writes the fields of a part over those of an object. Unlike a merge patch, this writes null as a value.
fn overlay(object: &mut Value, part: Value) {
    match part {
        Value::Object(fields) if object.is_object() => {
            for (name, value) in fields {
                overlay(&mut object[name], value);
            }
        }
        value => *object = value,
    }
}

/// An object with another part.
fn with(mut object: Value, part: Value) -> Value {
    overlay(&mut object, part);
    object
}

const ALL_OF_IMAGE: &str = r#"{
    "ref": "localhost:5000/a@sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "pullSecret": "pull", "insecureSkipTLSVerify": true, "certificateData": "-----BEGIN CERTIFICATE-----\n"
}"#;
const ALL_OF_GIT: &str = r#"{
    "repository": "git@example.com:a.git", "directory": "./dev/deploy", "ref": {"branch": "main"},
    "auth": {"secret": {"name": "key"}, "insecureSkipVerify": true}
}"#;
/// All fields of a PlatformOperator but the package.
const ALL_OF_OPERATOR: &str = r#"
    "catalog": {"name": "community", "namespace": "catalogs"}, "channel": "stable-v1.x",
    "version": ">=1.2.0 <2.0.0 || 3.x", "upgradeApproval": "Manual", "approvedVersion": "1.2.3-rc.1+b",
    "approveNewRights": "Manual", "approvedRights": "DIGEST",
    "bundle": {
        "installNamespace": "etcd", "serviceAccount": {"name": "etcd", "namespace": "etcd"},
        "overrides": [{"constraint": "maxOpenShiftVersion", "digest": "DIGEST", "reason": "tested"}]
    }
"#;

fn values() -> Values {
    let too_long = |limit: u32| "a".repeat(limit as usize + 1);
    let maps = (0..=bounds::CONFIG_MAPS).map(|n| json!({"configMap": {"name": format!("a{n}")}}));
    let labels = (0..=bounds::LABELS).map(|n| (format!("l{n}"), json!("v")));
    let labels: serde_json::Map<String, Value> = labels.collect();
    Values::default()
        .with("a", "a")
        .with("zero", "0")
        .with("digit", "1")
        .with("upper", "A")
        .with("all-of-image", ALL_OF_IMAGE)
        .with("all-of-git", ALL_OF_GIT)
        .with("digest", DIGEST)
        .with("repository", r#""repository": "https://git.example.com/a.git""#)
        .with("main", r#""type": "git", "git": {"repository": "https://git.example.com/a.git", "ref": {"branch": "main"}"#)
        .with("long-reference", too_long(bounds::REFERENCE))
        .with("long-certificates", too_long(bounds::CERTIFICATES))
        .with("long-ref", too_long(bounds::GIT_REF))
        .with("long-url", too_long(bounds::URL))
        .with("many-maps", json!(maps.collect::<Vec<_>>()).to_string())
        .with("many-labels", json!(labels).to_string())
}

// parity: rukpak-21, v1, v3, v5, v7
#[tokio::test]
async fn sources_of_bundles_and_instances_follow_their_rules() {
    for object in both(&Value::Null) {
        check(tables::SOURCES, &values(), async |[cell]| {
            let mut object = object.clone();
            let pointer = if object["kind"] == "Bundle" {
                "/spec/source"
            } else {
                "/spec/template/spec/source"
            };
            *object.pointer_mut(pointer).unwrap() = parsed(cell);
            outcome(&object)
                .await
                .replace("spec.template.spec.source", "spec.source")
        })
        .await;
    }
}

// parity: rukpak-21, v2, v3
#[tokio::test]
async fn bundles_follow_their_rules() {
    let base = bundle("bundle", &image());
    check(tables::BUNDLES, &values(), async |[part]| {
        outcome(&with(base.clone(), parsed(part))).await
    })
    .await;
}

// parity: max-3, v2
#[tokio::test]
async fn bundle_instances_follow_their_rules() {
    let base = instance("instance", &image());
    let one = json!({"constraint": "minKubeVersion", "digest": DIGEST, "reason": "tested"});
    let values = values()
        .with("one", one.to_string())
        .with("many", json!(vec![one; 17]).to_string());
    check(tables::INSTANCES, &values, async |[part]| {
        outcome(&with(base.clone(), parsed(part))).await
    })
    .await;
}

// parity: rukpak-2, v9
#[tokio::test]
async fn class_name_with_a_slash_is_rejected_unless_the_class_is_ours() {
    let instance = instance("v9", &image());
    for (object, place) in [
        (bundle("v9", &image()), "/spec/provisionerClassName"),
        (instance.clone(), "/spec/provisionerClassName"),
        (instance, "/spec/template/spec/provisionerClassName"),
    ] {
        let path = place.trim_start_matches('/').replace('/', ".");
        check(tables::CLASSES, &values(), async |[class]| {
            let (mut object, class) = (object.clone(), class.text());
            *object.pointer_mut(place).unwrap() = class.clone().into();
            let words = format!("{path}: Invalid value: {class:?}: {path} in body should");
            outcome(&object)
                .await
                .replace(&words, "rejected by its name")
        })
        .await;
    }
}

// parity: openshift-17, openshift-26
#[tokio::test]
async fn platform_operators_follow_their_rules() {
    let values = values().with("etcd", r#""package": {"name": "etcd"}"#);
    let values = values.with("all-of-operator", ALL_OF_OPERATOR.replace("DIGEST", DIGEST));
    check(tables::OPERATORS, &values, async |[name, spec]| {
        outcome(&operator(&name.text(), &parsed(spec))).await
    })
    .await;
}

// parity: source-1, source-2, source-3, source-4, source-6, source-8, source-9, source-13, source-18
#[tokio::test]
async fn catalog_sources_follow_their_rules() {
    check(
        tables::CATALOG_SOURCES,
        &tables::catalog_values(),
        async |[spec]| {
            let spec = parsed(spec);
            match put(&source("offered", &spec), true).await {
                Ok(stored) if stored["spec"] == spec => "accepted".to_owned(),
                Ok(stored) => format!("stored as {}", stored["spec"]),
                Err(message) => message,
            }
        },
    )
    .await;
}

/// The options of a catalog's pod: those of Kubernetes, in either form, with bounds.
// parity: source-6
#[tokio::test]
async fn options_of_a_pod_are_those_of_kubernetes() {
    let values = tables::catalog_values();
    for is_deprecated in [false, true] {
        check(tables::POD_OPTIONS, &values, async |[options]| {
            let mut options = parsed(options);
            if options["nodeSelector"]["a"] == "deep" {
                options["nodeSelector"]["a"] = super::platform::sources::deep();
            }
            let spec = if is_deprecated {
                json!({"sourceType": "grpc", "image": "r/c:v1", "grpcPodConfig": options})
            } else {
                json!({"catalogImageSource": {"catalogImage": "r/c:v1", "podSpecOverrides": options}})
            };
            let said = outcome(&source("bad", &spec)).await;
            said.replace("spec.catalogImageSource.podSpecOverrides", "spec.grpcPodConfig")
        })
        .await;
    }
}

/// The object is stored and then changed; the outcome is that of the change.
// parity: rukpak-6, b4
#[tokio::test]
async fn immutable_fields_keep_their_values() {
    check(tables::CHANGES, &values(), async |[kind, part, patch]| {
        let name = unique("immutable");
        let object = match kind.raw() {
            "Bundle" => bundle(&name, &image()),
            "BundleInstance" => instance(&name, &image()),
            _ => operator(&name, &json!({"package": {"name": "etcd"}})),
        };
        let object = with(object, parsed(part));
        put(&object, false).await.unwrap();
        let changed = alter(&object, parsed(patch)).await;
        changed.map_or_else(|message| message, |()| "accepted".to_owned())
    })
    .await;
}

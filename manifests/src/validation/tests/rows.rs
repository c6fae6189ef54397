//! The rules of our CRDs: a table for each CRD, and the objects that its rows describe.
//!
//! A cell is a part of an object as JSON, and the outcome is `accepted` or the message of the API server. Two tests use
//! every row: the unit test beside this module validates it, and a test of the provisioner sends it to an API server.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tests::table::{Cell, Values, check};

use super::limits;

#[path = "tables.rs"]
mod tables;

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
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

pub(crate) enum Offer {
    /// A new object.
    Create(Value),
    /// A merge patch of a stored object.
    Change { object: Value, patch: Value },
}

fn parsed(cell: &Cell) -> Value {
    let text = cell.text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns an object with the fields of a part written over its own. Unlike a merge patch, this writes null as a value.
fn with(mut object: Value, part: Value) -> Value {
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
    overlay(&mut object, part);
    object
}

fn object(kind: &str, name: &str) -> Value {
    let template = json!({"provisionerClassName": "core-rukpak-io-plain", "source": {"type": "image", "image": {
        "ref": "quay.io/example/bundle:v1",
    }}});
    let (api_version, spec) = match kind {
        "Bundle" => ("core.rukpak.io/v1alpha1", template),
        "BundleInstance" => (
            "core.rukpak.io/v1alpha1",
            json!({"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": template}}),
        ),
        "PlatformOperator" => (
            "platform.openshift.io/v1alpha1",
            json!({"package": {"name": "etcd"}}),
        ),
        _ => ("operators.coreos.com/v1alpha1", json!({})),
    };
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    if kind == "CatalogSource" {
        object["metadata"]["namespace"] = "default".into();
    }
    object
}

fn replaced(kind: &str, name: &str, pointer: &str, value: Value) -> Value {
    let mut object = object(kind, name);
    *object.pointer_mut(pointer).unwrap() = value;
    object
}

fn values() -> Values {
    let too_long = |limit: u32| "a".repeat(limit as usize + 1);
    let maps = (0..=limits::CONFIG_MAPS).map(|n| json!({"configMap": {"name": format!("a{n}")}}));
    let labels = (0..=limits::LABELS).map(|n| (format!("l{n}"), json!("v")));
    let labels: serde_json::Map<String, Value> = labels.collect();
    Values::default()
        .with("a", "a")
        .with("zero", "0")
        .with("digit", "1")
        .with("upper", "A")
        .with("all-of-image", ALL_OF_IMAGE)
        .with("all-of-git", ALL_OF_GIT)
        .with("digest", DIGEST)
        .with("digest-is", r#"{"type": "upload", "upload": {"digest": ""#)
        .with("at-digest", "spec.source.upload.digest")
        .with("map-at", r#"{"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}, "path": ""#)
        .with("min", r#"{"spec": {"overrides": [{"constraint": "minKubeVersion""#)
        .with("repository", r#""repository": "https://git.example.com/a.git""#)
        .with("main", r#""type": "git", "git": {"repository": "https://git.example.com/a.git", "ref": {"branch": "main"}"#)
        .with("long-reference", too_long(limits::REFERENCE))
        .with("long-certificates", too_long(limits::CERTIFICATES))
        .with("long-ref", too_long(limits::GIT_REF))
        .with("long-url", too_long(limits::URL))
        .with("many-maps", json!(maps.collect::<Vec<_>>()).to_string())
        .with("many-labels", json!(labels).to_string())
}

pub(crate) async fn sources(test: impl AsyncFn(Offer) -> String) {
    for (kind, path, at) in ::tests::rows![
        "Bundle", "/spec/source" => "bundle.spec.source";
        "BundleInstance", "/spec/template/spec/source" => "spec.source";
    ] {
        let values = values().with("at", at);
        check(tables::SOURCES, &values, async |[source]| {
            let object = replaced(kind, "source", path, parsed(source));
            let found = test(Offer::Create(object)).await;
            found.replace("spec.template.spec.source", "spec.source")
        })
        .await;
    }
}

pub(crate) async fn bundles(test: impl AsyncFn(Offer) -> String) {
    check(tables::BUNDLES, &values(), async |[part]| {
        let object = object("Bundle", "bundle");
        test(Offer::Create(with(object, parsed(part)))).await
    })
    .await;
}

pub(crate) async fn bundle_instances(test: impl AsyncFn(Offer) -> String) {
    let one = json!({"constraint": "minKubeVersion", "digest": DIGEST, "reason": "tested"});
    let values = values()
        .with("one", one.to_string())
        .with("many", json!(vec![one; 17]).to_string());
    check(tables::INSTANCES, &values, async |[part]| {
        let object = object("BundleInstance", "instance");
        test(Offer::Create(with(object, parsed(part)))).await
    })
    .await;
}

pub(crate) async fn class_names(test: impl AsyncFn(Offer) -> String) {
    for (kind, place) in [
        ("Bundle", "/spec/provisionerClassName"),
        ("BundleInstance", "/spec/provisionerClassName"),
        ("BundleInstance", "/spec/template/spec/provisionerClassName"),
    ] {
        let path = place.trim_start_matches('/').replace('/', ".");
        check(tables::CLASSES, &values(), async |[class]| {
            let class = class.text();
            let object = replaced(kind, "class", place, class.clone().into());
            let prefix = format!("{path}: Invalid value: {class:?}: {path} in body should");
            let found = test(Offer::Create(object)).await;
            found.replace(&prefix, "rejected by its name")
        })
        .await;
    }
}

pub(crate) async fn platform_operators(test: impl AsyncFn(Offer) -> String) {
    let values = values().with("etcd", r#""package": {"name": "etcd"}"#);
    let values = values.with("all-of-operator", ALL_OF_OPERATOR.replace("DIGEST", DIGEST));
    check(tables::OPERATORS, &values, async |[name, spec]| {
        let object = replaced("PlatformOperator", &name.text(), "/spec", parsed(spec));
        test(Offer::Create(object)).await
    })
    .await;
}

pub(crate) async fn catalog_sources(test: impl AsyncFn(Offer) -> String) {
    let values = tables::catalog_values();
    check(tables::CATALOG_SOURCES, &values, async |[spec]| {
        let object = replaced("CatalogSource", "catalog", "/spec", parsed(spec));
        test(Offer::Create(object)).await
    })
    .await;
}

/// Fields beside sources of a catalog: a field that nothing reads is rejected with a remedy.
pub(crate) async fn catalog_fields(test: impl AsyncFn(Offer) -> String) {
    let values = tables::catalog_values();
    check(tables::FIELDS, &values, async |[field]| {
        let mut found = Vec::new();
        for form in tables::CATALOG_FORMS.split(' ') {
            let form = String::from_utf8_lossy(values.get(form));
            let source = serde_json::from_str(&format!("{{{form}}}")).unwrap();
            let spec = with(source, parsed(field));
            let object = replaced("CatalogSource", "fields", "/spec", spec);
            let outcome = test(Offer::Create(object)).await;
            let has_remedy = outcome.contains("remove") || outcome.contains("unknown");
            found.push(match outcome.as_str() {
                "accepted" => "yes".to_owned(),
                message if message.contains("spec") && has_remedy => "no".to_owned(),
                _ => outcome,
            });
        }
        found.join(" ")
    })
    .await;
}

/// The options of a catalog's pod, in both forms.
pub(crate) async fn pod_options(test: impl AsyncFn(Offer) -> String) {
    let deep = || (0..200).fold(json!(1), |inner, _| json!({"a": inner}));
    for is_deprecated in [false, true] {
        check(tables::POD_OPTIONS, &tables::catalog_values(), async |[options]| {
            let mut options = parsed(options);
            if options["nodeSelector"]["a"] == "deep" {
                options["nodeSelector"]["a"] = deep();
            }
            let spec = if is_deprecated {
                json!({"sourceType": "grpc", "image": "r/c:v1", "grpcPodConfig": options})
            } else {
                json!({"catalogImageSource": {"catalogImage": "r/c:v1", "podSpecOverrides": options}})
            };
            let object = replaced("CatalogSource", "options", "/spec", spec);
            let found = test(Offer::Create(object)).await;
            found.replace("spec.catalogImageSource.podSpecOverrides", "spec.grpcPodConfig")
        })
        .await;
    }
}

pub(crate) async fn changes(test: impl AsyncFn(Offer) -> String) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    check(tables::CHANGES, &values(), async |[kind, part, patch]| {
        let name = format!("changed-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let object = with(object(kind.raw(), &name), parsed(part));
        let patch = parsed(patch);
        test(Offer::Change { object, patch }).await
    })
    .await;
}

//! OLM objects that the commands write and read, with operator-sdk's names.

use std::collections::{BTreeMap, BTreeSet};

use catalog::compose::history::{INDEX_IMAGE, INJECTED_BUNDLES, REGISTRY_POD};
use manifests::{
    api::labels,
    image_template,
    object::{get_path, text},
};
use serde_json::{Value, json};

use super::operator_group::{self, OperatorGroupInfo};
use crate::args::SecurityContext;

/// Publisher of the catalogs that `run bundle` creates.
const PUBLISHER: &str = "operator-sdk";

/// Returns the name of the CatalogSource of a package.
pub(super) fn source_name(package: &str) -> String {
    format!("{package}-catalog")
}

/// Returns the name of the Subscription to a version.
pub(super) fn subscription_name(csv: &str) -> String {
    let letters = csv.chars().map(|letter| {
        let letter = letter.to_ascii_lowercase();
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    });
    format!("{}-sub", letters.collect::<String>().trim_matches('-'))
}

/// Returns a CatalogSource without an address.
pub(super) fn source(
    namespace: &str,
    package: &str,
    secret: Option<&str>,
    security: SecurityContext,
) -> Value {
    let security = match security {
        SecurityContext::Legacy => "legacy",
        SecurityContext::Restricted => "restricted",
    };
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": source_name(package), "namespace": namespace},
        "spec": {
            "sourceType": "grpc", "displayName": package, "publisher": PUBLISHER,
            "secrets": secret.into_iter().collect::<Vec<_>>(),
            "grpcPodConfig": {"securityContextConfig": security},
        },
    })
}

/// Returns the annotations of a CatalogSource by which other controllers would set its image again.
pub(super) fn templates(source: &Value) -> impl Iterator<Item = &'static str> {
    let all = [labels::CATALOG_IMAGE_TEMPLATE, image_template::ANNOTATION];
    all.into_iter()
        .filter(|key| get_path(source, &["metadata", "annotations", key]).is_some())
}

/// Returns a merge patch that lets another pod serve a CatalogSource. It applies only to the observed version of the
/// object.
pub(super) fn with_address(
    source: &Value,
    address: &str,
    pod: &str,
    annotations: &BTreeMap<String, String>,
    secret: Option<&str>,
) -> Value {
    let mut annotations: BTreeMap<&str, Option<&str>> = annotations
        .iter()
        .map(|(key, value)| (key.as_str(), Some(value.as_str())))
        .collect();
    annotations.insert(REGISTRY_POD, Some(pod));
    annotations.extend(templates(source).map(|key| (key, None)));
    let existing = get_path(source, &["spec", "secrets"]).and_then(Value::as_array);
    let mut secrets: Vec<&str> = existing
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    secrets.retain(|name| !name.is_empty());
    secrets
        .extend(secret.filter(|name| !existing.into_iter().flatten().any(|value| value == name)));
    json!({
        "metadata": {
            "uid": get_path(source, &["metadata", "uid"]), "resourceVersion": get_path(source, &["metadata", "resourceVersion"]),
            "annotations": annotations,
        },
        // Both fields concern an image, and would look as if they had an effect.
        "spec": {
            "sourceType": "grpc", "address": address, "image": null, "updateStrategy": null, "grpcPodConfig": null,
            "secrets": secrets,
        },
    })
}

/// Returns the warning about a catalog of another tool that a pod serves from now on, because the catalog no longer follows
/// its image. `all` are the Subscriptions that may be read.
pub(super) fn warn_image_frozen(
    source: &Value,
    namespace: &str,
    subscription: &Value,
    all: &[Value],
) -> Option<String> {
    let image = text(source, &["spec", "image"]).filter(|image| !image.is_empty())?;
    let name = text(source, &["metadata", "name"]).unwrap_or_default();
    let source_namespace = text(source, &["metadata", "namespace"]).unwrap_or(namespace);
    let key = |object: &Value| {
        let field = |key| {
            text(object, &["metadata", key])
                .unwrap_or_default()
                .to_owned()
        };
        (field("namespace"), field("name"))
    };
    let own = key(subscription);
    let is_other = |other: &&Value| {
        text(other, &["spec", "source"]) == Some(name)
            && text(other, &["spec", "sourceNamespace"]) == Some(source_namespace)
            && key(other) != own
    };
    let others: Vec<String> = all
        .iter()
        .filter(is_other)
        .map(|other| {
            let (namespace, name) = key(other);
            format!("{namespace}/{name}")
        })
        .collect();
    let mut concerns = Vec::new();
    if source_namespace != namespace {
        concerns.push("it is in another namespace and may be shared".to_owned());
    }
    if let Some((first, more)) = others.split_first() {
        let more = if more.is_empty() {
            String::new()
        } else {
            format!(" and {} more", more.len())
        };
        concerns.push(format!("it is also used by Subscription {first}{more}"));
    }
    if concerns.is_empty() {
        return None;
    }
    let strategy = get_path(source, &["spec", "updateStrategy"]);
    let strategy = strategy
        .filter(|value| !value.is_null())
        .map_or("", |_| " (its updateStrategy is removed)");
    Some(format!(
        "CatalogSource {name} in namespace {source_namespace} now has the current content of {image} with this bundle and \
         no longer follows the image{strategy}: {}; create a separate CatalogSource for this Subscription to leave the \
         others unchanged",
        concerns.join(", and ")
    ))
}

/// Returns an OperatorGroup. Without targets, it selects all namespaces.
pub(super) fn operator_group(namespace: &str, targets: &BTreeSet<String>) -> Value {
    let mut spec = json!({});
    if !targets.is_empty() {
        spec = json!({"targetNamespaces": targets});
    }
    json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": operator_group::NAME, "namespace": namespace}, "spec": spec,
    })
}

/// Returns a Subscription whose plans require approval.
pub(super) fn subscription(namespace: &str, package: &str, channel: &str, csv: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": subscription_name(csv), "namespace": namespace},
        "spec": {
            "name": package, "channel": channel, "startingCSV": csv, "installPlanApproval": "Manual",
            "source": source_name(package), "sourceNamespace": namespace,
        },
    })
}

/// Returns the properties of an OperatorGroup that decide about its use.
pub(super) fn group(object: &Value) -> OperatorGroupInfo {
    let spec = |key| get_path(object, &["spec", key]);
    let targets = spec("targetNamespaces")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let selector = spec("selector").and_then(Value::as_object);
    OperatorGroupInfo {
        name: text(object, &["metadata", "name"])
            .unwrap_or_default()
            .to_owned(),
        targets: targets
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        is_selecting: selector.is_some_and(|selector| !selector.is_empty()),
    }
}

/// Returns the annotations of an object.
pub(super) fn annotations(object: &Value) -> BTreeMap<String, String> {
    let all = get_path(object, &["metadata", "annotations"]).and_then(Value::as_object);
    let texts = all.into_iter().flatten();
    texts
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Reports whether the history of a CatalogSource has changed since it was read, or whether the object was replaced.
/// Without a recorded history, the image is the history. A client that sets an image later wants that image to be served.
pub(super) fn is_history_changed(read: &Value, current: &Value) -> bool {
    let recorded = |source| {
        let mut all = annotations(source);
        let image = text(source, &["spec", "image"]).filter(|image| !image.is_empty());
        let written = [INDEX_IMAGE, INJECTED_BUNDLES].map(|key| all.remove(key));
        (written, image.map(str::to_owned))
    };
    text(read, &["metadata", "uid"]) != text(current, &["metadata", "uid"])
        || recorded(read) != recorded(current)
}

/// Reports whether `run bundle` of rukpak or operator-sdk created a CatalogSource for a package.
pub(super) fn is_made_for(source: &Value, package: &str) -> bool {
    text(source, &["metadata", "name"]) == Some(source_name(package).as_str())
        && text(source, &["spec", "publisher"]) == Some(PUBLISHER)
}

/// Returns the CRDs that a ClusterServiceVersion owns, without those that it only requires.
pub(super) fn owned_crds(csv: &Value) -> BTreeSet<String> {
    let owned =
        get_path(csv, &["spec", "customresourcedefinitions", "owned"]).and_then(Value::as_array);
    let names = owned
        .into_iter()
        .flatten()
        .filter_map(|crd| text(crd, &["name"]));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: sdk-5
    #[test]
    fn names_are_those_of_operator_sdk() {
        ::tests::assert_rows! {
            subscription_name("tide.v1.0.0") => "tide-v1-0-0-sub";
            subscription_name("Tide_operator.v1.0.0-rc.1") => "tide-operator-v1-0-0-rc-1-sub";
            subscription_name("tide.") => "tide-sub";
        }
        let source = source("tides", "tide", None, SecurityContext::Legacy);
        assert_eq!(source["metadata"]["name"], "tide-catalog");
        assert_eq!(source["spec"]["secrets"], json!([]));
        assert!(is_made_for(&source, "tide") && !is_made_for(&source, "other"));
    }

    // parity: sdk-6, sdk-36
    #[test]
    fn a_catalog_keeps_its_secrets_and_loses_its_image() {
        for (secrets, added, expected) in [
            (json!(null), None, json!([])),
            (json!([""]), Some("pull"), json!(["pull"])),
            (json!(["a"]), Some("pull"), json!(["a", "pull"])),
            (json!(["pull", "a"]), Some("pull"), json!(["pull", "a"])),
        ] {
            let source = json!({
                "metadata": {"uid": "1", "resourceVersion": "7"}, "spec": {"image": "x", "secrets": secrets},
            });
            let annotations = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
            let patch = with_address(&source, "10.0.0.1:50051", "pod", &annotations, added);
            let annotations =
                json!({"k": "v", "operators.operatorframework.io/registry-pod-name": "pod"});
            let expected = json!({
                "metadata": {"uid": "1", "resourceVersion": "7", "annotations": annotations},
                "spec": {
                    "sourceType": "grpc", "address": "10.0.0.1:50051", "image": null, "updateStrategy": null,
                    "grpcPodConfig": null, "secrets": expected,
                },
            });
            assert_eq!(patch, expected, "{secrets}");
        }
    }

    // parity: sdk-36
    #[test]
    fn freezing_a_shared_catalog_causes_a_warning() {
        let source = |namespace: &str, spec: Value| json!({"metadata": {"name": "index", "namespace": namespace}, "spec": spec});
        let subscription = |namespace: &str, name: &str, source: &str| {
            let spec = json!({"source": source, "sourceNamespace": "tides"});
            json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})
        };
        let own = subscription("tides", "tide", "index");
        let image = json!({"image": "a.io/index:1"});
        let mut polled = image.clone();
        polled["updateStrategy"] = json!({"registryPoll": {"interval": "10m"}});
        let reef = subscription("tides", "reef", "index");
        let shared = [own.clone(), reef, subscription("other", "tide", "index")];
        let others = "it is also used by Subscription tides/reef and 1 more";
        for (source, all, expected) in ::tests::rows![
            source("tides", image.clone()), vec![own.clone()] => &[][..];
            source("tides", image.clone()), vec![own.clone(), subscription("tides", "reef", "else")] => &[];
            // The catalog already has a pod.
            source("olm", json!({"address": "x"})), shared.to_vec() => &[];
            source("tides", polled), shared.to_vec() => &[
                "now has the current content of a.io/index:1 with this bundle and no longer follows the image (its \
                 updateStrategy is removed): ",
                others,
            ];
            source("olm", image.clone()), vec![] => &["follows the image: it is in another namespace and may be shared; "];
            source("tides", image), shared[..2].to_vec() => &["follows the image: it is also used by Subscription \
                                                               tides/reef; "];
        ] {
            let warning = warn_image_frozen(&source, "tides", &own, &all);
            assert_eq!(warning.is_some(), !expected.is_empty(), "{source}");
            let warning = warning.unwrap_or_default();
            assert!(
                expected.iter().all(|part| warning.contains(part)),
                "{warning}"
            );
        }
    }

    #[test]
    fn image_template_annotations_are_removed() {
        let image = "a.io/index:{kube_minor_version}";
        let (own_key, olm_key) = (
            "core.rukpak.io/catalog-image-template",
            "olm.catalogImageTemplate",
        );
        for (given, expected) in ::tests::rows![
            json!({}) => json!({REGISTRY_POD: "pod"});
            json!({"other": "x"}) => json!({REGISTRY_POD: "pod"});
            json!({own_key: image, olm_key: image}) => json!({own_key: null, olm_key: null, REGISTRY_POD: "pod"});
        ] {
            let source = json!({"metadata": {"annotations": given}});
            let patch = with_address(&source, "10.0.0.1:50051", "pod", &BTreeMap::new(), None);
            assert_eq!(patch["metadata"]["annotations"], expected);
        }
    }

    #[test]
    fn concurrent_history_changes_are_detected() {
        let source = |uid: &str, version: &str, annotations: Value| json!({"metadata": {"uid": uid, "resourceVersion": version, "annotations": annotations}});
        let one = json!({INDEX_IMAGE: "a", INJECTED_BUNDLES: "[1]"});
        let read = source("1", "7", one.clone());
        let mut more = one.clone();
        more["other"] = "x".into();
        for (now, expected) in ::tests::rows![
            read.clone() => false;
            // OLM updates the status frequently.
            source("1", "8", one.clone()) => false;
            source("1", "8", more) => false;
            source("2", "8", one.clone()) => true;
            source("1", "8", json!({})) => true;
            source("1", "8", json!({INDEX_IMAGE: "a", INJECTED_BUNDLES: "[1,2]"})) => true;
            source("1", "8", json!({INDEX_IMAGE: "b", INJECTED_BUNDLES: "[1]"})) => true;
        ] {
            assert_eq!(is_history_changed(&read, &now), expected, "{now}");
        }
        let of = |image: Value, annotations: Value| {
            let mut source = source("1", "7", annotations);
            source["spec"] = json!({"image": image, "displayName": "x"});
            source
        };
        let (none, index) = (json!({}), json!("a.io/index:1"));
        for (read, now, expected) in ::tests::rows![
            of(index.clone(), none.clone()), of(index.clone(), none.clone()) => false;
            of(json!(null), none.clone()), of(json!(""), none.clone()) => false;
            of(index.clone(), none.clone()), of(json!("a.io/index:2"), none.clone()) => true;
            of(index.clone(), none.clone()), of(json!(null), none) => true;
            of(json!(null), one.clone()), of(index, one) => true;
        ] {
            assert_eq!(is_history_changed(&read, &now), expected, "{read} {now}");
        }
    }

    // parity: sdk-34
    #[test]
    fn only_owned_crds_are_found() {
        let csv = json!({"spec": {"customresourcedefinitions": {
            "owned": [{"name": "b"}, {"name": "a"}, {}], "required": [{"name": "c"}],
        }}});
        ::tests::assert_rows! {
            owned_crds(&csv) => BTreeSet::from(["a", "b"].map(str::to_owned));
            owned_crds(&json!({})) => BTreeSet::new();
        }
    }

    // parity: sdk-4
    #[test]
    fn operator_groups_round_trip() {
        let expected = OperatorGroupInfo {
            name: operator_group::NAME.to_owned(),
            targets: BTreeSet::from(["a".to_owned()]),
            is_selecting: false,
        };
        let written = operator_group("tides", &expected.targets);
        assert_eq!(group(&written), expected);
        assert_eq!(operator_group("tides", &BTreeSet::new())["spec"], json!({}));
        assert!(group(&json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}})).is_selecting);
    }
}

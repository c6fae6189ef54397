//! OLM objects that the commands write and read, with operator-sdk's names.

use std::collections::{BTreeMap, BTreeSet};

use catalog::compose::history::{INDEX_IMAGE, INJECTED_BUNDLES, REGISTRY_POD};
use kube::ResourceExt as _;
use manifests::{
    api::{
        catalog_source::CatalogSource,
        labels,
        olm::{ClusterServiceVersion, Subscription},
    },
    image_template, names,
};
use serde_json::{Value, json};

use super::operator_group;
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

/// Returns the image of a CatalogSource.
pub(super) fn image(source: &CatalogSource) -> Option<&str> {
    let image = source.spec.image.as_deref();
    image.filter(|image| !image.is_empty())
}

/// Returns the annotations of a CatalogSource by which other controllers would set its image again.
pub(super) fn templates(source: &CatalogSource) -> impl Iterator<Item = &'static str> {
    let all = [labels::CATALOG_IMAGE_TEMPLATE, image_template::ANNOTATION];
    all.into_iter()
        .filter(|key| source.annotations().contains_key(*key))
}

/// Returns a merge patch that lets another pod serve a CatalogSource. It applies only to the observed version of the
/// object.
pub(super) fn with_address(
    source: &CatalogSource,
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
    let existing = source.spec.secrets.iter().map(String::as_str);
    let mut secrets: Vec<&str> = existing.filter(|name| !name.is_empty()).collect();
    if let Some(secret) = secret.filter(|name| !secrets.contains(name)) {
        secrets.push(secret);
    }
    let mut spec =
        json!({"sourceType": "grpc", "address": address, "image": null, "secrets": secrets});
    if let (Some(_), Value::Object(spec)) = (image(source), &mut spec) {
        // Without an image, both fields have no effect.
        let removed = ["updateStrategy", "grpcPodConfig"];
        spec.extend(removed.map(|field| (field.to_owned(), Value::Null)));
    }
    json!({
        "metadata": {
            "uid": source.metadata.uid, "resourceVersion": source.metadata.resource_version, "annotations": annotations,
        },
        "spec": spec,
    })
}

/// Returns the warning about a catalog of another tool that a pod serves from now on, because the catalog no longer follows
/// its image. `all` are the Subscriptions that may be read.
pub(super) fn warn_image_frozen(
    source: &CatalogSource,
    namespace: &str,
    subscription: &Subscription,
    all: &[Subscription],
) -> Option<String> {
    let (image, name) = (image(source)?, source.name_any());
    let source_namespace = source.metadata.namespace.as_deref().unwrap_or(namespace);
    let key = |object: &Subscription| (object.namespace(), object.name_any());
    let mut others = all.iter().filter(|other| {
        other.spec.source == name
            && other.spec.source_namespace == source_namespace
            && key(other) != key(subscription)
    });
    let mut concerns = Vec::new();
    if source_namespace != namespace {
        concerns.push("it is in another namespace and may be shared".to_owned());
    }
    if let Some(first) = others.next() {
        let (namespace, name) = (first.namespace().unwrap_or_default(), first.name());
        let more = match others.count() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        concerns.push(format!(
            "it is also used by Subscription {namespace}/{name}{more}"
        ));
    }
    if concerns.is_empty() {
        return None;
    }
    let strategy = source.spec.update_strategy.as_ref();
    let strategy = strategy.map_or("", |_| " (its updateStrategy is removed)");
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

/// Reports whether the history of a CatalogSource has changed since it was read, or whether the object was replaced.
/// Without a recorded history, the image is the history. A client that sets an image later wants that image to be served.
pub(super) fn is_history_changed(read: &CatalogSource, current: &CatalogSource) -> bool {
    let recorded = |source: &CatalogSource| {
        let written =
            [INDEX_IMAGE, INJECTED_BUNDLES].map(|key| source.annotations().get(key).cloned());
        (source.uid(), written, image(source).map(str::to_owned))
    };
    recorded(read) != recorded(current)
}

/// Reports whether `run bundle` of rukpak or operator-sdk created a CatalogSource for a package.
pub(super) fn is_made_for(source: &CatalogSource, package: &str) -> bool {
    source.name_any() == source_name(package) && source.spec.publisher.as_deref() == Some(PUBLISHER)
}

/// Returns the CRDs that a ClusterServiceVersion owns, without those that it only requires. Invalid names are skipped, because
/// they could change the URL of the request that deletes the CRD.
pub(super) fn owned_crds(csv: &ClusterServiceVersion) -> impl Iterator<Item = &str> {
    let owned = csv.spec.crds.owned.iter().map(|crd| crd.name.as_str());
    owned.filter(|name| names::dns_subdomain(name).is_ok())
}

#[cfg(test)]
mod tests {
    use manifests::api::olm::OperatorGroup;

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
        let source: CatalogSource = object!(source);
        assert!(is_made_for(&source, "tide") && !is_made_for(&source, "other"));
    }

    // parity: sdk-6, sdk-36
    #[test]
    fn a_catalog_keeps_its_secrets_and_loses_its_image() {
        let pod = "operators.operatorframework.io/registry-pod-name";
        let own = "core.rukpak.io/catalog-image-template";
        let olm = "olm.catalogImageTemplate";
        let written = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        for (given, annotations, secrets, added, expected) in ::tests::rows![
            json!({}), json!({"k": "v", pod: "pod"}), json!([]), None => json!([]);
            json!({"other": "x"}), json!({"k": "v", pod: "pod"}), json!([""]), Some("pull") => json!(["pull"]);
            json!({}), json!({"k": "v", pod: "pod"}), json!(["a"]), Some("pull") => json!(["a", "pull"]);
            // Image templates are removed.
            json!({own: "a:{x}", olm: "a:{x}"}), json!({"k": "v", own: null, olm: null, pod: "pod"}), json!(["pull", "a"]),
                Some("pull") => json!(["pull", "a"]);
        ] {
            let metadata = json!({"uid": "1", "resourceVersion": "7", "annotations": given});
            let source =
                object!({"metadata": metadata, "spec": {"image": "x", "secrets": secrets}});
            let patch = with_address(&source, "10.0.0.1:50051", "pod", &written, added);
            let expected = json!({
                "metadata": {"uid": "1", "resourceVersion": "7", "annotations": annotations},
                "spec": {
                    "sourceType": "grpc", "address": "10.0.0.1:50051", "image": null, "updateStrategy": null,
                    "grpcPodConfig": null, "secrets": expected,
                },
            });
            assert_eq!(patch, expected, "{secrets}");
        }
        // "run bundle" has created the catalog, with the security context of its pod.
        let created = object!(source("tides", "tide", None, SecurityContext::Restricted));
        let patch = with_address(&created, "10.0.0.1:50051", "pod", &written, None);
        let spec = json!({"sourceType": "grpc", "address": "10.0.0.1:50051", "image": null, "secrets": []});
        assert_eq!(patch["spec"], spec);
    }

    // parity: sdk-36
    #[test]
    fn freezing_a_shared_catalog_causes_a_warning() {
        let source = |namespace: &str, spec: Value| -> CatalogSource {
            object!({"metadata": {"name": "index", "namespace": namespace}, "spec": spec})
        };
        let subscription = |namespace: &str, name: &str, source: &str| -> Subscription {
            object!({"metadata": {"namespace": namespace, "name": name}, "spec": {"source": source, "sourceNamespace": "tides"}})
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
            assert_eq!(warning.is_some(), !expected.is_empty(), "{source:?}");
            for part in expected {
                ::tests::assert_has(warning.as_deref().unwrap_or_default(), part);
            }
        }
    }

    #[test]
    fn concurrent_history_changes_are_detected() {
        let source = |version: &str, image: &Value, annotations: &Value| -> CatalogSource {
            let metadata =
                json!({"uid": "1", "resourceVersion": version, "annotations": annotations});
            object!({"metadata": metadata, "spec": {"image": image, "displayName": version}})
        };
        let recorded = |bundles: &str| json!({INDEX_IMAGE: "a", INJECTED_BUNDLES: bundles});
        let (none, one) = (json!({}), recorded("[1]"));
        let more = json!({INDEX_IMAGE: "a", INJECTED_BUNDLES: "[1]", "other": "x"});
        let other = json!({INDEX_IMAGE: "b", INJECTED_BUNDLES: "[1]"});
        let (empty, index) = (json!(null), json!("a.io/index:1"));
        for (read, now, expected) in ::tests::rows![
            // OLM updates the status frequently.
            source("7", &empty, &one), source("8", &empty, &one) => false;
            source("7", &empty, &one), source("8", &empty, &more) => false;
            source("7", &empty, &one), source("8", &empty, &none) => true;
            source("7", &empty, &one), source("8", &empty, &recorded("[1,2]")) => true;
            source("7", &empty, &one), source("8", &empty, &other) => true;
            source("7", &index, &none), source("8", &index, &none) => false;
            source("7", &empty, &none), source("8", &json!(""), &none) => false;
            source("7", &index, &none), source("8", &json!("a.io/index:2"), &none) => true;
            source("7", &index, &none), source("8", &empty, &none) => true;
            source("7", &empty, &one), source("8", &index, &one) => true;
        ] {
            ::tests::assert_rows!(is_history_changed(&read, &now) => expected, "{read:?} {now:?}");
            let replaced = ::tests::with!(now => metadata.uid: Some("2".to_owned()));
            assert!(is_history_changed(&read, &replaced));
        }
    }

    // parity: sdk-34
    #[test]
    fn only_owned_crds_are_found() {
        let csv = object!({"spec": {"customresourcedefinitions": {
            "owned": [{"name": "b"}, {"name": "a"}, {}], "required": [{"name": "c"}],
        }}});
        assert!(owned_crds(&csv).eq(["b", "a"]));
        for name in ["a.b?x", "a.b#x", "?", "../a", "a/status", "a%2Fb"] {
            let csv = object!({"spec": {"customresourcedefinitions": {"owned": [{"name": name}]}}});
            ::tests::assert_rows!(owned_crds(&csv).next() => None, "{name}");
        }
    }

    // parity: sdk-4
    #[test]
    fn operator_groups_round_trip() {
        let targets = BTreeSet::from(["a".to_owned()]);
        let group: OperatorGroup = object!(operator_group("tides", &targets));
        ::tests::assert_rows! {
            (group.name(), group.is_selecting()) => (operator_group::NAME, false);
            group.spec.target_namespaces => targets;
            operator_group("tides", &BTreeSet::new())["spec"] => json!({});
        }
        let is_selecting = |selector| {
            let group: OperatorGroup = object!({"spec": {"selector": selector}});
            group.is_selecting()
        };
        ::tests::assert_rows! {
            is_selecting(json!({"matchLabels": {"a": "b"}})) => true;
            is_selecting(json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]})) => true;
            // OLM ignores an empty selector.
            is_selecting(json!({})) || is_selecting(json!({"matchLabels": {}, "matchExpressions": []})) => false;
        }
    }
}

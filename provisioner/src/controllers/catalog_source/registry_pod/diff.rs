//! Computes the changes that repair the live objects of a registry pod. Pure; no I/O.
//!
//! Harmless additions of the API server and of other clients are kept, such as addresses, labels and pull secrets of the
//! platform. `None` means that nothing has to be changed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        core::v1::{LocalObjectReference, Service, ServiceAccount, ServicePort},
        networking::v1::NetworkPolicy,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use manifests::api::labels;

use super::manifest::COPIED_ANNOTATIONS;

/// Sets the desired pull secrets and removes those that were desired before.
pub(super) fn account(live: &ServiceAccount, desired: &ServiceAccount) -> Option<ServiceAccount> {
    let names = |account: &ServiceAccount| -> Vec<String> {
        let secrets = account.image_pull_secrets.iter().flatten();
        secrets.map(|secret| secret.name.clone()).collect()
    };
    let annotations = live.metadata.annotations.as_ref();
    let before = annotations.and_then(|annotations| annotations.get(labels::PULL_SECRETS));
    let before: BTreeSet<&str> = before
        .into_iter()
        .flat_map(|names| names.split(','))
        .collect();
    let (current, mut secrets) = (names(live), names(desired));
    for name in &current {
        if !before.contains(name.as_str()) && !secrets.contains(name) {
            secrets.push(name.clone());
        }
    }
    let mut repaired = live.clone();
    let differs = metadata(&mut repaired.metadata, &desired.metadata);
    let sorted = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    if !differs && sorted(&current) == sorted(&secrets) {
        return None;
    }
    let secrets = secrets
        .into_iter()
        .map(|name| LocalObjectReference { name });
    repaired.image_pull_secrets = Some(secrets.collect());
    Some(repaired)
}

/// Sets the selector and the ports. The address is kept. The label of the catalog server is removed.
pub(super) fn service(live: &Service, desired: &Service) -> Option<Service> {
    let mut repaired = live.clone();
    let mut differs = metadata(&mut repaired.metadata, &desired.metadata);
    let labels = repaired.metadata.labels.as_mut();
    differs |= labels.is_some_and(|labels| labels.remove(labels::CATALOG).is_some());
    let declared = desired.spec.clone().unwrap_or_default();
    let spec = repaired.spec.get_or_insert_default();
    let plain = |ports: &Option<Vec<ServicePort>>| -> Vec<ServicePort> {
        let ports = ports.iter().flatten().cloned();
        ports
            .map(|port| ServicePort {
                node_port: None,
                ..port
            })
            .collect()
    };
    if !differs
        && spec.selector == declared.selector
        && plain(&spec.ports) == plain(&declared.ports)
    {
        return None;
    }
    spec.selector = declared.selector;
    spec.ports = declared.ports;
    Some(repaired)
}

/// Sets the whole spec.
pub(super) fn policy(live: &NetworkPolicy, desired: &NetworkPolicy) -> Option<NetworkPolicy> {
    let mut repaired = live.clone();
    let differs = metadata(&mut repaired.metadata, &desired.metadata);
    if !differs && live.spec == desired.spec {
        return None;
    }
    repaired.spec.clone_from(&desired.spec);
    Some(repaired)
}

/// Sets the desired labels and annotations. Reports whether that is a change.
fn metadata(live: &mut ObjectMeta, desired: &ObjectMeta) -> bool {
    let mut differs = false;
    for (live, desired) in [
        (&mut live.labels, &desired.labels),
        (&mut live.annotations, &desired.annotations),
    ] {
        for (key, value) in desired.iter().flatten() {
            let live = live.get_or_insert_default();
            differs |= live.insert(key.clone(), value.clone()).as_ref() != Some(value);
        }
    }
    differs
}

/// Computes the changes to a pod's annotations: sets the desired ones and removes those that were desired before.
/// Annotations of the cluster and of others are kept.
pub(super) fn annotations(
    live: &BTreeMap<String, String>,
    desired: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let differs = |entry: &(&String, &String)| live.get(entry.0) != Some(entry.1);
    let changes = desired.iter().filter(differs);
    let changes = changes.map(|(key, value)| (key.clone(), Some(value.clone())));
    let before = live
        .get(COPIED_ANNOTATIONS)
        .into_iter()
        .flat_map(|names| names.split(','));
    let removed = before.chain([COPIED_ANNOTATIONS]);
    let removed = removed.filter(|&name| live.contains_key(name) && !desired.contains_key(name));
    changes
        .chain(removed.map(|name| (name.to_owned(), None)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn an_account(secrets: &[&str], before: Option<&str>) -> ServiceAccount {
        let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
        let annotations = before.map(|before| json!({labels::PULL_SECRETS: before}));
        object!({"metadata": {"name": "a", "annotations": annotations}, "imagePullSecrets": secrets})
    }

    // parity: pod-5
    #[test]
    fn own_pull_secrets_are_updated_and_foreign_ones_kept() {
        for (live, before, desired, expected) in ::tests::rows![
            &["s"][..], Some("s"), &["s"][..] => None;
            &["platform", "s"], Some("s"), &["s"] => None;
            &[], Some(""), &["s"] => Some(&["s"][..]);
            &["s", "platform"], Some("s"), &["t"] => Some(&["t", "platform"]);
            &["s", "platform"], Some("s"), &[] => Some(&["platform"]);
            // Another client has removed it.
            &["platform"], Some("s"), &["s"] => Some(&["s", "platform"]);
            &["s"], None, &["s"] => Some(&["s"]);
            &["s"], None, &[] => Some(&["s"]);
        ] {
            let desired = an_account(desired, Some(&desired.join(",")));
            let repaired = account(&an_account(live, before), &desired);
            let secrets = |account: &ServiceAccount| json!(account.image_pull_secrets);
            let expected = expected.map(|names| secrets(&an_account(names, None)));
            assert_rows!(repaired.as_ref().map(secrets) => expected, "{live:?} {before:?}");
            if let Some(repaired) = repaired {
                assert_eq!(account(&repaired, &desired), None);
            }
        }
    }

    #[test]
    fn own_annotations_are_updated_and_foreign_ones_kept() {
        // `our` stands for the annotation that lists the copied annotations.
        let read = |text: &str| -> BTreeMap<String, String> {
            let parts = text.split_whitespace();
            let pairs = parts.map(|pair| pair.split_once('=').unwrap());
            pairs
                .map(|(key, value)| (key.replace("our", COPIED_ANNOTATIONS), value.to_owned()))
                .collect()
        };
        for (live, desired, expected) in [
            ("", "", ""),
            ("a=1 our=a cni=x", "a=1 our=a", ""),
            ("a=1 our=a cni=x", "a=2 our=a", "a=2"),
            ("a=1 our=a cni=x", "a=1 b=1 our=a,b", "b=1 our=a,b"),
            ("a=1 b=1 our=a,b cni=x", "a=1 our=a", "b! our=a"),
            ("a=1 our=a cni=x", "", "a! our!"),
            // Another client has removed it.
            ("our=a cni=x", "", "our!"),
            ("our=a cni=x", "a=1 our=a", "a=1"),
            // A pod that was created before that annotation existed.
            ("a=1 b=1 cni=x", "a=1 our=a", "our=a"),
            // Not listed, because the list was too long.
            ("a=1", "", ""),
        ] {
            let due = annotations(&read(live), &read(desired));
            let changes = due.iter().map(|(key, value)| match value {
                Some(value) => format!("{}={value}", key.replace(COPIED_ANNOTATIONS, "our")),
                None => format!("{}!", key.replace(COPIED_ANNOTATIONS, "our")),
            });
            let mut due: Vec<String> = changes.collect();
            due.sort();
            assert_eq!(due.join(" "), expected, "{live} -> {desired}");
        }
    }

    #[test]
    fn service_is_repaired_and_keeps_its_address() {
        let made = |labels: Value, selector: Value, port: u16| -> Service {
            object!({
                "metadata": {"name": "a", "labels": labels},
                "spec": {"selector": selector, "clusterIP": "10.0.0.1", "ports": [{"port": port, "nodePort": 30000}]},
            })
        };
        let own = || json!({"h": "1"});
        let live = made(own(), json!({"a": "b"}), 1);
        let desired = with!(live.clone() => |service| service.spec.as_mut().unwrap().cluster_ip = Some(String::new()));
        assert_eq!(service(&live, &desired), None);
        for wrong in [
            made(own(), json!({"a": "b", "c": "d"}), 1),
            made(own(), json!({}), 1),
            made(own(), json!({"a": "b"}), 2),
            // A Service of the catalog server.
            made(json!({"h": "1", labels::CATALOG: "a"}), json!({}), 1),
        ] {
            assert_eq!(service(&wrong, &desired), Some(live.clone()));
        }
        let unlabeled = made(json!({"x": "y"}), json!({"a": "b"}), 1);
        assert_rows!(service(&unlabeled, &desired) => Some(made(json!({"h": "1", "x": "y"}), json!({"a": "b"}), 1)));
    }
}

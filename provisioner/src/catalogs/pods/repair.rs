//! What has to be changed about an object that is there, so that it is what was declared. No I/O.
//!
//! What the API server and others have added stays, as far as it does no harm: addresses, further labels, pull secrets of
//! the platform. `None` says that nothing has to be changed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        core::v1::{LocalObjectReference, Service, ServiceAccount, ServicePort},
        networking::v1::NetworkPolicy,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use manifests::api::labels;

use super::declare::CARRIED;

/// The pull secrets that were declared, and no longer those that were declared before.
pub(super) fn account(there: &ServiceAccount, wanted: &ServiceAccount) -> Option<ServiceAccount> {
    let names = |of: &ServiceAccount| -> Vec<String> {
        let secrets = of.image_pull_secrets.iter().flatten();
        secrets.map(|it| it.name.clone()).collect()
    };
    let annotations = there.metadata.annotations.as_ref();
    let before = annotations.and_then(|it| it.get(labels::PULL_SECRETS));
    let before: BTreeSet<&str> = before.into_iter().flat_map(|it| it.split(',')).collect();
    let (here, mut secrets) = (names(there), names(wanted));
    for name in &here {
        if !before.contains(name.as_str()) && !secrets.contains(name) {
            secrets.push(name.clone());
        }
    }
    let mut repaired = there.clone();
    let differs = metadata(&mut repaired.metadata, &wanted.metadata);
    let sorted = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
    if !differs && sorted(&here) == sorted(&secrets) {
        return None;
    }
    let secrets = secrets
        .into_iter()
        .map(|name| LocalObjectReference { name });
    repaired.image_pull_secrets = Some(secrets.collect());
    Some(repaired)
}

/// Where it leads to. Its address stays; one that has led to the catalog server does no more.
pub(super) fn service(there: &Service, wanted: &Service) -> Option<Service> {
    let mut repaired = there.clone();
    let mut differs = metadata(&mut repaired.metadata, &wanted.metadata);
    let labels = repaired.metadata.labels.as_mut();
    differs |= labels.is_some_and(|it| it.remove(labels::CATALOG).is_some());
    let declared = wanted.spec.clone().unwrap_or_default();
    let spec = repaired.spec.get_or_insert_default();
    let plain = |ports: &Option<Vec<ServicePort>>| -> Vec<ServicePort> {
        let ports = ports.iter().flatten().cloned();
        ports
            .map(|it| ServicePort {
                node_port: None,
                ..it
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

/// All of it.
pub(super) fn policy(there: &NetworkPolicy, wanted: &NetworkPolicy) -> Option<NetworkPolicy> {
    let mut repaired = there.clone();
    let differs = metadata(&mut repaired.metadata, &wanted.metadata);
    if !differs && there.spec == wanted.spec {
        return None;
    }
    repaired.spec.clone_from(&wanted.spec);
    Some(repaired)
}

/// Sets what labels and annotations were declared; says whether that is a change.
fn metadata(there: &mut ObjectMeta, wanted: &ObjectMeta) -> bool {
    let mut differs = false;
    for (there, wanted) in [
        (&mut there.labels, &wanted.labels),
        (&mut there.annotations, &wanted.annotations),
    ] {
        for (key, value) in wanted.iter().flatten() {
            let there = there.get_or_insert_default();
            differs |= there.insert(key.clone(), value.clone()).as_ref() != Some(value);
        }
    }
    differs
}

/// What is to be done to the annotations of a pod: those that were declared, and none for what was declared before. Those of
/// the cluster and of others stay.
pub(super) fn annotations(
    there: &BTreeMap<String, String>,
    wanted: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let differs = |it: &(&String, &String)| there.get(it.0) != Some(it.1);
    let due = wanted.iter().filter(differs);
    let due = due.map(|(key, value)| (key.clone(), Some(value.clone())));
    let before = there.get(CARRIED).into_iter().flat_map(|it| it.split(','));
    let gone = before.chain([CARRIED]);
    let gone = gone.filter(|&it| there.contains_key(it) && !wanted.contains_key(it));
    due.chain(gone.map(|it| (it.to_owned(), None))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn an_account(secrets: &[&str], before: Option<&str>) -> ServiceAccount {
        let secrets: Vec<Value> = secrets.iter().map(|it| json!({"name": it})).collect();
        let annotations = before.map(|before| json!({labels::PULL_SECRETS: before}));
        object!({"metadata": {"name": "a", "annotations": annotations}, "imagePullSecrets": secrets})
    }

    // parity: pod-5
    #[test]
    fn secrets_follow_the_catalog_and_those_of_others_stay() {
        for (there, before, wanted, expected) in ::tests::rows![
            &["s"][..], Some("s"), &["s"][..] => None;
            &["platform", "s"], Some("s"), &["s"] => None;
            &[], Some(""), &["s"] => Some(&["s"][..]);
            &["s", "platform"], Some("s"), &["t"] => Some(&["t", "platform"]);
            &["s", "platform"], Some("s"), &[] => Some(&["platform"]);
            // Somebody has taken it away.
            &["platform"], Some("s"), &["s"] => Some(&["s", "platform"]);
            &["s"], None, &["s"] => Some(&["s"]);
            &["s"], None, &[] => Some(&["s"]);
        ] {
            let wanted = an_account(wanted, Some(&wanted.join(",")));
            let repaired = account(&an_account(there, before), &wanted);
            let names = repaired
                .as_ref()
                .map(|it| it.image_pull_secrets.iter().flatten());
            let names = names.map(|names| names.map(|it| it.name.as_str()).collect::<Vec<_>>());
            assert_eq!(names.as_deref(), expected, "{there:?} {before:?}");
            if let Some(repaired) = repaired {
                assert_eq!(account(&repaired, &wanted), None);
            }
        }
    }

    #[test]
    fn annotations_follow_the_catalog_and_those_of_others_stay() {
        // `our` stands for the annotation that says which are ours.
        let read = |text: &str| -> BTreeMap<String, String> {
            let words = text.split_whitespace();
            let pairs = words.map(|it| it.split_once('=').unwrap());
            pairs
                .map(|(key, value)| (key.replace("our", CARRIED), value.to_owned()))
                .collect()
        };
        for (there, wanted, expected) in [
            ("", "", ""),
            ("a=1 our=a cni=x", "a=1 our=a", ""),
            ("a=1 our=a cni=x", "a=2 our=a", "a=2"),
            ("a=1 our=a cni=x", "a=1 b=1 our=a,b", "b=1 our=a,b"),
            ("a=1 b=1 our=a,b cni=x", "a=1 our=a", "b! our=a"),
            ("a=1 our=a cni=x", "", "a! our!"),
            // Somebody has taken it away.
            ("our=a cni=x", "", "our!"),
            ("our=a cni=x", "a=1 our=a", "a=1"),
            // Of a pod that was made before it was said what is whose.
            ("a=1 b=1 cni=x", "a=1 our=a", "our=a"),
            // What was not in the list, for it was too long.
            ("a=1", "", ""),
        ] {
            let due = annotations(&read(there), &read(wanted));
            let told = due.iter().map(|(key, value)| match value {
                Some(value) => format!("{}={value}", key.replace(CARRIED, "our")),
                None => format!("{}!", key.replace(CARRIED, "our")),
            });
            let mut due: Vec<String> = told.collect();
            due.sort();
            assert_eq!(due.join(" "), expected, "{there} -> {wanted}");
        }
    }

    #[test]
    fn a_service_leads_where_it_should_and_keeps_its_address() {
        let made = |selector: Value, port: u16, address: &str| -> Service {
            object!({
                "metadata": {"name": "a", "labels": {"h": "1"}},
                "spec": {"selector": selector, "clusterIP": address, "ports": [{"port": port, "nodePort": 30000}]},
            })
        };
        let wanted = made(json!({"a": "b"}), 1, "");
        let there = made(json!({"a": "b"}), 1, "10.0.0.1");
        assert_eq!(service(&there, &wanted), None);
        for wrong in [
            made(json!({"a": "b", "c": "d"}), 1, "10.0.0.1"),
            made(json!({}), 1, "10.0.0.1"),
            made(json!({"a": "b"}), 2, "10.0.0.1"),
        ] {
            assert_eq!(service(&wrong, &wanted), Some(there.clone()));
        }
        // That of the catalog server.
        let mut of_server = made(json!({}), 1, "10.0.0.1");
        let label = (labels::CATALOG.to_owned(), "a".to_owned());
        let labels = of_server.metadata.labels.get_or_insert_default();
        labels.extend([label]);
        assert_eq!(service(&of_server, &wanted), Some(there.clone()));
        let unlabeled = with!(there.clone() => metadata.labels: Some([("x".to_owned(), "y".to_owned())].into()));
        assert_rows!(service(&unlabeled, &wanted).unwrap().metadata.labels.map(|one| one.len()) => Some(2));
    }
}

//! What the provisioner needs on OpenShift and nowhere else.
//!
//! The pods of the provisioner are admitted as every pod is there (`restricted-v2`), with a user of their namespace's own.
//! Those of unpack Jobs name their user, for an image that is a container beside a program from elsewhere may name none:
//! that takes `nonroot-v2`, which their account may therefore use.

use serde_json::{Value, json};

use super::{
    Document, Options, labels,
    release::CLUSTER_OPERATORS,
    rights::{UNPACK, WATCH, catalog_secrets, cluster_binding, cluster_role, rule, subject},
};
use crate::api::pulling::{CONFIG_NAMESPACE, PULL_SECRET};

const NAME: &str = "provisioner-openshift";
/// Where OpenShift's own catalogs are.
const MARKETPLACE: &str = "openshift-marketplace";
/// Where and what the cluster's own Prometheus is.
const MONITORING: &str = "openshift-monitoring";
const PROMETHEUS: &str = "prometheus-k8s";
const NONROOT: &str = "nonroot-v2";

pub(super) fn documents(options: &Options) -> Vec<Document> {
    let config = [
        "imagedigestmirrorsets",
        "imagetagmirrorsets",
        "images",
        "proxies",
    ];
    let rules = json!([
        rule("config.openshift.io", &config, &WATCH),
        // What has asked for APIs that go.
        rule(
            "apiserver.openshift.io",
            &["apirequestcounts"],
            &["get", "list"]
        ),
        rule(
            "operator.openshift.io",
            &["imagecontentsourcepolicies"],
            &WATCH
        ),
        rule(
            "config.openshift.io",
            &["clusteroperators"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule(
            "config.openshift.io",
            &["clusteroperators/status"],
            &["update"]
        ),
        // To give one an owner, which OpenShift grants to who may delete it.
        {"apiGroups": ["config.openshift.io"], "resources": ["clusteroperators"],
         "resourceNames": CLUSTER_OPERATORS, "verbs": ["delete"]},
    ]);
    let authorities = json!([
        rule("", &["configmaps"], &WATCH),
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [PULL_SECRET], "verbs": WATCH},
    ]);
    let constraints = json!([{
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": [NONROOT],
        "verbs": ["use"],
    }]);
    let targets = json!([
        rule("", &["services", "endpoints", "pods"], &WATCH),
        rule("discovery.k8s.io", &["endpointslices"], &WATCH),
    ]);
    let system = options.namespace.as_str();
    let unpack = json!({"kind": "ServiceAccount", "name": UNPACK, "namespace": system});
    let prometheus = json!({"kind": "ServiceAccount", "name": PROMETHEUS, "namespace": MONITORING});
    vec![
        Document::new(
            "On OpenShift only: what the provisioner pulls itself follows the cluster's mirrors, registries, authorities, proxy\n\
             and pull secret, and ClusterOperators tell the cluster-version operator of platform operators.",
            cluster_role(NAME, &labels(), &rules),
        ),
        Document::new("", cluster_binding(NAME, NAME, options)),
        Document::new(
            "The ConfigMaps with authorities have names of the admin's choice.",
            role(NAME, CONFIG_NAMESPACE, &authorities),
        ),
        Document::new(
            "",
            binding(NAME, CONFIG_NAMESPACE, ("Role", NAME), &subject(options)),
        ),
        Document::new(
            "The secrets of the cluster's own catalogs.",
            with_capability(catalog_secrets(options, MARKETPLACE), "marketplace"),
        ),
        Document::new(
            "The pods of unpack Jobs have a user of their own, and no other one than root is refused.",
            role(&format!("{UNPACK}-{NONROOT}"), system, &constraints),
        ),
        Document::new(
            "",
            binding(
                &format!("{UNPACK}-{NONROOT}"),
                system,
                ("Role", &format!("{UNPACK}-{NONROOT}")),
                &unpack,
            ),
        ),
        Document::new(
            "Lets the cluster's own Prometheus find what it is to scrape.",
            role(PROMETHEUS, system, &targets),
        ),
        Document::new(
            "",
            binding(PROMETHEUS, system, ("Role", PROMETHEUS), &prometheus),
        ),
    ]
}

/// Part of a payload only where the cluster has this capability: without it there is no such namespace.
fn with_capability(mut object: Value, capability: &str) -> Value {
    super::release::annotate(&mut object, "capability.openshift.io/name", capability);
    object
}

fn role(name: &str, namespace: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace, "labels": labels()},
        "rules": rules,
    })
}

fn binding(name: &str, namespace: &str, (kind, role): (&str, &str), subject: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace, "labels": labels()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [subject],
    })
}

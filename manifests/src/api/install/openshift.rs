//! Objects that the provisioner requires only on OpenShift.
//!
//! The provisioner's pods use the default `restricted-v2`, with a user from their namespace's range. The pods of unpack
//! Jobs set their user, because an image that runs as a container beside an injected program may not set one. This requires
//! `nonroot-v2`, which their ServiceAccount may therefore use.

use serde_json::{Value, json};

use super::{
    CommentedObject, Options, labels,
    rbac::{UNPACK, WATCH, catalog_secrets, cluster_binding, cluster_role, rule, subject},
    release::CLUSTER_OPERATORS,
};
use crate::api::pulling::{CONFIG_NAMESPACE, PULL_SECRET};

const NAME: &str = "provisioner-openshift";
/// The namespace of OpenShift's own catalogs.
const MARKETPLACE: &str = "openshift-marketplace";
/// The namespace and the ServiceAccount of the cluster's own Prometheus.
const MONITORING: &str = "openshift-monitoring";
const PROMETHEUS: &str = "prometheus-k8s";
const NONROOT: &str = "nonroot-v2";

pub(super) fn documents(options: &Options) -> Vec<CommentedObject> {
    let config = [
        "imagedigestmirrorsets",
        "imagetagmirrorsets",
        "images",
        "proxies",
    ];
    let rules = json!([
        rule("config.openshift.io", &config, &WATCH),
        // Clients of APIs that will be removed.
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
        // OpenShift requires the delete permission to set an owner reference to these objects.
        {"apiGroups": ["config.openshift.io"], "resources": ["clusteroperators"],
         "resourceNames": CLUSTER_OPERATORS, "verbs": ["delete"]},
    ]);
    let ca_rules = json!([
        rule("", &["configmaps"], &WATCH),
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [PULL_SECRET], "verbs": WATCH},
    ]);
    let scc_rules = json!([{
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": [NONROOT],
        "verbs": ["use"],
    }]);
    let scrape_rules = json!([
        rule("", &["services", "endpoints", "pods"], &WATCH),
        rule("discovery.k8s.io", &["endpointslices"], &WATCH),
    ]);
    let system = options.namespace.as_str();
    let unpack = json!({"kind": "ServiceAccount", "name": UNPACK, "namespace": system});
    let prometheus = json!({"kind": "ServiceAccount", "name": PROMETHEUS, "namespace": MONITORING});
    vec![
        CommentedObject::new(
            "On OpenShift only: the provisioner pulls with the cluster's mirrors, registry settings, CAs, proxy and pull secret,\n\
             and ClusterOperators report the state of platform operators to the cluster-version operator.",
            cluster_role(NAME, &labels(), &rules),
        ),
        CommentedObject::new("", cluster_binding(NAME, NAME, options)),
        CommentedObject::new(
            "The cluster admin chooses the names of the ConfigMaps with CAs.",
            role(NAME, CONFIG_NAMESPACE, &ca_rules),
        ),
        CommentedObject::new(
            "",
            binding(NAME, CONFIG_NAMESPACE, ("Role", NAME), &subject(options)),
        ),
        CommentedObject::new(
            "The secrets of the cluster's default catalogs.",
            with_capability(catalog_secrets(options, MARKETPLACE), "marketplace"),
        ),
        CommentedObject::new(
            "The pods of unpack Jobs run as a fixed user. This SCC allows every user except root.",
            role(&format!("{UNPACK}-{NONROOT}"), system, &scc_rules),
        ),
        CommentedObject::new(
            "",
            binding(
                &format!("{UNPACK}-{NONROOT}"),
                system,
                ("Role", &format!("{UNPACK}-{NONROOT}")),
                &unpack,
            ),
        ),
        CommentedObject::new(
            "Allows the cluster's Prometheus to discover the endpoints to scrape.",
            role(PROMETHEUS, system, &scrape_rules),
        ),
        CommentedObject::new(
            "",
            binding(PROMETHEUS, system, ("Role", PROMETHEUS), &prometheus),
        ),
    ]
}

/// Includes the object in a payload only for clusters with this capability, because the namespace is missing without it.
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

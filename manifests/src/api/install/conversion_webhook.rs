//! Webhook that converts CatalogSources between v1alpha1 and v1.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{
    CommentedObject, Options, Target,
    deployment::{restricted, security},
    labels, labels_and,
    rbac::{RBAC, WATCH, cluster_role, rule},
};
use crate::api::{
    catalog_source::{CONVERSION as NAME, add_v1},
    crds,
};

/// Returns the CRD of CatalogSources with v1 added.
pub(super) fn crd(options: &Options) -> Option<CustomResourceDefinition> {
    let [_, crd] = crds::optional_crds();
    let labels = labels_and(&[]);
    let labels = labels.as_object()?.iter();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    Some(add_v1(crd, &options.namespace, labels))
}

pub(super) fn documents(options: &Options) -> Vec<CommentedObject> {
    let namespace = &options.namespace;
    let metadata = || json!({"name": NAME, "namespace": namespace, "labels": labels()});
    vec![
        CommentedObject::new(
            "Conversion webhook for CatalogSources v1alpha1 and v1. Apply this first, wait until it is available, and only then\n\
             apply the CRD with v1 in the same directory: requests for v1 fail while the webhook is unavailable. Before you remove\n\
             the webhook, apply the CRD without v1 again.",
            json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": metadata(),
                "automountServiceAccountToken": false,
            }),
        ),
        CommentedObject::new(
            "CA of the webhook's serving certificate.",
            json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "Role",
                "metadata": metadata(),
                "rules": [
                    rule("", &["configmaps", "secrets"], &["create"]),
                    named("", "secrets", NAME, &["get", "list", "watch", "update"]),
                    named("", "configmaps", NAME, &["get", "patch"]),
                ],
            }),
        ),
        CommentedObject::new(
            "",
            json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "RoleBinding",
                "metadata": metadata(),
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": NAME},
                "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
            }),
        ),
        CommentedObject::new(
            "Allows the webhook to write its CA bundle into the CatalogSource CRD, and only there.",
            cluster_role(
                NAME,
                &labels(),
                &json!([named(
                    "apiextensions.k8s.io",
                    "customresourcedefinitions",
                    "catalogsources.operators.coreos.com",
                    &[&WATCH[..], &["patch"]].concat(),
                )]),
            ),
        ),
        CommentedObject::new(
            "",
            json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "ClusterRoleBinding",
                "metadata": {"name": NAME, "labels": labels()},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": NAME},
                "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
            }),
        ),
        CommentedObject::new("", deployment(options)),
        CommentedObject::new(
            "",
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata(),
                "spec": {
                    "selector": selector(),
                    "ports": [{"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}],
                },
            }),
        ),
        CommentedObject::new(
            "",
            json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": metadata(),
                "spec": {
                    "podSelector": {"matchLabels": selector()},
                    "policyTypes": ["Ingress"],
                    "ingress": [{"ports": [{"port": "https", "protocol": "TCP"}]}],
                },
            }),
        ),
        CommentedObject::new(
            "Keep one replica available.",
            json!({
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": metadata(),
                "spec": {"minAvailable": 1, "selector": {"matchLabels": selector()}},
            }),
        ),
    ]
}

fn deployment(options: &Options) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": options.namespace, "labels": labels()},
        "spec": {
            "replicas": 2,
            // A webhook pod stops only after its replacement is ready.
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "selector": {"matchLabels": selector()},
            "template": {
                "metadata": {"labels": labels_and(&[("app.kubernetes.io/component", NAME)])},
                "spec": {
                    "serviceAccountName": NAME,
                    "automountServiceAccountToken": true,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    // The garbage collector and terminating namespaces request the newest version.
                    "priorityClassName": "system-cluster-critical",
                    "securityContext": security(Target::OpenShift),
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": selector()},
                    }],
                    "containers": [{
                        "name": "convert",
                        "image": options.image,
                        "command": ["/provisioner", "convert-catalogsources"],
                        "ports": [{"name": "https", "containerPort": 8443, "protocol": "TCP"}],
                        "readinessProbe": {
                            "httpGet": {"path": "/readyz", "port": "https", "scheme": "HTTPS"},
                            "periodSeconds": 5,
                        },
                        "livenessProbe": {"tcpSocket": {"port": "https"}, "initialDelaySeconds": 5, "periodSeconds": 20},
                        // The limit protects other pods from large requests.
                        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "512Mi"}},
                        "securityContext": restricted(),
                    }],
                },
            },
        },
    })
}

fn named(group: &str, resource: &str, name: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": verbs})
}

fn selector() -> Value {
    json!({"app.kubernetes.io/name": "rukpak", "app.kubernetes.io/component": NAME})
}

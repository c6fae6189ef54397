//! What runs.

use serde_json::{Value, json};

use super::{
    Document, Options, labels, labels_and,
    rights::{ACCOUNT, UNPACK},
};
use crate::api::labels as names;

/// The name of the Deployment and its Service, as in rukpak.
const NAME: &str = "core";
/// The Service of all replicas.
const METRICS: &str = "core-metrics";
/// Where content is stored.
const STORAGE: &str = "/var/cache/bundles";
/// Nobody, in images without a user database.
const USER: u32 = 65532;

pub(super) fn documents(options: &Options) -> Vec<Document> {
    let mut documents = vec![
        Document {
            comment: "The provisioner. Its store is a cache: what is lost is fetched again.".into(),
            object: deployment(options),
        },
        Document {
            comment: "Where content is downloaded from, and sent to: the one provisioner that works, which labels its own pod.".into(),
            object: service(
                NAME,
                options,
                &leader(),
                &json!({"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}),
            ),
        },
        Document {
            comment: "The metrics of all of them.".into(),
            object: service(
                METRICS,
                options,
                &selector(),
                &json!({"name": "metrics", "port": 8080, "targetPort": "metrics", "protocol": "TCP"}),
            ),
        },
        Document {
            comment: "Nothing but these ports can be reached, save by the node itself, which probes; the provisioner itself has to reach registries anywhere.".into(),
            object: json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": metadata(options),
                "spec": {
                    "podSelector": {"matchLabels": selector()},
                    "policyTypes": ["Ingress"],
                    "ingress": [{"ports": [
                        {"port": "https", "protocol": "TCP"},
                        {"port": "metrics", "protocol": "TCP"},
                    ]}],
                },
            }),
        },
    ];
    documents.push(Document {
        comment: "Nobody has anything to ask of the pods of unpack Jobs.".into(),
        object: json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": UNPACK, "namespace": options.namespace, "labels": labels()},
            "spec": {
                "podSelector": {"matchLabels": {names::OWNER_KIND: "Bundle"}},
                "policyTypes": ["Ingress"],
            },
        }),
    });
    if options.replicas > 1 {
        documents.push(Document {
            comment: "Nodes are drained one after the other.".into(),
            object: json!({
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": metadata(options),
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector()}},
            }),
        });
    }
    documents
}

fn deployment(options: &Options) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(options),
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": selector()},
            "template": {
                "metadata": {"labels": labels_and(&[("app.kubernetes.io/component", NAME)])},
                "spec": {
                    "serviceAccountName": ACCOUNT,
                    "automountServiceAccountToken": true,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": USER,
                        "runAsGroup": USER,
                        "fsGroup": USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "terminationGracePeriodSeconds": 30,
                    // Where there are several, on several nodes if that can be.
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": selector()},
                    }],
                    "containers": [container(options)],
                    "volumes": [
                        {"name": "store", "emptyDir": {}},
                        {"name": "tmp", "emptyDir": {}},
                    ],
                },
            },
        },
    })
}

fn container(options: &Options) -> Value {
    let namespace = &options.namespace;
    json!({
        "name": "provisioner",
        "image": options.image,
        "command": ["/provisioner"],
        "args": [
            format!("--system-namespace={namespace}"),
            format!("--storage-dir={STORAGE}"),
            format!("--http-external-address=https://{NAME}.{namespace}.svc"),
            format!("--unpack-image={}", options.image),
            "--leader-elect",
        ],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [
            {"name": "https", "containerPort": 8443, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 8080, "protocol": "TCP"},
            {"name": "probes", "containerPort": 8081, "protocol": "TCP"},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "probes"},
            "initialDelaySeconds": 5,
            "periodSeconds": 20,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "probes"},
            "periodSeconds": 5,
        },
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "store", "mountPath": STORAGE},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    })
}

fn metadata(options: &Options) -> Value {
    json!({"name": NAME, "namespace": options.namespace, "labels": labels()})
}

fn service(name: &str, options: &Options, selector: &Value, port: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels()},
        "spec": {"selector": selector, "ports": [port]},
    })
}

fn leader() -> Value {
    json!({
        "app.kubernetes.io/name": "rukpak",
        "app.kubernetes.io/component": NAME,
        names::LEADER: "true",
    })
}

fn selector() -> Value {
    json!({"app.kubernetes.io/name": "rukpak", "app.kubernetes.io/component": NAME})
}

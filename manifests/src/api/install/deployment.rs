//! Deployment of the provisioner, with its Services and NetworkPolicies.

use serde_json::{Value, json};

use super::{
    CommentedObject, Options, Target, labels, labels_and,
    rbac::{ACCOUNT, UNPACK},
    release,
};
use crate::{api::labels as names, object::mapping};

/// Name of the Deployment and its Service, as in rukpak.
const NAME: &str = "core";
/// Name of the Service of all replicas.
pub(super) const METRICS: &str = "core-metrics";
/// Name of the metrics port.
pub(super) const METRICS_PORT: &str = "metrics";
/// Directory of the content store.
const STORAGE: &str = "/var/cache/bundles";
/// SecurityContextConstraints of the pods on OpenShift.
const SCC: &str = "restricted-v2";
/// Ports of served catalogs, below the range of ephemeral ports.
const CATALOG_PORTS: (u16, u16) = (20_000, 23_999);
/// ID of an unprivileged user that needs no user database in the image.
const USER: u32 = 65532;

pub(super) fn documents(options: &Options, target: Target) -> Vec<CommentedObject> {
    let mut documents = vec![
        CommentedObject {
            comment: "The provisioner. Its content store is a cache: lost content is fetched again.".into(),
            object: deployment(options, target),
        },
        CommentedObject {
            comment: "Content service for downloads and uploads. It selects the leader, which labels its pod.".into(),
            object: service(
                NAME,
                options,
                &leader(),
                &json!({"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}),
            ),
        },
        CommentedObject {
            comment: "Metrics of all replicas.".into(),
            object: service(
                METRICS,
                options,
                &selector(),
                &json!({"name": METRICS_PORT, "port": 8080, "targetPort": METRICS_PORT, "protocol": "TCP"}),
            ),
        },
        CommentedObject {
            comment: "Allows ingress to these ports only, except for probes from the node. Egress is unrestricted because \
                      registries can be anywhere.".into(),
            object: json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": metadata(options),
                "spec": {
                    "podSelector": {"matchLabels": selector()},
                    "policyTypes": ["Ingress"],
                    "ingress": [{"ports": [
                        {"port": "https", "protocol": "TCP"},
                        {"port": METRICS_PORT, "protocol": "TCP"},
                        {"port": CATALOG_PORTS.0, "endPort": CATALOG_PORTS.1, "protocol": "TCP"},
                    ]}],
                },
            }),
        },
    ];
    documents.push(CommentedObject {
        comment: "Deny all ingress to the pods of unpack Jobs.".into(),
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
        documents.push(CommentedObject {
            comment: "At most one replica is evicted at a time.".into(),
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

fn deployment(options: &Options, target: Target) -> Value {
    let mut pod = json!({
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": true,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": security(target),
        "terminationGracePeriodSeconds": 30,
        // Spread replicas over nodes where possible.
        "topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector()},
        }],
        "containers": [container(options, target)],
        "volumes": [
            // The content store (--storage-size) and the files of served catalogs.
            {"name": "store", "emptyDir": {"sizeLimit": "6Gi"}},
            // Git repositories while they are fetched.
            {"name": "tmp", "emptyDir": {"sizeLimit": "2Gi"}},
        ],
    });
    let mut metadata_of_pods =
        json!({"labels": labels_and(&[("app.kubernetes.io/component", NAME)])});
    if target.is_openshift() {
        // Use these constraints even if the account may use others in the future.
        release::annotate_metadata(&mut metadata_of_pods, "openshift.io/required-scc", SCC);
    }
    if target == Target::Payload {
        release::annotate_metadata(
            &mut metadata_of_pods,
            "target.workload.openshift.io/management",
            "{\"effect\": \"PreferredDuringScheduling\"}",
        );
        // The cluster installation requires the provisioner, possibly before worker nodes exist.
        mapping(&mut pod).extend(
            [
                ("priorityClassName", json!("system-cluster-critical")),
                (
                    "nodeSelector",
                    json!({"kubernetes.io/os": "linux", "node-role.kubernetes.io/control-plane": ""}),
                ),
                ("tolerations", tolerations()),
            ]
            .map(|(field, value)| (field.to_owned(), value)),
        );
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(options),
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": selector()},
            "template": {"metadata": metadata_of_pods, "spec": pod},
        },
    })
}

/// Returns the pod security context. OpenShift assigns users and groups per namespace, and the constraints [`SCC`] reject
/// all others, so that none is set there.
pub(super) fn security(target: Target) -> Value {
    let mut security = json!({
        "runAsNonRoot": true,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    if !target.is_openshift() {
        for field in ["runAsUser", "runAsGroup", "fsGroup"] {
            mapping(&mut security).insert(field.to_owned(), USER.into());
        }
    }
    security
}

/// Returns the security context of our containers.
pub(super) fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

/// Returns tolerations like those of OpenShift's own components: for control plane nodes, and two minutes for lost nodes.
fn tolerations() -> Value {
    let taint = |key, effect| json!({"key": key, "operator": "Exists", "effect": effect});
    let lost = |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 120});
    json!([
        taint("node-role.kubernetes.io/control-plane", "NoSchedule"),
        taint("node-role.kubernetes.io/master", "NoSchedule"),
        lost("node.kubernetes.io/unreachable"),
        lost("node.kubernetes.io/not-ready"),
    ])
}

fn container(options: &Options, target: Target) -> Value {
    let namespace = &options.namespace;
    let mut args = vec![
        format!("--system-namespace={namespace}"),
        format!("--storage-dir={STORAGE}"),
        format!("--http-external-address=https://{NAME}.{namespace}.svc"),
        format!("--unpack-image={}", options.image),
        format!("--catalog-ports={}-{}", CATALOG_PORTS.0, CATALOG_PORTS.1),
        "--leader-elect".to_owned(),
    ];
    let mut env = vec![
        json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
        json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}),
    ];
    if target == Target::Payload {
        args.push("--release-payload".to_owned());
        // OpenShift's conventions: the leader tolerates a minute without the API server, as on a single node.
        args.push("--lease-duration=137s".to_owned());
        env.push(json!({"name": "RELEASE_VERSION", "value": release::VERSION}));
    }
    json!({
        "name": "provisioner",
        "image": options.image,
        "command": ["/provisioner"],
        "args": args,
        "env": env,
        "ports": [
            {"name": "https", "containerPort": 8443, "protocol": "TCP"},
            {"name": METRICS_PORT, "containerPort": 8080, "protocol": "TCP"},
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
        "resources": resources(target),
        "securityContext": restricted(),
        "volumeMounts": [
            {"name": "store", "mountPath": STORAGE},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    })
}

/// Returns the resources of the container. Conversions share 256 MiB of the memory. The storage covers all volumes and the
/// logs.
fn resources(target: Target) -> Value {
    let mut resources = json!({
        "requests": {"cpu": "50m", "memory": "128Mi", "ephemeral-storage": "1Gi"},
        "limits": {"memory": "512Mi", "ephemeral-storage": "9Gi"},
    });
    if target == Target::Payload {
        // OpenShift's conventions: its components set requests, but no limits.
        mapping(&mut resources).remove("limits");
    }
    resources
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

//! What the provisioner may do, and roles for those who use it.

use serde_json::{Value, json};

use super::{CONTENT_CLIENT, Document, Options, labels, labels_and};
use crate::api::GROUP;

const RBAC: &str = "rbac.authorization.k8s.io";
/// The provisioner's ServiceAccount.
pub(super) const ACCOUNT: &str = "provisioner";
/// The ServiceAccount of unpack Jobs.
pub(super) const UNPACK: &str = "unpack";

pub(super) fn documents(options: &Options) -> Vec<Document> {
    let mut documents = vec![Document {
        comment: "".into(),
        object: json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": options.namespace, "labels": labels()},
            "automountServiceAccountToken": false,
        }),
    }];
    documents.push(Document {
        comment: "What unpack Jobs run as. It has no rights, and needs none.".into(),
        object: json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": UNPACK, "namespace": options.namespace, "labels": labels()},
            "automountServiceAccountToken": false,
        }),
    });
    documents.extend(own(options));
    documents.extend(install_anything(options));
    documents.extend(people(options));
    documents.extend(content_client(options));
    documents
}

/// What `rukpak install` and `rukpak content` need to reach the content service, where the kubeconfig has no token.
fn content_client(options: &Options) -> Vec<Document> {
    let mut documents = vec![
        Document {
            comment: "Whoever has no token of his own, but a client certificate, gets one of this account for a few minutes, to send and\n\
                      download content with.".into(),
            object: json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": CONTENT_CLIENT, "namespace": options.namespace, "labels": labels()},
                "automountServiceAccountToken": false,
            }),
        },
        Document {
            comment: format!(
                "What reaching the content service takes with \"rukpak install\" and \"rukpak content\", bound to nobody:\n\
                 kubectl -n {} create rolebinding content-clients --role {CONTENT_CLIENT} --group GROUP\n\
                 Note that a port-forward reaches every port of the provisioner's pods.",
                options.namespace
            )
            .into(),
            object: json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "Role",
                "metadata": {"name": CONTENT_CLIENT, "namespace": options.namespace, "labels": labels()},
                "rules": [
                    named("", "configmaps", "rukpak-ca", "get"),
                    named("coordination.k8s.io", "leases", "core.rukpak.io", "get"),
                    rule("", &["pods"], &["get", "list"]),
                    rule("", &["pods/portforward"], &["create"]),
                    named("", "serviceaccounts/token", CONTENT_CLIENT, "create"),
                ],
            }),
        },
    ];
    documents.extend(["bundle-reader", "bundle-uploader"].map(|role| Document {
        comment: "".into(),
        object: json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{CONTENT_CLIENT}-{role}"), "labels": labels()},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": CONTENT_CLIENT, "namespace": options.namespace}],
        }),
    }));
    documents
}

/// What the provisioner itself needs, and no more.
fn own(options: &Options) -> [Document; 4] {
    let cluster = json!([
        rule(
            GROUP,
            &["bundles"],
            &["get", "list", "watch", "create", "patch", "delete"]
        ),
        rule(
            GROUP,
            &["bundleinstances"],
            &["get", "list", "watch", "patch"]
        ),
        rule(
            GROUP,
            &["bundles/status", "bundleinstances/status"],
            &["get", "patch"]
        ),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"]
        ),
        rule(
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &["get", "list", "watch"]
        ),
        rule(
            "apiregistration.k8s.io",
            &["apiservices"],
            &["get", "list", "watch"]
        ),
        rule(
            "config.openshift.io",
            &["clusterversions"],
            &["get", "list", "watch"]
        ),
        rule("", &["namespaces"], &["get"]),
    ]);
    let system = json!([
        rule(
            "",
            &["secrets"],
            &["get", "list", "watch", "create", "update", "patch"]
        ),
        rule(
            "",
            &["configmaps"],
            &[
                "get", "list", "watch", "create", "update", "patch", "delete"
            ]
        ),
        rule(
            "batch",
            &["jobs"],
            &["get", "list", "watch", "create", "patch", "delete"]
        ),
        // Those of unpack Jobs are read; those of the provisioner get the label of the one that works.
        rule("", &["pods"], &["get", "list", "watch", "patch"]),
        rule("", &["events"], &["get", "list", "watch"]),
        rule(
            "coordination.k8s.io",
            &["leases"],
            &["get", "list", "watch", "create", "update", "patch"]
        ),
    ]);
    [
        Document {
            comment: "What the provisioner itself needs, in the whole cluster ...".into(),
            object: cluster_role(ACCOUNT, &labels(), &cluster),
        },
        Document {
            comment: "".into(),
            object: cluster_binding(ACCOUNT, ACCOUNT, options),
        },
        Document {
            comment: "... and in its own namespace: Secrets and ConfigMaps nowhere else.".into(),
            object: json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "Role",
                "metadata": {"name": ACCOUNT, "namespace": options.namespace, "labels": labels()},
                "rules": system,
            }),
        },
        Document {
            comment: "".into(),
            object: json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "RoleBinding",
                "metadata": {"name": ACCOUNT, "namespace": options.namespace, "labels": labels()},
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": ACCOUNT},
                "subjects": [subject(options)],
            }),
        },
    ]
}

/// What bundles are installed with when their BundleInstance names no account.
fn install_anything(options: &Options) -> [Document; 2] {
    const NAME: &str = "provisioner-install-anything";
    // Everything that installing takes, but not the right to be somebody else: `*` would give that, too.
    let verbs = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "bind",
        "escalate",
    ];
    [
        Document {
            comment: "What BundleInstances without spec.serviceAccount are installed with. Bundles bring any kind of object, and roles of\n\
                      any kind, so this is the whole cluster.".into(),
            object: cluster_role(NAME, &labels(), &json!([rule("*", &["*"], &verbs)])),
        },
        Document {
            comment: "Remove this binding (kubectl delete clusterrolebinding provisioner-install-anything) when every BundleInstance\n\
                      names a ServiceAccount: the provisioner then has no more rights than it needs for itself.".into(),
            object: cluster_binding(NAME, NAME, options),
        },
    ]
}

/// Roles to be bound by an admin.
fn people(options: &Options) -> [Document; 5] {
    [
        Document {
            comment: format!(
                "Lets the provisioner act as the ServiceAccounts of one namespace, for BundleInstances with spec.serviceAccount,\n\
                 and see whether there is such an account.\n\
                 Bind it a namespace at a time, never in the whole cluster:\n\
                 kubectl create rolebinding provisioner --namespace NAMESPACE \\\n\
                 \x20 --clusterrole bundle-instance-impersonator --serviceaccount {}:{ACCOUNT}",
                options.namespace
            )
            .into(),
            object: cluster_role(
                "bundle-instance-impersonator",
                &labels(),
                &json!([rule("", &["serviceaccounts"], &["get", "impersonate"])]),
            ),
        },
        Document {
            comment: "Who may download the content of Bundles (status.contentURL).".into(),
            object: cluster_role(
                "bundle-reader",
                &labels(),
                &json!([{"nonResourceURLs": ["/bundles/*"], "verbs": ["get"]}]),
            ),
        },
        Document {
            comment: "Who may send the content of Bundles with the source upload: PUT is the verb update.".into(),
            object: cluster_role(
                "bundle-uploader",
                &labels(),
                &json!([{"nonResourceURLs": ["/uploads/*"], "verbs": ["get", "update"]}]),
            ),
        },
        Document {
            comment: "Part of no other role: whoever may create a BundleInstance can have anything installed as long as\n\
                      provisioner-install-anything is bound.".into(),
            object: cluster_role(
                "bundleinstances-admin",
                &labels(),
                &json!([
                    rule(
                        GROUP,
                        &["bundleinstances", "bundles"],
                        &[
                            "get",
                            "list",
                            "watch",
                            "create",
                            "update",
                            "patch",
                            "delete",
                            "deletecollection"
                        ]
                    ),
                    rule(
                        GROUP,
                        &["bundleinstances/status", "bundles/status"],
                        &["get"]
                    ),
                ]),
            ),
        },
        Document {
            comment: "".into(),
            object: cluster_role(
                "bundleinstances-view",
                &labels_and(&[(&format!("{RBAC}/aggregate-to-view"), "true")]),
                &json!([rule(
                    GROUP,
                    &[
                        "bundleinstances",
                        "bundles",
                        "bundleinstances/status",
                        "bundles/status",
                        "platformstatuses"
                    ],
                    &["get", "list", "watch"]
                )]),
            ),
        },
    ]
}

pub(super) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn named(group: &str, resource: &str, name: &str, verb: &str) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": [verb]})
}

pub(super) fn cluster_role(name: &str, labels: &Value, rules: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": rules,
    })
}

pub(super) fn cluster_binding(name: &str, role: &str, options: &Options) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": labels()},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject(options)],
    })
}

pub(super) fn subject(options: &Options) -> Value {
    json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": options.namespace})
}

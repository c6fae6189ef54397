//! Permissions of the provisioner, and roles for its users.

mod user_roles;

use serde_json::{Value, json};

use self::user_roles::user_roles;
use super::{CONTENT_CLIENT, CommentedObject, Options, admission, labels};
use crate::api::GROUP;

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
const PLATFORM_GROUP: &str = "platform.openshift.io";
const OLM_GROUP: &str = "operators.coreos.com";
/// Verbs to watch objects.
pub(super) const WATCH: [&str; 3] = ["get", "list", "watch"];
/// ClusterRole to read the pull secrets of catalogs.
pub(super) const CATALOG_SECRETS: &str = "catalog-pull-secrets";
/// ClusterRole to serve catalogs.
pub(super) const CATALOG_SERVER: &str = "catalog-server";
/// ClusterRole to run pods of catalogs.
pub(super) const CATALOG_PODS: &str = "catalog-pods";
/// ServiceAccount of the provisioner.
pub(super) const ACCOUNT: &str = "provisioner";
/// ServiceAccount of unpack Jobs.
pub(super) const UNPACK: &str = "unpack";

pub(super) fn documents(options: &Options) -> Vec<CommentedObject> {
    let mut documents = vec![CommentedObject {
        comment: "".into(),
        object: json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": options.namespace, "labels": labels()},
            "automountServiceAccountToken": false,
        }),
    }];
    documents.push(CommentedObject {
        comment: "ServiceAccount of unpack Jobs. It has no permissions.".into(),
        object: json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": UNPACK, "namespace": options.namespace, "labels": labels()},
            "automountServiceAccountToken": false,
        }),
    });
    documents.extend(provisioner_role(options));
    documents.extend(install_anything(options));
    documents.extend(user_roles(options));
    documents.extend(content_client(options));
    documents
}

/// Returns the access to the content service for `rukpak install` and `rukpak content`, where the kubeconfig has no token.
fn content_client(options: &Options) -> Vec<CommentedObject> {
    let mut documents = vec![
        CommentedObject {
            comment: "Clients that authenticate with a client certificate get a short-lived token of this ServiceAccount to upload and\n\
                      download content.".into(),
            object: json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": CONTENT_CLIENT, "namespace": options.namespace, "labels": labels()},
                "automountServiceAccountToken": false,
            }),
        },
        CommentedObject {
            comment: format!(
                "Permissions to reach the content service with \"rukpak install\" and \"rukpak content\". Not bound; to bind it, run:\n\
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
    documents.extend(["bundle-reader", "bundle-uploader"].map(|role| CommentedObject {
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

/// Returns the permissions that the provisioner requires in the whole cluster.
fn provisioner_rules() -> Value {
    json!([
        rule(
            GROUP,
            &["bundles"],
            &["get", "list", "watch", "create", "delete"]
        ),
        // The provisioner creates BundleInstances for PlatformOperators.
        rule(
            GROUP,
            &["bundleinstances"],
            &["get", "list", "watch", "create", "patch"]
        ),
        rule(
            GROUP,
            &["bundles/status", "bundleinstances/status"],
            &["patch"]
        ),
        rule(
            GROUP,
            &["platformstatuses"],
            &["get", "list", "watch", "create", "delete"]
        ),
        rule(GROUP, &["platformstatuses/status"], &["update"]),
        rule(
            PLATFORM_GROUP,
            &["platformoperators"],
            &["get", "list", "watch", "patch"]
        ),
        rule(PLATFORM_GROUP, &["platformoperators/status"], &["patch"]),
        // The owner references of BundleInstances block the deletion of PlatformOperators, for which some clusters require
        // this permission.
        rule(
            PLATFORM_GROUP,
            &["platformoperators/finalizers"],
            &["update"]
        ),
        rule(
            OLM_GROUP,
            &[
                "catalogsources",
                "clusterserviceversions",
                "operatorconditions",
                "subscriptions"
            ],
            &WATCH
        ),
        // Without OLM, the provisioner writes the status. Resolved image templates are written to the image field in all
        // clusters.
        rule(
            OLM_GROUP,
            &["catalogsources", "catalogsources/status"],
            &["patch"]
        ),
        // Shows whether OLM runs. No other Deployments are readable.
        json!({
            "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["catalog-operator"], "verbs": WATCH,
        }),
        // The architecture of nodes, for templates of catalog images.
        rule("", &["nodes"], &["list", "watch"]),
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
            &WATCH
        ),
        rule("apiregistration.k8s.io", &["apiservices"], &WATCH),
        rule("config.openshift.io", &["clusterversions"], &WATCH),
        rule("", &["namespaces"], &["get"]),
        // The provisioner reports its own policies that are missing.
        json!({
            "apiGroups": [admission::GROUP],
            "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
            "resourceNames": admission::names(),
            "verbs": ["get"],
        }),
    ])
}

/// Returns the permissions for the Services and EndpointSlices of served catalogs.
fn serving_rules() -> [Value; 4] {
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    [
        rule("", &["services"], &verbs),
        // The Endpoints remain after the selector of a Service is removed.
        rule("", &["endpoints"], &["delete"]),
        rule("discovery.k8s.io", &["endpointslices"], &verbs),
        // OpenShift requires this permission for endpoints with addresses of pods.
        rule(
            "discovery.k8s.io",
            &["endpointslices/restricted"],
            &["create"],
        ),
    ]
}

/// Returns the permissions for catalogs with a registry pod.
fn pod_rules() -> [Value; 3] {
    let verbs = [
        "get", "list", "watch", "create", "update", "patch", "delete",
    ];
    [
        rule("", &["serviceaccounts", "services", "pods"], &verbs),
        rule("networking.k8s.io", &["networkpolicies"], &verbs),
        // A registry pod is owned by a CatalogSource, for which OpenShift requires this permission.
        rule(OLM_GROUP, &["catalogsources/finalizers"], &["update"]),
    ]
}

/// Returns the minimal permissions of the provisioner itself.
fn provisioner_role(options: &Options) -> [CommentedObject; 4] {
    let mut system = vec![
        rule(
            "",
            &["secrets"],
            &["get", "list", "watch", "create", "update", "delete"],
        ),
        rule(
            "",
            &["configmaps"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(
            "batch",
            &["jobs"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        // The provisioner reads the pods of unpack Jobs, and labels the pod of its leader.
        rule("", &["pods"], &["get", "list", "watch", "patch"]),
        rule("", &["events"], &WATCH),
        rule(
            "coordination.k8s.io",
            &["leases"],
            &["get", "create", "update"],
        ),
    ];
    system.extend(serving_rules());
    system.extend(pod_rules());
    [
        CommentedObject {
            comment: "Permissions of the provisioner in the whole cluster ...".into(),
            object: cluster_role(ACCOUNT, &labels(), &provisioner_rules()),
        },
        CommentedObject {
            comment: "".into(),
            object: cluster_binding(ACCOUNT, ACCOUNT, options),
        },
        CommentedObject {
            comment: "... and in its namespace: Secrets and ConfigMaps only there.".into(),
            object: json!({
                "apiVersion": format!("{RBAC}/v1"),
                "kind": "Role",
                "metadata": {"name": ACCOUNT, "namespace": options.namespace, "labels": labels()},
                "rules": system,
            }),
        },
        CommentedObject {
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

/// Returns the permissions for bundles whose BundleInstance names no ServiceAccount.
fn install_anything(options: &Options) -> [CommentedObject; 2] {
    const NAME: &str = "provisioner-install-anything";
    // All verbs for installing objects, but without impersonation, which `*` would include.
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
        CommentedObject {
            comment: "Permissions to install BundleInstances without spec.serviceAccount. Bundles can contain objects of any kind, including\n\
                      roles with any permissions, so this allows everything.".into(),
            object: cluster_role(NAME, &labels(), &json!([rule("*", &["*"], &verbs)])),
        },
        CommentedObject {
            comment: "Remove this binding (kubectl delete clusterrolebinding provisioner-install-anything) when every BundleInstance\n\
                      sets spec.serviceAccount: the provisioner then has only the permissions that it needs itself.".into(),
            object: cluster_binding(NAME, NAME, options),
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

/// Returns a binding of the ClusterRole [`CATALOG_SECRETS`] in a namespace.
pub(super) fn catalog_secrets(options: &Options, namespace: &str) -> Value {
    catalogs_binding(options, namespace, "catalogs", CATALOG_SECRETS)
}

/// Returns a binding of the ClusterRole [`CATALOG_SERVER`] in a namespace.
pub(super) fn catalog_server(options: &Options, namespace: &str) -> Value {
    catalogs_binding(options, namespace, CATALOG_SERVER, CATALOG_SERVER)
}

/// Returns a binding of the ClusterRole [`CATALOG_PODS`] in a namespace.
pub(super) fn catalog_pods(options: &Options, namespace: &str) -> Value {
    catalogs_binding(options, namespace, CATALOG_PODS, CATALOG_PODS)
}

fn catalogs_binding(options: &Options, namespace: &str, name: &str, role: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "RoleBinding",
        "metadata": {"name": format!("{ACCOUNT}-{name}"), "namespace": namespace, "labels": labels()},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject(options)],
    })
}

pub(super) fn subject(options: &Options) -> Value {
    json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": options.namespace})
}

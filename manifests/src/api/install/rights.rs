//! What the provisioner may do, and roles for those who use it.

use serde_json::{Value, json};

use super::{CONTENT_CLIENT, Document, Options, admission, labels, labels_and};
use crate::api::GROUP;

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
const PLATFORM_GROUP: &str = "platform.openshift.io";
const OLM_GROUP: &str = "operators.coreos.com";
/// What it takes to know what there is.
pub(super) const WATCH: [&str; 3] = ["get", "list", "watch"];
/// The ClusterRole to read the secrets of catalogs with.
pub(super) const CATALOG_SECRETS: &str = "catalog-pull-secrets";
/// The ClusterRole to serve catalogs with.
pub(super) const CATALOG_SERVER: &str = "catalog-server";
/// The ClusterRole to make pods for catalogs with.
pub(super) const CATALOG_PODS: &str = "catalog-pods";
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

/// What the provisioner itself needs in the whole cluster.
fn own_rules() -> Value {
    json!([
        rule(
            GROUP,
            &["bundles"],
            &["get", "list", "watch", "create", "delete"]
        ),
        // They are created for PlatformOperators.
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
        // Their BundleInstances hold up their removal, which some clusters ask this right for.
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
        // Where OLM does not run, their status is ours; what a template becomes is written into the image everywhere.
        rule(
            OLM_GROUP,
            &["catalogsources", "catalogsources/status"],
            &["patch"]
        ),
        // Whether OLM runs, and nothing else of what runs.
        json!({
            "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["catalog-operator"], "verbs": WATCH,
        }),
        // Their architecture, for templates of catalogs' images.
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

/// What leads to a catalog that the provisioner serves.
fn serving_rules() -> [Value; 4] {
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    [
        rule("", &["services"], &verbs),
        // Which are left when the Service selects no pods any more.
        rule("", &["endpoints"], &["delete"]),
        rule("discovery.k8s.io", &["endpointslices"], &verbs),
        // Which OpenShift asks for where an address is that of a pod.
        rule(
            "discovery.k8s.io",
            &["endpointslices/restricted"],
            &["create"],
        ),
    ]
}

/// What a catalog with a pod of its own takes.
fn pod_rules() -> [Value; 3] {
    let verbs = [
        "get", "list", "watch", "create", "update", "patch", "delete",
    ];
    [
        rule("", &["serviceaccounts", "services", "pods"], &verbs),
        rule("networking.k8s.io", &["networkpolicies"], &verbs),
        // A pod is owned by a CatalogSource, which OpenShift asks this right for.
        rule(OLM_GROUP, &["catalogsources/finalizers"], &["update"]),
    ]
}

/// What the provisioner itself needs, and no more.
fn own(options: &Options) -> [Document; 4] {
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
        // Those of unpack Jobs are read; those of the provisioner get the label of the one that works.
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
        Document {
            comment: "What the provisioner itself needs, in the whole cluster ...".into(),
            object: cluster_role(ACCOUNT, &labels(), &own_rules()),
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

/// All that may be done with objects.
const EVERYTHING: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// Roles to be bound by an admin.
fn people(options: &Options) -> [Document; 9] {
    [
        Document {
            comment: format!(
                "Lets the provisioner read the Secrets that CatalogSources of one namespace name in spec.secrets, and the ConfigMaps\n\
                 with catalogs. Where catalogs are, bind it a namespace at a time; in its own namespace it needs no binding:\n\
                 kubectl create rolebinding provisioner-catalogs --namespace NAMESPACE \\\n\
                 \x20 --clusterrole {CATALOG_SECRETS} --serviceaccount {}:{ACCOUNT}",
                options.namespace
            )
            .into(),
            object: cluster_role(
                CATALOG_SECRETS,
                &labels(),
                &json!([
                    rule("", &["secrets"], &["get"]),
                    rule("", &["configmaps"], &WATCH),
                ]),
            ),
        },
        Document {
            comment: format!(
                "Lets the provisioner serve the catalogs of one namespace, in clusters without OLM: it writes a Service and an\n\
                 EndpointSlice for each. In its own namespace it needs no binding:\n\
                 kubectl create rolebinding provisioner-catalog-server --namespace NAMESPACE \\\n\
                 \x20 --clusterrole {CATALOG_SERVER} --serviceaccount {}:{ACCOUNT}",
                options.namespace
            )
            .into(),
            object: cluster_role(CATALOG_SERVER, &labels(), &json!(serving_rules())),
        },
        Document {
            comment: format!(
                "Lets the provisioner make pods for the catalogs of one namespace, in clusters without OLM: for those that say how\n\
                 their pod has to be, and for all with --catalog-pods. In its own namespace it needs no binding:\n\
                 kubectl create rolebinding provisioner-catalog-pods --namespace NAMESPACE \\\n\
                 \x20 --clusterrole {CATALOG_PODS} --serviceaccount {}:{ACCOUNT}",
                options.namespace
            )
            .into(),
            object: cluster_role(CATALOG_PODS, &labels(), &json!(pod_rules())),
        },
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
            comment: "Grants uploads for all Bundles with the source upload: PUT is the verb update, GET the verb get. For some Bundles,\n\
                      bind a role with resourceNames instead. The second rule grants the same and is deprecated.".into(),
            object: cluster_role(
                "bundle-uploader",
                &labels(),
                &json!([
                    rule(GROUP, &["bundles/content"], &["get", "update"]),
                    {"nonResourceURLs": ["/uploads/*"], "verbs": ["get", "update"]},
                ]),
            ),
        },
        Document {
            comment: "Part of no other role: whoever may create a BundleInstance can have anything installed as long as\n\
                      provisioner-install-anything is bound.".into(),
            object: cluster_role(
                "bundleinstances-admin",
                &labels(),
                &json!([
                    rule(GROUP, &["bundleinstances", "bundles"], &EVERYTHING),
                    rule(
                        GROUP,
                        &["bundleinstances/status", "bundles/status"],
                        &["get"]
                    ),
                ]),
            ),
        },
        Document {
            comment: "Part of no other role either: whoever may create a PlatformOperator can have whatever a catalog offers installed\n\
                      as long as provisioner-install-anything is bound.".into(),
            object: cluster_role(
                "platformoperators-admin",
                &labels(),
                &json!([
                    rule(PLATFORM_GROUP, &["platformoperators"], &EVERYTHING),
                    rule(PLATFORM_GROUP, &["platformoperators/status"], &["get"]),
                ]),
            ),
        },
        Document {
            comment: "".into(),
            object: cluster_role(
                "bundleinstances-view",
                &labels_and(&[(&format!("{RBAC}/aggregate-to-view"), "true")]),
                &json!([
                    rule(
                        GROUP,
                        &[
                            "bundleinstances",
                            "bundles",
                            "bundleinstances/status",
                            "bundles/status",
                            "platformstatuses"
                        ],
                        &WATCH
                    ),
                    rule(PLATFORM_GROUP, &["platformoperators"], &WATCH),
                ]),
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

/// Binds the ClusterRole [`CATALOG_SECRETS`] in a namespace.
pub(super) fn catalog_secrets(options: &Options, namespace: &str) -> Value {
    catalogs_binding(options, namespace, "catalogs", CATALOG_SECRETS)
}

/// Binds the ClusterRole [`CATALOG_SERVER`] in a namespace.
pub(super) fn catalog_server(options: &Options, namespace: &str) -> Value {
    catalogs_binding(options, namespace, CATALOG_SERVER, CATALOG_SERVER)
}

/// Binds the ClusterRole [`CATALOG_PODS`] in a namespace.
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

//! Roles that admins bind, for users and for the provisioner in namespaces with catalogs or ServiceAccounts. Pure; no I/O.

use serde_json::json;

use super::{
    ACCOUNT, CATALOG_PODS, CATALOG_SECRETS, CATALOG_SERVER, PLATFORM_GROUP, RBAC, WATCH,
    cluster_role, pod_rules, rule, serving_rules,
};
use crate::api::{
    GROUP,
    install::{CommentedObject, Options, labels, labels_and},
};

/// All verbs on objects.
const ALL_VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// Returns the roles that admins bind.
pub(super) fn user_roles(options: &Options) -> [CommentedObject; 9] {
    [
        CommentedObject {
            comment: format!(
                "Allows the provisioner to read the Secrets in spec.secrets of the CatalogSources of one namespace, and the ConfigMaps\n\
                 with catalogs. Bind it in each namespace with catalogs; the provisioner's namespace needs no binding:\n\
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
        CommentedObject {
            comment: format!(
                "Allows the provisioner to serve the catalogs of one namespace, in clusters without OLM: it writes a Service and an\n\
                 EndpointSlice for each. The provisioner's namespace needs no binding:\n\
                 kubectl create rolebinding provisioner-catalog-server --namespace NAMESPACE \\\n\
                 \x20 --clusterrole {CATALOG_SERVER} --serviceaccount {}:{ACCOUNT}",
                options.namespace
            )
            .into(),
            object: cluster_role(CATALOG_SERVER, &labels(), &json!(serving_rules())),
        },
        CommentedObject {
            comment: format!(
                "Allows the provisioner to create registry pods for the catalogs of one namespace, in clusters without OLM: for catalogs\n\
                 with pod options, and for all catalogs with --catalog-pods. The provisioner's namespace needs no binding:\n\
                 kubectl create rolebinding provisioner-catalog-pods --namespace NAMESPACE \\\n\
                 \x20 --clusterrole {CATALOG_PODS} --serviceaccount {}:{ACCOUNT}",
                options.namespace
            )
            .into(),
            object: cluster_role(CATALOG_PODS, &labels(), &json!(pod_rules())),
        },
        CommentedObject {
            comment: format!(
                "Allows the provisioner to impersonate the ServiceAccounts of one namespace, for BundleInstances with\n\
                 spec.serviceAccount, and to check that they exist.\n\
                 Bind it in single namespaces, never in the whole cluster:\n\
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
        CommentedObject {
            comment: "Allows downloads of the content of Bundles (status.contentURL).".into(),
            object: cluster_role(
                "bundle-reader",
                &labels(),
                &json!([{"nonResourceURLs": ["/bundles/*"], "verbs": ["get"]}]),
            ),
        },
        CommentedObject {
            comment: "Allows uploads for all Bundles with the source upload: PUT is the verb update, GET the verb get. To allow only some\n\
                      Bundles, bind a role with resourceNames instead. The second rule grants the same and is deprecated.".into(),
            object: cluster_role(
                "bundle-uploader",
                &labels(),
                &json!([
                    rule(GROUP, &["bundles/content"], &["get", "update"]),
                    {"nonResourceURLs": ["/uploads/*"], "verbs": ["get", "update"]},
                ]),
            ),
        },
        CommentedObject {
            comment: "Not aggregated into another role: a user who can create a BundleInstance can install anything while\n\
                      provisioner-install-anything is bound.".into(),
            object: cluster_role(
                "bundleinstances-admin",
                &labels(),
                &json!([
                    rule(GROUP, &["bundleinstances", "bundles"], &ALL_VERBS),
                    rule(
                        GROUP,
                        &["bundleinstances/status", "bundles/status"],
                        &["get"]
                    ),
                ]),
            ),
        },
        CommentedObject {
            comment: "Not aggregated into another role: a user who can create a PlatformOperator can install any bundle of a catalog while\n\
                      provisioner-install-anything is bound.".into(),
            object: cluster_role(
                "platformoperators-admin",
                &labels(),
                &json!([
                    rule(PLATFORM_GROUP, &["platformoperators"], &ALL_VERBS),
                    rule(PLATFORM_GROUP, &["platformoperators/status"], &["get"]),
                ]),
            ),
        },
        CommentedObject {
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

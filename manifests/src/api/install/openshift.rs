//! What the provisioner needs on OpenShift and nowhere else.

use serde_json::json;

use super::{
    Document, Options, labels,
    rights::{cluster_binding, cluster_role, rule, subject},
};
use crate::api::pulling::{CONFIG_NAMESPACE, PULL_SECRET};

const NAME: &str = "provisioner-openshift";
const WATCH: [&str; 3] = ["get", "list", "watch"];

pub(super) fn documents(options: &Options) -> Vec<Document> {
    let config = [
        "imagedigestmirrorsets",
        "imagetagmirrorsets",
        "images",
        "proxies",
    ];
    let policies = ["imagecontentsourcepolicies"];
    let rules = json!([
        rule("config.openshift.io", &config, &WATCH),
        rule("operator.openshift.io", &policies, &WATCH),
        rule(
            "apiserver.openshift.io",
            &["apirequestcounts"],
            &["get", "list"]
        ),
    ]);
    let metadata = json!({"name": NAME, "namespace": CONFIG_NAMESPACE, "labels": labels()});
    vec![
        Document {
            comment: "To be applied on OpenShift, beside rukpak.yaml: with it, what the provisioner pulls itself follows the cluster's\n\
                      mirrors, registries, authorities, proxy and pull secret, and it learns who calls APIs that go."
                .into(),
            object: cluster_role(NAME, &labels(), &rules),
        },
        Document {
            comment: "".into(),
            object: cluster_binding(NAME, NAME, options),
        },
        Document {
            comment: "The ConfigMaps with authorities have names of the admin's choice.".into(),
            object: json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": metadata,
                "rules": [
                    rule("", &["configmaps"], &WATCH),
                    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [PULL_SECRET], "verbs": WATCH},
                ],
            }),
        },
        Document {
            comment: "".into(),
            object: json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
                "subjects": [subject(options)],
            }),
        },
    ]
}

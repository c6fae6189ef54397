//! Bindings of bundles to roles.

use convert::{Code, Options};
use serde_json::json;

use super::fixture::Bundle;

/// Another bundle or an admin may have created the Role.
#[test]
fn missing_roles_may_exist_in_the_cluster() {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "tide"}, "roleRef": {"kind": "Role", "name": "reader"},
    });
    let bundle = Bundle::good().file("manifests/a.yaml", binding.to_string());
    let report = convert::validate(&bundle.content(), &Options::default());
    let mut findings = report.findings.iter();
    let missing = findings.find(|finding| finding.code == Code::MissingRole);
    let message = missing.unwrap().to_string();
    assert!(
        message.ends_with(
            "RoleBinding \"tide\" refers to Role \"reader\", which the bundle does not ship; the binding grants nothing unless \
             the Role exists in the cluster; ship the Role, or refer to a ClusterRole"
        ),
        "{message}"
    );
}

//! Admission policies of the install files: a user gets no permissions of a ServiceAccount by naming it, and Bundles of a
//! BundleInstance are the provisioner's.
//!
//! Every policy exempts the users that maintain the objects it matches. A policy that denied the garbage collector or the
//! provisioner would stop deletions and upgrades.

mod accounts;
mod bundles;

use serde_json::{Value, json};

use super::{CommentedObject, Options, labels, rbac};

/// The API group of the policies and their bindings.
pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// The users of the garbage collector of kube-controller-manager: a shared user of all controllers, or the ServiceAccount
/// of the collector.
const GARBAGE_COLLECTORS: [&str; 2] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
];

/// The finalizers and ownerReferences of an object; empty where `object` is null.
const METADATA_LISTS: [&str; 2] = ["finalizers", "ownerReferences"];

pub(super) fn documents(options: &Options) -> impl Iterator<Item = CommentedObject> {
    policies(options).flat_map(Policy::documents)
}

/// Returns the names of the policies. Each policy has a binding of the same name.
pub(super) fn names() -> Vec<&'static str> {
    let options = Options::default();
    policies(&options).map(|policy| policy.name).collect()
}

fn policies(options: &Options) -> impl Iterator<Item = Policy> {
    accounts::policies(options).chain(bundles::policies(options))
}

/// A ValidatingAdmissionPolicy that denies requests.
struct Policy {
    name: &'static str,
    comment: &'static str,
    group: &'static str,
    resource: &'static str,
    operations: &'static [&'static str],
    /// Names and expressions; only requests for which all of them are true are validated.
    conditions: Vec<(&'static str, String)>,
    /// Names and expressions of the variables.
    variables: Vec<(&'static str, String)>,
    validations: Vec<Value>,
}

impl Policy {
    /// Returns the policy and its binding.
    fn documents(self) -> [CommentedObject; 2] {
        let named = |list: Vec<(&str, String)>| -> Value {
            let entry = |(name, expression)| json!({"name": name, "expression": expression});
            list.into_iter().map(entry).collect()
        };
        let mut spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [self.group],
                "apiVersions": ["*"],
                "operations": self.operations,
                "resources": [self.resource],
            }]},
            "matchConditions": named(self.conditions),
            "validations": self.validations,
        });
        if !self.variables.is_empty()
            && let Some(spec) = spec.as_object_mut()
        {
            spec.insert("variables".to_owned(), named(self.variables));
        }
        [
            CommentedObject::new(
                self.comment.to_owned(),
                json!({
                    "apiVersion": format!("{GROUP}/v1"),
                    "kind": "ValidatingAdmissionPolicy",
                    "metadata": {"name": self.name, "labels": labels()},
                    "spec": spec,
                }),
            ),
            CommentedObject::new(
                "",
                json!({
                    "apiVersion": format!("{GROUP}/v1"),
                    "kind": "ValidatingAdmissionPolicyBinding",
                    "metadata": {"name": self.name, "labels": labels()},
                    "spec": {"policyName": self.name, "validationActions": ["Deny"]},
                }),
            ),
        ]
    }
}

/// Returns the name of the provisioner's user as a CEL string.
fn provisioner(options: &Options) -> String {
    let (namespace, account) = (&options.namespace, rbac::ACCOUNT);
    format!("'system:serviceaccount:{namespace}:{account}'")
}

/// Returns the users that maintain objects, as a CEL list.
fn upkeep(options: &Options) -> String {
    let collectors = GARBAGE_COLLECTORS.map(|user| format!("'{user}'"));
    format!("[{}, {}]", provisioner(options), collectors.join(", "))
}

/// Returns a CEL expression for a list of an object's metadata.
fn metadata_list(object: &str, list: &str) -> String {
    format!("{object}.metadata.?{list}.orValue([])")
}

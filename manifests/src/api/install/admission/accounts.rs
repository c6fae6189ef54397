//! Policies for the ServiceAccount of a BundleInstance, or of a PlatformOperator that creates one.

use serde_json::{Value, json};

use super::{METADATA_LISTS, Policy, metadata_list, upkeep};
use crate::api::{GROUP, install::Options, labels};

/// Resources with a ServiceAccount field.
const ACCOUNT_FIELDS: [AccountField; 2] = [
    AccountField {
        policy: "bundleinstance-service-account",
        kind: "BundleInstance",
        comment: "A user that creates or deletes a BundleInstance with a ServiceAccount, or changes its spec, finalizers,\n\
                  ownerReferences or the record of orphaned objects, needs permission to impersonate that account.",
        group: GROUP,
        resource: "bundleinstances",
        path: &["serviceAccount"],
    },
    AccountField {
        policy: "platformoperator-service-account",
        kind: "PlatformOperator",
        comment: "A user that creates or deletes a PlatformOperator with a ServiceAccount, or changes its spec, finalizers,\n\
                  ownerReferences or the record of orphaned objects, needs permission to impersonate that account.",
        group: "platform.openshift.io",
        resource: "platformoperators",
        path: &["bundle", "serviceAccount"],
    },
];

/// A resource with a ServiceAccount field.
struct AccountField {
    policy: &'static str,
    kind: &'static str,
    comment: &'static str,
    group: &'static str,
    resource: &'static str,
    /// Path of the account below the spec.
    path: &'static [&'static str],
}

pub(super) fn policies(options: &Options) -> impl Iterator<Item = Policy> {
    ACCOUNT_FIELDS.iter().map(|field| field.policy(options))
}

impl AccountField {
    fn policy(&self, options: &Options) -> Policy {
        let [is_named, was_named] = ["object", "oldObject"]
            .map(|object| format!("({object} != null && {})", self.has(object)));
        let is_changed = METADATA_LISTS.map(|list| {
            let [now, before] = ["object", "oldObject"].map(|object| metadata_list(object, list));
            format!("{now} != {before}")
        });
        let [now, before] = ["object", "oldObject"].map(|object| {
            format!(
                "{object}.metadata.?annotations[?'{}'].orValue('')",
                labels::ORPHANED
            )
        });
        let is_orphaned = format!("{now} != {before}");
        // The garbage collector and the provisioner delete objects, and change finalizers and ownerReferences. A spec that
        // the provisioner writes comes from a bundle or a PlatformOperator, so it is checked.
        let changes = format!(
            "oldObject == null || (object != null && object.spec != oldObject.spec) || (!(request.userInfo.username in {}) \
             && (object == null || {} || {is_orphaned}))",
            upkeep(options),
            is_changed.join(" || ")
        );
        Policy {
            name: self.policy,
            comment: self.comment,
            group: self.group,
            resource: self.resource,
            operations: &["CREATE", "UPDATE", "DELETE"],
            conditions: vec![
                ("account-named", format!("{is_named} || {was_named}")),
                ("changed", changes),
            ],
            variables: Vec::new(),
            validations: vec![
                self.may_impersonate("object", &is_named),
                // Other users can neither remove the account nor delete the installation.
                self.may_impersonate("oldObject", &was_named),
            ],
        }
    }

    /// Returns a CEL expression that is true if an object names an account. Each prefix of the path must exist.
    fn has(&self, object: &str) -> String {
        let parts = (1..=self.path.len()).filter_map(|length| self.path.get(..length));
        parts
            .map(|path| format!("has({object}.spec.{})", path.join(".")))
            .collect::<Vec<_>>()
            .join(" && ")
    }

    /// Returns the rule that requires permission to impersonate the account, if the object names one.
    fn may_impersonate(&self, object: &str, is_named: &str) -> Value {
        let field = format!("spec.{}", self.path.join("."));
        let account = format!("{object}.{field}");
        let kind = self.kind;
        // For the deletion of a collection, the API server provides no object name.
        let name = format!("{object}.metadata.?name.orValue('')");
        json!({
            "expression": format!(
                "!{is_named} || authorizer.group('').resource('serviceaccounts').namespace({account}.namespace).name({account}.name).check('impersonate').allowed()"
            ),
            "messageExpression": format!(
                "'{kind} ' + {name} + ': {field}: ' + request.userInfo.username + ' is not allowed to impersonate the ServiceAccount ' + {account}.namespace + '/' + {account}.name + ': ask for the verb impersonate on it (ClusterRole bundle-instance-impersonator, bound in the namespace ' + {account}.namespace + ')'"
            ),
            "reason": "Forbidden",
        })
    }
}

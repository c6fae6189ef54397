//! Nobody gets the rights of an account by naming it in a BundleInstance, or in a PlatformOperator that becomes one.

use serde_json::{Value, json};

use super::{Document, labels};
use crate::api::GROUP;

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Resources in which an account can be named.
const NAMING: [Naming; 2] = [
    Naming {
        policy: "bundleinstance-service-account",
        kind: "BundleInstance",
        group: GROUP,
        resource: "bundleinstances",
        path: &["serviceAccount"],
    },
    Naming {
        policy: "platformoperator-service-account",
        kind: "PlatformOperator",
        group: "platform.openshift.io",
        resource: "platformoperators",
        path: &["bundle", "serviceAccount"],
    },
];

/// A resource in which an account can be named.
struct Naming {
    policy: &'static str,
    kind: &'static str,
    group: &'static str,
    resource: &'static str,
    /// Where, below the spec.
    path: &'static [&'static str],
}

pub(super) fn documents() -> impl Iterator<Item = Document> {
    NAMING.iter().flat_map(Naming::documents)
}

impl Naming {
    fn documents(&self) -> [Document; 2] {
        let (now, before) = (self.account("object"), self.account("oldObject"));
        let (is_named, was_named) = (self.has("object"), self.has("oldObject"));
        [
            Document {
                comment: format!(
                    "Whoever names a ServiceAccount in a {}, or changes one that names it, needs the right to impersonate it.",
                    self.kind
                )
                .into(),
                object: json!({
                    "apiVersion": ADMISSION,
                    "kind": "ValidatingAdmissionPolicy",
                    "metadata": {"name": self.policy, "labels": labels()},
                    "spec": {
                        "failurePolicy": "Fail",
                        "matchConstraints": {"resourceRules": [{
                            "apiGroups": [self.group],
                            "apiVersions": ["*"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": [self.resource],
                        }]},
                        "matchConditions": [
                            {"name": "account-named", "expression": format!("{is_named} || oldObject != null && {was_named}")},
                            // What is installed with somebody's rights is theirs to say, too.
                            {"name": "spec-changed", "expression": "oldObject == null || object.spec != oldObject.spec"},
                        ],
                        "validations": [
                            self.may_impersonate(&now, &format!("!({is_named})")),
                            // Neither may anybody else take it away.
                            self.may_impersonate(&before, &format!("oldObject == null || !({was_named})")),
                        ],
                    },
                }),
            },
            Document {
                comment: "".into(),
                object: json!({
                    "apiVersion": ADMISSION,
                    "kind": "ValidatingAdmissionPolicyBinding",
                    "metadata": {"name": self.policy, "labels": labels()},
                    "spec": {"policyName": self.policy, "validationActions": ["Deny"]},
                }),
            },
        ]
    }

    /// The account that an object names.
    fn account(&self, object: &str) -> String {
        format!("{object}.spec.{}", self.path.join("."))
    }

    /// Whether it names one: each part of the path has to be there.
    fn has(&self, object: &str) -> String {
        let parts = (1..=self.path.len()).filter_map(|length| self.path.get(..length));
        parts
            .map(|path| format!("has({object}.spec.{})", path.join(".")))
            .collect::<Vec<_>>()
            .join(" && ")
    }

    /// That whoever asks may act as the account, or need not.
    fn may_impersonate(&self, account: &str, unless: &str) -> Value {
        let field = format!("spec.{}", self.path.join("."));
        json!({
            "expression": format!(
                "{unless} || authorizer.group('').resource('serviceaccounts').namespace({account}.namespace).name({account}.name).check('impersonate').allowed()"
            ),
            "messageExpression": format!(
                "'{field}: ' + request.userInfo.username + ' may not impersonate the ServiceAccount ' + {account}.namespace + '/' + {account}.name + ': ask for the verb impersonate on it (ClusterRole bundle-instance-impersonator, bound in the namespace ' + {account}.namespace + ')'"
            ),
            "reason": "Forbidden",
        })
    }
}

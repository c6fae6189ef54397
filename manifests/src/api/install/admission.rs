//! Nobody gets the rights of an account by naming it in a BundleInstance.

use serde_json::{Value, json};

use super::{Document, labels};
use crate::api::GROUP;

const NAME: &str = "bundleinstance-service-account";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

pub(super) fn documents() -> [Document; 2] {
    let (account, former) = (
        "object.spec.serviceAccount",
        "oldObject.spec.serviceAccount",
    );
    [
        Document {
            comment: "Whoever names a ServiceAccount in a BundleInstance, or changes one that names it, needs the right to impersonate it.".into(),
            object: json!({
                "apiVersion": ADMISSION,
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": NAME, "labels": labels()},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {"resourceRules": [{
                        "apiGroups": [GROUP],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["bundleinstances"],
                    }]},
                    "matchConditions": [
                        {"name": "account-named", "expression": format!("has({account}) || oldObject != null && has({former})")},
                        // What is installed with somebody's rights is theirs to say, too.
                        {"name": "spec-changed", "expression": "oldObject == null || object.spec != oldObject.spec"},
                    ],
                    "validations": [
                        may_impersonate(account, &format!("!has({account})")),
                        // Neither may anybody else take it away.
                        may_impersonate(former, &format!("oldObject == null || !has({former})")),
                    ],
                },
            }),
        },
        Document {
            comment: "".into(),
            object: json!({
                "apiVersion": ADMISSION,
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": NAME, "labels": labels()},
                "spec": {"policyName": NAME, "validationActions": ["Deny"]},
            }),
        },
    ]
}

/// That whoever asks may act as the account, or need not.
fn may_impersonate(account: &str, unless: &str) -> Value {
    json!({
        "expression": format!(
            "{unless} || authorizer.group('').resource('serviceaccounts').namespace({account}.namespace).name({account}.name).check('impersonate').allowed()"
        ),
        "messageExpression": format!(
            "'spec.serviceAccount: ' + request.userInfo.username + ' may not impersonate the ServiceAccount ' + {account}.namespace + '/' + {account}.name + ': ask for the verb impersonate on it (ClusterRole bundle-instance-impersonator, bound in the namespace ' + {account}.namespace + ')'"
        ),
        "reason": "Forbidden",
    })
}

//! As much of `OperatorCondition` (`operators.coreos.com/v2`) as is read here: what an operator says of its own upgrades.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, ResourceExt as _};
use serde::{Deserialize, Serialize};

/// The type of the condition by which an operator asks not to be upgraded.
pub const UPGRADEABLE: &str = "Upgradeable";

/// What an operator and an admin say.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v2",
    kind = "OperatorCondition",
    plural = "operatorconditions",
    namespaced,
    status = "OperatorConditionStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorConditionSpec {
    /// Accounts that may write the conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,
    /// Deployments of the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deployments: Vec<String>,
    /// What an admin says instead of the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Condition>,
    /// What the operator says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What has become of the conditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperatorConditionStatus {
    /// Those of the spec, as OLM has accepted them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl OperatorCondition {
    /// Why the operator asks not to be upgraded, if it does. An admin's word counts before the operator's, and what the
    /// operator says in the spec before what was accepted of it. What was accepted of an earlier spec, which the present
    /// one does not say any more, does not count.
    pub fn refusal(&self) -> Option<&Condition> {
        let status = self.status.as_ref();
        let is_it = |condition: &&Condition| condition.type_ == UPGRADEABLE;
        let accepted = status.and_then(|status| status.conditions.iter().find(is_it));
        self.spec
            .overrides
            .iter()
            .find(is_it)
            .or_else(|| self.spec.conditions.iter().find(is_it))
            .or_else(|| accepted.filter(|condition| !self.is_outdated(condition)))
            .filter(|condition| condition.status == "False")
    }

    /// Whether a condition of the status is about an earlier spec. Operators that write the status by themselves name no
    /// generation, or 0.
    fn is_outdated(&self, condition: &Condition) -> bool {
        let (of, now) = (condition.observed_generation, self.metadata.generation);
        of.is_some_and(|of| of > 0 && now.is_some_and(|now| of < now))
    }

    /// `namespace/name`.
    pub fn label(&self) -> String {
        format!(
            "{}/{}",
            self.namespace().unwrap_or_default(),
            self.name_any()
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: max-olm-16
    #[test]
    fn an_admin_counts_before_the_operator() {
        let is = |status: &str| json!([{"type": "Upgradeable", "status": status, "reason": "Busy", "message": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let none = json!([]);
        for (overrides, conditions, accepted, refuses) in ::tests::rows![
            none.clone(), none.clone(), none.clone() => false;
            none.clone(), is("False"), none.clone() => true;
            none.clone(), is("True"), is("False") => false;
            none.clone(), none.clone(), is("False") => true;
            none, is("Unknown"), is("False") => false;
            is("True"), is("False"), is("False") => false;
            is("False"), is("True"), is("True") => true;
        ] {
            let condition: OperatorCondition = serde_json::from_value(json!({
                "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "metadata": {"name": "a", "namespace": "b"},
                "spec": {"overrides": overrides, "conditions": conditions}, "status": {"conditions": accepted},
            }))
            .unwrap();
            assert_eq!(condition.refusal().is_some(), refuses, "{condition:?}");
            assert_eq!(condition.label(), "b/a");
        }
    }

    #[test]
    fn what_was_accepted_of_an_earlier_spec_does_not_count() {
        for (observed, generation, refuses) in [
            (json!(3), json!(3), true),
            (json!(2), json!(3), false),
            // The operator's own writing.
            (json!(0), json!(3), true),
            (json!(null), json!(3), true),
            (json!(3), json!(null), true),
        ] {
            let condition: OperatorCondition = serde_json::from_value(json!({
                "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
                "metadata": {"name": "a", "namespace": "b", "generation": generation}, "spec": {},
                "status": {"conditions": [{
                    "type": "Upgradeable", "status": "False", "reason": "Busy", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": observed,
                }]},
            }))
            .unwrap();
            assert_eq!(condition.refusal().is_some(), refuses, "{condition:?}");
        }
    }
}

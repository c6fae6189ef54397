//! `OperatorCondition` (`operators.coreos.com/v2`), reduced to the fields that are read here: the conditions of an operator
//! for its own upgrades.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, ResourceExt as _};
use serde::{Deserialize, Serialize};

/// Type of the condition with which an operator refuses upgrades.
pub const UPGRADEABLE: &str = "Upgradeable";

/// Conditions by an operator and by an admin.
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
    /// ServiceAccounts that may write the conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,
    /// Deployments of the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deployments: Vec<String>,
    /// Conditions by an admin, which take precedence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Condition>,
    /// Conditions by the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Observed state of an OperatorCondition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperatorConditionStatus {
    /// Conditions of the spec that OLM accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl OperatorCondition {
    /// Returns the condition with which the operator refuses upgrades, if any. Overrides by an admin take precedence over
    /// conditions of the spec, and those over accepted conditions. An accepted condition of an earlier spec that the
    /// current spec no longer has is ignored.
    pub fn not_upgradeable(&self) -> Option<&Condition> {
        let status = self.status.as_ref();
        let is_upgradeable = |condition: &&Condition| condition.type_ == UPGRADEABLE;
        let accepted = status.and_then(|status| status.conditions.iter().find(is_upgradeable));
        // As in OLM, any override other than True refuses upgrades.
        if let Some(by_admin) = self.spec.overrides.iter().find(is_upgradeable) {
            return Some(by_admin).filter(|condition| condition.status != "True");
        }
        self.spec
            .conditions
            .iter()
            .find(is_upgradeable)
            .or_else(|| accepted.filter(|condition| !self.is_stale(condition)))
            .filter(|condition| condition.status == "False")
    }

    /// Reports whether a condition of the status belongs to an earlier spec. Operators that write the status themselves set
    /// no generation, or 0.
    fn is_stale(&self, condition: &Condition) -> bool {
        let (observed, now) = (condition.observed_generation, self.metadata.generation);
        observed.is_some_and(|observed| observed > 0 && now.is_some_and(|now| observed < now))
    }

    /// Returns the name for messages: `namespace/name`.
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
    use serde_json::{Value, json};

    use super::*;

    fn is_refused(generation: &Value, spec: &Value, conditions: &Value) -> bool {
        let condition: OperatorCondition = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "spec": spec,
            "metadata": {"name": "a", "namespace": "b", "generation": generation}, "status": {"conditions": conditions},
        }))
        .unwrap();
        assert_eq!(condition.label(), "b/a");
        condition.not_upgradeable().is_some()
    }

    // parity: max-olm-16
    #[test]
    fn override_of_the_admin_precedes_the_operator() {
        let is = |status: &str| json!([{"type": "Upgradeable", "status": status, "reason": "Busy", "message": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let of = |overrides, conditions| json!({"overrides": overrides, "conditions": conditions});
        let none = json!([]);
        assert_each!(|spec, accepted, refuses| is_refused(&json!(null), &spec, &accepted) => refuses;
            of(none.clone(), none.clone()), none.clone() => false;
            of(none.clone(), is("False")), none.clone() => true;
            of(none.clone(), is("True")), is("False") => false;
            of(none.clone(), none.clone()), is("False") => true;
            of(none, is("Unknown")), is("False") => false;
            of(is("True"), is("False")), is("False") => false;
            of(is("False"), is("True")), is("True") => true;
            of(is("Unknown"), is("True")), is("True") => true;
        );
    }

    #[test]
    fn condition_of_an_older_generation_is_ignored() {
        let of = |observed: Value| {
            json!([{
                "type": "Upgradeable", "status": "False", "reason": "Busy", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": observed,
            }])
        };
        assert_each!(|observed, generation, refuses| is_refused(&generation, &json!({}), &of(observed)) => refuses;
            json!(3), json!(3) => true;
            json!(2), json!(3) => false;
            // Written by the operator itself.
            json!(0), json!(3) => true;
            json!(null), json!(3) => true;
            json!(3), json!(null) => true;
        );
    }
}

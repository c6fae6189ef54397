//! Limits of the evaluation. Bindings multiply: thousands of subjects of thousands of rules yield millions of grants.

/// Remaining budget. Real bundles require a hundredth of it.
pub(super) struct Budget {
    /// Memory for the listed rules, in bytes.
    pub(super) memory: usize,
    /// Number of examined rules and selectors.
    pub(super) steps: usize,
    /// Number of bytes that are compared to merge rules.
    pub(super) comparisons: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            memory: 32 << 20,
            steps: 5_000_000,
            comparisons: 256 << 20,
        }
    }
}

/// Deducts a cost from a budget, or returns `None` if it does not suffice.
pub(super) fn spend(remaining: &mut usize, cost: usize) -> Option<()> {
    *remaining = remaining.checked_sub(cost)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::permissions::{self, SubjectPermissions};

    /// Permissions of two ServiceAccounts that are bound to the same role.
    fn listed(rules: &Value, mut budget: Budget) -> Vec<SubjectPermissions> {
        let rbac = "rbac.authorization.k8s.io/v1";
        let objects = [
            json!({"apiVersion": rbac, "kind": "ClusterRole", "rules": rules, "metadata": {"name": "part", "labels": {"a": "b"}}}),
            json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "whole"},
                "aggregationRule": {"clusterRoleSelectors": vec![json!({"matchLabels": {"a": "b"}}); 20]}}),
            json!({
                "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "a"},
                "roleRef": {"kind": "ClusterRole", "name": "whole"}, "subjects": [
                    {"kind": "ServiceAccount", "namespace": "a", "name": "a"},
                    {"kind": "ServiceAccount", "namespace": "a", "name": "b"},
                ],
            }),
        ];
        let objects = objects.map(|object| object.try_into().unwrap());
        permissions::collect_rights(&objects, &mut budget)
    }

    /// Rules that cannot be merged.
    fn rules(number: usize) -> Value {
        (0..number)
            .map(|n| json!({"apiGroups": [format!("g{n}")], "resources": [format!("r{n}")], "verbs": ["get"]}))
            .collect()
    }

    fn brief(permissions: &[SubjectPermissions]) -> Vec<(usize, bool)> {
        let permissions = permissions.iter();
        let counts = permissions.map(|each| (each.grants.len(), each.is_incomplete));
        counts.collect()
    }

    #[test]
    fn lists_beyond_a_budget_are_reported() {
        let rule = |verb| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
        let mergeable = json!([rule("get"), rule("list")]);
        for (rules, budget, expected) in ::tests::rows![
            // Roles that are selected twice count once.
            &rules(10), with!(Budget, steps: 2 * (20 * 2 * 2 + 10)) => (10, false);
            &rules(1), with!(Budget, steps: 0) => (0, true);
            &mergeable, with!(Budget, comparisons: 1000) => (1, false);
            // Without time to merge, the rules are not merged.
            &mergeable, with!(Budget, comparisons: 0) => (2, false);
        ] {
            assert_rows!(brief(&listed(rules, budget)) => [expected; 2], "{rules}");
        }
        let found = brief(&listed(&rules(20), with!(Budget, memory: 16 << 10)));
        assert!((1..20).contains(&found[0].0), "{found:?}");
        assert_eq!(found, [(found[0].0, true), (0, true)]);
    }

    #[test]
    fn thousands_of_rules_bound_thousands_of_times_take_no_time() {
        let rbac = "rbac.authorization.k8s.io/v1";
        let role = json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "a"}, "rules": rules(3000)});
        let bindings = (0..3000).map(|n| {
            json!({
                "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": format!("b{n}")},
                "roleRef": {"kind": "ClusterRole", "name": "a"},
                "subjects": [{"kind": "ServiceAccount", "namespace": "a", "name": format!("s{n}")}],
            })
        });
        let objects = bindings.chain([role]);
        let objects: Vec<_> = objects.map(|object| object.try_into().unwrap()).collect();
        let mut budget = with!(Budget, memory: 1 << 20, comparisons: 0);
        let permissions = permissions::collect_rights(&objects, &mut budget);
        assert_eq!(permissions.len(), 3000);
        assert!(permissions.iter().all(|each| each.is_incomplete));
    }
}

//! Splitting of a rollout into steps: a revision of thousands of objects is applied in parts. Pure; no I/O.

use super::is_applied_last;
use crate::plan::ApplyStep;

/// Splits objects into those of the next step, at most `most`, and the rest. Both are in apply order, so that a wave starts
/// only after all objects of the previous waves were applied, in this step or an earlier one.
pub fn split(mut objects: Vec<ApplyStep>, most: usize) -> (Vec<ApplyStep>, Vec<ApplyStep>) {
    objects.sort_by_key(|step| (step.wave, is_applied_last(step)));
    let rest = objects.split_off(objects.len().min(most.max(1)));
    (objects, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Wave;

    fn step(name: &str, kind: &str, wave: Wave) -> ApplyStep {
        let api_version = match kind {
            "RoleBinding" => "rbac.authorization.k8s.io/v1",
            _ => "v1",
        };
        crate::tests::step(wave, api_version, kind, name)
    }

    #[test]
    fn steps_keep_the_order_of_waves() {
        use Wave::{Configuration, Definitions, Namespaces, Resources, Workloads};
        let objects = [
            step("workload", "Pod", Workloads),
            step("binding", "RoleBinding", Configuration),
            step("resource", "Widget", Resources),
            step("b", "ConfigMap", Configuration),
            step("a", "ConfigMap", Configuration),
            step("definition", "CustomResourceDefinition", Definitions),
            step("namespace", "Namespace", Namespaces),
        ];
        let text = |steps: &[ApplyStep]| {
            let names: Vec<&str> = steps.iter().map(|step| step.object.name()).collect();
            names.join(" ")
        };
        // Maximum size of a step, and the expected steps.
        for (limit, expected) in ::tests::rows![
            1 => &["namespace", "definition", "b", "a", "binding", "workload", "resource"][..];
            2 => &["namespace definition", "b a", "binding workload", "resource"][..];
            3 => &["namespace definition b", "a binding workload", "resource"][..];
            7 => &["namespace definition b a binding workload resource"][..];
            8 => &["namespace definition b a binding workload resource"][..];
            // A step has at least one object.
            0 => &["namespace", "definition", "b", "a", "binding", "workload", "resource"][..];
        ] {
            let mut steps = Vec::new();
            let mut left = objects.to_vec();
            while !left.is_empty() {
                let (step, remaining) = split(left, limit);
                steps.push(text(&step));
                left = remaining;
            }
            assert_eq!(steps, expected, "{limit}");
        }
        assert_eq!(split(Vec::new(), 2), (Vec::new(), Vec::new()));
    }
}

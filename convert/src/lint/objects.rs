//! Objects that affect other workloads: budgets that forbid every disruption, priorities for all pods, Services without
//! pods.

use manifests::{object::get_path, path::Path};
use serde_json::{Map, Value};

use super::{Input, workloads};
use crate::{
    bundle::Item,
    finding::{Findings, code::Code},
};

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    for item in input.others {
        disruption_budget(item, findings);
        priority_class(item, findings);
    }
    service_selectors(input, findings);
}

fn disruption_budget(item: &Item, findings: &mut Findings) {
    if item.kind() != "PodDisruptionBudget" {
        return;
    }
    let rules: [(&str, &[&str], &str); 2] = [
        (
            "maxUnavailable",
            &["0", "0%"],
            "maxUnavailable field cannot be set to 0 or 0%",
        ),
        (
            "minAvailable",
            &["100%"],
            "minAvailable field cannot be set to 100%",
        ),
    ];
    for (field, forbidden, problem) in rules {
        let value = match get_path(&item.value, &["spec", field]) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => continue,
        };
        if forbidden.contains(&value.as_str()) {
            findings.warn(
                Code::DisruptionBudget,
                item.place.at(&Path::from(["spec", field])),
                format!("{}: {problem}: nodes that run these pods cannot be drained; operator-sdk rejects this", item.label()),
                "allow the disruption of at least one pod",
            );
        }
    }
}

fn priority_class(item: &Item, findings: &mut Findings) {
    if item.kind() == "PriorityClass" && item.value.get("globalDefault") == Some(&Value::Bool(true))
    {
        findings.warn(
            Code::GlobalPriority,
            item.place.at(&Path::from(["globalDefault"])),
            format!(
                "{}: globalDefault field cannot be set to true: the class would apply to all pods of the cluster; \
                 operator-sdk rejects this",
                item.label()
            ),
            "remove the field, and set priorityClassName in the operator's pods",
        );
    }
}

fn service_selectors(input: Input<'_>, findings: &mut Findings) {
    /// Real bundles have few labels on each side; a hostile one must not take minutes.
    const MAX_COMPARISONS: usize = 1_000_000;
    let workloads = workloads::all(input);
    if workloads.is_empty() {
        return;
    }
    let labels: Vec<&Map<String, Value>> = workloads
        .iter()
        .filter_map(|workload| get_path(workload.template, &["metadata", "labels"])?.as_object())
        .collect();
    let mut comparisons = 0;
    for item in input.others {
        if (item.api_version(), item.kind()) != ("v1", "Service") {
            continue;
        }
        let Some(selector) =
            get_path(&item.value, &["spec", "selector"]).and_then(Value::as_object)
        else {
            continue;
        };
        let place = item.place.at(&Path::from(["spec", "selector"]));
        comparisons += selector.len() * labels.len();
        if comparisons > MAX_COMPARISONS {
            findings.warn(
                Code::ServiceSelector,
                place,
                format!(
                    "the bundle has too many Services and workloads to compare: cannot determine whether {} and the \
                     following Services select any pods",
                    item.label()
                ),
                "reduce their number",
            );
            return;
        }
        let is_selected = |labels: &Map<_, _>| {
            selector
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
        };
        if !selector.is_empty() && !labels.iter().any(|labels| is_selected(labels)) {
            findings.warn(
                Code::ServiceSelector,
                place,
                format!("{} selects none of the bundle's pods", item.label()),
                "make the selector match the labels of a pod template, unless the operator creates the pods",
            );
        }
    }
}

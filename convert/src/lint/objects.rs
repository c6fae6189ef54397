//! Objects that disturb others: budgets that forbid every disruption, priorities for everybody, Services for nobody.

use manifests::{object::at, path::Path};
use serde_json::{Map, Value};

use super::{Input, workloads};
use crate::{bundle::Item, code::Code, report::Findings};

pub(super) fn run(input: Input<'_>, findings: &mut Findings) {
    for item in input.others {
        disruption_budget(item, findings);
        global_priority(item, findings);
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
        let value = match at(&item.value, &["spec", field]) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => continue,
        };
        if forbidden.contains(&value.as_str()) {
            findings.warn(
                Code::DisruptionBudget,
                item.place.at(&Path::from(["spec", field])),
                format!("{}: {problem}: no node that runs these pods can be drained; operator-sdk refuses this", item.label()),
                "leave room for one pod",
            );
        }
    }
}

fn global_priority(item: &Item, findings: &mut Findings) {
    if item.kind() == "PriorityClass" && item.value.get("globalDefault") == Some(&Value::Bool(true))
    {
        findings.warn(
            Code::GlobalPriority,
            item.place.at(&Path::from(["globalDefault"])),
            format!(
                "{}: globalDefault field cannot be set to true: it would be the priority of all pods of the cluster; \
                 operator-sdk refuses this",
                item.label()
            ),
            "remove the field, and name the class in the operator's pods",
        );
    }
}

fn service_selectors(input: Input<'_>, findings: &mut Findings) {
    /// Real bundles have a handful of labels on each side; a hostile one must not take minutes.
    const MOST_COMPARISONS: usize = 1_000_000;
    let workloads = workloads::all(input);
    if workloads.is_empty() {
        return;
    }
    let labels: Vec<&Map<String, Value>> = workloads
        .iter()
        .filter_map(|workload| at(workload.template, &["metadata", "labels"])?.as_object())
        .collect();
    let mut comparisons = 0;
    for item in input.others {
        if (item.api_version(), item.kind()) != ("v1", "Service") {
            continue;
        }
        let Some(selector) = at(&item.value, &["spec", "selector"]).and_then(Value::as_object)
        else {
            continue;
        };
        let place = item.place.at(&Path::from(["spec", "selector"]));
        comparisons += selector.len() * labels.len();
        if comparisons > MOST_COMPARISONS {
            findings.warn(
                Code::ServiceSelector,
                place,
                format!(
                    "the bundle has too many Services and workloads to compare: whether {} and those after it select \
                     any pods is not known",
                    item.label()
                ),
                "ship fewer of them",
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
                "let the selector match the labels of a pod template, unless the operator makes the pods",
            );
        }
    }
}

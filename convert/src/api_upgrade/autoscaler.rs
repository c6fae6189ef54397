//! `HorizontalPodAutoscaler`: since v2beta2, a metric consists of an identifier and a target.

use serde_json::{Value, json};

use super::json::{Object, has, object_at, objects_in, take};

/// Converts the metrics of v2beta1. Removes the status, which has the old shape and is written again by the controller.
pub(super) fn reshape(object: &mut Object) {
    object.remove("status");
    let Some(spec) = object_at(object, &["spec"]) else {
        return;
    };
    for (_, metric) in objects_in(spec, "metrics") {
        for source in ["resource", "containerResource"] {
            if let Some(source) = object_at(metric, &[source]) {
                target_field(source, &[UTILIZATION, AVERAGE]);
            }
        }
        if let Some(pods) = object_at(metric, &["pods"]) {
            name(pods, "selector");
            target_field(pods, &[AVERAGE]);
        }
        if let Some(external) = object_at(metric, &["external"]) {
            name(external, "metricSelector");
            target_field(external, &[VALUE, AVERAGE]);
        }
        if let Some(object) = object_at(metric, &["object"]) {
            name(object, "selector");
            // `target` was the described object.
            if let Some(described) = take(object, "target") {
                object.insert("describedObject".into(), described);
            }
            if has(object, "averageValue") {
                object.remove("targetValue"); // Required in v2beta1, even if only the average has an effect.
            }
            target_field(
                object,
                &[("averageValue", "AverageValue", "averageValue"), VALUE],
            );
        }
    }
}

/// The old field of a target, its type, and its new field.
type Target = (&'static str, &'static str, &'static str);

const UTILIZATION: Target = (
    "targetAverageUtilization",
    "Utilization",
    "averageUtilization",
);
const AVERAGE: Target = ("targetAverageValue", "AverageValue", "averageValue");
const VALUE: Target = ("targetValue", "Value", "value");

/// Collects the targets. The first existing one determines the type, as in the API server's own conversion.
fn target_field(source: &mut Object, targets: &[Target]) {
    let mut target = Object::new();
    for (old, kind, new) in targets {
        if let Some(value) = take(source, old) {
            target.entry("type").or_insert_with(|| (*kind).into());
            target.insert((*new).into(), value);
        }
    }
    if !target.is_empty() {
        source.insert("target".into(), target.into());
    }
}

/// Collects the name and the selector of a metric.
fn name(source: &mut Object, selector: &str) {
    let Some(name) = take(source, "metricName") else {
        return;
    };
    let mut metric = json!({"name": name});
    if let (Some(selector), Value::Object(metric)) = (take(source, selector), &mut metric) {
        metric.insert("selector".into(), selector);
    }
    source.insert("metric".into(), metric);
}

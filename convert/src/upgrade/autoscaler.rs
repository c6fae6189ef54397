//! `HorizontalPodAutoscaler`: since v2beta2 a metric separates what it measures from its target.

use serde_json::{Value, json};

use super::json::{Object, has, object_at, objects_in, take};

/// Moves the metrics of v2beta1; the status reports them in the old shape and is written anew anyway.
pub(super) fn reshape(object: &mut Object) {
    object.remove("status");
    let Some(spec) = object_at(object, &["spec"]) else {
        return;
    };
    for (_, metric) in objects_in(spec, "metrics") {
        for source in ["resource", "containerResource"] {
            if let Some(source) = object_at(metric, &[source]) {
                aim(source, &[UTILIZATION, AVERAGE]);
            }
        }
        if let Some(pods) = object_at(metric, &["pods"]) {
            name(pods, "selector");
            aim(pods, &[AVERAGE]);
        }
        if let Some(external) = object_at(metric, &["external"]) {
            name(external, "metricSelector");
            aim(external, &[VALUE, AVERAGE]);
        }
        if let Some(object) = object_at(metric, &["object"]) {
            name(object, "selector");
            // `target` was the object that is measured.
            if let Some(described) = take(object, "target") {
                object.insert("describedObject".into(), described);
            }
            if has(object, "averageValue") {
                object.remove("targetValue"); // Required in v2beta1, even where the average is what counts.
            }
            aim(
                object,
                &[("averageValue", "AverageValue", "averageValue"), VALUE],
            );
        }
    }
}

/// The old field of a target, its type and its new field.
type Target = (&'static str, &'static str, &'static str);

const UTILIZATION: Target = (
    "targetAverageUtilization",
    "Utilization",
    "averageUtilization",
);
const AVERAGE: Target = ("targetAverageValue", "AverageValue", "averageValue");
const VALUE: Target = ("targetValue", "Value", "value");

/// Gathers the targets; the first one that is set gives the type, as in the API server's own conversion.
fn aim(source: &mut Object, targets: &[Target]) {
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

/// Gathers a metric's name and selector.
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

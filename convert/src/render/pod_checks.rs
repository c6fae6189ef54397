//! Problems of a Deployment that every API server rejects, reported in advance because the bundle causes them.

use std::collections::BTreeSet;

use manifests::{
    object::{get_path, text},
    path::Path,
};
use serde_json::Value;

use crate::finding::{Findings, Location, code::Code};

/// Checks a rendered Deployment; `place` is that of its `spec` in the CSV.
pub(crate) fn check(deployment: &Value, place: &Location, findings: &mut Findings) {
    selector(deployment, place, findings);
    let pod = ["spec", "template", "spec"];
    let containers = list(deployment, &pod, "containers");
    if containers.is_empty() {
        findings.warn(
            Code::WrongShape,
            place.at(&Path::from(["template", "spec"])),
            "the pod template has no containers; the API server rejects it",
            "list at least one container",
        );
    }
    let spec = Path::from(["template", "spec"]);
    unique(
        list(deployment, &pod, "volumes"),
        &spec.clone().key("volumes"),
        "the API server",
        place,
        findings,
    );
    let mut names = BTreeSet::new();
    for kind in ["initContainers", "containers"] {
        let path = spec.clone().key(kind);
        for (index, container) in list(deployment, &pod, kind).iter().enumerate() {
            let path = path.clone().index(index);
            let name = text(container, &["name"]).unwrap_or_default();
            if !names.insert(name) {
                report_duplicate(name, &path, "the API server", place, findings);
            }
            // All other clients use the last of two equal variables.
            unique(
                list(container, &[], "env"),
                &path.key("env"),
                "server-side apply",
                place,
                findings,
            );
        }
    }
}

fn list<'a>(value: &'a Value, keys: &[&str], name: &str) -> &'a [Value] {
    let list = get_path(value, keys)
        .and_then(|value| value.get(name))
        .and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Reports repeated names in a list. Server-side apply merges these lists by name, and rejects repeated ones.
fn unique(
    entries: &[Value],
    path: &Path,
    rejected_by: &str,
    place: &Location,
    findings: &mut Findings,
) {
    let mut unique = BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let name = text(entry, &["name"]).unwrap_or_default();
        if !unique.insert(name) {
            report_duplicate(
                name,
                &path.clone().index(index),
                rejected_by,
                place,
                findings,
            );
        }
    }
}

fn report_duplicate(
    name: &str,
    path: &Path,
    rejected_by: &str,
    place: &Location,
    findings: &mut Findings,
) {
    findings.warn(
        Code::WrongShape,
        place.at(path),
        format!("{path} has the name {name:?} of another entry; {rejected_by} rejects it"),
        "keep one of them",
    );
}

/// Checks the selector, which is required and must match the labels of the template.
fn selector(deployment: &Value, place: &Location, findings: &mut Findings) {
    let selector = get_path(deployment, &["spec", "selector"]).and_then(Value::as_object);
    if selector.is_none_or(|selector| selector.values().all(is_empty)) {
        findings.warn(
            Code::WrongShape,
            place.clone(),
            "the deployment has no selector; the API server rejects it",
            "select the labels of the pod template",
        );
    }
    let labels = get_path(deployment, &["spec", "template", "metadata", "labels"]);
    let match_labels =
        get_path(deployment, &["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    for (key, value) in match_labels.into_iter().flatten() {
        if labels.and_then(|labels| labels.get(key)) != Some(value) {
            findings.warn(
                Code::WrongShape,
                place.at(&Path::from(["selector"])),
                format!("selector {key}={value} does not match the labels of the pod template; the API server rejects it"),
                "add the labels of the selector to the template",
            );
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => value.is_null(),
    }
}

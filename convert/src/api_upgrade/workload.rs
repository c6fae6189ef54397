//! Deployments and similar workloads: apps/v1 requires a selector, and has another default for rollouts.

use manifests::path::Path;
use serde_json::{Value, json};

use super::{
    json::{self, Object, default, object_at, object_or_new, take, text},
    notes::UpgradeNotes,
};
use crate::finding::code::Code;

/// Writes the defaults of the old API explicitly where apps/v1 has no default, or another one.
pub(super) fn reshape(object: &mut Object, from: &str, kind: &str, notes: &mut UpgradeNotes<'_>) {
    let Some(spec) = object_at(object, &["spec"]) else {
        return;
    };
    // Only the old API supported these fields.
    take(spec, "rollbackTo");
    take(spec, "templateGeneration");
    selector(spec, from, notes);
    let has_defaults = match (kind, from) {
        ("Deployment", "extensions/v1beta1") => [
            rolling(spec),
            // Effectively no limit and no deadline, which was the meaning of absent fields.
            default(spec, "revisionHistoryLimit", i32::MAX),
            default(spec, "progressDeadlineSeconds", i32::MAX),
        ]
        .contains(&true),
        ("Deployment", "apps/v1beta1") => default(spec, "revisionHistoryLimit", 2),
        ("DaemonSet", "extensions/v1beta1") | ("StatefulSet", "apps/v1beta1") => {
            object_or_new(spec, "updateStrategy")
                .is_some_and(|strategy| default(strategy, "type", "OnDelete"))
        }
        _ => false,
    };
    if has_defaults {
        notes.change(
            Code::UpgradedAPI,
            Path::from(["spec"]),
            format!("now sets {from} defaults explicitly because apps/v1 changed them"),
        );
    }
}

/// Sets the selector that old APIs derived from the labels of the template. apps/v1beta2 did not derive it.
fn selector(spec: &mut Object, from: &str, notes: &mut UpgradeNotes<'_>) {
    if json::has(spec, "selector") || from == "apps/v1beta2" {
        return;
    }
    let labels = object_at(spec, &["template", "metadata"])
        .and_then(|metadata| json::object(metadata, "labels"));
    match labels.filter(|labels| !labels.is_empty()).cloned() {
        Some(labels) => {
            spec.insert("selector".into(), json!({"matchLabels": labels}));
            notes.change(
                Code::UpgradedAPI,
                Path::from(["spec"]),
                "now has the selector that the labels of its template implied; apps/v1 requires an explicit selector",
            );
        }
        None => notes.warn(
            Code::UpgradedAPI,
            Path::from(["spec"]),
            "has neither a selector nor labels in its template; apps/v1 rejects it",
        ),
    }
}

/// Sets the rollout strategy to one pod at a time, in place of a quarter of the pods.
fn rolling(spec: &mut Object) -> bool {
    let Some(strategy) = object_or_new(spec, "strategy") else {
        return false;
    };
    if text(strategy, "type").is_some_and(|kind| !matches!(kind, "" | "RollingUpdate")) {
        return false;
    }
    if strategy
        .get("type")
        .is_none_or(|kind| kind == "" || kind.is_null())
    {
        strategy.insert("type".into(), Value::from("RollingUpdate"));
    }
    object_or_new(strategy, "rollingUpdate").is_some_and(|update| {
        [
            default(update, "maxUnavailable", 1),
            default(update, "maxSurge", 1),
        ]
        .contains(&true)
    })
}

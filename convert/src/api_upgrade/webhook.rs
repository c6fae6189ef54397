//! Webhook configurations: v1 has other defaults, and requires the declaration of side effects.

use manifests::path::Path;
use serde_json::{Value, json};

use super::{
    json::{self, Object, objects_in, text},
    notes::UpgradeNotes,
};
use crate::finding::{Level, code::Code};

/// Writes the defaults of v1beta1 explicitly where those of v1 differ.
pub(super) fn reshape(object: &mut Object, notes: &mut UpgradeNotes<'_>) {
    let (mut spelled, mut unclear) = (None, None);
    for (at, webhook) in objects_in(object, "webhooks") {
        if webhook
            .get("admissionReviewVersions")
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty)
        {
            webhook.remove("admissionReviewVersions"); // The API server treats an empty list as absent.
        }
        let set = [
            json::default(webhook, "failurePolicy", "Ignore"),
            json::default(webhook, "matchPolicy", "Exact"),
            json::default(webhook, "timeoutSeconds", 30),
            json::default(webhook, "admissionReviewVersions", json!(["v1beta1"])),
        ];
        if set.contains(&true) {
            spelled = spelled.or(Some(at));
        }
        if !matches!(text(webhook, "sideEffects"), Some("None" | "NoneOnDryRun")) {
            webhook.insert("sideEffects".into(), "NoneOnDryRun".into());
            unclear = unclear.or(Some(at));
        }
    }
    if let Some(at) = spelled {
        notes.change(
            Code::UpgradedAPI,
            Path::from(["webhooks"]).index(at),
            "now sets v1beta1 defaults explicitly because v1 changed them (failurePolicy, matchPolicy, timeoutSeconds, \
             admissionReviewVersions)",
        );
    }
    if let Some(at) = unclear {
        notes.add(
            Level::Warning,
            Code::UpgradedAPI,
            Path::from(["webhooks"]).index(at).key("sideEffects"),
            "does not set sideEffects to None or NoneOnDryRun, which v1 requires; sideEffects is now NoneOnDryRun, so dry runs reach the webhook",
            Some("make sure that the webhook respects dryRun in its reviews".into()),
        );
    }
}

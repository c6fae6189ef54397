//! The progress of a generation that is not ready.

use std::collections::BTreeSet;

use apply::revision::ObjectHash;
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
    core::DynamicObject,
};
use manifests::{
    api::{
        bundle_instance::{
            BundleInstance,
            ready::{self, Phase},
        },
        condition::{self, find, reason},
        inventory_format, labels,
    },
    object::Object,
};
use serde::Serialize;

use crate::{
    age::age,
    cluster::{Cluster, live::LiveObjects},
};

/// The progress of a generation that is not ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rollout {
    /// The revision that is rolled out, once it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<i64>,
    /// The number of applied objects, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) applied: Option<usize>,
    /// The number of objects to apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) objects: Option<usize>,
    /// The object that the rollout waits for, or another event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) awaited: Option<String>,
    /// The seconds until the progress deadline, 0 after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds_left: Option<u64>,
}

/// The objects of a revision that is being applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Count {
    applied: usize,
    objects: usize,
    /// The first object that is not applied yet.
    next: Option<String>,
}

impl Rollout {
    /// Reads the progress from the status; `None` if no generation is in progress.
    pub(crate) fn new(instance: &BundleInstance, now: Timestamp) -> Option<Self> {
        let phase = ready::phase(instance, now);
        let status = instance.status.as_ref()?;
        if !matches!(phase, Phase::Reconciling | Phase::Stalled) {
            return None;
        }
        let revision = status.rolling_out();
        let count = status.inventory.as_ref().map_or(0, |all| all.count);
        let objects = usize::try_from(count).ok();
        let is_applied = revision.is_some_and(|revision| revision.applied.is_some());
        let valid = find(&status.conditions, condition::HAS_VALID_BUNDLE);
        let healthy = find(&status.conditions, condition::HEALTHY);
        let unhealthy = || {
            let mut lines = healthy?
                .message
                .lines()
                .filter_map(inventory_format::parse_unhealthy);
            let (identity, reason) = lines.next()?;
            Some(format!("{identity}: {reason}"))
        };
        let awaited = match valid {
            Some(valid) if valid.reason == reason::UNPACK_PENDING => {
                valid.message.lines().next().map(str::to_owned)
            }
            _ if is_applied || revision.is_none() => unhealthy(),
            _ => None,
        };
        let remaining = ready::time_left(status, ready::deadline(&instance.spec), now);
        Some(Self {
            revision: revision.map(|revision| revision.number),
            applied: objects.filter(|_| is_applied),
            objects: objects.filter(|_| revision.is_some()),
            awaited,
            seconds_left: remaining.map(|remaining| remaining.as_secs()),
        })
    }

    /// Adds the result of [`count`].
    pub(crate) fn add(&mut self, count: Count) {
        self.applied = Some(count.applied);
        self.objects = Some(count.objects);
        self.awaited = self.awaited.take().or(count.next);
    }

    /// Formats the title: `rollout of revision 3: 12 of 30 objects applied`.
    pub(crate) fn title(&self) -> String {
        let Some(revision) = self.revision else {
            return "rollout: no revision is recorded yet".to_owned();
        };
        let all = self.objects.unwrap_or_default();
        match self.applied {
            Some(applied) => {
                format!("rollout of revision {revision}: {applied} of {all} objects applied")
            }
            None => format!("rollout of revision {revision}: {all} objects"),
        }
    }

    /// Formats the remaining time: `9m12s until the progress deadline`.
    pub(crate) fn deadline(&self) -> Option<String> {
        self.seconds_left.map(|seconds| match seconds {
            0 => "the progress deadline has passed".to_owned(),
            seconds => {
                let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
                format!("{} until the progress deadline", age(seconds))
            }
        })
    }
}

/// Counts the objects of the revision that is being applied, by the hashes that the live objects carry. `None` if no
/// revision is being applied, or if the account may read neither the record nor the objects.
pub(crate) async fn count(cluster: &Cluster, instance: &BundleInstance) -> Option<Count> {
    let newest = instance.status.as_ref()?.rolling_out()?;
    if newest.applied.is_some() {
        return None;
    }
    let record = cluster.record(instance, newest).await;
    let objects = record.ok()?.objects;
    let hashes = hashes(cluster, &instance.name_any(), &objects).await?;
    let is_applied = |object: &&Object| hashes.contains(&ObjectHash::new(object).to_string());
    let next = objects.iter().find(|object| !is_applied(object));
    Some(Count {
        applied: objects.iter().filter(is_applied).count(),
        objects: objects.len(),
        next: next.map(|object| object.identity().to_string()),
    })
}

/// Returns the hashes of the objects that belong to an instance, of the kinds of these objects.
async fn hashes(cluster: &Cluster, instance: &str, objects: &[Object]) -> Option<BTreeSet<String>> {
    let selector = format!(
        "{}=BundleInstance,{}={instance}",
        labels::OWNER_KIND,
        labels::OWNER_NAME
    );
    let params = ListParams::default().labels(&selector);
    let kinds: BTreeSet<(&str, &str)> = objects
        .iter()
        .map(|object| (object.api_version(), object.kind()))
        .collect();
    let mut live = LiveObjects::new(cluster, &[]);
    let mut hashes = BTreeSet::new();
    for (api_version, kind) in kinds {
        let Some(kind) = live.kind(api_version, kind).await.ok()? else {
            continue; // its CRD is not applied yet
        };
        let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &kind.resource);
        let found = api.list_metadata(&params).await.ok()?;
        let hash = |object: PartialObjectMeta<DynamicObject>| {
            object.annotations().get(labels::OBJECT_HASH).cloned()
        };
        hashes.extend(found.into_iter().filter_map(hash));
    }
    Some(hashes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::condition;

    fn instance(reasons: (&str, &str), applied: Option<&str>, spec: &Value) -> BundleInstance {
        let unwell = "(apps/v1, Kind=Deployment)(a/b): 0 of 1 ready";
        let is_done = reasons.1 == "UpToDate";
        let reconciling = if is_done { "Other" } else { "Reconciling" };
        let mut status = json!({
            "observedGeneration": 2, "progressingSince": "2026-01-01T00:00:00Z", "inventory": {"count": 3, "kinds": []},
            "conditions": [
                condition(("HasValidBundle", "False", reasons.0, "Waiting for it")),
                condition(("Healthy", "False", "Unhealthy", unwell)),
                condition(("Ready", "Unknown", reasons.1, "")),
                condition((reconciling, "True", "Progressing", "")),
            ],
        });
        if let Some(applied) = applied {
            status["revisions"] = json!([{
                "number": 2, "state": "RollingOut", "cause": "Upgrade", "bundle": "b", "digest": "", "checksum": "",
                "parts": 1, "created": "2026-01-01T00:00:00Z", "applied": Some(applied).filter(|time| !time.is_empty()),
            }]);
        }
        crate::testing::instance(&json!({"spec": spec, "status": status}))
    }

    #[test]
    fn rollout_reports_awaited_object_and_deadline() {
        const APPLIED: &str = "2026-01-01T00:00:01Z";
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let none = json!({});
        let unlimited = json!({"progressDeadlineSeconds": 0});
        for ((instance, second), expected) in ::tests::rows![
            (instance(("UnpackPending", "UnpackPending"), None, &none), 48) => vec![
                "rollout: no revision is recorded yet", "Waiting for it", "9m12s until the progress deadline",
            ];
            (instance(("UnpackSuccessful", "Applying"), Some(""), &none), 599) => vec![
                "rollout of revision 2: 3 objects", "1s until the progress deadline",
            ];
            (instance(("UnpackSuccessful", "WaitingForHealth"), Some(APPLIED), &none), 600) => vec![
                "rollout of revision 2: 3 of 3 objects applied", "Deployment a/b: 0 of 1 ready",
                "the progress deadline has passed",
            ];
            (instance(("UnpackSuccessful", "WaitingForHealth"), Some(APPLIED), &unlimited), 600) => vec![
                "rollout of revision 2: 3 of 3 objects applied", "Deployment a/b: 0 of 1 ready",
            ];
            (instance(("UnpackSuccessful", "UpToDate"), Some(APPLIED), &none), 600) => vec![];
        ] {
            let now = start + std::time::Duration::from_secs(second);
            let lines = |rollout: Rollout| {
                let (title, deadline) = (rollout.title(), rollout.deadline());
                [Some(title), rollout.awaited, deadline]
            };
            let found = Rollout::new(&instance, now).map(lines);
            let found: Vec<String> = found.into_iter().flatten().flatten().collect();
            assert_eq!(found, expected, "{:?}", instance.status);
        }
        let instance = instance(("UnpackSuccessful", "Applying"), Some(""), &none);
        let mut rollout = Rollout::new(&instance, start).unwrap();
        let (applied, objects, next) = (1, 2, Some("ConfigMap a/b".to_owned()));
        rollout.add(Count {
            applied,
            objects,
            next,
        });
        let title = "rollout of revision 2: 1 of 2 objects applied";
        assert_eq!(rollout.title(), title);
        assert_eq!(rollout.awaited.as_deref(), Some("ConfigMap a/b"));
    }
}

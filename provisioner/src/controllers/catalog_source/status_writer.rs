//! Writes the status of a CatalogSource. No other code of the provisioner writes that status.
//!
//! OLM writes the status if it runs. In that case, only conditions of rukpak's types are applied. OLM replaces the
//! whole status by the one that it read, with a resourceVersion, so the conditions of both remain. If another client
//! removes rukpak's conditions, the conditions are applied again: the first time almost at once, and then with growing
//! delays.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apply::api_error;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::api::{
    MANAGER,
    catalog_source::{CatalogSource, CatalogSourceStatus},
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{
    locate::is_same_catalog,
    registry_pod::RepairBackoff,
    server_backoff::ServerBackoff,
    status::{self, CatalogObservation},
    template_resolution::{OWNED_CONDITIONS, OWNED_CONDITIONS_WITH_OLM},
    tolerant::TolerantCatalogSource,
};
use crate::controllers::context::Context;

/// Maximum number of retries after a conflict before a delay.
const MAX_CONFLICT_RETRIES: usize = 4;

/// Status to write.
#[derive(Debug, Clone)]
pub(super) struct StatusUpdate {
    /// CatalogSource from which the status was derived.
    pub(super) source: Arc<CatalogSource>,
    pub(super) observed: CatalogObservation,
    /// Image to which its template has resolved, if it has to be written.
    pub(super) image: Option<String>,
    /// True if OLM writes the rest of the status.
    pub(super) has_olm: bool,
}

// === impl StatusUpdate ===

impl PartialEq for StatusUpdate {
    fn eq(&self, other: &Self) -> bool {
        // A later version of the CatalogSource may need other writes for the same observation.
        Arc::ptr_eq(&self.source, &other.source)
            && (&self.observed, &self.image, self.has_olm)
                == (&other.observed, &other.image, other.has_olm)
    }
}

/// Returns the conditions of a CatalogSource that rukpak owns, whether OLM runs or not.
pub(super) fn own_conditions(source: &CatalogSource) -> Vec<Condition> {
    let status = source.status.as_ref();
    let all = status.map_or(&[][..], |status| &status.conditions);
    let own = all.iter().filter(|condition| {
        let type_ = condition.type_.as_str();
        OWNED_CONDITIONS.contains(&type_)
    });
    own.cloned().collect()
}

/// Schedule of the status writes of one catalog.
#[derive(Debug, Default)]
pub(super) struct StatusSchedule {
    /// Report that was written last.
    written: Option<StatusUpdate>,
    /// Report that could not be written, and the time of the retry.
    failed: Option<(StatusUpdate, Instant)>,
    /// Back-off of failed writes.
    backoff: ServerBackoff,
    /// Time at which conditions that have changed are compared with the report.
    compare_at: Option<Instant>,
    /// Back-off of writes that restore removed conditions.
    repairs: RepairBackoff,
}

// === impl StatusSchedule ===

impl StatusSchedule {
    /// Makes a comparison due, because rukpak's conditions in the status have changed. A change by this process leaves
    /// nothing to write.
    pub(super) fn conditions_changed(&mut self) {
        let now = Instant::now();
        self.compare_at
            .get_or_insert_with(|| now + self.repairs.remaining_delay(now));
    }

    /// Makes a comparison due, because the worker has reported again, or because a report for a former version of the
    /// CatalogSource may have been dropped.
    pub(super) fn compare(&mut self) {
        self.compare_at = Some(Instant::now());
    }

    /// Returns the delay until the next write or comparison, or `None` if none is due.
    fn remaining_delay(&self, report: &StatusUpdate, now: Instant) -> Option<Duration> {
        let at = match &self.failed {
            Some((failed, retry_at)) if failed == report => *retry_at,
            _ if self.written.as_ref() != Some(report) => now,
            _ => self.compare_at?,
        };
        Some(at.saturating_duration_since(now))
    }

    fn record(&mut self, report: StatusUpdate, is_written: bool, now: Instant) {
        if is_written {
            if self.written.is_none() {
                self.repairs.record_write(now);
            }
            (self.written, self.failed) = (Some(report), None);
            self.backoff.reset();
            return;
        }
        // The failed write may have been committed.
        self.written = None;
        self.failed = Some((report, now + self.backoff.next_delay(now)));
    }
}

/// Writes a report if it is new, or if another client has removed conditions that it contains. Returns the delay until the
/// next reconcile, or `None` if none is scheduled.
pub(super) async fn reconcile(
    ctx: &Context,
    schedule: &Mutex<StatusSchedule>,
    report: StatusUpdate,
    sources: &watch::Sender<Arc<CatalogSource>>,
) -> Option<Duration> {
    let now = Instant::now();
    let (needs_read, was_written) = {
        let mut schedule = schedule.lock();
        let delay = schedule.remaining_delay(&report, now)?;
        if !delay.is_zero() {
            return Some(delay);
        }
        // A change from here on makes another comparison due, so the CatalogSource is read afterwards.
        schedule.compare_at = None;
        let was_written = schedule.written.as_ref() == Some(&report);
        (schedule.failed.is_some(), was_written)
    };
    let source = Arc::clone(&sources.borrow());
    if was_written {
        if is_written(&report, &source, (ctx.now)()) {
            return None;
        }
        schedule.lock().repairs.record_write(now);
    }
    let namespace = source.namespace().unwrap_or_default();
    let api: Api<TolerantCatalogSource> = Api::namespaced(ctx.client.clone(), &namespace);
    let writing = async {
        // The watch may not have reported the result of a failed write yet.
        let current = if needs_read {
            api.get(&source.name_any()).await?.0
        } else {
            (*source).clone()
        };
        try_write(ctx, &api, &report, current).await
    };
    let result = Box::pin(writing).await;
    let is_done = match result {
        Ok(()) => true,
        // The CatalogSource was deleted.
        Err(kube::Error::Api(status)) if status.code == 404 => true,
        Err(error) => {
            let catalog = format!("{namespace}/{}", source.name_any());
            let error = api_error::chain(&error);
            warn!(catalog, error, "failed to update CatalogSource status");
            false
        }
    };
    let now = Instant::now();
    let mut schedule = schedule.lock();
    schedule.record(report.clone(), is_done, now);
    schedule.remaining_delay(&report, now)
}

async fn try_write(
    ctx: &Context,
    api: &Api<TolerantCatalogSource>,
    report: &StatusUpdate,
    mut current: CatalogSource,
) -> Result<(), kube::Error> {
    let params = PatchParams::default();
    let mut attempts = 0..MAX_CONFLICT_RETRIES;
    loop {
        // If the CatalogSource has changed, the worker reports again.
        if !is_same_catalog(&report.source, &current) {
            return Ok(());
        }
        let name = current.name_any();
        let version = current.metadata.resource_version.clone();
        let result = if let Some(image) = &report.image {
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": image_of(&current, image)});
            let result = api.patch(&name, &params, &Patch::Merge(patch)).await;
            if result.is_ok() {
                info!(
                    catalog = %format!("{}/{name}", current.namespace().unwrap_or_default()),
                    image,
                    "updated the image of a CatalogSource from its template"
                );
                return Ok(());
            }
            result
        } else if report.has_olm {
            apply_conditions(api, report, &current, (ctx.now)()).await
        } else {
            let previous = current.status.clone().unwrap_or_default();
            let Some(status) = due(&previous, report, current.metadata.generation, (ctx.now)())
            else {
                return Ok(());
            };
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            api.patch_status(&name, &params, &Patch::Merge(patch)).await
        };
        match result {
            Ok(_) => return Ok(()),
            // Another client has changed the CatalogSource since it was read.
            Err(kube::Error::Api(status)) if status.code == 409 && attempts.next().is_some() => {
                current = api.get(&name).await?.0;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Applies rukpak's conditions to a status that OLM writes, and nothing else.
async fn apply_conditions(
    api: &Api<TolerantCatalogSource>,
    report: &StatusUpdate,
    current: &CatalogSource,
    now: jiff::Timestamp,
) -> Result<TolerantCatalogSource, kube::Error> {
    let Some(conditions) = due_with_olm(report, current, now) else {
        return Ok(TolerantCatalogSource(current.clone()));
    };
    let name = current.name_any();
    let patch = json!({
        "apiVersion": CatalogSource::api_version(&()), "kind": CatalogSource::kind(&()),
        // The caller has compared the uid, and the resourceVersion detects a later change.
        "metadata": {"name": name, "uid": current.metadata.uid, "resourceVersion": current.metadata.resource_version},
        "status": {"conditions": conditions},
    });
    let params = PatchParams::apply(MANAGER).force();
    let applied = api
        .patch_status(&name, &params, &Patch::Apply(patch))
        .await?;
    // Earlier releases wrote conditions without owning them, so applying does not remove them.
    let Some(retained) = without_leftovers(&applied.0, &conditions) else {
        return Ok(applied);
    };
    let version = &applied.0.metadata.resource_version;
    let patch =
        json!({"metadata": {"resourceVersion": version}, "status": {"conditions": retained}});
    let params = PatchParams::default();
    api.patch_status(&name, &params, &Patch::Merge(patch)).await
}

/// Returns the desired conditions beside OLM, or `None` if the status has them.
fn due_with_olm(
    report: &StatusUpdate,
    current: &CatalogSource,
    now: jiff::Timestamp,
) -> Option<Vec<Condition>> {
    let status = current.status.as_ref();
    let before = status.map_or(&[][..], |status| &status.conditions);
    let updates = &report.observed.conditions;
    let generation = current.metadata.generation;
    let mut desired =
        status::conditions(before, updates, OWNED_CONDITIONS_WITH_OLM, generation, now);
    if desired == before {
        return None;
    }
    desired.retain(is_owned_with_olm);
    Some(desired)
}

fn is_owned_with_olm(condition: &Condition) -> bool {
    OWNED_CONDITIONS_WITH_OLM.contains(&condition.type_.as_str())
}

/// Returns the conditions of a status without those of rukpak's types that were not applied. Returns `None` if all
/// were.
fn without_leftovers(current: &CatalogSource, applied: &[Condition]) -> Option<Vec<Condition>> {
    let all = &current.status.as_ref()?.conditions;
    let is_leftover = |condition: &Condition| {
        let mut applied = applied.iter().map(|applied| &applied.type_);
        is_owned_with_olm(condition) && !applied.any(|type_| *type_ == condition.type_)
    };
    all.iter().any(is_leftover).then(|| {
        let others = all.iter().filter(|condition| !is_leftover(condition));
        others.cloned().collect()
    })
}

/// Reports whether the status of a CatalogSource contains everything that a report writes. A report with an image
/// counts as written, because the worker reports again after the image has changed.
fn is_written(report: &StatusUpdate, current: &CatalogSource, now: jiff::Timestamp) -> bool {
    if report.image.is_some() {
        return true;
    }
    if report.has_olm {
        return due_with_olm(report, current, now).is_none();
    }
    let previous = current.status.clone().unwrap_or_default();
    due(&previous, report, current.metadata.generation, now).is_none()
}

/// Returns the patch of the spec, in the field that holds its image.
fn image_of(source: &CatalogSource, image: &str) -> Value {
    let spec = serde_json::to_value(&source.spec).unwrap_or_default();
    if spec.get("catalogImageSource").is_some() {
        json!({"catalogImageSource": {"catalogImage": image}})
    } else {
        json!({"image": image})
    }
}

/// Returns the fields to write into a status that OLM does not write: those that change, and `null` for those that are
/// removed.
fn due(
    previous: &CatalogSourceStatus,
    report: &StatusUpdate,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> Option<Value> {
    let desired = status::status(
        previous,
        &report.observed,
        OWNED_CONDITIONS,
        generation,
        now,
    );
    let map = |status: &CatalogSourceStatus| match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let (previous, mut changes) = (map(previous), map(&desired));
    let removed = previous.keys().filter(|name| !changes.contains_key(*name));
    let removed: Vec<String> = removed.cloned().collect();
    changes.retain(|name, value| previous.get(name) != Some(value));
    // A merge patch must remove members of nested objects explicitly.
    for (name, value) in &mut changes {
        let (Some(Value::Object(before)), Value::Object(value)) = (previous.get(name), value)
        else {
            continue;
        };
        for name in before.keys() {
            value.entry(name.clone()).or_insert(Value::Null);
        }
    }
    changes.extend(removed.into_iter().map(|name| (name, Value::Null)));
    (!changes.is_empty()).then_some(Value::Object(changes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::catalog_source::{
        status::{Connection, Served},
        template_resolution::ConditionUpdate,
    };

    fn source(image: &str) -> CatalogSource {
        object!({"metadata": {"name": "a"}, "spec": {"sourceType": "grpc", "image": image}})
    }

    fn report(observed: CatalogObservation, has_olm: bool) -> StatusUpdate {
        StatusUpdate {
            source: Arc::new(source("a:1")),
            observed,
            image: None,
            has_olm,
        }
    }

    fn patch(was: &Value, observation: CatalogObservation) -> Option<Value> {
        let was = serde_json::from_value(was.clone()).unwrap();
        let report = report(observation, false);
        due(&was, &report, Some(1), jiff::Timestamp::UNIX_EPOCH)
    }

    // parity: switch-olm-5, serve-26
    #[test]
    fn only_changed_fields_are_patched() {
        let epoch = "1970-01-01T00:00:00Z";
        let (address, connection) = ("a:1".to_owned(), Connection::Ready);
        let well = with!(CatalogObservation::default() => served: Some(Served { address, service: None, connection }));
        let state = json!({"address": "a:1", "lastConnect": epoch, "lastObservedState": "READY"});
        let is = json!({"registryService": {"protocol": "grpc", "createdAt": epoch}, "connectionState": state});
        let before = with!(is.clone() => |status| status["message"] = "no".into(); status["registryService"]["serviceName"] = "a".into());
        let service = json!({"protocol": "grpc", "createdAt": epoch, "serviceName": null});
        assert_rows! {
            patch(&is, well.clone()) => None;
            patch(&json!({}), well.clone()) => Some(is.clone());
            patch(&before, well) => Some(json!({"message": null, "registryService": service}));
            // The image is written to the field that holds it.
            image_of(&source("a:1"), "a:2") => json!({"image": "a:2"});
        }
    }

    // parity: switch-olm-5
    #[test]
    fn status_beside_olm_has_only_own_conditions() {
        let epoch = jiff::Timestamp::UNIX_EPOCH;
        let update = |type_: &&'static str| ConditionUpdate {
            type_,
            is_true: true,
            reason: "A",
            message: "b".to_owned(),
        };
        let condition = |type_: &str, message: &str| {
            json!({
                "type": type_, "status": "True", "reason": "A", "message": message,
                "lastTransitionTime": "1970-01-01T00:00:00Z", "observedGeneration": 1,
            })
        };
        let (own, of_olm) = ("resolved_image", "TemplatesHaveResolved");
        // The conditions of the status, the reported ones, the applied ones, and the rest if leftovers are removed.
        for (was, reported, due, left) in ::tests::rows![
            json!([]), &[][..], None => None;
            json!([condition(of_olm, "x")]), &[], None => None;
            json!([]), &[own], Some(json!([condition(own, "b")])) => None;
            json!([condition(own, "b")]), &[own], None => None;
            json!([condition(of_olm, "x"), condition(own, "old")]), &[own], Some(json!([condition(own, "b")])) => None;
            json!([condition(own, "b"), condition(of_olm, "x")]), &[], Some(json!([])) => Some(json!([condition(of_olm, "x")]));
        ] {
            let observation = with!(CatalogObservation::default() => conditions: reported.iter().map(update).collect());
            let report = report(observation, true);
            let status = serde_json::from_value(json!({"message": "OLM's", "conditions": was}));
            let now = with!(source("a:1") => metadata.generation: Some(1), status: status.unwrap());
            let found = due_with_olm(&report, &now, epoch);
            assert_eq!(found.as_ref().map(|found| json!(found)), due, "{was}");
            assert_eq!(is_written(&report, &now, epoch), due.is_none(), "{was}");
            let found = without_leftovers(&now, &found.unwrap_or(own_conditions(&now)));
            assert_eq!(found.map(|found| json!(found)), left, "{was}");
        }
    }

    #[test]
    fn failed_and_restoring_writes_are_delayed() {
        let (observed, mut now) = (CatalogObservation::default(), Instant::now());
        let (first, second) = (report(observed.clone(), false), report(observed, false));
        let mut schedule = StatusSchedule::default();
        let seconds = |schedule: &StatusSchedule, report: &StatusUpdate, now: Instant| {
            let delay = schedule.remaining_delay(report, now);
            delay.map(|delay| delay.as_secs_f64().round())
        };
        assert_eq!(seconds(&schedule, &first, now), Some(0.0));
        for expected in [1.0, 2.0, 4.0] {
            schedule.record(first.clone(), false, now);
            assert_eq!(seconds(&schedule, &first, now), Some(expected));
            assert_rows!(seconds(&schedule, &second, now) => Some(0.0), "a newer report");
        }
        schedule.record(first.clone(), true, now);
        assert_eq!(seconds(&schedule, &first, now), None);
        assert_eq!(seconds(&schedule, &second, now), Some(0.0));
        // The first removal of conditions is repaired at once, the next ones with growing delays.
        for expected in [0.3, 1.0, 2.0] {
            schedule.conditions_changed();
            let delay = schedule.remaining_delay(&first, now).unwrap().as_secs_f64();
            assert!((delay / expected - 1.0).abs() < 0.12, "{delay}");
            now = Instant::now();
            schedule.compare_at = None;
            schedule.repairs.record_write(now);
        }
    }
}

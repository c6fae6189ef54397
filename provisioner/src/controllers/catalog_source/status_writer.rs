//! Status writer of a CatalogSource. All other code reports through it.
//!
//! OLM writes the status if it runs. In that case, only conditions of rukpak's types are applied. OLM replaces the whole
//! status by the one that it read, with a resourceVersion, so both keep their conditions. If another client removes
//! rukpak's conditions, they are applied again: at once the first time, and then with growing delays.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::api::{
    MANAGER,
    catalog_source::{CatalogSource, CatalogSourceStatus},
};
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use super::{
    CatalogKey,
    change_notifier::ChangeSubscription,
    image_template::{OWNED_CONDITIONS, OWNED_CONDITIONS_WITH_OLM},
    locate::templates,
    reconcile::PodReport,
    registry_pod::RepairBackoff,
    registry_server::{RegistryServer, ServingState},
    status::{self, CatalogObservation},
    tolerant::TolerantCatalogSource,
};
use crate::controllers::context::Context;
use apply::backoff::spread;

/// Initial and maximum delay between failed writes.
const INITIAL_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);
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

/// Returns the conditions of a CatalogSource that rukpak owns, with OLM and without.
pub(super) fn own_conditions(source: &CatalogSource) -> Vec<Condition> {
    let status = source.status.as_ref();
    let all = status.map_or(&[][..], |status| &status.conditions);
    let own = all.iter().filter(|condition| {
        let type_ = condition.type_.as_str();
        OWNED_CONDITIONS.contains(&type_)
    });
    own.cloned().collect()
}

/// Writes each report, forever; an outdated report is dropped. `conditions` are those of [`own_conditions`].
pub(super) async fn run(
    ctx: &Context,
    key: &CatalogKey,
    serving: Option<&RegistryServer>,
    (mut reports, mut pod): (
        watch::Receiver<Option<StatusUpdate>>,
        watch::Receiver<Option<PodReport>>,
    ),
    source: watch::Receiver<Arc<CatalogSource>>,
    mut conditions: watch::Receiver<Vec<Condition>>,
) {
    let mut changes = serving.map(|serving| serving.changes(key));
    let mut repairs = RepairBackoff::default();
    repairs.record_write(Instant::now());
    loop {
        let mut report = reports.borrow_and_update().clone();
        if let Some(changes) = &mut changes {
            changes.mark_unchanged();
        }
        let state = serving.and_then(|serving| serving.state(key));
        if let (Some(report), Some(state)) = (&mut report, &state) {
            report.observed.add_server(state);
        }
        let pod_report = pod.borrow_and_update().clone();
        if let (Some(report), Some(pod_report)) = (&mut report, &pod_report) {
            report.observed.add_pod(pod_report, &key.namespace);
        }
        let update = async {
            let other = async {
                match &mut changes {
                    Some(changes) => until(serving, key, state.as_ref(), changes).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = reports.changed() => changed.is_ok(),
                changed = pod.changed() => changed.is_ok(),
                () = other => true,
            }
        };
        let writing = async {
            let Some(report) = &report else {
                return std::future::pending().await;
            };
            loop {
                write(ctx, key, report, &source).await;
                wait_for_removal(ctx, report, &source, &mut conditions, &repairs).await;
                repairs.record_write(Instant::now());
            }
        };
        tokio::select! {
            never = writing => never,
            is_open = update => {
                if !is_open {
                    return;
                }
            }
        }
    }
}

/// Waits until another client has removed or changed conditions of the report. A change by this process leaves nothing to
/// write.
async fn wait_for_removal(
    ctx: &Context,
    report: &StatusUpdate,
    source: &watch::Receiver<Arc<CatalogSource>>,
    conditions: &mut watch::Receiver<Vec<Condition>>,
    repairs: &RepairBackoff,
) {
    loop {
        if conditions.changed().await.is_err() {
            return std::future::pending().await;
        }
        sleep(repairs.remaining_delay(Instant::now())).await;
        if !is_written(report, &source.borrow(), (ctx.now)()) {
            return;
        }
    }
}

/// Waits until the serving state of a catalog changes.
async fn until(
    serving: Option<&RegistryServer>,
    key: &CatalogKey,
    was: Option<&ServingState>,
    changes: &mut ChangeSubscription,
) {
    loop {
        changes.changed().await;
        let now = serving.and_then(|serving| serving.state(key));
        if now.as_ref() != was {
            return;
        }
    }
}

async fn write(
    ctx: &Context,
    key: &CatalogKey,
    report: &StatusUpdate,
    source: &watch::Receiver<Arc<CatalogSource>>,
) {
    let api: Api<TolerantCatalogSource> = Api::namespaced(ctx.client.clone(), &key.namespace);
    let mut delay = INITIAL_DELAY;
    loop {
        let newest = Arc::clone(&source.borrow());
        match try_write(ctx, &api, report, (*newest).clone()).await {
            Ok(()) => return,
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(error) => {
                warn!(catalog = %key, %error, "failed to update CatalogSource status");
            }
        }
        sleep(spread(delay)).await;
        delay = (delay * 2).min(MAX_DELAY);
    }
}

async fn try_write(
    ctx: &Context,
    api: &Api<TolerantCatalogSource>,
    report: &StatusUpdate,
    mut now: CatalogSource,
) -> Result<(), kube::Error> {
    let params = PatchParams::default();
    let mut attempts = 0..MAX_CONFLICT_RETRIES;
    loop {
        // If the CatalogSource has changed, another report follows.
        if !is_same(&report.source, &now) {
            return Ok(());
        }
        let name = now.name_any();
        let version = now.metadata.resource_version.clone();
        let result = if let Some(image) = &report.image {
            let patch =
                json!({"metadata": {"resourceVersion": version}, "spec": image_of(&now, image)});
            let result = api.patch(&name, &params, &Patch::Merge(patch)).await;
            if result.is_ok() {
                info!(
                    catalog = %format!("{}/{name}", now.namespace().unwrap_or_default()),
                    image,
                    "updated the image of a CatalogSource from its template"
                );
                return Ok(());
            }
            result
        } else if report.has_olm {
            apply_conditions(api, report, &now, (ctx.now)()).await
        } else {
            let was = now.status.clone().unwrap_or_default();
            let Some(status) = due(&was, report, now.metadata.generation, (ctx.now)()) else {
                return Ok(());
            };
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            api.patch_status(&name, &params, &Patch::Merge(patch)).await
        };
        match result {
            Ok(_) => return Ok(()),
            // Another client was faster.
            Err(kube::Error::Api(status)) if status.code == 409 && attempts.next().is_some() => {
                now = api.get(&name).await?.0;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Applies rukpak's conditions to a status that OLM writes, and nothing else.
async fn apply_conditions(
    api: &Api<TolerantCatalogSource>,
    report: &StatusUpdate,
    now: &CatalogSource,
    at: jiff::Timestamp,
) -> Result<TolerantCatalogSource, kube::Error> {
    let Some(conditions) = due_with_olm(report, now, at) else {
        return Ok(TolerantCatalogSource(now.clone()));
    };
    let name = now.name_any();
    let patch = json!({
        "apiVersion": CatalogSource::api_version(&()), "kind": CatalogSource::kind(&()),
        // The caller has compared the uid, and the resourceVersion detects a later change.
        "metadata": {"name": name, "uid": now.metadata.uid, "resourceVersion": now.metadata.resource_version},
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
    now: &CatalogSource,
    at: jiff::Timestamp,
) -> Option<Vec<Condition>> {
    let status = now.status.as_ref();
    let before = status.map_or(&[][..], |status| &status.conditions);
    let updates = &report.observed.conditions;
    let generation = now.metadata.generation;
    let mut desired =
        status::conditions(before, updates, OWNED_CONDITIONS_WITH_OLM, generation, at);
    if desired == before {
        return None;
    }
    desired.retain(is_owned_with_olm);
    Some(desired)
}

fn is_owned_with_olm(condition: &Condition) -> bool {
    OWNED_CONDITIONS_WITH_OLM.contains(&condition.type_.as_str())
}

/// Returns the conditions of a status without those of rukpak's types that were not applied. Returns `None` if all were.
fn without_leftovers(now: &CatalogSource, applied: &[Condition]) -> Option<Vec<Condition>> {
    let all = &now.status.as_ref()?.conditions;
    let is_leftover = |condition: &Condition| {
        let mut applied = applied.iter().map(|applied| &applied.type_);
        is_owned_with_olm(condition) && !applied.any(|type_| *type_ == condition.type_)
    };
    all.iter().any(is_leftover).then(|| {
        let others = all.iter().filter(|condition| !is_leftover(condition));
        others.cloned().collect()
    })
}

/// Reports whether a CatalogSource has everything that a report writes into its status. After an image, another report
/// follows.
fn is_written(report: &StatusUpdate, now: &CatalogSource, at: jiff::Timestamp) -> bool {
    if report.image.is_some() {
        return true;
    }
    if report.has_olm {
        return due_with_olm(report, now, at).is_none();
    }
    let was = now.status.clone().unwrap_or_default();
    due(&was, report, now.metadata.generation, at).is_none()
}

/// Reports whether results for one CatalogSource apply to the other.
fn is_same(old: &CatalogSource, new: &CatalogSource) -> bool {
    // Other annotations do not affect the catalog.
    (&old.metadata.uid, &old.spec) == (&new.metadata.uid, &new.spec)
        && templates(old).eq(templates(new))
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
    was: &CatalogSourceStatus,
    report: &StatusUpdate,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> Option<Value> {
    let desired = status::status(was, &report.observed, OWNED_CONDITIONS, generation, now);
    let map = |status: &CatalogSourceStatus| match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let (was, mut changes) = (map(was), map(&desired));
    let removed = was.keys().filter(|name| !changes.contains_key(*name));
    let removed: Vec<String> = removed.cloned().collect();
    changes.retain(|name, value| was.get(name) != Some(value));
    // A merge patch must remove members of nested objects explicitly.
    for (name, value) in &mut changes {
        let (Some(Value::Object(before)), Value::Object(value)) = (was.get(name), value) else {
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
        image_template::ConditionUpdate,
        status::{Connection, Served},
    };

    fn source(spec: &Value) -> CatalogSource {
        object!({"metadata": {"name": "a"}, "spec": spec})
    }

    fn report(observation: CatalogObservation, has_olm: bool) -> StatusUpdate {
        StatusUpdate {
            source: Arc::new(source(&json!({"sourceType": "grpc", "image": "a:1"}))),
            observed: observation,
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
        assert_eq!(patch(&is, well.clone()), None);
        assert_eq!(patch(&json!({}), well.clone()), Some(is.clone()));
        let mut before = is.clone();
        before["message"] = "no".into();
        before["registryService"]["serviceName"] = "mine".into();
        let service = json!({"protocol": "grpc", "createdAt": epoch, "serviceName": null});
        assert_rows! {
            patch(&before, well) => Some(json!({"message": null, "registryService": service}));
            // The image is written to the field that holds it.
            image_of(&source(&json!({"sourceType": "grpc", "image": "a:1"})), "a:2") => json!({"image": "a:2"});
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
            let mut now = source(&json!({"sourceType": "grpc", "image": "a:1"}));
            now.metadata.generation = Some(1);
            now.status =
                serde_json::from_value(json!({"message": "OLM's", "conditions": was})).unwrap();
            let found = due_with_olm(&report, &now, epoch);
            assert_eq!(found.as_ref().map(|found| json!(found)), due, "{was}");
            assert_eq!(is_written(&report, &now, epoch), due.is_none(), "{was}");
            let found = without_leftovers(&now, &found.unwrap_or(own_conditions(&now)));
            assert_eq!(found.map(|found| json!(found)), left, "{was}");
        }
    }

    #[test]
    fn foreign_annotations_do_not_make_a_report_stale() {
        let annotated = |spec: &Value, annotations: &Value| {
            let mut source = source(spec);
            source.metadata.annotations = serde_json::from_value(annotations.clone()).unwrap();
            source
        };
        let (one, two) = (json!({"image": "a:1"}), json!({"image": "a:2"}));
        let of = annotated(&one, &json!({}));
        let template = json!({"core.rukpak.io/catalog-image-template": "a:{kube_minor_version}"});
        assert_rows! {
            is_same(&of, &annotated(&one, &json!({"example.com/note": "x"}))) => true;
            is_same(&of, &annotated(&one, &template)) => false;
            is_same(&of, &annotated(&two, &json!({}))) => false;
        }
    }
}

//! Writes into a CatalogSource what is to be said of it. The only one who does.
//!
//! OLM writes the status where it runs, and only conditions of our types are applied there. OLM replaces the whole status by
//! the one that it read, with a resourceVersion, so both keep their conditions. When another client removes ours, they are
//! applied again: at once the first time, and then with growing delays.

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
    Key,
    follow::Told,
    found::Found,
    plan::templates,
    pods::Pace,
    serving::{Serving, State},
    status::{self, Seen},
    template::{OURS, OURS_BESIDE_OLM},
    waiting::Changes,
};
use crate::context::Context;
use apply::backoff::spread;

/// How soon what could not be written is tried again, and at the latest.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often others may be quicker before there is a pause.
const TRIES: usize = 4;

/// What is to be said.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// Of this.
    pub(super) of: Arc<CatalogSource>,
    pub(super) seen: Seen,
    /// The image that its template has become.
    pub(super) image: Option<String>,
    /// Whether OLM says the rest.
    pub(super) has_olm: bool,
}

/// Returns the conditions of a CatalogSource that are ours, with OLM and without.
pub(super) fn own_conditions(source: &CatalogSource) -> Vec<Condition> {
    let status = source.status.as_ref();
    let all = status.map_or(&[][..], |status| &status.conditions);
    let own = all.iter().filter(|condition| {
        let type_ = condition.type_.as_str();
        OURS.contains(&type_)
    });
    own.cloned().collect()
}

/// Writes each report, forever; an outdated report is dropped. `conditions` are those of [`own_conditions`].
pub(super) async fn write_all(
    ctx: &Context,
    key: &Key,
    serving: Option<&Serving>,
    (mut reports, mut pod): (
        watch::Receiver<Option<Report>>,
        watch::Receiver<Option<Told>>,
    ),
    source: watch::Receiver<Arc<CatalogSource>>,
    mut conditions: watch::Receiver<Vec<Condition>>,
) {
    let mut changes = serving.map(|it| it.changes(key));
    let mut repairs = Pace::default();
    repairs.has_written(Instant::now());
    loop {
        let mut report = reports.borrow_and_update().clone();
        if let Some(changes) = &mut changes {
            changes.mark_unchanged();
        }
        let state = serving.and_then(|it| it.state(key));
        if let (Some(report), Some(state)) = (&mut report, &state) {
            report.seen.is_served(state);
        }
        let told = pod.borrow_and_update().clone();
        if let (Some(report), Some(told)) = (&mut report, &told) {
            report.seen.is_in_pod(told, &key.namespace);
        }
        let news = async {
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
                repairs.has_written(Instant::now());
            }
        };
        tokio::select! {
            never = writing => never,
            goes_on = news => {
                if !goes_on {
                    return;
                }
            }
        }
    }
}

/// Waits until another client has removed or changed conditions that a report has written. Our own write changes them too,
/// and leaves nothing to write.
async fn wait_for_removal(
    ctx: &Context,
    report: &Report,
    source: &watch::Receiver<Arc<CatalogSource>>,
    conditions: &mut watch::Receiver<Vec<Condition>>,
    repairs: &Pace,
) {
    loop {
        if conditions.changed().await.is_err() {
            return std::future::pending().await;
        }
        sleep(repairs.rest(Instant::now())).await;
        if !is_written(report, &source.borrow(), (ctx.now)()) {
            return;
        }
    }
}

/// Waits until a catalog is served in another way.
async fn until(serving: Option<&Serving>, key: &Key, was: Option<&State>, changes: &mut Changes) {
    loop {
        changes.changed().await;
        let now = serving.and_then(|it| it.state(key));
        if now.as_ref() != was {
            return;
        }
    }
}

async fn write(
    ctx: &Context,
    key: &Key,
    report: &Report,
    source: &watch::Receiver<Arc<CatalogSource>>,
) {
    let api: Api<Found> = Api::namespaced(ctx.client.clone(), &key.namespace);
    let mut pause = SHORTEST_PAUSE;
    loop {
        let newest = Arc::clone(&source.borrow());
        match try_to(ctx, &api, report, (*newest).clone()).await {
            Ok(()) => return,
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(error) => {
                warn!(catalog = %key, %error, "the status of a CatalogSource cannot be written");
            }
        }
        sleep(spread(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn try_to(
    ctx: &Context,
    api: &Api<Found>,
    report: &Report,
    mut now: CatalogSource,
) -> Result<(), kube::Error> {
    let params = PatchParams::default();
    let mut tries = 0..TRIES;
    loop {
        // Whatever has become of it since, there will be another report on.
        if !is_same(&report.of, &now) {
            return Ok(());
        }
        let name = now.name_any();
        let version = now.metadata.resource_version.clone();
        let written = if let Some(image) = &report.image {
            let patch =
                json!({"metadata": {"resourceVersion": version}, "spec": image_of(&now, image)});
            let written = api.patch(&name, &params, &Patch::Merge(patch)).await;
            if written.is_ok() {
                info!(catalog = %format!("{}/{name}", now.namespace().unwrap_or_default()), image, "wrote the image of a template");
                return Ok(());
            }
            written
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
        match written {
            Ok(_) => return Ok(()),
            // Somebody was quicker.
            Err(kube::Error::Api(status)) if status.code == 409 && tries.next().is_some() => {
                now = api.get(&name).await?.0;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Applies our conditions to a status that OLM writes, and nothing else.
async fn apply_conditions(
    api: &Api<Found>,
    report: &Report,
    now: &CatalogSource,
    at: jiff::Timestamp,
) -> Result<Found, kube::Error> {
    let Some(conditions) = due_beside_olm(report, now, at) else {
        return Ok(Found(now.clone()));
    };
    let name = now.name_any();
    let patch = json!({
        "apiVersion": CatalogSource::api_version(&()), "kind": CatalogSource::kind(&()),
        // The caller has compared the uid, and resourceVersion says that the object is still the same.
        "metadata": {"name": name, "uid": now.metadata.uid, "resourceVersion": now.metadata.resource_version},
        "status": {"conditions": conditions},
    });
    let params = PatchParams::apply(MANAGER).force();
    let applied = api
        .patch_status(&name, &params, &Patch::Apply(patch))
        .await?;
    // Earlier releases wrote them without being the manager of what they wrote, which therefore stays.
    let Some(kept) = without_leftovers(&applied.0, &conditions) else {
        return Ok(applied);
    };
    let version = &applied.0.metadata.resource_version;
    let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": kept}});
    let params = PatchParams::default();
    api.patch_status(&name, &params, &Patch::Merge(patch)).await
}

/// Returns our conditions as they are due beside OLM; `None` if the status has them.
fn due_beside_olm(
    report: &Report,
    now: &CatalogSource,
    at: jiff::Timestamp,
) -> Option<Vec<Condition>> {
    let status = now.status.as_ref();
    let before = status.map_or(&[][..], |status| &status.conditions);
    let updates = &report.seen.conditions;
    let generation = now.metadata.generation;
    let mut due = status::conditions(before, updates, OURS_BESIDE_OLM, generation, at);
    if due == before {
        return None;
    }
    due.retain(is_ours_beside_olm);
    Some(due)
}

fn is_ours_beside_olm(condition: &Condition) -> bool {
    OURS_BESIDE_OLM.contains(&condition.type_.as_str())
}

/// Returns the conditions of a status without those of our types that were not applied; `None` if all were.
fn without_leftovers(now: &CatalogSource, applied: &[Condition]) -> Option<Vec<Condition>> {
    let all = &now.status.as_ref()?.conditions;
    let is_leftover = |condition: &Condition| {
        let mut applied = applied.iter().map(|applied| &applied.type_);
        is_ours_beside_olm(condition) && !applied.any(|type_| *type_ == condition.type_)
    };
    all.iter().any(is_leftover).then(|| {
        let others = all.iter().filter(|condition| !is_leftover(condition));
        others.cloned().collect()
    })
}

/// Whether a CatalogSource has all that a report is to write into its status. After an image another report follows.
fn is_written(report: &Report, now: &CatalogSource, at: jiff::Timestamp) -> bool {
    if report.image.is_some() {
        return true;
    }
    if report.has_olm {
        return due_beside_olm(report, now, at).is_none();
    }
    let was = now.status.clone().unwrap_or_default();
    due(&was, report, now.metadata.generation, at).is_none()
}

/// Reports whether what was found out of the one is true of the other.
fn is_same(of: &CatalogSource, now: &CatalogSource) -> bool {
    // Others annotate it as they like; what is followed is not begun anew for that.
    (&of.metadata.uid, &of.spec) == (&now.metadata.uid, &now.spec)
        && templates(of).eq(templates(now))
}

/// What to write into the spec, in the way in which it names its image.
fn image_of(source: &CatalogSource, image: &str) -> Value {
    let spec = serde_json::to_value(&source.spec).unwrap_or_default();
    if spec.get("catalogImageSource").is_some() {
        json!({"catalogImageSource": {"catalogImage": image}})
    } else {
        json!({"image": image})
    }
}

/// Returns the fields to write into a status that OLM does not write: those that change, and `null` for those that are removed.
fn due(
    was: &CatalogSourceStatus,
    report: &Report,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> Option<Value> {
    let due = status::status(was, &report.seen, OURS, generation, now);
    let map = |status: &CatalogSourceStatus| match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let (was, mut due) = (map(was), map(&due));
    let gone = was.keys().filter(|name| !due.contains_key(*name));
    let gone: Vec<String> = gone.cloned().collect();
    due.retain(|name, value| was.get(name) != Some(value));
    // A member that has gone inside of one that has not is not merged away.
    for (name, value) in &mut due {
        let (Some(Value::Object(before)), Value::Object(value)) = (was.get(name), value) else {
            continue;
        };
        for name in before.keys() {
            value.entry(name.clone()).or_insert(Value::Null);
        }
    }
    due.extend(gone.into_iter().map(|name| (name, Value::Null)));
    (!due.is_empty()).then_some(Value::Object(due))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogs::{
        status::{Connection, Served},
        template::Told,
    };

    fn source(spec: &Value) -> CatalogSource {
        object!({"metadata": {"name": "a"}, "spec": spec})
    }

    fn report(seen: Seen, has_olm: bool) -> Report {
        Report {
            of: Arc::new(source(&json!({"sourceType": "grpc", "image": "a:1"}))),
            seen,
            image: None,
            has_olm,
        }
    }

    fn patch(was: &Value, seen: Seen) -> Option<Value> {
        let was = serde_json::from_value(was.clone()).unwrap();
        let report = report(seen, false);
        due(&was, &report, Some(1), jiff::Timestamp::UNIX_EPOCH)
    }

    // parity: switch-olm-5, serve-26
    #[test]
    fn only_what_changes_is_written() {
        let epoch = "1970-01-01T00:00:00Z";
        let (address, connection) = ("a:1".to_owned(), Connection::Ready);
        let well =
            with!(Seen::default() => served: Some(Served { address, service: None, connection }));
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
            // An image is written where the spec has it.
            image_of(&source(&json!({"sourceType": "grpc", "image": "a:1"})), "a:2") => json!({"image": "a:2"});
        }
    }

    // parity: switch-olm-5
    #[test]
    fn beside_olm_only_own_conditions_are_due() {
        let epoch = jiff::Timestamp::UNIX_EPOCH;
        let update = |type_: &&'static str| Told {
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
        let (ours, olms) = ("resolved_image", "TemplatesHaveResolved");
        // The conditions of the status, the reported ones, the applied ones, and the rest if leftovers are removed.
        for (was, reported, due, left) in ::tests::rows![
            json!([]), &[][..], None => None;
            json!([condition(olms, "x")]), &[], None => None;
            json!([]), &[ours], Some(json!([condition(ours, "b")])) => None;
            json!([condition(ours, "b")]), &[ours], None => None;
            json!([condition(olms, "x"), condition(ours, "old")]), &[ours], Some(json!([condition(ours, "b")])) => None;
            json!([condition(ours, "b"), condition(olms, "x")]), &[], Some(json!([])) => Some(json!([condition(olms, "x")]));
        ] {
            let seen = with!(Seen::default() => conditions: reported.iter().map(update).collect());
            let report = report(seen, true);
            let mut now = source(&json!({"sourceType": "grpc", "image": "a:1"}));
            now.metadata.generation = Some(1);
            now.status =
                serde_json::from_value(json!({"message": "OLM's", "conditions": was})).unwrap();
            let found = due_beside_olm(&report, &now, epoch);
            assert_eq!(found.as_ref().map(|found| json!(found)), due, "{was}");
            assert_eq!(is_written(&report, &now, epoch), due.is_none(), "{was}");
            let found = without_leftovers(&now, &found.unwrap_or(own_conditions(&now)));
            assert_eq!(found.map(|found| json!(found)), left, "{was}");
        }
    }

    #[test]
    fn what_others_annotate_makes_no_report_a_former_one() {
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

//! Writes into a CatalogSource what is to be said of it. The only one who does.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::api::catalog_source::{CatalogSource, CatalogSourceStatus};
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use super::{
    Key,
    follow::Told,
    found::Found,
    plan::templates,
    serving::{Serving, State},
    status::{self, Seen},
    template::{OURS, OURS_BESIDE_OLM},
    waiting::Changes,
};
use crate::{context::Context, watches::spread};

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

/// Writes each report, for ever; one that is out of date is given up.
pub(super) async fn write_all(
    ctx: &Context,
    key: &Key,
    serving: Option<&Serving>,
    (mut reports, mut pod): (
        watch::Receiver<Option<Report>>,
        watch::Receiver<Option<Told>>,
    ),
    source: watch::Receiver<Arc<CatalogSource>>,
) {
    let mut changes = serving.map(|it| it.changes(key));
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
            if let Some(report) = &report {
                write(ctx, key, report, &source).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = writing => {}
            goes_on = news => {
                if !goes_on {
                    return;
                }
            }
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

/// Whether what was found out of the one is true of the other.
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

/// What to write into the status, if anything: what has changed, and `null` for what is to go.
fn due(
    was: &CatalogSourceStatus,
    report: &Report,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> Option<Value> {
    let due = if report.has_olm {
        let told = &report.seen.conditions;
        let conditions =
            status::conditions(&was.conditions, told, OURS_BESIDE_OLM, generation, now);
        CatalogSourceStatus {
            conditions,
            ..was.clone()
        }
    } else {
        status::status(was, &report.seen, OURS, generation, now)
    };
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
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "a"}, "spec": spec,
        });
        serde_json::from_value(source).unwrap()
    }

    fn patch(was: &Value, seen: Seen, has_olm: bool) -> Option<Value> {
        let report = Report {
            of: Arc::new(source(&json!({"sourceType": "grpc", "image": "a:1"}))),
            seen,
            image: None,
            has_olm,
        };
        let was = serde_json::from_value(was.clone()).unwrap();
        due(&was, &report, Some(1), jiff::Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn only_what_changes_is_written() {
        let epoch = "1970-01-01T00:00:00Z";
        let address = Served {
            address: "a:1".to_owned(),
            service: None,
            connection: Connection::Ready,
        };
        let well = Seen {
            served: Some(address),
            ..Seen::default()
        };
        let state = json!({"address": "a:1", "lastConnect": epoch, "lastObservedState": "READY"});
        let is = json!({"registryService": {"protocol": "grpc", "createdAt": epoch}, "connectionState": state});
        assert_eq!(patch(&is, well.clone(), false), None);
        assert_eq!(patch(&json!({}), well.clone(), false), Some(is.clone()));
        let mut before = is.clone();
        before["message"] = "no".into();
        before["registryService"]["serviceName"] = "mine".into();
        let service = json!({"protocol": "grpc", "createdAt": epoch, "serviceName": null});
        assert_eq!(
            patch(&before, well.clone(), false),
            Some(json!({"message": null, "registryService": service}))
        );
        // OLM's own words are OLM's.
        assert_eq!(patch(&before, well.clone(), true), None);
        let told = Told {
            type_: "resolved_image",
            is_true: true,
            reason: "a",
            message: "b".to_owned(),
        };
        let seen = Seen {
            conditions: vec![told],
            ..well
        };
        let written = patch(&before, seen, true).unwrap();
        let names: Vec<&String> = written.as_object().unwrap().keys().collect();
        assert_eq!(names, ["conditions"]);
    }

    #[test]
    fn an_image_is_written_where_the_spec_has_it() {
        let spec = json!({"sourceType": "grpc", "image": "a:1"});
        let written = image_of(&source(&spec), "a:2");
        assert_eq!(written, json!({"image": "a:2"}));
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
        for (now, expected) in [
            (annotated(&one, &json!({"example.com/note": "x"})), true),
            (annotated(&one, &template), false),
            (annotated(&two, &json!({})), false),
        ] {
            assert_eq!(is_same(&of, &now), expected, "{now:?}");
        }
    }
}

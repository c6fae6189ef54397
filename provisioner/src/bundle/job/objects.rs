//! What is asked of the API server for Jobs.

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
};
use manifests::api::labels;
use serde::de::DeserializeOwned;

use super::{REFUSALS, admit};
use crate::{
    bundle::fetch::{ApiError, ask},
    context::Context,
};

/// The pods that a Job has made.
pub(super) async fn pods(ctx: &Context, job: &Job) -> Result<Vec<Pod>, ApiError> {
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &ctx.settings.system_namespace);
    let wanted = format!("{}=Bundle", labels::OWNER_KIND);
    let wanted = match job.labels().get(labels::OWNER_NAME) {
        Some(bundle) => format!("{wanted},{}={bundle}", labels::OWNER_NAME),
        None => wanted,
    };
    let its = |pods: Vec<Pod>| -> Vec<Pod> {
        let is_its = |pod: &Pod| admit::is_owned(&pod.metadata, "Job", job.uid().as_deref());
        pods.into_iter().filter(is_its).collect()
    };
    let pods = its(list(&api, &ListParams::default().labels(&wanted)).await?);
    let made = job.status.as_ref().is_some_and(|status| {
        status.active.unwrap_or_default() > 0 || status.failed.unwrap_or_default() > 0
    });
    if pods.is_empty() && made {
        // They are gone, or somebody has taken their labels.
        return Ok(its(list(&api, &ListParams::default()).await?));
    }
    Ok(pods)
}

/// The reason why the last pod that a Job wanted to make after that time was refused.
pub(super) async fn refused(
    ctx: &Context,
    job: &Job,
    after: Timestamp,
) -> Result<Option<String>, ApiError> {
    let api: Api<Event> = Api::namespaced(ctx.client.clone(), &ctx.settings.system_namespace);
    let wanted = format!(
        "{REFUSALS},involvedObject.uid={}",
        job.uid().unwrap_or_default()
    );
    let events: Vec<Event> = list(&api, &ListParams::default().fields(&wanted)).await?;
    let time = |event: &Event| {
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        last.or_else(|| event.event_time.as_ref().map(|time| time.0))
    };
    let last = events
        .into_iter()
        .filter(|event| time(event).is_none_or(|time| time > after))
        .max_by_key(time);
    Ok(last.and_then(|event| event.message))
}

pub(super) async fn list<K>(api: &Api<K>, params: &ListParams) -> Result<Vec<K>, ApiError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    Ok(ask(api.list(params)).await?.items)
}

/// Removes this very Job, and its pods.
pub(super) async fn delete(api: &Api<Job>, job: &Job) -> Result<(), ApiError> {
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: job.uid(),
        resource_version: None,
    });
    let name = job.name_any();
    match ask(api.delete(&name, &params)).await {
        // It is gone, or another one has its name.
        Err(ApiError::Kube(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(()),
        deleted => deleted.map(drop),
    }
}

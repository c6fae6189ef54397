//! API requests for unpack Jobs, their pods and their events.

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

use super::{REFUSALS, authorize};
use crate::controllers::{
    bundle::fetch::{ApiError, with_timeout},
    context::Context,
};

/// Returns the pods of a Job.
pub(super) async fn pods(ctx: &Context, job: &Job) -> Result<Vec<Pod>, ApiError> {
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &ctx.settings.system_namespace);
    let selector = format!("{}=Bundle", labels::OWNER_KIND);
    let selector = match job.labels().get(labels::OWNER_NAME) {
        Some(bundle) => format!("{selector},{}={bundle}", labels::OWNER_NAME),
        None => selector,
    };
    let owned_by_job = |pods: Vec<Pod>| -> Vec<Pod> {
        let is_owned = |pod: &Pod| authorize::is_owned(&pod.metadata, "Job", job.uid().as_deref());
        pods.into_iter().filter(is_owned).collect()
    };
    let pods = owned_by_job(list(&api, &ListParams::default().labels(&selector)).await?);
    let has_created_pods = job.status.as_ref().is_some_and(|status| {
        status.active.unwrap_or_default() > 0 || status.failed.unwrap_or_default() > 0
    });
    if pods.is_empty() && has_created_pods {
        // The pods are deleted, or a policy has removed their labels.
        return Ok(owned_by_job(list(&api, &ListParams::default()).await?));
    }
    Ok(pods)
}

/// Returns the message of the last `FailedCreate` event of a Job after `after`: the reason why its pod was rejected.
pub(super) async fn refused(
    ctx: &Context,
    job: &Job,
    after: Timestamp,
) -> Result<Option<String>, ApiError> {
    let api: Api<Event> = Api::namespaced(ctx.client.clone(), &ctx.settings.system_namespace);
    let selector = format!(
        "{REFUSALS},involvedObject.uid={}",
        job.uid().unwrap_or_default()
    );
    let events: Vec<Event> = list(&api, &ListParams::default().fields(&selector)).await?;
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
    Ok(with_timeout(api.list(params)).await?.items)
}

/// Deletes a Job with its pods, unless the Job was replaced.
pub(super) async fn delete(api: &Api<Job>, job: &Job) -> Result<(), ApiError> {
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: job.uid(),
        resource_version: None,
    });
    let name = job.name_any();
    match with_timeout(api.delete(&name, &params)).await {
        // The Job does not exist, or another Job has its name.
        Err(ApiError::Kube(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(()),
        deleted => deleted.map(drop),
    }
}

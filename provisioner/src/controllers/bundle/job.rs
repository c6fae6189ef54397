//! Unpack Jobs: images that a node pulls instead of the provisioner.
//!
//! ```text
//!  Bundle ─ manifest ──> Job ──> pod: the image as a volume, or the program in it ─ PUT /unpack/<bundle>.tgz ┐
//!    ▲                    │ state and message for the condition                                    authorize │
//!    └───── status ◄──────┴───── annotation: the content's digest ◄────── store ◄── transfer::receive ◄──────┘
//! ```
//!
//! A Bundle has one Job, identified by its name and the uid of its owner. Only the declared specs are compared, never the
//! result of defaulting and admission. Each Job of a Bundle waits longer than the one before.

mod api;
mod authorize;
mod backoff;
mod error;
mod manifest;
mod mutation;
mod queue;
mod state;

use std::{collections::BTreeSet, time::Duration};

use apply::backoff::left;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use manifests::{
    api::{
        bundle::{Bundle, BundleSource, Phase, PullMode, SkippedEntries},
        labels,
    },
    error::chain,
    version::KubeVersion,
};
use tokio::time::{self, Instant};
use tracing::{info, warn};
use unpacker::{Digest, Source, source::Image};

use super::{
    credentials,
    fetch::{self, ApiError, FetchState, with_timeout},
    source, uid,
};
use crate::{
    controllers::context::Context,
    runtime::settings::{Settings, UnpackMode},
};

use api::{delete, list, pods, refused};
pub(crate) use authorize::{UploadDenied, authorize_upload};
pub use backoff::JobBackoff;
pub use error::Error;
pub(crate) use manifest::{ACCOUNT, AUDIENCE, bundle_of, name};
pub use queue::JobQueue;
use state::JobState;

/// First Kubernetes version that enables image volumes by default.
const IMAGE_VOLUMES: KubeVersion = KubeVersion::new(1, 35);
/// Timeout for resolving a tag to a digest: where nodes have to pull, the registry may be unreachable from the provisioner.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Field selector for Events of Jobs that could not create a pod.
pub(super) const REFUSALS: &str = "involvedObject.kind=Job,reason=FailedCreate";
/// Minimum delay between a failed Job and the next one. It applies even if earlier Jobs are unknown.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(15);

/// Reports whether a node pulls the image of a Bundle.
pub(crate) fn uses_job(settings: &Settings, source: &BundleSource) -> bool {
    let image = source.image.as_ref().filter(|_| source.type_ == "image");
    image.is_some_and(|image| image.pull.unwrap_or(settings.jobs.pull) == PullMode::Job)
}

/// Returns the digest of the content that a Job has delivered.
pub(crate) fn delivered_digest(job: &Job) -> Option<Digest> {
    job.annotations()
        .get(labels::DELIVERED_DIGEST)?
        .parse()
        .ok()
}

/// Returns the entries that were skipped in the content that a Job has delivered.
fn skipped(job: &Job) -> Option<SkippedEntries> {
    let json = job.annotations().get(labels::SKIPPED)?;
    SkippedEntries::new(&serde_json::from_str(json).ok()?)
}

/// Returns the digests of the content that the Jobs of all Bundles have delivered.
pub(super) async fn list_delivered(ctx: &Context) -> Result<BTreeSet<Digest>, ApiError> {
    let selector = format!("{}=Bundle", labels::OWNER_KIND);
    let jobs: Vec<Job> = list(&api(ctx), &ListParams::default().labels(&selector)).await?;
    Ok(jobs.iter().filter_map(delivered_digest).collect())
}

/// Fetches the content of an image by a Job: creates the Job, observes its progress, or returns the content it has
/// delivered.
pub(super) async fn fetch_with_job(
    ctx: &Context,
    bundle: &Bundle,
    image: &Image,
) -> Result<FetchState, fetch::Error> {
    if !ctx.leader.get() {
        return Ok(starting("waiting for the leader to create the Job"));
    }
    let reconciler = JobReconciler {
        ctx,
        bundle,
        jobs: api(ctx),
        name: name(bundle),
        qualified_name: qualified_name(ctx, &name(bundle)),
    };
    let result = fetch::get(&reconciler.jobs, &reconciler.name).await;
    let Some(job) = result.map_err(|source| reconciler.failed("get", source))? else {
        return reconciler.ensure(image).await;
    };
    if !authorize::belongs_to(&job, bundle) || state::is_finished(&job) {
        ctx.job_queue.finish(uid(bundle));
    }
    if !authorize::belongs_to(&job, bundle) {
        return Err(Error::NameConflict {
            job: reconciler.qualified_name,
        }
        .into());
    }
    if job.metadata.deletion_timestamp.is_some() {
        return Ok(starting(&format!(
            "Job {} is being deleted",
            reconciler.qualified_name
        )));
    }
    if let Some(digest) = delivered_digest(&job) {
        return match fetch::hold(ctx, digest).await? {
            Some(stored) => {
                let resolved = resolved(&job, image, &bundle.spec.source);
                Ok(FetchState::ready(resolved, stored, skipped(&job)))
            }
            // The store has lost the content, possibly more than once.
            None => reconciler.replace(&job).await,
        };
    }
    let declared = reconciler.declare(&manifest::image(&job, image)).await?;
    if job.annotations().get(labels::SPEC_HASH) != declared.annotations().get(labels::SPEC_HASH) {
        return reconciler.replace(&job).await;
    }
    if let Some(message) = job.annotations().get(labels::REJECTED) {
        let message = message.clone();
        return Err(Error::Rejected { message }.into());
    }
    match reconciler.state(&job).await? {
        JobState::Starting(message) => Ok(starting(&message)),
        JobState::Waiting(message) => Ok(FetchState::Waiting {
            message,
            is_problem: true,
            requeue_after: None,
        }),
        JobState::Running => Ok(FetchState::Unpacking),
        JobState::Stuck(message) => Err(Error::Stuck { message }.into()),
        JobState::Failed { message, since } => {
            let wait = ctx
                .job_backoff
                .wait(uid(bundle), Instant::now())
                .max(remaining_delay(since, (ctx.now)()));
            if wait.is_zero() {
                return reconciler.replace(&job).await;
            }
            let requeue_after = wait;
            Err(Error::Failed {
                message,
                requeue_after,
            }
            .into())
        }
    }
}

/// Returns the remainder of [`MIN_RETRY_DELAY`] since the failure of a Job. A failure at an unknown time, or far in the
/// future because of a wrong clock, causes no delay, so that it cannot prevent retries.
fn remaining_delay(since: Option<Timestamp>, now: Timestamp) -> Duration {
    let end = since.and_then(|since| since.checked_add(MIN_RETRY_DELAY).ok());
    let left = end.and_then(|end| left(end, 2 * MIN_RETRY_DELAY, now));
    left.unwrap_or_default()
}

/// Deletes a Job that has done its work but does not end, because a container injected by a policy keeps its pod running. A
/// Job that ends is deleted by its TTL.
pub(super) async fn delete_finished(ctx: &Context, bundle: &Bundle) -> Result<(), ApiError> {
    if !ctx.leader.get() {
        return Ok(());
    }
    if ctx.job_backoff.is_finished(uid(bundle)) {
        ctx.job_queue.finish(uid(bundle));
        return Ok(());
    }
    let jobs = api(ctx);
    let job: Option<Job> = fetch::get(&jobs, &name(bundle)).await?;
    let Some(job) = job.filter(|job| authorize::belongs_to(job, bundle)) else {
        ctx.job_backoff.mark_finished(uid(bundle));
        ctx.job_queue.finish(uid(bundle));
        return Ok(());
    };
    if state::is_finished(&job) || job.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let pods = pods(ctx, &job).await?;
    if state::is_lingering(&pods) {
        info!(
            job = job.name_any(),
            "deleting a Job whose pod still runs after the upload"
        );
        delete(&jobs, &job).await?;
    }
    Ok(())
}

/// Reconciler of the Job of one Bundle.
struct JobReconciler<'a> {
    ctx: &'a Context,
    bundle: &'a Bundle,
    jobs: Api<Job>,
    name: String,
    /// Namespace and name of the Job, for messages.
    qualified_name: String,
}

impl JobReconciler<'_> {
    /// Creates the Job, unless the back-off after the previous one has not passed or too many other Jobs run.
    async fn ensure(&self, image: &Image) -> Result<FetchState, fetch::Error> {
        let (ctx, uid) = (self.ctx, uid(self.bundle));
        let wait = ctx.job_backoff.wait(uid, Instant::now());
        if !wait.is_zero() {
            ctx.job_queue.finish(uid);
            let phase = self.bundle.status.as_ref().and_then(|status| status.phase);
            return Ok(FetchState::Waiting {
                message: format!(
                    "Job {} no longer exists; a new one will be created",
                    self.qualified_name
                ),
                // The reported reason of the failure is more useful than this message.
                is_problem: phase == Some(Phase::Unpacking),
                requeue_after: Some(wait),
            });
        }
        ctx.job_queue.wait_until_listed().await;
        if !ctx.job_queue.try_start(uid, &self.bundle.name_any()) {
            return Ok(starting("queued behind other unpack Jobs"));
        }
        let created = self.create(image).await;
        if created.is_err() {
            ctx.job_queue.finish(uid);
        }
        created
    }

    async fn create(&self, image: &Image) -> Result<FetchState, fetch::Error> {
        let (ctx, bundle) = (self.ctx, self.bundle);
        let declared = self.declare(&self.resolve(image).await?).await?;
        let params = PostParams::default();
        let created = with_timeout(self.jobs.create(&params, &declared)).await;
        // After a denied request the Job does not exist. After any other failure it may exist.
        if !matches!(&created, Err(ApiError::Kube(kube::Error::Api(status))) if is_denial(status.code))
        {
            ctx.job_backoff.made(uid(bundle), Instant::now());
        }
        let created = match created {
            Ok(created) => created,
            Err(ApiError::Kube(kube::Error::Api(status))) if status.code == 409 => {
                return Ok(starting(&format!(
                    "Job {} already exists",
                    self.qualified_name
                )));
            }
            Err(source) => return Err(self.failed("create", source).into()),
        };
        info!(
            bundle = bundle.name_any(),
            job = self.name,
            "created unpack Job"
        );
        if let Some(missing) = mutation::removed_by_admission(&declared, &created) {
            delete(&self.jobs, &created)
                .await
                .map_err(|source| self.failed("delete", source))?;
            let job = self.qualified_name.clone();
            return Err(Error::Mutated { job, missing }.into());
        }
        Ok(starting(&format!(
            "waiting for Job {} to create its pod",
            self.qualified_name
        )))
    }

    /// Deletes a Job that has to be replaced. The next reconcile creates the new one.
    async fn replace(&self, job: &Job) -> Result<FetchState, fetch::Error> {
        let wait = self.ctx.job_backoff.wait(uid(self.bundle), Instant::now());
        if !wait.is_zero() {
            return Ok(FetchState::Waiting {
                message: format!("Job {} will be replaced by a new one", self.qualified_name),
                is_problem: false,
                requeue_after: Some(wait),
            });
        }
        delete(&self.jobs, job)
            .await
            .map_err(|source| self.failed("delete", source))?;
        Ok(starting(&format!(
            "Job {} will be replaced by a new one",
            self.qualified_name
        )))
    }

    async fn declare(&self, image: &Image) -> Result<Job, fetch::Error> {
        let settings = &self.ctx.settings;
        let mode = match settings.jobs.mode {
            UnpackMode::Auto => {
                let version = self.ctx.versions.kubernetes().await;
                let version = version.map_err(|source| self.failed("create", source.into()))?;
                if version >= IMAGE_VOLUMES {
                    UnpackMode::ImageVolume
                } else {
                    UnpackMode::InitContainer
                }
            }
            mode => mode,
        };
        let job = manifest::build_job(self.bundle, image, mode, settings);
        Ok(job.map_err(|source| Error::Serialize {
            job: self.qualified_name.clone(),
            source,
        })?)
    }

    /// Pins a tag if the registry can be queried. Otherwise only the digest of the content is pinned.
    async fn resolve(&self, image: &Image) -> Result<Image, fetch::Error> {
        if image.reference.is_pinned() {
            return Ok(image.clone());
        }
        let (ctx, spec) = (self.ctx, &self.bundle.spec.source);
        let access = credentials::load(ctx, spec).await?;
        // For a digest, the node would not use these mirrors.
        if access.mirrors.has_mirrors_for_tags(&image.reference) {
            return Ok(image.clone());
        }
        let source = Source::Image(image.clone());
        let resolving = time::timeout(
            RESOLVE_TIMEOUT,
            Box::pin(unpacker::resolve(&source, &access)),
        )
        .await;
        let reason = match resolving {
            Ok(Ok(Source::Image(pinned))) => return Ok(pinned),
            Ok(Ok(_)) => String::new(), // an image becomes an image
            Ok(Err(error)) => chain(&error),
            Err(_) => format!("no response within {} s", RESOLVE_TIMEOUT.as_secs()),
        };
        warn!(
            bundle = self.bundle.name_any(),
            image = %image.reference,
            why = reason,
            "failed to pin the tag of an image that a node pulls"
        );
        Ok(image.clone())
    }

    async fn state(&self, job: &Job) -> Result<JobState, fetch::Error> {
        let ctx = self.ctx;
        let pods = pods(ctx, job).await;
        let pods = pods.map_err(|source| self.failed("list the pods of", source))?;
        let rejection = match state::without_pod(&pods) {
            Some(since) => refused(ctx, job, since)
                .await
                .map_err(|source| self.failed("list the events of", source))?,
            None => None,
        };
        let previous = state::previous_message(self.bundle);
        Ok(state::evaluate(job, &pods, rejection.as_deref(), previous))
    }

    fn failed(&self, what: &'static str, source: ApiError) -> Error {
        Error::Api {
            what,
            job: self.qualified_name.clone(),
            source,
        }
    }
}

/// Reports whether this status code means that the object was not created and did not exist before.
fn is_denial(code: u16) -> bool {
    (400..500).contains(&code) && code != 409
}

fn starting(message: &str) -> FetchState {
    FetchState::Waiting {
        message: message.to_owned(),
        is_problem: false,
        requeue_after: None,
    }
}

/// Returns the resolved source that a Job was created for.
fn resolved(job: &Job, image: &Image, spec: &BundleSource) -> BundleSource {
    let pinned = Source::Image(manifest::image(job, image));
    source::resolved(spec, Some(&pinned))
}

fn api(ctx: &Context) -> Api<Job> {
    Api::namespaced(ctx.client.clone(), &ctx.settings.system_namespace)
}

fn qualified_name(ctx: &Context, name: &str) -> String {
    format!("{}/{name}", ctx.settings.system_namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_clock_does_not_prevent_the_next_job() {
        let now = Timestamp::UNIX_EPOCH;
        let failed = |seconds| Some(Timestamp::from_second(seconds).unwrap());
        assert_each!(|since, seconds| remaining_delay(since, now) => Duration::from_secs(seconds);
            failed(0) => 15;
            failed(-5) => 10;
            failed(-20) => 0;
            // The clock of the controller manager is a little ahead.
            failed(5) => 20;
            failed(600) => 0;
            None => 0;
        );
    }
}

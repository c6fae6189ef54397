//! Images that a node pulls: a Bundle's unpack Job, and what becomes of it.
//!
//! ```text
//!  Bundle ── declare ──> Job ──> pod: the image as a volume, or our program in it ── PUT /unpack/<bundle>.tgz ─┐
//!    ▲                    │ what is in its way: outcome, in words                                              │ admit
//!    └───── status ◄──────┴───── annotation: the content's digest ◄────── store ◄────── wire::receive ◄────────┘
//! ```
//!
//! There is one Job for a Bundle, known by its name and by the uid of its owner. What is compared is what was declared,
//! never what defaults and other people's policies have made of it; and whatever happens to Jobs, the next one waits
//! for longer each time.

mod admit;
mod altered;
mod declare;
mod error;
mod objects;
mod outcome;
mod tries;
mod turns;

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use manifests::{
    api::{
        bundle::{Bundle, BundleSource, Phase, Pull, SkippedEntries},
        labels,
    },
    version::KubeVersion,
};
use tokio::time::{self, Instant};
use tracing::{info, warn};
use unpacker::{Digest, Source, job::chain, source::Image};

use super::{
    access,
    fetch::{self, ApiError, Fetched, ask},
    source, uid,
};
use crate::{
    context::Context,
    settings::{Mode, Settings},
};

pub(crate) use admit::{Refused, admit};
pub(crate) use declare::{ACCOUNT, AUDIENCE, bundle_of, name};
pub use error::Error;
use objects::{delete, list, pods, refused};
use outcome::State;
pub use tries::Tries;
pub use turns::Turns;

/// The first version whose clusters offer image volumes unless somebody has switched them off.
const IMAGE_VOLUMES: KubeVersion = KubeVersion::new(1, 35);
/// How long a registry may take to tell a tag's digest: where nodes have to pull, nobody may ever answer.
const RESOLVE: Duration = Duration::from_secs(10);
/// Which events tell that a Job could not make a pod.
pub(super) const REFUSALS: &str = "involvedObject.kind=Job,reason=FailedCreate";
/// How long after a Job has failed another one is made at the earliest, if nothing is known of those before.
const PAUSE: Duration = Duration::from_secs(15);

/// Reports whether a node pulls a Bundle's image.
pub(crate) fn pulls(settings: &Settings, source: &BundleSource) -> bool {
    let image = source.image.as_ref().filter(|_| source.type_ == "image");
    image.is_some_and(|image| image.pull.unwrap_or(settings.jobs.pull) == Pull::Job)
}

/// The content that a Job has handed over.
pub(crate) fn handed_over(job: &Job) -> Option<Digest> {
    job.annotations().get(labels::HANDED_OVER)?.parse().ok()
}

/// Entries that were skipped in the content that a Job has handed over.
fn skipped(job: &Job) -> Option<SkippedEntries> {
    let json = job.annotations().get(labels::SKIPPED)?;
    SkippedEntries::new(&serde_json::from_str(json).ok()?)
}

/// What Jobs have handed over, of whatever Bundle.
pub(super) async fn all_handed_over(ctx: &Context) -> Result<BTreeSet<Digest>, ApiError> {
    let wanted = format!("{}=Bundle", labels::OWNER_KIND);
    let jobs: Vec<Job> = list(&api(ctx), &ListParams::default().labels(&wanted)).await?;
    Ok(jobs.iter().filter_map(handed_over).collect())
}

/// Brings an image's content into the store by a Job: makes it, sees how it is getting on, or takes what it has handed
/// over.
pub(super) async fn bring(
    ctx: &Context,
    bundle: &Bundle,
    image: &Image,
) -> Result<Fetched, fetch::Error> {
    if !ctx.leading.get() {
        return Ok(begun("another replica leads, and makes the Job"));
    }
    let work = Work {
        ctx,
        bundle,
        jobs: api(ctx),
        name: name(bundle),
        full: full(ctx, &name(bundle)),
    };
    let found = fetch::get(&work.jobs, &work.name).await;
    let Some(job) = found.map_err(|source| work.failed("get", source))? else {
        return work.make(image).await;
    };
    if !admit::is_of(&job, bundle) || outcome::is_finished(&job) {
        ctx.turns.leave(uid(bundle));
    }
    if !admit::is_of(&job, bundle) {
        return Err(Error::Taken { job: work.full }.into());
    }
    if job.metadata.deletion_timestamp.is_some() {
        return Ok(begun(&format!("Job {} is being deleted", work.full)));
    }
    if let Some(digest) = handed_over(&job) {
        return match fetch::hold(ctx, digest).await? {
            Some(stored) => {
                let resolved = resolved(&job, image, &bundle.spec.source);
                Ok(Fetched::brought(resolved, stored, skipped(&job)))
            }
            // The store has lost it, and perhaps more than once.
            None => work.again(&job).await,
        };
    }
    let declared = work.declare(&declare::image(&job, image)).await?;
    if job.annotations().get(labels::DECLARED) != declared.annotations().get(labels::DECLARED) {
        return work.again(&job).await;
    }
    if let Some(message) = job.annotations().get(labels::REJECTED) {
        let message = message.clone();
        return Err(Error::Rejected { message }.into());
    }
    match work.state(&job).await? {
        State::Begun(message) => Ok(begun(&message)),
        State::Held(message) => Ok(Fetched::Waits {
            message,
            is_problem: true,
            again: None,
        }),
        State::Runs => Ok(Fetched::Unpacking),
        State::Stuck(message) => Err(Error::Stuck { message }.into()),
        State::Failed { message, since } => {
            // By clocks of several machines: they may differ, but not by so much that nothing is tried any more.
            let passed = since.map_or(Duration::ZERO, |since| {
                let passed = (ctx.now)().duration_since(since);
                Duration::try_from(passed).unwrap_or_default()
            });
            let least = PAUSE.saturating_sub(passed);
            let wait = ctx.tries.wait(uid(bundle), Instant::now()).max(least);
            if wait.is_zero() {
                return work.again(&job).await;
            }
            let again = wait;
            Err(Error::Failed { message, again }.into())
        }
    }
}

/// Removes a Job that has done its work and does not end, because somebody's policy has put a container into its pod
/// that does not. One that ends removes itself after a while.
pub(super) async fn tidy(ctx: &Context, bundle: &Bundle) -> Result<(), ApiError> {
    if !ctx.leading.get() {
        return Ok(());
    }
    if ctx.tries.is_tidy(uid(bundle)) {
        ctx.turns.leave(uid(bundle));
        return Ok(());
    }
    let jobs = api(ctx);
    let job: Option<Job> = fetch::get(&jobs, &name(bundle)).await?;
    let Some(job) = job.filter(|job| admit::is_of(job, bundle)) else {
        ctx.tries.tidied(uid(bundle));
        ctx.turns.leave(uid(bundle));
        return Ok(());
    };
    if outcome::is_finished(&job) || job.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let pods = pods(ctx, &job).await?;
    if outcome::lingers(&pods) {
        info!(
            job = job.name_any(),
            "removing a Job whose pod does not end although its work is done"
        );
        delete(&jobs, &job).await?;
    }
    Ok(())
}

/// One Bundle's Job.
struct Work<'a> {
    ctx: &'a Context,
    bundle: &'a Bundle,
    jobs: Api<Job>,
    name: String,
    /// For messages, with its namespace.
    full: String,
}

impl Work<'_> {
    /// Makes the Job, unless the one before was made only just now, or too many others work.
    async fn make(&self, image: &Image) -> Result<Fetched, fetch::Error> {
        let (ctx, uid) = (self.ctx, uid(self.bundle));
        let wait = ctx.tries.wait(uid, Instant::now());
        if !wait.is_zero() {
            ctx.turns.leave(uid);
            let phase = self.bundle.status.as_ref().and_then(|status| status.phase);
            return Ok(Fetched::Waits {
                message: format!("Job {} is gone; another one follows", self.full),
                // Why there is none, if that was told, is more than that there is none.
                is_problem: phase == Some(Phase::Unpacking),
                again: Some(wait),
            });
        }
        ctx.turns.listed().await;
        if !ctx.turns.take(uid, &self.bundle.name_any()) {
            return Ok(begun("waiting for other unpack Jobs to finish first"));
        }
        let made = self.create(image).await;
        if made.is_err() {
            ctx.turns.leave(uid);
        }
        made
    }

    async fn create(&self, image: &Image) -> Result<Fetched, fetch::Error> {
        let (ctx, bundle) = (self.ctx, self.bundle);
        let declared = self.declare(&self.resolve(image).await?).await?;
        let params = PostParams::default();
        let created = ask(self.jobs.create(&params, &declared)).await;
        // What was denied was not made. Whatever else is answered, or not, it may have been.
        if !matches!(&created, Err(ApiError::Kube(kube::Error::Api(status))) if is_denial(status.code))
        {
            ctx.tries.made(uid(bundle), Instant::now());
        }
        let created = match created {
            Ok(created) => created,
            Err(ApiError::Kube(kube::Error::Api(status))) if status.code == 409 => {
                return Ok(begun(&format!("Job {} is there already", self.full)));
            }
            Err(source) => return Err(self.failed("create", source).into()),
        };
        info!(
            bundle = bundle.name_any(),
            job = self.name,
            "made an unpack Job"
        );
        if let Some(missing) = altered::missing(&declared, &created) {
            delete(&self.jobs, &created)
                .await
                .map_err(|source| self.failed("delete", source))?;
            let job = self.full.clone();
            return Err(Error::Altered { job, missing }.into());
        }
        Ok(begun(&format!("waiting for the pod of Job {}", self.full)))
    }

    /// Removes a Job that another one has to follow, which is made when this one is gone.
    async fn again(&self, job: &Job) -> Result<Fetched, fetch::Error> {
        let wait = self.ctx.tries.wait(uid(self.bundle), Instant::now());
        if !wait.is_zero() {
            return Ok(Fetched::Waits {
                message: format!("another Job follows {}", self.full),
                is_problem: false,
                again: Some(wait),
            });
        }
        delete(&self.jobs, job)
            .await
            .map_err(|source| self.failed("delete", source))?;
        Ok(begun(&format!("another Job follows {}", self.full)))
    }

    async fn declare(&self, image: &Image) -> Result<Job, fetch::Error> {
        let settings = &self.ctx.settings;
        let mode = match settings.jobs.mode {
            Mode::Auto => {
                let version = self.ctx.versions.kubernetes().await;
                let version = version.map_err(|source| self.failed("make", source.into()))?;
                if version >= IMAGE_VOLUMES {
                    Mode::ImageVolume
                } else {
                    Mode::InitContainer
                }
            }
            mode => mode,
        };
        let job = declare::job(self.bundle, image, mode, settings);
        Ok(job.map_err(|source| Error::Own {
            job: self.full.clone(),
            source,
        })?)
    }

    /// Pins a tag, where the registry can be asked. Where it cannot, the content's own digest is what is left.
    async fn resolve(&self, image: &Image) -> Result<Image, fetch::Error> {
        if image.reference.is_pinned() {
            return Ok(image.clone());
        }
        let (ctx, spec) = (self.ctx, &self.bundle.spec.source);
        let access = access::of(ctx, spec).await?;
        // By its digest the node would not ask these mirrors.
        if access.mirrors.has_mirrors_for_tags(&image.reference) {
            return Ok(image.clone());
        }
        let source = Source::Image(image.clone());
        let resolving = time::timeout(RESOLVE, Box::pin(unpacker::resolve(&source, &access))).await;
        let why = match resolving {
            Ok(Ok(Source::Image(pinned))) => return Ok(pinned),
            Ok(Ok(_)) => String::new(), // an image becomes an image
            Ok(Err(error)) => chain(&error),
            Err(_) => format!("no answer within {} s", RESOLVE.as_secs()),
        };
        warn!(
            bundle = self.bundle.name_any(),
            image = %image.reference,
            why,
            "the tag of an image that a node pulls is not pinned"
        );
        Ok(image.clone())
    }

    async fn state(&self, job: &Job) -> Result<State, fetch::Error> {
        let ctx = self.ctx;
        let pods = pods(ctx, job).await;
        let pods = pods.map_err(|source| self.failed("list the pods of", source))?;
        let refused = match outcome::without_pod(&pods) {
            Some(since) => refused(ctx, job, since)
                .await
                .map_err(|source| self.failed("list the events of", source))?,
            None => None,
        };
        let before = outcome::known_before(self.bundle);
        Ok(outcome::of(job, &pods, refused.as_deref(), before))
    }

    fn failed(&self, what: &'static str, source: ApiError) -> Error {
        Error::Api {
            what,
            job: self.full.clone(),
            source,
        }
    }
}

/// Reports whether this code says that nothing was made, and not that it was there already.
fn is_denial(code: u16) -> bool {
    (400..500).contains(&code) && code != 409
}

fn begun(message: &str) -> Fetched {
    Fetched::Waits {
        message: message.to_owned(),
        is_problem: false,
        again: None,
    }
}

/// What the Job was made for.
fn resolved(job: &Job, image: &Image, spec: &BundleSource) -> BundleSource {
    let pinned = Source::Image(declare::image(job, image));
    source::resolved(spec, Some(&pinned))
}

fn api(ctx: &Context) -> Api<Job> {
    Api::namespaced(ctx.client.clone(), &ctx.settings.system_namespace)
}

fn full(ctx: &Context, name: &str) -> String {
    format!("{}/{name}", ctx.settings.system_namespace)
}

//! Reconcile of one Bundle.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apply::api_error;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use kube::{ResourceExt, runtime::controller::Action};
use manifests::api::{
    Class,
    bundle::{Bundle, BundleInfo, Phase},
    condition::reason::ENTRY_REFUSED,
};
use tokio::{sync::Semaphore, time::timeout};
use unpacker::{Digest, store::Hold};

use super::{
    cache::BundleCache,
    class_of, content,
    fetch::{self, ApiError, FetchState, FetchedContent},
    job, source,
    status::{Outcome, Unpacked, is_lost, is_unpacked},
    status_writer::write,
    uid, validate,
};
use crate::{
    cluster::written_versions::Written,
    controllers::{backoff::Backoff, context::Context},
    runtime::metrics,
};

/// Maximum number of concurrent fetches. An unresponsive server delays only some of the other Bundles.
const MAX_FETCHES: usize = 16;
/// Progress is reported only for operations that take longer than this.
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(1);

/// Failure reasons for invalid content or an invalid spec, which only a change of one of them resolves. All other failures
/// may be caused by the network, the registry or a Secret.
const REFUSALS: [&str; 12] = [
    "BundleInvalid",
    "ContentChanged",
    "ContentRefused",
    "DuplicatePath",
    "ImageEmpty",
    "ImageUnsupported",
    "InvalidPath",
    "LabelInvalid",
    "LimitExceeded",
    "Panicked",
    "SourceInvalid",
    "UnknownFormat",
];

/// State that the reconciles share.
pub(super) struct BundleContext {
    pub(super) ctx: Context,
    pub(super) bundles: Arc<BundleCache>,
    /// Versions of the statuses that were written last.
    pub(super) written_versions: Written,
    /// Sender for the content that was stored for Bundles deleted during a fetch.
    abandoned: UnboundedSender<Digest>,
    backoff: Backoff,
    fetches: Semaphore,
}

impl BundleContext {
    /// Returns the shared state, and a receiver for abandoned content.
    pub(super) fn new(
        ctx: Context,
        bundles: Arc<BundleCache>,
    ) -> (Self, UnboundedReceiver<Digest>) {
        let (sender, abandoned) = mpsc::unbounded();
        let shared = Self {
            ctx,
            bundles,
            written_versions: Written::default(),
            abandoned: sender,
            backoff: Backoff::default(),
            fetches: Semaphore::new(MAX_FETCHES),
        };
        (shared, abandoned)
    }

    /// Records a failure, and returns the delay before the retry.
    pub(super) fn requeue_failed(&self, uid: &str, is_terminal: bool) -> Action {
        let delay = self.backoff.next(uid, None, is_terminal, Instant::now());
        self.ended(uid);
        Action::requeue(delay)
    }

    /// Removes the state of a Bundle that was deleted during its reconcile, and has its content removed.
    fn ended(&self, uid: &str) {
        if self.bundles.has(uid) {
            return;
        }
        if let Some(content) = self.forget(uid) {
            // The receiver is dropped when the process ends.
            let _ = self.abandoned.unbounded_send(content);
        }
    }

    /// Removes the state of a deleted Bundle. Returns its content.
    pub(super) fn forget(&self, uid: &str) -> Option<Digest> {
        self.written_versions.forget(uid);
        self.backoff.reset(uid);
        self.ctx.job_backoff.forget(uid);
        self.ctx.job_queue.finish(uid);
        self.ctx.contents.forget(uid)
    }

    /// Removes the state of Bundles that do not exist.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.written_versions.retain(&exists);
        self.backoff.retain(&exists);
        self.ctx.contents.retain(&exists);
        self.ctx.job_backoff.retain(&exists);
        self.ctx.job_queue.retain(&exists);
    }
}

/// Failure of a reconcile. Problems of the Bundle itself are reported in its status.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The Bundle or its Job could not be read.
    #[error("failed to read Bundle {bundle}")]
    Read {
        /// Name of the Bundle.
        bundle: String,
        /// Failure of the request.
        #[source]
        source: ApiError,
    },
    /// The status could not be written.
    #[error("failed to write the status of Bundle {bundle}")]
    Write {
        /// Name of the Bundle.
        bundle: String,
        /// Failure of the request.
        #[source]
        source: ApiError,
    },
}

/// Reconciles one Bundle until its content is stored. Problems are reported in its status.
pub(super) async fn reconcile(
    observed: Arc<Bundle>,
    shared: Arc<BundleContext>,
) -> Result<Action, Error> {
    let reconciled = reconcile_observed(Arc::clone(&observed), &shared).await;
    shared.ended(uid(&observed));
    reconciled
}

async fn reconcile_observed(
    observed: Arc<Bundle>,
    shared: &BundleContext,
) -> Result<Action, Error> {
    let ctx = &shared.ctx;
    let queue = ctx.metrics.queue(metrics::Controller::Bundle);
    queue.dequeued(&observed.name_any());
    let _measure = ctx.metrics.reconcile(metrics::Controller::Bundle);
    if !is_lost(&observed) && is_settled(shared, &observed).await {
        return finish(ctx, &observed).await;
    }
    // The observed Bundle may be older than the status written last, and would then be unpacked a second time.
    let current = if shared.written_versions.is_before(&*observed) {
        Some(observed)
    } else {
        let current = fetch::read_current(ctx, &observed).await;
        let current = current.map_err(|source| Error::Read {
            bundle: observed.name_any(),
            source,
        })?;
        current.map(Arc::new)
    };
    let Some(bundle) = current.filter(|bundle| bundle.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    let Some(class) = class_of(&bundle) else {
        return report_unknown_class(shared, &bundle).await;
    };
    if is_settled(shared, &bundle).await {
        if is_lost(&bundle) {
            write(shared, &bundle, &Outcome::Found).await?;
        }
        return finish(ctx, &bundle).await;
    }
    let uid = uid(&bundle);
    let result = fetch_content(shared, &bundle, class).await?;
    if let Some(outcome) = &result.outcome {
        write(shared, &bundle, outcome).await?;
    }
    drop(result.hold);
    if matches!(
        result.outcome,
        Some(Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Rejected(_))
    ) {
        ctx.metrics
            .failed(metrics::Controller::Bundle, result.reason);
        return Ok(match result.requeue {
            Requeue::Retry(is_terminal) => shared.requeue_failed(uid, is_terminal),
            Requeue::After(delay) => Action::requeue(delay),
        });
    }
    shared.backoff.reset(uid);
    Ok(match result.requeue {
        Requeue::After(delay) => Action::requeue(delay),
        Requeue::Retry(_) => Action::requeue(ctx.settings.resync),
    })
}

/// Finishes the reconcile of a settled Bundle: only its Job may be left to delete.
async fn finish(ctx: &Context, bundle: &Bundle) -> Result<Action, Error> {
    let exists = bundle.metadata.deletion_timestamp.is_none();
    if exists && job::uses_job(&ctx.settings, &bundle.spec.source) {
        job::delete_finished(ctx, bundle)
            .await
            .map_err(|source| Error::Read {
                bundle: bundle.name_any(),
                source,
            })?;
    }
    Ok(Action::requeue(ctx.settings.resync))
}

/// Reports whether the Bundle needs no work: it is terminating, or it is unpacked and the store has or had its content.
async fn is_settled(shared: &BundleContext, bundle: &Bundle) -> bool {
    if bundle.metadata.deletion_timestamp.is_some() {
        return true;
    }
    if !is_unpacked(bundle) || class_of(bundle).is_none() {
        return false;
    }
    let contents = &shared.ctx.contents;
    match content::hold(&shared.ctx, bundle).await {
        Ok(Some(hold)) => contents.insert(bundle, hold),
        Ok(None) => return contents.may_be_evicted(bundle),
        Err(_) => return false,
    }
    true
}

/// Reports an unknown class once. The provisioner for the class may overwrite the status.
async fn report_unknown_class(shared: &BundleContext, bundle: &Bundle) -> Result<Action, Error> {
    let is_untouched = bundle
        .status
        .as_ref()
        .is_none_or(|status| status.phase.is_none() && status.conditions.is_empty());
    if is_untouched {
        write(shared, bundle, &Outcome::UnknownClass).await?;
    }
    Ok(Action::await_change())
}

/// Result of fetching and validating.
struct FetchResult {
    /// Outcome for the status, or `None` if the current status is at least as informative.
    outcome: Option<Outcome>,
    reason: &'static str,
    requeue: Requeue,
    /// Keeps the content in the store until the status names the content.
    hold: Option<Hold>,
}

/// Time of the next reconcile.
#[derive(Debug, Clone, Copy)]
enum Requeue {
    /// After the back-off for failures, which is longer if the failure is terminal.
    Retry(bool),
    /// After this delay.
    After(Duration),
}

impl FetchResult {
    fn mark_unpacked(outcome: Outcome) -> Self {
        Self {
            outcome: Some(outcome),
            reason: "",
            requeue: Requeue::Retry(false),
            hold: None,
        }
    }

    fn failed(message: String, reason: &'static str, is_terminal: bool) -> Self {
        let outcome = match reason {
            ENTRY_REFUSED => Outcome::Rejected(message),
            reason if REFUSALS.contains(&reason) => Outcome::Refused(message),
            _ => Outcome::Failed(message),
        };
        Self {
            outcome: Some(outcome),
            reason,
            requeue: Requeue::Retry(is_terminal),
            hold: None,
        }
    }
}

/// Fetches and validates content. If that takes long, reports the progress, unless the status already reports more.
async fn fetch_content(
    shared: &BundleContext,
    bundle: &Bundle,
    class: Class,
) -> Result<FetchResult, Error> {
    let ctx = &shared.ctx;
    let phase = bundle.status.as_ref().and_then(|status| status.phase);
    let is_new = matches!(phase, None | Some(Phase::Pending));
    let mut permit = timeout(IMMEDIATE_LIMIT, shared.fetches.acquire()).await;
    if permit.is_err() {
        if phase.is_none() {
            let message = "queued behind other Bundles".to_owned();
            write(shared, bundle, &Outcome::Pending(message)).await?;
        }
        permit = Ok(shared.fetches.acquire().await);
    }
    // Uploads and images that a Job pulls are not being unpacked until their content arrives.
    let unpacks_here = !source::is_upload(&bundle.spec.source)
        && !job::uses_job(&ctx.settings, &bundle.spec.source);
    let mut fetch = Box::pin(fetch::fetch(ctx, bundle));
    let mut fetched = timeout(IMMEDIATE_LIMIT, &mut fetch).await;
    if fetched.is_err() {
        if is_new && unpacks_here {
            write(shared, bundle, &Outcome::Unpacking).await?;
        }
        fetched = Ok(fetch.await);
    }
    drop(permit);
    let fetched = fetched.unwrap_or(Err(fetch::Error::Cancelled));
    let FetchedContent {
        resolved,
        stored,
        skipped,
    } = match fetched {
        Ok(FetchState::Ready(content)) => *content,
        Ok(FetchState::Waiting {
            message,
            is_problem,
            requeue_after,
        }) => {
            // A new attempt is less informative than the reason of the last failure, or than existing content.
            let outcome = (is_new || is_problem).then_some(Outcome::Pending(message));
            return Ok(waiting(ctx, outcome, requeue_after));
        }
        Ok(FetchState::Unpacking) => {
            let is_progress = is_new || phase == Some(Phase::Unpacking);
            return Ok(waiting(
                ctx,
                is_progress.then_some(Outcome::Unpacking),
                None,
            ));
        }
        Err(error) => {
            let message = format!("source bundle content: {}", api_error::chain(&error));
            let mut result = FetchResult::failed(message, error.reason(), error.is_terminal());
            match &error {
                fetch::Error::Job(job::Error::Failed { requeue_after, .. }) => {
                    result.requeue = Requeue::After(*requeue_after);
                }
                // Watch events trigger a reconcile when the state changes.
                fetch::Error::Job(job::Error::Stuck { .. }) => {
                    result.requeue = Requeue::After(ctx.settings.resync);
                }
                _ => {}
            }
            return Ok(result);
        }
    };
    let digest = stored.digest;
    // The content is removed with the Bundle, even if its status does not reference the content yet.
    ctx.contents.record(bundle, digest);
    let status = bundle.status.as_ref();
    let facts = match status.filter(|status| status.content_digest == Some(digest.to_string())) {
        // The content was validated when it was pinned.
        Some(status) => status.facts.clone(),
        None => match validate(shared, class, digest).await {
            Ok(facts) => facts,
            Err(result) => return Ok(result),
        },
    };
    ctx.contents.insert(bundle, stored.hold.clone());
    let unpacked = Unpacked {
        resolved,
        digest,
        skipped,
        facts,
    };
    Ok(FetchResult {
        hold: Some(stored.hold),
        ..FetchResult::mark_unpacked(Outcome::Unpacked(Box::new(unpacked)))
    })
}

/// Returns the result for a fetch that waits for an event.
fn waiting(
    ctx: &Context,
    outcome: Option<Outcome>,
    requeue_after: Option<Duration>,
) -> FetchResult {
    FetchResult {
        outcome,
        reason: "",
        requeue: Requeue::After(requeue_after.unwrap_or(ctx.settings.resync)),
        hold: None,
    }
}

/// Validates content, and returns its bundle info.
async fn validate(
    shared: &BundleContext,
    class: Class,
    digest: Digest,
) -> Result<BundleInfo, FetchResult> {
    let ctx = &shared.ctx;
    let version = ctx.versions.kubernetes().await.map_err(|error| {
        let message = format!(
            "failed to get the API server version: {}",
            api_error::chain(&error)
        );
        FetchResult::failed(message, "ApiserverUnavailable", false)
    })?;
    let (store, limits) = (ctx.store.clone(), ctx.settings.unpack.limits);
    let load = move || store.get(&digest, &limits);
    let check =
        move |content: &_, limits| validate::validate_content(class, content, version, limits);
    match ctx.conversions.run(load, check).await {
        Ok(Ok(Ok(facts))) => Ok(facts),
        Ok(Ok(Err(refusal))) => Err(FetchResult::failed(refusal, "ContentRefused", true)),
        Ok(Err(error)) => {
            let message = format!("persist bundle content: {}", api_error::chain(&error));
            Err(FetchResult::failed(
                message,
                error.reason(),
                error.is_terminal(),
            ))
        }
        Err(error) if error.is_panic() => Err(FetchResult::failed(
            "internal error while converting the content; report it with the provisioner log"
                .to_owned(),
            "Panicked",
            true,
        )),
        Err(_) => Err(FetchResult::failed(
            "the provisioner is shutting down".to_owned(),
            "Cancelled",
            false,
        )),
    }
}

//! What is done for one Bundle.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use kube::{ResourceExt, runtime::controller::Action};
use manifests::api::{
    Class,
    bundle::{Bundle, Facts, Phase},
    condition::reason::ENTRY_REFUSED,
};
use tokio::{sync::Semaphore, time::timeout};
use unpacker::{Digest, job::chain, store::Hold};

use super::{
    cache::BundleCache,
    check, class_of,
    fetch::{self, ApiError, Brought, Fetched},
    job, load, source,
    status::{Outcome, Unpacked, is_lost, is_unpacked},
    uid,
    write::write,
};
use crate::{backoff::Backoff, context::Context, metrics, written::Written};

/// How many are fetched at once: a server that does not answer must not hold up all the others.
const FETCHES: usize = 16;
/// What takes no longer than this is not told of while it goes on.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The reasons of failures that blame the content or the spec, so that only a change of one of them helps. Everything else
/// may come from the network, the registry or a Secret.
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

/// What the reconciles share.
pub(super) struct Shared {
    pub(super) ctx: Context,
    /// All Bundles.
    pub(super) bundles: Arc<BundleCache>,
    /// What was said last.
    pub(super) written: Written,
    /// Content that was stored for Bundles that were deleted.
    abandoned: UnboundedSender<Digest>,
    backoff: Backoff,
    fetches: Semaphore,
}

impl Shared {
    /// Returns what the reconciles share, and the abandoned content.
    pub(super) fn new(
        ctx: Context,
        bundles: Arc<BundleCache>,
    ) -> (Self, UnboundedReceiver<Digest>) {
        let (sender, abandoned) = mpsc::unbounded();
        let shared = Self {
            ctx,
            bundles,
            written: Written::default(),
            abandoned: sender,
            backoff: Backoff::default(),
            fetches: Semaphore::new(FETCHES),
        };
        (shared, abandoned)
    }

    /// It has failed once more.
    pub(super) fn again(&self, uid: &str, is_terminal: bool) -> Action {
        let wait = self.backoff.next(uid, None, is_terminal, Instant::now());
        self.ended(uid);
        Action::requeue(wait)
    }

    /// Forgets a Bundle that was deleted while it was reconciled, and has its content removed.
    fn ended(&self, uid: &str) {
        if self.bundles.has(uid) {
            return;
        }
        if let Some(content) = self.forget(uid) {
            // The receiver is dropped when the process ends.
            let _ = self.abandoned.unbounded_send(content);
        }
    }

    /// Forgets a Bundle that was deleted. Returns its content.
    pub(super) fn forget(&self, uid: &str) -> Option<Digest> {
        self.written.forget(uid);
        self.backoff.forget(uid);
        self.ctx.tries.forget(uid);
        self.ctx.turns.leave(uid);
        self.ctx.contents.forget(uid)
    }

    /// Forgets Bundles that do not exist.
    pub(super) fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.written.retain(&exists);
        self.backoff.retain(&exists);
        self.ctx.contents.retain(&exists);
        self.ctx.tries.retain(&exists);
        self.ctx.turns.retain(&exists);
    }
}

/// The reason why a Bundle could not be looked at; what is wrong with the Bundle itself stands in its status.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The API server does not tell.
    #[error("failed to read Bundle {bundle}")]
    Read {
        /// Which.
        bundle: String,
        /// Why.
        #[source]
        source: ApiError,
    },
    /// The API server does not take the status.
    #[error("failed to write the status of Bundle {bundle}")]
    Write {
        /// Which.
        bundle: String,
        /// Why.
        #[source]
        source: ApiError,
    },
}

/// Drives one Bundle towards content that is stored. Whatever is in its way stands in its status.
pub(super) async fn reconcile(seen: Arc<Bundle>, shared: Arc<Shared>) -> Result<Action, Error> {
    let reconciled = settle(Arc::clone(&seen), &shared).await;
    shared.ended(uid(&seen));
    reconciled
}

async fn settle(seen: Arc<Bundle>, shared: &Shared) -> Result<Action, Error> {
    let ctx = &shared.ctx;
    let queue = ctx.metrics.queue(metrics::Controller::Bundle);
    queue.begun(&seen.name_any());
    let _measure = ctx.metrics.reconcile(metrics::Controller::Bundle);
    if !is_lost(&seen) && is_settled(shared, &seen).await {
        return tidied(ctx, &seen).await;
    }
    // What the watch shows may be older than our own last word: then something unpacked would be unpacked again.
    let fresh = if shared.written.is_before(&*seen) {
        Some(seen)
    } else {
        let fresh = fetch::fresh(ctx, &seen).await;
        let fresh = fresh.map_err(|source| Error::Read {
            bundle: seen.name_any(),
            source,
        })?;
        fresh.map(Arc::new)
    };
    let Some(bundle) = fresh.filter(|bundle| bundle.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    let Some(class) = class_of(&bundle) else {
        return unknown(shared, &bundle).await;
    };
    if is_settled(shared, &bundle).await {
        if is_lost(&bundle) {
            write(shared, &bundle, &Outcome::Found).await?;
        }
        return tidied(ctx, &bundle).await;
    }
    let uid = uid(&bundle);
    let work = bring(shared, &bundle, class).await?;
    if let Some(outcome) = &work.outcome {
        write(shared, &bundle, outcome).await?;
    }
    drop(work.hold);
    if matches!(
        work.outcome,
        Some(Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Rejected(_))
    ) {
        ctx.metrics.failed(metrics::Controller::Bundle, work.reason);
        return Ok(match work.again {
            Again::Sooner(is_terminal) => shared.again(uid, is_terminal),
            Again::After(wait) => Action::requeue(wait),
        });
    }
    shared.backoff.forget(uid);
    Ok(match work.again {
        Again::After(wait) => Action::requeue(wait),
        Again::Sooner(_) => Action::requeue(ctx.settings.resync),
    })
}

/// Nothing is left to do for a Bundle, but perhaps for its Job.
async fn tidied(ctx: &Context, bundle: &Bundle) -> Result<Action, Error> {
    let is_here = bundle.metadata.deletion_timestamp.is_none();
    if is_here && job::pulls(&ctx.settings, &bundle.spec.source) {
        job::tidy(ctx, bundle).await.map_err(|source| Error::Read {
            bundle: bundle.name_any(),
            source,
        })?;
    }
    Ok(Action::requeue(ctx.settings.resync))
}

/// Reports whether nothing is left to do: the Bundle is being deleted, or it is unpacked, and the store has or had its content.
async fn is_settled(shared: &Shared, bundle: &Bundle) -> bool {
    if bundle.metadata.deletion_timestamp.is_some() {
        return true;
    }
    if !is_unpacked(bundle) || class_of(bundle).is_none() {
        return false;
    }
    let contents = &shared.ctx.contents;
    match load::hold(&shared.ctx, bundle).await {
        Ok(Some(hold)) => contents.insert(bundle, hold),
        Ok(None) => return contents.may_be_evicted(bundle),
        Err(_) => return false,
    }
    true
}

/// Answers once; whoever serves the class has the last word.
async fn unknown(shared: &Shared, bundle: &Bundle) -> Result<Action, Error> {
    let is_untouched = bundle
        .status
        .as_ref()
        .is_none_or(|status| status.phase.is_none() && status.conditions.is_empty());
    if is_untouched {
        write(shared, bundle, &Outcome::UnknownClass).await?;
    }
    Ok(Action::await_change())
}

/// The outcome of fetching and checking.
struct Work {
    /// `None`: there is nothing to say that would be more than what was said.
    outcome: Option<Outcome>,
    reason: &'static str,
    again: Again,
    /// Keeps the content in the store until the status names the content.
    hold: Option<Hold>,
}

/// The time to look again.
#[derive(Debug, Clone, Copy)]
enum Again {
    /// Ever later, if it has failed; and later still if that is terminal.
    Sooner(bool),
    /// Then.
    After(Duration),
}

impl Work {
    fn done(outcome: Outcome) -> Self {
        Self {
            outcome: Some(outcome),
            reason: "",
            again: Again::Sooner(false),
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
            again: Again::Sooner(is_terminal),
            hold: None,
        }
    }
}

/// Fetches and checks, and says in the status that it does where that takes its time, unless that tells more already.
async fn bring(shared: &Shared, bundle: &Bundle, class: Class) -> Result<Work, Error> {
    let ctx = &shared.ctx;
    let phase = bundle.status.as_ref().and_then(|status| status.phase);
    let is_new = matches!(phase, None | Some(Phase::Pending));
    let mut permit = timeout(AT_ONCE, shared.fetches.acquire()).await;
    if permit.is_err() {
        if phase.is_none() {
            let waits = "waiting for other Bundles to be unpacked first".to_owned();
            write(shared, bundle, &Outcome::Pending(waits)).await?;
        }
        permit = Ok(shared.fetches.acquire().await);
    }
    // What somebody else has to bring is not being unpacked before that.
    let is_ours =
        !source::is_upload(&bundle.spec.source) && !job::pulls(&ctx.settings, &bundle.spec.source);
    let mut fetch = Box::pin(fetch::fetch(ctx, bundle));
    let mut fetched = timeout(AT_ONCE, &mut fetch).await;
    if fetched.is_err() {
        if is_new && is_ours {
            write(shared, bundle, &Outcome::Unpacking).await?;
        }
        fetched = Ok(fetch.await);
    }
    drop(permit);
    let fetched = fetched.unwrap_or(Err(fetch::Error::Cancelled));
    let Brought {
        resolved,
        stored,
        skipped,
    } = match fetched {
        Ok(Fetched::Brought(brought)) => *brought,
        Ok(Fetched::Waits {
            message,
            is_problem,
            again,
        }) => {
            // That something has begun anew is less than why it failed, or that there was content.
            let outcome = (is_new || is_problem).then_some(Outcome::Pending(message));
            return Ok(waits(ctx, outcome, again));
        }
        Ok(Fetched::Unpacking) => {
            let is_under_way = is_new || phase == Some(Phase::Unpacking);
            return Ok(waits(ctx, is_under_way.then_some(Outcome::Unpacking), None));
        }
        Err(error) => {
            let message = format!("source bundle content: {}", chain(&error));
            let mut work = Work::failed(message, error.reason(), error.is_terminal());
            match &error {
                fetch::Error::Job(job::Error::Failed { again, .. }) => {
                    work.again = Again::After(*again);
                }
                // Whatever becomes of it, the watch tells.
                fetch::Error::Job(job::Error::Stuck { .. }) => {
                    work.again = Again::After(ctx.settings.resync);
                }
                _ => {}
            }
            return Ok(work);
        }
    };
    let digest = stored.digest;
    // The content is removed with the Bundle, whether or not a status names the content by then.
    ctx.contents.record(bundle, digest);
    let before = bundle.status.as_ref();
    let facts = match before.filter(|status| status.content_digest == Some(digest.to_string())) {
        // It was checked when it was pinned.
        Some(status) => status.facts.clone(),
        None => match checked(shared, class, digest).await {
            Ok(facts) => facts,
            Err(work) => return Ok(work),
        },
    };
    ctx.contents.insert(bundle, stored.hold.clone());
    let unpacked = Unpacked {
        resolved,
        digest,
        skipped,
        facts,
    };
    Ok(Work {
        hold: Some(stored.hold),
        ..Work::done(Outcome::Unpacked(Box::new(unpacked)))
    })
}

/// What is waited for, until something tells.
fn waits(ctx: &Context, outcome: Option<Outcome>, again: Option<Duration>) -> Work {
    Work {
        outcome,
        reason: "",
        again: Again::After(again.unwrap_or(ctx.settings.resync)),
        hold: None,
    }
}

/// What content says of itself, once it turned out to be good.
async fn checked(shared: &Shared, class: Class, digest: Digest) -> Result<Facts, Work> {
    let ctx = &shared.ctx;
    let version = ctx.versions.kubernetes().await.map_err(|error| {
        let message = format!(
            "failed to ask the apiserver for its version: {}",
            chain(&error)
        );
        Work::failed(message, "ApiserverUnavailable", false)
    })?;
    let (store, limits) = (ctx.store.clone(), ctx.settings.unpack.limits);
    let load = move || store.get(&digest, &limits);
    let check = move |content: &_, limits| check::check(class, content, version, limits);
    match ctx.conversions.run(load, check).await {
        Ok(Ok(Ok(facts))) => Ok(facts),
        Ok(Ok(Err(refusal))) => Err(Work::failed(refusal, "ContentRefused", true)),
        Ok(Err(error)) => {
            let message = format!("persist bundle content: {}", chain(&error));
            Err(Work::failed(message, error.reason(), error.is_terminal()))
        }
        Err(error) if error.is_panic() => Err(Work::failed(
            "the conversion of the content failed in a way that nobody thought of; report it with the provisioner's log"
                .to_owned(),
            "Panicked",
            true,
        )),
        Err(_) => Err(Work::failed("the provisioner is about to end".to_owned(), "Cancelled", false)),
    }
}

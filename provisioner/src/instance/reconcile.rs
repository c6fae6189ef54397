//! One look at an instance.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::controller::Action,
};
use manifests::api::{
    Class,
    bundle::{Bundle, Phase},
    condition,
    instance::{BundleInstance, BundleInstanceStatus, ready},
    labels,
};
use serde_json::json;
use tracing::{Instrument as _, info_span, warn};

use super::{
    bundles,
    choice::{Choices, Goal},
    evidence, index,
    install::{self, Settled, Source, Target},
    maintain,
    memory::{Memory, Shared, version},
    outcome::{Failure, Install, Kept, Outcome, Remedy, Retry, RolledBack, Valid},
    revisions::{self, owner},
    rollback, status, tell, template, trust, uninstall,
    write::{Written, declaration, retry_token, write_status},
};
use crate::{metrics::Controller, overrides::Digests};
use apply::backoff::spread;

/// Why a look at an instance could not be finished. What is wrong with the instance itself stands in its status.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The API server did not take something that only concerns the instance itself.
    #[error("failed to {what} of BundleInstance {name}: {source}")]
    Kube {
        /// What was tried.
        what: &'static str,
        /// Whose.
        name: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The instance was deleted, and possibly created again, while it was reconciled.
    #[error("BundleInstance {0} was deleted while it was reconciled")]
    Deleted(String),
}

impl Error {
    pub(super) fn on(
        what: &'static str,
        instance: &BundleInstance,
    ) -> impl Fn(kube::Error) -> Self + use<> {
        let name = instance.name_any();
        move |source| Self::Kube {
            what,
            name: name.clone(),
            source: Box::new(source),
        }
    }
}

/// Looks at an instance: drives the cluster towards what it declares, and says how it is.
pub(super) async fn reconcile(
    instance: Arc<BundleInstance>,
    shared: Arc<Shared>,
) -> Result<Action, Error> {
    let span = info_span!("instance", name = %instance.name_any(), generation = instance.metadata.generation);
    let metrics = &shared.ctx.metrics;
    metrics
        .queue(Controller::Instance)
        .begun(&instance.name_any());
    let _measure = metrics.reconcile(Controller::Instance);
    let _turn = shared.rollouts.reconcile(&instance.name_any());
    let memory = shared.memory(&instance);
    let mut memory = memory.lock().await;
    memory.has_seen(&instance);
    memory.retry.get_or_insert_with(|| retry_token(&instance));
    async {
        if instance.metadata.deletion_timestamp.is_some() {
            return Box::pin(uninstall::run(&instance, &shared, &mut memory)).await;
        }
        let is_ours = Class::parse(&instance.spec.provisioner_class_name).is_some();
        if is_ours && !instance.finalizers().iter().any(|f| f == labels::UNINSTALL) {
            memory.version = add_finalizer(&instance, &shared).await?;
        }
        bundles::adopt(&instance, &shared, &mut memory).await;
        let (outcome, again) = Box::pin(settle(&instance, &shared, &mut memory)).await;
        let before = current_status(&instance, &memory);
        if let Some(left) = memory.has_nothing_to_say(&instance, &before, &outcome) {
            return Ok(Action::requeue(left));
        }
        let now = (shared.ctx.now)();
        let declaration = declaration(&instance, &memory);
        let mut status = status::of(&before, &declaration, &outcome, now);
        let left = ready::time_left(&status, declaration.deadline, now);
        let mut again = sooner(again, left.filter(|left| !left.is_zero()));
        if left_alone(&instance).is_none() {
            finish_rollout(
                &instance,
                &shared,
                &mut memory,
                &mut status,
                &outcome,
                &mut again,
            )
            .await;
        }
        status.overrides = Digests::of_installed(&status)
            .of(&instance.spec.overrides)
            .cloned()
            .collect();
        if let Some(left) = memory.has_just_said(&before, &outcome)
            && memory.bundles.is_none()
        {
            return Ok(Action::requeue(sooner(Some(left), again).unwrap_or(left)));
        }
        if is_ours {
            install::removed_apis::complete(&instance, &shared, &mut memory, &mut status).await;
        }
        if status != before || memory.bundles.is_some() {
            let written = write_status(&instance, &shared, &mut memory, &status).await?;
            if written == Written::Withheld {
                again = sooner(again, Some(Duration::from_secs(1)));
            }
            tell::changes(&instance, &shared, &before, &status).await;
        }
        memory.rest(&status);
        Ok(again.map_or_else(
            || Action::requeue(spread(shared.ctx.settings.resync)),
            Action::requeue,
        ))
    }
    .instrument(span)
    .await
}

/// Makes the newest revision the active one once it is rolled out, and forgets the oldest archived revisions.
async fn finish_rollout(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &mut BundleInstanceStatus,
    outcome: &Outcome,
    again: &mut Option<Duration>,
) {
    let now = (shared.ctx.now)();
    revisions::follow_clock(status, now);
    if revisions::is_rolled_out(&instance.spec, status, outcome, now) {
        revisions::promote(status);
        memory.excused = None;
        // The account may be another one.
        memory.is_watched = false;
        if !status.removing.is_empty() {
            *again = Some(Duration::ZERO);
        }
    } else if let Some(revision) = status.rolling_out()
        && (status.applied_digest.is_some() || instance.spec.progress_deadline_seconds.is_some())
    {
        let left = revisions::time_left(&instance.spec, revision, now);
        let ahead = left.filter(|left| !left.is_zero());
        *again = sooner(*again, ahead.map(|left| left.max(Duration::from_secs(1))));
    }
    let surplus = revisions::surplus(&instance.spec, status);
    if !surplus.is_empty() {
        let deleted = revisions::delete(shared, &owner(instance), &surplus).await;
        status
            .revisions
            .retain(|revision| !deleted.contains(&revision.number));
    }
}

/// After an error of the reconcile itself: soon, but not at once.
#[expect(clippy::needless_pass_by_value)] // kube's signature
pub(super) fn failed(instance: Arc<BundleInstance>, error: &Error, shared: Arc<Shared>) -> Action {
    warn!(instance = %instance.name_any(), %error, "could not be finished; it is tried again");
    shared
        .ctx
        .metrics
        .failed(Controller::Instance, condition::reason::RECONCILE_FAILED);
    Action::requeue(spread(Duration::from_secs(2)))
}

/// Returns the status as far as it is known: as it was written last, or else as the watch delivered it, with the Bundles that
/// the next write records.
pub(super) fn current_status(instance: &BundleInstance, memory: &Memory) -> BundleInstanceStatus {
    let written = memory.status.as_ref().map(|known| &known.1);
    let known = written.or(instance.status.as_ref()).cloned();
    let mut status = known.unwrap_or_default();
    if let Some(created) = &memory.bundles {
        status.bundles.clone_from(created);
    }
    status
}

/// Finds out what there is to do, does it, and says what came of it and when to look again.
async fn settle(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
) -> (Outcome, Option<Duration>) {
    let mut status = current_status(instance, memory);
    let found = status.installed_bundle_name.as_ref();
    let found = found.and_then(|name| shared.bundles.get(name));
    let installed = trust::installed(&status, instance, found.as_deref());
    let replaced = installed.replaced().map(str::to_owned);
    if let Err(error) = read_inventory(instance, shared, memory, &status).await {
        let message = format!(
            "the inventory of BundleInstance {} cannot be read: {error}; restore its ConfigMaps in namespace {}",
            instance.name_any(),
            shared.ctx.settings.system_namespace
        );
        let outcome = Outcome {
            replaced,
            ..Outcome::of_bundle(Valid::Unknown {
                message,
                remedy: Remedy::World,
            })
        };
        return (outcome, Some(Duration::from_secs(15)));
    }
    if let Some((valid, install)) = left_alone(instance) {
        memory.progress = None;
        maintain::watch(instance, shared, memory, &status).await;
        let is_declared = install == Install::Paused
            && install::is_applied(instance, shared, &status, installed.trusted()).await;
        let outcome = Outcome {
            is_declared,
            install,
            health: maintain::health(instance, shared, memory, &status.removing),
            ..Outcome::of_bundle(valid)
        };
        return (outcome, None);
    }
    let hash = template::hash(instance);
    let bundles = bundles::owned_by(instance, shared);
    let wanted = bundles::wanted(instance, shared, memory, &bundles, &hash, &status).await;
    if let Some(created) = &memory.bundles {
        status.bundles.clone_from(created);
    }
    let (valid, make_again) = match &wanted {
        // One that goes before it was seen wakes nobody in time.
        Ok(bundle) => (
            valid(bundle),
            memory.made.is_some().then_some(bundles::LATE),
        ),
        Err((problem, again)) => {
            let bundles::Problem { message, remedy } = problem.clone();
            (Valid::Unknown { message, remedy }, Some(*again))
        }
    };
    let mut migration = None;
    if status.newest().is_none()
        && let Some(installed) = installed.trusted()
    {
        migration = install::migrate(instance, shared, memory, &mut status, installed).await;
    }
    let choices = Choices {
        spec: &instance.spec,
        status: &status,
        hash: &hash,
        wanted: wanted.as_ref().ok().map(AsRef::as_ref),
        installed: installed.trusted(),
    };
    let mut settled = roll_out(instance, shared, memory, &choices).await;
    if replaced.is_some()
        && choices.goal() == Goal::Keep
        && let Install::Done(done) = &settled.install
    {
        // The condition goes on to tell of the other client.
        settled.kept = Some(Kept::of(done));
        settled.install = Install::Unchanged;
    }
    if let Some(migration) = migration {
        settled.again = sooner(settled.again, Some(migration.again));
        if let (Some(failure), Install::Unchanged) = (migration.failure, &settled.install) {
            settled.install = Install::Failed(failure);
        }
    }
    let again = sooner(settled.again, make_again);
    let outcome = Outcome {
        valid,
        install: settled.install,
        is_declared: choices.is_declared(),
        health: settled.health,
        fights: settled.fights,
        kept: settled.kept,
        replaced,
    };
    if let Ok(wanted) = &wanted {
        bundles::clean_up(instance, shared, &bundles, wanted, &status, &outcome).await;
    }
    (outcome, again)
}

/// Rolls out what is chosen, repairs what is installed, and rolls back where the spec asks for it.
async fn roll_out(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    choices: &Choices<'_>,
) -> Settled {
    let status = choices.status;
    let goal = choices.goal();
    let has_api = goal == Goal::Keep && install::has_api_at_last(shared, status).await;
    let given_up = memory.gave_up.as_ref();
    let given_up = given_up.map(|(hash, why)| (hash.as_str(), why.as_str()));
    let Some(target) = choices.target(&goal, has_api, given_up) else {
        memory.refused.clear();
        let settled = maintain::run(instance, shared, memory, status).await;
        return match goal {
            Goal::Unrecorded(number) => unrecorded(instance, status, number, settled),
            _ => settled,
        };
    };
    let mut settled = install::run(instance, shared, memory, status, &target).await;
    let mut why = target.rollback.as_ref().and_then(|back| back.why.clone());
    if target.rollback.is_none()
        && let Some(failure) =
            evidence::failure(instance, shared, memory, choices, &target, &settled).await
    {
        // The attempt has changed it. From now on this template is not tried again, whatever becomes of the rollback.
        let mut status = current_status(instance, memory);
        status.failed_template_hash = Some(choices.hash.to_owned());
        let active = status.active().cloned();
        if let Err(error) = write_status(instance, shared, memory, &status).await {
            warn!(%error, "failed to begin the rollback; retrying");
            settled.again = sooner(settled.again, Some(Duration::from_secs(1)));
        } else if let Some(active) = active {
            memory.gave_up = Some((choices.hash.to_owned(), failure.clone()));
            why = Some(failure.clone());
            let target = Target {
                source: Source::Revision(&active),
                rollback: Some(RolledBack {
                    template_hash: Some(choices.hash.to_owned()),
                    why: Some(failure),
                    to: active.number,
                }),
            };
            settled = install::run(instance, shared, memory, &status, &target).await;
        }
    }
    if let (Some(why), Install::Failed(failure)) = (why, &mut settled.install) {
        failure.message = rollback::blocked(&failure.message, &why);
    }
    settled
}

/// Reports that `spec.rollbackTo` names no recorded revision.
pub(super) fn unrecorded(
    instance: &BundleInstance,
    status: &BundleInstanceStatus,
    number: i64,
    settled: Settled,
) -> Settled {
    let recorded: Vec<String> = status
        .revisions
        .iter()
        .map(|revision| revision.number.to_string())
        .collect();
    let recorded = if recorded.is_empty() {
        "none is".to_owned()
    } else {
        format!("recorded are {}", recorded.join(", "))
    };
    let message = format!(
        "revision {number} of spec.rollbackTo of BundleInstance {} is not recorded ({recorded}); set spec.rollbackTo to a \
         recorded revision, or remove the field",
        instance.name_any()
    );
    Settled {
        install: Install::Failed(Failure {
            bundle: status.installed_bundle_name.clone().unwrap_or_default(),
            message,
            touched: false,
            retry: Retry::Slowly,
            remedy: Remedy::Own,
        }),
        kept: match &settled.install {
            Install::Done(done) => Some(Kept::of(done)),
            _ => settled.kept,
        },
        ..settled
    }
}

/// What there is to say of an instance that is left as it is.
pub(super) fn left_alone(instance: &BundleInstance) -> Option<(Valid, Install)> {
    if Class::parse(&instance.spec.provisioner_class_name).is_none() {
        // What was installed with another class is not kept any more; how it is can still be said.
        let class = instance.spec.provisioner_class_name.clone();
        return Some((Valid::Unserved(class), Install::Unchanged));
    }
    (instance.spec.paused).then_some((Valid::Unchanged, Install::Paused))
}

/// The shorter of two times to wait.
pub(super) fn sooner(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// How it is with the wanted Bundle, by what it says itself.
pub(super) fn valid(bundle: &Bundle) -> Valid {
    let name = bundle.name_any();
    let status = bundle.status.clone().unwrap_or_default();
    let of = |type_| condition::find(&status.conditions, type_);
    let unpacked = of(condition::UNPACKED);
    let message = unpacked.map(|c| c.message.clone()).unwrap_or_default();
    let is_stalled = of(condition::STALLED).is_some()
        || unpacked.is_some_and(|c| c.reason == condition::reason::UNKNOWN_CLASS);
    match status.phase {
        Some(Phase::Unpacked) => Valid::Unpacked { bundle: name },
        Some(Phase::Failing) => Valid::Failed {
            bundle: name,
            message,
            remedy: if is_stalled {
                Remedy::Own
            } else {
                Remedy::World
            },
        },
        _ => Valid::Pending {
            bundle: name,
            message,
        },
    }
}

/// Reads the inventory once; after that it is in memory. What is lost, or has no room in the status, is built from the
/// recorded revisions.
pub(super) async fn read_inventory(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
) -> Result<(), kube::Error> {
    if memory.absent > 0 && memory.served != *shared.ctx.kinds.changes().borrow() {
        // The API of an object that the inventory lacks may be served now.
        memory.inventory = None;
        memory.absent = 0;
        memory.is_watched = false;
    }
    if memory.inventory.is_some() {
        return Ok(());
    }
    let owner = owner(instance);
    let at = revisions::store(&shared.ctx, &owner);
    let listed = status.inventory.clone().unwrap_or_default();
    let is_deleted = instance.metadata.deletion_timestamp.is_some();
    let read = index::read(&at, &listed, is_deleted).await;
    let has_records = status.newest().is_some();
    let is_missing = matches!(&read, Err(kube::Error::Api(answer)) if answer.code == 404);
    let mut inventory = if (is_missing || !status.lists_all()) && has_records {
        let mut rebuilt = revisions::rebuild_index(&shared.ctx, &owner, status).await?;
        memory.unread = rebuilt.unread;
        if !is_missing {
            revisions::add_config_maps(&mut rebuilt, read?);
        }
        memory.absent = rebuilt.absent;
        memory.leftovers = rebuilt.leftovers;
        rebuilt.inventory
    } else {
        if !listed.is_whole() {
            let last = status.revisions.last();
            memory.unread = Some(last.map_or(1, |last| last.number));
        }
        read?
    };
    if is_deleted && memory.unread.is_some() {
        index::find_unreferenced(&at, &mut inventory).await?;
    }
    memory.inventory = Some(inventory);
    Ok(())
}

/// Adds our finalizer, and returns the resourceVersion of the instance after that.
async fn add_finalizer(instance: &BundleInstance, shared: &Shared) -> Result<u64, Error> {
    let mut all = instance.finalizers().to_vec();
    all.push(labels::UNINSTALL.to_owned());
    // With the version that was seen, so that nobody else's finalizer is lost.
    let patch = json!({"metadata": {
        "finalizers": all,
        "resourceVersion": instance.resource_version(),
    }});
    let written = Api::<BundleInstance>::all(shared.ctx.client.clone())
        .patch(
            &instance.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
        .map_err(Error::on("add the finalizer", instance))?;
    Ok(version(&written))
}

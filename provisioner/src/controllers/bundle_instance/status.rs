//! Builds the status of an instance from the outcome of a reconcile. Pure; no I/O.
//!
//! | condition | True | False | Unknown |
//! | --- | --- | --- | --- |
//! | `HasValidBundle` | unpacked | pending, failing, class not served | Bundles cannot be listed |
//! | `Installed` | the objects of a bundle are in the cluster, named in the message; also while a newer one fails | none | |
//! | `Healthy` | every object is healthy | some object is unhealthy; nothing is installed | not observed yet |
//! | `Progressing` | in progress, or retried | up to date, paused, or blocked until a person makes a change | |
//!
//! `Ready`, `Reconciling` and `Stalled` follow from these ([`ready`]), in the same write.

mod facts;
mod installed;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use manifests::{
    api::{
        bundle_instance::{
            BundleInstanceStatus, InstalledBundle, Inventory,
            ready::{self, Declaration, Facts, Objects},
        },
        condition::{self, reason},
    },
    object::truncate,
};

use self::installed::installed;
use super::{
    outcome::{Failure, HealthState, Outcome, RetryClass, RolloutState, TemplateState},
    revisions, trust,
};

/// Maximum number of listed deferred objects; the API server accepts 512.
const MAX_LINES: usize = 500;
/// Maximum number of BundleInstances that a message names.
const MAX_NAMED: usize = 10;
/// Maximum length of a message; the API server accepts 32 KiB. Missing permissions, which an admin copies and applies, take
/// up to half of that and come last.
const MAX_MESSAGE_LEN: usize = 32_000;

/// Returns the status for the current generation from the previous status and the outcome.
pub fn build(
    before: &BundleInstanceStatus,
    declaration: &Declaration,
    outcome: &Outcome,
    now: Timestamp,
) -> BundleInstanceStatus {
    let mut status = before.clone();
    let generation = declaration.generation;
    status.observed_generation = generation;
    if let RolloutState::Done(done) = &outcome.install {
        let done = done.as_ref().clone();
        status.installed = done.content.as_ref().map(|content_digest| InstalledBundle {
            name: done.bundle.clone(),
            uid: done.uid,
            content_digest: content_digest.clone(),
        });
        status.previous = trust::recorded(before)
            .find(|record| Some(&record.name) == done.previous.as_ref())
            .cloned();
        status.installed_bundle_name = Some(done.bundle);
        status.previous_bundle_name = done.previous;
        status.resolved_source = done.source;
        status.content_digest = done.content;
        status.install_namespace = Some(done.namespace);
        status.applied_digest = Some(done.digest);
        status.facts = done.facts;
        status.inventory = Some(done.inventory);
        status.waiting = done.waiting;
        status.waiting.truncate(MAX_LINES);
        status.released = done.released;
        status.removing = done.removing;
        status.revisions = done.revisions;
        // If a rollback is not possible, the failed template is reported until its objects are healthy.
        let is_failed =
            outcome.health != HealthState::Healthy && revisions::has_lost_rollback_target(&status);
        let failed = status.failed_template_hash.take().filter(|_| is_failed);
        let rolled_back = done.rolled_back.and_then(|back| back.template_hash);
        status.failed_template_hash = rolled_back.or(failed);
    }
    if let Some(repaired) = &outcome.repaired {
        status.inventory = Some(repaired.inventory.clone());
        let deferred: BTreeSet<String> = status.waiting.drain(..).collect();
        let all = deferred.into_iter().chain(repaired.waiting.iter().cloned());
        status.waiting = all.collect::<BTreeSet<String>>().into_iter().collect();
        status.waiting.truncate(MAX_LINES);
        status.removing.clone_from(&repaired.removing);
        status.released.clone_from(&repaired.released);
        status.revisions.clone_from(&repaired.revisions);
        if repaired.is_lost {
            status.applied_digest = None;
        }
    }
    if let RolloutState::Applying(applying) = &outcome.install {
        status.inventory = Some(applying.inventory.clone());
    }
    let is_done = matches!(outcome.install, RolloutState::Done(_));
    let is_current = matches!(&outcome.install, RolloutState::Done(done) if !done.is_outdated);
    if before.observed() != generation && !is_current {
        revisions::mark_changed(&mut status.revisions);
    }
    let is_settled = is_done || matches!(outcome.install, RolloutState::Unchanged);
    if is_settled && outcome.health == HealthState::Healthy {
        status.previous_bundle_name = None;
        status.previous = None;
    }
    // Whether the former conditions are about other objects. While objects are applied, the status has no applied digest.
    let has_new_objects = is_done && status.applied_digest != before.applied_digest;
    let mut conditions = Conditions {
        all: &mut status.conditions,
        generation,
        now,
    };
    valid(&mut conditions, &outcome.valid);
    installed(
        &mut conditions,
        status.installed_bundle_name.as_deref(),
        outcome,
        status.failed_template_hash.is_some(),
    );
    health(
        &mut conditions,
        &outcome.health,
        status.installed_bundle_name.is_some(),
        has_new_objects,
    );
    progressing(&mut conditions, outcome, has_new_objects, &status.removing);
    let facts = facts::collect(outcome, declaration, &status);
    ready::update(&mut status, declaration, facts, now);
    status
}

/// Returns the status while objects are applied. `inventory` lists every object that may exist from now on; the previously
/// applied objects may be changed in part.
pub fn applying(
    before: &BundleInstanceStatus,
    declaration: &Declaration,
    bundle: &str,
    objects: usize,
    inventory: Inventory,
    now: Timestamp,
) -> BundleInstanceStatus {
    // HasValidBundle is the condition of the last write, when the Bundle may not have been unpacked. `is_pinned` keeps it
    // out of the condition Ready.
    let applied = Declaration {
        is_pinned: true,
        ..*declaration
    };
    let message = format!("applying {objects} objects of bundle {bundle}");
    BundleInstanceStatus {
        inventory: Some(inventory),
        applied_digest: None,
        ..working(before, &applied, reason::APPLYING, &message, now)
    }
}

/// Returns the status while an instance is uninstalled.
pub fn uninstalling(
    before: &BundleInstanceStatus,
    declaration: &Declaration,
    message: &str,
    failed: bool,
    now: Timestamp,
) -> BundleInstanceStatus {
    let why = if failed {
        reason::RETRYING
    } else {
        reason::UNINSTALLING
    };
    working(before, declaration, why, message, now)
}

/// Returns the status while the controller changes objects.
fn working(
    before: &BundleInstanceStatus,
    declaration: &Declaration,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> BundleInstanceStatus {
    let mut status = before.clone();
    status.observed_generation = declaration.generation;
    let mut conditions = Conditions {
        all: &mut status.conditions,
        generation: declaration.generation,
        now,
    };
    conditions.set(condition::PROGRESSING, "True", reason, message);
    let facts = Facts {
        is_applied: false,
        remedy: None,
        objects: Objects::NotObserved,
        is_rolled_back: false,
    };
    ready::update(&mut status, declaration, facts, now);
    status
}

/// Conditions of one status, updated by the Kubernetes API conventions.
pub(crate) struct Conditions<'a> {
    pub(crate) all: &'a mut Vec<Condition>,
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
}

impl Conditions<'_> {
    /// Sets a condition. The transition time changes only with the status.
    pub(crate) fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: truncate(message, MAX_MESSAGE_LEN),
            observed_generation: self.generation,
            last_transition_time: Time(self.now),
        };
        condition::set(self.all, condition);
    }

    fn has_reason(&self, type_: &str, reason: &str) -> bool {
        let mut conditions = self.all.iter();
        conditions.any(|c| c.type_ == type_ && c.reason == reason)
    }

    /// Retains a condition for this generation, or sets the given one if it does not exist.
    pub(crate) fn retain(&mut self, type_: &str, otherwise: (&str, &str, &str)) {
        let condition = self.all.iter().find(|c| c.type_ == type_).cloned();
        match condition {
            Some(c) => self.set(type_, &c.status, &c.reason, &c.message),
            None => self.set(type_, otherwise.0, otherwise.1, otherwise.2),
        }
    }
}

fn valid(conditions: &mut Conditions<'_>, valid: &TemplateState) {
    let (status, reason, message) = match valid {
        TemplateState::Unchanged => {
            return conditions.retain(
                condition::HAS_VALID_BUNDLE,
                (
                    "Unknown",
                    reason::PAUSED,
                    "paused (spec.paused): the bundle is not unpacked; set spec.paused to false to resume",
                ),
            );
        }
        TemplateState::UnknownClass(class) => (
            "False",
            reason::UNKNOWN_CLASS,
            format!(
                "no provisioner handles class {class:?} (spec.provisionerClassName); use core-rukpak-io-registry or \
                 core-rukpak-io-plain, or install the provisioner for that class"
            ),
        ),
        TemplateState::Unknown { message, .. } => {
            ("Unknown", reason::RECONCILE_FAILED, message.clone())
        }
        TemplateState::Pending { bundle, message } => (
            "False",
            reason::UNPACK_PENDING,
            append(
                &format!("Waiting for the {bundle} Bundle to be unpacked"),
                message,
            ),
        ),
        TemplateState::Failed {
            bundle, message, ..
        } => (
            "False",
            reason::UNPACK_FAILED,
            append(&format!("Failed to unpack the {bundle} Bundle"), message),
        ),
        TemplateState::Unpacked { bundle } => (
            "True",
            reason::UNPACK_SUCCESSFUL,
            format!("Successfully unpacked the {bundle} Bundle"),
        ),
    };
    conditions.set(condition::HAS_VALID_BUNDLE, status, reason, &message);
}

/// Appends a message to a sentence.
fn append(sentence: &str, message: &str) -> String {
    if message.is_empty() {
        sentence.to_owned()
    } else {
        format!("{sentence}: {message}")
    }
}

fn health(
    conditions: &mut Conditions<'_>,
    health: &HealthState,
    is_installed: bool,
    has_new_objects: bool,
) {
    const TYPE: &str = condition::HEALTHY;
    if !is_installed {
        let message = "Installed condition is false";
        return conditions.set(TYPE, "False", reason::INSTALLATION_STATUS_FALSE, message);
    }
    match health {
        HealthState::Healthy => {
            conditions.set(TYPE, "True", reason::HEALTHY, "BundleInstance is healthy");
        }
        HealthState::Progressing(objects) | HealthState::Failed(objects) => {
            conditions.set(TYPE, "False", reason::UNHEALTHY, &objects.join("\n"));
        }
        HealthState::Unknown(why) => conditions.set(TYPE, "Unknown", reason::HEALTH_UNKNOWN, why),
        HealthState::NotObserved => {
            let unknown = (
                "Unknown",
                reason::HEALTH_UNKNOWN,
                "the applied objects have not been observed yet",
            );
            // False remains with its transition time: the objects were unhealthy before this rollout, and may still be.
            let former = condition::find(conditions.all, TYPE);
            let is_outdated =
                has_new_objects && former.is_some_and(|former| former.status == "True");
            if is_outdated || conditions.has_reason(TYPE, reason::INSTALLATION_STATUS_FALSE) {
                conditions.set(TYPE, unknown.0, unknown.1, unknown.2);
            } else {
                conditions.retain(TYPE, unknown);
            }
        }
    }
}

fn progressing(
    conditions: &mut Conditions<'_>,
    outcome: &Outcome,
    has_new_objects: bool,
    removing: &[String],
) {
    const TYPE: &str = condition::PROGRESSING;
    const ABOUT_OBJECTS: [&str; 3] = [
        reason::FIELD_CONFLICT,
        reason::UP_TO_DATE,
        reason::WAITING_FOR_HEALTH,
    ];
    let (status, reason, message) = progress(outcome, has_new_objects, removing);
    // Until the same objects are observed again, the previous condition about them remains.
    let is_kept = outcome.health == HealthState::NotObserved
        && !has_new_objects
        && matches!(reason, reason::UP_TO_DATE | reason::WAITING_FOR_HEALTH)
        && ABOUT_OBJECTS
            .iter()
            .any(|former| conditions.has_reason(TYPE, former));
    let is_continued = outcome.install == RolloutState::Unobserved
        && conditions.has_reason(TYPE, reason::APPLYING);
    match status.filter(|_| !is_kept && !is_continued) {
        Some(status) => conditions.set(TYPE, status, reason, &message),
        None => conditions.retain(TYPE, ("True", reason, &message)),
    }
}

fn progress(
    outcome: &Outcome,
    has_new_objects: bool,
    removing: &[String],
) -> (Option<&'static str>, &'static str, String) {
    let text = str::to_owned;
    match (&outcome.install, &outcome.valid) {
        (RolloutState::Paused, _) => (
            Some("False"),
            reason::PAUSED,
            text(
                "paused (spec.paused): no install, upgrade or repair; set spec.paused to false to resume",
            ),
        ),
        (_, TemplateState::UnknownClass(_)) => (
            Some("False"),
            reason::UNKNOWN_CLASS,
            text("nothing is in progress; see condition HasValidBundle"),
        ),
        (RolloutState::Failed(Failure { retry, message, .. }), _) => match retry {
            RetryClass::Soon => (
                Some("True"),
                reason::RETRYING,
                format!("retrying: {message}"),
            ),
            RetryClass::Backoff | RetryClass::AfterGrant => (
                Some("False"),
                reason::BLOCKED,
                format!("blocked until it is fixed: {message}"),
            ),
        },
        (RolloutState::Applying(applying), _) => (
            Some("True"),
            reason::APPLYING,
            format!(
                "applying {} objects of bundle {}: {} are applied",
                applying.count, applying.bundle, applying.applied
            ),
        ),
        (RolloutState::Waiting(_), _) => (None, reason::RETRYING, text("retrying")),
        (RolloutState::Queued, _) => (
            Some("True"),
            reason::RETRYING,
            text("waiting for the rollouts of other BundleInstances"),
        ),
        (RolloutState::Unobserved, _) => (
            Some("True"),
            reason::RETRYING,
            text("waiting until the watches have listed the installed objects"),
        ),
        (RolloutState::Stopped(unhealthy), _) => (
            Some("False"),
            reason::BLOCKED,
            format!(
                "the rollout for a new release of the provisioner or of Kubernetes is stopped because it made other \
                 BundleInstances unhealthy: {}; repair these BundleInstances, or change their specs",
                names(unhealthy)
            ),
        ),
        _ if !outcome.conflicts.is_empty() => (
            Some("True"),
            reason::FIELD_CONFLICT,
            outcome.conflicts.join("\n"),
        ),
        (_, TemplateState::Pending { .. }) => (
            Some("True"),
            reason::UNPACK_PENDING,
            text("the Bundle is being unpacked; see condition HasValidBundle"),
        ),
        (_, TemplateState::Failed { .. }) => (
            Some("False"),
            reason::UNPACK_FAILED,
            text("the Bundle of spec.template cannot be installed; see condition HasValidBundle"),
        ),
        (_, TemplateState::Unknown { .. }) => (
            Some("True"),
            reason::RETRYING,
            text("retrying; see condition HasValidBundle"),
        ),
        // The Bundle to roll back to was replaced, so that nothing is repaired.
        (RolloutState::Unchanged, _) if outcome.replaced.is_some() => (
            Some("False"),
            reason::BLOCKED,
            text("the installed Bundle was replaced by another client; see condition Installed"),
        ),
        (RolloutState::Done(done), _) if done.is_outdated => (
            Some("True"),
            reason::APPLYING,
            text("the interrupted rollout is complete; the rollout of the present spec follows"),
        ),
        (RolloutState::Done(_) | RolloutState::Unchanged, _) => {
            applied_progress(outcome, has_new_objects, removing)
        }
    }
}

/// Returns the progress of an instance whose objects are applied.
fn applied_progress(
    outcome: &Outcome,
    has_new_objects: bool,
    removing: &[String],
) -> (Option<&'static str>, &'static str, String) {
    let is_unobserved = has_new_objects || matches!(outcome.install, RolloutState::Unchanged);
    match &outcome.health {
        HealthState::Progressing(_) => (
            Some("True"),
            reason::WAITING_FOR_HEALTH,
            "all objects are applied, but some are not ready; see condition Healthy".to_owned(),
        ),
        _ if !removing.is_empty() => (
            Some("True"),
            reason::RETRYING,
            format!(
                "some objects removed from the bundle are still terminating: {}",
                removing.join("\n")
            ),
        ),
        HealthState::NotObserved if is_unobserved => (
            Some("True"),
            reason::WAITING_FOR_HEALTH,
            "all objects are applied, but have not been observed yet".to_owned(),
        ),
        _ => (
            Some("False"),
            reason::UP_TO_DATE,
            "all objects are applied".to_owned(),
        ),
    }
}

/// Returns the first names of a list, and the number of further ones.
fn names(all: &[String]) -> String {
    let first: Vec<&str> = all.iter().take(MAX_NAMED).map(String::as_str).collect();
    match all.len().saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;

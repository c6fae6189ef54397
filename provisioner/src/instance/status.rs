//! From what was found to the status: a plain function.
//!
//! | condition | True | False | Unknown |
//! | --- | --- | --- | --- |
//! | `HasValidBundle` | unpacked | pending, failing, class not served | Bundles cannot be listed |
//! | `Installed` | the objects of a bundle are in the cluster, named in the message; also while a newer one fails | none | |
//! | `Healthy` | every object is well | some object is not; nothing is installed | not looked at yet |
//! | `Progressing` | under way, or tried again | nothing to do, or nothing that can be done from here | |
//!
//! `Ready`, `Reconciling` and `Stalled` follow from these ([`ready`]), in the same write.

mod facts;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use manifests::{
    api::{
        condition::{self, reason},
        instance::{
            BundleInstanceStatus, InstalledBundle, Inventory,
            ready::{self, Declaration, Facts, Objects},
        },
    },
    object::shortened,
};

use super::{
    outcome::{Failure, Health, Install, Outcome, Retry, RolledBack, Valid},
    trust,
};

/// How many objects that wait are listed; the API server takes 512.
const MOST_LINES: usize = 500;
/// The number of BundleInstances that a message names.
const MOST_NAMED: usize = 10;
/// The longest message; the API server takes 32 KiB. Missing rights, which somebody applies as they are told, take up to
/// half of that, and come last.
const LONGEST: usize = 32_000;

/// The status of a generation after what was found, given the status before.
pub fn of(
    before: &BundleInstanceStatus,
    declaration: &Declaration,
    outcome: &Outcome,
    now: Timestamp,
) -> BundleInstanceStatus {
    let mut status = before.clone();
    let generation = declaration.generation;
    status.observed_generation = generation;
    if let Install::Done(done) = &outcome.install {
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
        status.waiting.truncate(MOST_LINES);
        status.released = done.released;
        status.failed_template_hash = done.rolled_back.and_then(|back| back.template_hash);
        status.removing = done.removing;
        status.revisions = done.revisions;
    }
    if let Some(kept) = &outcome.kept {
        status.inventory = Some(kept.inventory.clone());
        let known: BTreeSet<String> = status.waiting.drain(..).collect();
        let all = known.into_iter().chain(kept.waiting.iter().cloned());
        status.waiting = all.collect::<BTreeSet<String>>().into_iter().collect();
        status.waiting.truncate(MOST_LINES);
        status.removing.clone_from(&kept.removing);
        status.released.clone_from(&kept.released);
        status.revisions.clone_from(&kept.revisions);
        if kept.is_lost {
            status.applied_digest = None;
        }
    }
    if let Install::Applying(applying) = &outcome.install {
        status.inventory = Some(applying.inventory.clone());
    }
    if matches!(outcome.install, Install::Done(_) | Install::Unchanged)
        && outcome.health == Health::Healthy
    {
        status.previous_bundle_name = None;
        status.previous = None;
    }
    let mut conditions = Conditions {
        all: &mut status.conditions,
        generation,
        now,
    };
    valid(&mut conditions, &outcome.valid);
    let is_installed = status.installed_bundle_name.is_some();
    installed(
        &mut conditions,
        status.installed_bundle_name.as_deref(),
        outcome,
    );
    health(&mut conditions, &outcome.health, is_installed);
    progressing(&mut conditions, outcome, &status.removing);
    let facts = facts::collect(outcome, declaration, &status);
    ready::update(&mut status, declaration, facts, now);
    status
}

/// The status while objects are being applied: `inventory` is what there may be from now on, and what was applied before
/// may be there only in part.
pub fn applying(
    before: &BundleInstanceStatus,
    declaration: &Declaration,
    bundle: &str,
    objects: usize,
    inventory: Inventory,
    now: Timestamp,
) -> BundleInstanceStatus {
    // HasValidBundle is that of the last write, when the Bundle may not have been unpacked.
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

/// The status while an instance is being removed.
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

/// The status while the controller changes objects.
fn working(
    before: &BundleInstanceStatus,
    declaration: &Declaration,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> BundleInstanceStatus {
    let mut status = before.clone();
    let generation = declaration.generation;
    status.observed_generation = generation;
    let mut conditions = Conditions {
        all: &mut status.conditions,
        generation,
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

/// Conditions as the conventions want them.
pub(crate) struct Conditions<'a> {
    pub(crate) all: &'a mut Vec<Condition>,
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
}

impl Conditions<'_> {
    /// Sets a condition; the time moves only with its status.
    pub(crate) fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: shortened(message, LONGEST),
            observed_generation: self.generation,
            last_transition_time: Time(self.now),
        };
        condition::set(self.all, condition);
    }

    fn has_reason(&self, type_: &str, reason: &str) -> bool {
        let mut conditions = self.all.iter();
        conditions.any(|c| c.type_ == type_ && c.reason == reason)
    }

    /// Leaves a condition as it is, about this generation.
    pub(crate) fn keep(&mut self, type_: &str, otherwise: (&str, &str, &str)) {
        let kept = self.all.iter().find(|c| c.type_ == type_).cloned();
        match kept {
            Some(c) => self.set(type_, &c.status, &c.reason, &c.message),
            None => self.set(type_, otherwise.0, otherwise.1, otherwise.2),
        }
    }
}

fn valid(conditions: &mut Conditions<'_>, valid: &Valid) {
    let (status, reason, message) = match valid {
        Valid::Unchanged => {
            return conditions.keep(
                condition::HAS_VALID_BUNDLE,
                (
                    "Unknown",
                    reason::PAUSED,
                    "spec.paused is true; set it to false to have the bundle unpacked",
                ),
            );
        }
        Valid::Unserved(class) => (
            "False",
            reason::UNKNOWN_CLASS,
            format!(
                "nobody here serves the class {class:?} of spec.provisionerClassName; use core-rukpak-io-registry or core-rukpak-io-plain, or install who serves it"
            ),
        ),
        Valid::Unknown { message, .. } => ("Unknown", reason::RECONCILE_FAILED, message.clone()),
        Valid::Pending { bundle, message } => (
            "False",
            reason::UNPACK_PENDING,
            with(
                &format!("Waiting for the {bundle} Bundle to be unpacked"),
                message,
            ),
        ),
        Valid::Failed {
            bundle, message, ..
        } => (
            "False",
            reason::UNPACK_FAILED,
            with(&format!("Failed to unpack the {bundle} Bundle"), message),
        ),
        Valid::Unpacked { bundle } => (
            "True",
            reason::UNPACK_SUCCESSFUL,
            format!("Successfully unpacked the {bundle} Bundle"),
        ),
    };
    conditions.set(condition::HAS_VALID_BUNDLE, status, reason, &message);
}

/// A sentence, and what somebody else has to add to it.
fn with(sentence: &str, message: &str) -> String {
    if message.is_empty() {
        sentence.to_owned()
    } else {
        format!("{sentence}: {message}")
    }
}

/// Returns the message about a rollback to a bundle.
fn rolled_back(bundle: &str, back: &RolledBack) -> String {
    match back {
        RolledBack {
            template_hash: Some(_),
            why,
            ..
        } => {
            let why = why
                .as_deref()
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            format!(
                "bundle {bundle} was brought back, because the one of the template failed{why}; change spec.template to try \
                 another one"
            )
        }
        RolledBack { to, .. } => format!(
            "bundle {bundle} was brought back from revision {to}; remove spec.rollbackTo to return to spec.template"
        ),
    }
}

fn installed(conditions: &mut Conditions<'_>, bundle: Option<&str>, outcome: &Outcome) {
    const TYPE: &str = condition::INSTALLED;
    if let Some(replaced) = &outcome.replaced
        && !matches!(outcome.install, Install::Done(_))
    {
        let mut message = replaced.clone();
        if let Install::Failed(failure) = &outcome.install {
            message.push('\n');
            message.push_str(&failure.message);
        }
        return conditions.set(TYPE, "True", reason::INSTALLED_BUNDLE_REPLACED, &message);
    }
    match (&outcome.install, bundle) {
        (Install::Done(done), _) => {
            let mut message = format!("instantiated bundle {} successfully", done.bundle);
            let mut why = reason::INSTALLATION_SUCCEEDED;
            if let Some(back) = &done.rolled_back {
                why = reason::ROLLED_BACK;
                message = rolled_back(&done.bundle, back);
            }
            if !done.waiting.is_empty() {
                message.push_str("; ");
                message.push_str(&done.waiting.len().to_string());
                message.push_str(
                    " objects wait for APIs that this cluster does not serve, see status.waiting",
                );
            }
            for warning in &done.warnings {
                message.push_str("; ");
                message.push_str(warning);
            }
            conditions.set(TYPE, "True", why, &message);
        }
        (Install::Failed(failure), None) => {
            conditions.set(TYPE, "False", reason::INSTALL_FAILED, &failure.message);
        }
        (Install::Failed(failure), Some(bundle)) if *bundle == failure.bundle => {
            let message = format!(
                "bundle {bundle} is installed, but not all of it as declared: {}",
                failure.message
            );
            conditions.set(TYPE, "True", reason::RECONCILE_FAILED, &message);
        }
        (Install::Failed(failure), Some(bundle)) => {
            let state = if failure.touched {
                "was being replaced"
            } else {
                "stays installed"
            };
            let message = format!(
                "bundle {bundle} {state}; bundle {} could not be installed: {}",
                failure.bundle, failure.message
            );
            conditions.set(TYPE, "True", reason::UPGRADE_FAILED, &message);
        }
        // Where nobody looked, the old reason stays.
        (
            Install::Unchanged | Install::Waiting(_) | Install::Queued | Install::Stopped(_),
            Some(bundle),
        ) if conditions.has_reason(TYPE, reason::INSTALLED_BUNDLE_REPLACED)
            && !matches!(outcome.valid, Valid::Unserved(_)) =>
        {
            let message = format!(
                "Bundle {bundle}, which is installed, is missing; its objects are repaired as they are recorded, and the \
                 Bundle of spec.template is installed once it is unpacked, see HasValidBundle"
            );
            conditions.set(TYPE, "True", reason::RECONCILE_FAILED, &message);
        }
        (
            Install::Unchanged
            | Install::Paused
            | Install::Waiting(_)
            | Install::Queued
            | Install::Stopped(_)
            | Install::Applying(_),
            _,
        ) => {
            conditions.keep(
                TYPE,
                (
                    "False",
                    reason::NOT_INSTALLED,
                    "nothing has been installed yet; see HasValidBundle",
                ),
            );
        }
    }
}

fn health(conditions: &mut Conditions<'_>, health: &Health, is_installed: bool) {
    const TYPE: &str = condition::HEALTHY;
    if !is_installed {
        let message = "Installed condition is false";
        return conditions.set(TYPE, "False", reason::INSTALLATION_STATUS_FALSE, message);
    }
    match health {
        Health::Healthy => {
            conditions.set(TYPE, "True", reason::HEALTHY, "BundleInstance is healthy");
        }
        Health::Progressing(objects) | Health::Failed(objects) => {
            conditions.set(TYPE, "False", reason::UNHEALTHY, &objects.join("\n"));
        }
        Health::Unknown(why) => conditions.set(TYPE, "Unknown", reason::HEALTH_UNKNOWN, why),
        Health::NotLooked => {
            let unknown = (
                "Unknown",
                reason::HEALTH_UNKNOWN,
                "the objects have not been looked at yet",
            );
            let was_absent =
                |c: &Condition| c.type_ == TYPE && c.reason == reason::INSTALLATION_STATUS_FALSE;
            if conditions.all.iter().any(was_absent) {
                // That is over.
                conditions.set(TYPE, unknown.0, unknown.1, unknown.2);
            } else {
                conditions.keep(TYPE, unknown);
            }
        }
    }
}

fn progressing(conditions: &mut Conditions<'_>, outcome: &Outcome, removing: &[String]) {
    const TYPE: &str = condition::PROGRESSING;
    const ABOUT_OBJECTS: [&str; 3] = [
        reason::FIGHTING,
        reason::UP_TO_DATE,
        reason::WAITING_FOR_HEALTH,
    ];
    let (status, reason, message) = progress(outcome, removing);
    // Until the objects are observed, the former condition about them counts.
    let is_kept = outcome.health == Health::NotLooked
        && matches!(reason, reason::UP_TO_DATE | reason::WAITING_FOR_HEALTH)
        && ABOUT_OBJECTS
            .iter()
            .any(|former| conditions.has_reason(TYPE, former));
    match status.filter(|_| !is_kept) {
        Some(status) => conditions.set(TYPE, status, reason, &message),
        None => conditions.keep(TYPE, ("True", reason, &message)),
    }
}

fn progress(
    outcome: &Outcome,
    removing: &[String],
) -> (Option<&'static str>, &'static str, String) {
    let text = str::to_owned;
    match (&outcome.install, &outcome.valid) {
        (Install::Paused, _) => (
            Some("False"),
            reason::PAUSED,
            text(
                "spec.paused is true: nothing is installed, upgraded or repaired; set it to false to go on",
            ),
        ),
        (_, Valid::Unserved(_)) => (
            Some("False"),
            reason::UNKNOWN_CLASS,
            text("there is nothing to wait for; see HasValidBundle"),
        ),
        (Install::Failed(Failure { retry, message, .. }), _) => match retry {
            Retry::Soon => (
                Some("True"),
                reason::RETRYING,
                format!("it is tried again: {message}"),
            ),
            Retry::Slowly | Retry::Granted => (
                Some("False"),
                reason::BLOCKED,
                format!("it will not work before something is changed: {message}"),
            ),
        },
        (Install::Applying(applying), _) => (
            Some("True"),
            reason::APPLYING,
            format!(
                "applying {} objects of bundle {}: {} are applied",
                applying.count, applying.bundle, applying.applied
            ),
        ),
        (Install::Waiting(_), _) => (None, reason::RETRYING, text("it is tried again")),
        (Install::Queued, _) => (
            Some("True"),
            reason::RETRYING,
            text("the rollout waits for the rollouts of other BundleInstances"),
        ),
        (Install::Stopped(unhealthy), _) => (
            Some("False"),
            reason::BLOCKED,
            format!(
                "the objects of this release of the provisioner and this version of Kubernetes are not rolled out, because \
                 they made other BundleInstances unhealthy: {}; repair these BundleInstances, or change their specs",
                names(unhealthy)
            ),
        ),
        _ if !outcome.fights.is_empty() => {
            (Some("True"), reason::FIGHTING, outcome.fights.join("\n"))
        }
        (_, Valid::Pending { .. }) => (
            Some("True"),
            reason::UNPACK_PENDING,
            text("the Bundle is being unpacked; see HasValidBundle"),
        ),
        (_, Valid::Failed { .. }) => (
            Some("False"),
            reason::UNPACK_FAILED,
            text("the Bundle of the template cannot be installed; see HasValidBundle"),
        ),
        (_, Valid::Unknown { .. }) => (
            Some("True"),
            reason::RETRYING,
            text("it is tried again; see HasValidBundle"),
        ),
        // The Bundle to roll back to was replaced, so that nothing is repaired.
        (Install::Unchanged, _) if outcome.replaced.is_some() => (
            Some("False"),
            reason::BLOCKED,
            text("the installed Bundle was replaced by another client; see condition Installed"),
        ),
        (Install::Done(_) | Install::Unchanged, _) => match &outcome.health {
            Health::Progressing(_) => (
                Some("True"),
                reason::WAITING_FOR_HEALTH,
                text("all objects are applied, and not all of them are ready; see Healthy"),
            ),
            _ if !removing.is_empty() => (
                Some("True"),
                reason::RETRYING,
                format!(
                    "not everything that has left the bundle is gone; it is tried again: {}",
                    removing.join("\n")
                ),
            ),
            Health::NotLooked if matches!(outcome.install, Install::Unchanged) => (
                Some("True"),
                reason::WAITING_FOR_HEALTH,
                text("all objects are applied, and have not been observed yet"),
            ),
            _ => (
                Some("False"),
                reason::UP_TO_DATE,
                text("all objects are applied, and watched"),
            ),
        },
    }
}

/// Returns the first names of a list, and how many more there are.
fn names(all: &[String]) -> String {
    let first: Vec<&str> = all.iter().take(MOST_NAMED).map(String::as_str).collect();
    match all.len().saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;

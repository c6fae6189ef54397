//! The choice of the next revision of an instance. Pure; no I/O.

use manifests::api::{
    bundle::Bundle,
    bundle_instance::{BundleInstanceSpec, BundleInstanceStatus, Cause, RevisionStatus},
};

use super::{
    outcome::RolledBack,
    revisions,
    rollout::{Source, Target, digest},
    trust::is_unpacked,
};

/// The goal of a reconcile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Goal<'a> {
    /// Objects of this Bundle, configured by the spec.
    Bundle(&'a Bundle),
    /// Objects that this revision records.
    Revision(&'a RevisionStatus),
    /// Objects of the newest revision, as they are recorded.
    Keep,
    /// Missing revision: `spec.rollbackTo` names a number that is not recorded.
    Unrecorded(i64),
}

/// Inputs of the choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choices<'a> {
    pub(crate) spec: &'a BundleInstanceSpec,
    pub(crate) status: &'a BundleInstanceStatus,
    /// Hash of the template.
    pub(crate) hash: &'a str,
    /// Bundle of the template; `None` if it could not be created.
    pub(crate) desired: Option<&'a Bundle>,
    /// Installed Bundle; `None` unless it is trusted and its content is unpacked.
    pub(crate) installed: Option<&'a Bundle>,
}

impl<'a> Choices<'a> {
    /// Chooses the goal.
    pub(crate) fn goal(&self) -> Goal<'a> {
        if let Some(number) = self.spec.rollback_to {
            return self.pinned(number);
        }
        // If a rollback is not possible, the rollout of the template continues, also with a changed configuration.
        if self.is_given_up() && !revisions::has_lost_rollback_target(self.status) {
            return match self.status.active() {
                // The rollback was chosen, but its rollout has not started.
                Some(active) if self.newest_is_failed() => Goal::Revision(active),
                Some(_) => Goal::Keep,
                None => self.lost_rollback(),
            };
        }
        let ready = self.desired.filter(|bundle| is_unpacked(bundle));
        if let Some(bundle) = ready {
            return Goal::Bundle(bundle);
        }
        if let Some(revision) = self.reverted_to() {
            return Goal::Revision(revision);
        }
        match self.installed {
            // An older provisioner has recorded no revision.
            Some(bundle) if self.status.revisions.is_empty() => Goal::Bundle(bundle),
            _ => Goal::Keep,
        }
    }

    /// Reports whether the goal is the state that the spec declares: the objects of the template, those of a pinned
    /// revision, or a rollback from a template that failed.
    pub(crate) fn is_declared(&self) -> bool {
        match self.goal() {
            Goal::Bundle(bundle) => self.desired.is_some_and(|desired| {
                desired.metadata.name == bundle.metadata.name
                    && desired.metadata.uid == bundle.metadata.uid
            }),
            Goal::Revision(_) => true,
            Goal::Keep => self.spec.rollback_to.is_some() || self.is_given_up(),
            Goal::Unrecorded(_) => false,
        }
    }

    /// Reports whether the template failed and was rolled back.
    pub(crate) fn is_given_up(&self) -> bool {
        self.status.failed_template_hash.as_deref() == Some(self.hash)
    }

    /// Returns the target to roll out for this goal; `None` if no rollout is needed. `has_api` reports that an API of
    /// deferred objects of the newest revision is served now. `given_up` has the hash of the template that was given up
    /// last, and the reason.
    pub(crate) fn target(
        &self,
        goal: &Goal<'a>,
        has_api: bool,
        given_up: Option<(&str, &str)>,
    ) -> Option<Target<'a>> {
        let is_given_up = self.is_given_up();
        let given_up = given_up.filter(|(hash, _)| is_given_up && *hash == self.hash);
        let why = given_up.map(|(_, why)| why.to_owned());
        let rollback = revisions::rollback(self.spec, self.status, is_given_up);
        let rollback = rollback.map(|back| RolledBack {
            why: why.clone(),
            ..back
        });
        match *goal {
            Goal::Bundle(bundle) => {
                let name = |bundle: &'a Bundle| bundle.metadata.name.as_ref();
                let is_rollback = is_given_up && self.desired.and_then(name) != name(bundle);
                Some(Target {
                    source: Source::Bundle(bundle),
                    rollback: rollback.filter(|_| is_rollback),
                })
            }
            Goal::Revision(revision) => {
                let is_rollback = is_given_up || self.spec.rollback_to.is_some();
                Some(Target {
                    source: Source::Revision(revision),
                    rollback: is_rollback.then(|| RolledBack {
                        why,
                        template_hash: is_given_up.then(|| self.hash.to_owned()),
                        to: revision.number,
                    }),
                })
            }
            Goal::Keep => {
                // The newest revision is active if the record of a newer one was lost.
                let is_half_applied = self.status.applied_digest.is_none();
                let newest = self.status.newest();
                newest
                    .filter(|_| is_half_applied || has_api)
                    .map(|newest| Target {
                        source: Source::Newest(newest),
                        rollback,
                    })
            }
            Goal::Unrecorded(_) => None,
        }
    }

    fn pinned(&self, number: i64) -> Goal<'a> {
        let all = &self.status.revisions;
        let newest = self.status.newest();
        if newest
            .is_some_and(|newest| newest.number == number || newest.rollback_of == Some(number))
        {
            return Goal::Keep;
        }
        let found = all.iter().find(|revision| revision.number == number);
        if found.is_some_and(|found| newest.is_some_and(|newest| newest.digest == found.digest)) {
            return Goal::Keep;
        }
        found.map_or(Goal::Unrecorded(number), Goal::Revision)
    }

    fn newest_is_failed(&self) -> bool {
        let newest = self.status.rolling_out();
        newest.is_some_and(|newest| newest.cause != Cause::Rollback)
    }

    /// Returns the goal of a rollback whose record is lost, so that no live revision remains: the latest revision with the
    /// objects of the last rollout, or the installed Bundle.
    fn lost_rollback(&self) -> Goal<'a> {
        if self.status.newest().is_some() {
            return Goal::Keep;
        }
        let mut revisions = self.status.revisions.iter().rev();
        let applied = self.status.applied_digest.as_ref();
        let recorded = revisions.find(|revision| Some(&digest::revision_key(revision)) == applied);
        recorded
            .map(Goal::Revision)
            .or_else(|| {
                // Without any record, the installed objects are migrated.
                let is_recorded = !self.status.revisions.is_empty();
                self.installed.filter(|_| is_recorded).map(Goal::Bundle)
            })
            .unwrap_or(Goal::Keep)
    }

    /// Returns the latest revision of the current template if the template was changed back while a newer revision is
    /// rolled out. Used while the Bundle of the template is not unpacked.
    fn reverted_to(&self) -> Option<&'a RevisionStatus> {
        let newest = self.status.rolling_out()?;
        if newest.template_hash.as_deref() == Some(self.hash) {
            return None;
        }
        let mut others = self.status.revisions.iter().rev();
        others.find(|revision| revision.template_hash.as_deref() == Some(self.hash))
    }
}

#[cfg(test)]
mod tests;

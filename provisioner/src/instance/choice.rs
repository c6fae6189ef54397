//! The choice of the next revision of an instance. Pure; no I/O.

use manifests::api::{
    bundle::Bundle,
    instance::{BundleInstanceSpec, BundleInstanceStatus, Cause, RevisionState, RevisionStatus},
};

use super::{revisions, trust::is_unpacked};

/// The goal of a reconcile.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Goal<'a> {
    /// The objects of this Bundle, as the spec configures them.
    Bundle(&'a Bundle),
    /// The objects that this revision records.
    Revision(&'a RevisionStatus),
    /// The objects of the newest revision, as they are recorded.
    Keep,
    /// The revision that `spec.rollbackTo` names is not recorded.
    Unrecorded(i64),
}

/// The facts that the choice depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choices<'a> {
    pub(super) spec: &'a BundleInstanceSpec,
    pub(super) status: &'a BundleInstanceStatus,
    /// The hash of the template.
    pub(super) hash: &'a str,
    /// The Bundle of the template, if it could be created.
    pub(super) wanted: Option<&'a Bundle>,
    /// The installed Bundle, if it can be trusted and its content is unpacked.
    pub(super) installed: Option<&'a Bundle>,
}

impl<'a> Choices<'a> {
    /// Decides.
    pub(super) fn goal(&self) -> Goal<'a> {
        if let Some(number) = self.spec.rollback_to {
            return self.pinned(number);
        }
        if self.is_given_up() {
            return match revisions::active(self.status) {
                // The rollback was decided and not begun.
                Some(active) if self.newest_is_failed() => Goal::Revision(active),
                _ => Goal::Keep,
            };
        }
        let ready = self.wanted.filter(|bundle| is_unpacked(bundle));
        if let Some(bundle) = ready {
            return Goal::Bundle(bundle);
        }
        if let Some(revision) = self.reverted_to() {
            return Goal::Revision(revision);
        }
        match self.installed {
            // An older provisioner recorded no revision.
            Some(bundle) if self.status.revisions.is_empty() => Goal::Bundle(bundle),
            _ => Goal::Keep,
        }
    }

    /// Reports whether the goal leads to what the spec declares: to the objects of the template, to those of a pinned
    /// revision, or away from a template that failed.
    pub(super) fn is_declared(&self) -> bool {
        match self.goal() {
            Goal::Bundle(bundle) => self.wanted.is_some_and(|wanted| {
                wanted.metadata.name == bundle.metadata.name
                    && wanted.metadata.uid == bundle.metadata.uid
            }),
            Goal::Revision(_) => true,
            Goal::Keep => self.spec.rollback_to.is_some() || self.is_given_up(),
            Goal::Unrecorded(_) => false,
        }
    }

    /// Reports whether the template failed and was rolled back.
    pub(super) fn is_given_up(&self) -> bool {
        self.status.failed_template_hash.as_deref() == Some(self.hash)
    }

    fn pinned(&self, number: i64) -> Goal<'a> {
        let revisions = &self.status.revisions;
        let newest = revisions.last();
        if newest
            .is_some_and(|newest| newest.number == number || newest.rollback_of == Some(number))
        {
            return Goal::Keep;
        }
        let found = revisions.iter().find(|revision| revision.number == number);
        if found.is_some_and(|found| newest.is_some_and(|newest| newest.digest == found.digest)) {
            return Goal::Keep;
        }
        found.map_or(Goal::Unrecorded(number), Goal::Revision)
    }

    fn newest_is_failed(&self) -> bool {
        let newest = self.status.revisions.last();
        newest.is_some_and(|newest| {
            newest.state == RevisionState::RollingOut && newest.cause != Cause::Rollback
        })
    }

    /// Returns the revision of a template that was reverted while a newer revision is rolled out, and whose Bundle is not
    /// no longer unpacked.
    fn reverted_to(&self) -> Option<&'a RevisionStatus> {
        let newest = self.status.revisions.last()?;
        if newest.state != RevisionState::RollingOut
            || newest.template_hash.as_deref() == Some(self.hash)
        {
            return None;
        }
        let mut older = self.status.revisions.iter().rev().skip(1);
        older.find(|revision| revision.template_hash.as_deref() == Some(self.hash))
    }
}

#[cfg(test)]
mod tests;

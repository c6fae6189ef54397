//! The rules that every request of the controller keeps.

use super::{live::is_as_applied, *};

impl Server {
    pub(super) fn check_write(&mut self, identity: &Identity, step: &ApplyStep, phase: Phase) {
        let owner = self.owner();
        if let Some(live) = self.objects.get(identity) {
            let adopter = live.fields.get(&annotation(labels::ADOPT));
            let may_write = live.is_labelled(&owner)
                || !live.ours.is_empty()
                || adopter.and_then(Value::as_str) == Some(owner.name.as_str());
            let is_unchanged = !self.is_disturbed
                && live.is_labelled(&owner)
                && live.hash() == Some(step.hash)
                && is_as_applied(live, step);
            if !may_write {
                self.violate(format!("{phase:?} overwrites {identity} of another client"));
            } else if is_unchanged && matches!(phase, Phase::Rollout(_)) {
                self.violate(format!("{phase:?} writes {identity}, which is unchanged"));
            }
        }
        if phase == Phase::Repair {
            self.check_form(identity, step);
        }
    }

    /// Notes the waves whose objects have the form of a new revision already: an interrupted rollout applied that form.
    pub(super) fn begin(&mut self, number: i64, current: &[ApplyStep]) {
        let status = self.status();
        let active = status
            .active()
            .and_then(|active| self.truth.get(&active.number));
        let active = active.cloned().unwrap_or_default();
        let is_new = |step: &&ApplyStep| active.get(&step.object.identity()) != Some(&step.hash);
        let begun = current.iter().filter(is_new).map(|step| step.wave);
        self.started.extend(begun.map(|wave| (number, wave)));
    }

    /// Checks the form of a repaired object: as long as the wave of a rollout has not begun, the active one.
    fn check_form(&mut self, identity: &Identity, step: &ApplyStep) {
        let status = self.status();
        let of = |revision: Option<&RevisionStatus>| {
            let truth = self.truth.get(&revision?.number)?;
            truth.get(identity).copied()
        };
        let newest = status.newest();
        let (new, old) = (of(newest), of(status.active()));
        let has_begun = newest.is_none_or(|newest| {
            status.applied_digest.is_some() || self.started.contains(&(newest.number, step.wave))
        });
        // Without the record of the active revision, the newest form is the only one that is known.
        let has_lost_active = status.active().is_none() && !self.lost.is_empty();
        let problem = if Some(step.hash) != new && Some(step.hash) != old {
            "a form that no live revision records"
        } else if Some(step.hash) != old && !has_begun && !has_lost_active {
            "the newer form before its wave has begun"
        } else {
            return;
        };
        self.violate(format!("{identity} is repaired to {problem}"));
    }

    pub(super) fn check_deletion(&mut self, identity: &Identity, phase: Phase) {
        let (owner, status) = (self.owner(), self.status());
        let is_owned = |live: &Live| live.is_labelled(&owner);
        if !self.objects.get(identity).is_none_or(is_owned) {
            self.violate(format!("{phase:?} deletes {identity} of another client"));
        }
        if phase == Phase::Uninstall {
            return;
        }
        let truth = |revision: Option<&RevisionStatus>| {
            let truth = revision.and_then(|revision| self.truth.get(&revision.number));
            truth.cloned().unwrap_or_default()
        };
        let new = truth(status.newest());
        let old = truth(status.active());
        let is_service = |identity: &&Identity| identity.kind == "Service";
        let owned = self.objects.iter().filter(|(_, live)| is_owned(live));
        let service_leaves = owned
            .map(|(identity, _)| identity)
            .chain(old.keys())
            .filter(is_service)
            .any(|service| !new.contains_key(service));
        let is_early = phase == Phase::Early
            && match identity.kind.as_str() {
                "APIService" => true,
                "ValidatingWebhookConfiguration" => service_leaves,
                _ => false,
            };
        if new.contains_key(identity) {
            self.violate(format!("{phase:?} deletes {identity}, which is installed"));
        } else if old.contains_key(identity) && !is_early {
            self.violate(format!(
                "{phase:?} deletes {identity} before the new revision is active"
            ));
        }
    }
}

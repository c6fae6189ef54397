//! Repairs, prunes and the removal of the instance in the model.

use apply::{
    plan::{DefinitionPolicy, PruneStage, definition_groups},
    prune::{Decision, decide},
    ssa::PruneReport,
};

use super::*;
use crate::controllers::bundle_instance::{
    policy,
    repair::{
        form::{Form, Forms, Steps},
        prune,
    },
    uninstall,
};

#[derive(Default)]
struct Repaired {
    is_changed: bool,
    failures: Vec<String>,
    lost: Option<i64>,
    is_complete: bool,
}

impl Controller {
    /// Does what `repair::run` does.
    pub(super) fn maintain(&mut self, server: &mut Server, status: &Status) -> Run<RolloutResult> {
        self.removing.clone_from(&status.removing);
        let lost = self.lost.take();
        let lost = lost.filter(|lost| status.revisions.iter().any(|other| other.number == *lost));
        let mut repaired = self.repair_drifted(server, status)?;
        let mut done = rollout::unchanged(&server.instance, status);
        let mut is_changed = repaired.is_changed || revisions::is_index_lost(status);
        if let Some(active) = prune::due(status) {
            match self.read(server, active) {
                Ok(plan) => {
                    let pruned = self.prune(server, &plan.leaving, Phase::Prune)?;
                    let removing = prune::remaining(&pruned, &plan);
                    is_changed |= removing != done.removing || !pruned.released.is_empty();
                    done.removing = removing;
                    done.released
                        .splice(0..0, prune_candidates::release_lines(&pruned));
                }
                Err(lost) => {
                    repaired.lost = repaired.lost.or(lost.lost);
                    repaired.failures.extend(lost.failures);
                }
            }
        }
        if revisions::is_index_lost(status) {
            let leftovers = prune_candidates::lines_of(self.leftovers.iter());
            done.removing = repair::listed_once(done.removing, leftovers);
        }
        let mut is_lost = false;
        if let Some(lost) = lost.or(repaired.lost) {
            is_changed = true;
            is_lost = repair::is_rolled_back_by_loss(status, lost);
            if repair::is_newest_left(status, lost) {
                self.unread = None;
            }
            done.revisions.retain(|revision| revision.number != lost);
            server.forget(lost)?;
            if is_lost {
                self.restore_index(server, &done, status);
            }
        }
        if is_changed {
            done.inventory =
                inventory_status::counted(listed(&self.inventory()), self.unread, status);
        }
        let change =
            is_changed.then(|| with!(RepairedInventory::from_done(&done) => is_lost: is_lost));
        let bundle = status.installed_bundle_name.clone().unwrap_or_default();
        let failed = (!repaired.failures.is_empty())
            .then(|| failure(&bundle, &repaired.failures.join("\n"), RetryClass::Soon));
        let health = self.health(server);
        let is_over =
            repaired.is_complete && repair::is_status_stale(&server.instance, status, &health);
        let (install, changes) = repair::concluded(status, done, failed, change, is_over);
        Ok(with!(settled(install, health) => repaired: changes))
    }

    /// Does what `repair::restore_index` does.
    fn restore_index(&mut self, server: &Server, done: &CompletedRollout, status: &Status) {
        let status = with!(status.clone() => revisions: done.revisions.clone());
        let built = Self::rebuilt_index(server, &status).inventory;
        let inventory = self.inventory.get_or_insert_default();
        for (identity, entry) in built {
            inventory.entry(identity).or_insert(entry);
        }
    }

    fn repair_drifted(&mut self, server: &mut Server, status: &Status) -> Run<Repaired> {
        let before = self.inventory();
        let view = server.view(before.keys());
        let drifted = repair::drifted(&before, &BTreeSet::new(), status, &view);
        let is_listed = |number| status.revisions.iter().any(|other| other.number == number);
        if drifted.is_empty() && !self.unread.is_some_and(is_listed) {
            return Ok(with!(Repaired, is_complete: true));
        }
        let mut live = status.live();
        let Some(newest) = live.next() else {
            return Ok(Repaired::default());
        };
        let active = status.active().map(|active| active.number);
        let older = live.find(|revision| Some(revision.number) == active);
        let mut plans = Vec::new();
        for revision in [Some(newest), older].into_iter().flatten() {
            match self.read(server, revision) {
                Ok(plan) => plans.push(plan),
                Err(lost) => return Ok(lost),
            }
        }
        let steps = |plan: &Plan| -> Steps {
            let steps = plan.steps.iter().cloned();
            steps.map(|step| (step.object.identity(), step)).collect()
        };
        let is_applied = status.applied_digest.is_some();
        let older = plans.get(1).map(steps);
        let forms = Forms::new(steps(&plans[0]), older, is_applied, &view);
        let mut repaired = Repaired::default();
        let mut due = Vec::new();
        for identity in &drifted {
            let observed = view.objects.get(identity);
            let entry = before.get(identity);
            let is_deleted = observed.is_none() && entry.is_some_and(|entry| entry.recreating);
            let hash = observed.and_then(|observed| observed.hash);
            match forms.form(identity, hash, is_deleted) {
                Form::Newest(step) | Form::Older(step) => due.push(step.clone()),
                Form::Later => {}
                Form::Removed => {
                    if view.absent.contains(identity) {
                        self.inventory.get_or_insert_default().remove(identity);
                    }
                }
            }
        }
        due.sort_by_key(|step| step.wave);
        for step in &due {
            let identity = step.object.identity();
            let live = server.objects.get(&identity).map(Live::metadata);
            if let Some(live) = live.filter(|_| view.absent.contains(&identity))
                && let Some(holder) = ownership::other_holder(&live, &server.owner())
            {
                let problem = format!("{identity} belongs to {holder}");
                repaired.failures.push(problem);
                continue;
            }
            match server.apply(step, Phase::Repair)? {
                Ok(fields) => {
                    let inventory = self.inventory.get_or_insert_default();
                    inventory.entry(identity).or_default().fields = fields;
                }
                Err(failure) => repaired.failures.push(failure.message),
            }
        }
        repaired.is_changed = self.inventory() != before;
        repaired.is_complete = repaired.failures.is_empty();
        Ok(repaired)
    }

    fn read(&self, server: &Server, revision: &RevisionStatus) -> Result<Plan, Repaired> {
        match server.read(revision) {
            Ok(record) => Ok(server.planned(record.objects, &self.inventory())),
            Err(problem) => {
                Err(with!(Repaired, failures: vec![problem], lost: Some(revision.number)))
            }
        }
    }

    /// Deletes objects in order, as `apply::prune` does, and removes deleted ones from the inventory.
    pub(super) fn prune(
        &mut self,
        server: &mut Server,
        leaving: &[PruneCandidate],
        phase: Phase,
    ) -> Run<PruneReport> {
        let policy = match phase {
            Phase::Uninstall => policy::crds(server.instance.spec.crd_deletion_policy),
            _ => repair::policy_of_upgrades(&server.instance),
        };
        let groups = definition_groups(leaving);
        let mut stages: BTreeMap<PruneStage, Vec<&Identity>> = BTreeMap::new();
        for leaving in leaving {
            let stage = PruneStage::for_object(&leaving.identity, &groups);
            stages.entry(stage).or_default().push(&leaving.identity);
        }
        let mut pruned = PruneReport::default();
        for (stage, identities) in stages {
            for identity in identities {
                prune_one(server, stage, policy, identity, phase, &mut pruned)?;
            }
            let is_awaited = stage <= PruneStage::Definitions && !pruned.terminating.is_empty();
            if is_awaited || !pruned.failed.is_empty() {
                break;
            }
        }
        inventory::remove_deleted(self.inventory.get_or_insert_default(), &pruned);
        Ok(pruned)
    }

    /// Removes the installed objects, as `uninstall::run` does; the answer says whether nothing is left to do.
    pub(super) fn uninstall(&mut self, server: &mut Server) -> Run<bool> {
        let status = server.status();
        self.read_inventory(server, &status);
        if self.unread.is_some() {
            let (owner, inventory) = (server.owner(), self.inventory.get_or_insert_default());
            for (identity, live) in &server.objects {
                if live.is_labelled(&owner) && is_definition(identity) {
                    inventory.entry(identity.clone()).or_default().version = "v1".to_owned();
                }
            }
        }
        let policy = policy::crds(server.instance.spec.crd_deletion_policy);
        for stage in uninstall::stages(&self.inventory(), policy) {
            let pruned = self.prune(server, &stage, Phase::Uninstall)?;
            if !pruned.failed.is_empty() || !pruned.terminating.is_empty() {
                return Ok(false);
            }
        }
        for revision in &status.revisions {
            server.forget(revision.number)?;
        }
        let newest = status.revisions.last().map_or(0, |newest| newest.number);
        server.forget(newest + 1)?;
        server.collect_garbage();
        Ok(true)
    }
}

fn prune_one(
    server: &mut Server,
    stage: PruneStage,
    policy: DefinitionPolicy,
    identity: &Identity,
    phase: Phase,
    pruned: &mut PruneReport,
) -> Run<()> {
    let Some(live) = server.objects.get(identity) else {
        pruned.deleted.push(identity.clone());
        return Ok(());
    };
    if let Some(cause) = server.denied.get(identity) {
        pruned.failed.push(ssa::ApplyFailure {
            identity: identity.clone(),
            message: format!("{identity} cannot be deleted"),
            cause: *cause,
        });
        return Ok(());
    }
    let decision = decide(stage, &server.owner(), policy, &live.value()["metadata"]);
    let is_used = server.objects.keys().any(content::is_widget);
    let is_used = is_used && policy != DefinitionPolicy::Delete;
    let release = match decision {
        Decision::Leave(why) => {
            pruned.released.insert(identity.clone(), why.to_owned());
            return Ok(());
        }
        Decision::Wait => {
            if live.has_finalizer {
                pruned.terminating.push(identity.clone());
            } else {
                pruned.deleted.push(identity.clone());
            }
            return Ok(());
        }
        Decision::Release(why) => Some(why),
        Decision::DeleteDefinition if policy == DefinitionPolicy::Retain || is_used => {
            Some("custom resources are left".to_owned())
        }
        Decision::DeleteDefinition | Decision::Delete => None,
    };
    match release {
        Some(why) => {
            server.release(identity)?;
            pruned.released.insert(identity.clone(), why);
        }
        None if server.delete(identity, phase)? => pruned.terminating.push(identity.clone()),
        None => pruned.deleted.push(identity.clone()),
    }
    Ok(())
}

//! An attempt to roll a revision out, in the model.

use apply::{
    preflight::{Check, Finding, Findings, crd_safety},
    revision::Revision,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::controllers::bundle_instance::{
    rollback::Unhealthy,
    rollout::{
        attempt, prepare,
        records::{Records, has_key},
        recreate,
    },
};

impl Controller {
    /// Does what `rollout::attempt` does.
    pub(super) fn attempt(
        &mut self,
        server: &mut Server,
        before: &Status,
        target: &Target<'_>,
        key: &str,
    ) -> Run<Result<CompletedRollout, Failure>> {
        let name = target.bundle_name();
        let rendered = match self.rendered(server, before, target, key) {
            Ok(rendered) => rendered,
            Err(failure) => return Ok(Err(failure)),
        };
        let is_applied = attempt::is_recorded(before, &rendered) && before.applied_digest.is_some();
        if is_applied && !attempt::is_rollback(target) {
            let done = rollout::unchanged(&server.instance, before);
            let done = attempt::described(before, &rendered, done);
            return Ok(Ok(with!(done => digest: key.to_owned(), rolled_back: None)));
        }
        let (rendered, plan) = match self.prepare(server, before, target, rendered) {
            Ok(prepared) => prepared,
            Err(failure) => return Ok(Err(failure)),
        };
        let applied = attempt::applied_key(target, &rendered, key);
        let inventory = self.inventory();
        let planned = plan.steps.iter().map(|step| step.object.identity());
        let all: BTreeSet<Identity> = planned.chain(inventory.keys().cloned()).collect();
        let view = server.view(all.iter());
        let (current, changed) = attempt::partition(&plan, self.inventory.as_ref(), &view);
        let failures = self.dry_run(server, before, &changed);
        self.refused = recreate::awaited(&failures);
        if !failures.is_empty() {
            return Ok(Err(rejected(&name, &failures)));
        }
        let mut revisions = before.revisions.clone();
        if attempt::needs_revision(before, target, &rendered) {
            let why = attempt::cause(&server.instance, before, target, &rendered);
            let revision = Self::record(server, before, &rendered, why)?;
            let current = current.iter().map(|step| step.object.identity());
            let leaving = plan.leaving.iter().map(|leaving| leaving.identity.clone());
            let excused = Unhealthy::observed(&view, current.chain(leaving));
            self.excused = Some((revision.number, excused));
            revisions::add(&mut revisions, revision);
        }
        let active = before.active().and_then(|active| server.read(active).ok());
        let active = active.map(|record| record.objects).unwrap_or_default();
        let early = prune_candidates::early(&plan, &active);
        if !changed.is_empty() || !early.is_empty() {
            let inventory = self.inventory.get_or_insert_default();
            inventory::intend(inventory, &plan);
            let listed = inventory_status::counted(listed(inventory), self.unread, before);
            let declaration = Declaration::new(&server.instance);
            let (count, now) = (plan.steps.len(), Self::now(server));
            let mut status = status::applying(before, &declaration, &name, count, listed, now);
            status.revisions.clone_from(&revisions);
            server.write_status(&status)?;
        }
        let number = revisions::newest_of(&mut revisions).map_or(0, |newest| newest.number);
        server.begin(number, &current);
        if let Err(failures) = self.apply(server, &changed, Phase::Rollout(number))? {
            let (failures, touched) = failures;
            return Ok(Err(with!(rejected(&name, &failures) => touched: touched)));
        }
        self.unread = None;
        let pruned = self.prune(server, &early, Phase::Early)?;
        if let Some(newest) = revisions::newest_of(&mut revisions) {
            newest.applied.get_or_insert(Time(Self::now(server)));
        }
        let left = plan.leaving.iter().map(|leaving| &leaving.identity);
        let left = left.filter(|identity| {
            !pruned.deleted.contains(identity) && !pruned.released.contains_key(identity)
        });
        let listed = listed(&self.inventory());
        let done = with!(rollout::unchanged(&server.instance, before) =>
            previous: attempt::previous(before, target, &rendered), namespace: rendered.namespace.clone(),
            is_outdated: applied != key, digest: applied, inventory: inventory_status::counted(listed, self.unread, before),
            removing: prune_candidates::lines_of(left), rolled_back: target.rollback.clone(), revisions: revisions);
        Ok(Ok(attempt::described(before, &rendered, done)))
    }

    fn rendered(
        &mut self,
        server: &Server,
        before: &Status,
        target: &Target<'_>,
        key: &str,
    ) -> Result<Rendered, Failure> {
        let revision = match target.source {
            Source::Bundle(bundle) => {
                let records = Records::new(before, bundle);
                let usable = |revisions: &[&RevisionStatus]| {
                    let record = recorded(server, revisions, key)?;
                    Some(Rendered::of_bundle_record(record, &server.instance, bundle))
                };
                if let Some(rendered) = usable(records.interrupted.as_slice()) {
                    return Ok(rendered);
                }
                let rendered = server.render(bundle);
                let rendered =
                    rendered.map(|rendered| with!(rendered => details.key: Some(key.to_owned())));
                let rendered = rendered.or_else(|failure| {
                    let unfinished = || {
                        let newest = records.unfinished?;
                        let record = server.read(newest).ok()?;
                        Rendered::of_unfinished(record, &server.instance, newest, bundle)
                    };
                    let rendered = usable(&records.of_template).or_else(unfinished);
                    rendered.ok_or(failure)
                });
                let is_current = |rendered: &Rendered| has_key(&rendered.details, key);
                self.lacks_content = !rendered.as_ref().is_ok_and(is_current);
                return rendered;
            }
            Source::Revision(revision) | Source::Newest(revision) => revision,
        };
        let record = server.read(revision).map_err(|problem| {
            self.lost = Some(revision.number);
            attempt::unusable_record(target, &problem)
        })?;
        let instance = &server.instance;
        Ok(Rendered::of_target(
            record, instance, before, target, revision,
        ))
    }

    /// Mirrors `rollout::objects::lacks_content`.
    pub(super) fn is_content_lacking(
        server: &Server,
        status: &Status,
        target: &Target<'_>,
        key: &str,
    ) -> bool {
        let instance = &server.instance;
        let bundle = target.bundle();
        let bundle = bundle.filter(|_| rollout::is_as_declared(instance, status, target));
        bundle.is_some_and(|bundle| {
            let of_template = Records::new(status, bundle).of_template;
            !server.has_content(bundle)
                && (rollout::is_ready(instance, status)
                    || recorded(server, &of_template, key).is_none())
        })
    }

    /// Plans, and makes the checks that need no more than the model has.
    fn prepare(
        &self,
        server: &Server,
        before: &Status,
        target: &Target<'_>,
        mut rendered: Rendered,
    ) -> Result<(Rendered, Plan), Failure> {
        let name = target.bundle_name();
        let mut has_kept_crds = false;
        loop {
            let plan = server.planned(rendered.objects.clone(), &self.inventory());
            let findings = self.check(server, &plan);
            if !findings.unsafe_definitions.is_empty()
                && !has_kept_crds
                && prepare::is_return(before, target, &rendered)
                && let Some(newest) = prepare::latest(before)
                && let Ok(newest) = server.read(newest)
            {
                has_kept_crds = true;
                let names = &findings.unsafe_definitions;
                prepare::retain_newer_crds(&mut rendered, names, &newest.objects)
                    .map_err(|problem| failure(&name, &problem, RetryClass::Backoff))?;
                continue;
            }
            if findings.problems.is_empty() {
                return Ok((rendered, plan));
            }
            let retry = prepare::retry_after(&findings.problems);
            let messages = findings.problems.iter().map(|problem| &*problem.message);
            let messages: Vec<&str> = messages.collect();
            return Err(failure(&name, &messages.join("\n"), retry));
        }
    }

    /// Returns what blocks a rollout before its revision is recorded, as `recreate::decide` does: no object of the model
    /// may be recreated.
    fn dry_run(
        &self,
        server: &Server,
        before: &Status,
        changed: &[ApplyStep],
    ) -> Vec<ssa::ApplyFailure> {
        let is_installed = before.installed_bundle_name.is_some();
        let inventory = self.inventory();
        let was_applied = |step: &&ApplyStep| {
            let entry = inventory.get(&step.object.identity());
            is_installed || entry.is_some_and(|entry| entry.fields.is_some())
        };
        let judged = changed.iter().filter(was_applied);
        judged
            .filter(|step| step.wave != Wave::Resources)
            .filter_map(|step| server.try_out(step))
            .filter(|failure| is_installed || failure.cause == ssa::FailureKind::Deleting)
            .collect()
    }

    fn check(&self, server: &Server, plan: &Plan) -> Findings {
        let mut findings = Findings::default();
        let inventory = self.inventory();
        let view = server.view(inventory.keys());
        let inventory = prepare::observed(&inventory, &view);
        for absent in &plan.missing {
            findings.problems.push(Finding {
                check: Check::Apis,
                message: format!("{} is not served", absent.kind),
            });
        }
        for step in &plan.steps {
            let identity = step.object.identity();
            let entry = inventory.get(&identity);
            let is_new = entry.is_none_or(|entry| entry.fields.is_none() || entry.recreating);
            if let Some(live) = server.objects.get(&identity).filter(|_| is_new) {
                let (live, owner) = (live.metadata(), server.owner());
                findings.merge(ownership::findings(step, &live, &owner, &BTreeSet::new()));
            }
            if is_definition(&identity)
                && let Some(live) = server.crd()
            {
                findings.merge(crd_safety::compared(&live, &step.object));
            }
        }
        findings
    }

    /// Applies steps, wave by wave, and stops after a wave with failures, as the engine does. The second value says whether
    /// anything was applied.
    fn apply(
        &mut self,
        server: &mut Server,
        steps: &[ApplyStep],
        phase: Phase,
    ) -> Run<Result<(), (Vec<ssa::ApplyFailure>, bool)>> {
        let mut failures = Vec::new();
        let mut applied = Vec::new();
        let mut wave = None;
        for step in steps {
            if wave != Some(step.wave) && !failures.is_empty() {
                break;
            }
            wave = Some(step.wave);
            match server.apply(step, phase)? {
                Ok(fields) => applied.push((step.object.identity(), fields)),
                Err(failure) => failures.push(failure),
            }
        }
        let is_touched = !applied.is_empty();
        let inventory = self.inventory.get_or_insert_default();
        for (identity, fields) in applied {
            inventory.entry(identity).or_default().fields = fields;
        }
        self.refused = recreate::awaited(&failures);
        let is_complete = failures.is_empty();
        Ok(is_complete.then_some(()).ok_or((failures, is_touched)))
    }
}

/// Reads the records of revisions until one has the key.
fn recorded(
    server: &Server,
    revisions: &[&RevisionStatus],
    key: &str,
) -> Option<Revision<RevisionDetails>> {
    let read = revisions.iter();
    let mut read = read.filter_map(|listed| server.read(listed).ok());
    read.find(|record| has_key(&record.header.details, key))
}

fn rejected(bundle: &str, failures: &[ssa::ApplyFailure]) -> Failure {
    let message = rollout::describe_rejections(failures);
    failure(bundle, &message, rollout::retry_class(failures))
}

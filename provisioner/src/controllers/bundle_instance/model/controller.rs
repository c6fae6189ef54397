//! The controller of the model: the decisions of the engine in the order in which a reconcile makes them, with requests to
//! the model of the API server in between.

use manifests::api::bundle_instance::{Inventory as Listed, RevisionState};

use super::*;
use crate::controllers::bundle_instance::{
    attempt_backoff::RolloutBackoff,
    bundles,
    choice::{Choices, Goal},
    outcome::HealthState,
    reconcile,
    revisions::inventory::Rebuilt,
    rollback::{self, Evidence, Unhealthy},
    rollout::digest,
    trust,
};

pub(super) type Run<T> = Result<T, Killed>;

#[derive(Default)]
pub(super) struct Controller {
    pub(super) inventory: Option<Inventory>,
    pub(super) refused: BTreeSet<Identity>,
    /// A revision whose record cannot be used, so that the inventory lacks its objects.
    pub(super) unread: Option<i64>,
    /// A revision whose record a rollout cannot use.
    pub(super) lost: Option<i64>,
    pub(super) leftovers: Vec<Identity>,
    pub(super) removing: Vec<String>,
    pub(super) excused: Option<(i64, Unhealthy)>,
    remedy: Option<Remedy>,
    /// Whether the last attempt could not load the content of the Bundle.
    pub(super) lacks_content: bool,
    failed_template: Option<(String, String)>,
    backoff: RolloutBackoff,
}

pub(super) fn failure(bundle: &str, message: &str, retry: RetryClass) -> Failure {
    Failure {
        bundle: bundle.to_owned(),
        message: message.to_owned(),
        touched: false,
        retry,
        remedy: Remedy::World,
    }
}

pub(super) fn settled(install: RolloutState, health: HealthState) -> RolloutResult {
    RolloutResult {
        install,
        health,
        conflicts: Vec::new(),
        repaired: None,
        requeue_after: None,
    }
}

const MAX_LISTED: usize = 4;

pub(super) fn listed(inventory: &Inventory) -> Listed {
    inventory_status::list(inventory, MAX_LISTED)
}

impl Controller {
    pub(super) fn now(server: &Server) -> Timestamp {
        Timestamp::from_second(server.now).unwrap()
    }

    pub(super) fn reconcile(&mut self, server: &mut Server) -> Run<()> {
        let outcome = self.settle(server)?;
        let before = server.status();
        let now = Self::now(server);
        let declaration = Declaration::new(&server.instance);
        let mut status = status::build(&before, &declaration, &outcome, now);
        if reconcile::left_alone(&server.instance).is_none() {
            let spec = &server.instance.spec;
            revisions::follow_clock(&mut status, now);
            if revisions::is_rolled_out(spec, &status, &outcome, now)
                && !revisions::awaits_rollback(spec, &status, &template::hash(&server.instance))
            {
                revisions::promote(&mut status);
                self.excused = None;
            }
            for revision in revisions::surplus(spec, &status) {
                server.forget(revision.number)?;
                let revisions = &mut status.revisions;
                revisions.retain(|other| other.number != revision.number);
            }
        }
        if status != before {
            server.write_status(&status)?;
        }
        if let Some(used) = bundles::settled_bundle(&status, &outcome) {
            let bundles = &mut server.registry.bundles;
            bundles.retain(|bundle| bundle.name_any() == used);
        }
        // At rest, the status contains the whole inventory.
        let kinds = status.inventory.map(|listed| listed.kinds);
        let listed: Inventory = inventory_status::parse(&kinds.unwrap_or_default()).collect();
        self.inventory.take_if(|inventory| *inventory == listed);
        Ok(())
    }

    fn settle(&mut self, server: &mut Server) -> Run<Outcome> {
        let mut status = server.status();
        self.read_inventory(server, &status);
        if let Some((valid, install)) = reconcile::left_alone(&server.instance) {
            let outcome = Outcome::of_bundle(valid);
            return Ok(with!(outcome => install: install, health: self.health(server)));
        }
        let instance = server.instance.clone();
        let hash = template::hash(&instance);
        let desired = server.desired(&hash);
        let name = status.installed_bundle_name.clone();
        let mut bundles = server.registry.bundles.iter().cloned();
        let found = bundles.find(|bundle| Some(bundle.name_any()) == name);
        let installed = trust::installed(&status, &instance, found.as_ref());
        if status.newest().is_none()
            && let Some(installed) = installed.trusted()
        {
            self.migrate(server, &mut status, installed)?;
        }
        let choices = Choices {
            spec: &instance.spec,
            status: &status,
            hash: &hash,
            desired: Some(&desired),
            installed: installed.trusted(),
        };
        let mut settled = self.roll_out(server, &choices)?;
        let replaced = installed.replaced().map(str::to_owned);
        if replaced.is_some() && choices.goal() == Goal::Keep {
            let applied = server.status().applied_digest;
            reconcile::roll_out::retain_replaced(&mut settled, applied.as_deref());
        }
        let outcome = with!(Outcome::of_bundle(reconcile::template_state(&desired)) =>
            install: settled.install, is_declared: choices.is_declared(), health: settled.health, repaired: settled.repaired,
            replaced: replaced);
        Ok(outcome)
    }

    /// Reads the inventory once. What the status does not list is built from the records.
    pub(super) fn read_inventory(&mut self, server: &Server, status: &Status) {
        if self.inventory.is_some() {
            return;
        }
        let listed = status.inventory.clone();
        let is_whole = listed.as_ref().is_none_or(Listed::is_whole);
        let is_part = listed.is_none() || !is_whole;
        self.inventory = Some(if is_part && status.newest().is_some() {
            let rebuilt = Self::rebuilt_index(server, status);
            self.unread = rebuilt.unread;
            self.leftovers = rebuilt.leftovers;
            rebuilt.inventory
        } else {
            if !is_whole {
                self.unread = Some(status.revisions.last().map_or(1, |last| last.number));
            }
            let kinds = listed.map(|listed| listed.kinds).unwrap_or_default();
            inventory_status::parse(&kinds).collect()
        });
    }

    pub(super) fn rebuilt_index(server: &Server, status: &Status) -> Rebuilt {
        let mut rebuilt = Rebuilt::default();
        for revision in status.indexed() {
            let Ok(record) = server.read(revision) else {
                if revision.is_live() {
                    rebuilt.unread = Some(revision.number);
                }
                continue;
            };
            let mut plan = server.planned(record.objects, &Inventory::new());
            if status.applied_digest.is_some() && !rebuilt.inventory.is_empty() {
                let newer = &rebuilt.inventory;
                plan.steps.retain(|step| {
                    let identity = step.object.identity();
                    let may_leave =
                        prune_candidates::leaves_early(&identity) && !newer.contains_key(&identity);
                    !may_leave || server.objects.contains_key(&identity)
                });
            }
            let leftovers = revisions::inventory::leftovers(&rebuilt, status, revision, &plan);
            rebuilt.leftovers.extend(leftovers);
            let was_applied = revisions::was_applied(status, revision);
            revisions::inventory::index(&mut rebuilt.inventory, &plan, was_applied);
        }
        revisions::inventory::add_listed(&mut rebuilt, status);
        rebuilt
    }

    pub(super) fn inventory(&self) -> Inventory {
        self.inventory.clone().unwrap_or_default()
    }

    pub(super) fn health(&self, server: &Server) -> HealthState {
        let inventory = self.inventory.as_ref();
        let view = server.view(inventory.into_iter().flat_map(BTreeMap::keys));
        match self.unread {
            Some(number) => repair::observe::unknown(number),
            None => repair::observe::health_of(inventory, &view, &self.removing),
        }
    }

    /// Records the installed objects again, as `rollout::migrate` does.
    fn migrate(&mut self, server: &mut Server, status: &mut Status, installed: &Bundle) -> Run<()> {
        let key = Self::key(server, &Source::Bundle(installed));
        if status.applied_digest.as_deref().map(rollout::applied) != Some(&*key) {
            return Ok(());
        }
        let Ok(rendered) = server.render(installed) else {
            return Ok(());
        };
        let rendered = with!(rendered => details.key: Some(key));
        let plan = server.planned(rendered.objects.clone(), &self.inventory());
        revisions::inventory::index(self.inventory.get_or_insert_default(), &plan, true);
        self.unread = None;
        let leaving = plan.leaving.iter().map(|leaving| &leaving.identity);
        let leaving = prune_candidates::lines_of(leaving);
        let why = (Cause::Migration, None);
        let mut revision = Self::record(server, status, &rendered, why)?;
        revision.state = RevisionState::Active;
        status.revisions.push(revision);
        status.removing.extend(leaving);
        status.inventory = Some(listed(&self.inventory()));
        server.write_status(status)
    }

    pub(super) fn record(
        server: &mut Server,
        status: &Status,
        rendered: &Rendered,
        why: (Cause, Option<i64>),
    ) -> Run<RevisionStatus> {
        let number = status.revisions.last().map_or(0, |newest| newest.number) + 1;
        let encoded = revisions::encode(&server.owner(), number, rendered).unwrap();
        server.record(number, &encoded)?;
        let now = Self::now(server);
        Ok(revisions::listed(number, rendered, &encoded, why, now))
    }

    fn key(server: &Server, source: &Source<'_>) -> String {
        match source {
            Source::Bundle(bundle) => {
                let version = KubeVersion::new(1, server.registry.minor);
                digest::digest_of(&server.instance.spec, bundle, version, false)
            }
            Source::Revision(revision) | Source::Newest(revision) => digest::revision_key(revision),
        }
    }

    /// Does what `reconcile::roll_out` does.
    fn roll_out(&mut self, server: &mut Server, choices: &Choices<'_>) -> Run<RolloutResult> {
        let status = choices.status;
        let goal = choices.goal();
        let given_up = self.failed_template.as_ref();
        let given_up = given_up.map(|(hash, why)| (hash.as_str(), why.as_str()));
        let target = choices.target(&goal, false, given_up);
        let settled = match &target {
            Some(target) => self.install(server, status, target)?,
            None => self.maintain(server, status)?,
        };
        let settled = match goal {
            Goal::Unrecorded(number) => {
                reconcile::roll_out::unrecorded(&server.instance, status, number, settled)
            }
            _ => settled,
        };
        let mut current = server.status();
        let target = target.as_ref();
        let is_rollback = target.is_some_and(|target| target.rollback.is_some());
        if is_rollback || !rollback::is_possible(choices, target, &current) {
            return Ok(settled);
        }
        let inventory = self.inventory();
        let view = server.view(inventory.keys());
        let now = Self::now(server);
        let mut found = repair::observe::unhealthy_of(Some(&inventory), &view, &self.removing);
        if !rollback::is_late(&server.instance, &current, now) {
            found.slow.clear();
        }
        let evidence = Evidence {
            install: &settled.install,
            health: &settled.health,
            found: &found,
            excused: &self.excused(server, &current, &view, &found),
            hash: choices.hash,
            lacks_content: self.lacks_content,
        };
        let reason = rollback::rollback_reason(&server.instance, &current, &evidence, now);
        let Some(reason) = reason else {
            return Ok(settled);
        };
        current.failed_template_hash = Some(choices.hash.to_owned());
        let active = current.active().cloned();
        server.write_status(&current)?;
        let Some(active) = active else {
            return Ok(settled);
        };
        self.failed_template = Some((choices.hash.to_owned(), reason.clone()));
        let rollback = RolledBack {
            template_hash: Some(choices.hash.to_owned()),
            why: Some(reason),
            to: active.number,
        };
        let target = Target {
            source: Source::Revision(&active),
            rollback: Some(rollback),
        };
        self.install(server, &current, &target)
    }

    fn excused(
        &self,
        server: &Server,
        status: &Status,
        view: &InstanceView,
        found: &Unhealthy,
    ) -> Unhealthy {
        let newest = status.newest().map(|newest| newest.number);
        if let Some((number, excused)) = &self.excused
            && Some(*number) == newest
        {
            return excused.clone();
        }
        let has_unhealthy = *found != Unhealthy::default();
        let Some(active) = status.active().filter(|_| has_unhealthy) else {
            return Unhealthy::default();
        };
        match server.read(active) {
            Ok(record) => rollback::unchanged(&record.objects, view, found),
            Err(_) => found.clone(),
        }
    }

    /// Does what `rollout::run` does.
    fn install(
        &mut self,
        server: &mut Server,
        status: &Status,
        target: &Target<'_>,
    ) -> Run<RolloutResult> {
        let now = Self::now(server);
        let key = Self::key(server, &target.source);
        if rollout::is_up_to_date(status, &key) {
            let mut settled = self.maintain(server, status)?;
            if matches!(settled.install, RolloutState::Unchanged)
                && let Some(bundle) = target.bundle()
                && !rollout::is_recorded(status, bundle)
            {
                let done = rollout::renamed(&server.instance, status, bundle);
                settled.install = RolloutState::Done(Box::new(done));
            }
            return Ok(settled);
        }
        let inventory = self.inventory();
        let view = server.view(inventory.keys());
        let freed = rollout::freed(&self.refused, &view);
        let name = target.bundle_name();
        let generation = server.instance.metadata.generation;
        let tried = format!("{key} {name} {generation:?} {freed:?}");
        if self.backoff.remaining_delay(&tried, now).is_some() {
            let settled = self.maintain(server, status)?;
            if self.remedy.is_none() && rollout::is_installed(status, target) {
                return Ok(settled);
            }
            return Ok(rollout::waiting_after(
                settled,
                self.remedy.unwrap_or_default(),
            ));
        }
        self.lacks_content = Self::is_content_lacking(server, status, target, &key);
        if self.lacks_content {
            self.remedy = None;
            self.backoff.record_failure(tried, RetryClass::Soon, now);
            return self.maintain(server, status);
        }
        match self.attempt(server, status, target, &key)? {
            Ok(done) => {
                self.backoff.succeeded();
                self.remedy = None;
                self.lacks_content = false;
                self.removing.clone_from(&done.removing);
                let install = RolloutState::Done(Box::new(done));
                Ok(settled(install, self.health(server)))
            }
            Err(mut failure) => {
                failure.touched |=
                    status.installed_bundle_name.is_some() && status.applied_digest.is_none();
                self.backoff.record_failure(tried, failure.retry, now);
                self.remedy = Some(failure.remedy);
                let current = server.status();
                let result = self.maintain(server, &current)?;
                let change = rollout::changes(result.repaired, &result.install);
                let failed = settled(RolloutState::Failed(failure), result.health);
                Ok(with!(failed => repaired: change))
            }
        }
    }
}

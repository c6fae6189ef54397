//! One try to bring a Bundle into the cluster.

use std::collections::{BTreeSet, HashSet};

use apply::{
    health::Health,
    informers::View,
    inventory::{Entry, Inventory},
    plan::{self, Leaving, Owner, Plan, Step},
    preflight::{self, Check, Findings, Problem},
    ssa::{Apply, Pruned, Report},
};
use convert::facts::Facts;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, ResourceExt as _, core::GroupVersionKind};
use manifests::{
    api::{
        identity,
        instance::{BundleInstance, BundleInstanceStatus, Cause, RevisionStatus},
        labels,
    },
    object::{Identity, Object, group_version, shortened, text},
};

use super::{
    Source, Target,
    converted::{Rendered, digest, render},
    recreate,
    step::{Progress, Rollout, Stepped, resume, step},
    unchanged,
    words::{api, listed, remedy, remedy_of_problems},
};
use crate::{
    account,
    catalogs::Catalogs,
    instance::{
        claims::{self, Claim},
        memory::{Memory, Shared},
        outcome::{Done, Failure, Remedy, Retry},
        policy,
        revisions::{self, RecordError, owner},
        rollback::Unhealthy,
        rollouts::Turn,
        status,
        waiting::{self, Event, Release},
        write::{declaration, write_status},
    },
    overrides::Digests,
    versions::{self, Candidate},
};

/// The longest line of a list in the status, in characters.
const LONGEST_LINE: usize = 1000;
/// How many lines the status has of objects that stay.
const MOST_RELEASED: usize = 100;
/// The number of lines in the status about objects that are removed.
pub(in crate::instance) const MAX_LISTED: usize = 500;

/// Everything from rendered objects to a cluster that holds them. `has_api` says that objects need not wait for an API any
/// more.
pub(super) async fn attempt(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    key: &str,
    has_api: bool,
) -> Result<Stepped, Failure> {
    let ctx = &shared.ctx;
    let progress = memory.progress.take();
    if let Some(progress) = progress.filter(|progress| progress.is_of(key, before)) {
        return Box::pin(resume(instance, shared, memory, before, target, *progress)).await;
    }
    let rendered = rendered(instance, shared, before, target, key).await?;
    if is_recorded(before, &rendered) && before.applied_digest.is_some() && !has_api {
        // Another release of the provisioner, or of Kubernetes, and the same objects.
        return Ok(Stepped::Done(Box::new(Done {
            digest: key.to_owned(),
            rolled_back: None,
            ..described(before, &rendered, unchanged(instance, before))
        })));
    }
    if is_by_platform(before, target, &rendered) {
        let turn = shared.rollouts.begin_platform(&instance.name_any());
        if turn != Turn::Granted {
            memory.platform = Some(key.to_owned());
            return Ok(Stepped::Waits(turn));
        }
    }
    memory.platform = None;
    let Prepared {
        owner,
        client,
        mut rendered,
        plan,
        mut warnings,
        left_out,
        claim,
    } = Box::pin(prepare(instance, shared, memory, before, target, rendered)).await?;
    rendered.details.key = Some(key.to_owned());
    let apply = Apply {
        client: &client,
        kinds: &ctx.kinds,
        concurrency: ctx.settings.concurrency,
        permits: &shared.ctx.permits,
    };
    let view = ctx.watches.view(&instance.name_any());
    let (current, changed) = partition(&plan, memory.inventory.as_ref(), &view);
    warnings.extend(recreate::warnings(&instance.spec, &plan.steps));
    let inventory = memory.inventory.get_or_insert_default();
    let is_installed = before.installed_bundle_name.is_some();
    let decision =
        recreate::decide(instance, inventory, &apply, &owner, &changed, is_installed).await;
    memory.refused = recreate::awaited(&decision.refused);
    let remedy = remedy(&decision.refused);
    let permissions = decision
        .permissions()
        .map_err(|(message, retry)| failing(target)(message, retry).with(remedy))?;
    let mut revisions = before.revisions.clone();
    let is_same = is_recorded(before, &rendered);
    if is_same && matches!(target.source, Source::Revision(_)) {
        let message = "the rollback changes nothing: every object that differs is a CustomResourceDefinition that cannot return \
                       to its older form; change spec.template, or spec.rollbackTo";
        return Err(failing(target)(message.to_owned(), Retry::Slowly).with(Remedy::Own));
    }
    if !is_same {
        let revision = record(shared, &owner, before, target, &rendered).await?;
        let current = current.iter().map(|step| step.object.identity());
        let leaving = plan.leaving.iter().map(|leaving| leaving.identity.clone());
        let excused = unhealthy_now(&ctx.watches.view(&owner.name), current.chain(leaving));
        memory.excused = Some((revision.number, excused));
        revisions::add(&mut revisions, revision);
    }
    let inventory = memory.inventory.get_or_insert_default();
    recreate::mark(inventory, &changed, &permissions);
    // The status names the new revision before anything is applied or deleted.
    let is_changed =
        !changed.is_empty() || !prune_first(&plan, shared, &owner, before).await.is_empty();
    if is_changed {
        note_intent(instance, shared, memory, before, target, &plan, &revisions).await?;
    }
    let progress = Progress {
        key: key.to_owned(),
        number: revisions::newest_of(&mut revisions).map_or(0, |newest| newest.number),
        left_out,
        count: changed.len(),
        applied: BTreeSet::new(),
        permissions,
        warnings,
        claim,
    };
    let rollout = Rollout {
        owner,
        client,
        rendered,
        plan,
        revisions,
        changed,
        progress,
    };
    step(instance, shared, memory, before, target, rollout).await
}

/// Reports whether a new revision is due because the provisioner or Kubernetes has another version.
fn is_by_platform(before: &BundleInstanceStatus, target: &Target<'_>, rendered: &Rendered) -> bool {
    let newest = before.newest();
    matches!(target.source, Source::Bundle(_))
        && newest.is_some_and(|newest| newest.digest != rendered.digest)
        && revisions::cause(before, rendered) == Cause::Platform
}

/// Adds what the Bundle of the rendered objects is.
pub(in crate::instance) fn described(
    before: &BundleInstanceStatus,
    rendered: &Rendered,
    done: Done,
) -> Done {
    let details = &rendered.details;
    let digest = details.bundle.content_digest.clone();
    let is_same = before.installed_bundle_name.as_ref() == Some(&details.bundle.name);
    let mut revisions = done.revisions;
    if let Some(newest) = revisions::newest_of(&mut revisions) {
        newest.bundle.clone_from(&details.bundle.name);
        newest.template_hash.clone_from(&details.template_hash);
        if rendered.removed_apis.is_some() {
            newest.removed_apis.clone_from(&rendered.removed_apis);
        }
    }
    Done {
        bundle: details.bundle.name.clone(),
        uid: details.bundle.uid.clone(),
        source: details.source.clone(),
        content: (!digest.is_empty()).then_some(digest),
        facts: details.facts.clone(),
        previous: done
            .previous
            .filter(|_| !is_same || before.previous_bundle_name.is_some()),
        revisions,
        ..done
    }
}

/// Renders the objects of the target, or reads them. A rollout that was interrupted continues with the objects that its
/// revision records, if the inputs are the same: the content may be lost.
pub(super) async fn rendered(
    instance: &BundleInstance,
    shared: &Shared,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    key: &str,
) -> Result<Rendered, Failure> {
    let revision = match target.source {
        Source::Bundle(bundle) => {
            if let Some(newest) = interrupted(before)
                && let Ok(record) = revisions::read(shared, &owner(instance), newest).await
                && record.header.details.key.as_deref() == Some(key)
            {
                return Ok(Rendered::of_record(record, instance));
            }
            return render(instance, shared, bundle).await;
        }
        Source::Revision(revision) | Source::Newest(revision) => revision,
    };
    let record = revisions::read(shared, &owner(instance), revision).await;
    let record = record.map_err(|error| {
        let retry = if error.is_transient() {
            Retry::Soon
        } else {
            Retry::Slowly
        };
        failing(target)(error.to_string(), retry)
    })?;
    let mut rendered = Rendered::of_record(record, instance);
    if matches!(target.source, Source::Newest(_)) {
        rendered.account.clone_from(&revision.service_account);
        rendered.digest.clone_from(&revision.digest);
    }
    Ok(rendered)
}

/// Returns the revision whose objects are applied only in part.
pub(in crate::instance) fn interrupted(before: &BundleInstanceStatus) -> Option<&RevisionStatus> {
    before
        .rolling_out()
        .filter(|_| before.applied_digest.is_none())
}

/// Records a new revision.
async fn record(
    shared: &Shared,
    owner: &Owner,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rendered: &Rendered,
) -> Result<RevisionStatus, Failure> {
    let why = cause(before, target, rendered);
    let recorded = revisions::record(shared, owner, before, rendered, why).await;
    recorded.map_err(|error| {
        let (retry, remedy) = match &error {
            RecordError::Store(error) if error.is_transient() => (Retry::Soon, Remedy::World),
            RecordError::Store(_) => (Retry::Slowly, Remedy::World),
            RecordError::Encode(_) => (Retry::Slowly, Remedy::Own),
        };
        let message =
            format!("the revision cannot be recorded, and nothing of it is applied: {error}");
        failing(target)(message, retry).with(remedy)
    })
}

/// Returns why a revision is created, and which revision a rollback leads to.
pub(in crate::instance) fn cause(
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rendered: &Rendered,
) -> (Cause, Option<i64>) {
    match target.source {
        Source::Revision(revision) if target.rollback.is_some() => {
            (Cause::Rollback, Some(revision.number))
        }
        // A template that was reverted.
        Source::Revision(_) => (Cause::Upgrade, None),
        Source::Newest(newest) => (newest.cause, newest.rollback_of),
        Source::Bundle(_) => (revisions::cause(before, rendered), None),
    }
}

/// Reports whether the newest live revision records these very objects.
pub(in crate::instance) fn is_recorded(before: &BundleInstanceStatus, rendered: &Rendered) -> bool {
    let newest = before.newest();
    newest.is_some_and(|newest| newest.digest == rendered.digest)
}

/// Splits the objects into those that exist in this very form and those that have to be applied.
pub(in crate::instance) fn partition(
    plan: &Plan,
    inventory: Option<&Inventory>,
    view: &View,
) -> (Vec<Step>, Vec<Step>) {
    let steps = plan.steps.iter().cloned();
    steps.partition(|step| {
        let identity = step.object.identity();
        let fields = inventory.and_then(|inventory| inventory.get(&identity)?.fields);
        view.objects.get(&identity).is_some_and(|seen| {
            seen.hash == Some(step.hash)
                && !seen.deleting
                && fields.is_some()
                && seen.fields == fields
        })
    })
}

/// Returns which of these objects are unhealthy already: a rollout that does not change an object is not to blame for it.
pub(in crate::instance) fn unhealthy_now(
    view: &View,
    identities: impl Iterator<Item = Identity>,
) -> Unhealthy {
    let mut unhealthy = Unhealthy::default();
    for identity in identities {
        match view.objects.get(&identity).map(|seen| &seen.health) {
            Some(Health::Current) => {}
            Some(Health::Failed(_)) => {
                unhealthy.failed.insert(identity);
            }
            Some(Health::InProgress(_)) | None => {
                unhealthy.slow.insert(identity);
            }
        }
    }
    unhealthy
}

/// Returns what is pruned before the new version is healthy.
pub(super) async fn prune_first(
    plan: &Plan,
    shared: &Shared,
    owner: &Owner,
    before: &BundleInstanceStatus,
) -> Vec<Leaving> {
    let mut leaving = plan.leaving.iter();
    let has_webhooks = leaving.any(|leaving| is_webhook(&leaving.identity));
    let record = match before.active().filter(|_| has_webhooks) {
        Some(active) => revisions::read(shared, owner, active).await.ok(),
        None => None,
    };
    // Without the record, webhook configurations leave with the rest.
    early(
        plan,
        record
            .as_ref()
            .map_or(&[], |record| record.objects.as_slice()),
    )
}

/// Reports whether a rollout may delete objects of a kind before the new version is healthy.
pub(in crate::instance) fn leaves_early(identity: &Identity) -> bool {
    identity.group == "apiregistration.k8s.io" || is_webhook(identity)
}

fn is_webhook(identity: &Identity) -> bool {
    identity.group == "admissionregistration.k8s.io"
        && identity.kind.ends_with("WebhookConfiguration")
}

/// Returns the prune candidates that would break the new version if they stayed until it is healthy: APIServices, and
/// webhook configurations whose server leaves. `active` are the objects of the active revision.
pub(in crate::instance) fn early(plan: &Plan, active: &[Object]) -> Vec<Leaving> {
    let group = |leaving: &&Leaving| leaving.identity.group.as_str() == "apiregistration.k8s.io";
    let mut early: Vec<Leaving> = plan.leaving.iter().filter(group).cloned().collect();
    let webhooks = plan
        .leaving
        .iter()
        .filter(|leaving| is_webhook(&leaving.identity));
    let leaves = |namespace: &str, name: &str| {
        plan.leaving.iter().any(|leaving| {
            let identity = &leaving.identity;
            identity.group.is_empty()
                && identity.kind == "Service"
                && identity.namespace == namespace
                && identity.name == name
        })
    };
    for leaving in webhooks {
        let object = active.iter().find(|object| {
            object.kind() == leaving.identity.kind && object.name() == leaving.identity.name
        });
        let webhooks = object.and_then(|object| object.value().get("webhooks")?.as_array());
        let is_orphaned = webhooks.into_iter().flatten().any(|webhook| {
            let field = |name| text(webhook, &["clientConfig", "service", name]);
            matches!((field("namespace"), field("name")), (Some(namespace), Some(name)) if leaves(namespace, name))
        });
        if is_orphaned {
            early.push(leaving.clone());
        }
    }
    early
}

/// What is known to be possible.
struct Prepared {
    owner: Owner,
    /// With the rights that everything is applied with.
    client: Client,
    rendered: Rendered,
    plan: Plan,
    warnings: Vec<String>,
    /// The objects that are used as they are, or belong to others: they are not applied.
    left_out: BTreeSet<Identity>,
    claim: Claim,
}

/// Makes the plan, claims its objects, and finds all problems. Nothing is changed. In a rollback to an older revision,
/// definitions whose older form is no longer safe keep their newer form.
async fn prepare(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    mut rendered: Rendered,
) -> Result<Prepared, Failure> {
    let ctx = &shared.ctx;
    let fail = failing(target);
    let owner = owner(instance);
    let client = ctx
        .accounts
        .client(rendered.account.as_ref())
        .map_err(|error| soon(target, "no client can be made", &error))?;
    let had = memory.inventory.clone().unwrap_or_default();
    let mut has_kept_definitions = false;
    loop {
        let objects = rendered.objects.clone();
        let (objects, existing) =
            without_existing_namespace(objects, &client, &owner, &rendered.namespace).await;
        let has_namespace = objects.len() == rendered.objects.len();
        // What begins to be served while this is found out wakes the instance as well.
        memory.await_apis([waiting::Api::Any]);
        let mut plan = plan(ctx, objects, &had, &owner, &rendered.namespace)
            .await
            .map_err(|error| soon(target, "the served APIs cannot be listed", &error))?;
        let absent = plan.missing.iter().chain(&plan.waiting);
        memory.await_apis(absent.map(api));
        // From the beginning, so that whatever becomes free from now on is noticed.
        memory.await_objects([Event::Release(Release::Any)]);
        let planned = plan.steps.iter().map(|step| step.object.identity());
        let claim = shared
            .claims
            .claim(&owner.name, planned)
            .map_err(|others| {
                let of = |name: &String| Event::Release(Release::Of(name.clone()));
                memory.await_objects(others.values().map(of));
                fail(claims::refusal(&others), Retry::Soon)
            })?;
        let had = observed(&had, &ctx.watches.view(&owner.name));
        let findings = check(
            instance, shared, &owner, &client, &rendered, &plan, &had, existing,
        );
        let findings = findings
            .await
            .map_err(|error| soon(target, "the preflight checks could not be made", &error))?;
        let is_wrong_cluster = has(&findings.problems, Check::ClusterVersion);
        if is_wrong_cluster {
            ctx.catalogs.want_refused(&rendered.facts.package);
        }
        memory.await_objects(awaited(&findings));
        if !findings.unsafe_definitions.is_empty()
            && !has_kept_definitions
            && is_return(before, target, &rendered)
            && let Some(newest) = before.newest()
            && let Ok(newest) = revisions::read(shared, &owner, newest).await
        {
            has_kept_definitions = true;
            keep_definitions(&mut rendered, &findings.unsafe_definitions, &newest.objects)
                .map_err(|problem| fail(problem, Retry::Slowly).with(Remedy::Own))?;
            continue;
        }
        // Namespaces of others are used as they are.
        plan.steps
            .retain(|step| !findings.shared.contains(&step.object.identity()));
        if !findings.problems.is_empty() {
            let problems = &findings.problems;
            let failure = fail(listed(problems), retry_after(problems));
            return Err(failure.with(remedy_of_problems(problems)));
        }
        let warnings = findings.warnings.into_iter().map(|warning| warning.message);
        let mut left_out = findings.shared;
        if !has_namespace {
            left_out.insert(namespace(&rendered.namespace));
        }
        return Ok(Prepared {
            warnings: warnings.collect(),
            left_out,
            owner,
            client,
            rendered,
            plan,
            claim,
        });
    }
}

/// Returns the identity of a Namespace.
fn namespace(name: &str) -> Identity {
    Identity {
        group: String::new(),
        kind: "Namespace".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    }
}

/// Returns an inventory in which objects that do not exist count as never applied: if another client creates one of them
/// again, the object is not overwritten.
pub(in crate::instance) fn observed(inventory: &Inventory, view: &View) -> Inventory {
    let mut inventory = inventory.clone();
    for identity in &view.absent {
        if let Some(entry) = inventory.get_mut(identity) {
            entry.fields = None;
        }
    }
    inventory
}

/// Runs the preflight checks.
#[expect(
    clippy::too_many_arguments,
    reason = "each of them is an input of a check"
)]
async fn check(
    instance: &BundleInstance,
    shared: &Shared,
    owner: &Owner,
    client: &Client,
    rendered: &Rendered,
    plan: &Plan,
    had: &Inventory,
    existing: Option<(String, ObjectMeta)>,
) -> Result<Findings, kube::Error> {
    let ctx = &shared.ctx;
    let details = &rendered.details;
    let digest = details.bundle.content_digest.as_str();
    let digests = Digests::new(
        Some(digest).filter(|digest| !digest.is_empty()),
        details.source.as_ref(),
    );
    let facts = as_catalogs_say(rendered.facts.clone(), instance, digests, &ctx.catalogs);
    let view = ctx.watches.view(&owner.name);
    let visible = view.objects.iter().filter(|(_, seen)| !seen.deleting);
    let visible: BTreeSet<Identity> = visible.map(|(identity, _)| identity.clone()).collect();
    let input = preflight::Input {
        existing: &visible,
        owner,
        parent: policy::parent(instance),
        policy: &preflight::Policy {
            account: rendered.account.as_ref().map(account::from_reference),
            ..policy::policy(instance)
        },
        plan,
        inventory: had,
        client,
        own: &ctx.client,
        kinds: &ctx.kinds,
        mighty: &ctx.mighty,
        namespace: existing.as_ref(),
        system_namespace: &ctx.settings.system_namespace,
        concurrency: ctx.settings.concurrency,
    };
    let candidate = Candidate {
        instance,
        digests,
        facts: &facts,
    };
    let (findings, versions) = futures::join!(
        preflight::run(&input),
        versions::check(&candidate, &ctx.versions)
    );
    let mut findings = findings?;
    findings.merge(versions?);
    Ok(preflight::bounded(findings))
}

/// Reports whether the target is older than the newest revision.
pub(in crate::instance) fn is_return(
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rendered: &Rendered,
) -> bool {
    let hash = rendered.details.template_hash.as_ref();
    let newest = before.newest();
    let mut older = before
        .revisions
        .iter()
        .filter(|revision| newest.is_none_or(|newest| revision.number != newest.number));
    match target.source {
        Source::Revision(_) => true,
        Source::Newest(newest) => newest.cause == Cause::Rollback,
        Source::Bundle(_) => {
            hash.is_some() && older.any(|revision| revision.template_hash.as_ref() == hash)
        }
    }
}

/// Puts the newer form of definitions into older objects. A definition that converts through a Service which the older
/// objects lack cannot stay: its custom resources could not be read.
pub(in crate::instance) fn keep_definitions(
    rendered: &mut Rendered,
    names: &BTreeSet<String>,
    newer: &[Object],
) -> Result<(), String> {
    let is_named =
        |object: &Object| plan::is_definition(&object.identity()) && names.contains(object.name());
    for newer in newer.iter().filter(|object| is_named(object)) {
        let service = &[
            "spec",
            "conversion",
            "webhook",
            "clientConfig",
            "service",
            "name",
        ];
        let server = text(newer.value(), service);
        let has_server = |name: &str| {
            let mut objects = rendered.objects.iter();
            objects.any(|object| object.kind() == "Service" && object.name() == name)
        };
        if let Some(server) = server.filter(|name| !has_server(name)) {
            return Err(format!(
                "CustomResourceDefinition {} cannot return to its older form, and its newer form converts custom resources \
                 through Service {server}, which the older revision does not bring; roll back to a revision that brings it, \
                 or forward",
                newer.name()
            ));
        }
        let older = rendered.objects.iter_mut().find(|object| {
            plan::is_definition(&object.identity()) && object.name() == newer.name()
        });
        if let Some(older) = older {
            *older = newer.clone();
        }
    }
    rendered.digest = digest(
        &rendered.objects,
        rendered.account.as_ref(),
        &rendered.namespace,
    );
    Ok(())
}

/// Adds the constraints that a catalog declares for just this content. Its max OpenShift version counts before that of the
/// bundle; its `minKubeVersion` counts where the bundle declares none: plain manifests have no place for one.
fn as_catalogs_say(
    mut facts: Facts,
    instance: &BundleInstance,
    digests: Digests<'_>,
    catalogs: &Catalogs,
) -> Facts {
    let Some(digest) = digests.image() else {
        return facts;
    };
    if facts.package.is_empty()
        && let Some(chosen) = identity::chosen(instance, digest)
    {
        (facts.package, facts.name) = (chosen.package, chosen.bundle);
    }
    let said = catalogs.maximum(&facts.package, &facts.name, digest);
    let of_bundle = facts.max_open_shift_version.take();
    facts.max_open_shift_version = versions::that_counts(of_bundle, said.as_deref());
    if facts.min_kube_version.is_none() {
        facts.min_kube_version = catalogs.min_kube(&facts.package, &facts.name, digest);
    }
    facts
}

/// Returns the events that may clear problems.
fn awaited(findings: &Findings) -> Vec<Event> {
    let release = |holder: &Option<String>| match holder {
        Some(name) => Release::Of(name.clone()),
        None => Release::Any,
    };
    let mut events: Vec<Event> = findings
        .holders
        .iter()
        .map(|holder| Event::Release(release(holder)))
        .collect();
    if has(&findings.problems, Check::ClusterVersion) {
        events.push(Event::Version);
    }
    events
}

fn has(problems: &[Problem], check: Check) -> bool {
    problems.iter().any(|problem| problem.check == check)
}

/// The time to try again after problems.
pub(in crate::instance) fn retry_after(problems: &[Problem]) -> Retry {
    // Namespaces come and go without us, too.
    let passes = |problem: &Problem| matches!(problem.check, Check::Going | Check::Namespace);
    if problems.iter().all(passes) {
        Retry::Soon
    } else if has(problems, Check::Rights) {
        Retry::Granted
    } else {
        Retry::Slowly
    }
}

/// Returns the lines of objects that wait to be pruned.
pub(in crate::instance) fn lines_of<'a>(
    identities: impl Iterator<Item = &'a Identity>,
) -> Vec<String> {
    identities
        .take(MAX_LISTED)
        .map(|identity| shortened(&identity.to_string(), LONGEST_LINE))
        .collect()
}

/// Returns the lines of objects that were pruned and are still in the cluster, and of those that could not be pruned.
pub(in crate::instance) fn removing(pruned: &Pruned) -> Vec<String> {
    let going = pruned.going.iter().map(|identity| pruned.line(identity));
    let failed = pruned.failed.iter().map(|failure| failure.message.clone());
    going
        .chain(failed)
        .map(|line| shortened(&line, LONGEST_LINE))
        .take(MAX_LISTED)
        .collect()
}

/// Returns the lines of objects that have left the bundle and stay in the cluster, and why.
pub(super) fn released(
    before: &BundleInstanceStatus,
    rendered: &Rendered,
    pruned: &Pruned,
) -> Vec<String> {
    // The attempts before have released objects, too.
    let is_again = before.installed_bundle_name.as_ref() == Some(&rendered.details.bundle.name);
    let earlier = before.released.iter().filter(|_| is_again).cloned();
    release_lines(pruned)
        .chain(earlier)
        .take(MOST_RELEASED)
        .collect()
}

/// Returns the lines of objects that stay in the cluster, and why.
pub(in crate::instance) fn release_lines(pruned: &Pruned) -> impl Iterator<Item = String> {
    let released = pruned.released.iter();
    released.map(|(identity, why)| shortened(&format!("{identity}: {why}"), LONGEST_LINE))
}

/// Returns the Bundle that was installed before.
pub(in crate::instance) fn previous(
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    rendered: &Rendered,
) -> Option<String> {
    if target.rollback.is_some() {
        return None;
    }
    let installed = before.installed_bundle_name.as_ref()?;
    if *installed == rendered.details.bundle.name {
        before.previous_bundle_name.clone()
    } else {
        Some(installed.clone())
    }
}

pub(super) fn failing(target: &Target<'_>) -> impl Fn(String, Retry) -> Failure + use<> {
    let bundle = target.bundle_name();
    move |message, retry| Failure {
        bundle: bundle.clone(),
        message,
        touched: false,
        retry,
        remedy: Remedy::World,
    }
}

pub(super) fn soon(target: &Target<'_>, what: &str, error: &kube::Error) -> Failure {
    failing(target)(format!("{what}: {error}"), Retry::Soon)
}

/// Makes the plan, asking which of the kinds are served.
pub(in crate::instance) async fn plan(
    ctx: &crate::context::Context,
    objects: Vec<Object>,
    inventory: &Inventory,
    owner: &Owner,
    namespace: &str,
) -> Result<Plan, kube::Error> {
    let wanted: HashSet<GroupVersionKind> = objects.iter().map(plan::kind_of).collect();
    let kinds = ctx.kinds.find(wanted).await?;
    Ok(plan::new(
        objects,
        &kinds,
        inventory,
        owner,
        namespace,
        &ctx.settings.optional_kinds,
    ))
}

/// Leaves out the object of the install namespace when that exists and is not ours: it is used as it is. Gives what was
/// found, too.
async fn without_existing_namespace(
    mut objects: Vec<Object>,
    client: &Client,
    owner: &Owner,
    namespace: &str,
) -> (Vec<Object>, Option<(String, ObjectMeta)>) {
    let is_it = |object: &Object| {
        object.kind() == "Namespace" && object.group().is_empty() && object.name() == namespace
    };
    if !objects.iter().any(is_it) {
        return (objects, None);
    }
    let found = Api::<Namespace>::all(client.clone())
        .get_metadata(namespace)
        .await;
    let use_as_it_is = match &found {
        Ok(found) => found.labels().get(labels::OWNER_NAME) != Some(&owner.name),
        // Who may not look may not create either: it has to be there.
        Err(kube::Error::Api(status)) => status.code == 403,
        Err(_) => false,
    };
    if use_as_it_is {
        objects.retain(|object| !is_it(object));
    }
    let existing = found.map(|found| (namespace.to_owned(), found.metadata));
    (objects, existing.ok())
}

/// Writes down what is about to be applied, beside what is there: whatever happens next, nothing is forgotten.
async fn note_intent(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    plan: &Plan,
    revisions: &[RevisionStatus],
) -> Result<(), Failure> {
    let inventory = memory.inventory.get_or_insert_default();
    intend(inventory, plan);
    let listed = memory.listed(before);
    let mut status = status::applying(
        before,
        &declaration(instance, memory),
        &target.bundle_name(),
        plan.steps.len(),
        listed,
        (shared.ctx.now)(),
    );
    status.revisions = revisions.to_vec();
    write_status(instance, shared, memory, &status)
        .await
        .map(drop)
        .map_err(|error| {
            let message = format!("failed to write the status: {error}");
            failing(target)(message, Retry::Soon)
        })
}

/// Adds what is about to be applied to an inventory.
pub(in crate::instance) fn intend(inventory: &mut Inventory, plan: &Plan) {
    for step in &plan.steps {
        let identity = step.object.identity();
        let version = group_version(step.object.api_version()).1.to_owned();
        inventory.entry(identity).or_default().version = version;
    }
}

/// Remembers what is in place, and tells the watches, which hear of it later.
pub(in crate::instance) fn take_over(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    steps: &[Step],
    report: &Report,
) {
    memory.is_watched = false;
    shared
        .ctx
        .watches
        .applied(&instance.name_any(), &report.applied);
    let inventory = memory.inventory.get_or_insert_default();
    for step in steps {
        let identity = step.object.identity();
        if let Some(applied) = report.applied.get(&identity) {
            let entry: &mut Entry = inventory.entry(identity).or_default();
            entry.fields = applied.fields;
            entry.recreating = false;
        }
    }
}

/// Forgets what has left, and gives what remains: also what has not been begun, or could not be deleted.
pub(in crate::instance) fn settle_inventory(memory: &mut Memory, pruned: &Pruned) {
    memory.is_watched = false;
    forget(memory.inventory.get_or_insert_default(), pruned);
}

/// Removes the objects that are deleted or released from an inventory.
pub(in crate::instance) fn forget(inventory: &mut Inventory, pruned: &Pruned) {
    for identity in pruned.deleted.iter().chain(pruned.released.keys()) {
        inventory.remove(identity);
    }
}

#[cfg(test)]
mod tests;

//! One try to bring a Bundle into the cluster.

use std::{collections::HashSet, mem};

use convert::facts::Facts;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, ResourceExt as _, core::GroupVersionKind};
use manifests::{
    api::{identity, instance::BundleInstance, instance::BundleInstanceStatus, labels},
    object::{Object, group_version, shortened},
};

use super::{
    REMOVING, Target, convert,
    words::{listed, refusals, retry, waiting},
};
use crate::{
    apply::{Apply, Pruned, Report},
    catalogs::Catalogs,
    instance::{
        claims::{self, Claim},
        maintain,
        memory::{Memory, Shared},
        outcome::{Done, Failure, Retry},
        reconcile::{overflow, owner, write_status},
        status,
    },
    inventory::{self, Entry, Inventory},
    overrides::Digests,
    plan::{self, Owner, Plan},
    preflight::{self, Check, Findings, Problem, versions},
};

/// The longest line of a list in the status, in characters.
const LONGEST_LINE: usize = 1000;
/// How many lines the status has of objects that stay.
const MOST_RELEASED: usize = 100;
/// How many objects a condition names that are going, and how many that do not go.
const MOST_REMOVING: usize = 10;

/// Everything from content to a cluster that holds it.
pub(super) async fn attempt(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    key: &str,
) -> Result<Done, Failure> {
    let ctx = &shared.ctx;
    let fail = failing(target);
    let _permit = shared.attempts.acquire().await;
    let Prepared {
        owner,
        client,
        namespace,
        plan,
        warnings,
        claim,
    } = Box::pin(prepare(instance, shared, memory, target)).await?;
    let apply = Apply {
        client: &client,
        kinds: &ctx.kinds,
        concurrency: ctx.settings.concurrency,
        permits: &shared.ctx.permits,
    };
    if before.installed_bundle_name.is_some() {
        let refused = apply.dry_run(&plan.steps).await;
        if !refused.is_empty() {
            return Err(fail(refusals(&refused), retry(&refused)));
        }
    }

    note_intent(instance, shared, memory, before, target, &plan).await?;
    // Before they are there, so that nothing that was just applied looks absent.
    memory.is_watched = false;
    maintain::watch(instance, shared, memory).await;
    let report = apply.run(&plan.steps).await;
    take_over(instance, shared, memory, &plan, &report);
    ctx.metrics.applied(report.applied.len() as u64);
    if !report.failed.is_empty() {
        return Err(Failure {
            touched: !report.applied.is_empty(),
            ..fail(refusals(&report.failed), retry(&report.failed))
        });
    }
    let pruned = apply
        .prune(&plan.leaving, &owner, instance.spec.crd_deletion_policy)
        .await;
    drop(claim); // held until here
    if !pruned.deleted.is_empty() || !pruned.released.is_empty() {
        shared.wake_those_refused();
    }
    let inventory = settle_inventory(memory, &pruned);
    let inventory = inventory::write(&overflow(shared, &owner), inventory)
        .await
        .map_err(|error| soon(target, "the inventory cannot be written", &error))?;
    let is_complete = pruned.failed.is_empty() && pruned.going.is_empty();
    let status = target.bundle.status.clone().unwrap_or_default();
    Ok(Done {
        bundle: target.bundle.name_any(),
        uid: target.bundle.uid().unwrap_or_default(),
        previous: previous(before, target),
        source: status.resolved_source,
        content: status.content_digest,
        namespace,
        // What could not be deleted yet is tried again, by being no match.
        digest: if is_complete {
            key.to_owned()
        } else {
            format!("{key}{REMOVING}")
        },
        facts: status.facts,
        inventory,
        waiting: plan.waiting.iter().flat_map(waiting).take(500).collect(),
        released: released(before, target, &pruned),
        removing: removing(&pruned),
        warnings,
        rolled_back: target.way_back_from.clone(),
    })
}

/// What is known to be possible.
struct Prepared<'a> {
    owner: Owner,
    /// With the rights that everything is applied with.
    client: Client,
    /// The install namespace.
    namespace: String,
    plan: Plan,
    warnings: Vec<String>,
    claim: Claim<'a>,
}

/// Makes the plan, claims its objects, and finds all that speaks against it. Nothing is changed.
async fn prepare<'a>(
    instance: &BundleInstance,
    shared: &'a Shared,
    memory: &mut Memory,
    target: &Target<'_>,
) -> Result<Prepared<'a>, Failure> {
    let ctx = &shared.ctx;
    let fail = failing(target);
    let owner = owner(instance);
    let client = ctx
        .accounts
        .client(instance.spec.service_account.as_ref())
        .map_err(|error| soon(target, "no client can be made", &error))?;
    let converted = convert(instance, &instance.spec, shared, target.bundle).await?;
    let had = memory.inventory.clone().unwrap_or_default();
    let (objects, existing) =
        without_existing_namespace(converted.objects, &client, &owner, &converted.namespace).await;
    // What begins to be served while this is found out wakes the instance as well.
    memory.misses_apis(true);
    let mut plan = plan(ctx, objects, &had, &owner, &converted.namespace)
        .await
        .map_err(|error| soon(target, "the served APIs cannot be listed", &error))?;
    memory.misses_apis(!plan.missing.is_empty() || !plan.waiting.is_empty());
    // From the beginning, so that whatever becomes free from now on is noticed.
    memory.is_refused(true);
    let planned = plan.steps.iter().map(|step| step.object.identity());
    let claim = shared
        .claims
        .claim(&owner.name, planned)
        .map_err(|others| fail(claims::refusal(&others), Retry::Soon))?;

    let bundle = target.bundle.status.as_ref();
    let digests = Digests::new(
        bundle.and_then(|status| status.content_digest.as_deref()),
        bundle.and_then(|status| status.resolved_source.as_ref()),
    );
    let facts = as_catalogs_say(converted.facts, instance, digests, &ctx.catalogs);
    let input = preflight::Input {
        instance,
        digests,
        owner: &owner,
        plan: &plan,
        inventory: &had,
        facts: &facts,
        client: &client,
        own: &ctx.client,
        kinds: &ctx.kinds,
        versions: &ctx.versions,
        mighty: &ctx.mighty,
        namespace: existing.as_ref(),
        system_namespace: &ctx.settings.system_namespace,
        concurrency: ctx.settings.concurrency,
    };
    let mut findings = preflight::run(&input)
        .await
        .map_err(|error| soon(target, "the preflight checks could not be made", &error))?;
    let is_wrong_cluster = has(&findings.problems, Check::ClusterVersion);
    if is_wrong_cluster {
        ctx.catalogs.want_refused(&facts.package);
    }
    memory.is_refused(is_wrong_cluster || has(&findings.problems, Check::Ownership));
    if target.way_back_from.is_some() {
        spare_definitions(&mut plan, &mut findings);
    }
    // Namespaces of others are used as they are.
    plan.steps
        .retain(|step| !findings.shared.contains(&step.object.identity()));
    if !findings.problems.is_empty() {
        return Err(fail(
            listed(&findings.problems),
            retry_after(&findings.problems),
        ));
    }
    let warnings = findings.warnings.into_iter().map(|warning| warning.message);
    Ok(Prepared {
        warnings: warnings.collect(),
        owner,
        client,
        namespace: converted.namespace,
        plan,
        claim,
    })
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

/// On the way back a definition stays as it is where the old one would not be safe.
fn spare_definitions(plan: &mut Plan, findings: &mut Findings) {
    let (mut dangers, others) = mem::take(&mut findings.problems)
        .into_iter()
        .partition::<Vec<Problem>, _>(|problem| problem.check == Check::DefinitionUpgrade);
    findings.problems = others;
    if !dangers.is_empty() {
        plan.steps
            .retain(|step| step.object.kind() != "CustomResourceDefinition");
        findings.warnings.append(&mut dangers);
    }
}

fn has(problems: &[Problem], check: Check) -> bool {
    problems.iter().any(|problem| problem.check == check)
}

/// When to try again after problems.
fn retry_after(problems: &[Problem]) -> Retry {
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

/// What has to leave and has not left.
fn removing(pruned: &Pruned) -> Vec<String> {
    let going = pruned.going.iter().take(MOST_REMOVING);
    let failed = pruned.failed.iter().take(MOST_REMOVING);
    going
        .map(|identity| pruned.line(identity))
        .chain(failed.map(|failure| failure.message.clone()))
        .collect()
}

/// What has left the bundle and stays in the cluster, and why.
fn released(before: &BundleInstanceStatus, target: &Target<'_>, pruned: &Pruned) -> Vec<String> {
    // The tries before have left something, too.
    let is_again = before.installed_bundle_name.as_deref() == Some(&target.bundle.name_any());
    let earlier = before.released.iter().filter(|_| is_again).cloned();
    let now = pruned.released.iter();
    now.map(|(identity, why)| shortened(&format!("{identity}: {why}"), LONGEST_LINE))
        .chain(earlier)
        .take(MOST_RELEASED)
        .collect()
}

/// The Bundle that was installed before, while it is the way back.
fn previous(before: &BundleInstanceStatus, target: &Target<'_>) -> Option<String> {
    if target.way_back_from.is_some() {
        return None;
    }
    let installed = before.installed_bundle_name.as_ref()?;
    if *installed == target.bundle.name_any() {
        before.previous_bundle_name.clone()
    } else {
        Some(installed.clone())
    }
}

fn failing(target: &Target<'_>) -> impl Fn(String, Retry) -> Failure + use<> {
    let bundle = target.bundle.name_any();
    move |message, retry| Failure {
        bundle: bundle.clone(),
        message,
        touched: false,
        retry,
    }
}

fn soon(target: &Target<'_>, what: &str, error: &kube::Error) -> Failure {
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
) -> Result<(), Failure> {
    let inventory = memory.inventory.get_or_insert_default();
    for step in &plan.steps {
        let identity = step.object.identity();
        let version = group_version(step.object.api_version()).1.to_owned();
        inventory.entry(identity).or_default().version = version;
    }
    let fail = |error: &dyn std::fmt::Display| Failure {
        bundle: target.bundle.name_any(),
        message: format!("the inventory cannot be written: {error}"),
        touched: false,
        retry: Retry::Soon,
    };
    let owner = owner(instance);
    let listed = inventory::write(&overflow(shared, &owner), inventory)
        .await
        .map_err(|error| fail(&error))?;
    let status = status::applying(
        before,
        instance.metadata.generation,
        &target.bundle.name_any(),
        plan.steps.len(),
        listed,
        (shared.ctx.now)(),
    );
    write_status(instance, shared, memory, &status)
        .await
        .map_err(|error| fail(&error))
}

/// Remembers what is in place, and tells the watches, which hear of it later.
pub(in crate::instance) fn take_over(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    plan: &Plan,
    report: &Report,
) {
    memory.is_watched = false;
    shared
        .ctx
        .watches
        .applied(&instance.name_any(), &report.applied);
    let inventory = memory.inventory.get_or_insert_default();
    for step in &plan.steps {
        let identity = step.object.identity();
        if let Some(applied) = report.applied.get(&identity) {
            let entry: &mut Entry = inventory.entry(identity).or_default();
            entry.fields = applied.fields;
        }
    }
}

/// Forgets what has left, and gives what remains: also what has not been begun, or could not be deleted.
fn settle_inventory<'a>(memory: &'a mut Memory, pruned: &Pruned) -> &'a Inventory {
    memory.is_watched = false;
    let inventory = memory.inventory.get_or_insert_default();
    inventory.retain(|identity, _| {
        !pruned.deleted.contains(identity) && !pruned.released.contains_key(identity)
    });
    inventory
}

#[cfg(test)]
mod tests;

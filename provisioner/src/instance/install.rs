//! Installing a Bundle, or another version of it: everything is known to be possible before anything is changed.

mod converted;
mod key;

use std::{collections::HashSet, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt as _, core::GroupVersionKind};
use manifests::{
    api::{
        bundle::Bundle,
        instance::{BundleInstance, BundleInstanceSpec, BundleInstanceStatus},
        labels,
    },
    object::{Object, group_version, shortened},
    version::KubeVersion,
};
use tracing::{info, warn};

pub(super) use self::converted::convert;
use super::{
    claims, maintain,
    memory::{Memory, Shared},
    outcome::{Done, Failure, Health, Install, Kept, Retry},
    reconcile::{current_status, overflow, owner, sooner, write_status},
    status,
};
use crate::{
    apply::{Apply, Cause, Failure as Refused, Pruned, Report},
    inventory::{self, Entry, Inventory},
    plan::{self, Absent, Owner, Plan},
    preflight::{self, Check, Problem},
};

/// The longest time between two looks at what has left the bundle, and not yet the cluster.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest line of a list in the status, in characters.
const LONGEST_LINE: usize = 1000;

/// After the digest of what is applied, while something of the bundle before cannot be deleted yet.
const REMOVING: &str = " (removing)";

/// What is to be in the cluster.
pub(super) struct Target<'a> {
    /// The Bundle.
    pub(super) bundle: &'a Bundle,
    /// The hash of the template that failed, and why it did, when this is the way back.
    pub(super) way_back_from: Option<(String, String)>,
}

/// What came of it.
pub(super) struct Settled {
    pub(super) install: Install,
    pub(super) health: Health,
    pub(super) fights: Vec<String>,
    pub(super) kept: Option<Kept>,
    /// When to look again, unless something happens.
    pub(super) again: Option<Duration>,
}

/// Brings the target into the cluster where it is not there yet, and keeps it there where it is. What is installed is
/// kept as long as the target cannot take its place.
pub(super) async fn run(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    status: &BundleInstanceStatus,
    target: &Target<'_>,
    installed: Option<&Bundle>,
) -> Settled {
    let now = (shared.ctx.now)();
    let version = match shared.ctx.versions.kubernetes().await {
        Ok(version) => version,
        Err(error) => {
            let failure = Failure {
                bundle: target.bundle.name_any(),
                message: format!("the apiserver does not tell its version: {error}"),
                touched: false,
                retry: Retry::Soon,
            };
            return failed(shared, memory, instance, failure, "version".to_owned());
        }
    };
    let key = key::of(&instance.spec, target.bundle, version);
    let is_new =
        status.applied_digest.as_ref() != Some(&key) || has_api_at_last(shared, status).await;
    if !is_new {
        memory.declared = Some(instance.spec.clone());
        memory.misses_apis(!status.waiting.is_empty());
        let mut settled = maintain::run(instance, shared, memory, status, target).await;
        if matches!(settled.install, Install::Unchanged)
            && status.installed_bundle_name.as_deref() != Some(&target.bundle.name_any())
        {
            // Another Bundle with the same content: nothing to apply.
            settled.install = Install::Done(Box::new(renamed(status, target)));
        }
        return settled;
    }
    let tried = format!(
        "{key} {} {:?} {} {}",
        target.bundle.name_any(),
        instance.metadata.generation,
        *shared.ctx.kinds.changes().borrow(),
        memory.turn(),
    );
    if let Some(left) = memory.tries.must_wait(&tried, now) {
        maintain::watch(instance, shared, memory).await;
        let mut settled = Settled {
            install: Install::Waiting,
            health: maintain::health(instance, shared, memory),
            fights: Vec::new(),
            kept: None,
            again: Some(left),
        };
        keep(instance, shared, memory, version, installed, &mut settled).await;
        return settled;
    }
    match Box::pin(attempt(instance, shared, memory, status, target, &key)).await {
        Ok(done) => {
            let complete = done.digest == key;
            memory.declared = Some(instance.spec.clone());
            info!(bundle = %done.bundle, objects = done.inventory.count, complete, "installed");
            maintain::watch(instance, shared, memory).await;
            let again = if complete {
                memory.tries.succeeded();
                None
            } else {
                // Nothing tells when custom resources are gone.
                memory.tries.again(tried, Retry::Soon, now);
                Some(memory.tries.wait_at_most(LONGEST_WAIT, now))
            };
            memory.misses_apis(!done.waiting.is_empty());
            Settled {
                health: maintain::health(instance, shared, memory),
                install: Install::Done(Box::new(done)),
                fights: Vec::new(),
                kept: None,
                again,
            }
        }
        Err(failure) => {
            let mut settled = failed(shared, memory, instance, failure, tried);
            keep(instance, shared, memory, version, installed, &mut settled).await;
            settled
        }
    }
}

/// Repairs what is installed, as long as nothing of another bundle, or of another configuration, has been begun: after
/// that only the next try knows what should be there.
async fn keep(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    version: KubeVersion,
    installed: Option<&Bundle>,
    settled: &mut Settled,
) {
    let Some(installed) = installed else {
        return;
    };
    // The try has changed it, if it began.
    let status = current_status(instance, memory);
    let applied = status.applied_digest.unwrap_or_default();
    let applied = applied.strip_suffix(REMOVING).unwrap_or(&applied);
    let specs = [Some(&instance.spec), memory.declared.as_ref()];
    let is_applied = |spec: &&BundleInstanceSpec| applied == key::of(spec, installed, version);
    let Some(spec) = specs.into_iter().flatten().find(is_applied).cloned() else {
        return;
    };
    let kept = maintain::keep(instance, &spec, shared, memory, installed).await;
    if let Some(waiting) = kept.changed
        && let Some(inventory) = maintain::written(instance, shared, memory).await
    {
        settled.kept = Some(Kept { inventory, waiting });
    }
    if let Some(failure) = kept.failure {
        maintain::tell_failure(instance, shared, &failure).await;
    }
    settled.health = maintain::health(instance, shared, memory);
    settled.fights = maintain::fights(shared, memory);
    settled.again = sooner(settled.again, kept.again);
}

fn failed(
    shared: &Shared,
    memory: &mut Memory,
    instance: &BundleInstance,
    failure: Failure,
    tried: String,
) -> Settled {
    let now = (shared.ctx.now)();
    warn!(bundle = %failure.bundle, message = %shortened(&failure.message, 500), "not installed");
    shared.ctx.metrics.failed(
        crate::metrics::Controller::Instance,
        manifests::api::condition::reason::INSTALL_FAILED,
    );
    let again = memory.tries.again(tried, failure.retry, now);
    Settled {
        install: Install::Failed(failure),
        health: maintain::health(instance, shared, memory),
        fights: Vec::new(),
        kept: None,
        again: Some(again),
    }
}

/// Whether an API is served now that objects wait for.
async fn has_api_at_last(shared: &Shared, status: &BundleInstanceStatus) -> bool {
    let kinds: Vec<GroupVersionKind> = status
        .waiting
        .iter()
        .filter_map(|text| {
            let mut words = text.split(' ');
            let (kind, api_version) = (words.next()?, words.next()?);
            let (group, version) = group_version(api_version);
            Some(GroupVersionKind::gvk(group, version, kind))
        })
        .collect();
    if kinds.is_empty() {
        return false;
    }
    match shared.ctx.kinds.find(kinds).await {
        Ok(found) => found.values().any(Option::is_some),
        Err(_) => false,
    }
}

/// What is in the cluster, under the name of another Bundle.
pub(super) fn renamed(status: &BundleInstanceStatus, target: &Target<'_>) -> Done {
    Done {
        bundle: target.bundle.name_any(),
        previous: None,
        source: target
            .bundle
            .status
            .as_ref()
            .and_then(|s| s.resolved_source.clone()),
        namespace: status.install_namespace.clone().unwrap_or_default(),
        digest: status.applied_digest.clone().unwrap_or_default(),
        facts: status.facts.clone(),
        inventory: status.inventory.clone().unwrap_or_default(),
        waiting: status.waiting.clone(),
        released: status.released.clone(),
        removing: Vec::new(),
        warnings: Vec::new(),
        rolled_back: target.way_back_from.clone(),
    }
}

/// Everything from content to a cluster that holds it.
async fn attempt(
    instance: &BundleInstance,
    shared: &Shared,
    memory: &mut Memory,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    key: &str,
) -> Result<Done, Failure> {
    let ctx = &shared.ctx;
    let fail = |message: String, retry| Failure {
        bundle: target.bundle.name_any(),
        message,
        touched: false,
        retry,
    };
    let soon = |what: &'static str| {
        move |error: kube::Error| fail(format!("{what}: {error}"), Retry::Soon)
    };
    let owner = owner(instance);
    let client = ctx
        .accounts
        .client(instance.spec.service_account.as_ref())
        .map_err(soon("no client can be made"))?;
    let converted = convert(instance, &instance.spec, ctx, target.bundle).await?;
    let had = memory.inventory.clone().unwrap_or_default();
    let objects =
        without_existing_namespace(converted.objects, &client, &owner, &converted.namespace).await;
    let mut plan = plan(ctx, objects, &had, &owner, &converted.namespace)
        .await
        .map_err(soon("the served APIs cannot be listed"))?;
    memory.misses_apis(!plan.missing.is_empty() || !plan.waiting.is_empty());
    // From the beginning, so that whatever becomes free from now on is noticed.
    memory.is_refused(true);
    let planned = plan.steps.iter().map(|step| step.object.identity());
    let _claim = shared
        .claims
        .claim(&owner.name, planned)
        .map_err(|others| fail(claims::refusal(&others), Retry::Soon))?;

    let input = |plan| preflight::Input {
        instance,
        owner: &owner,
        plan,
        inventory: &had,
        facts: &converted.facts,
        client: &client,
        own: &ctx.client,
        kinds: &ctx.kinds,
        versions: &ctx.versions,
        system_namespace: &ctx.settings.system_namespace,
        concurrency: ctx.settings.concurrency,
    };
    let mut findings = preflight::run(&input(&plan))
        .await
        .map_err(soon("the preflight checks could not be made"))?;
    let owned = |problem: &Problem| problem.check == Check::Ownership;
    memory.is_refused(findings.problems.iter().any(owned));
    if target.way_back_from.is_some() {
        // On the way back a definition stays as it is where the old one would not be safe.
        let (unsafe_, others): (Vec<Problem>, Vec<Problem>) = findings
            .problems
            .into_iter()
            .partition(|problem| problem.check == Check::DefinitionUpgrade);
        findings.problems = others;
        if !unsafe_.is_empty() {
            plan.steps
                .retain(|step| step.object.kind() != "CustomResourceDefinition");
            findings.warnings.extend(unsafe_);
        }
    }
    // Namespaces that another instance brought are used as they are.
    plan.steps
        .retain(|step| !findings.shared.contains(&step.object.identity()));
    if !findings.problems.is_empty() {
        let is = |check| move |problem: &Problem| problem.check == check;
        // Namespaces come and go without us, too.
        let passes = |problem: &Problem| matches!(problem.check, Check::Going | Check::Namespace);
        let retry = if findings.problems.iter().all(passes) {
            Retry::Soon
        } else if findings.problems.iter().any(is(Check::Rights)) {
            Retry::Granted
        } else {
            Retry::Slowly
        };
        return Err(fail(listed(&findings.problems), retry));
    }
    let apply = Apply {
        client: &client,
        kinds: &ctx.kinds,
        concurrency: ctx.settings.concurrency,
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
    let mut pruned = apply
        .prune(&plan.leaving, &owner, instance.spec.crd_deletion_policy)
        .await;
    let complete = pruned.failed.is_empty() && pruned.going.is_empty();
    if !pruned.deleted.is_empty() || !pruned.released.is_empty() {
        shared.wake_those_refused();
    }
    let inventory = settle_inventory(memory, &pruned);
    let listed = inventory::write(&overflow(shared, &owner), inventory)
        .await
        .map_err(soon("the inventory cannot be written"))?;
    let pivoted = before
        .installed_bundle_name
        .as_ref()
        .filter(|old| **old != target.bundle.name_any() && target.way_back_from.is_none());
    let warnings = findings.warnings.into_iter().map(|w| w.message).collect();
    let mut removing: Vec<String> = pruned
        .going
        .iter()
        .take(10)
        .map(|identity| pruned.line(identity))
        .collect();
    removing.extend(
        pruned
            .failed
            .drain(..)
            .take(10)
            .map(|failure| failure.message),
    );
    let mut released: Vec<String> = pruned
        .released
        .iter()
        .map(|(identity, why)| shortened(&format!("{identity}: {why}"), LONGEST_LINE))
        .collect();
    if target_is(before, target) {
        // What the tries before have left.
        released.extend(before.released.iter().cloned());
    }
    released.truncate(100);
    let bundle_status = target.bundle.status.clone().unwrap_or_default();
    let kept_previous = if target.way_back_from.is_some() || target_is(before, target) {
        before
            .previous_bundle_name
            .clone()
            .filter(|_| target.way_back_from.is_none())
    } else {
        None
    };
    Ok(Done {
        bundle: target.bundle.name_any(),
        previous: pivoted.cloned().or(kept_previous),
        source: bundle_status.resolved_source,
        namespace: converted.namespace,
        // What could not be deleted yet is tried again, by being no match.
        digest: if complete {
            key.to_owned()
        } else {
            format!("{key}{REMOVING}")
        },
        facts: bundle_status.facts,
        inventory: listed,
        waiting: plan.waiting.iter().flat_map(waiting).take(500).collect(),
        released,
        removing,
        warnings,
        rolled_back: target.way_back_from.clone(),
    })
}

fn target_is(status: &BundleInstanceStatus, target: &Target<'_>) -> bool {
    status.installed_bundle_name.as_deref() == Some(&target.bundle.name_any())
}

/// Makes the plan, asking which of the kinds are served.
pub(super) async fn plan(
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

/// Leaves out the object of the install namespace when that exists and is not ours: it is used as it is.
async fn without_existing_namespace(
    mut objects: Vec<Object>,
    client: &Client,
    owner: &Owner,
    namespace: &str,
) -> Vec<Object> {
    let is_it = |object: &Object| {
        object.kind() == "Namespace" && object.group().is_empty() && object.name() == namespace
    };
    if !objects.iter().any(is_it) {
        return objects;
    }
    let found = Api::<Namespace>::all(client.clone())
        .get_metadata(namespace)
        .await;
    let use_as_it_is = match found {
        Ok(found) => found.labels().get(labels::OWNER_NAME) != Some(&owner.name),
        // Who may not look may not create either: it has to be there.
        Err(kube::Error::Api(status)) => status.code == 403,
        Err(_) => false,
    };
    if use_as_it_is {
        objects.retain(|object| !is_it(object));
    }
    objects
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
pub(super) fn take_over(
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

/// Problems as one text: each on a line of its own when there are several.
fn listed(problems: &[Problem]) -> String {
    let lines: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    lines.join("\n")
}

pub(super) fn refusals(failures: &[Refused]) -> String {
    const MOST: usize = 30;
    let mut lines: Vec<String> = failures
        .iter()
        .take(MOST)
        .map(|failure| failure.message.clone())
        .collect();
    if failures.len() > MOST {
        lines.push(format!("and {} more objects", failures.len() - MOST));
    }
    lines.join("\n")
}

/// One failure that may pass by itself is reason enough to try soon.
pub(super) fn retry(failures: &[Refused]) -> Retry {
    let passes = |cause| {
        matches!(
            cause,
            Cause::Transient
                | Cause::Deleting
                | Cause::NotServed
                | Cause::NotEstablished
                | Cause::Namespace
        )
    };
    let has = |cause| failures.iter().any(|failure| failure.cause == cause);
    if failures.iter().any(|failure| passes(failure.cause)) {
        Retry::Soon
    } else if has(Cause::Forbidden) {
        Retry::Granted
    } else {
        Retry::Slowly
    }
}

/// `ServiceMonitor monitoring.coreos.com/v1 operators/etcd`, for each object that waits.
pub(super) fn waiting(absent: &Absent) -> impl Iterator<Item = String> {
    absent.needed_by.iter().map(|identity| {
        let name = if identity.namespace.is_empty() {
            identity.name.clone()
        } else {
            format!("{}/{}", identity.namespace, identity.name)
        };
        format!("{} {} {name}", absent.kind, absent.api_version)
    })
}

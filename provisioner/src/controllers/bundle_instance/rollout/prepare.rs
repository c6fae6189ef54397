//! The plan of an attempt, and the preflight checks before any change.

use std::collections::{BTreeSet, HashSet};

use apply::{
    informers::InstanceView,
    inventory::{Entry, Inventory},
    plan::{self, InstanceOwner, Plan},
    preflight::{self, Check, Finding, Findings},
};
use convert::bundle_info::BundleInfo;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, ResourceExt as _, core::GroupVersionKind};
use manifests::{
    api::{
        bundle_identity,
        bundle_instance::{BundleInstance, BundleInstanceStatus, Cause, RevisionStatus},
        labels,
    },
    object::{Identity, Object, text},
};

use super::{
    Source, Target,
    attempt::{failure_for, retry_soon},
    message::{api, listed, remedy_of_problems},
    render::{Rendered, digest},
};
use crate::{
    cluster::{
        impersonation,
        overrides::ContentDigests,
        versions::{self, Candidate},
    },
    controllers::{
        bundle_instance::{
            apply_locks::{self, ApplyLock},
            outcome::{Failure, Remedy, RetryClass},
            policy,
            revisions::{self, owner},
            state::{InstanceContext, InstanceState},
            waiting::{self, Event, Release},
        },
        catalog_source::Catalogs,
    },
};

/// A plan that passed all checks.
pub(super) struct PreparedRollout {
    pub(super) owner: InstanceOwner,
    /// Client with the permissions that all objects are applied with.
    pub(super) client: Client,
    pub(super) rendered: Rendered,
    pub(super) plan: Plan,
    pub(super) warnings: Vec<String>,
    /// Objects that are not applied: other owners have them, and they are used unchanged.
    pub(super) left_out: BTreeSet<Identity>,
    pub(super) lock: ApplyLock,
}

/// Creates the plan, locks its objects, and runs the preflight checks. Nothing is changed. In a rollback to an older
/// revision, CRDs whose older form is unsafe keep their newer form.
pub(super) async fn prepare(
    instance: &BundleInstance,
    shared: &InstanceContext,
    state: &mut InstanceState,
    before: &BundleInstanceStatus,
    target: &Target<'_>,
    mut rendered: Rendered,
) -> Result<PreparedRollout, Failure> {
    let ctx = &shared.ctx;
    let fail = failure_for(target);
    let owner = owner(instance);
    let client = ctx
        .clients
        .client(rendered.account.as_ref())
        .map_err(|error| retry_soon(target, "failed to create a client", &error))?;
    let had = state.inventory.clone().unwrap_or_default();
    let mut has_kept_definitions = false;
    loop {
        let objects = rendered.objects.clone();
        let (objects, existing) =
            without_existing_namespace(objects, &client, &owner, &rendered.namespace).await;
        let has_namespace = objects.len() == rendered.objects.len();
        // An API that is served from now on has to wake the instance as well.
        state.await_apis([waiting::Api::Any]);
        let mut plan = plan(ctx, objects, &had, &owner, &rendered.namespace)
            .await
            .map_err(|error| retry_soon(target, "failed to list the served APIs", &error))?;
        let absent = plan.missing.iter().chain(&plan.deferred);
        state.await_apis(absent.map(api));
        // From the beginning, so that a release during the checks is noticed.
        state.await_objects([Event::Release(Release::Any)]);
        let planned = plan.steps.iter().map(|step| step.object.identity());
        let lock = shared
            .apply_locks
            .try_lock(&owner.name, planned)
            .map_err(|others| {
                let of = |name: &String| Event::Release(Release::Of(name.clone()));
                state.await_objects(others.values().map(of));
                fail(apply_locks::conflict_message(&others), RetryClass::Soon)
            })?;
        let had = observed(&had, &ctx.informers.view(&owner.name));
        let findings = check(
            instance, shared, &owner, &client, &rendered, &plan, &had, existing,
        );
        let findings = findings
            .await
            .map_err(|error| retry_soon(target, "failed to run the preflight checks", &error))?;
        let is_wrong_cluster = has(&findings.problems, Check::ClusterVersion);
        if is_wrong_cluster {
            ctx.catalogs.track_rejected(&rendered.facts.package);
        }
        state.await_objects(awaited(&findings));
        if !findings.unsafe_definitions.is_empty()
            && !has_kept_definitions
            && is_return(before, target, &rendered)
            && let Some(newest) = latest(before)
            && let Ok(newest) = revisions::read(shared, &owner, newest).await
        {
            has_kept_definitions = true;
            retain_newer_crds(&mut rendered, &findings.unsafe_definitions, &newest.objects)
                .map_err(|problem| fail(problem, RetryClass::Backoff).with(Remedy::Own))?;
            continue;
        }
        // Namespaces and default ServiceAccounts of other owners are used unchanged.
        plan.steps
            .retain(|step| !findings.used_as_is.contains(&step.object.identity()));
        if !findings.problems.is_empty() {
            let problems = &findings.problems;
            let failure = fail(listed(problems), retry_after(problems));
            return Err(failure.with(remedy_of_problems(problems)));
        }
        let warnings = findings.warnings.into_iter().map(|warning| warning.message);
        let mut left_out = findings.used_as_is;
        if !has_namespace {
            left_out.insert(namespace(&rendered.namespace));
        }
        return Ok(PreparedRollout {
            warnings: warnings.collect(),
            left_out,
            owner,
            client,
            rendered,
            plan,
            lock,
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

/// Returns an inventory in which objects that the informers have not observed count as never applied, so that an object that
/// another client has created again is not overwritten. After a restart, this applies to all objects until they are observed.
pub(crate) fn observed(inventory: &Inventory, view: &InstanceView) -> Inventory {
    let mut inventory = inventory.clone();
    for (identity, entry) in &mut inventory {
        if !is_observed(view, identity, entry) {
            entry.fields = None;
        }
    }
    inventory
}

/// Reports whether an object of the inventory is applied, and the informers have observed it.
pub(super) fn is_observed(view: &InstanceView, identity: &Identity, entry: &Entry) -> bool {
    entry.fields.is_some() && view.objects.contains_key(identity)
}

/// Runs the preflight checks.
#[expect(
    clippy::too_many_arguments,
    reason = "each of them is an input of a check"
)]
async fn check(
    instance: &BundleInstance,
    shared: &InstanceContext,
    owner: &InstanceOwner,
    client: &Client,
    rendered: &Rendered,
    plan: &Plan,
    had: &Inventory,
    existing: Option<(String, ObjectMeta)>,
) -> Result<Findings, kube::Error> {
    let ctx = &shared.ctx;
    let details = &rendered.details;
    let digest = details.bundle.content_digest.as_str();
    let digests = ContentDigests::new(
        Some(digest).filter(|digest| !digest.is_empty()),
        details.source.as_ref(),
    );
    let facts = apply_catalog_constraints(rendered.facts.clone(), instance, digests, &ctx.catalogs);
    let view = ctx.informers.view(&owner.name);
    let visible = view
        .objects
        .iter()
        .filter(|(_, observed)| !observed.deleting);
    let visible: BTreeSet<Identity> = visible.map(|(identity, _)| identity.clone()).collect();
    let input = preflight::Input {
        existing: &visible,
        owner,
        parent: policy::parent(instance),
        policy: &preflight::Policy {
            account: rendered.account.as_ref().map(impersonation::from_reference),
            ..policy::policy(instance)
        },
        plan,
        inventory: had,
        client,
        own: &ctx.client,
        kinds: &ctx.discovery,
        is_cluster_admin: &ctx.mighty,
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

/// Returns the revision that was rolled out last. It is archived if the record of a rollback was lost.
pub(crate) fn latest(before: &BundleInstanceStatus) -> Option<&RevisionStatus> {
    before.newest().or_else(|| before.revisions.last())
}

/// Reports whether the target is older than the newest revision.
pub(crate) fn is_return(
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

/// Replaces the CRDs of older objects by their newer form. A CRD whose conversion webhook uses a Service that the older
/// objects lack is rejected: its custom resources could not be read.
pub(crate) fn retain_newer_crds(
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
                "CustomResourceDefinition {} cannot be rolled back, and its conversion webhook uses Service {server}, \
                 which the older revision does not contain; roll back to a revision that contains the Service, or roll \
                 forward",
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

/// Adds the constraints that a catalog declares for exactly this content. Its max OpenShift version precedes that of the
/// bundle. Its `minKubeVersion` applies only if the bundle declares none, since plain manifests cannot declare one.
fn apply_catalog_constraints(
    mut facts: BundleInfo,
    instance: &BundleInstance,
    digests: ContentDigests<'_>,
    catalogs: &Catalogs,
) -> BundleInfo {
    let Some(digest) = digests.image() else {
        return facts;
    };
    if facts.package.is_empty()
        && let Some(chosen) = bundle_identity::chosen(instance, digest)
    {
        (facts.package, facts.name) = (chosen.package, chosen.bundle);
    }
    let declared_maximum = catalogs.effective_maximum(&facts.package, &facts.name, digest);
    let of_bundle = facts.max_open_shift_version.take();
    facts.max_open_shift_version = versions::that_counts(of_bundle, declared_maximum.as_deref());
    if facts.min_kube_version.is_none() {
        facts.min_kube_version = catalogs.min_kube(&facts.package, &facts.name, digest);
    }
    facts
}

/// Returns the events that may clear the problems.
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

fn has(problems: &[Finding], check: Check) -> bool {
    problems.iter().any(|problem| problem.check == check)
}

/// Returns the class of the delay until the next attempt after problems.
pub(crate) fn retry_after(problems: &[Finding]) -> RetryClass {
    // Other clients create and delete namespaces as well.
    let passes = |problem: &Finding| matches!(problem.check, Check::Terminating | Check::Namespace);
    if problems.iter().all(passes) {
        RetryClass::Soon
    } else if has(problems, Check::Rights) {
        RetryClass::AfterGrant
    } else {
        RetryClass::Backoff
    }
}

/// Creates the plan with the kinds that the API server serves.
pub(crate) async fn plan(
    ctx: &crate::controllers::context::Context,
    objects: Vec<Object>,
    inventory: &Inventory,
    owner: &InstanceOwner,
    namespace: &str,
) -> Result<Plan, kube::Error> {
    let needed: HashSet<GroupVersionKind> = objects.iter().map(plan::kind_of).collect();
    let kinds = ctx.discovery.find(needed).await?;
    Ok(plan::new(
        objects,
        &kinds,
        inventory,
        owner,
        namespace,
        &ctx.settings.optional_kinds,
    ))
}

/// Omits the Namespace object of the install namespace if it exists and does not belong to this owner: it is used
/// unchanged. The second value is the existing Namespace.
async fn without_existing_namespace(
    mut objects: Vec<Object>,
    client: &Client,
    owner: &InstanceOwner,
    namespace: &str,
) -> (Vec<Object>, Option<(String, ObjectMeta)>) {
    let is_install_namespace = |object: &Object| {
        object.kind() == "Namespace" && object.group().is_empty() && object.name() == namespace
    };
    if !objects.iter().any(is_install_namespace) {
        return (objects, None);
    }
    let found = Api::<Namespace>::all(client.clone())
        .get_metadata(namespace)
        .await;
    let is_foreign = match &found {
        Ok(found) => found.labels().get(labels::OWNER_NAME) != Some(&owner.name),
        // A service account that cannot read the namespace cannot create it either, so the namespace must exist.
        Err(kube::Error::Api(status)) => status.code == 403,
        Err(_) => false,
    };
    if is_foreign {
        objects.retain(|object| !is_install_namespace(object));
    }
    let existing = found.map(|found| (namespace.to_owned(), found.metadata));
    (objects, existing.ok())
}

#[cfg(test)]
mod tests;

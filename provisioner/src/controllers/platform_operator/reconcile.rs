//! The reconcile of one PlatformOperator: read inputs, decide, act, write the status.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{controller::Action, events::EventType},
};
use manifests::{
    api::{
        bundle_instance::BundleInstance,
        condition::{self, INSTALLED},
        labels, limits,
        platform_operator::{PlatformOperator, PlatformOperatorStatus, reason},
    },
    openshift,
};
use serde_json::json;
use tracing::{Instrument as _, info, info_span, warn};

use super::{
    choose::{self, CheckedPermissions, ClusterReleases, Input, InstanceAction, OperatorPlan},
    controller::{Shared, truncate},
    installed::{self, BundleChoice},
    instance_manifest::{self, MANAGER},
    instances::NameOwner,
    new_permissions, package_owner, record,
    status::{self, Observation},
};
use crate::{
    controllers::{
        catalog_source::max_openshift::MaxOpenShiftVersions,
        cluster_operator::{
            instance::ObservedInstance,
            removed_apis,
            upgradeable::{self, ClusterKind, InstalledOperator},
        },
    },
    runtime::metrics::Controller,
};
use apply::{api_error, backoff::spread};

/// Error of a reconcile, which is retried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to {what} of PlatformOperator {name}")]
    Kube {
        what: &'static str,
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// Versions of the cluster.
struct Facts {
    openshift: Result<Option<ClusterReleases>, String>,
    kubernetes: Result<manifests::version::Version, String>,
    cluster: ClusterKind,
}

pub(super) async fn reconcile(
    operator: Arc<PlatformOperator>,
    shared: Arc<Shared>,
) -> Result<Action, Error> {
    let name = operator.name_any();
    let span = info_span!("platform operator", %name);
    let metrics = &shared.ctx.metrics;
    metrics.queue(Controller::Platform).dequeued(&name);
    let _measure = metrics.reconcile(Controller::Platform);
    reconcile_operator(&operator, &shared)
        .instrument(span)
        .await
}

/// Logs an error of the reconcile itself, and schedules a retry with back-off.
#[expect(clippy::needless_pass_by_value)] // kube's signature
pub(super) fn failed(
    operator: Arc<PlatformOperator>,
    error: &Error,
    shared: Arc<Shared>,
) -> Action {
    let name = operator.name_any();
    let error = api_error::chain(error);
    warn!(operator = name, error, "reconcile failed; retrying");
    shared.ctx.metrics.failed(
        Controller::Platform,
        manifests::api::condition::reason::RECONCILE_FAILED,
    );
    Action::requeue(shared.requeue_after_error(&operator))
}

async fn reconcile_operator(operator: &PlatformOperator, shared: &Shared) -> Result<Action, Error> {
    // The garbage collector deletes the BundleInstance.
    if operator.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let ctx = &shared.ctx;
    let named = shared.instances.named(operator).await;
    let named = named.map_err(failed_to("read the BundleInstance", operator))?;
    let live;
    let operator = if let NameOwner::Nothing = named {
        // The cache may be older than the choice that was recorded last.
        live = read(operator, shared).await?;
        match &live {
            Some(live) => live,
            None => return Ok(Action::await_change()),
        }
    } else {
        operator
    };
    let own = named.existing().ours();
    let all = shared.operators.state();
    let managed = shared.olm.managed();
    let unknown = shared.olm.unknown();
    // An operator keeps its package while its BundleInstance is created again.
    let held = |operator: &PlatformOperator| {
        shared
            .instances
            .package(operator)
            .or_else(|| record::package(operator))
    };
    let all = all.iter().map(AsRef::as_ref);
    let conflict = package_owner::find_conflict(operator, all, held, &managed);
    let facts = facts(shared).await;
    let only = choose::requested_catalog(operator, own);
    let package = &operator.spec.package.name;
    let offers = ctx.catalogs.offers(package, only.as_ref());
    let offered = offers.list();
    let are_listed = ctx.catalogs.is_synced();
    let mut gains: Vec<CheckedPermissions> = Vec::new();
    let mut check_failure = None;
    // Each iteration may require the permissions of another bundle: a new minor version, or a patch that is installed
    // in the meantime.
    let plan = loop {
        let plan = choose::plan(&Input {
            operator,
            conflict: conflict.clone(),
            existing: named.existing(),
            offers: are_listed.then_some(offered.as_slice()),
            openshift: facts.openshift.as_ref().copied().map_err(String::as_str),
            kubernetes: facts.kubernetes.as_ref().map_err(String::as_str),
            olm: unknown.as_deref(),
            gains: &gains,
        });
        let (InstanceAction::CheckPermissions { image, class }, Some(instance)) = (&plan.act, own)
        else {
            break plan;
        };
        let computed = Box::pin(new_permissions::compute(
            shared, operator, instance, image, *class,
        ))
        .await;
        let (checked_at, permissions) = match computed {
            Ok(result) => (result.image, Ok(result.permissions)),
            // A bundle whose permissions are not known waits; other bundles do not.
            Err(unknown) => {
                let text = format!(
                    "cannot determine the permissions of {image}: {}",
                    unknown.why
                );
                check_failure = Some((text, unknown.wait));
                (image.clone(), Err(unknown.why))
            }
        };
        gains.push(CheckedPermissions {
            image: image.clone(),
            checked_at,
            permissions,
        });
    };
    let applied = act(operator, shared, own, &plan).await;
    // If another action fails as well, its back-off applies.
    let wait = applied.is_ok().then_some(check_failure.as_ref()).flatten();
    let wait = wait.and_then(|(_, wait)| *wait);
    let failure = check_failure.map(|(text, _)| text).or(applied.err());
    let verdict = own.and_then(|instance| verdict(shared, &facts, operator, instance));
    let states: Vec<_> = offers.states().collect();
    let found = Observation {
        plan: &plan,
        instance: own,
        failure: failure.as_deref(),
        catalogs: are_listed.then_some(states.as_slice()),
        verdict: verdict.as_ref(),
    };
    let mut status = status::build(operator, &found, (ctx.now)());
    shared.merge_written_status(&operator.name_any(), &mut status);
    report(operator, shared, &plan, &status).await?;
    if failure.is_some() {
        return Ok(Action::requeue(
            wait.unwrap_or_else(|| shared.requeue_after_error(operator)),
        ));
    }
    shared.failures.reset(&operator.uid().unwrap_or_default());
    Ok(Action::requeue(spread(ctx.settings.resync)))
}

/// Reads an operator from the API server; `None` if it was deleted.
async fn read(
    operator: &PlatformOperator,
    shared: &Shared,
) -> Result<Option<PlatformOperator>, Error> {
    let api = Api::<PlatformOperator>::all(shared.ctx.client.clone());
    let live = api.get_opt(&operator.name_any()).await;
    let live = live.map_err(failed_to("read the recorded choice", operator))?;
    Ok(live
        .filter(|live| live.uid() == operator.uid() && live.metadata.deletion_timestamp.is_none()))
}

fn failed_to(what: &'static str, operator: &PlatformOperator) -> impl FnOnce(kube::Error) -> Error {
    let name = operator.name_any();
    move |source| Error::Kube {
        what,
        name,
        source: Box::new(source),
    }
}

async fn facts(shared: &Shared) -> Facts {
    let versions = &shared.ctx.versions;
    let kubernetes = versions.kubernetes_release().await;
    let kubernetes = kubernetes.map_err(|error| api_error::chain(&error));
    let (bounds, cluster) = match versions.openshift().await {
        Err(error) => {
            let why = api_error::chain(&error);
            (Err(why.clone()), ClusterKind::OpenShift(Err(why)))
        }
        Ok(None) => (Ok(None), ClusterKind::Kubernetes),
        Ok(Some(cluster)) => {
            let completed = cluster.last_completed().map_err(str::to_owned);
            let bounds = match (&completed, cluster.max_release()) {
                (Ok(completed), Some(highest)) => Ok(Some(ClusterReleases {
                    completed: *completed,
                    highest,
                })),
                (Err(why), _) => Err(why.clone()),
                (Ok(_), None) => Err("the ClusterVersion has no version".to_owned()),
            };
            // The gate is about the release of the payload.
            let gate = versions
                .release()
                .map(openshift::ClusterRelease::of_release);
            let gate = gate.map(|cluster| cluster.last_completed().map_err(str::to_owned));
            (bounds, ClusterKind::OpenShift(gate.unwrap_or(completed)))
        }
    };
    Facts {
        openshift: bounds,
        kubernetes,
        cluster,
    }
}

/// Applies the BundleInstance, or returns the reason why that failed.
async fn act(
    operator: &PlatformOperator,
    shared: &Shared,
    instance: Option<&BundleInstance>,
    plan: &OperatorPlan,
) -> Result<(), String> {
    let InstanceAction::Apply(chosen) = &plan.act else {
        return Ok(());
    };
    record_annotations(operator, shared, plan, chosen).await?;
    let mut desired = instance_manifest::instance(operator, chosen);
    if let Some(instance) = instance {
        if instance_manifest::is_declared(instance, &desired) {
            return Ok(());
        }
        // A decision from an outdated object causes a conflict, instead of reverting a newer one.
        instance_manifest::require_resource_version(&mut desired, instance);
    }
    record_status(operator, shared, chosen).await?;
    let name = operator.name_any();
    let api = Api::<BundleInstance>::all(shared.ctx.client.clone());
    // Fields are forced only in the operator's own object, not in one that another client creates at the same time.
    let params = PatchParams {
        force: instance.is_some(),
        ..PatchParams::apply(MANAGER)
    };
    match api.patch(&name, &params, &Patch::Apply(&desired)).await {
        Ok(_) => {
            info!(bundle = %chosen.bundle.name, catalog = %chosen.bundle.catalog, "applied the BundleInstance");
            let previous = instance.and_then(|instance| installed::state(instance).chosen);
            if previous.map(|chosen| chosen.bundle.name).as_ref() != Some(&chosen.bundle.name) {
                let note = format!(
                    "chose {} {} from catalog {}, channel {}",
                    chosen.bundle.name,
                    chosen.bundle.version,
                    chosen.bundle.catalog,
                    chosen.bundle.channel
                );
                publish_event(operator, shared, EventType::Normal, "BundleChosen", &note).await;
            }
            Ok(())
        }
        // The object has changed since, and its change causes another reconcile.
        Err(kube::Error::Api(status)) if status.code == 409 && instance.is_some() => Ok(()),
        Err(error) => {
            let error = api_error::chain(&error);
            Err(format!(
                "failed to apply BundleInstance {name}: {error}; retrying"
            ))
        }
    }
}

/// Writes the annotations that record a choice before the choice is applied, or returns the reason why that failed.
async fn record_annotations(
    operator: &PlatformOperator,
    shared: &Shared,
    plan: &OperatorPlan,
    chosen: &BundleChoice,
) -> Result<(), String> {
    let name = operator.name_any();
    let annotation = record::annotation(chosen).map_err(|problem| {
        let bundle = truncate(&chosen.bundle.name, limits::WORD);
        format!(
            "PlatformOperator {name}: the record of bundle {bundle} {problem}; choose a bundle with shorter names"
        )
    })?;
    let mut annotations = BTreeMap::from([(labels::CHOSEN_BUNDLE, annotation)]);
    annotations.extend(
        plan.keep
            .map(|keep| (labels::APPROVED_MINORS, keep.to_string())),
    );
    annotate(operator, shared, annotations)
        .await
        .map_err(|error| {
            let error = api_error::chain(&error);
            format!("failed to record the choice of PlatformOperator {name}: {error}; retrying")
        })
}

/// Writes the annotations that differ.
async fn annotate(
    operator: &PlatformOperator,
    shared: &Shared,
    mut annotations: BTreeMap<&str, String>,
) -> Result<(), kube::Error> {
    annotations.retain(|name, value| operator.annotations().get(*name) != Some(value));
    if annotations.is_empty() {
        return Ok(());
    }
    let api = Api::<PlatformOperator>::all(shared.ctx.client.clone());
    let patch = json!({"metadata": {"uid": operator.uid(), "annotations": annotations}});
    let params = PatchParams::default();
    let patch = Patch::Merge(patch);
    let written = api.patch(&operator.name_any(), &params, &patch).await?;
    shared.versions.note(&written);
    Ok(())
}

/// Writes a choice to the status before the choice is applied, or returns the reason why that failed. OpenShift's CRD has
/// no field for the choice.
async fn record_status(
    operator: &PlatformOperator,
    shared: &Shared,
    chosen: &BundleChoice,
) -> Result<(), String> {
    let mut status = operator.status.clone().unwrap_or_default();
    let before = status.chosen_bundle.clone();
    status.chosen_bundle = Some(status::truncated(&chosen.bundle));
    status::restore_reasons(&mut status, &operator.status.clone().unwrap_or_default());
    if status.chosen_bundle == before {
        return Ok(());
    }
    match write(operator, shared, &status).await {
        Ok(None) => Err(format!(
            "PlatformOperator {} was deleted while its choice was recorded",
            operator.name_any()
        )),
        Err(error) if !is_unknown_field(&error) => {
            let (name, error) = (operator.name_any(), api_error::chain(&error));
            Err(format!(
                "failed to record the choice of PlatformOperator {name}: {error}; retrying"
            ))
        }
        _ => Ok(()),
    }
}

/// Assesses the effect of the installed bundle on an upgrade of the cluster.
fn verdict(
    shared: &Shared,
    facts: &Facts,
    operator: &PlatformOperator,
    instance: &BundleInstance,
) -> Option<upgradeable::UpgradeAssessment> {
    let catalogs = &shared.ctx.catalogs;
    let mut maxima = MaxOpenShiftVersions::new();
    if let Some(identity) = upgradeable::identity(instance)
        && let Some(maximum) =
            catalogs.effective_maximum(&identity.package, &identity.bundle, &identity.digest)
    {
        maxima.insert(identity.key(), maximum);
    }
    let instance = ObservedInstance::new(instance);
    let mut assessed = InstalledOperator::of_instance(&instance, &maxima)?;
    if let ClusterKind::OpenShift(Ok(release)) = &facts.cluster
        && assessed.blocks(*release)
    {
        let running = (*release, facts.kubernetes.as_ref().ok());
        assessed.remedy = removed_apis::remedy(&instance, Some(operator), catalogs, running);
    }
    Some(upgradeable::assess(&facts.cluster, [&assessed], &[]))
}

async fn report(
    operator: &PlatformOperator,
    shared: &Shared,
    plan: &OperatorPlan,
    status: &PlatformOperatorStatus,
) -> Result<(), Error> {
    let name = operator.name_any();
    // With a choice, the record is written already.
    if let (Some(keep), false) = (plan.keep, matches!(plan.act, InstanceAction::Apply(_))) {
        let annotations = BTreeMap::from([(labels::APPROVED_MINORS, keep.to_string())]);
        let written = annotate(operator, shared, annotations).await;
        written.map_err(failed_to("record the retained minor versions", operator))?;
    }
    let before = operator.status.clone().unwrap_or_default();
    if *status == before || shared.is_status_written(operator, status) {
        return Ok(());
    }
    let written = match write(operator, shared, status).await {
        Err(error) if is_unknown_field(&error) => {
            write(operator, shared, &openshift_status(status)).await
        }
        other => other,
    };
    let written = written.map_err(failed_to("write the status", operator))?;
    let Some(written) = written else {
        return Ok(());
    };
    shared.record_status(&name, status, written.status.as_ref());
    let find =
        |status: &PlatformOperatorStatus| condition::find(&status.conditions, INSTALLED).cloned();
    let (was, is) = (find(&before), find(status));
    if let Some(is) = is
        && was.is_none_or(|was| (was.status, was.reason) != (is.status.clone(), is.reason.clone()))
    {
        let is_waiting = [reason::UNPACK_PENDING, reason::INSTALL_PENDING].contains(&&*is.reason);
        let type_ = if is.status == "True" || is_waiting {
            EventType::Normal
        } else {
            EventType::Warning
        };
        publish_event(operator, shared, type_, &is.reason, &is.message).await;
    }
    Ok(())
}

/// Writes the status, and returns the object; `None` if it was deleted.
async fn write(
    operator: &PlatformOperator,
    shared: &Shared,
    status: &PlatformOperatorStatus,
) -> Result<Option<PlatformOperator>, kube::Error> {
    let api = Api::<PlatformOperator>::all(shared.ctx.client.clone());
    let version = shared.versions.newest_version(operator);
    let mut status = status.clone();
    let written = apply::status::apply(&api, operator, version, &mut status, |_, _| {}).await?;
    if let Some(written) = &written {
        shared.versions.note(written);
    }
    Ok(written)
}

/// Reports whether the CRD lacks a field. Such fields are dropped from objects, but an apply with one is rejected.
fn is_unknown_field(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.message.contains("field not declared in schema"))
}

/// Returns the fields of a status that OpenShift's own CRD has.
fn openshift_status(status: &PlatformOperatorStatus) -> PlatformOperatorStatus {
    PlatformOperatorStatus {
        conditions: status.conditions.clone(),
        active_bundle_deployment: status.active_bundle_deployment.clone(),
        ..PlatformOperatorStatus::default()
    }
}

async fn publish_event(
    operator: &PlatformOperator,
    shared: &Shared,
    type_: EventType,
    reason: &str,
    note: &str,
) {
    let about: ObjectReference = operator.object_ref(&());
    let events = &shared.ctx.events;
    events
        .publish(&about, type_, reason, "Reconcile", note)
        .await;
}

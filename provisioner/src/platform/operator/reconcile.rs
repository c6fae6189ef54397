//! One look at a PlatformOperator: fetch, decide, do, report.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{controller::Action, events::EventType},
};
use manifests::{
    api::{
        bounds,
        condition::INSTALLED,
        instance::BundleInstance,
        labels,
        platform::{PlatformOperator, PlatformOperatorStatus, reason},
    },
    openshift,
};
use serde_json::json;
use tracing::{Instrument as _, info, info_span, warn};

use super::{
    Shared,
    declare::{self, MANAGER},
    fit,
    here::{self, Chosen},
    instances::Named,
    plan::{self, Act, Bounds, Gains, Input, Plan},
    record, rights,
    status::{self, Found},
};
use crate::{
    catalogs::maxima::Maxima,
    metrics::Controller,
    platform::{
        conflict,
        gate::{self, Cluster, Operator},
        upgrade,
    },
};
use apply::backoff::spread;

/// What could not be done, after which it is tried again soon.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("failed to {what} of PlatformOperator {name}")]
    Kube {
        what: &'static str,
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// What of the cluster counts.
struct Facts {
    openshift: Result<Option<Bounds>, String>,
    kubernetes: Result<manifests::version::Version, String>,
    cluster: Cluster,
}

pub(super) async fn reconcile(
    operator: Arc<PlatformOperator>,
    shared: Arc<Shared>,
) -> Result<Action, Error> {
    let name = operator.name_any();
    let span = info_span!("platform operator", %name);
    let metrics = &shared.ctx.metrics;
    metrics.queue(Controller::Platform).begun(&name);
    let _measure = metrics.reconcile(Controller::Platform);
    look(&operator, &shared).instrument(span).await
}

/// After an error of the reconcile itself: soon, and then ever more slowly.
#[expect(clippy::needless_pass_by_value)] // kube's signature
pub(super) fn failed(
    operator: Arc<PlatformOperator>,
    error: &Error,
    shared: Arc<Shared>,
) -> Action {
    let name = operator.name_any();
    let error = unpacker::job::chain(error);
    warn!(
        operator = name,
        error, "could not be finished; it is tried again"
    );
    shared.ctx.metrics.failed(
        Controller::Platform,
        manifests::api::condition::reason::RECONCILE_FAILED,
    );
    Action::requeue(shared.again(&operator))
}

async fn look(operator: &PlatformOperator, shared: &Shared) -> Result<Action, Error> {
    // The garbage collector removes what it has.
    if operator.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let ctx = &shared.ctx;
    let named = shared.instances.named(operator).await;
    let named = named.map_err(failed_to("look at the BundleInstance", operator))?;
    let live;
    let operator = if let Named::Nothing = named {
        // The cache may be older than the choice that was recorded last.
        live = read(operator, shared).await?;
        match &live {
            Some(live) => live,
            None => return Ok(Action::await_change()),
        }
    } else {
        operator
    };
    let ours = named.there().ours();
    let all = shared.operators.state();
    let managed = shared.olm.managed();
    let unknown = shared.olm.unknown();
    // A package stays with the operator that had it while the BundleInstance is created again.
    let held = |it: &PlatformOperator| shared.instances.package(it).or_else(|| record::package(it));
    let all = all.iter().map(AsRef::as_ref);
    let conflict = conflict::of(operator, all, held, &managed);
    let facts = facts(shared).await;
    let only = plan::asked_catalog(operator, ours);
    let package = &operator.spec.package.name;
    let offers = ctx.catalogs.offers(package, only.as_ref());
    let offered = offers.list();
    let are_listed = ctx.catalogs.are_listed();
    let mut gains: Vec<Gains> = Vec::new();
    let mut unseen = None;
    // The rights of a new minor version, and of a patch that goes on meanwhile.
    let plan = loop {
        let plan = plan::plan(&Input {
            operator,
            conflict: conflict.clone(),
            there: named.there(),
            offers: are_listed.then_some(offered.as_slice()),
            openshift: facts.openshift.as_ref().copied().map_err(String::as_str),
            kubernetes: facts.kubernetes.as_ref().map_err(String::as_str),
            olm: unknown.as_deref(),
            gains: &gains,
        });
        let (Act::Look { image, class }, Some(instance)) = (&plan.act, ours) else {
            break plan;
        };
        let looked = Box::pin(rights::gains(shared, operator, instance, image, *class)).await;
        let (looked_at, rights) = match looked {
            Ok(looked) => (looked.image, Ok(looked.rights)),
            // Whoever cannot be looked at waits; what does not wait for it goes on.
            Err(unknown) => {
                let text = format!("the rights of {image} are not known: {}", unknown.why);
                unseen = Some((text, unknown.wait));
                (image.clone(), Err(unknown.why))
            }
        };
        gains.push(Gains {
            image: image.clone(),
            looked_at,
            rights,
        });
    };
    let applied = act(operator, shared, ours, &plan).await;
    // While something else fails, too, that decides.
    let wait = applied.is_ok().then_some(unseen.as_ref()).flatten();
    let wait = wait.and_then(|(_, wait)| *wait);
    let failure = unseen.map(|(text, _)| text).or(applied.err());
    let verdict = ours.and_then(|it| verdict(shared, &facts, operator, it));
    let states: Vec<_> = offers.states().collect();
    let found = Found {
        plan: &plan,
        instance: ours,
        failure: failure.as_deref(),
        catalogs: are_listed.then_some(states.as_slice()),
        verdict: verdict.as_ref(),
    };
    let mut status = status::of(operator, &found, (ctx.now)());
    shared.recall(&operator.name_any(), &mut status);
    report(operator, shared, &plan, &status).await?;
    if failure.is_some() {
        return Ok(Action::requeue(
            wait.unwrap_or_else(|| shared.again(operator)),
        ));
    }
    shared.failures.forget(&operator.uid().unwrap_or_default());
    Ok(Action::requeue(spread(ctx.settings.resync)))
}

/// Reads an operator from the API server; `None` if the operator is deleted.
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
    let kubernetes = kubernetes.map_err(|error| unpacker::job::chain(&error));
    let (bounds, cluster) = match versions.openshift().await {
        Err(error) => {
            let why = error.to_string();
            (Err(why.clone()), Cluster::OpenShift(Err(why)))
        }
        Ok(None) => (Ok(None), Cluster::Kubernetes),
        Ok(Some(cluster)) => {
            let completed = cluster.completed().map_err(str::to_owned);
            let bounds = match (&completed, cluster.highest()) {
                (Ok(completed), Some(highest)) => Ok(Some(Bounds {
                    completed: *completed,
                    highest,
                })),
                (Err(why), _) => Err(why.clone()),
                (Ok(_), None) => Err("it names no version".to_owned()),
            };
            // The gate is about the release that the payload is of.
            let gate = versions.release().map(openshift::Cluster::of_release);
            let gate = gate.map(|it| it.completed().map_err(str::to_owned));
            (bounds, Cluster::OpenShift(gate.unwrap_or(completed)))
        }
    };
    Facts {
        openshift: bounds,
        kubernetes,
        cluster,
    }
}

/// Brings the BundleInstance about; or why that failed.
async fn act(
    operator: &PlatformOperator,
    shared: &Shared,
    instance: Option<&BundleInstance>,
    plan: &Plan,
) -> Result<(), String> {
    let chosen = match &plan.act {
        Act::Have(chosen) => Some(chosen.as_ref().clone()),
        Act::Look { .. } | Act::Refuse { .. } | Act::Leave => None,
    };
    let Some(chosen) = chosen else {
        return Ok(());
    };
    record_annotations(operator, shared, plan, &chosen).await?;
    let mut wanted = declare::instance(operator, &chosen);
    if let Some(instance) = instance {
        if declare::is_declared(instance, &wanted) {
            return Ok(());
        }
        // Whoever decided from something older is told so, instead of turning it back.
        declare::only_over(&mut wanted, instance);
    }
    record_status(operator, shared, &chosen).await?;
    let name = operator.name_any();
    let api = Api::<BundleInstance>::all(shared.ctx.client.clone());
    // Only what is this operator's is taken from others; one that somebody makes at this moment is not.
    let params = PatchParams {
        force: instance.is_some(),
        ..PatchParams::apply(MANAGER)
    };
    match api.patch(&name, &params, &Patch::Apply(&wanted)).await {
        Ok(_) => {
            info!(bundle = %chosen.bundle.name, catalog = %chosen.bundle.catalog, "declared");
            let was = instance.and_then(|it| here::of(it).chosen);
            if was.map(|it| it.bundle.name).as_ref() != Some(&chosen.bundle.name) {
                let note = format!(
                    "chose {} {} from catalog {}, channel {}",
                    chosen.bundle.name,
                    chosen.bundle.version,
                    chosen.bundle.catalog,
                    chosen.bundle.channel
                );
                tell(operator, shared, EventType::Normal, "BundleChosen", &note).await;
            }
            Ok(())
        }
        // It has changed since, and will be looked at again for that.
        Err(kube::Error::Api(status)) if status.code == 409 && instance.is_some() => Ok(()),
        Err(error) => Err(format!(
            "BundleInstance {name} cannot be applied: {error}; it is tried again"
        )),
    }
}

/// Writes the annotations that record a choice, before the BundleInstance has the choice; or returns why that failed.
async fn record_annotations(
    operator: &PlatformOperator,
    shared: &Shared,
    plan: &Plan,
    chosen: &Chosen,
) -> Result<(), String> {
    let name = operator.name_any();
    let annotation = record::annotation(chosen).map_err(|problem| {
        let bundle = fit(&chosen.bundle.name, bounds::WORD);
        format!(
            "PlatformOperator {name}: the record of bundle {bundle} {problem}; choose a bundle with shorter names"
        )
    })?;
    let mut annotations = BTreeMap::from([(labels::CHOSEN_BUNDLE, annotation)]);
    annotations.extend(
        plan.keep
            .map(|keep| (labels::KEPT_MINORS, keep.to_string())),
    );
    annotate(operator, shared, annotations)
        .await
        .map_err(|error| {
            format!(
                "failed to record the choice of PlatformOperator {name}: {error}; the provisioner tries again"
            )
        })
}

/// Writes those of the annotations that differ.
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

/// Writes a choice into the status, before the BundleInstance has the choice; or returns why that failed. OpenShift's
/// definition has no field for the choice.
async fn record_status(
    operator: &PlatformOperator,
    shared: &Shared,
    chosen: &Chosen,
) -> Result<(), String> {
    let mut status = operator.status.clone().unwrap_or_default();
    let before = status.chosen_bundle.clone();
    status.chosen_bundle = Some(status::told(&chosen.bundle));
    status::recall(&mut status, &operator.status.clone().unwrap_or_default());
    if status.chosen_bundle == before {
        return Ok(());
    }
    match write(operator, shared, &status).await {
        Ok(None) => Err(format!(
            "PlatformOperator {} was deleted while its choice was recorded",
            operator.name_any()
        )),
        Err(error) if !is_unknown_field(&error) => {
            let name = operator.name_any();
            Err(format!(
                "failed to record the choice of PlatformOperator {name}: {error}; the provisioner tries again"
            ))
        }
        _ => Ok(()),
    }
}

/// What the installed bundle means for an upgrade of the cluster.
fn verdict(
    shared: &Shared,
    facts: &Facts,
    operator: &PlatformOperator,
    instance: &BundleInstance,
) -> Option<gate::Verdict> {
    let catalogs = &shared.ctx.catalogs;
    let mut maxima = Maxima::new();
    if let Some(it) = gate::identity(instance)
        && let Some(said) = catalogs.maximum(&it.package, &it.bundle, &it.digest)
    {
        maxima.insert(it.key(), said);
    }
    let mut of = Operator::of_instance(instance, &maxima)?;
    if let Cluster::OpenShift(Ok(release)) = &facts.cluster
        && of.blocks(*release)
    {
        let running = (*release, facts.kubernetes.as_ref().ok());
        of.remedy = upgrade::remedy(instance, Some(operator), catalogs, running);
    }
    Some(gate::judge(&facts.cluster, [&of], &[]))
}

async fn report(
    operator: &PlatformOperator,
    shared: &Shared,
    plan: &Plan,
    status: &PlatformOperatorStatus,
) -> Result<(), Error> {
    let name = operator.name_any();
    // A choice has written what is kept already.
    if let (Some(keep), false) = (plan.keep, matches!(plan.act, Act::Have(_))) {
        let annotations = BTreeMap::from([(labels::KEPT_MINORS, keep.to_string())]);
        let written = annotate(operator, shared, annotations).await;
        written.map_err(failed_to("write what is kept", operator))?;
    }
    let before = operator.status.clone().unwrap_or_default();
    if *status == before || shared.has_written(operator, status) {
        return Ok(());
    }
    let written = match write(operator, shared, status).await {
        Err(error) if is_unknown_field(&error) => {
            write(operator, shared, &openshifts(status)).await
        }
        other => other,
    };
    let written = written.map_err(failed_to("write the status", operator))?;
    let Some(written) = written else {
        return Ok(());
    };
    shared.wrote(&name, status, written.status.as_ref());
    let find = |status: &PlatformOperatorStatus| {
        let mut conditions = status.conditions.iter();
        conditions.find(|it| it.type_ == INSTALLED).cloned()
    };
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
        tell(operator, shared, type_, &is.reason, &is.message).await;
    }
    Ok(())
}

/// Writes the status; returns the object, `None` if it was deleted.
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

/// Fields that a definition does not know are dropped from objects, but whoever applies some is refused.
fn is_unknown_field(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.message.contains("field not declared in schema"))
}

/// What OpenShift's own definition knows of a status.
fn openshifts(status: &PlatformOperatorStatus) -> PlatformOperatorStatus {
    PlatformOperatorStatus {
        conditions: status.conditions.clone(),
        active_bundle_deployment: status.active_bundle_deployment.clone(),
        ..PlatformOperatorStatus::default()
    }
}

async fn tell(
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

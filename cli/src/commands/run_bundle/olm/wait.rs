//! Waiting for OLM: until it is connected to a catalog, and until it has installed a version.

use std::{iter, time::Duration};

use anyhow::bail;
use manifests::api::{
    catalog_source::CatalogSource,
    olm::{ClusterServiceVersion, InstallPlan, Subscription},
};

use super::{
    api::{Olm, changes, wait_for},
    approval::{pending_approvals, refusal},
    progress::{self, NextStep, OlmState, PriorFailures, StallCheck},
    replacement,
    unpack_failures::UnpackFailures,
};
use crate::{
    commands::run_bundle::{RunContext, diagnostics},
    output::{message, progress as line},
};

/// Timeout for the connection of OLM to a catalog. OLM reports the connection late, so the command continues without
/// the report.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until OLM is connected to a catalog at its address, at most for [`CONNECT_TIMEOUT`].
pub(super) async fn wait_connected(
    task: &RunContext<'_>,
    namespace: &str,
    name: &str,
    address: &str,
) -> anyhow::Result<()> {
    let olm = Olm(task.cluster);
    let changes = changes(olm.api::<CatalogSource>(namespace), name);
    let deadline = task.deadline.sooner(CONNECT_TIMEOUT);
    let mut last = String::new();
    let connected = wait_for([changes], deadline, async || {
        let source = olm.find::<CatalogSource>(namespace, name).await?;
        let state = source.and_then(|source| source.status?.connection_state);
        let state = state.unwrap_or_default();
        last = state.last_observed_state;
        line::display(&format!("CatalogSource {name}: {last}"));
        Ok((state.address.as_deref() == Some(address) && last == "READY").then_some(()))
    });
    if connected.await?.is_none() {
        message::note(&format!(
            "OLM does not report a connection to CatalogSource {name} yet ({last}); continuing"
        ));
    }
    Ok(())
}

/// Version whose installation the command waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitTarget<'a> {
    pub(super) namespace: &'a str,
    pub(super) subscription: &'a str,
    /// Name of the ClusterServiceVersion.
    pub(super) csv: &'a str,
    /// Image of its bundle as the catalog records it.
    pub(super) image: &'a str,
    /// Namespace of the catalog.
    pub(super) source_namespace: &'a str,
    /// Failures from before the first change.
    pub(super) before: &'a PriorFailures,
}

// === impl WaitTarget ===

impl<'a> WaitTarget<'a> {
    /// Returns the namespaces whose objects may explain why a version is not installed. The one of the catalog has the
    /// catalog's pod, and the Jobs that unpack bundles.
    fn diagnosed(&self) -> impl Iterator<Item = &'a str> {
        let of_catalog = Some(self.source_namespace).filter(|source| *source != self.namespace);
        iter::once(self.namespace).chain(of_catalog)
    }
}

/// Approves the InstallPlans of OLM until a version is installed.
///
/// # Errors
/// Returns an error with the cause if the version is not installed. Diagnostics of the cluster are printed before.
pub(super) async fn wait_installed(
    task: &RunContext<'_>,
    target: WaitTarget<'_>,
) -> anyhow::Result<()> {
    let olm = Olm(task.cluster);
    let WaitTarget {
        namespace,
        subscription,
        csv,
        before,
        ..
    } = target;
    let watched = [
        changes(olm.api::<Subscription>(namespace), subscription),
        olm.changes::<InstallPlan>(namespace),
        // Changes of the replaced version matter as well.
        olm.changes::<ClusterServiceVersion>(namespace),
    ];
    message::note(&format!(
        "Waiting for ClusterServiceVersion {csv:?} to reach 'Succeeded' phase"
    ));
    let mut last = "a response of the API server".to_owned();
    let mut remedy = None;
    let ended = wait_for(watched, task.deadline, async || {
        let object: Option<Subscription> = olm.find(namespace, subscription).await?;
        let Some(object) = object else {
            return Ok(Some(Err(format!(
                "Subscription {subscription} was deleted by another client"
            ))));
        };
        let named = object.install_plan();
        let plan = named.unwrap_or_default();
        let plan: Option<InstallPlan> = olm.find(namespace, plan).await?;
        let found: Option<ClusterServiceVersion> = olm.find(namespace, csv).await?;
        if named.is_some() && plan.is_none() {
            let check = StallCheck::read(olm, namespace, csv, &object, None);
            if let Some(reason) = check.await?.stall_reason() {
                return Ok(Some(Err(reason)));
            }
        }
        let source_namespace = target.source_namespace;
        let failed_unpack = UnpackFailures::read(olm, namespace, source_namespace, &object).await?;
        let replaced_csv =
            replacement::replaced_csv(olm, namespace, (csv, found.as_ref()), &object).await?;
        remedy = replaced_csv.as_ref().map(|csv| csv.remedy(&object));
        let next = progress::next(OlmState {
            target: csv,
            subscription: &object,
            plan: plan.as_ref(),
            before,
            image: target.image,
            failed_unpack: &failed_unpack,
            csv: found.as_ref(),
            replaced_csv: replaced_csv.as_ref(),
        });
        Ok(match next {
            NextStep::Done => Some(Ok(())),
            NextStep::Failed(reason) => Some(Err(reason)),
            NextStep::Wait(event) => {
                line::display(&format!(
                    "{subscription}: waiting for {}",
                    event.replace('\n', " ")
                ));
                last = event;
                None
            }
            NextStep::Approve(name) => {
                let refused = approve(olm, target, &name, plan.as_ref()).await?;
                refused.map(Err)
            }
        })
    });
    let reason = match ended.await? {
        Some(Ok(())) => return Ok(()),
        Some(Err(reason)) => reason,
        None => {
            let remedy = remedy.map_or_else(String::new, |remedy| {
                format!("; wait until it succeeds, or, if it never does, {remedy}")
            });
            format!(
                "timed out after {:?}: {csv:?} is not installed; waiting for {last}{remedy}",
                task.deadline.timeout
            )
        }
    };
    for namespace in target.diagnosed() {
        diagnostics::print_namespace(task.cluster, namespace).await;
    }
    bail!("error waiting for CSV to install: {reason}")
}

/// Approves a plan, or returns why not: it would also install versions that other owners have to approve.
async fn approve(
    olm: Olm<'_>,
    target: WaitTarget<'_>,
    name: &str,
    plan: Option<&InstallPlan>,
) -> anyhow::Result<Option<String>> {
    let WaitTarget {
        namespace,
        subscription,
        ..
    } = target;
    let all: Vec<Subscription> = olm.list(namespace).await?;
    let others = plan.map(|plan| pending_approvals(plan, &all, subscription));
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        return Ok(Some(refusal(&others, name, namespace)));
    }
    let patch = serde_json::json!({"spec": {"approved": true}});
    if olm.change::<InstallPlan>(namespace, name, &patch).await? {
        message::note(&format!(
            "Approved InstallPlan {name} for the Subscription: {subscription}"
        ));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_of_operator_and_catalog_are_diagnosed_once() {
        for (source_namespace, expected) in [("tides", &["tides"][..]), ("olm", &["tides", "olm"])]
        {
            let target = WaitTarget {
                namespace: "tides",
                subscription: "tide-sub",
                csv: "tide.v2",
                image: "a.io/tide:2",
                source_namespace,
                before: &PriorFailures::default(),
            };
            assert_eq!(target.diagnosed().collect::<Vec<_>>(), expected);
        }
    }
}

//! InstallPlans in progress of a package that is to be removed.

use anyhow::anyhow;
use manifests::api::olm::{InstallPlan, Subscription};

use super::{
    super::api::{Olm, changes, wait_for},
    subscription, wait_deleted,
};
use crate::{commands::run_bundle::RunContext, output::message};

/// InstallPlan in progress, which would create removed objects again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingInstallPlan {
    name: String,
    /// Whether the plan also installs objects for other Subscriptions.
    is_shared: bool,
}

/// Returns the plans of a package that are in progress.
pub(super) async fn unfinished_plans(
    olm: Olm<'_>,
    namespace: &str,
    package: &str,
) -> anyhow::Result<Vec<PendingInstallPlan>> {
    let subscriptions: Vec<Subscription> = olm.list(namespace).await?;
    let Some(own) = subscription(&subscriptions, namespace, package) else {
        // Plans without a Subscription are removed automatically.
        return Ok(Vec::new());
    };
    let plans: Vec<InstallPlan> = olm.list(namespace).await?;
    Ok(unfinished(&plans, own, &subscriptions))
}

/// Returns the approved plans of a Subscription that are in progress, given all Subscriptions of the namespace.
fn unfinished(
    plans: &[InstallPlan],
    own: &Subscription,
    subscriptions: &[Subscription],
) -> Vec<PendingInstallPlan> {
    let is_of = |plan: &InstallPlan, subscription: &Subscription| {
        let current = subscription.status.current_csv.as_str();
        subscription.install_plan() == Some(plan.name()) || plan.csvs().contains(current)
    };
    let pending = plans
        .iter()
        .filter(|plan| plan.spec.approved && !plan.has_ended() && is_of(plan, own));
    let all = pending.map(|plan| PendingInstallPlan {
        name: plan.name().to_owned(),
        is_shared: subscriptions
            .iter()
            .any(|other| other != own && is_of(plan, other)),
    });
    all.collect()
}

/// Ends a plan: waits for its end if other Subscriptions need the plan, and deletes the plan otherwise.
pub(super) async fn end_plan(
    task: &RunContext<'_>,
    namespace: &str,
    pending: &PendingInstallPlan,
) -> anyhow::Result<()> {
    let (olm, name) = (Olm(task.cluster), &pending.name);
    if !pending.is_shared {
        return wait_deleted::<InstallPlan>(task, namespace, name).await;
    }
    message::note(&format!(
        "Waiting for InstallPlan {name}, which also installs for other Subscriptions"
    ));
    let changes = changes(olm.api::<InstallPlan>(namespace), name);
    let ended = wait_for([changes], task.deadline, async || {
        let plan: Option<InstallPlan> = olm.find(namespace, name).await?;
        Ok(plan.is_none_or(|plan| plan.has_ended()).then_some(()))
    });
    ended.await?.ok_or_else(|| {
        anyhow!(
            "timed out after {:?}: InstallPlan {name}, which would recreate the removed objects and also installs for other \
             Subscriptions, is not complete; nothing was removed; retry when it is complete",
            task.deadline.timeout
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: sdk-35
    #[test]
    fn unfinished_plans_of_the_package_are_found() {
        let plan = |approved: bool, phase: &str, csvs: &[&str]| -> InstallPlan {
            object!({
                "metadata": {"name": "install-1"}, "status": {"phase": phase},
                "spec": {"approved": approved, "clusterServiceVersionNames": csvs},
            })
        };
        let subscription = |name: &str, current: &str, plan: &str| -> Subscription {
            object!({
                "metadata": {"name": name, "namespace": "tides"},
                "status": {"currentCSV": current, "installPlanRef": {"name": plan}},
            })
        };
        let tide = |plan: &str| subscription("tide", "tide.v2", plan);
        let reef = subscription("reef", "reef.v1", "install-1");
        let installing = |names: &[&str]| plan(true, "Installing", names);
        for (own, others, plan, expected) in ::tests::rows![
            tide("install-1"), vec![], installing(&[]) => vec![false];
            tide(""), vec![], installing(&["tide.v2"]) => vec![false];
            // OLM sets the phase after it creates the plan.
            tide("install-1"), vec![], plan(true, "", &[]) => vec![false];
            tide("install-1"), vec![reef.clone()], installing(&["tide.v2", "reef.v1"]) => vec![true];
            tide("install-1"), vec![subscription("reef", "reef.v1", "install-0")], installing(&["tide.v2"]) => vec![false];
            // These plans are not in progress for the package.
            tide("install-2"), vec![reef], installing(&["reef.v1"]) => vec![];
            subscription("tide", "", ""), vec![], installing(&[""]) => vec![];
            tide("install-1"), vec![], plan(false, "RequiresApproval", &["tide.v2"]) => vec![];
            tide("install-1"), vec![], plan(true, "Complete", &["tide.v2"]) => vec![];
            tide("install-1"), vec![], plan(true, "Failed", &["tide.v2"]) => vec![];
        ] {
            let all = [others, vec![own.clone()]].concat();
            let found = unfinished(std::slice::from_ref(&plan), &own, &all);
            assert!(found.iter().all(|found| found.name == "install-1"));
            let are_shared: Vec<bool> = found.iter().map(|found| found.is_shared).collect();
            assert_eq!(are_shared, expected, "{own:?} {plan:?}");
        }
    }
}

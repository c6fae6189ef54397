//! What OLM is at when a package is to go.

use anyhow::anyhow;
use manifests::object::{at, text};
use serde_json::Value;

use super::{
    super::{
        api::{Kind, Olm, changes, until},
        approving::csvs,
    },
    gone, named, subscription,
};
use crate::{message, run::Task};

/// An InstallPlan that OLM is at: it would make what has been removed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfinished {
    name: String,
    /// Whether it installs something for others as well.
    is_shared: bool,
}

/// Those of a package.
pub(super) async fn unfinished_plans(
    olm: Olm<'_>,
    namespace: &str,
    package: &str,
) -> anyhow::Result<Vec<Unfinished>> {
    let subscriptions = olm.list(Kind::Subscription, namespace).await?;
    let Some(own) = subscription(&subscriptions, namespace, package) else {
        // Without a Subscription its plans go by themselves.
        return Ok(Vec::new());
    };
    let plans = olm.list(Kind::InstallPlan, namespace).await?;
    Ok(unfinished(&plans, own, &subscriptions))
}

/// The plans of a Subscription that were approved and go on, given all Subscriptions of the namespace.
fn unfinished(plans: &[Value], own: &Value, subscriptions: &[Value]) -> Vec<Unfinished> {
    fn is_of(plan: &Value, subscription: &Value) -> bool {
        let status = |path: &[&str]| text(subscription, path).filter(|it| !it.is_empty());
        let current = status(&["status", "currentCSV"]);
        status(&["status", "installPlanRef", "name"]) == Some(named(plan))
            || current.is_some_and(|it| csvs(plan).contains(it))
    }
    let goes_on = |plan: &&Value| {
        let phase = text(plan, &["status", "phase"]).unwrap_or_default();
        let is_approved = at(plan, &["spec", "approved"]) == Some(&Value::Bool(true));
        is_approved && !matches!(phase, "Complete" | "Failed")
    };
    let going = plans.iter().filter(goes_on).filter(|it| is_of(it, own));
    let all = going.map(|plan| Unfinished {
        name: named(plan).to_owned(),
        is_shared: subscriptions
            .iter()
            .any(|it| named(it) != named(own) && is_of(plan, it)),
    });
    all.collect()
}

/// Has a plan end: what others wait for too is waited for, and the rest is deleted.
pub(super) async fn settle(
    task: &Task<'_>,
    namespace: &str,
    install: &Unfinished,
) -> anyhow::Result<()> {
    let (olm, kind, name) = (Olm(task.cluster), Kind::InstallPlan, &install.name);
    if !install.is_shared {
        return gone(task, kind, namespace, name).await;
    }
    message::note(&format!(
        "Waiting for InstallPlan {name}, which installs for other Subscriptions as well"
    ));
    let changes = changes(olm.of(kind, namespace), name);
    let ended = until([changes], task.deadline, async || {
        let plan = olm.find(kind, namespace, name).await?;
        let phase = plan.as_ref().map(|it| text(it, &["status", "phase"]));
        let goes_on = phase.is_some_and(|it| !matches!(it, Some("Complete" | "Failed")));
        Ok((!goes_on).then_some(()))
    });
    ended.await?.ok_or_else(|| {
        anyhow!(
            "InstallPlan {name} would make again what is removed, and installs for other Subscriptions as well: it was not done within \
             {:?}; nothing was removed; try again when it is",
            task.deadline.timeout
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: sdk-35
    #[test]
    fn plans_that_go_on_are_ended_first() {
        let plan = |name: &str, approved: bool, phase: &str, csvs: &[&str]| {
            json!({
                "metadata": {"name": name}, "status": {"phase": phase},
                "spec": {"approved": approved, "clusterServiceVersionNames": csvs},
            })
        };
        let subscription = |name: &str, current: &str, plan: &str| {
            json!({
                "metadata": {"name": name, "namespace": "tides"},
                "status": {"currentCSV": current, "installPlanRef": {"name": plan}},
            })
        };
        let tide = |plan: &str| subscription("tide", "tide.v2", plan);
        let reef = subscription("reef", "reef.v1", "install-1");
        let going = |names: &[&str]| plan("install-1", true, "Installing", names);
        for (own, others, plan, expected) in ::tests::rows![
            tide("install-1"), vec![], going(&[]) => Some(false);
            tide(""), vec![], going(&["tide.v2"]) => Some(false);
            // It is said after it is made.
            tide("install-1"), vec![], plan("install-1", true, "", &[]) => Some(false);
            tide("install-1"), vec![reef.clone()], going(&["tide.v2", "reef.v1"]) => Some(true);
            tide("install-1"), vec![subscription("reef", "reef.v1", "install-0")], going(&["tide.v2"]) => Some(false);
            // Nobody is at these.
            tide("install-2"), vec![reef], going(&["reef.v1"]) => None;
            subscription("tide", "", ""), vec![], going(&[""]) => None;
            tide("install-1"), vec![], plan("install-1", false, "RequiresApproval", &["tide.v2"]) => None;
            tide("install-1"), vec![], plan("install-1", true, "Complete", &["tide.v2"]) => None;
            tide("install-1"), vec![], plan("install-1", true, "Failed", &["tide.v2"]) => None;
        ] {
            let mut all = others;
            all.push(own.clone());
            let found = unfinished(std::slice::from_ref(&plan), &own, &all);
            let expected = expected.map(|is_shared| Unfinished {
                name: "install-1".to_owned(),
                is_shared,
            });
            assert_eq!(
                found,
                expected.into_iter().collect::<Vec<_>>(),
                "{own} {plan}"
            );
        }
    }
}

//! Waiting for OLM: until it talks to a catalog, and until it has installed a version.

use std::{iter, time::Duration};

use anyhow::bail;
use manifests::object::text;
use serde_json::Value;

use super::{
    api::{Kind, Olm, changes, until},
    approving::{others, refusal},
    progress::{self, Earlier, Halt, Next, Seen},
    replacing,
    unpacking::{self, GivenUp},
};
use crate::{
    message, progress as line,
    run::{Task, diagnosis},
};

/// How long OLM may take to talk to a catalog before its word is no longer waited for: it tells late.
const CONNECT: Duration = Duration::from_secs(30);

/// Waits until OLM talks to a catalog at its address, and not too long.
pub(super) async fn connected(
    task: &Task<'_>,
    namespace: &str,
    name: &str,
    address: &str,
) -> anyhow::Result<()> {
    let olm = Olm(task.cluster);
    let changes = changes(olm.of(Kind::CatalogSource, namespace), name);
    let deadline = task.deadline.sooner(CONNECT);
    let mut last = String::new();
    let connected = until([changes], deadline, async || {
        let source = olm
            .find(Kind::CatalogSource, namespace, name)
            .await?
            .unwrap_or_default();
        let state = |key| text(&source, &["status", "connectionState", key]).unwrap_or_default();
        state("lastObservedState").clone_into(&mut last);
        line::show(&format!("CatalogSource {name}: {last}"));
        Ok((state("address") == address && last == "READY").then_some(()))
    });
    if connected.await?.is_none() {
        message::note(&format!(
            "OLM does not say yet that it is connected to CatalogSource {name} ({last}); going on"
        ));
    }
    Ok(())
}

/// What is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) namespace: &'a str,
    pub(super) subscription: &'a str,
    /// A ClusterServiceVersion.
    pub(super) csv: &'a str,
    /// Its bundle's image, as the catalog has it.
    pub(super) image: &'a str,
    /// That of the catalog.
    pub(super) source_namespace: &'a str,
    /// What was the matter before anything was changed.
    pub(super) before: &'a Earlier,
}

// === impl Wanted ===

impl<'a> Wanted<'a> {
    /// Returns the namespaces whose objects may tell why a version is not installed. That of the catalog has the catalog's pod,
    /// and the Jobs that unpack bundles.
    fn diagnosed(&self) -> impl Iterator<Item = &'a str> {
        let of_catalog = Some(self.source_namespace).filter(|source| *source != self.namespace);
        iter::once(self.namespace).chain(of_catalog)
    }
}

/// Approves what OLM plans until a version is installed.
///
/// # Errors
/// When it is not, with what keeps it; what may be the matter in the cluster is told before.
pub(super) async fn follow(task: &Task<'_>, wanted: Wanted<'_>) -> anyhow::Result<()> {
    let olm = Olm(task.cluster);
    let Wanted {
        namespace,
        subscription,
        csv,
        before,
        ..
    } = wanted;
    let watched = [
        changes(olm.of(Kind::Subscription, namespace), subscription),
        olm.changes(Kind::InstallPlan, namespace),
        // That which it replaces counts as well.
        olm.changes(Kind::ClusterServiceVersion, namespace),
    ];
    message::note(&format!(
        "Waiting for ClusterServiceVersion {csv:?} to reach 'Succeeded' phase"
    ));
    let mut last = "an answer of the server".to_owned();
    let mut remedy = None;
    let ended = until(watched, task.deadline, async || {
        let object = olm
            .find(Kind::Subscription, namespace, subscription)
            .await?;
        let Some(object) = object else {
            return Ok(Some(Err(format!(
                "somebody has deleted Subscription {subscription} in the meantime"
            ))));
        };
        let named = progress::plan_of(&object);
        let plan = match named {
            Some(plan) => olm.find(Kind::InstallPlan, namespace, plan).await?,
            None => None,
        };
        let found = olm
            .find(Kind::ClusterServiceVersion, namespace, csv)
            .await?;
        if named.is_some()
            && plan.is_none()
            && let Some(why) = gone(olm, namespace, csv, &object).await?
        {
            return Ok(Some(Err(why)));
        }
        let given_up = if progress::has_not_unpacked(&object) {
            let groups = olm.list(Kind::OperatorGroup, namespace).await;
            let failed = unpacking::failed(task.cluster, wanted.source_namespace).await?;
            progress::given_up(&object, &groups.unwrap_or_default(), failed)
        } else {
            GivenUp::Nothing
        };
        let former = replacing::former(olm, namespace, (csv, found.as_ref()), &object).await?;
        remedy = former.as_ref().map(|it| it.remedy(&object));
        let next = progress::next(Seen {
            target: csv,
            subscription: &object,
            plan: plan.as_ref(),
            before,
            image: wanted.image,
            given_up: &given_up,
            csv: found.as_ref(),
            former: former.as_ref(),
        });
        Ok(match next {
            Next::Done => Some(Ok(())),
            Next::Failed(why) => Some(Err(why)),
            Next::Wait(what) => {
                line::show(&format!(
                    "{subscription}: waiting for {}",
                    what.replace('\n', " ")
                ));
                last = what;
                None
            }
            Next::Approve(name) => {
                let refused = approve(olm, wanted, &name, plan.as_ref()).await?;
                refused.map(Err)
            }
        })
    });
    let why = match ended.await? {
        Some(Ok(())) => return Ok(()),
        Some(Err(why)) => why,
        None => {
            let remedy = remedy.map_or_else(String::new, |it| {
                format!(": wait until it has, or, if it never does, {it}")
            });
            format!(
                "{csv:?} is not installed after {:?}; it waits for {last}{remedy}",
                task.deadline.timeout
            )
        }
    };
    for namespace in wanted.diagnosed() {
        diagnosis::tell_namespace(task.cluster, namespace).await;
    }
    bail!("error waiting for CSV to install: {why}")
}

/// Approves a plan, or says why not: it would also install what somebody keeps for approval.
async fn approve(
    olm: Olm<'_>,
    wanted: Wanted<'_>,
    name: &str,
    plan: Option<&Value>,
) -> anyhow::Result<Option<String>> {
    let Wanted {
        namespace,
        subscription,
        ..
    } = wanted;
    let all = olm.list(Kind::Subscription, namespace).await?;
    let others = plan.map(|it| others(it, &all, subscription));
    if let Some(others) = others.filter(|it| !it.is_empty()) {
        return Ok(Some(refusal(&others, name, namespace)));
    }
    let patch = serde_json::json!({"spec": {"approved": true}});
    olm.change(Kind::InstallPlan, namespace, name, &patch)
        .await?;
    message::note(&format!(
        "Approved InstallPlan {name} for the Subscription: {subscription}"
    ));
    Ok(None)
}

/// Why OLM does not go on where nobody finds the plan that a Subscription names.
async fn gone(
    olm: Olm<'_>,
    namespace: &str,
    csv: &str,
    subscription: &Value,
) -> anyhow::Result<Option<String>> {
    let has_current = has_current(olm, namespace, subscription).await?;
    let all = olm.list(Kind::Subscription, namespace).await?;
    let halt = Halt {
        target: csv,
        subscription,
        plan: None,
        has_current,
        all: &all,
        groups: &[],
    };
    Ok(halt.stuck())
}

/// Whether the version is there that OLM is at, or on its way to.
pub(super) async fn has_current(
    olm: Olm<'_>,
    namespace: &str,
    subscription: &Value,
) -> anyhow::Result<bool> {
    let current = text(subscription, &["status", "currentCSV"]).filter(|it| !it.is_empty());
    let Some(current) = current else {
        return Ok(false);
    };
    let found = olm.find(Kind::ClusterServiceVersion, namespace, current);
    Ok(found.await?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_of_operator_and_catalog_are_diagnosed_once() {
        for (source_namespace, expected) in [("tides", &["tides"][..]), ("olm", &["tides", "olm"])]
        {
            let wanted = Wanted {
                namespace: "tides",
                subscription: "tide-sub",
                csv: "tide.v2",
                image: "a.io/tide:2",
                source_namespace,
                before: &Earlier::default(),
            };
            assert_eq!(wanted.diagnosed().collect::<Vec<_>>(), expected);
        }
    }
}

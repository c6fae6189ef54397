//! `rukpak cleanup` with OLM: deletes the installed objects of a package, and its catalog.

mod pending_plans;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, anyhow};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use manifests::object::{get_path, text};
use serde_json::Value;

use self::pending_plans::{unfinished_plans, wait_or_fail};
use super::{
    api::{Kind, Olm, changes, wait_for},
    namespace, objects, operator_group,
};
use crate::{
    ExitStatus,
    args::CleanupArgs,
    cluster::Cluster,
    commands::run_bundle::{RunContext, command},
    output,
    output::message,
};

/// Objects of a package that are to be deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct CleanupPlan {
    subscription: Option<String>,
    /// ClusterServiceVersions of the package, including earlier ones that are not replaced yet.
    csvs: BTreeSet<String>,
    /// Name and namespace of the CatalogSource.
    source: Option<(String, String)>,
    /// Reason why the CatalogSource is kept.
    kept_source_reason: Option<String>,
}

pub(in crate::commands::run_bundle) async fn cleanup(
    task: &RunContext<'_>,
    args: &CleanupArgs,
) -> anyhow::Result<ExitStatus> {
    let (olm, deadline, package) = (Olm(task.cluster), task.deadline, &args.package);
    let namespace = namespace(task.cluster, args.namespace.as_deref());
    let lookup = unfinished_plans(olm, namespace, package);
    let unfinished = deadline.read_cluster(lookup).await?;
    if !unfinished.is_empty() {
        task.set_interrupt_message(format!(
            "the objects of package {package:?} are kept; run {} again",
            command(&format!("cleanup {package} --namespace {namespace}"))
        ));
    }
    for install in &unfinished {
        wait_or_fail(task, namespace, install).await?;
    }
    let lookup = read_state(olm, namespace, args);
    let CleanupState {
        plan,
        subscriptions,
        crds,
    } = deadline.read_cluster(lookup).await?;
    if plan == CleanupPlan::default() {
        message::warning(&format!(
            "package {package:?} not found in namespace {namespace}"
        ));
        return Ok(ExitStatus::Done);
    }
    task.set_interrupt_message(format!(
        "some objects were deleted; run {} again to delete the rest",
        command(&format!("cleanup {package} --namespace {namespace}"))
    ));
    if let Some(name) = &plan.subscription {
        delete(task, Kind::Subscription, namespace, name).await?;
        message::note(&format!("subscription {name:?} deleted"));
    }
    let (mut are_crds_deleted, mut is_group_deleted) = (true, true);
    if args.deletes_crds() {
        crds.keep.iter().for_each(|line| message::warning(line));
        for name in &crds.delete {
            are_crds_deleted &= delete_crd(task, name).await?;
        }
    } else {
        message::note("Skipping CRD deletion");
    }
    // All are deleted before the first wait, so that none replaces another one.
    for name in &plan.csvs {
        delete(task, Kind::ClusterServiceVersion, namespace, name).await?;
    }
    for name in &plan.csvs {
        wait_deleted(task, Kind::ClusterServiceVersion, namespace, name).await?;
    }
    let is_last = subscriptions.iter().all(|subscription| {
        text(subscription, &["metadata", "name"]) == plan.subscription.as_deref()
    });
    if !(args.delete_all || args.delete_operator_groups) {
        message::note("Skipping Operator Groups deletion");
    } else if is_last {
        let found = olm.find(Kind::OperatorGroup, namespace, operator_group::NAME);
        let found = deadline.run_to_end("reading the OperatorGroup", found);
        if found.await?.is_some() {
            is_group_deleted = operator_group(task, namespace).await?;
        }
    }
    // The CatalogSource is deleted last, because a later run detects by it that objects remain.
    if let Some((name, source_namespace)) = &plan.source {
        wait_deleted(task, Kind::CatalogSource, source_namespace, name).await?;
    }
    if let Some(reason) = &plan.kept_source_reason {
        message::note(reason);
    }
    output::print(&format!("Operator {package:?} uninstalled\n"))?;
    // Without their flags, CRDs and OperatorGroups are deleted only if the user has the permissions.
    let is_incomplete =
        !are_crds_deleted && args.delete_crds || !is_group_deleted && args.delete_operator_groups;
    Ok(if is_incomplete {
        ExitStatus::Failed
    } else {
        ExitStatus::Done
    })
}

/// State of a package in the cluster.
struct CleanupState {
    plan: CleanupPlan,
    /// Subscriptions of the namespace.
    subscriptions: Vec<Value>,
    crds: OwnedCrds,
}

/// CRDs that a package owns, by decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OwnedCrds {
    delete: BTreeSet<String>,
    /// Reasons why the other CRDs are kept, one per line.
    keep: Vec<String>,
}

/// ClusterServiceVersion that may own the same CRDs as the package.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    namespace: String,
    name: String,
    owns: BTreeSet<String>,
}

impl Owner {
    fn from_csv(csv: &Value) -> Self {
        Self {
            namespace: text(csv, &["metadata", "namespace"])
                .unwrap_or_default()
                .to_owned(),
            name: named(csv).to_owned(),
            owns: objects::owned_crds(csv),
        }
    }
}

/// Reads the state of the namespace. Other namespaces are read only to keep the objects that they need. Missing permissions
/// for that are reported.
async fn read_state(
    olm: Olm<'_>,
    namespace: &str,
    args: &CleanupArgs,
) -> anyhow::Result<CleanupState> {
    let package = &args.package;
    let subscriptions = olm.list(Kind::Subscription, namespace).await?;
    let csvs = olm.list(Kind::ClusterServiceVersion, namespace).await?;
    let own = subscription(&subscriptions, namespace, package);
    let (name, source_namespace) = source_of(own, namespace, package);
    let mut unread = None;
    let source = match olm
        .find(Kind::CatalogSource, &source_namespace, &name)
        .await
    {
        Err(error) if source_namespace != namespace => {
            unread = Some(format!(
                "catalogsource {name:?} in namespace {source_namespace} is kept: {error:#}"
            ));
            None
        }
        found => found?,
    };
    let is_ours = source
        .as_ref()
        .is_some_and(|source| objects::is_made_for(source, package));
    let all_subscriptions = if is_ours {
        olm.list_all_namespaces(Kind::Subscription, |subscription| subscription)
            .await?
            .ok()
    } else {
        Some(Vec::new())
    };
    if all_subscriptions.is_none() {
        message::note(&format!(
            "cannot determine whether other namespaces install from catalogsource {name:?} because you are not allowed to \
             list their Subscriptions"
        ));
    }
    let all = all_subscriptions.filter(|list| !list.is_empty());
    let all = all.as_deref().unwrap_or(&subscriptions);
    let mut plan = plan(all, &csvs, source.as_ref(), namespace, package);
    plan.kept_source_reason = plan.kept_source_reason.or(unread);
    let deleted = csvs.iter().filter(|csv| plan.csvs.contains(named(csv)));
    let owned: BTreeSet<String> = deleted.flat_map(objects::owned_crds).collect();
    let crds = if owned.is_empty() || !args.deletes_crds() {
        OwnedCrds::default()
    } else {
        let owners =
            olm.list_all_namespaces(Kind::ClusterServiceVersion, |csv| Owner::from_csv(&csv));
        let owners = owners.await?;
        let own = |owner: &Owner| owner.namespace == namespace && plan.csvs.contains(&owner.name);
        crds(owned, owners.as_deref(), own, args.delete_crds)
    };
    Ok(CleanupState {
        plan,
        subscriptions,
        crds,
    })
}

/// Decides which CRDs are deleted: those that no other operator owns, not even the same one in another namespace. A user
/// who may not read the owners has to request the deletion, because all custom resources of the cluster are deleted with a
/// CRD.
fn crds(
    owned: BTreeSet<String>,
    owners: Result<&[Owner], &String>,
    is_deleted: impl Fn(&Owner) -> bool,
    is_requested: bool,
) -> OwnedCrds {
    let mut found = OwnedCrds::default();
    for name in owned {
        let prefix =
            format!("customresourcedefinition {name:?} and all of its custom resources are kept: ");
        let owner = owners.map(|all| {
            let mut others = all.iter().filter(|owner| !is_deleted(owner));
            others.find(|owner| owner.owns.contains(&name))
        });
        match owner {
            Ok(None) => drop(found.delete.insert(name)),
            Err(_) if is_requested => drop(found.delete.insert(name)),
            Ok(Some(Owner {
                namespace,
                name: csv,
                ..
            })) => found.keep.push(format!(
                "{prefix}clusterserviceversion {csv:?} in namespace {namespace} also owns it"
            )),
            Err(reason) => found.keep.push(format!(
                "{prefix}cannot determine whether another operator owns it: {reason}; use --delete-crds to delete it anyway"
            )),
        }
    }
    found
}

fn subscription<'a>(all: &'a [Value], namespace: &str, package: &str) -> Option<&'a Value> {
    all.iter().find(|subscription| {
        text(subscription, &["metadata", "namespace"]) == Some(namespace)
            && text(subscription, &["spec", "name"]) == Some(package)
    })
}

fn named(object: &Value) -> &str {
    text(object, &["metadata", "name"]).unwrap_or_default()
}

/// Returns the label that OLM sets on all objects of a package in a namespace, truncated as by OLM.
fn component(package: &str, namespace: &str) -> String {
    let name: String = format!("{package}.{namespace}").chars().take(63).collect();
    let name = name.trim_end_matches(['.', '_', '-']);
    format!("operators.coreos.com/{name}")
}

/// Returns the ClusterServiceVersions of a package: those that its Subscription names or that have its label, and all
/// versions that these replace. An unfinished upgrade leaves several of them. Versions of other Subscriptions are kept,
/// because truncated labels may be equal. Copies are excluded, because they are deleted with their original.
fn csvs(all: &[Value], csvs: &[Value], namespace: &str, package: &str) -> BTreeSet<String> {
    fn status(subscription: &Value) -> impl Iterator<Item = &str> {
        let field = |key| text(subscription, &["status", key]);
        let names = [field("installedCSV"), field("currentCSV")];
        names.into_iter().flatten().filter(|name| !name.is_empty())
    }
    let own = subscription(all, namespace, package);
    let others: BTreeSet<&str> = all
        .iter()
        .filter(|subscription| text(subscription, &["metadata", "namespace"]) == Some(namespace))
        .filter(|subscription| own.is_none_or(|own| *subscription != own))
        .flat_map(status)
        .collect();
    let component = component(package, namespace);
    let label = |csv: &Value, key: &str| get_path(csv, &["metadata", "labels", key]).is_some();
    let candidates: BTreeMap<&str, &Value> = csvs
        .iter()
        .filter(|csv| !label(csv, "olm.copiedFrom") && !others.contains(named(csv)))
        .map(|csv| (named(csv), csv))
        .collect();
    let labeled = candidates.iter().filter(|entry| label(entry.1, &component));
    let mut open: Vec<&str> = labeled.map(|entry| *entry.0).collect();
    open.extend(own.into_iter().flat_map(status));
    let mut found = BTreeSet::new();
    while let Some(name) = open.pop() {
        if let Some(csv) = candidates.get(name)
            && found.insert(name.to_owned())
        {
            open.extend(text(csv, &["spec", "replaces"]));
        }
    }
    found
}

/// Returns the name and namespace of the CatalogSource that a package is from, or would be from.
fn source_of(subscription: Option<&Value>, namespace: &str, package: &str) -> (String, String) {
    let spec = |key| text(subscription?, &["spec", key]).map(str::to_owned);
    let name = spec("source").unwrap_or_else(|| objects::source_name(package));
    (
        name,
        spec("sourceNamespace").unwrap_or_else(|| namespace.to_owned()),
    )
}

/// Returns the objects to be deleted. A catalog that other Subscriptions use, or that was not created for the package, is
/// kept.
fn plan(
    all: &[Value],
    versions: &[Value],
    source: Option<&Value>,
    namespace: &str,
    package: &str,
) -> CleanupPlan {
    let own = subscription(all, namespace, package);
    let mut plan = CleanupPlan {
        subscription: own
            .and_then(|subscription| text(subscription, &["metadata", "name"]))
            .map(str::to_owned),
        csvs: csvs(all, versions, namespace, package),
        ..CleanupPlan::default()
    };
    let Some(source) = source else {
        return plan;
    };
    let (name, source_namespace) = source_of(own, namespace, package);
    let others = all.iter().filter(|subscription| {
        text(subscription, &["spec", "source"]) == Some(&name)
            && text(subscription, &["spec", "sourceNamespace"]) == Some(&source_namespace)
            && text(subscription, &["metadata", "uid"])
                != own.and_then(|own| text(own, &["metadata", "uid"]))
    });
    let reason = match others.count() {
        _ if !objects::is_made_for(source, package) => "not created by \"run bundle\"",
        0 => {
            plan.source = Some((name, source_namespace));
            return plan;
        }
        _ => "other Subscriptions use it",
    };
    if plan.subscription.is_some() {
        plan.kept_source_reason = Some(format!(
            "catalogsource {name:?} in namespace {source_namespace} is kept: {reason}"
        ));
    }
    plan
}

async fn delete(
    task: &RunContext<'_>,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> anyhow::Result<()> {
    let doing = format!("deleting {} {name:?}", kind.name().to_lowercase());
    let deleting = Olm(task.cluster).delete(kind, namespace, name);
    task.deadline.run_to_end(&doing, deleting).await.map(drop)
}

/// Deletes an object and waits until it no longer exists.
async fn wait_deleted(
    task: &RunContext<'_>,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> anyhow::Result<()> {
    let olm = Olm(task.cluster);
    delete(task, kind, namespace, name).await?;
    let kind_name = kind.name().to_lowercase();
    let changes = changes(olm.api(kind, namespace), name);
    let deleted = wait_for([changes], task.deadline, async || {
        Ok(olm
            .find(kind, namespace, name)
            .await?
            .is_none()
            .then_some(()))
    });
    report_deletion(deleted.await, &kind_name, name)
}

/// Deletes the OperatorGroup and waits until it no longer exists. Returns false if it is kept, because OLM lets namespace
/// admins only read it.
async fn operator_group(task: &RunContext<'_>, namespace: &str) -> anyhow::Result<bool> {
    let (olm, kind) = (Olm(task.cluster), Kind::OperatorGroup);
    let (api, params) = (olm.api(kind, namespace), DeleteParams::default());
    let deleting = async { Ok(api.delete(operator_group::NAME, &params).await) };
    let deleted = task
        .deadline
        .run_to_end("deleting the OperatorGroup", deleting);
    if let Err(kube::Error::Api(status)) = deleted.await?
        && status.code == 403
    {
        let doing = format!("operatorgroup {:?} is kept", operator_group::NAME);
        let error = task.cluster.explain(doing, kube::Error::Api(status));
        message::warning(&format!("{error:#}"));
        return Ok(false);
    }
    wait_deleted(task, kind, namespace, operator_group::NAME).await?;
    Ok(true)
}

/// Deletes a CRD with all of its custom resources, and waits until it no longer exists. Returns false if it is kept,
/// because only cluster admins may delete CRDs.
async fn delete_crd(task: &RunContext<'_>, name: &str) -> anyhow::Result<bool> {
    let api: Api<CustomResourceDefinition> = Api::all(task.cluster.client.clone());
    let subject = || format!("customresourcedefinition {name:?}");
    let failed = |error| task.cluster.explain(format!("delete {}", subject()), error);
    let params = DeleteParams::default();
    let deleting = async { Ok(api.delete(name, &params).await) };
    let doing = format!("deleting {}", subject());
    match task.deadline.run_to_end(&doing, deleting).await? {
        Err(error) if Cluster::is_absent(&error) => return Ok(true),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let error = failed(kube::Error::Api(status));
            message::warning(&format!(
                "{} and all of its custom resources are kept: {error:#}",
                subject()
            ));
            return Ok(false);
        }
        deleted => drop(deleted.map_err(failed)?),
    }
    let changes = changes(api.clone(), name);
    let deleted = wait_for([changes], task.deadline, async || {
        Ok(api
            .get_opt(name)
            .await
            .map_err(failed)?
            .is_none()
            .then_some(()))
    });
    report_deletion(deleted.await, "customresourcedefinition", name)?;
    Ok(true)
}

fn report_deletion(
    deleted: anyhow::Result<Option<()>>,
    kind: &str,
    name: &str,
) -> anyhow::Result<()> {
    let waiting = || format!("wait for {kind} {name:?} deleted");
    let timed_out = || anyhow!("timed out; check its finalizers");
    deleted
        .and_then(|deleted| deleted.ok_or_else(timed_out))
        .with_context(waiting)?;
    message::note(&format!("{kind} {name:?} deleted"));
    Ok(())
}

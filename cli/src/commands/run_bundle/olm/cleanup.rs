//! `rukpak cleanup` with OLM: deletes the installed objects of a package, and its catalog.

mod pending_plans;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt::Debug, mem};

use anyhow::{Context, anyhow};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Resource, ResourceExt as _, api::DeleteParams};
use manifests::api::{
    catalog_source::CatalogSource,
    olm::{ClusterServiceVersion, OperatorGroup, Subscription},
    owner::{InstanceOwner, ObjectOwner},
};
use serde::de::DeserializeOwned;

use self::pending_plans::{end_plan, unfinished_plans};
use super::{
    api::{Olm, OlmObject, changes, wait_for},
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
    for plan in &unfinished {
        end_plan(task, namespace, plan).await?;
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
        delete::<Subscription>(task, namespace, name).await?;
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
    // All versions are deleted before the first wait, so that none replaces another one.
    for name in &plan.csvs {
        delete::<ClusterServiceVersion>(task, namespace, name).await?;
    }
    for name in &plan.csvs {
        wait_deleted::<ClusterServiceVersion>(task, namespace, name).await?;
    }
    let is_last = subscriptions
        .iter()
        .all(|subscription| subscription.metadata.name == plan.subscription);
    if !args.deletes_operator_groups() {
        message::note("Skipping Operator Groups deletion");
    } else if is_last {
        let found = olm.find::<OperatorGroup>(namespace, operator_group::NAME);
        let found = deadline.run_to_end("reading the OperatorGroup", found);
        if found.await?.is_some() {
            is_group_deleted = operator_group(task, namespace).await?;
        }
    }
    // The CatalogSource is deleted last, because a later run concludes from the CatalogSource that objects remain.
    if let Some((name, source_namespace)) = &plan.source {
        wait_deleted::<CatalogSource>(task, source_namespace, name).await?;
    }
    if let Some(reason) = &plan.kept_source_reason {
        message::note(reason);
    }
    output::print(&format!("Operator {package:?} uninstalled\n"))?;
    // Without their flags, CRDs and OperatorGroups are deleted only if the user has the permissions.
    let is_incomplete = !are_crds_deleted && args.delete_crds == Some(true)
        || !is_group_deleted && args.delete_operator_groups == Some(true);
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
    subscriptions: Vec<Subscription>,
    crds: OwnedCrds,
}

/// CRDs that a package owns, by decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OwnedCrds {
    delete: BTreeSet<String>,
    /// Reasons why the other CRDs are kept, one per line.
    keep: Vec<String>,
}

/// Reads the state of the namespace. Other namespaces are read only to keep the objects that they need. Missing permissions
/// for that are reported.
async fn read_state(
    olm: Olm<'_>,
    namespace: &str,
    args: &CleanupArgs,
) -> anyhow::Result<CleanupState> {
    let package = &args.package;
    let subscriptions: Vec<Subscription> = olm.list(namespace).await?;
    let csvs: Vec<ClusterServiceVersion> = olm.list(namespace).await?;
    let own = subscription(&subscriptions, namespace, package);
    let (name, source_namespace) = match own.map(|own| &own.spec) {
        Some(spec) => (spec.source.clone(), spec.source_namespace.clone()),
        None => (objects::source_name(package), namespace.to_owned()),
    };
    let mut unread = None;
    let source = match olm.find::<CatalogSource>(&source_namespace, &name).await {
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
    let mut all: Vec<Subscription> = Vec::new();
    if is_ours {
        let listed = olm.list_all_namespaces::<Subscription>().await?;
        all = listed.unwrap_or_else(|_| {
            message::note(&format!(
                "cannot determine whether other namespaces install from catalogsource {name:?} because you are not allowed \
                 to list their Subscriptions"
            ));
            Vec::new()
        });
    }
    let all = if all.is_empty() { &subscriptions } else { &all };
    let mut plan = plan(all, &csvs, source.as_ref(), namespace, package);
    plan.kept_source_reason = plan.kept_source_reason.or(unread);
    let deleted = csvs.iter().filter(|csv| plan.csvs.contains(csv.name()));
    let owned = deleted.flat_map(objects::owned_crds);
    let owned: BTreeSet<String> = owned.map(str::to_owned).collect();
    let crds = if owned.is_empty() || !args.deletes_crds() {
        OwnedCrds::default()
    } else {
        let all = olm.list_all_namespaces::<ClusterServiceVersion>().await?;
        let is_deleted = |csv: &ClusterServiceVersion| {
            csv.metadata.namespace.as_deref() == Some(namespace) && plan.csvs.contains(csv.name())
        };
        let is_requested = args.delete_crds == Some(true);
        let mut found = crds(owned, all.as_deref(), is_deleted, is_requested);
        keep_crds_of_instances(olm.0, &mut found).await?;
        found
    };
    Ok(CleanupState {
        plan,
        subscriptions,
        crds,
    })
}

/// Decides which CRDs are deleted: those that no other operator owns, not even the same operator in another namespace.
/// A user who may not read the owners has to request the deletion, because all custom resources of the cluster are
/// deleted with a CRD.
fn crds(
    owned: BTreeSet<String>,
    csvs: Result<&[ClusterServiceVersion], &String>,
    is_deleted: impl Fn(&ClusterServiceVersion) -> bool,
    is_requested: bool,
) -> OwnedCrds {
    let mut found = OwnedCrds::default();
    for name in owned {
        let prefix = kept_prefix(&name);
        let owner = csvs.map(|all| {
            let mut others = all.iter().filter(|csv| !is_deleted(csv));
            others.find(|csv| objects::owned_crds(csv).any(|owned| owned == name))
        });
        match owner {
            Ok(None) => drop(found.delete.insert(name)),
            Err(_) if is_requested => drop(found.delete.insert(name)),
            Ok(Some(csv)) => {
                let (csv, namespace) = (csv.name(), csv.namespace().unwrap_or_default());
                found.keep.push(format!(
                    "{prefix}clusterserviceversion {csv:?} in namespace {namespace} also owns the CRD"
                ));
            }
            Err(reason) => found.keep.push(format!(
                "{prefix}cannot determine whether another operator owns it: {reason}; use --delete-crds to delete it anyway"
            )),
        }
    }
    found
}

/// Keeps the CRDs that a BundleInstance owns. If the user is not allowed to read a CRD, its owner is unknown and the CRD is
/// deleted.
async fn keep_crds_of_instances(cluster: &Cluster, crds: &mut OwnedCrds) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    // No BundleInstance has an empty name or UID, so that every owner is another instance.
    let no_instance = InstanceOwner {
        name: String::new(),
        uid: String::new(),
    };
    for name in mem::take(&mut crds.delete) {
        let found = match api.get_metadata_opt(&name).await {
            Err(kube::Error::Api(status)) if status.code == 403 => None,
            found => found.map_err(|error| {
                let doing = format!("failed to read CustomResourceDefinition {name}");
                cluster.explain(doing, error)
            })?,
        };
        let owner = found.map(|found| ObjectOwner::from_metadata(&found.metadata, &no_instance));
        if let Some(ObjectOwner::Instance(owner)) = owner {
            let prefix = kept_prefix(&name);
            crds.keep
                .push(format!("{prefix}BundleInstance {owner} also owns the CRD"));
        } else {
            crds.delete.insert(name);
        }
    }
    Ok(())
}

/// Returns the start of the reason why a CRD is kept.
fn kept_prefix(name: &str) -> String {
    format!("customresourcedefinition {name:?} and all of its custom resources are kept: ")
}

fn subscription<'a>(
    all: &'a [Subscription],
    namespace: &str,
    package: &str,
) -> Option<&'a Subscription> {
    all.iter().find(|subscription| {
        subscription.metadata.namespace.as_deref() == Some(namespace)
            && subscription.spec.name == package
    })
}

/// Returns the label that OLM sets on all objects of a package in a namespace, truncated as by OLM.
fn component(package: &str, namespace: &str) -> String {
    let name: String = format!("{package}.{namespace}").chars().take(63).collect();
    let name = name.trim_end_matches(['.', '_', '-']);
    format!("operators.coreos.com/{name}")
}

/// Returns the ClusterServiceVersions of a package: those that its Subscription names or that have its label, and all
/// versions that these replace. An unfinished upgrade leaves several of them. Versions of other Subscriptions are kept,
/// because truncated labels may be equal.
fn csvs(
    all: &[Subscription],
    csvs: &[ClusterServiceVersion],
    namespace: &str,
    package: &str,
) -> BTreeSet<String> {
    let versions = |subscription: &Subscription| {
        let status = &subscription.status;
        [status.installed_csv.clone(), status.current_csv.clone()]
    };
    let own = subscription(all, namespace, package);
    let foreign: BTreeSet<String> = all
        .iter()
        .filter(|other| other.metadata.namespace.as_deref() == Some(namespace))
        .filter(|other| own != Some(*other))
        .flat_map(versions)
        .collect();
    let component = component(package, namespace);
    let labeled = csvs
        .iter()
        .filter(|csv| csv.labels().contains_key(&component));
    let mut pending: Vec<String> = labeled.map(kube::ResourceExt::name_any).collect();
    pending.extend(own.into_iter().flat_map(versions));
    let mut found = BTreeSet::new();
    while let Some(name) = pending.pop() {
        if !foreign.contains(&name)
            && let Some(csv) = csvs.iter().find(|csv| csv.name() == name)
            && found.insert(name)
        {
            pending.push(csv.spec.replaces.clone());
        }
    }
    found
}

/// Returns the objects to be deleted. A catalog that other Subscriptions use, or that was not created for the package, is
/// kept.
fn plan(
    all: &[Subscription],
    versions: &[ClusterServiceVersion],
    source: Option<&CatalogSource>,
    namespace: &str,
    package: &str,
) -> CleanupPlan {
    let own = subscription(all, namespace, package);
    let mut plan = CleanupPlan {
        subscription: own.map(|own| own.name().to_owned()),
        csvs: csvs(all, versions, namespace, package),
        ..CleanupPlan::default()
    };
    let Some(source) = source else {
        return plan;
    };
    let (name, source_namespace) = (source.name_any(), source.namespace().unwrap_or_default());
    let is_shared = all.iter().any(|other| {
        let spec = &other.spec;
        spec.source == name && spec.source_namespace == source_namespace && own != Some(other)
    });
    let reason = if !objects::is_made_for(source, package) {
        "not created by \"run bundle\""
    } else if is_shared {
        "other Subscriptions use it"
    } else {
        plan.source = Some((name, source_namespace));
        return plan;
    };
    if plan.subscription.is_some() {
        plan.kept_source_reason = Some(format!(
            "catalogsource {name:?} in namespace {source_namespace} is kept: {reason}"
        ));
    }
    plan
}

async fn delete<K: OlmObject>(
    task: &RunContext<'_>,
    namespace: &str,
    name: &str,
) -> anyhow::Result<()> {
    let doing = format!("deleting {} {name:?}", K::kind(&()).to_lowercase());
    let deleting = Olm(task.cluster).delete::<K>(namespace, name);
    task.deadline.run_to_end(&doing, deleting).await
}

/// Deletes an object and waits until it no longer exists.
async fn wait_deleted<K: OlmObject>(
    task: &RunContext<'_>,
    namespace: &str,
    name: &str,
) -> anyhow::Result<()> {
    delete::<K>(task, namespace, name).await?;
    let api = Olm(task.cluster).api::<K>(namespace);
    wait_absent(task, &api, name).await
}

/// Deletes the OperatorGroup and waits until it no longer exists. Returns false if it is kept, because OLM lets namespace
/// admins only read it.
async fn operator_group(task: &RunContext<'_>, namespace: &str) -> anyhow::Result<bool> {
    let (name, params) = (operator_group::NAME, DeleteParams::default());
    let api = Olm(task.cluster).api::<OperatorGroup>(namespace);
    let deleting = async { Ok(api.delete(name, &params).await) };
    let deleted = task
        .deadline
        .run_to_end("deleting the OperatorGroup", deleting);
    if let Err(kube::Error::Api(status)) = deleted.await?
        && status.code == 403
    {
        let doing = format!("operatorgroup {name:?} is kept");
        let error = task.cluster.explain(doing, kube::Error::Api(status));
        message::warning(&format!("{error:#}"));
        return Ok(false);
    }
    wait_deleted::<OperatorGroup>(task, namespace, name).await?;
    Ok(true)
}

/// Deletes a CRD with all of its custom resources, and waits until it no longer exists. Returns false if it is kept,
/// because only cluster admins may delete CRDs.
async fn delete_crd(task: &RunContext<'_>, name: &str) -> anyhow::Result<bool> {
    let api: Api<CustomResourceDefinition> = Api::all(task.cluster.client.clone());
    let subject = format!("customresourcedefinition {name:?}");
    let failed = |error| task.cluster.explain(format!("delete {subject}"), error);
    let params = DeleteParams::default();
    let deleting = async { Ok(api.delete(name, &params).await) };
    let doing = format!("deleting {subject}");
    match task.deadline.run_to_end(&doing, deleting).await? {
        Err(error) if Cluster::is_absent(&error) => return Ok(true),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let error = failed(kube::Error::Api(status));
            message::warning(&format!(
                "{subject} and all of its custom resources are kept: {error:#}"
            ));
            return Ok(false);
        }
        deleted => drop(deleted.map_err(failed)?),
    }
    wait_absent(task, &api, name).await?;
    Ok(true)
}

/// Waits until an object no longer exists.
async fn wait_absent<K>(task: &RunContext<'_>, api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let kind = K::kind(&());
    let subject = format!("{} {name:?}", kind.to_lowercase());
    let deleted = wait_for([changes(api.clone(), name)], task.deadline, async || {
        let found = api.get_opt(name).await.map_err(|error| {
            let doing = format!("failed to read {kind} {name}");
            task.cluster.explain(doing, error)
        })?;
        Ok(found.is_none().then_some(()))
    });
    let deleted = deleted
        .await
        .and_then(|deleted| deleted.ok_or_else(|| anyhow!("timed out; check its finalizers")));
    deleted.with_context(|| format!("wait for {subject} deleted"))?;
    message::note(&format!("{subject} deleted"));
    Ok(())
}

//! `rukpak cleanup`: what OLM has installed of a package goes, and what it was installed from.

#[cfg(test)]
mod tests;
mod unfinished;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, anyhow};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use manifests::object::{at, text};
use serde_json::Value;

use self::unfinished::{settle, unfinished_plans};
use super::{
    api::{Kind, Olm, changes, until},
    group, namespace, objects,
};
use crate::{
    Exit,
    args::CleanupArgs,
    cluster::Cluster,
    message, output,
    run::{Task, command},
};

/// What there is of a package, and goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Plan {
    subscription: Option<String>,
    /// Its ClusterServiceVersions, the earlier ones that are not replaced yet included.
    csvs: BTreeSet<String>,
    /// In its namespace.
    source: Option<(String, String)>,
    /// A CatalogSource that stays, and why.
    keeps: Option<String>,
}

pub(in crate::run) async fn cleanup(task: &Task<'_>, args: &CleanupArgs) -> anyhow::Result<Exit> {
    let (olm, deadline, package) = (Olm(task.cluster), task.deadline, &args.package);
    let namespace = namespace(task.cluster, args.namespace.as_deref());
    let looking = unfinished_plans(olm, namespace, package);
    let unfinished = deadline.keep("looking at the cluster", looking).await?;
    if !unfinished.is_empty() {
        task.leaves(format!(
            "what there is of package {package:?} stays: run {} again",
            command(&format!("cleanup {package} --namespace {namespace}"))
        ));
    }
    for install in &unfinished {
        settle(task, namespace, install).await?;
    }
    let looking = look(olm, namespace, args);
    let Found {
        plan,
        subscriptions,
        definitions,
    } = deadline.keep("looking at the cluster", looking).await?;
    if plan == Plan::default() {
        message::warning(&format!(
            "package {package:?} not found in namespace {namespace}"
        ));
        return Ok(Exit::Done);
    }
    task.leaves(format!(
        "some of it is gone: run {} again to remove the rest",
        command(&format!("cleanup {package} --namespace {namespace}"))
    ));
    if let Some(name) = &plan.subscription {
        delete(task, Kind::Subscription, namespace, name).await?;
        message::note(&format!("subscription {name:?} deleted"));
    }
    let (mut definitions_gone, mut group_gone) = (true, true);
    if args.deletes_definitions() {
        definitions.stay.iter().for_each(|it| message::warning(it));
        for name in &definitions.go {
            definitions_gone &= definition(task, name).await?;
        }
    } else {
        message::note("Skipping CRD deletion");
    }
    // All at once, so that none takes the place of another meanwhile.
    for name in &plan.csvs {
        delete(task, Kind::ClusterServiceVersion, namespace, name).await?;
    }
    for name in &plan.csvs {
        gone(task, Kind::ClusterServiceVersion, namespace, name).await?;
    }
    let is_last = subscriptions
        .iter()
        .all(|it| text(it, &["metadata", "name"]) == plan.subscription.as_deref());
    if !(args.delete_all || args.delete_operator_groups) {
        message::note("Skipping Operator Groups deletion");
    } else if is_last {
        let found = olm.find(Kind::OperatorGroup, namespace, group::NAME);
        let found = deadline.keep("looking for the OperatorGroup", found);
        if found.await?.is_some() {
            group_gone = operator_group(task, namespace).await?;
        }
    }
    // The last, for a later run knows by it that there is something to remove.
    if let Some((name, place)) = &plan.source {
        gone(task, Kind::CatalogSource, place, name).await?;
    }
    if let Some(why) = &plan.keeps {
        message::note(why);
    }
    output::print(&format!("Operator {package:?} uninstalled\n"))?;
    // Without their flags they go as far as whoever runs this may delete them.
    let is_short =
        !definitions_gone && args.delete_crds || !group_gone && args.delete_operator_groups;
    Ok(if is_short { Exit::Failed } else { Exit::Done })
}

/// What there is.
struct Found {
    plan: Plan,
    /// Of the namespace.
    subscriptions: Vec<Value>,
    definitions: Definitions,
}

/// What becomes of the definitions that a package owns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Definitions {
    go: BTreeSet<String>,
    /// Why others stay, each in a line.
    stay: Vec<String>,
}

/// A ClusterServiceVersion that may own what a package owns as well.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    namespace: String,
    name: String,
    owns: BTreeSet<String>,
}

impl Owner {
    fn of(csv: &Value) -> Self {
        Self {
            namespace: text(csv, &["metadata", "namespace"])
                .unwrap_or_default()
                .to_owned(),
            name: named(csv).to_owned(),
            owns: objects::owned_definitions(csv),
        }
    }
}

/// Looks at the namespace, and at others only to spare what they need: whoever may not see them is told so.
async fn look(olm: Olm<'_>, namespace: &str, args: &CleanupArgs) -> anyhow::Result<Found> {
    let package = &args.package;
    let subscriptions = olm.list(Kind::Subscription, namespace).await?;
    let csvs = olm.list(Kind::ClusterServiceVersion, namespace).await?;
    let own = subscription(&subscriptions, namespace, package);
    let (name, place) = source_of(own, namespace, package);
    let mut unread = None;
    let source = match olm.find(Kind::CatalogSource, &place, &name).await {
        Err(error) if place != namespace => {
            unread = Some(format!(
                "catalogsource {name:?} in namespace {place} stays: {error:#}"
            ));
            None
        }
        found => found?,
    };
    let is_ours = source
        .as_ref()
        .is_some_and(|it| objects::is_made_for(it, package));
    let everywhere = if is_ours {
        olm.everywhere(Kind::Subscription, |it| it).await?.ok()
    } else {
        Some(Vec::new())
    };
    if everywhere.is_none() {
        message::note(&format!(
            "Whether other namespaces install from catalogsource {name:?} is not known, for you may not list their Subscriptions"
        ));
    }
    let all = everywhere.filter(|it| !it.is_empty());
    let all = all.as_deref().unwrap_or(&subscriptions);
    let mut plan = plan(all, &csvs, source.as_ref(), namespace, package);
    plan.keeps = plan.keeps.or(unread);
    let going = csvs.iter().filter(|it| plan.csvs.contains(named(it)));
    let owned: BTreeSet<String> = going.flat_map(objects::owned_definitions).collect();
    let definitions = if owned.is_empty() || !args.deletes_definitions() {
        Definitions::default()
    } else {
        let owners = olm.everywhere(Kind::ClusterServiceVersion, |it| Owner::of(&it));
        let owners = owners.await?;
        let own = |it: &Owner| it.namespace == namespace && plan.csvs.contains(&it.name);
        definitions(owned, owners.as_deref(), own, args.delete_crds)
    };
    Ok(Found {
        plan,
        subscriptions,
        definitions,
    })
}

/// Which definitions go: those that no other operator owns, the same one in another namespace included. Whoever may not see who
/// else does has to ask for it, as all custom resources of the cluster go with a definition.
fn definitions(
    owned: BTreeSet<String>,
    owners: Result<&[Owner], &String>,
    is_going: impl Fn(&Owner) -> bool,
    is_asked_for: bool,
) -> Definitions {
    let mut found = Definitions::default();
    for name in owned {
        let stays =
            format!("customresourcedefinition {name:?} stays, and all of its custom resources: ");
        let owner = owners.map(|all| {
            let mut others = all.iter().filter(|it| !is_going(it));
            others.find(|it| it.owns.contains(&name))
        });
        match owner {
            Ok(None) => drop(found.go.insert(name)),
            Err(_) if is_asked_for => drop(found.go.insert(name)),
            Ok(Some(Owner {
                namespace,
                name: csv,
                ..
            })) => found.stay.push(format!(
                "{stays}clusterserviceversion {csv:?} in namespace {namespace} owns it as well"
            )),
            Err(why) => found.stay.push(format!(
                "{stays}whether another operator owns it is not known: {why}; --delete-crds deletes it nevertheless"
            )),
        }
    }
    found
}

fn subscription<'a>(all: &'a [Value], namespace: &str, package: &str) -> Option<&'a Value> {
    all.iter().find(|it| {
        text(it, &["metadata", "namespace"]) == Some(namespace)
            && text(it, &["spec", "name"]) == Some(package)
    })
}

fn named(object: &Value) -> &str {
    text(object, &["metadata", "name"]).unwrap_or_default()
}

/// The label that OLM gives whatever belongs to a package in a namespace, cut as OLM does it.
fn component(package: &str, namespace: &str) -> String {
    let name: String = format!("{package}.{namespace}").chars().take(63).collect();
    let name = name.trim_end_matches(['.', '_', '-']);
    format!("operators.coreos.com/{name}")
}

/// The ClusterServiceVersions of a package: those that its Subscription names, or that have its label, and whatever these
/// replace. An upgrade that has not ended leaves several. Those of other Subscriptions stay, as the label may be cut to the
/// same, and so do copies, which go with what they were copied from.
fn csvs(all: &[Value], csvs: &[Value], namespace: &str, package: &str) -> BTreeSet<String> {
    fn status(subscription: &Value) -> impl Iterator<Item = &str> {
        let of = |key| text(subscription, &["status", key]);
        let names = [of("installedCSV"), of("currentCSV")];
        names.into_iter().flatten().filter(|it| !it.is_empty())
    }
    let own = subscription(all, namespace, package);
    let others: BTreeSet<&str> = all
        .iter()
        .filter(|it| text(it, &["metadata", "namespace"]) == Some(namespace))
        .filter(|it| own.is_none_or(|own| *it != own))
        .flat_map(status)
        .collect();
    let component = component(package, namespace);
    let label = |csv: &Value, key: &str| at(csv, &["metadata", "labels", key]).is_some();
    let candidates: BTreeMap<&str, &Value> = csvs
        .iter()
        .filter(|it| !label(it, "olm.copiedFrom") && !others.contains(named(it)))
        .map(|it| (named(it), it))
        .collect();
    let labeled = candidates.iter().filter(|it| label(it.1, &component));
    let mut open: Vec<&str> = labeled.map(|it| *it.0).collect();
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

/// The name and namespace of the CatalogSource that a package is from, or would be.
fn source_of(subscription: Option<&Value>, namespace: &str, package: &str) -> (String, String) {
    let spec = |key| text(subscription?, &["spec", key]).map(str::to_owned);
    let name = spec("source").unwrap_or_else(|| objects::source_name(package));
    (
        name,
        spec("sourceNamespace").unwrap_or_else(|| namespace.to_owned()),
    )
}

/// What goes: never a catalog that others install from, or that was not made for the package.
fn plan(
    all: &[Value],
    versions: &[Value],
    source: Option<&Value>,
    namespace: &str,
    package: &str,
) -> Plan {
    let own = subscription(all, namespace, package);
    let mut plan = Plan {
        subscription: own
            .and_then(|it| text(it, &["metadata", "name"]))
            .map(str::to_owned),
        csvs: csvs(all, versions, namespace, package),
        ..Plan::default()
    };
    let Some(source) = source else {
        return plan;
    };
    let (name, place) = source_of(own, namespace, package);
    let others = all.iter().filter(|it| {
        text(it, &["spec", "source"]) == Some(&name)
            && text(it, &["spec", "sourceNamespace"]) == Some(&place)
            && text(it, &["metadata", "uid"]) != own.and_then(|own| text(own, &["metadata", "uid"]))
    });
    let why = match others.count() {
        _ if !objects::is_made_for(source, package) => "\"run bundle\" has not made it",
        0 => {
            plan.source = Some((name, place));
            return plan;
        }
        _ => "other Subscriptions need it",
    };
    if plan.subscription.is_some() {
        plan.keeps = Some(format!(
            "catalogsource {name:?} in namespace {place} stays: {why}"
        ));
    }
    plan
}

async fn delete(task: &Task<'_>, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<()> {
    let doing = format!("deleting {} {name:?}", kind.name().to_lowercase());
    let deleting = Olm(task.cluster).delete(kind, namespace, name);
    task.deadline.keep(&doing, deleting).await.map(drop)
}

/// Deletes an object and waits until it is gone.
async fn gone(task: &Task<'_>, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<()> {
    let olm = Olm(task.cluster);
    delete(task, kind, namespace, name).await?;
    let what = kind.name().to_lowercase();
    let changes = changes(olm.of(kind, namespace), name);
    let is_gone = until([changes], task.deadline, async || {
        Ok(olm
            .find(kind, namespace, name)
            .await?
            .is_none()
            .then_some(()))
    });
    told(is_gone.await, &what, name)
}

/// The same for the OperatorGroup; whether it is gone, as OLM lets admins of a namespace only read it.
async fn operator_group(task: &Task<'_>, namespace: &str) -> anyhow::Result<bool> {
    let (olm, kind) = (Olm(task.cluster), Kind::OperatorGroup);
    let (api, params) = (olm.of(kind, namespace), DeleteParams::default());
    let deleting = async { Ok(api.delete(group::NAME, &params).await) };
    let deleted = task.deadline.keep("deleting the OperatorGroup", deleting);
    if let Err(kube::Error::Api(status)) = deleted.await?
        && status.code == 403
    {
        let doing = format!("operatorgroup {:?} stays", group::NAME);
        let why = task.cluster.trouble(doing, kube::Error::Api(status));
        message::warning(&format!("{why:#}"));
        return Ok(false);
    }
    gone(task, kind, namespace, group::NAME).await?;
    Ok(true)
}

/// The same for a definition, and all custom resources with it; whether it is gone, as only an administrator of the cluster may
/// delete one.
async fn definition(task: &Task<'_>, name: &str) -> anyhow::Result<bool> {
    let api: Api<CustomResourceDefinition> = Api::all(task.cluster.client.clone());
    let what = || format!("customresourcedefinition {name:?}");
    let failed = |error| task.cluster.trouble(format!("delete {}", what()), error);
    let params = DeleteParams::default();
    let deleting = async { Ok(api.delete(name, &params).await) };
    let doing = format!("deleting {}", what());
    match task.deadline.keep(&doing, deleting).await? {
        Err(error) if Cluster::is_absent(&error) => return Ok(true),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let why = failed(kube::Error::Api(status));
            message::warning(&format!(
                "{} stays, and all of its custom resources: {why:#}",
                what()
            ));
            return Ok(false);
        }
        deleted => drop(deleted.map_err(failed)?),
    }
    let changes = changes(api.clone(), name);
    let is_gone = until([changes], task.deadline, async || {
        Ok(api
            .get_opt(name)
            .await
            .map_err(failed)?
            .is_none()
            .then_some(()))
    });
    told(is_gone.await, "customresourcedefinition", name)?;
    Ok(true)
}

fn told(is_gone: anyhow::Result<Option<()>>, what: &str, name: &str) -> anyhow::Result<()> {
    let waiting = || format!("wait for {what} {name:?} deleted");
    let late = || anyhow!("it is still there; what keeps it is among its finalizers");
    is_gone
        .and_then(|it| it.ok_or_else(late))
        .with_context(waiting)?;
    message::note(&format!("{what} {name:?} deleted"));
    Ok(())
}

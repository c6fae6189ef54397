//! Ownership of existing objects, and whether an instance may adopt them.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use manifests::{api::owner::adopted_by, object::Identity};

pub use manifests::api::owner::ObjectOwner;

use super::{
    Check, Finding, Findings, Input, access_review, format,
    namespaces::{Namespaces, is_namespace},
};
use crate::{
    discovery::ApiKind,
    inventory::Inventory,
    plan::{ApplyStep, InstanceOwner},
};

/// Findings about existing objects, and the objects that could not be read.
#[derive(Default)]
pub(super) struct OwnershipReport {
    pub(super) findings: Findings,
    /// Problems of objects that the account is not allowed to read.
    pub(super) unreadable: Vec<Finding>,
    /// Planned objects that do not exist.
    pub(super) absent: BTreeSet<Identity>,
}

/// Checks every existing object of the plan that the instance has not applied yet.
pub(super) async fn check(
    input: &Input<'_>,
    namespaces: &Namespaces,
    protected_objects: &BTreeSet<Identity>,
) -> Result<OwnershipReport, kube::Error> {
    // Objects that no bundle may change cannot be adopted either.
    let steps = input.plan.steps.iter().filter(|step| {
        is_new(step, input.inventory) && !protected_objects.contains(&step.object.identity())
    });
    let mut report = OwnershipReport::default();
    let mut existing: Vec<(&ApplyStep, ObjectMeta, ObjectOwner)> = Vec::new();
    let holder_of = |live: &ObjectMeta| ObjectOwner::from_metadata(live, input.owner);
    let mut to_read = Vec::new();
    for step in steps {
        let at = |name: &str| namespaces.get(name).and_then(Option::as_ref);
        if is_namespace(step) {
            existing
                .extend(at(step.object.name()).map(|live| (step, live.clone(), holder_of(live))));
        } else if !step.kind.namespaced || at(step.object.namespace()).is_some() {
            to_read.push(step);
        }
    }
    for (step, found) in read(input.client, &to_read, input.concurrency).await? {
        match found {
            Ok(Some(live)) => {
                let holder = holder_of(&live);
                existing.push((step, live, holder));
            }
            Ok(None) => {
                report.absent.insert(step.object.identity());
            }
            Err(message) => report.unreadable.push(Finding {
                check: Check::Rights,
                message: format!(
                    "failed to read {}: {message}; allow the account to get it",
                    step.object.identity()
                ),
            }),
        }
    }
    let deleted_instances = deleted_instances(
        input.own,
        existing.iter().map(|(_, _, holder)| holder),
        input.concurrency,
    )
    .await?;
    for (step, live, holder) in &existing {
        let decision = decide(step, live, holder, input.owner, &deleted_instances);
        if let OwnershipDecision::Conflict(_) = decision {
            report.findings.holders.insert(match holder {
                ObjectOwner::Instance(name) => Some(name.clone()),
                _ => None,
            });
        }
        decision.report(step, &mut report.findings);
    }
    Ok(report)
}

/// Returns the objects that a repair must not create again, with their owners: another client has created them since.
///
/// # Errors
/// Returns an error if the API server does not respond.
pub async fn recheck(
    client: &Client,
    steps: &[ApplyStep],
    owner: &InstanceOwner,
    concurrency: usize,
) -> Result<BTreeMap<Identity, ObjectOwner>, kube::Error> {
    holders(client, steps, concurrency, |live| other_holder(live, owner)).await
}

/// Returns the owner of an existing object if a repair must not write the object: the object has another owner, or has no
/// owner and no annotation that lets this owner adopt it. Pure; no I/O.
pub fn other_holder(live: &ObjectMeta, owner: &InstanceOwner) -> Option<ObjectOwner> {
    match ObjectOwner::from_metadata(live, owner) {
        ObjectOwner::ThisInstance | ObjectOwner::Released => None,
        ObjectOwner::None if adopted_by(live) == Some(owner.name.as_str()) => None,
        holder => Some(holder),
    }
}

/// Returns the findings about an existing object that the owner has not applied. `deleted_instances` contains the instances
/// that no longer exist. Pure; no I/O.
pub fn findings(
    step: &ApplyStep,
    live: &ObjectMeta,
    owner: &InstanceOwner,
    deleted_instances: &BTreeSet<String>,
) -> Findings {
    let mut findings = Findings::default();
    let holder = ObjectOwner::from_metadata(live, owner);
    decide(step, live, &holder, owner, deleted_instances).report(step, &mut findings);
    findings
}

/// Returns the objects that other clients have created since the checks, with their owners. These objects are not adopted.
///
/// # Errors
/// Returns an error if the API server does not respond.
pub async fn appeared(
    client: &Client,
    steps: &[ApplyStep],
    owner: &InstanceOwner,
    concurrency: usize,
) -> Result<BTreeMap<Identity, ObjectOwner>, kube::Error> {
    let foreign = |live: &ObjectMeta| {
        let holder = ObjectOwner::from_metadata(live, owner);
        let is_adopted = adopted_by(live) == Some(owner.name.as_str());
        (!is_adopted && !is_own(&holder)).then_some(holder)
    };
    holders(client, steps, concurrency, foreign).await
}

/// Returns the objects whose metadata names an owner according to `holder`.
async fn holders(
    client: &Client,
    steps: &[ApplyStep],
    concurrency: usize,
    holder: impl Fn(&ObjectMeta) -> Option<ObjectOwner>,
) -> Result<BTreeMap<Identity, ObjectOwner>, kube::Error> {
    let steps: Vec<&ApplyStep> = steps.iter().collect();
    let found = read(client, &steps, concurrency).await?.into_iter();
    // The apply request reports missing permissions.
    let found = found.filter_map(|(step, found)| {
        let holder = holder(&found.ok()??)?;
        Some((step.object.identity(), holder))
    });
    Ok(found.collect())
}

/// Returns the objects that a rollout uses unchanged: Namespaces and default ServiceAccounts that another client owns, or
/// that the account is not allowed to read. An account that is not allowed to read an object has not created it either.
///
/// # Errors
/// Returns an error if the API server does not respond.
pub async fn shared(
    client: &Client,
    steps: &[ApplyStep],
    owner: &InstanceOwner,
    concurrency: usize,
) -> Result<BTreeSet<Identity>, kube::Error> {
    let can_be_shared = |step: &&ApplyStep| is_namespace(step) || is_default_account(step);
    let steps: Vec<&ApplyStep> = steps.iter().filter(can_be_shared).collect();
    let found = read(client, &steps, concurrency).await?.into_iter();
    let found = found.filter(|(_, found)| match found {
        Ok(found) => found
            .as_ref()
            .is_some_and(|live| !is_own(&ObjectOwner::from_metadata(live, owner))),
        Err(_) => true,
    });
    Ok(found.map(|(step, _)| step.object.identity()).collect())
}

/// Returns which of these objects do not exist.
///
/// # Errors
/// Returns an error if the API server does not respond.
pub async fn absent(
    client: &Client,
    steps: &[&ApplyStep],
    concurrency: usize,
) -> Result<BTreeSet<Identity>, kube::Error> {
    let found = read(client, steps, concurrency).await?.into_iter();
    let absent = found.filter(|(_, found)| matches!(found, Ok(None)));
    Ok(absent.map(|(step, _)| step.object.identity()).collect())
}

fn is_own(holder: &ObjectOwner) -> bool {
    matches!(holder, ObjectOwner::ThisInstance | ObjectOwner::Released)
}

/// Reports whether the instance has not applied the object yet. The inventory is written before objects are applied: an
/// object without a fingerprint, or one that is recreated, may have been created by another client in the meantime.
fn is_new(step: &ApplyStep, inventory: &Inventory) -> bool {
    inventory
        .get(&step.object.identity())
        .is_none_or(|entry| entry.fields.is_none() || entry.recreating)
}

/// Metadata of an object, `None` if it does not exist, or the reason why the account is not allowed to read it.
type ReadResult = Result<Option<ObjectMeta>, String>;

async fn read<'a>(
    client: &Client,
    steps: &[&'a ApplyStep],
    concurrency: usize,
) -> Result<Vec<(&'a ApplyStep, ReadResult)>, kube::Error> {
    // The futures are created before they are awaited: a borrowing closure in the stream would make the whole future not
    // Send.
    let requests: Vec<_> = steps
        .iter()
        .map(|&step| async move {
            let object = &step.object;
            match access_review::metadata(client, &step.kind, object.namespace(), object.name())
                .await
            {
                Ok(found) => Ok((step, Ok(found))),
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    Ok((step, Err(status.message)))
                }
                Err(error) => Err(error),
            }
        })
        .collect();
    stream::iter(requests)
        .buffer_unordered(concurrency.max(1))
        .try_collect()
        .await
}

/// Returns the instances that own objects and no longer exist.
async fn deleted_instances<'a>(
    own: &Client,
    holders: impl Iterator<Item = &'a ObjectOwner>,
    concurrency: usize,
) -> Result<BTreeSet<String>, kube::Error> {
    let names: BTreeSet<String> = holders
        .filter_map(|holder| match holder {
            ObjectOwner::Instance(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    let kind = &ApiKind {
        resource: InstanceOwner::resource(),
        namespaced: false,
    };
    stream::iter(names)
        .map(|name| async move {
            let found = access_review::metadata(own, kind, "", &name).await?;
            Ok::<_, kube::Error>(found.is_none().then_some(name))
        })
        .buffer_unordered(concurrency.max(1))
        .try_filter_map(|absent| std::future::ready(Ok(absent)))
        .try_collect()
        .await
}

/// Decision about an existing object.
#[derive(Debug, PartialEq)]
enum OwnershipDecision {
    /// The instance owns the object, or adopts it.
    Allowed,
    /// The object is used unchanged, with a warning.
    Shared(String),
    /// The object has another owner; the message contains the remedy.
    Conflict(String),
    /// The object is terminating; the conflict resolves itself.
    Terminating(String),
}

impl OwnershipDecision {
    fn report(self, step: &ApplyStep, findings: &mut Findings) {
        let problem = |check, message: String| Finding {
            check,
            message: format!("{} {message}", step.object.identity()),
        };
        match self {
            Self::Allowed => {}
            Self::Shared(message) => {
                findings.used_as_is.insert(step.object.identity());
                findings.warnings.push(problem(Check::Ownership, message));
            }
            Self::Conflict(message) => {
                findings.problems.push(problem(Check::Ownership, message));
            }
            Self::Terminating(message) => {
                findings.problems.push(problem(Check::Terminating, message));
            }
        }
    }
}

fn decide(
    step: &ApplyStep,
    live: &ObjectMeta,
    holder: &ObjectOwner,
    owner: &InstanceOwner,
    deleted_instances: &BTreeSet<String>,
) -> OwnershipDecision {
    let is_deleted =
        matches!(holder, ObjectOwner::Instance(name) if deleted_instances.contains(name));
    if *holder == ObjectOwner::Provisioner {
        return OwnershipDecision::Conflict(format!(
            "already exists and is owned by {holder}: remove it from the bundle, or rename it"
        ));
    }
    if !is_namespace(step)
        && live.deletion_timestamp.is_some()
        && *holder != ObjectOwner::ThisInstance
    {
        return OwnershipDecision::Terminating(
            "exists and is being deleted: the installation continues automatically after the deletion"
                .to_owned(),
        );
    }
    let adoption = format!(
        "to let this BundleInstance adopt it, run: kubectl annotate {} {}={}",
        format::describe_object(&step.kind, &step.object.identity()),
        manifests::api::labels::ADOPT,
        owner.name
    );
    let is_adopted = adopted_by(live) == Some(owner.name.as_str());
    if is_namespace(step) {
        // Several instances may share a Namespace. Its labels and annotations, some of which protect it, have only one
        // owner.
        const AS_IT_IS: &str =
            "is used unchanged; the bundle's labels and annotations are not applied";
        return match holder {
            ObjectOwner::ThisInstance | ObjectOwner::Released => OwnershipDecision::Allowed,
            ObjectOwner::Instance(_) if !is_deleted => {
                OwnershipDecision::Shared(format!("is owned by {holder} and {AS_IT_IS}"))
            }
            _ if is_adopted => OwnershipDecision::Allowed,
            _ => OwnershipDecision::Shared(format!("already exists and {AS_IT_IS}; {adoption}")),
        };
    }
    match holder {
        ObjectOwner::ThisInstance | ObjectOwner::Released => OwnershipDecision::Allowed,
        ObjectOwner::FormerInstance => OwnershipDecision::Terminating(format!(
            "still exists from {holder}: the garbage collector deletes it, and the installation then continues automatically"
        )),
        ObjectOwner::Instance(_) if !is_deleted => OwnershipDecision::Conflict(format!(
            "already exists and is owned by {holder}: delete that BundleInstance, or remove the object from one of the two bundles"
        )),
        ObjectOwner::Controller(_) => OwnershipDecision::Conflict(format!(
            "already exists and is controlled by {holder} (ownerReference): delete the controller, or remove the object from the bundle"
        )),
        _ if is_adopted => OwnershipDecision::Allowed,
        // Every namespace has this account, and other clients may have granted it permissions that they need.
        ObjectOwner::None if is_default_account(step) => OwnershipDecision::Shared(format!(
            "exists in every namespace and is used unchanged; {adoption}"
        )),
        ObjectOwner::None => OwnershipDecision::Conflict(format!(
            "already exists and is not managed by a BundleInstance: {adoption}"
        )),
        ObjectOwner::Instance(_) => OwnershipDecision::Conflict(format!(
            "already exists and is owned by {holder}, which no longer exists: {adoption}"
        )),
        ObjectOwner::OtherTool(_) | ObjectOwner::Provisioner => {
            OwnershipDecision::Conflict(format!(
                "already exists and is managed by {holder}: remove it there; if it still exists afterwards, {adoption}"
            ))
        }
    }
}

fn is_default_account(step: &ApplyStep) -> bool {
    let object = &step.object;
    object.group().is_empty() && object.kind() == "ServiceAccount" && object.name() == "default"
}

#[cfg(test)]
mod tests;

//! Objects that exist already: whose they are, and whether they may be taken over.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use manifests::{api::holder::adopted_by, object::Identity};

pub use manifests::api::holder::Holder;

use super::{
    Check, Findings, Input, Problem, ask,
    namespaces::{Namespaces, is_namespace},
    words,
};
use crate::{
    discovery::Kind,
    inventory::Inventory,
    plan::{Owner, Step},
};

/// What was found, and what could not be looked at.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) findings: Findings,
    /// Objects that the account may not read.
    pub(super) unreadable: Vec<Problem>,
    /// Objects that do not exist.
    pub(super) absent: BTreeSet<Identity>,
}

/// Looks at every object that exists and that the instance has not applied yet.
pub(super) async fn check(
    input: &Input<'_>,
    namespaces: &Namespaces,
    out_of_reach: &BTreeSet<Identity>,
) -> Result<Outcome, kube::Error> {
    // What may not be had at all is not to be handed over either.
    let steps = input.plan.steps.iter().filter(|step| {
        is_new(step, input.inventory) && !out_of_reach.contains(&step.object.identity())
    });
    let mut outcome = Outcome::default();
    let mut existing: Vec<(&Step, ObjectMeta, Holder)> = Vec::new();
    let held = |live: &ObjectMeta| Holder::of(live, input.owner);
    let mut unknown = Vec::new();
    for step in steps {
        let at = |name: &str| namespaces.get(name).and_then(Option::as_ref);
        if is_namespace(step) {
            existing.extend(at(step.object.name()).map(|live| (step, live.clone(), held(live))));
        } else if !step.kind.namespaced || at(step.object.namespace()).is_some() {
            unknown.push(step);
        }
    }
    for (step, found) in read(input.client, &unknown, input.concurrency).await? {
        match found {
            Ok(Some(live)) => {
                let holder = held(&live);
                existing.push((step, live, holder));
            }
            Ok(None) => {
                outcome.absent.insert(step.object.identity());
            }
            Err(refusal) => outcome.unreadable.push(Problem {
                check: Check::Rights,
                message: format!(
                    "{} cannot be looked at: {refusal}: allow the account to get it",
                    step.object.identity()
                ),
            }),
        }
    }
    let gone = gone(
        input.own,
        existing.iter().map(|(_, _, holder)| holder),
        input.concurrency,
    )
    .await?;
    for (step, live, holder) in &existing {
        let verdict = judge(step, live, holder, input.owner, &gone);
        if let Verdict::Refused(_) = verdict {
            outcome.findings.holders.insert(match holder {
                Holder::Instance(name) => Some(name.clone()),
                _ => None,
            });
        }
        verdict.enter(step, &mut outcome.findings);
    }
    Ok(outcome)
}

/// Returns the objects that a repair must not create again, with their holders: another client has created them since.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub async fn taken(
    client: &Client,
    steps: &[Step],
    owner: &Owner,
    concurrency: usize,
) -> Result<BTreeMap<Identity, Holder>, kube::Error> {
    holders(client, steps, concurrency, |live| other_holder(live, owner)).await
}

/// Returns the holder of an existing object if a repair must not write the object: the object has another owner, or has no
/// owner and no annotation that lets this owner adopt it. Pure; no I/O.
pub fn other_holder(live: &ObjectMeta, owner: &Owner) -> Option<Holder> {
    match Holder::of(live, owner) {
        Holder::Us | Holder::Released => None,
        Holder::Nobody if adopted_by(live) == Some(owner.name.as_str()) => None,
        holder => Some(holder),
    }
}

/// Returns the findings about an object that exists and that the owner has not applied. `gone` are the instances that do not
/// exist. Pure; no I/O.
pub fn findings(
    step: &Step,
    live: &ObjectMeta,
    owner: &Owner,
    gone: &BTreeSet<String>,
) -> Findings {
    let mut findings = Findings::default();
    let holder = Holder::of(live, owner);
    judge(step, live, &holder, owner, gone).enter(step, &mut findings);
    findings
}

/// Returns the objects that other clients have created since the checks, with their owners. They are not taken over.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub async fn appeared(
    client: &Client,
    steps: &[Step],
    owner: &Owner,
    concurrency: usize,
) -> Result<BTreeMap<Identity, Holder>, kube::Error> {
    let foreign = |live: &ObjectMeta| {
        let holder = Holder::of(live, owner);
        let is_adopted = adopted_by(live) == Some(owner.name.as_str());
        (!is_adopted && !is_own(&holder)).then_some(holder)
    };
    holders(client, steps, concurrency, foreign).await
}

/// Returns the objects for which `holder` finds a holder in the metadata of the live object.
async fn holders(
    client: &Client,
    steps: &[Step],
    concurrency: usize,
    holder: impl Fn(&ObjectMeta) -> Option<Holder>,
) -> Result<BTreeMap<Identity, Holder>, kube::Error> {
    let steps: Vec<&Step> = steps.iter().collect();
    let found = read(client, &steps, concurrency).await?.into_iter();
    // The apply request reports missing permissions.
    let found = found.filter_map(|(step, found)| {
        let holder = holder(&found.ok()??)?;
        Some((step.object.identity(), holder))
    });
    Ok(found.collect())
}

/// Returns the objects that a rollout uses as they are: Namespaces and default ServiceAccounts that another client holds, or
/// that the account may not read. An account that may not read an object has not created the object either.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub async fn shared(
    client: &Client,
    steps: &[Step],
    owner: &Owner,
    concurrency: usize,
) -> Result<BTreeSet<Identity>, kube::Error> {
    let may_be_shared = |step: &&Step| is_namespace(step) || is_default_account(step);
    let steps: Vec<&Step> = steps.iter().filter(may_be_shared).collect();
    let found = read(client, &steps, concurrency).await?.into_iter();
    let found = found.filter(|(_, found)| match found {
        Ok(found) => found
            .as_ref()
            .is_some_and(|live| !is_own(&Holder::of(live, owner))),
        Err(_) => true,
    });
    Ok(found.map(|(step, _)| step.object.identity()).collect())
}

/// Returns which of these objects do not exist.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub async fn absent(
    client: &Client,
    steps: &[&Step],
    concurrency: usize,
) -> Result<BTreeSet<Identity>, kube::Error> {
    let found = read(client, steps, concurrency).await?.into_iter();
    let absent = found.filter(|(_, found)| matches!(found, Ok(None)));
    Ok(absent.map(|(step, _)| step.object.identity()).collect())
}

fn is_own(holder: &Holder) -> bool {
    matches!(holder, Holder::Us | Holder::Released)
}

/// The inventory is written before objects are applied: what has no fingerprint yet, or is recreated, may have been made by
/// another client in the meantime.
fn is_new(step: &Step, inventory: &Inventory) -> bool {
    inventory
        .get(&step.object.identity())
        .is_none_or(|entry| entry.fields.is_none() || entry.recreating)
}

/// What the account may not read is an error of that object alone.
type Found = Result<Option<ObjectMeta>, String>;

async fn read<'a>(
    client: &Client,
    steps: &[&'a Step],
    concurrency: usize,
) -> Result<Vec<(&'a Step, Found)>, kube::Error> {
    // Made before they are awaited: a closure that borrows, in a stream, would keep the whole from being Send.
    let requests: Vec<_> = steps
        .iter()
        .map(|&step| async move {
            let object = &step.object;
            match ask::metadata(client, &step.kind, object.namespace(), object.name()).await {
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

/// Which of the instances that hold objects do not exist any more.
async fn gone<'a>(
    own: &Client,
    holders: impl Iterator<Item = &'a Holder>,
    concurrency: usize,
) -> Result<BTreeSet<String>, kube::Error> {
    let names: BTreeSet<String> = holders
        .filter_map(|holder| match holder {
            Holder::Instance(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    let kind = &Kind {
        resource: Owner::resource(),
        namespaced: false,
    };
    stream::iter(names)
        .map(|name| async move {
            let found = ask::metadata(own, kind, "", &name).await?;
            Ok::<_, kube::Error>(found.is_none().then_some(name))
        })
        .buffer_unordered(concurrency.max(1))
        .try_filter_map(|absent| std::future::ready(Ok(absent)))
        .try_collect()
        .await
}

/// The fate of an object that exists.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// It is, or becomes, the instance's.
    Fine,
    /// It is used as it is.
    Shared(String),
    /// It is in the way: why, and what to do.
    Refused(String),
    /// It is in the way until it is gone, which takes nobody.
    Going(String),
}

impl Verdict {
    fn enter(self, step: &Step, findings: &mut Findings) {
        let problem = |check, message: String| Problem {
            check,
            message: format!("{} {message}", step.object.identity()),
        };
        match self {
            Self::Fine => {}
            Self::Shared(message) => {
                findings.shared.insert(step.object.identity());
                findings.warnings.push(problem(Check::Ownership, message));
            }
            Self::Refused(message) => {
                findings.problems.push(problem(Check::Ownership, message));
            }
            Self::Going(message) => findings.problems.push(problem(Check::Going, message)),
        }
    }
}

fn judge(
    step: &Step,
    live: &ObjectMeta,
    holder: &Holder,
    owner: &Owner,
    gone: &BTreeSet<String>,
) -> Verdict {
    let is_gone = matches!(holder, Holder::Instance(name) if gone.contains(name));
    if *holder == Holder::Provisioner {
        return Verdict::Refused(format!(
            "exists and belongs to {holder}: remove it from the bundle, or give it another name"
        ));
    }
    if !is_namespace(step) && live.deletion_timestamp.is_some() && *holder != Holder::Us {
        return Verdict::Going(
            "exists and is being deleted: once it is gone, the installation goes on by itself"
                .to_owned(),
        );
    }
    let adoption = format!(
        "to hand it over to this BundleInstance, run: kubectl annotate {} {}={}",
        words::address(&step.kind, &step.object.identity()),
        manifests::api::labels::ADOPT,
        owner.name
    );
    let is_adopted = adopted_by(live) == Some(owner.name.as_str());
    if is_namespace(step) {
        // Many may live in a namespace; only its labels and annotations, some of which guard it, can have one master.
        const AS_IT_IS: &str = "it is used as it is, and what the bundle says about its labels and annotations is not applied";
        return match holder {
            Holder::Us | Holder::Released => Verdict::Fine,
            Holder::Instance(_) if !is_gone => {
                Verdict::Shared(format!("belongs to {holder}: {AS_IT_IS}"))
            }
            _ if is_adopted => Verdict::Fine,
            _ => Verdict::Shared(format!("exists already: {AS_IT_IS}; {adoption}")),
        };
    }
    match holder {
        Holder::Us | Holder::Released => Verdict::Fine,
        Holder::Earlier => Verdict::Going(format!(
            "exists and is left from {holder}: the garbage collector removes it, and the installation goes on by itself then"
        )),
        Holder::Instance(_) if !is_gone => Verdict::Refused(format!(
            "exists and belongs to {holder}: delete that BundleInstance, or remove the object from one of the two bundles"
        )),
        Holder::Controller(_) => Verdict::Refused(format!(
            "exists and is controlled by {holder}, by an ownerReference: delete that, or remove the object from the bundle"
        )),
        _ if is_adopted => Verdict::Fine,
        // Every namespace has it, and others may have given it what they need.
        Holder::Nobody if is_default_account(step) => Verdict::Shared(format!(
            "exists, as in every namespace: it is used as it is; {adoption}"
        )),
        Holder::Nobody => Verdict::Refused(format!(
            "exists and belongs to no BundleInstance: {adoption}"
        )),
        Holder::Instance(_) => Verdict::Refused(format!(
            "exists and belongs to {holder}, which is gone: {adoption}"
        )),
        Holder::Tool(_) | Holder::Provisioner => Verdict::Refused(format!(
            "exists and belongs to {holder}: remove it there, and then, if it is still there, {adoption}"
        )),
    }
}

fn is_default_account(step: &Step) -> bool {
    let object = &step.object;
    object.group().is_empty() && object.kind() == "ServiceAccount" && object.name() == "default"
}

#[cfg(test)]
mod tests;

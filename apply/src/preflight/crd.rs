//! Whether a definition's new version is safe for the custom resources there are, and for whoever uses them.
//!
//! ```text
//!  definition in the cluster ──┐                  ┌──► what is taken away: problems
//!                              ├─ judge (compare) ┤
//!  definition of the bundle ───┘                  └──► which custom resources may suffer
//!                                                        │ listed, page by page
//!                                                        └─ prepare (prune, default), validate ──► problems
//! ```
//!
//! Custom resources are read only when something changed that they may not survive. What cannot be evaluated here, CEL
//! above all, is reported.

mod compare;
mod definition;
mod format;
mod pattern;
mod place;
mod prepare;
mod resources;
mod schema;
mod validate;

use futures::{StreamExt, TryStreamExt, stream};
use kube::core::Request;
use manifests::{
    api::labels,
    names,
    object::{Object, at, text},
};
use serde_json::Value;

use self::{
    definition::{Definition, Judgement},
    resources::Outcome,
};
use super::{Check, Findings, Input, Problem, ask};

/// How many definitions are looked at once: each holds its schemas and a page of custom resources.
const CONCURRENCY: usize = 4;
/// How many differences of one definition are told.
const MAX_TOLD: usize = 20;

/// Whether new versions of CustomResourceDefinitions are checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpgradeSafety {
    /// A new version that is not safe for existing custom resources is a problem.
    #[default]
    Enforced,
    /// New versions are not checked.
    Off,
}

/// Compares the definitions that are about to be applied, and that may exist, with those in the cluster.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub async fn check(
    input: &Input<'_>,
    may_exist: impl Fn(&Object) -> bool,
) -> Result<Findings, kube::Error> {
    if input.policy.crd_upgrade_safety == UpgradeSafety::Off {
        return Ok(Findings::default());
    }
    // Made before they are awaited: a closure that borrows, in a stream, would keep the whole from being Send.
    let checks: Vec<_> = input
        .plan
        .steps
        .iter()
        .map(|step| &step.object)
        .filter(|object| is_definition(object) && !is_exempt(object) && may_exist(object))
        .map(|object| one(input, object))
        .collect();
    let mut all: Findings = stream::iter(checks)
        .buffered(input.concurrency.clamp(1, CONCURRENCY))
        .try_fold(Findings::default(), async |mut all, found| {
            all.merge(found);
            Ok(all)
        })
        .await?;
    all.problems.sort();
    all.warnings.sort();
    Ok(all)
}

fn is_definition(object: &Object) -> bool {
    object.group() == "apiextensions.k8s.io"
        && object.kind() == "CustomResourceDefinition"
        // Everything else is refused by the API server, and must not end up in a URL.
        && names::dns_subdomain(object.name()).is_ok()
}

/// Reports whether the author of the definition, or an admin by way of it, wants no check.
fn is_exempt(object: &Object) -> bool {
    let annotation = &["metadata", "annotations", labels::SAFE_CRD_UPGRADE];
    text(object.value(), annotation) == Some("false")
}

/// Compares two forms of a CustomResourceDefinition, without its custom resources. Pure; no I/O.
pub fn compared(live: &Value, incoming: &Object) -> Findings {
    let (live, new) = (Definition::read(live), Definition::read(incoming.value()));
    let judgement = definition::judge(&live, &new);
    let mut findings = Findings::default();
    tell_judgement(incoming.name(), &judgement, &mut findings);
    findings
}

async fn one(input: &Input<'_>, object: &Object) -> Result<Findings, kube::Error> {
    let name = object.name();
    let Some(live) = live(input, name).await? else {
        return Ok(Findings::default());
    };
    // What is going takes its custom resources with it, whatever is applied afterwards.
    if at(&live, &["metadata", "deletionTimestamp"]).is_some() {
        return Ok(Findings::default());
    }
    let incoming = object.value().clone();
    let (definition, mut judgement) = tokio::task::spawn_blocking(move || {
        let definition = Definition::read(&live);
        let judgement = definition::judge(&definition, &Definition::read(&incoming));
        (definition, judgement)
    })
    .await
    .map_err(|error| kube::Error::Service(Box::new(error)))?;
    let mut findings = Findings::default();
    for target in std::mem::take(&mut judgement.targets) {
        let outcome = resources::check(input.client, &definition, target).await?;
        tell_outcome(name, outcome, &mut findings);
    }
    tell_judgement(name, &judgement, &mut findings);
    Ok(findings)
}

/// The definition in the cluster.
async fn live(input: &Input<'_>, name: &str) -> Result<Option<Value>, kube::Error> {
    let request = Request::new("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .get(name, &kube::api::GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    ask::or_none(ask::within(input.own.request(request)).await)
}

/// Enters the judgement of a definition, after the outcome of its custom resources.
fn tell_judgement(name: &str, judgement: &Judgement, findings: &mut Findings) {
    if !judgement.problems.is_empty() {
        let problems = listed(&judgement.problems, judgement.more);
        findings.problems.push(problem(format!(
            "validating upgrade for CRD {name:?} failed: {problems}. Install a version of the bundle that keeps what is \
             in use, or, when nobody needs it, set spec.preflight.crdUpgradeSafety: Off, or the annotation \
             {SAFE}: \"false\" on the CRD",
            SAFE = labels::SAFE_CRD_UPGRADE,
        )));
    }
    if !judgement.unchecked.is_empty() {
        findings.warnings.push(problem(format!(
            "upgrade of CRD {name:?}: new rules that were not checked against existing custom resources: {}",
            listed(&judgement.unchecked, 0)
        )));
    }
    if !judgement.notes.is_empty() {
        findings.warnings.push(problem(format!(
            "upgrade of CRD {name:?}: {}",
            listed(&judgement.notes, 0)
        )));
    }
    if !findings.problems.is_empty() {
        findings.unsafe_definitions.insert(name.to_owned());
    }
}

fn tell_outcome(name: &str, outcome: Outcome, findings: &mut Findings) {
    let unsafe_because = |why: &str| {
        problem(format!(
            "failed to validate safety of UPDATE for CRD {name:?} (NOTE: to disable this validation, set the \
             {SAFE:?} annotation to \"false\", or spec.preflight.crdUpgradeSafety to Off): {why}",
            SAFE = labels::SAFE_CRD_UPGRADE,
        ))
    };
    if !outcome.failed.is_empty() {
        let more = outcome.failed_in_all.saturating_sub(outcome.failed.len());
        findings.problems.push(unsafe_because(&format!(
            "error validating existing CRs against new CRD's schema for {name:?}: {}",
            listed(&outcome.failed, more)
        )));
    }
    if let Some(why) = outcome.unreadable {
        findings.problems.push(unsafe_because(&why));
    }
    if let Some(why) = outcome.incomplete {
        findings
            .warnings
            .push(problem(format!("upgrade of CRD {name:?}: {why}")));
    }
    if outcome.invalid_before > 0 {
        findings.warnings.push(problem(format!(
            "upgrade of CRD {name:?}: {} custom resources are invalid under the old schema as under the new one",
            outcome.invalid_before
        )));
    }
}

fn problem(message: String) -> Problem {
    Problem {
        check: Check::DefinitionUpgrade,
        message,
    }
}

/// The first of many, and how many more there are.
fn listed(messages: &[String], more: usize) -> String {
    let told = messages.len().min(MAX_TOLD);
    let mut parts: Vec<String> = messages.iter().take(told).cloned().collect();
    let more = more + messages.len() - told;
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}

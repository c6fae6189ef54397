//! Safety check of a CRD upgrade for existing custom resources and their clients.
//!
//! ```text
//!  CRD in the cluster ──┐                   ┌──► restrictions: findings
//!                       ├─ assess (compare) ┤
//!  CRD of the bundle ───┘                   └──► custom resources that may be invalid
//!                                                  │ listed, page by page
//!                                                  └─ prepare (prune, default), validate ──► findings
//! ```
//!
//! Custom resources are read only if a change may invalidate them. Rules that cannot be evaluated here, CEL above all, are
//! reported.

mod compare;
mod crd;
mod existing_resources;
mod format;
mod pattern;
mod prune_defaults;
mod schema;
mod validate;
mod value_path;

use futures::{StreamExt, TryStreamExt, stream};
use kube::core::Request;
use manifests::{
    api::labels,
    names,
    object::{Object, get_path, text},
};
use serde_json::Value;

use self::{
    crd::{CrdAssessment, CrdSummary},
    existing_resources::ValidationReport,
};
use super::{Check, Finding, Findings, Input, access_review};

/// Maximum number of CRDs that are checked concurrently. Each check holds the schemas and a page of custom resources in
/// memory.
const MAX_CONCURRENT_CHECKS: usize = 4;
/// Maximum number of reported differences of one CRD.
const MAX_REPORTED: usize = 20;

/// Whether new versions of CustomResourceDefinitions are checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpgradeSafety {
    /// A new version that is not safe for existing custom resources is a problem.
    #[default]
    Enforced,
    /// New versions are not checked.
    Off,
}

/// Compares the CRDs of the plan that may exist with those in the cluster.
///
/// # Errors
/// Returns an error if the API server does not respond.
pub async fn check(
    input: &Input<'_>,
    may_exist: impl Fn(&Object) -> bool,
) -> Result<Findings, kube::Error> {
    if input.policy.crd_upgrade_safety == UpgradeSafety::Off {
        return Ok(Findings::default());
    }
    // The futures are created before they are awaited: a borrowing closure in the stream would make the whole future not
    // Send.
    let checks: Vec<_> = input
        .plan
        .steps
        .iter()
        .map(|step| &step.object)
        .filter(|object| is_definition(object) && !is_exempt(object) && may_exist(object))
        .map(|object| check_crd(input, object))
        .collect();
    let mut all: Findings = stream::iter(checks)
        .buffered(input.concurrency.clamp(1, MAX_CONCURRENT_CHECKS))
        .try_fold(Findings::default(), async |mut all, findings| {
            all.merge(findings);
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
        // The API server rejects every other name, which must not become part of a URL.
        && names::dns_subdomain(object.name()).is_ok()
}

/// Reports whether the annotation of the CRD disables the check.
fn is_exempt(object: &Object) -> bool {
    let annotation = &["metadata", "annotations", labels::SAFE_CRD_UPGRADE];
    text(object.value(), annotation) == Some("false")
}

/// Compares two forms of a CustomResourceDefinition, without its custom resources. Pure; no I/O.
pub fn compared(live: &Value, incoming: &Object) -> Findings {
    let (live, new) = (CrdSummary::read(live), CrdSummary::read(incoming.value()));
    let assessment = crd::assess(&live, &new);
    let mut findings = Findings::default();
    report_assessment(incoming.name(), &assessment, &mut findings);
    findings
}

async fn check_crd(input: &Input<'_>, object: &Object) -> Result<Findings, kube::Error> {
    let name = object.name();
    let Some(live) = get_live(input, name).await? else {
        return Ok(Findings::default());
    };
    // A terminating CRD is deleted with its custom resources, independent of later changes.
    if get_path(&live, &["metadata", "deletionTimestamp"]).is_some() {
        return Ok(Findings::default());
    }
    let incoming = object.value().clone();
    let (crd, mut assessment) = tokio::task::spawn_blocking(move || {
        let crd = CrdSummary::read(&live);
        let assessment = crd::assess(&crd, &CrdSummary::read(&incoming));
        (crd, assessment)
    })
    .await
    .map_err(|error| kube::Error::Service(Box::new(error)))?;
    let mut findings = Findings::default();
    for target in std::mem::take(&mut assessment.targets) {
        let report = existing_resources::check(input.client, &crd, target).await?;
        report_resources(name, report, &mut findings);
    }
    report_assessment(name, &assessment, &mut findings);
    Ok(findings)
}

/// Returns the CRD in the cluster.
async fn get_live(input: &Input<'_>, name: &str) -> Result<Option<Value>, kube::Error> {
    let request = Request::new("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .get(name, &kube::api::GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    access_review::optional(access_review::with_timeout(input.own.request(request)).await)
}

/// Reports the assessment of a CRD. The custom resources must be reported before.
fn report_assessment(name: &str, assessment: &CrdAssessment, findings: &mut Findings) {
    if !assessment.problems.is_empty() {
        let problems = join_limited(&assessment.problems, assessment.more);
        findings.problems.push(problem(format!(
            "validating upgrade for CRD {name:?} failed: {problems}. Install a bundle version that keeps the fields \
             and versions in use, or, if they are not needed, set spec.preflight.crdUpgradeSafety: Off, or annotation \
             {SAFE}: \"false\" on the CRD",
            SAFE = labels::SAFE_CRD_UPGRADE,
        )));
    }
    if !assessment.unchecked.is_empty() {
        findings.warnings.push(problem(format!(
            "upgrade of CRD {name:?}: new rules that were not checked against existing custom resources: {}",
            join_limited(&assessment.unchecked, 0)
        )));
    }
    if !assessment.notes.is_empty() {
        findings.warnings.push(problem(format!(
            "upgrade of CRD {name:?}: {}",
            join_limited(&assessment.notes, 0)
        )));
    }
    if !findings.problems.is_empty() {
        findings.unsafe_definitions.insert(name.to_owned());
    }
}

fn report_resources(name: &str, report: ValidationReport, findings: &mut Findings) {
    let unsafe_because = |reason: &str| {
        problem(format!(
            "failed to validate safety of UPDATE for CRD {name:?} (NOTE: to disable this validation, set the \
             {SAFE:?} annotation to \"false\", or spec.preflight.crdUpgradeSafety to Off): {reason}",
            SAFE = labels::SAFE_CRD_UPGRADE,
        ))
    };
    if !report.failed.is_empty() {
        let more = report.failed_count.saturating_sub(report.failed.len());
        findings.problems.push(unsafe_because(&format!(
            "error validating existing CRs against new CRD's schema for {name:?}: {}",
            join_limited(&report.failed, more)
        )));
    }
    if let Some(reason) = report.unreadable {
        findings.problems.push(unsafe_because(&reason));
    }
    if let Some(reason) = report.incomplete {
        findings
            .warnings
            .push(problem(format!("upgrade of CRD {name:?}: {reason}")));
    }
    if report.invalid_before > 0 {
        findings.warnings.push(problem(format!(
            "upgrade of CRD {name:?}: {} custom resources are invalid under both the old and the new schema",
            report.invalid_before
        )));
    }
}

fn problem(message: String) -> Finding {
    Finding {
        check: Check::DefinitionUpgrade,
        message,
    }
}

/// Joins the first messages, and appends the number of omitted ones.
fn join_limited(messages: &[String], more: usize) -> String {
    let reported = messages.len().min(MAX_REPORTED);
    let mut parts: Vec<String> = messages.iter().take(reported).cloned().collect();
    let more = more + messages.len() - reported;
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}

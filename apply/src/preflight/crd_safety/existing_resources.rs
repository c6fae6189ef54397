//! Validation of existing custom resources, page by page, with the new schemas.

use std::sync::Arc;

use kube::{
    Client,
    api::{ListParams, ObjectList},
    core::Request,
};
use manifests::object::text;
use serde_json::Value;

use super::{
    crd::{CrdSummary, Target},
    prune_defaults::prepare,
    validate::validate,
};
use crate::preflight::access_review::with_timeout;

/// Page size of the list of custom resources. A page of the largest possible ones still fits into memory.
const PAGE_SIZE: u32 = 100;
/// Maximum number of validated custom resources of one version.
const MAX_RESOURCES: usize = 100_000;
/// Maximum number of reported failures.
const MAX_REPORTED: usize = 5;

/// Result of the validation.
#[derive(Debug, Default)]
pub(super) struct ValidationReport {
    /// Failures: `existing custom object <namespace>/<name> failed validation for new schema version <version>: …`.
    pub(super) failed: Vec<String>,
    /// Number of all failures.
    pub(super) failed_count: usize,
    /// Number of custom resources that the old schema rejects as well.
    pub(super) invalid_before: usize,
    /// Reason why some custom resources were not validated; `None` if all were.
    pub(super) incomplete: Option<String>,
    /// Reason why no custom resource could be validated, with the remedy; otherwise `None`.
    pub(super) unreadable: Option<String>,
}

/// Lists the custom resources in the target's version and validates them.
pub(super) async fn check(
    client: &Client,
    crd: &CrdSummary,
    target: Target,
) -> Result<ValidationReport, kube::Error> {
    let (group, plural, version) = (&crd.group, &crd.plural, &target.version);
    let resources = Request::new(format!("/apis/{group}/{version}/{plural}"));
    let version = version.clone();
    let target = Arc::new(target);
    let mut report = ValidationReport::default();
    let mut params = ListParams::default().limit(PAGE_SIZE);
    let mut checked_count = 0;
    loop {
        let request = resources.list(&params).map_err(kube::Error::BuildRequest)?;
        let page = match with_timeout(client.request::<ObjectList<Value>>(request)).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(report),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                report.unreadable = Some(format!(
                    "failed to check the custom resources of version {version}: {}; allow `list` on {plural}.{group}",
                    status.message
                ));
                return Ok(report);
            }
            // The operator's conversion webhook does not run. The upgrade may fix it, which only an admin can decide.
            Err(kube::Error::Api(status)) if status.message.contains("conversion webhook") => {
                report.unreadable = Some(format!(
                    "failed to check the custom resources of version {version}: {}; make sure that the conversion \
                     webhook is running",
                    status.message
                ));
                return Ok(report);
            }
            Err(error) => return Err(error),
        };
        checked_count += page.items.len();
        let next = page.metadata.continue_;
        let checked = Arc::clone(&target);
        let page_report = tokio::task::spawn_blocking(move || {
            let mut report = ValidationReport::default();
            for item in &page.items {
                validate_resource(item, &checked, &mut report);
            }
            report
        })
        .await
        .map_err(|error| kube::Error::Service(Box::new(error)))?;
        report.add(page_report);
        match next.filter(|next| !next.is_empty()) {
            Some(_) if checked_count >= MAX_RESOURCES => {
                report.incomplete = Some(format!(
                    "only the first {checked_count} custom resources of version {version} were checked"
                ));
                return Ok(report);
            }
            Some(next) => params = params.continue_token(&next),
            None => return Ok(report),
        }
    }
}

impl ValidationReport {
    fn add(&mut self, more: Self) {
        self.failed_count += more.failed_count;
        self.invalid_before += more.invalid_before;
        let remaining = MAX_REPORTED.saturating_sub(self.failed.len());
        self.failed.extend(more.failed.into_iter().take(remaining));
    }
}

/// Validates one custom resource.
fn validate_resource(item: &Value, target: &Target, report: &mut ValidationReport) {
    for schema in &target.new {
        let mut prepared = item.clone();
        let lost = prepare(&mut prepared, &schema.schema);
        let mut errors = validate(&prepared, &schema.schema);
        if schema.preserves_unknown {
            errors.extend(
                lost.iter().map(|field| {
                    format!("{field}: the value would be lost because the new schema does not declare this field")
                }),
            );
        }
        if errors.is_empty() {
            continue;
        }
        let mut before = item.clone();
        prepare(&mut before, &target.old);
        if !validate(&before, &target.old).is_empty() {
            report.invalid_before += 1;
            return;
        }
        report.failed_count += 1;
        if report.failed.len() < MAX_REPORTED {
            report.failed.push(format!(
                "existing custom object {} failed validation for new schema version {}: {}",
                name(item),
                schema.version,
                errors.join(", ")
            ));
        }
        return;
    }
}

fn name(item: &Value) -> String {
    let string = |key| text(item, &["metadata", key]).unwrap_or_default();
    match string("namespace") {
        "" => string("name").to_owned(),
        namespace => format!("{namespace}/{}", string("name")),
    }
}

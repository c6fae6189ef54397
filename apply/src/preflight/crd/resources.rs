//! Custom resources there are: listed page by page, and held against the schemas that are to come.

use std::sync::Arc;

use kube::{
    Client,
    api::{ListParams, ObjectList},
    core::Request,
};
use manifests::object::text;
use serde_json::Value;

use super::{
    definition::{Definition, Target},
    prepare::prepare,
    validate::validate,
};
use crate::preflight::ask::within;

/// How many custom resources are read at once. A page of the largest there can be still fits into memory.
const PAGE: u32 = 100;
/// How many custom resources of one version are looked at.
const MOST: usize = 100_000;
/// How many that fail are told.
const MAX_TOLD: usize = 5;

/// What became of the custom resources.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// `existing custom object <namespace>/<name> failed validation for new schema version <version>: …`.
    pub(super) failed: Vec<String>,
    /// How many fail in all.
    pub(super) failed_in_all: usize,
    /// How many were no better before.
    pub(super) invalid_before: usize,
    /// The reason why not all were looked at.
    pub(super) incomplete: Option<String>,
    /// The reason why none could be looked at, and what to do.
    pub(super) unreadable: Option<String>,
}

/// Lists the custom resources in the target's version and validates them.
pub(super) async fn check(
    client: &Client,
    definition: &Definition,
    target: Target,
) -> Result<Outcome, kube::Error> {
    let (group, plural, version) = (&definition.group, &definition.plural, &target.version);
    let resources = Request::new(format!("/apis/{group}/{version}/{plural}"));
    let version = version.clone();
    let target = Arc::new(target);
    let mut outcome = Outcome::default();
    let mut params = ListParams::default().limit(PAGE);
    let mut looked_at = 0;
    loop {
        let request = resources.list(&params).map_err(kube::Error::BuildRequest)?;
        let page = match within(client.request::<ObjectList<Value>>(request)).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(outcome),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                outcome.unreadable = Some(format!(
                    "the custom resources of version {version} cannot be checked: {}; allow `list` on {plural}.{group}",
                    status.message
                ));
                return Ok(outcome);
            }
            // The operator converts, and does not run. Its upgrade may be the cure, which only an admin can know.
            Err(kube::Error::Api(status)) if status.message.contains("conversion webhook") => {
                outcome.unreadable = Some(format!(
                    "the custom resources of version {version} cannot be checked: {}; make the conversion webhook work",
                    status.message
                ));
                return Ok(outcome);
            }
            Err(error) => return Err(error),
        };
        looked_at += page.items.len();
        let next = page.metadata.continue_;
        let checked = Arc::clone(&target);
        let found = tokio::task::spawn_blocking(move || {
            let mut outcome = Outcome::default();
            for item in &page.items {
                look_at(item, &checked, &mut outcome);
            }
            outcome
        })
        .await
        .map_err(|error| kube::Error::Service(Box::new(error)))?;
        outcome.add(found);
        match next.filter(|next| !next.is_empty()) {
            Some(_) if looked_at >= MOST => {
                outcome.incomplete = Some(format!(
                    "only the first {looked_at} custom resources of version {version} were looked at"
                ));
                return Ok(outcome);
            }
            Some(next) => params = params.continue_token(&next),
            None => return Ok(outcome),
        }
    }
}

impl Outcome {
    fn add(&mut self, more: Self) {
        self.failed_in_all += more.failed_in_all;
        self.invalid_before += more.invalid_before;
        let room = MAX_TOLD.saturating_sub(self.failed.len());
        self.failed.extend(more.failed.into_iter().take(room));
    }
}

/// Validates one custom resource.
fn look_at(item: &Value, target: &Target, outcome: &mut Outcome) {
    for wanted in &target.new {
        let mut prepared = item.clone();
        let lost = prepare(&mut prepared, &wanted.schema);
        let mut errors = validate(&prepared, &wanted.schema);
        if wanted.keeps {
            errors.extend(
                lost.iter().map(|field| {
                    format!("{field}: would be lost: the new schema has no such field")
                }),
            );
        }
        if errors.is_empty() {
            continue;
        }
        let mut before = item.clone();
        prepare(&mut before, &target.old);
        if !validate(&before, &target.old).is_empty() {
            outcome.invalid_before += 1;
            return;
        }
        outcome.failed_in_all += 1;
        if outcome.failed.len() < MAX_TOLD {
            outcome.failed.push(format!(
                "existing custom object {} failed validation for new schema version {}: {}",
                name(item),
                wanted.version,
                errors.join(", ")
            ));
        }
        return;
    }
}

fn name(item: &Value) -> String {
    let word = |key| text(item, &["metadata", key]).unwrap_or_default();
    match word("namespace") {
        "" => word("name").to_owned(),
        namespace => format!("{namespace}/{}", word("name")),
    }
}

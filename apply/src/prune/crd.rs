//! Pruning of a CRD, by policy and by its remaining custom resources.

use std::time::Duration;

use kube::{
    api::{GetParams, ListParams, ObjectList},
    core::Request,
};
use manifests::{
    api::labels,
    object::{Identity, text, truncate},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{PruneOutcome, Pruner};
use crate::discovery::ApiKind;
use crate::discovery::crd::PartialCrd;
use crate::plan::{DefinitionPolicy, is_annotated_keep};
use crate::ssa::apply_object::ObjectMetadata;
use crate::ssa::request::{ApiError, ResourcePath, collection, send};
use crate::ssa::{ApplyFailure, failure};

/// Maximum number of custom resources in a message.
const MAX_NAMED: usize = 5;
/// Number of custom resources that one list request returns.
const PAGE_SIZE: u32 = 500;
/// Maximum number of pages that are deleted before other work is due.
const MAX_PAGES: usize = 20;
/// Number of checks whether a CRD was deleted. Without custom resources that takes a moment, and waiting for it saves
/// another reconcile.
const MAX_ATTEMPTS: u32 = 8;

/// A page of custom resources with metadata only.
type Page = ObjectList<ObjectMetadata>;

impl Pruner<'_> {
    pub(super) async fn prune_crd(
        &self,
        path: &ResourcePath,
        metadata: &Value,
    ) -> Result<PruneOutcome, ApiError> {
        if self.policy == DefinitionPolicy::Retain {
            let reason =
                "is kept by spec.crdDeletionPolicy Retain; delete it manually if it is unused";
            return self.release(path, metadata, reason.to_owned()).await;
        }
        let request = || path.collection.get(&path.name, &GetParams::default());
        let crd: PartialCrd = send(self.apply.client, request).await?;
        let kind = crd.spec.listed().map(|version| crd.spec.kind(version));
        match (self.policy, kind) {
            (DefinitionPolicy::Delete, Some(kind)) => match self.clear(&kind).await? {
                CleanupOutcome::Empty => {}
                CleanupOutcome::Terminating(detail) => {
                    return Ok(PruneOutcome::Terminating(detail));
                }
                CleanupOutcome::Retained(reason) => {
                    return self.release(path, metadata, reason).await;
                }
                CleanupOutcome::Failed(failure) => return Ok(PruneOutcome::Failed(failure)),
            },
            (DefinitionPolicy::Delete, None) => {}
            (_, Some(kind)) => match self.usage(&kind).await {
                Ok(CrdUsage::No) => {}
                Ok(CrdUsage::Terminating(detail)) => return Ok(PruneOutcome::Terminating(detail)),
                // A list without custom resources needs no conversion, so some exist. The conversion webhook may have been
                // deleted with the bundle.
                Err(ApiError::Status(status)) if failure::is_conversion(&status) => {
                    let reason = format!(
                        "failed to read the remaining custom resources: {}; repair the conversion webhook of \
                         spec.conversion, then delete the custom resources and the CRD",
                        truncate(&status.message, 1024)
                    );
                    return self.release(path, metadata, reason).await;
                }
                Err(error) => return Err(error),
                Ok(CrdUsage::Yes(detail)) => {
                    let reason = format!(
                        "{detail}; delete them and then the CRD, or set spec.crdDeletionPolicy to Delete before you \
                         delete the BundleInstance"
                    );
                    return self.release(path, metadata, reason).await;
                }
            },
            (_, None) => {
                let reason = "no version is served, so custom resources cannot be counted; delete the CRD manually if \
                              it is unused";
                return self.release(path, metadata, reason.to_owned()).await;
            }
        }
        let outcome = self.delete(path, metadata).await?;
        self.apply.kinds.invalidate(&crd.spec.group);
        if matches!(outcome, PruneOutcome::Terminating(_)) {
            return self.wait_until_deleted(path, outcome).await;
        }
        Ok(outcome)
    }

    /// Waits a moment for the deletion of a CRD, which ends with a 404 error. Returns `outcome` if the CRD still
    /// exists.
    async fn wait_until_deleted(
        &self,
        path: &ResourcePath,
        outcome: PruneOutcome,
    ) -> Result<PruneOutcome, ApiError> {
        let mut wait = Duration::from_millis(20);
        for _ in 0..MAX_ATTEMPTS {
            sleep(wait).await;
            wait *= 2;
            path.metadata(self.apply.client).await?;
        }
        Ok(outcome)
    }

    /// Returns whether custom resources exist. Terminating ones are awaited if their operator is pruned after the CRD,
    /// because it still has to remove their finalizers.
    async fn usage(&self, kind: &ApiKind) -> Result<CrdUsage, ApiError> {
        let all = collection(kind, None);
        let mut token = None;
        let mut terminating: Vec<Value> = Vec::new();
        let mut remaining: Vec<Value> = Vec::new();
        let mut count = 0;
        for _ in 0..MAX_PAGES {
            let Some(page) = self.page(&all, token.as_deref()).await? else {
                break;
            };
            token = page.metadata.continue_.filter(|token| !token.is_empty());
            let unread = page.metadata.remaining_item_count;
            let unread = unread
                .and_then(|unread| unread.try_into().ok())
                .unwrap_or(0);
            let items = page.items.into_iter().map(|item| item.metadata);
            let (leaving, left): (Vec<_>, Vec<_>) = items.partition(is_terminating);
            count += left.len();
            remaining.extend(left.into_iter().take(MAX_NAMED - remaining.len()));
            if terminating.is_empty() {
                terminating = leaving;
            }
            let is_decided = if self.has_operator {
                !terminating.is_empty()
            } else {
                !remaining.is_empty()
            };
            if is_decided {
                count += unread;
            }
            if is_decided || token.is_none() {
                break;
            }
        }
        Ok(
            if !terminating.is_empty() && (self.has_operator || remaining.is_empty()) {
                CrdUsage::Terminating(describe_terminating(&terminating))
            } else if remaining.is_empty() {
                CrdUsage::No
            } else {
                CrdUsage::Yes(describe_remaining(count, &remaining, "left"))
            },
        )
    }

    /// Deletes all custom resources except those with the keep annotation. The annotation has no effect on one that is
    /// terminating already.
    async fn clear(&self, kind: &ApiKind) -> Result<CleanupOutcome, ApiError> {
        let all = collection(kind, None);
        let mut token = None;
        let mut retained: Vec<Value> = Vec::new();
        let mut terminating: Vec<Value> = Vec::new();
        for _ in 0..MAX_PAGES {
            let Some(page) = self.page(&all, token.as_deref()).await? else {
                break;
            };
            token = page.metadata.continue_.filter(|token| !token.is_empty());
            let items: Vec<Value> = page.items.into_iter().map(|item| item.metadata).collect();
            let (mut to_retain, items): (Vec<_>, Vec<_>) =
                items.into_iter().partition(|metadata| {
                    let annotations =
                        json!({"metadata": {"annotations": metadata.get("annotations")}});
                    !is_terminating(metadata) && is_annotated_keep(&annotations)
                });
            retained.append(&mut to_retain);
            let references: Vec<&Value> = items.iter().collect();
            let outcomes = self
                .apply
                .for_each_bounded(&references, |metadata| self.remove(kind, metadata))
                .await;
            for (metadata, outcome) in items.into_iter().zip(outcomes) {
                match outcome {
                    Some(Ok(true)) => {}
                    Some(Ok(false)) | None => terminating.push(metadata),
                    Some(Err(failure)) => return Ok(CleanupOutcome::Failed(failure)),
                }
            }
            if token.is_none() {
                break;
            }
        }
        Ok(if token.is_some() {
            CleanupOutcome::Terminating("many custom resources are still being deleted".to_owned())
        } else if !terminating.is_empty() {
            // A released CRD would let the removal continue with the operator.
            CleanupOutcome::Terminating(describe_terminating(&terminating))
        } else if !retained.is_empty() {
            CleanupOutcome::Retained(format!(
                "{}, kept by their annotation {}; delete them and then the CRD",
                describe_remaining(retained.len(), &retained, "left"),
                labels::KEEP
            ))
        } else {
            CleanupOutcome::Empty
        })
    }

    /// Deletes one custom resource and returns whether it no longer exists.
    async fn remove(&self, kind: &ApiKind, metadata: &Value) -> Result<bool, ApplyFailure> {
        let field = |name| text(metadata, &[name]).unwrap_or_default().to_owned();
        let identity = Identity {
            group: kind.resource.group.clone(),
            kind: kind.resource.kind.clone(),
            namespace: field("namespace"),
            name: field("name"),
        };
        if is_terminating(metadata) {
            return Ok(false);
        }
        let outcome = match ResourcePath::new(kind, &identity) {
            Ok(path) => self.delete(&path, metadata).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(outcome) => Ok(matches!(outcome, PruneOutcome::Deleted)),
            Err(error) if error.code() == Some(404) => Ok(true),
            // A new custom resource has the name; the next pass finds it.
            Err(error) if error.code() == Some(409) => Ok(false),
            Err(error) => Err(failure::classify(identity, &error)),
        }
    }

    /// Returns a page of objects of a kind; `None` if the kind is not served.
    async fn page(&self, all: &Request, token: Option<&str>) -> Result<Option<Page>, ApiError> {
        let mut params = ListParams::default().limit(PAGE_SIZE);
        if let Some(token) = token {
            params = params.continue_token(token);
        }
        match send(self.apply.client, || all.list_metadata(&params)).await {
            Ok(page) => Ok(Some(page)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether custom resources of a CRD exist.
enum CrdUsage {
    No,
    /// Some custom resources are terminating, and are awaited; the message lists them.
    Terminating(String),
    /// Custom resources exist; the message lists them.
    Yes(String),
}

/// Outcome of the deletion of all custom resources of a CRD.
enum CleanupOutcome {
    Empty,
    /// Some custom resources are terminating; the message lists them.
    Terminating(String),
    /// Some custom resources are kept, for this reason.
    Retained(String),
    Failed(ApplyFailure),
}

fn is_terminating(metadata: &Value) -> bool {
    metadata.get("deletionTimestamp").is_some()
}

/// Formats terminating custom resources, with the remedy for finalizers that are not removed.
fn describe_terminating(terminating: &[Value]) -> String {
    format!(
        "{}; make sure that the controllers of their finalizers run, or remove the finalizers",
        describe_remaining(terminating.len(), terminating, "being deleted")
    )
}

/// Formats custom resources: `3 custom resources are left (a/x, a/y, b/z)`.
fn describe_remaining(count: usize, some: &[Value], state: &str) -> String {
    let mut names: Vec<_> = some
        .iter()
        .take(MAX_NAMED)
        .map(|metadata| {
            let field = |name| text(metadata, &[name]).unwrap_or_default();
            let slash = if field("namespace").is_empty() {
                ""
            } else {
                "/"
            };
            let name = format!("{}{slash}{}", field("namespace"), field("name"));
            let finalizers = failure::finalizers(metadata);
            let name = truncate(&name, 128);
            if finalizers.is_empty() {
                name
            } else {
                format!("{name} [finalizers: {finalizers}]")
            }
        })
        .collect();
    if count > names.len() {
        names.push("…".to_owned());
    }
    let (plural, are) = if count == 1 { ("", "is") } else { ("s", "are") };
    format!(
        "{count} custom resource{plural} {are} {state} ({})",
        names.join(", ")
    )
}

//! Pruning: deletes objects that left the desired state, stage by stage, and releases objects that are kept.

mod crd;
mod release;

use std::{collections::BTreeMap, sync::Arc};

use kube::api::Preconditions;
use manifests::{
    api::labels,
    object::{get_path, text},
};
use serde_json::Value;

use crate::discovery::ApiKind;
use crate::plan::{
    DefinitionPolicy, InstanceOwner, PruneCandidate, PruneStage, definition_groups,
    is_annotated_keep,
};
use crate::ssa::apply_object::is_owned;
use crate::ssa::request::{ApiError, ResourcePath, retry_delay};
use crate::ssa::{Applier, ApplyFailure, PruneReport, failure};

/// Maximum number of attempts for an object that changes concurrently.
const MAX_ATTEMPTS: u32 = 5;

/// Outcome for one object.
enum PruneOutcome {
    Deleted,
    /// The object is terminating; the message names what it waits for, and is empty if that is unknown.
    Terminating(String),
    /// The object is kept in the cluster, for this reason.
    Released(String),
    /// The deletion of the object failed, or that of a custom resource of the CRD.
    Failed(ApplyFailure),
}

impl Applier<'_> {
    /// Deletes objects in order. Objects without the owner labels are not changed.
    ///
    /// Custom resources are deleted before their CRDs, and CRDs before the operators. A stage starts once the objects of
    /// the previous stage no longer exist. Objects in no list of the result were not changed.
    pub async fn prune(
        &self,
        leaving: &[PruneCandidate],
        owner: &InstanceOwner,
        policy: DefinitionPolicy,
    ) -> PruneReport {
        let groups = definition_groups(leaving);
        let mut stages: BTreeMap<PruneStage, Vec<&PruneCandidate>> = BTreeMap::new();
        for leaving in leaving {
            let stage = PruneStage::for_object(&leaving.identity, &groups);
            stages.entry(stage).or_default().push(leaving);
        }
        let is_operator = |stage: &PruneStage| {
            PruneStage::Definitions < *stage && *stage < PruneStage::Namespaces
        };
        let pruner = Pruner {
            apply: self,
            owner,
            policy,
            orphans: false,
            has_operator: stages.keys().any(is_operator),
        };
        let mut pruned = PruneReport::default();
        for (stage, leaving) in stages {
            let outcomes = self
                .for_each_bounded(&leaving, |leaving| pruner.prune_object(stage, leaving))
                .await;
            for (leaving, outcome) in leaving.iter().zip(outcomes) {
                let identity = leaving.identity.clone();
                match outcome {
                    Some(Ok(PruneOutcome::Deleted)) => pruned.deleted.push(identity),
                    Some(Ok(PruneOutcome::Terminating(detail))) => {
                        if !detail.is_empty() {
                            pruned.waiting_for.insert(identity.clone(), detail);
                        }
                        pruned.terminating.push(identity);
                    }
                    Some(Ok(PruneOutcome::Released(reason))) => {
                        pruned.released.insert(identity, reason);
                    }
                    Some(Ok(PruneOutcome::Failed(failure)) | Err(failure)) => {
                        pruned.failed.push(failure);
                    }
                    None => {}
                }
            }
            // The operator that removes finalizers must run until the custom resources are deleted.
            let blocks_next_stage =
                stage <= PruneStage::Definitions && !pruned.terminating.is_empty();
            if blocks_next_stage || !pruned.failed.is_empty() {
                break;
            }
        }
        pruned
    }

    /// Removes the owner reference from all objects that an orphaning deletion of the owner keeps, and returns the
    /// failures.
    pub async fn orphan(
        &self,
        leaving: &[PruneCandidate],
        owner: &InstanceOwner,
    ) -> Vec<ApplyFailure> {
        let pruner = Pruner {
            apply: self,
            owner,
            policy: DefinitionPolicy::Retain,
            orphans: true,
            has_operator: false,
        };
        let leaving: Vec<&PruneCandidate> = leaving.iter().collect();
        let outcomes = self
            .for_each_bounded(&leaving, |leaving| {
                pruner.prune_object(PruneStage::Namespaces, leaving)
            })
            .await;
        let outcomes = leaving.iter().zip(outcomes);
        let failed = outcomes.map(|(leaving, outcome)| match outcome {
            Some(Ok(PruneOutcome::Failed(failure)) | Err(failure)) => Some(failure),
            Some(Ok(_)) => None,
            None => Some(failure::classify(
                leaving.identity.clone(),
                &ApiError::Timeout,
            )),
        });
        failed.flatten().collect()
    }
}

/// Action of pruning for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The object no longer belongs to the owner, for this reason: nothing is written.
    Leave(&'static str),
    /// The object is terminating already.
    Wait,
    /// The object is kept and loses its ownership marks, for this reason.
    Release(String),
    /// The CustomResourceDefinition is deleted, unless the policy keeps it.
    DeleteDefinition,
    /// The object is deleted.
    Delete,
}

/// Decides the action of pruning for an object, by its metadata. Pure; no I/O.
pub fn decide(
    stage: PruneStage,
    owner: &InstanceOwner,
    policy: DefinitionPolicy,
    metadata: &Value,
) -> Decision {
    if !is_owned(metadata, owner) {
        return Decision::Leave("no longer has the owner labels of this BundleInstance");
    }
    // A CRD that another client deletes may wait forever for its custom resources, so a retained one is released at once.
    let is_retained = stage == PruneStage::Definitions && policy == DefinitionPolicy::Retain;
    if metadata.get("deletionTimestamp").is_some() && !is_retained {
        return Decision::Wait;
    }
    if is_annotated_keep(
        &serde_json::json!({"metadata": {"annotations": metadata.get("annotations")}}),
    ) {
        return Decision::Release(format!(
            "is kept because of its annotation {}",
            labels::KEEP
        ));
    }
    let has_no_reference = matches!(stage, PruneStage::Namespaces | PruneStage::Definitions);
    if !has_no_reference && !is_referred_to(owner, metadata) {
        // The garbage collector leaves an object in this state if the owner is deleted with `--cascade=orphan`.
        return Decision::Leave(
            "no longer refers to this BundleInstance as its owner; delete the object if it is not needed",
        );
    }
    match stage {
        PruneStage::Namespaces => Decision::Release(
            "Namespaces are never deleted because they may contain other objects; delete it manually if it is unused"
                .to_owned(),
        ),
        PruneStage::Definitions => Decision::DeleteDefinition,
        _ => Decision::Delete,
    }
}

/// Reports whether an owner reference with the uid of the owner exists.
fn is_referred_to(owner: &InstanceOwner, metadata: &Value) -> bool {
    let all = metadata.get("ownerReferences").and_then(Value::as_array);
    let mut all = all.into_iter().flatten();
    all.any(|reference| text(reference, &["uid"]) == Some(owner.uid.as_str()))
}

/// Prunes objects of one owner.
struct Pruner<'a> {
    apply: &'a Applier<'a>,
    owner: &'a InstanceOwner,
    policy: DefinitionPolicy,
    /// Whether all objects are orphaned instead of deleted.
    orphans: bool,
    /// Whether objects are pruned after the CRDs, such as the operator that removes finalizers.
    has_operator: bool,
}

impl Pruner<'_> {
    async fn prune_object(
        &self,
        stage: PruneStage,
        leaving: &PruneCandidate,
    ) -> Result<PruneOutcome, ApplyFailure> {
        let identity = &leaving.identity;
        let Some(kind) = self.kind(leaving).await? else {
            return Ok(PruneOutcome::Deleted);
        };
        let to_failure = |error| failure::classify(identity.clone(), &error);
        let path = ResourcePath::new(&kind, identity).map_err(to_failure)?;
        let _permit = self.apply.permits.acquire().await;
        let mut attempt = 1;
        loop {
            match self.step(stage, &path).await {
                Err(error) if error.code() == Some(404) => return Ok(PruneOutcome::Deleted),
                // The object was replaced or changed since its metadata was read.
                Err(error) if error.code() == Some(409) && attempt < MAX_ATTEMPTS => {
                    retry_delay(attempt).await;
                    attempt += 1;
                }
                outcome => {
                    let outcome = outcome
                        .map_err(to_failure)
                        .unwrap_or_else(PruneOutcome::Failed);
                    return Ok(self.add_remedy(stage, outcome));
                }
            }
        }
    }

    /// Adds the alternative to the deletion of a CRD: to keep the CRD.
    fn add_remedy(&self, stage: PruneStage, outcome: PruneOutcome) -> PruneOutcome {
        const REMEDY: &str =
            "; or set spec.crdDeletionPolicy to Retain to keep the CRD with its custom resources";
        if stage != PruneStage::Definitions || self.policy == DefinitionPolicy::Retain {
            return outcome;
        }
        match outcome {
            PruneOutcome::Terminating(detail) => PruneOutcome::Terminating(detail + REMEDY),
            PruneOutcome::Failed(failure) => PruneOutcome::Failed(ApplyFailure {
                message: failure.message + REMEDY,
                ..failure
            }),
            other => other,
        }
    }

    /// Returns the served kind of an object; `None` if the kind, and with it all its objects, no longer exists.
    async fn kind(&self, leaving: &PruneCandidate) -> Result<Option<Arc<ApiKind>>, ApplyFailure> {
        let identity = &leaving.identity;
        let found = self.apply.kinds.find_any(leaving.gvk()).await;
        found.map_err(|error| failure::classify(identity.clone(), &ApiError::Client(error)))
    }

    async fn step(&self, stage: PruneStage, path: &ResourcePath) -> Result<PruneOutcome, ApiError> {
        let metadata = &path.metadata(self.apply.client).await?;
        if self.orphans && is_owned(metadata, self.owner) {
            return self.orphan(path, metadata).await;
        }
        match decide(stage, self.owner, self.policy, metadata) {
            Decision::Leave(reason) => Ok(PruneOutcome::Released(reason.to_owned())),
            Decision::Wait => Ok(terminating_outcome(metadata)),
            Decision::Release(reason) => self.release(path, metadata, reason).await,
            Decision::DeleteDefinition => self.prune_crd(path, metadata).await,
            Decision::Delete => self.delete(path, metadata).await,
        }
    }

    async fn delete(
        &self,
        path: &ResourcePath,
        metadata: &Value,
    ) -> Result<PruneOutcome, ApiError> {
        let preconditions = Preconditions {
            uid: text(metadata, &["uid"]).map(str::to_owned),
            resource_version: None,
        };
        let answer = path.delete(self.apply.client, preconditions).await?;
        Ok(match answer.get("metadata") {
            Some(metadata) if metadata.get("uid").is_some() => terminating_outcome(metadata),
            _ => PruneOutcome::Deleted,
        })
    }
}

/// Returns the outcome for a terminating object.
fn terminating_outcome(metadata: &Value) -> PruneOutcome {
    let finalizers = get_path(metadata, &["finalizers"]).and_then(Value::as_array);
    if finalizers.is_none_or(Vec::is_empty) {
        // For example a Pod in its grace period, which is then deleted without further action.
        return PruneOutcome::Deleted;
    }
    PruneOutcome::Terminating(format!(
        "is being deleted and waits for its finalizers ({}); make sure that the controllers of these finalizers run, \
         or remove the finalizers",
        failure::finalizers(metadata)
    ))
}

//! Deleting what leaves, stage by stage, and releasing what stays.

mod definition;
mod release;

use std::{collections::BTreeMap, sync::Arc};

use kube::api::Preconditions;
use manifests::{
    api::labels,
    object::{at, text},
};
use serde_json::Value;

use super::{
    Apply, Failure, Pruned, failure,
    object::is_owned,
    request::{Address, Trouble, pause},
};
use crate::{
    discovery::Kind,
    plan::{DefinitionPolicy, Exit, Leaving, Owner, definition_groups, is_kept},
};

/// How often an object that changes at the same time is looked at.
const ATTEMPTS: u32 = 5;

/// What became of one object.
enum Fate {
    Deleted,
    /// For what, where that is known.
    Going(String),
    /// Why.
    Released(String),
    /// Another object is in the way.
    Failed(Failure),
}

impl Apply<'_> {
    /// Deletes what leaves, in order. Only what still carries the owner's labels is touched.
    ///
    /// Custom resources are deleted before their definitions, and definitions before the operators. A stage starts once the
    /// objects of the stage before do not exist. Objects in no list of the result are untouched.
    pub async fn prune(
        &self,
        leaving: &[Leaving],
        owner: &Owner,
        policy: DefinitionPolicy,
    ) -> Pruned {
        let groups = definition_groups(leaving);
        let mut stages: BTreeMap<Exit, Vec<&Leaving>> = BTreeMap::new();
        for leaving in leaving {
            let stage = Exit::of(&leaving.identity, &groups);
            stages.entry(stage).or_default().push(leaving);
        }
        let prune = Prune {
            apply: self,
            owner,
            policy,
            orphans: false,
        };
        let mut pruned = Pruned::default();
        for (stage, leaving) in stages {
            let outcomes = self
                .each(&leaving, |leaving| prune.one(stage, leaving))
                .await;
            for (leaving, outcome) in leaving.iter().zip(outcomes) {
                let identity = leaving.identity.clone();
                match outcome {
                    Some(Ok(Fate::Deleted)) => pruned.deleted.push(identity),
                    Some(Ok(Fate::Going(what))) => {
                        if !what.is_empty() {
                            pruned.waiting_for.insert(identity.clone(), what);
                        }
                        pruned.going.push(identity);
                    }
                    Some(Ok(Fate::Released(why))) => {
                        pruned.released.insert(identity, why);
                    }
                    Some(Ok(Fate::Failed(failure)) | Err(failure)) => pruned.failed.push(failure),
                    None => {}
                }
            }
            // The operator that removes finalizers has to run until the custom resources are deleted.
            let is_awaited = stage <= Exit::Definitions && !pruned.going.is_empty();
            if is_awaited || !pruned.failed.is_empty() {
                break;
            }
        }
        pruned
    }

    /// Removes the owner reference from all objects that the owner leaves behind, and returns the failures.
    pub async fn orphan(&self, leaving: &[Leaving], owner: &Owner) -> Vec<Failure> {
        let prune = Prune {
            apply: self,
            owner,
            policy: DefinitionPolicy::Retain,
            orphans: true,
        };
        let leaving: Vec<&Leaving> = leaving.iter().collect();
        let outcomes = self
            .each(&leaving, |leaving| prune.one(Exit::Namespaces, leaving))
            .await;
        let outcomes = leaving.iter().zip(outcomes);
        let failed = outcomes.map(|(leaving, outcome)| match outcome {
            Some(Ok(Fate::Failed(failure)) | Err(failure)) => Some(failure),
            Some(Ok(_)) => None,
            None => Some(failure::of(leaving.identity.clone(), &Trouble::Timeout)),
        });
        failed.flatten().collect()
    }
}

/// What pruning does with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The object no longer belongs to the owner, for this reason: nothing is written.
    Leave(&'static str),
    /// The object is being deleted already.
    Wait,
    /// The object is kept and loses its ownership marks, for this reason.
    Release(String),
    /// The CustomResourceDefinition is deleted, unless the policy keeps it.
    DeleteDefinition,
    /// The object is deleted.
    Delete,
}

/// Decides what pruning does with an object, by its metadata. Pure; no I/O.
pub fn decide(stage: Exit, owner: &Owner, policy: DefinitionPolicy, metadata: &Value) -> Decision {
    if !is_owned(metadata, owner) {
        return Decision::Leave("no longer carries the owner labels of this BundleInstance");
    }
    // A definition that somebody else deletes may wait for its custom resources for ever.
    let is_retained = stage == Exit::Definitions && policy == DefinitionPolicy::Retain;
    if metadata.get("deletionTimestamp").is_some() && !is_retained {
        return Decision::Wait;
    }
    if is_kept(&serde_json::json!({"metadata": {"annotations": metadata.get("annotations")}})) {
        return Decision::Release(format!("is kept as its annotation {} says", labels::KEEP));
    }
    let has_no_reference = matches!(stage, Exit::Namespaces | Exit::Definitions);
    if !has_no_reference && !is_referred_to(owner, metadata) {
        // As the garbage collector leaves it when the owner is deleted with `--cascade=orphan`.
        return Decision::Leave(
            "no longer refers to this BundleInstance as its owner; delete the object if it is not needed",
        );
    }
    match stage {
        Exit::Namespaces => Decision::Release(
            "is kept, because a Namespace may have objects of other clients; delete the Namespace if it is not needed"
                .to_owned(),
        ),
        Exit::Definitions => Decision::DeleteDefinition,
        _ => Decision::Delete,
    }
}

/// Reports whether a reference says that an object is the owner's, this very one's.
fn is_referred_to(owner: &Owner, metadata: &Value) -> bool {
    let all = metadata.get("ownerReferences").and_then(Value::as_array);
    let mut all = all.into_iter().flatten();
    all.any(|reference| text(reference, &["uid"]) == Some(owner.uid.as_str()))
}

/// Deleting for one owner.
struct Prune<'a> {
    apply: &'a Apply<'a>,
    owner: &'a Owner,
    policy: DefinitionPolicy,
    /// Nothing is deleted, and everything let go.
    orphans: bool,
}

impl Prune<'_> {
    async fn one(&self, stage: Exit, leaving: &Leaving) -> Result<Fate, Failure> {
        let identity = &leaving.identity;
        let Some(kind) = self.kind(leaving).await? else {
            return Ok(Fate::Deleted);
        };
        let trouble = |trouble| failure::of(identity.clone(), &trouble);
        let address = Address::of(&kind, identity).map_err(trouble)?;
        let _permit = self.apply.permits.acquire().await;
        let mut attempt = 1;
        loop {
            match self.step(stage, &address).await {
                Err(trouble) if trouble.code() == Some(404) => return Ok(Fate::Deleted),
                // Replaced or changed since it was looked at.
                Err(trouble) if trouble.code() == Some(409) && attempt < ATTEMPTS => {
                    pause(attempt).await;
                    attempt += 1;
                }
                outcome => {
                    let fate = outcome.map_err(trouble).unwrap_or_else(Fate::Failed);
                    return Ok(self.with_remedy(stage, fate));
                }
            }
        }
    }

    /// Whoever cannot wait for a definition may leave it where it is.
    fn with_remedy(&self, stage: Exit, fate: Fate) -> Fate {
        const REMEDY: &str = "; or set spec.crdDeletionPolicy to Retain, so that it stays, with its custom resources";
        if stage != Exit::Definitions || self.policy == DefinitionPolicy::Retain {
            return fate;
        }
        match fate {
            Fate::Going(what) => Fate::Going(what + REMEDY),
            Fate::Failed(failure) => Fate::Failed(Failure {
                message: failure.message + REMEDY,
                ..failure
            }),
            other => other,
        }
    }

    /// How to address it; `None`: its kind is gone, and all objects with it.
    async fn kind(&self, leaving: &Leaving) -> Result<Option<Arc<Kind>>, Failure> {
        let identity = &leaving.identity;
        let found = self.apply.kinds.find_any(leaving.gvk()).await;
        found.map_err(|error| failure::of(identity.clone(), &Trouble::Client(error)))
    }

    async fn step(&self, stage: Exit, address: &Address) -> Result<Fate, Trouble> {
        let metadata = &address.metadata(self.apply.client).await?;
        if self.orphans && is_owned(metadata, self.owner) {
            return self.orphan(address, metadata).await;
        }
        match decide(stage, self.owner, self.policy, metadata) {
            Decision::Leave(why) => Ok(Fate::Released(why.to_owned())),
            Decision::Wait => Ok(on_its_way(metadata)),
            Decision::Release(why) => self.release(address, metadata, why).await,
            Decision::DeleteDefinition => self.definition(address, metadata).await,
            Decision::Delete => self.delete(address, metadata).await,
        }
    }

    async fn delete(&self, address: &Address, metadata: &Value) -> Result<Fate, Trouble> {
        let preconditions = Preconditions {
            uid: text(metadata, &["uid"]).map(str::to_owned),
            resource_version: None,
        };
        let answer = address.delete(self.apply.client, preconditions).await?;
        Ok(match answer.get("metadata") {
            Some(metadata) if metadata.get("uid").is_some() => on_its_way(metadata),
            _ => Fate::Deleted,
        })
    }
}

/// Of an object that is being deleted.
fn on_its_way(metadata: &Value) -> Fate {
    let finalizers = at(metadata, &["finalizers"]).and_then(Value::as_array);
    if finalizers.is_none_or(Vec::is_empty) {
        // Pods have a while to end.
        return Fate::Deleted;
    }
    Fate::Going(format!(
        "is being deleted and waits for its finalizers ({}); see to it that whoever acts on them runs, or remove them",
        failure::finalizers(metadata)
    ))
}

//! Writing what was decided: only what differs, over what was seen and over nothing else.
//!
//! What cannot be written is no secret: the log says why, once for each reason, and a metric for how long. It holds up
//! nothing else, and is tried again.
//!
//! A ClusterOperator that blocks upgrades must not outlive the product. So those that are made here belong to the system
//! namespace: the install file has it, and with it they are deleted by Kubernetes, whoever else is still there to do it.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::events::EventType,
};
use manifests::api::{
    config::{ClusterOperator, ClusterOperatorSpec, ClusterOperatorStatus},
    platform_status::{NAME, Platform, PlatformStatus, PlatformStatusSpec},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tracing::{debug, info, warn};

use super::{
    Shared,
    decide::{Decided, Report, Written},
};
use crate::platform::{
    aggregate::{AGGREGATED, CORE},
    gate::Verdict,
};
use apply::backoff::Pauses;

/// Whose status is written.
pub(super) trait Reported:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned
{
    type Status: PartialEq + Clone + Default;

    fn named(name: &str) -> Self;
    fn status(&self) -> Option<&Self::Status>;
    fn set_status(&mut self, status: Self::Status);
    /// Status and reason of its condition Upgradeable.
    fn upgradeable(status: &Self::Status) -> Option<(&str, &str)>;
}

/// What was written last, and what the API server has made of it: a definition of others may drop what it does not know.
#[derive(Debug)]
pub(super) struct Slot<S> {
    written: Option<S>,
    stored: Option<S>,
}

/// Of each object.
#[derive(Debug, Default)]
pub(super) struct Memory {
    aggregated: Slot<ClusterOperatorStatus>,
    core: Slot<ClusterOperatorStatus>,
    platform: Slot<Platform>,
    troubles: Troubles,
}

/// What could not be done last, by the object's name.
#[derive(Debug, Default)]
struct Troubles {
    said: BTreeMap<&'static str, String>,
    pauses: Pauses,
}

/// What could not be done; it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what} {name}: {source}")]
pub(super) struct Error {
    what: &'static str,
    name: String,
    #[source]
    source: Box<kube::Error>,
}

// === impl Memory ===

impl Memory {
    /// What was written last.
    pub(super) fn written(&self) -> Written {
        Written {
            aggregated: self.aggregated.written.clone(),
            core: self.core.written.clone(),
            platform: self.platform.written.clone(),
        }
    }
}

impl<S> Default for Slot<S> {
    fn default() -> Self {
        Self {
            written: None,
            stored: None,
        }
    }
}

// === impl Reported ===

impl Reported for ClusterOperator {
    type Status = ClusterOperatorStatus;

    fn named(name: &str) -> Self {
        Self::new(name, ClusterOperatorSpec {})
    }

    fn status(&self) -> Option<&ClusterOperatorStatus> {
        self.status.as_ref()
    }

    fn set_status(&mut self, status: ClusterOperatorStatus) {
        self.status = Some(status);
    }

    fn upgradeable(status: &ClusterOperatorStatus) -> Option<(&str, &str)> {
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|it| it.type_ == UPGRADEABLE)?;
        let reason = condition.reason.as_deref();
        Some((&condition.status, reason.unwrap_or_default()))
    }
}

impl Reported for PlatformStatus {
    type Status = Platform;

    fn named(name: &str) -> Self {
        Self::new(name, PlatformStatusSpec {})
    }

    fn status(&self) -> Option<&Platform> {
        self.status.as_ref()
    }

    fn set_status(&mut self, status: Platform) {
        self.status = Some(status);
    }

    fn upgradeable(status: &Platform) -> Option<(&str, &str)> {
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|it| it.type_ == UPGRADEABLE)?;
        Some((&condition.status, &condition.reason))
    }
}

const UPGRADEABLE: &str = "Upgradeable";

// === impl Shared ===

impl Shared {
    /// Writes what differs. Tells how long to wait where something of it could not be written.
    pub(super) async fn publish(&self, decided: &Decided, memory: &mut Memory) -> Option<Duration> {
        let done = match &decided.report {
            Report::Nowhere => return None,
            Report::ClusterOperators { aggregated, core } => {
                let verdict = &decided.verdict;
                let done = self.write_aggregated(aggregated, verdict, memory).await;
                let is_done = self.settle(AGGREGATED, done, memory);
                let done = self.write_core(core, memory).await;
                let is_done = self.settle(CORE, done, memory) && is_done;
                match self.remove_platform_status().await {
                    Ok(()) => {
                        self.ctx.metrics.no_report(NAME);
                        is_done
                    }
                    failed => self.settle(NAME, failed.map(|()| true), memory) && is_done,
                }
            }
            Report::PlatformStatus(status) => {
                let done = self.write_platform(status, &decided.verdict, memory).await;
                self.settle(NAME, done.map(|()| true), memory)
            }
        };
        if done {
            return None;
        }
        memory.troubles.pauses.next()
    }

    /// Tells what cannot be written, and since when. True if it was, or there is nothing that can be done about it here.
    fn settle(&self, name: &'static str, done: Result<bool, Error>, memory: &mut Memory) -> bool {
        let said = &mut memory.troubles.said;
        self.ctx.metrics.report(name, matches!(done, Ok(true)));
        let Err(error) = done else {
            if said.remove(name).is_some() {
                info!(name, "what is concluded can be written again");
            }
            return true;
        };
        let is_race = matches!(&*error.source, kube::Error::Api(status) if status.code == 409);
        let error = error.to_string();
        if is_race {
            // What is there has just been changed, and is looked at again.
            debug!(error, "what is concluded was not written");
        } else if said.get(name) != Some(&error) {
            warn!(
                error,
                "what is concluded cannot be written; it is tried again"
            );
            said.insert(name, error);
        }
        false
    }

    /// Reports whether there is such a ClusterOperator to write to.
    async fn write_aggregated(
        &self,
        status: &ClusterOperatorStatus,
        verdict: &Verdict,
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        let there = self.facts().aggregated.get(AGGREGATED).cloned();
        let Some(there) = self.cluster_operator(AGGREGATED, there).await? else {
            return Ok(false);
        };
        let before = self.write(&there, status, &mut memory.aggregated).await?;
        self.tell(&there, before.as_ref(), verdict).await;
        Ok(true)
    }

    async fn write_core(
        &self,
        status: &ClusterOperatorStatus,
        memory: &mut Memory,
    ) -> Result<bool, Error> {
        let there = self.facts().core.get(CORE).cloned();
        let Some(there) = self.cluster_operator(CORE, there).await? else {
            return Ok(false);
        };
        self.write(&there, status, &mut memory.core).await?;
        Ok(true)
    }

    async fn write_platform(
        &self,
        status: &Platform,
        verdict: &Verdict,
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let there = self.facts().status.get(NAME).cloned();
        let there = match there {
            Some(there) => there,
            None => self.create(PlatformStatus::named(NAME)).await?,
        };
        let before = self.write(&there, status, &mut memory.platform).await?;
        self.tell(&there, before.as_ref(), verdict).await;
        Ok(())
    }

    /// The ClusterOperator, which is made where there is none, unless the cluster-version operator makes it; and which
    /// belongs to the system namespace where it is ours.
    async fn cluster_operator(
        &self,
        name: &str,
        there: Option<ClusterOperator>,
    ) -> Result<Option<ClusterOperator>, Error> {
        if self.ctx.settings.release_payload {
            return Ok(there);
        }
        let Some(there) = there else {
            let mut made = ClusterOperator::named(name);
            made.metadata.owner_references = Some(vec![self.owner().await?]);
            return Ok(Some(self.create(made).await?));
        };
        if !there.owner_references().is_empty() {
            return Ok(Some(there));
        }
        match self.own(name, &there).await {
            Ok(owned) => Ok(Some(owned)),
            Err(error) => {
                // What it says counts for more than what becomes of it later.
                warn!(%error, "a ClusterOperator stays when the product goes; give the provisioner the rights of its file");
                Ok(Some(there))
            }
        }
    }

    /// Gives it to the system namespace.
    async fn own(&self, name: &str, there: &ClusterOperator) -> Result<ClusterOperator, Error> {
        let patch = json!({"metadata": {
            "uid": there.uid(),
            "resourceVersion": there.resource_version(),
            "ownerReferences": [self.owner().await?],
        }});
        let api = self.api::<ClusterOperator>();
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.map_err(error_on::<ClusterOperator>("write the owner of", name))
    }

    /// The system namespace, as owner.
    async fn owner(&self) -> Result<OwnerReference, Error> {
        let name = &self.ctx.settings.system_namespace;
        let namespace = self.api::<Namespace>().get_metadata(name).await;
        let namespace = namespace.map_err(error_on::<Namespace>("read", name))?;
        Ok(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            name: name.clone(),
            uid: namespace.uid().unwrap_or_default(),
            ..OwnerReference::default()
        })
    }

    async fn create<K: Reported>(&self, object: K) -> Result<K, Error> {
        let name = object.name_any();
        let made = self.api().create(&PostParams::default(), &object).await;
        let made = made.map_err(error_on::<K>("create", &name))?;
        info!(kind = %K::kind(&()), name, "created");
        Ok(made)
    }

    /// Writes a status if it differs, and tells what there was if it did.
    async fn write<K: Reported>(
        &self,
        there: &K,
        status: &K::Status,
        slot: &mut Slot<K::Status>,
    ) -> Result<Option<K::Status>, Error> {
        let before = there.status().cloned().unwrap_or_default();
        let is_same = before == *status;
        if is_same
            || (slot.written.as_ref() == Some(status) && slot.stored.as_ref() == Some(&before))
        {
            slot.written = Some(status.clone());
            return Ok(None);
        }
        let name = there.name_any();
        let mut object = K::named(&name);
        // Over what was seen: whoever has changed it since is not overwritten before that was looked at.
        *object.meta_mut() = ObjectMeta {
            name: Some(name.clone()),
            uid: there.uid(),
            resource_version: there.resource_version(),
            ..ObjectMeta::default()
        };
        object.set_status(status.clone());
        let params = PostParams::default();
        let written = self.api().replace_status(&name, &params, &object).await;
        let written = written.map_err(error_on::<K>("write the status of", &name))?;
        slot.written = Some(status.clone());
        slot.stored = written.status().cloned();
        Ok(Some(before))
    }

    /// Tells people when it has become another thing whether the cluster may be upgraded. `before` is the status that was
    /// written over, if one was.
    async fn tell<K: Reported>(&self, about: &K, before: Option<&K::Status>, verdict: &Verdict) {
        let Some(before) = before else {
            return;
        };
        let is = if verdict.is_upgradeable {
            "True"
        } else {
            "False"
        };
        let is_news = match K::upgradeable(before) {
            Some(was) => was != (is, verdict.reason),
            None => !verdict.is_upgradeable,
        };
        if !is_news {
            return;
        }
        info!(
            upgradeable = is,
            reason = verdict.reason,
            "the gate has changed"
        );
        let type_ = if verdict.is_upgradeable {
            EventType::Normal
        } else {
            EventType::Warning
        };
        let about = about.object_ref(&());
        let events = &self.ctx.events;
        events
            .publish(&about, type_, verdict.reason, UPGRADEABLE, &verdict.message)
            .await;
    }

    /// There is one gate, and where there are ClusterOperators it is not that of the PlatformStatus.
    async fn remove_platform_status(&self) -> Result<(), Error> {
        let is_there = self.facts().status.get(NAME).is_some();
        if !is_there {
            return Ok(());
        }
        let api = self.api::<PlatformStatus>();
        match api.delete(NAME, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted
                .map(|_| ())
                .map_err(error_on::<PlatformStatus>("delete", NAME)),
        }
    }

    fn api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.ctx.accounts.hasty().clone())
    }
}

fn error_on<K: Resource<DynamicType = ()>>(
    what: &'static str,
    name: &str,
) -> impl FnOnce(kube::Error) -> Error + use<K> {
    let name = format!("{} {name}", K::kind(&()));
    move |source| Error {
        what,
        name,
        source: Box::new(source),
    }
}

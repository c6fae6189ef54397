//! Writes the statuses that differ, only over the observed version of an object.
//!
//! A failed write is logged once per reason and retried. A metric shows for how long writes fail. Other writes are not
//! delayed.
//!
//! A ClusterOperator that blocks upgrades must not outlive the product. So created ClusterOperators are owned by the system
//! namespace, which is part of the install file: Kubernetes deletes them with it, even if no provisioner runs.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::object::HasStatus,
    runtime::events::EventType,
};
use manifests::api::{
    config::{ClusterOperator, ClusterOperatorSpec, ClusterOperatorStatus},
    platform_status::{NAME, PlatformStatus, PlatformStatusSpec, PlatformStatusStatus},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tracing::{debug, info, warn};

use super::{
    controller::AggregatorState,
    decide::{Decision, LastStatuses, StatusTarget},
    model::{AGGREGATED, CORE},
    upgradeable::UpgradeAssessment,
};
use apply::{api_error, backoff::WatchBackoff};

/// Kind of an object whose status is written.
pub(crate) trait StatusObject:
    HasStatus<Status: PartialEq + Clone + Default>
    + Resource<DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
    /// Returns the status and the reason of the condition Upgradeable.
    fn upgradeable(status: &Self::Status) -> Option<(&str, &str)>;
}

/// Last written status, and the status that the API server stored: a CRD of another product may drop unknown fields.
#[derive(Debug)]
pub(crate) struct WrittenStatus<S> {
    written: Option<S>,
    stored: Option<S>,
}

/// State of the written objects.
#[derive(Debug, Default)]
pub(crate) struct PublishState {
    aggregated: WrittenStatus<ClusterOperatorStatus>,
    core: WrittenStatus<ClusterOperatorStatus>,
    platform: WrittenStatus<PlatformStatusStatus>,
    errors: WriteErrors,
}

/// Errors of the last writes, by name of the object.
#[derive(Debug, Default)]
struct WriteErrors {
    messages: BTreeMap<&'static str, String>,
    backoff: WatchBackoff,
}

/// Error of a request, which is retried.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what} {name}: {}", api_error::chain(.source))]
pub(crate) struct Error {
    what: &'static str,
    name: String,
    #[source]
    source: Box<kube::Error>,
}

// === impl PublishState ===

impl PublishState {
    /// Returns the last written statuses.
    pub(crate) fn written(&self) -> LastStatuses {
        LastStatuses {
            aggregated: self.aggregated.written.clone(),
            core: self.core.written.clone(),
            platform: self.platform.written.clone(),
        }
    }
}

impl<S> Default for WrittenStatus<S> {
    fn default() -> Self {
        Self {
            written: None,
            stored: None,
        }
    }
}

// === impl StatusObject ===

impl StatusObject for ClusterOperator {
    fn upgradeable(status: &ClusterOperatorStatus) -> Option<(&str, &str)> {
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|condition| condition.type_ == UPGRADEABLE)?;
        let reason = condition.reason.as_deref();
        Some((&condition.status, reason.unwrap_or_default()))
    }
}

impl StatusObject for PlatformStatus {
    fn upgradeable(status: &PlatformStatusStatus) -> Option<(&str, &str)> {
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|condition| condition.type_ == UPGRADEABLE)?;
        Some((&condition.status, &condition.reason))
    }
}

const UPGRADEABLE: &str = "Upgradeable";

// === impl AggregatorState ===

impl AggregatorState {
    /// Writes the statuses that differ. Returns the delay until the retry if one of the writes failed.
    pub(super) async fn publish(
        &self,
        decided: &Decision,
        state: &mut PublishState,
    ) -> Option<Duration> {
        let done = match &decided.report {
            StatusTarget::None => return None,
            StatusTarget::ClusterOperators { aggregated, core } => {
                let verdict = &decided.verdict;
                let done = self.write_aggregated(aggregated, verdict, state).await;
                let is_done = self.record_result(AGGREGATED, done, state);
                let done = self.write_core(core, state).await;
                let is_done = self.record_result(CORE, done, state) && is_done;
                match self.remove_platform_status().await {
                    Ok(()) => {
                        self.ctx.metrics.no_report(NAME);
                        is_done
                    }
                    failed => self.record_result(NAME, failed.map(|()| true), state) && is_done,
                }
            }
            StatusTarget::PlatformStatus(status) => {
                let done = self.write_platform(status, &decided.verdict, state).await;
                self.record_result(NAME, done.map(|()| true), state)
            }
        };
        if done {
            return None;
        }
        state.errors.backoff.next()
    }

    /// Logs a failed write, and records it in a metric. Returns false if a retry is required.
    fn record_result(
        &self,
        name: &'static str,
        done: Result<bool, Error>,
        state: &mut PublishState,
    ) -> bool {
        let messages = &mut state.errors.messages;
        self.ctx.metrics.report(name, matches!(done, Ok(true)));
        let Err(error) = done else {
            if messages.remove(name).is_some() {
                info!(name, "platform operator status updated again");
            }
            return true;
        };
        let is_race = matches!(&*error.source, kube::Error::Api(status) if status.code == 409);
        let error = error.to_string();
        if is_race {
            // The object has just been changed, and its change causes another evaluation.
            debug!(
                error,
                "platform operator status not updated because its object changed"
            );
        } else if messages.get(name) != Some(&error) {
            warn!(
                error,
                "failed to update the platform operator status; retrying"
            );
            messages.insert(name, error);
        }
        false
    }

    /// Writes the status of the aggregated ClusterOperator. Returns false if the object does not exist.
    async fn write_aggregated(
        &self,
        status: &ClusterOperatorStatus,
        verdict: &UpgradeAssessment,
        state: &mut PublishState,
    ) -> Result<bool, Error> {
        let live = self.facts().aggregated.get(AGGREGATED).cloned();
        let Some(live) = self.cluster_operator(AGGREGATED, live).await? else {
            return Ok(false);
        };
        let before = self.write(&live, status, &mut state.aggregated).await?;
        self.publish_change(&live, before.as_ref(), verdict).await;
        Ok(true)
    }

    async fn write_core(
        &self,
        status: &ClusterOperatorStatus,
        state: &mut PublishState,
    ) -> Result<bool, Error> {
        let live = self.facts().core.get(CORE).cloned();
        let Some(live) = self.cluster_operator(CORE, live).await? else {
            return Ok(false);
        };
        self.write(&live, status, &mut state.core).await?;
        Ok(true)
    }

    async fn write_platform(
        &self,
        status: &PlatformStatusStatus,
        verdict: &UpgradeAssessment,
        state: &mut PublishState,
    ) -> Result<(), Error> {
        let live = self.facts().status.get(NAME).cloned();
        let live = match live {
            Some(live) => live,
            None => {
                self.create(PlatformStatus::new(NAME, PlatformStatusSpec {}))
                    .await?
            }
        };
        let before = self.write(&live, status, &mut state.platform).await?;
        self.publish_change(&live, before.as_ref(), verdict).await;
        Ok(())
    }

    /// Returns the ClusterOperator. If it does not exist, it is created unless the cluster-version operator creates it. An
    /// object without an owner gets the system namespace as its owner.
    async fn cluster_operator(
        &self,
        name: &str,
        live: Option<ClusterOperator>,
    ) -> Result<Option<ClusterOperator>, Error> {
        if self.ctx.settings.release_payload {
            return Ok(live);
        }
        let Some(live) = live else {
            let mut created = ClusterOperator::new(name, ClusterOperatorSpec {});
            created.metadata.owner_references = Some(vec![self.owner().await?]);
            return Ok(Some(self.create(created).await?));
        };
        if !live.owner_references().is_empty() {
            return Ok(Some(live));
        }
        match self.set_owner(name, &live).await {
            Ok(owned) => Ok(Some(owned)),
            Err(error) => {
                // The status is more important than the deletion of the object.
                warn!(%error, "failed to set the owner of a ClusterOperator, which is therefore kept when rukpak is \
                               uninstalled; grant the provisioner the permissions of its install manifest");
                Ok(Some(live))
            }
        }
    }

    /// Sets the system namespace as the owner of a ClusterOperator.
    async fn set_owner(
        &self,
        name: &str,
        live: &ClusterOperator,
    ) -> Result<ClusterOperator, Error> {
        let patch = json!({"metadata": {
            "uid": live.uid(),
            "resourceVersion": live.resource_version(),
            "ownerReferences": [self.owner().await?],
        }});
        let api = self.api::<ClusterOperator>();
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.map_err(error_on::<ClusterOperator>("set the owner of", name))
    }

    /// Returns an owner reference to the system namespace.
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

    async fn create<K: StatusObject>(&self, object: K) -> Result<K, Error> {
        let name = object.name_any();
        let created = self.api().create(&PostParams::default(), &object).await;
        let created = created.map_err(error_on::<K>("create", &name))?;
        info!(kind = %K::kind(&()), name, "created");
        Ok(created)
    }

    /// Writes a status if it differs. Returns the previous status if it was written.
    async fn write<K: StatusObject>(
        &self,
        live: &K,
        status: &K::Status,
        slot: &mut WrittenStatus<K::Status>,
    ) -> Result<Option<K::Status>, Error> {
        let before = live.status().cloned().unwrap_or_default();
        let is_same = before == *status;
        if is_same
            || (slot.written.as_ref() == Some(status) && slot.stored.as_ref() == Some(&before))
        {
            slot.written = Some(status.clone());
            return Ok(None);
        }
        let name = live.name_any();
        let mut object = live.clone();
        // With the observed resourceVersion, so that a later change by another client is not overwritten before it was
        // evaluated.
        *object.meta_mut() = ObjectMeta {
            name: Some(name.clone()),
            uid: live.uid(),
            resource_version: live.resource_version(),
            ..ObjectMeta::default()
        };
        *object.status_mut() = Some(status.clone());
        let params = PostParams::default();
        let written = self.api().replace_status(&name, &params, &object).await;
        let written = written.map_err(error_on::<K>("write the status of", &name))?;
        slot.written = Some(status.clone());
        slot.stored = written.status().cloned();
        Ok(Some(before))
    }

    /// Publishes an event if the gate has changed. `before` is the status that was replaced, if one was.
    async fn publish_change<K: StatusObject>(
        &self,
        about: &K,
        before: Option<&K::Status>,
        verdict: &UpgradeAssessment,
    ) {
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
            "Upgradeable changed"
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

    /// Deletes the PlatformStatus of a cluster with ClusterOperators, since only one gate may exist.
    async fn remove_platform_status(&self) -> Result<(), Error> {
        let exists = self.facts().status.get(NAME).is_some();
        if !exists {
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
        Api::all(self.ctx.clients.client_without_retry().clone())
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

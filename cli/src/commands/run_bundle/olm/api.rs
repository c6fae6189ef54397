//! Client for OLM's objects, and waiting for their state.

use std::{fmt::Debug, time::Duration};

use anyhow::anyhow;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
    core::{ApiResource, DynamicObject},
};
use manifests::api::{
    catalog_source::CatalogSource,
    olm::{ClusterServiceVersion, InstallPlan, OperatorGroup, Subscription},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::super::deadline::Deadline;
use crate::{
    cluster::{Cluster, FIELD_MANAGER},
    commands::upgrade_check::cluster_state::each,
};

/// Timeout of one watch request, in seconds.
const WATCH_TIMEOUT: u32 = 45;
/// Interval between two checks without a change.
const POLL_INTERVAL: Duration = Duration::from_secs(15);
/// Minimum interval between two checks.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Delay after a failed watch request.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Number of objects per list page. A ClusterServiceVersion may have a megabyte.
const PAGE_SIZE: u32 = 50;

/// A kind of OLM.
pub(super) trait OlmObject:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + 'static
{
    /// Label selector for lists and watches.
    const SELECTOR: Option<&'static str> = None;
}

impl OlmObject for CatalogSource {}
impl OlmObject for InstallPlan {}
impl OlmObject for OperatorGroup {}
impl OlmObject for Subscription {}
impl OlmObject for ClusterServiceVersion {
    // Without the copies in other namespaces.
    const SELECTOR: Option<&'static str> = Some("!olm.copiedFrom");
}

/// Client for the objects of OLM.
#[derive(Clone, Copy)]
pub(super) struct Olm<'a>(pub(super) &'a Cluster);

impl Olm<'_> {
    pub(super) fn api<K: OlmObject>(self, namespace: &str) -> Api<K> {
        Api::namespaced(self.0.client.clone(), namespace)
    }

    /// Returns a stream with an item for every change of the objects in a namespace, without copied ClusterServiceVersions.
    pub(super) fn changes<K: OlmObject>(self, namespace: &str) -> BoxStream<'static, ()> {
        let params = WatchParams {
            label_selector: K::SELECTOR.map(str::to_owned),
            ..WatchParams::default()
        };
        watch_changes(self.api::<K>(namespace), params)
    }

    /// Reads an object; `None` if it does not exist, or if the name is empty.
    pub(super) async fn find<K: OlmObject>(
        self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Option<K>> {
        if name.is_empty() {
            return Ok(None);
        }
        let found = self.api::<K>(namespace).get_opt(name).await;
        found.map_err(|error| {
            let doing = format!("failed to read {} {name}", K::kind(&()));
            self.0.explain(doing, error)
        })
    }

    /// Lists the objects of a namespace, without copied ClusterServiceVersions.
    pub(super) async fn list<K: OlmObject>(self, namespace: &str) -> anyhow::Result<Vec<K>> {
        let listed = list_objects(&self.api::<K>(namespace)).await;
        listed.map_err(|error| self.list_error::<K>(error))
    }

    /// Lists the objects of all namespaces. The inner error is the message of the server if the user may not list them.
    pub(super) async fn list_all_namespaces<K: OlmObject>(
        self,
    ) -> anyhow::Result<Result<Vec<K>, String>> {
        match list_objects(&Api::<K>::all(self.0.client.clone())).await {
            Ok(found) => Ok(Ok(found)),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Err(status.message)),
            Err(error) => Err(self.list_error::<K>(error)),
        }
    }

    fn list_error<K: OlmObject>(self, error: kube::Error) -> anyhow::Error {
        let doing = format!("failed to list {}s", K::kind(&()));
        self.0.explain(doing, error)
    }

    /// Creates an object and returns it as the server stored it. An existing object is an error.
    pub(super) async fn create<K: OlmObject>(self, object: Value) -> anyhow::Result<K> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let (client, resource) = (self.0.client.clone(), ApiResource::erase::<K>(&()));
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        let created = api.create(&params, &object).await.map_err(|error| {
            let (remedy, name) = (remedy::<K>(&error), object.name_any());
            let doing = format!("failed to create {} {name}", K::kind(&()));
            let error = self.0.explain(doing, error);
            match remedy {
                Some(remedy) => anyhow!("{error:#}; {remedy}"),
                None => error,
            }
        })?;
        Ok(created.try_parse()?)
    }

    /// Changes fields of an object. Returns false if another client changes it at the same time, or has changed it since the
    /// resourceVersion of the patch.
    pub(super) async fn change<K: OlmObject>(
        self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> anyhow::Result<bool> {
        let params = PatchParams::apply(FIELD_MANAGER);
        let api = self.api::<K>(namespace);
        match api.patch(name, &params, &Patch::Merge(patch)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => {
                let doing = format!("failed to change {} {name}", K::kind(&()));
                Err(self.0.explain(doing, error))
            }
        }
    }

    /// Deletes an object.
    pub(super) async fn delete<K: OlmObject>(
        self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<()> {
        let api = self.api::<K>(namespace);
        if let Err(error) = api.delete(name, &DeleteParams::default()).await
            && !Cluster::is_absent(&error)
        {
            let doing = format!("delete {} {name:?}", K::kind(&()).to_lowercase());
            return Err(self.0.explain(doing, error));
        }
        Ok(())
    }
}

/// Returns the remedy if the cluster rejects an object that OLM would accept. rukpak's CRDs, if installed before OLM,
/// require a source in each CatalogSource.
fn remedy<K: OlmObject>(error: &kube::Error) -> Option<&'static str> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    (K::kind(&()) == "CatalogSource" && status.code == 422).then_some(
        "the CRD of CatalogSources is not OLM's, or of an incompatible release; apply the file crds.yaml of OLM's release \
         with \"kubectl apply --server-side --force-conflicts -f crds.yaml\", and run the same command again",
    )
}

async fn list_objects<K: OlmObject>(api: &Api<K>) -> kube::Result<Vec<K>> {
    let params = ListParams {
        label_selector: K::SELECTOR.map(str::to_owned),
        limit: Some(PAGE_SIZE),
        ..ListParams::default()
    };
    let mut found = Vec::new();
    each(api, params, |object| found.push(object)).await?;
    Ok(found)
}

/// Returns a stream with an item for every change of the object with this name.
pub(super) fn changes<K>(api: Api<K>, name: &str) -> BoxStream<'static, ()>
where
    K: Clone + DeserializeOwned + Debug + Send + 'static,
{
    let params = WatchParams {
        field_selector: Some(format!("metadata.name={name}")),
        ..WatchParams::default()
    };
    watch_changes(api, params)
}

fn watch_changes<K>(api: Api<K>, params: WatchParams) -> BoxStream<'static, ()>
where
    K: Clone + DeserializeOwned + Debug + Send + 'static,
{
    let params = params.timeout(WATCH_TIMEOUT);
    let watches = stream::unfold((api, params), async |(api, params)| {
        let watch: BoxStream<'static, ()> = if let Ok(events) = api.watch(&params, "0").await {
            events.map(drop).boxed()
        } else {
            sleep(RETRY_DELAY).await;
            stream::once(std::future::ready(())).boxed()
        };
        Some((watch, (api, params)))
    });
    watches.flatten().boxed()
}

/// Calls `check` at once, after every change, and at intervals, until it returns a value. Returns `None` at the deadline,
/// even if the server does not respond.
pub(super) async fn wait_for<T>(
    changes: impl IntoIterator<Item = BoxStream<'static, ()>>,
    deadline: Deadline,
    mut check: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    // One check is enough for any number of changes.
    let mut changes = stream::select_all(changes).ready_chunks(1000);
    loop {
        let Some(result) = deadline.within(Box::pin(check())).await else {
            return Ok(None);
        };
        if let Some(found) = result? {
            return Ok(Some(found));
        }
        let remaining = deadline.remaining();
        if remaining.is_zero() {
            return Ok(None);
        }
        let _ = timeout(remaining.min(POLL_INTERVAL), changes.next()).await;
        sleep(remaining.min(MIN_POLL_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[test]
    fn rejected_catalog_source_has_a_remedy() {
        let api = |code: u16| crate::testing::refused(serde_json::json!({"code": code}));
        ::tests::assert_rows! {
            remedy::<CatalogSource>(&api(422)).is_some() => true;
            remedy::<CatalogSource>(&api(403)).is_some() => false;
            remedy::<Subscription>(&api(422)).is_some() => false;
            remedy::<CatalogSource>(&kube::Error::LinesCodecMaxLineLengthExceeded).is_some() => false;
        }
    }

    #[tokio::test]
    async fn deadline_ends_the_wait_for_an_unresponsive_server() {
        let result = wait_for([], Deadline::after(Duration::from_millis(10)), async || {
            pending::<anyhow::Result<Option<()>>>().await
        });
        assert!(result.await.unwrap().is_none());
    }
}

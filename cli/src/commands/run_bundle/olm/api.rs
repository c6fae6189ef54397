//! Client for OLM's objects, and waiting for their state.

use std::time::Duration;

use anyhow::anyhow;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    CatalogSource,
    Subscription,
    InstallPlan,
    ClusterServiceVersion,
    OperatorGroup,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CatalogSource => "CatalogSource",
            Self::Subscription => "Subscription",
            Self::InstallPlan => "InstallPlan",
            Self::ClusterServiceVersion => "ClusterServiceVersion",
            Self::OperatorGroup => "OperatorGroup",
        }
    }

    fn resource(self) -> ApiResource {
        let version = match self {
            Self::OperatorGroup => "v1",
            _ => "v1alpha1",
        };
        let kind = GroupVersionKind::gvk("operators.coreos.com", version, self.name());
        let plural = format!("{}s", self.name().to_lowercase());
        ApiResource::from_gvk_with_plural(&kind, &plural)
    }

    /// Returns the label selector for lists and watches. It excludes ClusterServiceVersions that OLM copied from other
    /// namespaces.
    fn originals(self) -> Option<&'static str> {
        (self == Self::ClusterServiceVersion).then_some("!olm.copiedFrom")
    }

    fn params(self) -> ListParams {
        ListParams {
            label_selector: self.originals().map(str::to_owned),
            ..ListParams::default()
        }
    }
}

/// Client for the objects of OLM.
#[derive(Clone, Copy)]
pub(super) struct Olm<'a>(pub(super) &'a Cluster);

impl Olm<'_> {
    pub(super) fn api(self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.0.client.clone(), namespace, &kind.resource())
    }

    /// Returns a stream with an item for every change of the objects in a namespace, without copied ClusterServiceVersions.
    pub(super) fn changes(self, kind: Kind, namespace: &str) -> BoxStream<'static, ()> {
        let params = WatchParams {
            label_selector: kind.originals().map(str::to_owned),
            ..WatchParams::default()
        };
        watch_changes(self.api(kind, namespace), params)
    }

    pub(super) async fn find(
        self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Option<Value>> {
        let found = self.api(kind, namespace).get_opt(name).await;
        let found = found.map_err(|error| {
            self.0
                .explain(format!("failed to read {} {name}", kind.name()), error)
        })?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// Lists the objects of a namespace, without copied ClusterServiceVersions.
    pub(super) async fn list(self, kind: Kind, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let found = list_objects(&self.api(kind, namespace), kind.params()).await;
        values(found.map_err(|error| self.unlisted(kind, error))?)
    }

    /// Lists the objects of all namespaces, each converted by `convert`. The inner error is the message of the server if
    /// the user may not list them.
    pub(super) async fn list_all_namespaces<T>(
        self,
        kind: Kind,
        mut convert: impl FnMut(Value) -> T,
    ) -> anyhow::Result<Result<Vec<T>, String>> {
        let api = Api::all_with(self.0.client.clone(), &kind.resource());
        let mut found = Vec::new();
        let collect =
            |object: DynamicObject| found.push(serde_json::to_value(object).map(&mut convert));
        match each(&api, kind.params().limit(PAGE_SIZE), collect).await {
            Ok(()) => Ok(Ok(found.into_iter().collect::<Result<_, _>>()?)),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Err(status.message)),
            Err(error) => Err(self.unlisted(kind, error)),
        }
    }

    fn unlisted(self, kind: Kind, error: kube::Error) -> anyhow::Error {
        self.0
            .explain(format!("failed to list {}s", kind.name()), error)
    }

    /// Creates an object and returns it as the server stored it. An existing object is an error.
    pub(super) async fn create(self, kind: Kind, object: Value) -> anyhow::Result<Value> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let name = object.metadata.name.clone().unwrap_or_default();
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let created = self.api(kind, &namespace).create(&params, &object).await;
        let created = created.map_err(|error| {
            let remedy = remedy(kind, &error);
            let doing = format!("failed to create {} {name}", kind.name());
            let error = self.0.explain(doing, error);
            match remedy {
                Some(remedy) => anyhow!("{error:#}; {remedy}"),
                None => error,
            }
        })?;
        Ok(serde_json::to_value(created)?)
    }

    /// Changes some fields of an object, regardless of its other fields.
    pub(super) async fn change(
        self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> anyhow::Result<Value> {
        let changed = self.patch(kind, namespace, name, patch).await;
        let changed = changed.map_err(|error| {
            self.0
                .explain(format!("failed to change {} {name}", kind.name()), error)
        })?;
        Ok(serde_json::to_value(changed)?)
    }

    /// Changes an object as it was read. Returns `None` if another client has changed it since. The patch has its
    /// resourceVersion.
    pub(super) async fn change_unchanged(
        self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> anyhow::Result<Option<Value>> {
        match self.patch(kind, namespace, name, patch).await {
            Ok(changed) => Ok(Some(serde_json::to_value(changed)?)),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(self
                .0
                .explain(format!("failed to change {} {name}", kind.name()), error)),
        }
    }

    async fn patch(
        self,
        kind: Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> kube::Result<DynamicObject> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(kind, namespace);
        api.patch(name, &params, &Patch::Merge(patch)).await
    }

    /// Deletes an object, and returns whether it existed.
    pub(super) async fn delete(
        self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<bool> {
        let deleted = self
            .api(kind, namespace)
            .delete(name, &DeleteParams::default())
            .await;
        match deleted {
            Ok(_) => Ok(true),
            Err(error) if Cluster::is_absent(&error) => Ok(false),
            Err(error) => Err(self.0.explain(
                format!("delete {} {name:?}", kind.name().to_lowercase()),
                error,
            )),
        }
    }
}

/// Returns the remedy if the cluster rejects an object that OLM would accept. rukpak's CRDs, if installed before OLM,
/// require a source in each CatalogSource.
fn remedy(kind: Kind, error: &kube::Error) -> Option<&'static str> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    (kind == Kind::CatalogSource && status.code == 422).then_some(
        "the CRD of CatalogSources is not OLM's, or of an incompatible release; apply the file crds.yaml of OLM's release \
         with \"kubectl apply --server-side --force-conflicts -f crds.yaml\", and run the same command again",
    )
}

async fn list_objects(
    api: &Api<DynamicObject>,
    params: ListParams,
) -> kube::Result<Vec<DynamicObject>> {
    let mut found = Vec::new();
    each(api, params.limit(PAGE_SIZE), |object| found.push(object)).await?;
    Ok(found)
}

fn values(objects: Vec<DynamicObject>) -> anyhow::Result<Vec<Value>> {
    let values = objects.into_iter().map(serde_json::to_value);
    Ok(values.collect::<Result<Vec<Value>, _>>()?)
}

/// Returns a stream with an item for every change of the object with this name.
pub(super) fn changes<K>(api: Api<K>, name: &str) -> BoxStream<'static, ()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let params = WatchParams {
        field_selector: Some(format!("metadata.name={name}")),
        ..WatchParams::default()
    };
    watch_changes(api, params)
}

fn watch_changes<K>(api: Api<K>, params: WatchParams) -> BoxStream<'static, ()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
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
        for (kind, error, expected) in ::tests::rows![
            Kind::CatalogSource, api(422) => true;
            Kind::CatalogSource, api(403) => false;
            Kind::Subscription, api(422) => false;
            Kind::CatalogSource, kube::Error::LinesCodecMaxLineLengthExceeded => false;
        ] {
            assert_eq!(remedy(kind, &error).is_some(), expected, "{error}");
        }
    }

    #[tokio::test]
    async fn deadline_ends_the_wait_for_an_unresponsive_server() {
        let deadline = Deadline::after(Duration::from_millis(10));
        let result = wait_for([], deadline, async || {
            pending::<anyhow::Result<Option<()>>>().await
        });
        assert!(result.await.unwrap().is_none());
    }
}

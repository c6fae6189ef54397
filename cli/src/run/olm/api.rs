//! OLM's objects in the cluster, and waiting for what becomes of them.

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
    cluster::{Cluster, MANAGER},
    upgrade::read::each,
};

/// How long the server is asked to go on with one watch.
const TURN: u32 = 45;
/// Between two looks: as long as nothing changes, and at least.
const TICK: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(100);
/// After a watch that could not be had.
const AGAIN: Duration = Duration::from_secs(1);
/// How many objects are in a page: a ClusterServiceVersion may have a megabyte.
const PAGE: u32 = 50;

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

    /// Which of them are listed and watched: ClusterServiceVersions that OLM has copied are no others.
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

/// OLM, as far as it is its objects.
#[derive(Clone, Copy)]
pub(super) struct Olm<'a>(pub(super) &'a Cluster);

impl Olm<'_> {
    pub(super) fn of(self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.0.client.clone(), namespace, &kind.resource())
    }

    /// Something for every change of those of a namespace; of ClusterServiceVersions those that are not copies.
    pub(super) fn changes(self, kind: Kind, namespace: &str) -> BoxStream<'static, ()> {
        let params = WatchParams {
            label_selector: kind.originals().map(str::to_owned),
            ..WatchParams::default()
        };
        watched(self.of(kind, namespace), params)
    }

    pub(super) async fn find(
        self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Option<Value>> {
        let found = self.of(kind, namespace).get_opt(name).await;
        let found = found.map_err(|error| {
            self.0
                .trouble(format!("failed to read {} {name}", kind.name()), error)
        })?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// All of a namespace; of ClusterServiceVersions those that are not copies.
    pub(super) async fn list(self, kind: Kind, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let found = listed(&self.of(kind, namespace), kind.params()).await;
        values(found.map_err(|error| self.unlisted(kind, error))?)
    }

    /// The same of the cluster, as much of each as is kept; where one may not look at all of it, what the server says to that.
    pub(super) async fn everywhere<T>(
        self,
        kind: Kind,
        mut keep: impl FnMut(Value) -> T,
    ) -> anyhow::Result<Result<Vec<T>, String>> {
        let api = Api::all_with(self.0.client.clone(), &kind.resource());
        let mut found = Vec::new();
        let see = |it: DynamicObject| found.push(serde_json::to_value(it).map(&mut keep));
        match each(&api, kind.params().limit(PAGE), see).await {
            Ok(()) => Ok(Ok(found.into_iter().collect::<Result<_, _>>()?)),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Err(status.message)),
            Err(error) => Err(self.unlisted(kind, error)),
        }
    }

    fn unlisted(self, kind: Kind, error: kube::Error) -> anyhow::Error {
        self.0
            .trouble(format!("failed to list {}s", kind.name()), error)
    }

    /// Creates an object and returns what it is in the cluster; one that is there already is an error.
    pub(super) async fn create(self, kind: Kind, object: Value) -> anyhow::Result<Value> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let name = object.metadata.name.clone().unwrap_or_default();
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let created = self.of(kind, &namespace).create(&params, &object).await;
        let created = created.map_err(|error| {
            let remedy = remedy(kind, &error);
            let doing = format!("failed to create {} {name}", kind.name());
            let error = self.0.trouble(doing, error);
            match remedy {
                Some(remedy) => anyhow!("{error:#}; {remedy}"),
                None => error,
            }
        })?;
        Ok(serde_json::to_value(created)?)
    }

    /// Changes some fields of an object, whatever the others are by now.
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
                .trouble(format!("failed to change {} {name}", kind.name()), error)
        })?;
        Ok(serde_json::to_value(changed)?)
    }

    /// The same for an object as it was read; nothing if somebody has changed it since. The patch has its resourceVersion.
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
                .trouble(format!("failed to change {} {name}", kind.name()), error)),
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
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api = self.of(kind, namespace);
        api.patch(name, &params, &Patch::Merge(patch)).await
    }

    /// Deletes an object; whether there was one.
    pub(super) async fn delete(
        self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<bool> {
        let deleted = self
            .of(kind, namespace)
            .delete(name, &DeleteParams::default())
            .await;
        match deleted {
            Ok(_) => Ok(true),
            Err(error) if Cluster::is_absent(&error) => Ok(false),
            Err(error) => Err(self.0.trouble(
                format!("delete {} {name:?}", kind.name().to_lowercase()),
                error,
            )),
        }
    }
}

/// What helps where the cluster does not take what OLM would: definitions of ours, which were there before OLM came, want a source
/// in each CatalogSource.
fn remedy(kind: Kind, error: &kube::Error) -> Option<&'static str> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    (kind == Kind::CatalogSource && status.code == 422).then_some(
        "the definition of CatalogSources is not OLM's own, or of a release that wants something else; have OLM's, with kubectl apply \
         --server-side --force-conflicts -f the file crds.yaml of OLM's release, and run the same command again",
    )
}

async fn listed(api: &Api<DynamicObject>, params: ListParams) -> kube::Result<Vec<DynamicObject>> {
    let mut found = Vec::new();
    each(api, params.limit(PAGE), |it| found.push(it)).await?;
    Ok(found)
}

fn values(objects: Vec<DynamicObject>) -> anyhow::Result<Vec<Value>> {
    let values = objects.into_iter().map(serde_json::to_value);
    Ok(values.collect::<Result<Vec<Value>, _>>()?)
}

/// Something for every change of the object of that name.
pub(super) fn changes<K>(api: Api<K>, name: &str) -> BoxStream<'static, ()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let params = WatchParams {
        field_selector: Some(format!("metadata.name={name}")),
        ..WatchParams::default()
    };
    watched(api, params)
}

fn watched<K>(api: Api<K>, params: WatchParams) -> BoxStream<'static, ()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let params = params.timeout(TURN);
    let turns = stream::unfold((api, params), async |(api, params)| {
        let turn: BoxStream<'static, ()> = if let Ok(events) = api.watch(&params, "0").await {
            events.map(drop).boxed()
        } else {
            sleep(AGAIN).await;
            stream::once(std::future::ready(())).boxed()
        };
        Some((turn, (api, params)))
    });
    turns.flatten().boxed()
}

/// Looks, and again after every change, until there is an answer or no time left, also when the server does not answer.
pub(super) async fn until<T>(
    changes: impl IntoIterator<Item = BoxStream<'static, ()>>,
    deadline: Deadline,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    // However many there are at once, one look is enough.
    let mut changes = stream::select_all(changes).ready_chunks(1000);
    loop {
        let Some(looked) = deadline.within(Box::pin(look())).await else {
            return Ok(None);
        };
        if let Some(found) = looked? {
            return Ok(Some(found));
        }
        let left = deadline.left();
        if left.is_zero() {
            return Ok(None);
        }
        let _ = timeout(left.min(TICK), changes.next()).await;
        sleep(left.min(PAUSE)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[test]
    fn a_definition_that_is_not_olms_is_told() {
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
    async fn a_server_that_does_not_answer_is_not_waited_for_beyond_the_end() {
        let deadline = Deadline::after(Duration::from_millis(10));
        let looked = until([], deadline, async || {
            pending::<anyhow::Result<Option<()>>>().await
        });
        assert!(looked.await.unwrap().is_none());
    }
}

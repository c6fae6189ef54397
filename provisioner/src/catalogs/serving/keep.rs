//! Services and EndpointSlices: written, repaired and removed.
//!
//! [`Requests`] sends a few requests at once, for any number of catalogs. The API server allocates an address for each
//! new Service, and takes longer for each the more it creates at once. A request that runs out of time has allocated an
//! address for nothing and is repeated, so a thousand at once would slow each other down for minutes.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::{
    NamespaceResourceScope,
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    Error,
    objects::{Declared, MANAGER, Verdict, is_ours, leads_to_nobody, slice_name},
};
use crate::catalogs::Key;

/// How long the API server may take for one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of requests at once.
const MAX_CONCURRENT: usize = 8;
/// How much of the API server's words is told, in characters.
const WORDS: usize = 400;

/// Sends the requests for the objects of all catalogs.
pub(super) struct Requests {
    pub(super) client: Client,
    permits: Semaphore,
}

/// Both objects, as they are now.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    /// The resource version of the Service.
    pub(super) service: Option<String>,
    /// The resource version of the EndpointSlice.
    pub(super) slice: Option<String>,
    /// Since when there is the Service.
    pub(super) created: Option<Time>,
    /// How many of them were written.
    pub(super) written: u64,
    /// Whether the Service was that of the catalog's own pod.
    pub(super) is_beside: bool,
}

// === impl Requests ===

impl Requests {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            permits: Semaphore::new(MAX_CONCURRENT),
        }
    }
}

// === impl Kept ===

impl Kept {
    /// How many of them somebody had changed or deleted since they were like this. What is written for something new, or for
    /// a Service that a pod has handed over, is no repair.
    pub(super) fn repaired(&self, before: Option<&Self>, is_new: bool) -> u64 {
        let was_kept = before.is_some_and(|it| !it.is_beside);
        if was_kept && !is_new { self.written } else { 0 }
    }
}

/// Makes both objects what was declared.
pub(super) async fn keep(requests: &Requests, declared: &Declared) -> Result<Kept, Error> {
    let namespace = &declared.key.namespace;
    let services = Objects::<Service>::of(requests, namespace, "Service");
    let slices = Objects::<EndpointSlice>::of(requests, namespace, "EndpointSlice");
    let mut written = 0;
    let name = declared.service_name();
    let found = services.get(&name).await?;
    let verdict = declared.judge_service(found.as_ref());
    let is_beside = verdict == Verdict::Beside;
    let service = match verdict {
        Verdict::AsDeclared | Verdict::Beside => found,
        Verdict::Foreign(why) => {
            // Nothing of ours may lead anybody's Service anywhere.
            slices.remove(&declared.slice_name(), &declared.key).await?;
            return Err(Error::Foreign(why));
        }
        Verdict::Going => return Err(services.going(&name)),
        verdict => {
            written += 1;
            let is_there = verdict != Verdict::Absent;
            Some(
                services
                    .apply(
                        &name,
                        declared.service(),
                        found.as_ref().filter(|_| is_there),
                    )
                    .await?,
            )
        }
    };
    let name = declared.slice_name();
    let mut found = slices.get(&name).await?;
    let mut verdict = declared.judge_slice(found.as_ref());
    if verdict == Verdict::Replace {
        slices.remove(&name, &declared.key).await?;
        (found, verdict) = (None, Verdict::Absent);
    }
    let slice = match verdict {
        Verdict::AsDeclared => found,
        Verdict::Foreign(why) => return Err(Error::Foreign(why)),
        Verdict::Going => return Err(slices.going(&name)),
        _ => {
            written += 1;
            Some(
                slices
                    .apply(&name, declared.slice(), found.as_ref())
                    .await?,
            )
        }
    };
    let created = service
        .as_ref()
        .and_then(|it| it.meta().creation_timestamp.clone());
    Ok(Kept {
        service: service.and_then(|it| it.resource_version()),
        slice: slice.and_then(|it| it.resource_version()),
        created,
        written,
        is_beside,
    })
}

/// Lets the EndpointSlice of a catalog lead nowhere, if there is one that is ours, unless the catalog is served by then.
pub(super) async fn empty(
    requests: &Requests,
    key: &Key,
    is_served: impl Fn() -> bool,
) -> Result<(), Error> {
    let name = slice_name(&key.name);
    let slices = Objects::<EndpointSlice>::of(requests, &key.namespace, "EndpointSlice");
    let found = slices.get(&name).await?;
    // What was written after this look is known by its version; what was before, by being served.
    let Some(found) = found.filter(|it| leads_to_nobody(it, &key.name, is_served())) else {
        return Ok(());
    };
    // Not if anybody has led it somewhere meanwhile.
    let version = found.resource_version();
    let patch = json!({"metadata": {"resourceVersion": version}, "endpoints": []});
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(&patch);
    match slices
        .ask("write", &name, slices.api.patch(&name, &params, &patch))
        .await
    {
        Err(Error::Api { source, .. }) if is_passed(&source) => Ok(()),
        other => other.map(drop),
    }
}

/// Removes both objects, as far as they are ours.
pub(super) async fn remove(requests: &Requests, key: &Key) -> Result<(), Error> {
    let name = key.name.replace('.', "-");
    let slices = Objects::<EndpointSlice>::of(requests, &key.namespace, "EndpointSlice");
    slices.remove(&slice_name(&key.name), key).await?;
    let services = Objects::<Service>::of(requests, &key.namespace, "Service");
    services.remove(&name, key).await
}

/// Objects of one kind in one namespace.
struct Objects<'a, K> {
    api: Api<K>,
    permits: &'a Semaphore,
    namespace: String,
    kind: &'static str,
}

// === impl Objects ===

impl<'a, K> Objects<'a, K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    fn of(requests: &'a Requests, namespace: &str, kind: &'static str) -> Self {
        Self {
            api: Api::namespaced(requests.client.clone(), namespace),
            permits: &requests.permits,
            namespace: namespace.to_owned(),
            kind,
        }
    }

    async fn get(&self, name: &str) -> Result<Option<K>, Error> {
        let got = self.ask("get", name, self.api.get_opt(name)).await?;
        Ok(got)
    }

    /// Writes an object: over this one, or where there is none.
    async fn apply(&self, name: &str, mut object: Value, over: Option<&K>) -> Result<K, Error> {
        let mut params = PatchParams::apply(MANAGER);
        if let Some(over) = over {
            params.force = true;
            // Not over another one that has come meanwhile.
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            metadata.map(|it| it.insert("uid".to_owned(), over.uid().into()));
        }
        let patch = Patch::Apply(&object);
        self.ask("write", name, self.api.patch(name, &params, &patch))
            .await
    }

    /// Deletes an object if it is the catalog's.
    async fn remove(&self, name: &str, key: &Key) -> Result<(), Error> {
        let Some(found) = self.get(name).await? else {
            return Ok(());
        };
        if !is_ours(&found, &key.name) || found.meta().deletion_timestamp.is_some() {
            return Ok(());
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: found.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self
            .ask("delete", name, self.api.delete(name, &params))
            .await
        {
            // Another one by now, or none.
            Err(Error::Api { source, .. }) if is_passed(&source) => Ok(()),
            other => other.map(drop),
        }
    }

    fn going(&self, name: &str) -> Error {
        Error::Going(self.object(name))
    }

    fn object(&self, name: &str) -> String {
        format!("{} {}/{name}", self.kind, self.namespace)
    }

    async fn ask<T>(
        &self,
        action: &'static str,
        name: &str,
        asked: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        let object = || self.object(name);
        let Ok(_permit) = self.permits.acquire().await else {
            return Err(Error::Ended);
        };
        match timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                Err(Error::Forbidden {
                    namespace: self.namespace.clone(),
                    said: status.message.chars().take(WORDS).collect(),
                })
            }
            Ok(Err(source)) => Err(Error::Api {
                action,
                object: object(),
                source: Box::new(source),
            }),
            Err(_) => Err(Error::Silence {
                action,
                object: object(),
            }),
        }
    }
}

fn is_passed(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_somebody_has_changed_is_repaired() {
        let kept = |written: u64, is_beside: bool| Kept {
            service: None,
            slice: None,
            created: None,
            written,
            is_beside,
        };
        for (before, is_new, now, expected) in [
            (None, true, kept(2, false), 0),
            (None, false, kept(2, false), 0),
            (Some(kept(2, false)), true, kept(1, false), 0),
            (Some(kept(2, false)), false, kept(1, false), 1),
            (Some(kept(0, false)), false, kept(0, false), 0),
            // A pod has kept the Service before.
            (Some(kept(1, true)), false, kept(1, false), 0),
            (Some(kept(1, false)), false, kept(1, true), 1),
        ] {
            assert_rows!(now.repaired(before.as_ref(), is_new) => expected, "{before:?} {now:?}");
        }
    }
}

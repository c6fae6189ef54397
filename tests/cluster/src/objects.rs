//! Server-side apply of objects of any kind.

use std::collections::HashMap;

use parking_lot::Mutex;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{self, ApiCapabilities};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, error::DiscoveryError};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{Cluster, Error, Result};

const FIELD_MANAGER: &str = "cluster-tests";
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(90);

/// Whether the API server checks an object without storing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// The object is stored.
    No,
    /// The API server does everything but store the object: defaults, validation, admission.
    Yes,
}

/// A cache of API discovery.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Mutex<HashMap<GroupVersionKind, (ApiResource, ApiCapabilities)>>);

impl Cluster {
    /// Applies an object with server-side apply, and returns the live object. The default namespace of a namespaced object is
    /// `default`. After a role binding, waits until its first permission is in effect.
    pub async fn apply(&self, object: &Value, dry_run: DryRun) -> Result<DynamicObject> {
        let api_version = object.get("apiVersion").and_then(Value::as_str);
        let kind = object.get("kind").and_then(Value::as_str);
        let metadata = |field| object.get("metadata")?.get(field)?.as_str();
        let (group, version) = api_version
            .map(|text| text.split_once('/').unwrap_or(("", text)))
            .ok_or(Error::NotAnObject("it has no apiVersion"))?;
        let kind = kind.ok_or(Error::NotAnObject("it has no kind"))?;
        let name = metadata("name").ok_or(Error::NotAnObject("it has no metadata.name"))?;

        let client = self.client()?;
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) = self.kinds.get(&client, &gvk).await?;
        let api = Api::<DynamicObject>::dynamic(client, &resource, &capabilities.scope)
            .constrain(metadata("namespace").unwrap_or("default"));
        let params = PatchParams {
            dry_run: dry_run == DryRun::Yes,
            ..PatchParams::apply(FIELD_MANAGER).force()
        };
        let outcome = api.patch(name, &params, &Patch::Apply(object)).await;
        if matches!(&outcome, Err(kube::Error::Api(status)) if status.code == 404) {
            // The CRD may have been deleted; the next caller runs discovery again.
            self.kinds.forget(&gvk);
        }
        let applied = outcome.map_err(Error::api(format!("apply {kind} {name}")))?;
        if group == "rbac.authorization.k8s.io"
            && kind.ends_with("Binding")
            && dry_run == DryRun::No
        {
            self.wait_effective(object).await?;
        }
        Ok(applied)
    }

    pub(crate) fn forget_kinds(&self) {
        let mut kinds = self.kinds.0.lock();
        kinds.clear();
    }

    /// Waits until a CRD is Established and its kind is served.
    pub async fn wait_established(&self, name: &str) -> Result<()> {
        let result = timeout(ESTABLISHED_TIMEOUT, established(&self.client()?, name)).await;
        result.map_err(|_| not_established(name, String::new()))?
    }
}

fn not_established(name: &str, detail: String) -> Error {
    let expectation = format!("CRD {name} is Established");
    Error::timeout(expectation, ESTABLISHED_TIMEOUT, detail)
}

async fn established(client: &Client, name: &str) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = await_condition(api, name, conditions::is_crd_established()).await;
    let crd = crd.map_err(|error| not_established(name, format!(" ({error})")))?;
    // Discovery lists the kind a moment after the condition.
    if let Some(CustomResourceDefinition { spec, .. }) = crd {
        for version in spec.versions.iter().filter(|version| version.served) {
            let gvk = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
            while let Err(Error::UnknownKind(_)) = find(client, &gvk).await {
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
    Ok(())
}

async fn find(client: &Client, gvk: &GroupVersionKind) -> Result<(ApiResource, ApiCapabilities)> {
    discovery::pinned_kind(client, gvk)
        .await
        .map_err(|error| match error {
            kube::Error::Discovery(DiscoveryError::MissingKind(_)) => {
                Error::UnknownKind(gvk.clone())
            }
            // For a missing group the response is plain text, which is_not_found() does not recognize.
            kube::Error::Api(status) if status.code == 404 => Error::UnknownKind(gvk.clone()),
            error => Error::api(format!("look up the kind {}", gvk.kind))(error),
        })
}

impl Kinds {
    async fn get(
        &self,
        client: &Client,
        gvk: &GroupVersionKind,
    ) -> Result<(ApiResource, ApiCapabilities)> {
        let cached = self.0.lock().get(gvk).cloned();
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let found = find(client, gvk).await?;
        let mut kinds = self.0.lock();
        Ok(kinds.entry(gvk.clone()).or_insert(found).clone())
    }

    fn forget(&self, gvk: &GroupVersionKind) {
        self.0.lock().remove(gvk);
    }
}

//! Live objects of any kind, and dry runs of changes.

pub(crate) mod inventory;

use std::collections::HashMap;

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, ObjectMeta};
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::{
    api::MANAGER,
    names,
    object::{Identity, Object, api_version, group_version, text},
};
use serde_json::Value;

use super::Cluster;

/// Parses the metadata of an object.
pub(crate) fn metadata(object: &Value) -> anyhow::Result<ObjectMeta> {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    serde_json::from_value(metadata).context("the API server returned an object without metadata")
}

/// A kind, with its API resource and scope.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiKind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

/// Live objects, with a discovery cache. Each group version is requested once; kinds of a bundle's CRDs need no request.
pub(crate) struct LiveObjects<'a> {
    cluster: &'a Cluster,
    served: HashMap<String, Option<APIResourceList>>,
    groups: Option<APIGroupList>,
    bundled_kinds: Vec<(GroupVersionKind, ApiKind)>,
}

impl<'a> LiveObjects<'a> {
    /// Creates a cache that contains the kinds of the CRDs among these objects.
    pub(crate) fn new(cluster: &'a Cluster, objects: &[Object]) -> Self {
        Self {
            cluster,
            served: HashMap::new(),
            groups: None,
            bundled_kinds: objects.iter().flat_map(kinds_of_crd).collect(),
        }
    }

    /// Returns a kind; `None` if it is neither served nor defined by the bundle.
    pub(crate) async fn kind(
        &mut self,
        api_version: &str,
        kind: &str,
    ) -> anyhow::Result<Option<ApiKind>> {
        let (group, version) = group_version(api_version);
        let gvk = GroupVersionKind::gvk(group, version, kind);
        if let Some((_, found)) = self
            .bundled_kinds
            .iter()
            .find(|(candidate, _)| *candidate == gvk)
        {
            return Ok(Some(found.clone()));
        }
        let is_valid = names::dns_subdomain(version).is_ok()
            && (group.is_empty() || names::dns_subdomain(group).is_ok());
        if !is_valid {
            return Ok(None); // the name would change the path of the URL
        }
        if !self.served.contains_key(api_version) {
            let client = &self.cluster.client;
            let answer = if group.is_empty() {
                client.list_core_api_resources(version).await
            } else {
                client.list_api_group_resources(api_version).await
            };
            let list = match answer {
                Ok(list) => Some(list),
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(error) => {
                    let problem = format!("failed to discover the kinds of {api_version}");
                    return Err(self.cluster.explain(problem, error));
                }
            };
            self.served.insert(api_version.to_owned(), list);
        }
        let list = self.served.get(api_version).and_then(Option::as_ref);
        let resources = list.into_iter().flat_map(|list| &list.resources);
        let found = resources
            .filter(|resource| !resource.name.contains('/'))
            .find(|resource| resource.kind == kind);
        Ok(found.map(|resource| ApiKind {
            resource: ApiResource::from_gvk_with_plural(&gvk, &resource.name),
            namespaced: resource.namespaced,
        }))
    }

    /// Returns the live object; `None` if it does not exist.
    pub(crate) async fn get(
        &self,
        kind: &ApiKind,
        identity: &Identity,
    ) -> anyhow::Result<Option<Value>> {
        let found = self.api(kind, &identity.namespace);
        match found.get(&names::percent_encoded(&identity.name)).await {
            Ok(found) => Ok(Some(serde_json::to_value(found)?)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(self
                .cluster
                .explain(format!("failed to read {identity}"), error)),
        }
    }

    /// Returns the live object in any served version; `None` if it does not exist.
    pub(crate) async fn discover(&mut self, identity: &Identity) -> anyhow::Result<Option<Value>> {
        for version in self.versions(&identity.group).await? {
            let api_version = api_version(&identity.group, &version);
            if let Some(kind) = self.kind(&api_version, &identity.kind).await? {
                return self.get(&kind, identity).await;
            }
        }
        Ok(None)
    }

    /// Returns the versions of a group, the preferred one first.
    async fn versions(&mut self, group: &str) -> anyhow::Result<Vec<String>> {
        if group.is_empty() {
            return Ok(vec!["v1".to_owned()]);
        }
        if self.groups.is_none() {
            let groups = self.cluster.client.list_api_groups().await;
            let groups = groups
                .map_err(|error| self.cluster.explain("failed to discover API groups", error))?;
            self.groups = Some(groups);
        }
        let groups = self.groups.iter().flat_map(|list| &list.groups);
        let matching = groups.filter(|candidate| candidate.name == group);
        let mut versions = Vec::new();
        for group in matching {
            versions.extend(
                group
                    .preferred_version
                    .iter()
                    .map(|served| served.version.clone()),
            );
            versions.extend(group.versions.iter().map(|served| served.version.clone()));
        }
        Ok(versions)
    }

    /// Returns the object as it would be after the provisioner has applied it; `None` if the API server cannot evaluate it,
    /// because an object that it needs does not exist yet.
    pub(crate) async fn applied(
        &self,
        kind: &ApiKind,
        object: &Object,
    ) -> anyhow::Result<Option<Value>> {
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::apply(MANAGER).force()
        };
        let identity = object.identity();
        let api = self.api(kind, &identity.namespace);
        let name = names::percent_encoded(&identity.name);
        let patched = api
            .patch(&name, &params, &Patch::Apply(object.value()))
            .await;
        match patched {
            Ok(applied) => Ok(Some(serde_json::to_value(applied)?)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(self
                .cluster
                .explain(format!("{identity} would be rejected"), error)),
        }
    }

    /// Returns the API of a kind in a namespace.
    pub(crate) fn api(&self, kind: &ApiKind, namespace: &str) -> Api<DynamicObject> {
        let client = self.cluster.client.clone();
        if kind.namespaced {
            Api::namespaced_with(client, &names::percent_encoded(namespace), &kind.resource)
        } else {
            Api::all_with(client, &kind.resource)
        }
    }
}

fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Returns the kinds that a CRD defines.
fn kinds_of_crd(object: &Object) -> Vec<(GroupVersionKind, ApiKind)> {
    if object.kind() != "CustomResourceDefinition" {
        return Vec::new();
    }
    let value = object.value();
    let string = |keys: &[&str]| text(value, keys).unwrap_or_default();
    let (group, kind) = (
        string(&["spec", "group"]),
        string(&["spec", "names", "kind"]),
    );
    let plural = string(&["spec", "names", "plural"]);
    if names::dns_subdomain(group).is_err() || names::dns_subdomain(plural).is_err() {
        return Vec::new();
    }
    let versions = value.pointer("/spec/versions").and_then(Value::as_array);
    versions
        .into_iter()
        .flatten()
        .filter_map(|version| text(version, &["name"]))
        .filter(|version| names::dns_subdomain(version).is_ok())
        .map(|version| {
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
            let namespaced = string(&["spec", "scope"]) == "Namespaced";
            (
                gvk,
                ApiKind {
                    resource,
                    namespaced,
                },
            )
        })
        .collect()
}

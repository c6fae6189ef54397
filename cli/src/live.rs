//! Objects of any kind, as they are in the cluster, and as they would be.

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

use crate::cluster::Cluster;

/// The metadata of an object.
pub(crate) fn metadata(object: &Value) -> anyhow::Result<ObjectMeta> {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    serde_json::from_value(metadata).context("the server sends an object without metadata")
}

/// A kind, and how to address it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

/// What the server serves, asked for each group version once, and what a bundle brings itself.
pub(crate) struct Live<'a> {
    cluster: &'a Cluster,
    served: HashMap<String, Option<APIResourceList>>,
    groups: Option<APIGroupList>,
    brought: Vec<(GroupVersionKind, Kind)>,
}

impl<'a> Live<'a> {
    /// Knows the definitions among these objects.
    pub(crate) fn new(cluster: &'a Cluster, objects: &[Object]) -> Self {
        Self {
            cluster,
            served: HashMap::new(),
            groups: None,
            brought: objects.iter().flat_map(defined).collect(),
        }
    }

    /// How to address a kind; `None` if nobody serves it, or will.
    pub(crate) async fn kind(
        &mut self,
        api_version: &str,
        kind: &str,
    ) -> anyhow::Result<Option<Kind>> {
        let (group, version) = group_version(api_version);
        let gvk = GroupVersionKind::gvk(group, version, kind);
        if let Some((_, found)) = self.brought.iter().find(|(known, _)| *known == gvk) {
            return Ok(Some(found.clone()));
        }
        let legal = names::dns_subdomain(version).is_ok()
            && (group.is_empty() || names::dns_subdomain(group).is_ok());
        if !legal {
            return Ok(None); // it would be another part of the URL
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
                    let what = format!("failed to ask for the kinds of {api_version}");
                    return Err(self.cluster.trouble(what, error));
                }
            };
            self.served.insert(api_version.to_owned(), list);
        }
        let list = self.served.get(api_version).and_then(Option::as_ref);
        let resources = list.into_iter().flat_map(|list| &list.resources);
        let found = resources
            .filter(|resource| !resource.name.contains('/'))
            .find(|resource| resource.kind == kind);
        Ok(found.map(|resource| Kind {
            resource: ApiResource::from_gvk_with_plural(&gvk, &resource.name),
            namespaced: resource.namespaced,
        }))
    }

    /// An object as it is.
    pub(crate) async fn get(
        &self,
        kind: &Kind,
        identity: &Identity,
    ) -> anyhow::Result<Option<Value>> {
        let found = self.api(kind, &identity.namespace);
        match found.get(&names::encoded(&identity.name)).await {
            Ok(found) => Ok(Some(serde_json::to_value(found)?)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(self
                .cluster
                .trouble(format!("failed to read {identity}"), error)),
        }
    }

    /// An object whose version nobody has said, as it is.
    pub(crate) async fn look_up(&mut self, identity: &Identity) -> anyhow::Result<Option<Value>> {
        for version in self.versions(&identity.group).await? {
            let api_version = api_version(&identity.group, &version);
            if let Some(kind) = self.kind(&api_version, &identity.kind).await? {
                return self.get(&kind, identity).await;
            }
        }
        Ok(None)
    }

    /// The versions of a group, the server's favorite first.
    async fn versions(&mut self, group: &str) -> anyhow::Result<Vec<String>> {
        if group.is_empty() {
            return Ok(vec!["v1".to_owned()]);
        }
        if self.groups.is_none() {
            let groups = self.cluster.client.list_api_groups().await;
            let groups = groups.map_err(|error| {
                self.cluster
                    .trouble("failed to ask for the groups of APIs", error)
            })?;
            self.groups = Some(groups);
        }
        let groups = self.groups.iter().flat_map(|it| &it.groups);
        let found = groups.filter(|it| it.name == group);
        let mut versions = Vec::new();
        for it in found {
            versions.extend(it.preferred_version.iter().map(|it| it.version.clone()));
            versions.extend(it.versions.iter().map(|it| it.version.clone()));
        }
        Ok(versions)
    }

    /// An object as it would be after the provisioner has applied it; `None` where the server cannot know, because
    /// something that comes first is missing.
    pub(crate) async fn applied(
        &self,
        kind: &Kind,
        object: &Object,
    ) -> anyhow::Result<Option<Value>> {
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::apply(MANAGER).force()
        };
        let identity = object.identity();
        let api = self.api(kind, &identity.namespace);
        let name = names::encoded(&identity.name);
        let patched = api
            .patch(&name, &params, &Patch::Apply(object.value()))
            .await;
        match patched {
            Ok(applied) => Ok(Some(serde_json::to_value(applied)?)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(self
                .cluster
                .trouble(format!("{identity} would be refused"), error)),
        }
    }

    /// All objects of a kind in a namespace.
    pub(crate) fn api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        let client = self.cluster.client.clone();
        if kind.namespaced {
            Api::namespaced_with(client, &names::encoded(namespace), &kind.resource)
        } else {
            Api::all_with(client, &kind.resource)
        }
    }
}

fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// The kinds that a definition brings.
fn defined(object: &Object) -> Vec<(GroupVersionKind, Kind)> {
    if object.kind() != "CustomResourceDefinition" {
        return Vec::new();
    }
    let value = object.value();
    let word = |keys: &[&str]| text(value, keys).unwrap_or_default();
    let (group, kind) = (word(&["spec", "group"]), word(&["spec", "names", "kind"]));
    let plural = word(&["spec", "names", "plural"]);
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
            let namespaced = word(&["spec", "scope"]) == "Namespaced";
            (
                gvk,
                Kind {
                    resource,
                    namespaced,
                },
            )
        })
        .collect()
}

//! ConfigMaps and registry pod of a catalog, and removal of the previous registry.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    net::{IpAddr, SocketAddr},
};

use anyhow::{Context as _, anyhow, bail};
use apply::delete_params;
use catalog::compose::history::{History, REGISTRY_POD};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use manifests::api::catalog_source::CatalogSource;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    api::{Olm, changes, wait_for},
    config_map_parts::Parts,
    objects,
    registry_pod::{OWNER, PORT, PodRequest},
};
use crate::{
    args::SecurityContext,
    cluster::{Cluster, FIELD_MANAGER, MAX_ATTEMPTS},
    commands::run_bundle::{RunContext, diagnostics},
    output::{message, progress},
};

/// Address of a served catalog, and the objects that serve it.
#[derive(Debug, Clone)]
pub(super) struct RegistryEndpoint {
    pub(super) address: String,
    pub(super) pod: String,
    config_maps: BTreeSet<String>,
}

/// Serves a catalog from a pod, or from the pod of an earlier run if it exists.
pub(super) async fn serve(
    task: &RunContext<'_>,
    request: &PodRequest<'_>,
    parts: &Parts,
) -> anyhow::Result<RegistryEndpoint> {
    let uid = &request.owner.uid;
    let maps: Api<ConfigMap> = Api::namespaced(task.cluster.client.clone(), request.namespace);
    let config_maps = request.config_maps(parts);
    let names = config_maps
        .iter()
        .filter_map(|map| map.metadata.name.clone())
        .collect();
    for map in &config_maps {
        create(task, &maps, map, None, |map| is_owned(map, uid)).await?;
    }
    let pods: Api<Pod> = Api::namespaced(task.cluster.client.clone(), request.namespace);
    let pod = request.pod(parts)?;
    let name = pod.name_any();
    let is_usable = |pod: &Pod| is_owned(pod, uid) && !has_ended(pod);
    create(task, &pods, &pod, Some(request.security), is_usable).await?;
    let ready = wait_for([changes(pods.clone(), &name)], task.deadline, async || {
        let pod = pods.get_opt(&name).await;
        let pod = pod.map_err(|error| {
            task.cluster
                .explain(format!("failed to read pod {name}"), error)
        })?;
        let Some(pod) = pod else {
            bail!("registry pod {name} was deleted by another client; retry");
        };
        progress::display(&format!("registry {}", diagnostics::describe(&pod)));
        address(&pod)
            .map(socket)
            .transpose()
            .with_context(|| format!("registry pod {name}"))
    });
    let Some(address) = ready.await? else {
        diagnostics::print_namespace(task.cluster, request.namespace).await;
        bail!(
            "timed out after {:?}: registry pod {name} is not ready; the CatalogSource was not changed; check the pod, and \
             run the same command again",
            task.deadline.timeout
        );
    };
    Ok(RegistryEndpoint {
        address,
        pod: name,
        config_maps: names,
    })
}

/// Sets the address of the registry in a CatalogSource, unless another client has changed its history or image since it was
/// read.
pub(super) async fn update_source(
    task: &RunContext<'_>,
    namespace: &str,
    read: &CatalogSource,
    served: &RegistryEndpoint,
    history: &History,
    secret: Option<&str>,
) -> anyhow::Result<()> {
    let name = read.name_any();
    if let Some(key) = objects::templates(read).next() {
        message::warning(&format!(
            "annotation {key} of CatalogSource {name} is removed because a pod now serves the catalog"
        ));
    }
    let update = patch_source(task.cluster, namespace, read, served, history, secret);
    let doing = format!("changing CatalogSource {name}");
    task.deadline.run_to_end(&doing, update).await
}

async fn patch_source(
    cluster: &Cluster,
    namespace: &str,
    read: &CatalogSource,
    served: &RegistryEndpoint,
    history: &History,
    secret: Option<&str>,
) -> anyhow::Result<()> {
    let (olm, name) = (Olm(cluster), read.name_any());
    let (address, annotations) = (&served.address, history.to_annotations());
    let mut current = read.clone();
    for _ in 0..MAX_ATTEMPTS {
        let patch = objects::with_address(&current, address, &served.pod, &annotations, secret);
        let changed = olm.change::<CatalogSource>(namespace, &name, &patch);
        if changed.await? {
            return Ok(());
        }
        let found = olm.find::<CatalogSource>(namespace, &name).await?;
        current =
            found.ok_or_else(|| anyhow!("CatalogSource {name} was deleted by another client"))?;
        if objects::is_history_changed(read, &current) {
            bail!(
                "the bundles or the image of CatalogSource {name} were changed by another client and are kept; check which \
                 ones are intended, and retry"
            );
        }
    }
    bail!("too many concurrent changes to CatalogSource {name}; retry")
}

/// Returns the address of a ready pod.
fn address(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let is_ready =
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    status.pod_ip.as_deref().filter(|_| is_ready).map(str::trim)
}

/// Returns the address of a server as OLM parses it: IPv6 addresses are in brackets.
fn socket(ip: &str) -> anyhow::Result<String> {
    let ip: IpAddr = ip
        .parse()
        .with_context(|| format!("{ip:?} is not the address of a pod"))?;
    Ok(SocketAddr::new(ip, PORT).to_string())
}

fn is_owned<K: Resource>(object: &K, uid: &str) -> bool {
    object.meta().deletion_timestamp.is_none()
        && object
            .owner_references()
            .iter()
            .any(|owner| owner.uid == uid)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Creates an object, unless a usable one exists. An object that another CatalogSource left is deleted first. `security` is
/// set for pods.
async fn create<K>(
    task: &RunContext<'_>,
    api: &Api<K>,
    object: &K,
    security: Option<SecurityContext>,
    is_usable: impl Fn(&K) -> bool,
) -> anyhow::Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + 'static,
{
    let name = object.name_any();
    let kind = K::kind(&());
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let failed = |error: kube::Error| {
        let remedy = remedy(&error, security);
        let doing = format!("failed to create {kind} {name}");
        let error = task.cluster.explain(doing, error);
        match remedy {
            Some(remedy) => anyhow!("{error:#}; {remedy}"),
            None => error,
        }
    };
    let created = wait_for([changes(api.clone(), &name)], task.deadline, async || {
        match api.create(&params, object).await {
            Ok(_) => return Ok(Some(())),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(error) => return Err(failed(error)),
        }
        let Some(existing) = api.get_opt(&name).await.map_err(failed)? else {
            return Ok(None);
        };
        if is_usable(&existing) {
            return Ok(Some(()));
        }
        if existing.meta().deletion_timestamp.is_none() {
            let params = delete_params::for_uid(existing.uid());
            if let Err(error) = api.delete(&name, &params).await
                && !Cluster::is_absent(&error)
            {
                return Err(failed(error));
            }
        }
        Ok(None)
    });
    let created = created.await?;
    created.ok_or_else(|| {
        anyhow!("{kind} {name} of an earlier CatalogSource still exists; retry after it is deleted")
    })
}

/// Returns the remedy if the namespace admits only hardened pods.
fn remedy(error: &kube::Error, security: Option<SecurityContext>) -> Option<&'static str> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let is_too_free = security == Some(SecurityContext::Legacy)
        && status.message.contains("violates PodSecurity");
    is_too_free.then_some(
        "run the same command again with --security-context-config=restricted, which hardens the pod as the namespace \
         requires",
    )
}

/// Removes the registries of earlier catalogs of a CatalogSource. Missing objects are ignored, and a failed removal does no
/// harm.
pub(super) async fn remove_old(
    task: &RunContext<'_>,
    namespace: &str,
    source: &CatalogSource,
    owner: &OwnerReference,
    served: &RegistryEndpoint,
) {
    // The pod of the previous catalog, as operator-sdk records it.
    let former = source.annotations().get(REGISTRY_POD).map(String::as_str);
    let removal = remove_old_objects(task.cluster, namespace, owner, former, served);
    if task.deadline.within(removal).await.is_none() {
        message::warning(
            "timed out while removing the previous registry; the next upgrade removes it",
        );
    }
}

async fn remove_old_objects(
    cluster: &Cluster,
    namespace: &str,
    owner: &OwnerReference,
    former: Option<&str>,
    served: &RegistryEndpoint,
) {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let found = names_of(cluster, &pods, |pod| is_former_pod(pod, owner, former)).await;
    for name in found.iter().filter(|name| **name != served.pod) {
        match pods.delete(name, &DeleteParams::default()).await {
            Ok(_) => {
                message::note(&format!("Deleted previous registry pod with name {name:?}"));
            }
            Err(error) if Cluster::is_absent(&error) => {}
            Err(error) => {
                let error = cluster.explain(
                    format!("old registry pod {name:?} failed to delete, requires manual cleanup"),
                    error,
                );
                message::warning(&format!("{error:#}"));
            }
        }
    }
    let current = &served.config_maps;
    for name in names_of(cluster, &maps, |map| is_former_part(map, owner, current)).await {
        if let Err(error) = maps.delete(&name, &DeleteParams::default()).await
            && !Cluster::is_absent(&error)
        {
            let error = cluster.explain(format!("failed to delete ConfigMap {name}"), error);
            message::warning(&format!("{error:#}"));
        }
    }
}

/// Returns the names of the objects that `is_selected` accepts.
async fn names_of<K>(
    cluster: &Cluster,
    api: &Api<K>,
    is_selected: impl Fn(&ObjectMeta) -> bool,
) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match api.list_metadata(&ListParams::default()).await {
        Ok(list) => {
            let selected = list
                .items
                .into_iter()
                .filter(|object| is_selected(&object.metadata));
            selected.filter_map(|object| object.metadata.name).collect()
        }
        Err(error) => {
            let action = format!(
                "the previous registry is kept: failed to list {}s",
                K::kind(&())
            );
            message::warning(&format!("{:#}", cluster.explain(action, error)));
            Vec::new()
        }
    }
}

/// Reports whether a pod serves a catalog of a CatalogSource: a pod with rukpak's label, or the one that operator-sdk
/// recorded.
fn is_former_pod(pod: &ObjectMeta, owner: &OwnerReference, recorded: Option<&str>) -> bool {
    belongs(pod, owner)
        && (is_labeled(pod, owner) || recorded.is_some() && pod.name.as_deref() == recorded)
}

/// Reports whether a ConfigMap has a part of an outdated catalog, by rukpak's label or operator-sdk's name for it. Bundles
/// that OLM has unpacked also belong to the CatalogSource, and are kept.
fn is_former_part(map: &ObjectMeta, owner: &OwnerReference, current: &BTreeSet<String>) -> bool {
    let name = map.name.as_deref().unwrap_or_default();
    let is_named = || name.starts_with(&format!("{}-configmap-partition-", owner.name));
    !current.contains(name) && belongs(map, owner) && (is_labeled(map, owner) || is_named())
}

fn is_labeled(object: &ObjectMeta, owner: &OwnerReference) -> bool {
    let label = object.labels.as_ref().and_then(|labels| labels.get(OWNER));
    label == Some(&owner.uid)
}

/// Reports whether a CatalogSource owns an object that OLM does not manage. It is the controller of OLM's own pods.
fn belongs(object: &ObjectMeta, owner: &OwnerReference) -> bool {
    let mut owners = object.owner_references.iter().flatten();
    owners.any(|reference| reference.uid == owner.uid && reference.controller != Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: sdk-14
    #[test]
    fn pod_has_an_address_when_it_is_ready() {
        let pod = |ip, ready| -> Pod {
            object!({
                "metadata": {"ownerReferences": [{"uid": "1", "apiVersion": "", "kind": "", "name": ""}]},
                "status": {"podIP": ip, "phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        let ready = pod(Some("10.0.0.1"), "True");
        ::tests::assert_rows! {
            address(&ready) => Some("10.0.0.1");
            address(&pod(Some("10.0.0.1"), "False")) => None;
            address(&pod(None, "True")) => None;
            ["1", "2"].map(|uid| is_owned(&ready, uid)) => [true, false];
            has_ended(&ready) => false;
            // An address may be IPv4 or IPv6.
            socket("10.0.0.1").ok().as_deref() => Some("10.0.0.1:50051");
            socket("fd00::1").ok().as_deref() => Some("[fd00::1]:50051");
            socket("pod").ok() => None;
        }
    }

    #[test]
    fn pod_security_violation_has_a_remedy() {
        let violates = r#"pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true"#;
        let quota = r#"pods "x" is forbidden: exceeded quota: few"#;
        let refused = |message: &str| crate::testing::refused(json!({"message": message}));
        ::tests::assert_each!(|message, security, expected| remedy(&refused(message), security).is_some() => expected;
            violates, Some(SecurityContext::Legacy) => true;
            violates, Some(SecurityContext::Restricted) => false;
            violates, None => false;
            quota, Some(SecurityContext::Legacy) => false;
        );
    }

    // parity: sdk-17
    #[test]
    fn only_former_pods_and_parts_are_deleted() {
        let owner: OwnerReference = object!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "tide-catalog", "uid": "1",
        });
        let object = |name: &str, label: Option<&str>, uid: &str, controller| -> ObjectMeta {
            object!({
                "name": name, "labels": label.map(|value| json!({OWNER: value})),
                "ownerReferences": [{"uid": uid, "apiVersion": "", "kind": "", "name": "", "controller": controller}],
            })
        };
        let part = "tide-catalog-configmap-partition-1";
        let current = BTreeSet::from(["tide-catalog-configmap-partition-new-1".to_owned()]);
        ::tests::assert_each!(|object, expected| is_former_part(&object, &owner, &current) => expected;
            object("x", Some("1"), "1", None) => true;
            object(part, None, "1", Some(false)) => true;
            // A ConfigMap with a bundle that OLM unpacked.
            object("0a1b2c", None, "1", Some(false)) => false;
            object("x", Some("2"), "1", None) => false;
            object(part, Some("1"), "2", None) => false;
            object(part, Some("1"), "1", Some(true)) => false;
            // The catalog shrinks from two parts to one.
            object("tide-catalog-configmap-partition-old-1", Some("1"), "1", None) => true;
            object("tide-catalog-configmap-partition-old-2", Some("1"), "1", None) => true;
            object("tide-catalog-configmap-partition-new-1", Some("1"), "1", None) => false;
        );
        ::tests::assert_each!(|object, recorded, expected| is_former_pod(&object, &owner, recorded) => expected;
            object("x", Some("1"), "1", None), None => true;
            object("x", None, "1", Some(false)), Some("x") => true;
            object("x", None, "1", Some(false)), Some("y") => false;
            object("x", None, "1", Some(false)), None => false;
            // A client that may only write annotations cannot cause the deletion of other pods.
            object("x", None, "2", None), Some("x") => false;
            ObjectMeta { name: Some("x".to_owned()), ..ObjectMeta::default() }, Some("x") => false;
            object("x", None, "1", Some(true)), Some("x") => false;
        );
    }
}

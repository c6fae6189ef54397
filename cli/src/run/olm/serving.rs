//! A catalog gets its ConfigMaps and its pod, and what served the one before goes.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    net::{IpAddr, SocketAddr},
};

use anyhow::{Context as _, anyhow, bail};
use catalog::inject::history::History;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use manifests::object::text;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    api::{Kind, Olm, changes, until},
    objects,
    parts::Parts,
    pod::{OWNER, PORT, Wanted},
};
use crate::{
    args::SecurityContext,
    cluster::{Cluster, MANAGER},
    message, progress,
    run::{Task, diagnosis},
};

/// How often a change is tried that somebody else has got ahead of.
const TRIES: usize = 10;

/// Where a catalog is served, and what serves it.
#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) address: String,
    pub(super) pod: String,
    config_maps: BTreeSet<String>,
}

/// Has a catalog served by a pod, that of an earlier run if it is there.
pub(super) async fn serve(
    task: &Task<'_>,
    wanted: &Wanted<'_>,
    parts: &Parts,
) -> anyhow::Result<Served> {
    let uid = &wanted.owner.uid;
    let maps: Api<ConfigMap> = Api::namespaced(task.cluster.client.clone(), wanted.namespace);
    let config_maps = wanted.config_maps(parts);
    let names = config_maps
        .iter()
        .filter_map(|it| it.metadata.name.clone())
        .collect();
    for map in &config_maps {
        create(task, &maps, map, None, |it| is_owned(it, uid)).await?;
    }
    let pods: Api<Pod> = Api::namespaced(task.cluster.client.clone(), wanted.namespace);
    let pod = wanted.pod(parts)?;
    let name = pod.name_any();
    let is_right = |it: &Pod| is_owned(it, uid) && !has_ended(it);
    create(task, &pods, &pod, Some(wanted.security), is_right).await?;
    let ready = until([changes(pods.clone(), &name)], task.deadline, async || {
        let found = pods.get_opt(&name).await;
        let found = found.map_err(|error| {
            task.cluster
                .trouble(format!("failed to read pod {name}"), error)
        })?;
        let Some(found) = found else {
            bail!("somebody has deleted the registry pod {name} in the meantime; try again");
        };
        progress::show(&format!("registry {}", diagnosis::describe(&found)));
        address(&found)
            .map(socket)
            .transpose()
            .with_context(|| format!("registry pod {name}"))
    });
    let Some(address) = ready.await? else {
        diagnosis::tell_namespace(task.cluster, wanted.namespace).await;
        bail!(
            "registry pod {name} did not become ready within {:?}; the catalog of the CatalogSource is what it was: look at the \
             pod, and run the same command again",
            task.deadline.timeout
        );
    };
    Ok(Served {
        address,
        pod: name,
        config_maps: names,
    })
}

/// Has a CatalogSource name what serves it now, unless somebody has written another history, or image, since it was read.
pub(super) async fn point(
    task: &Task<'_>,
    namespace: &str,
    read: &Value,
    served: &Served,
    history: &History,
    secret: Option<&str>,
) -> anyhow::Result<()> {
    let name = text(read, &["metadata", "name"]).unwrap_or_default();
    if let Some(key) = objects::templates(read).next() {
        message::warning(&format!(
            "CatalogSource {name} does not follow its annotation {key} any more, which is removed: what it has now is served by a \
             pod"
        ));
    }
    let pointing = point_to(task.cluster, namespace, read, served, history, secret);
    let doing = format!("changing CatalogSource {name}");
    task.deadline.keep(&doing, pointing).await
}

async fn point_to(
    cluster: &Cluster,
    namespace: &str,
    read: &Value,
    served: &Served,
    history: &History,
    secret: Option<&str>,
) -> anyhow::Result<()> {
    let (olm, kind) = (Olm(cluster), Kind::CatalogSource);
    let name = text(read, &["metadata", "name"]).unwrap_or_default();
    let (address, annotations) = (&served.address, history.annotations());
    let mut now = read.clone();
    for _ in 0..TRIES {
        let patch = objects::pointed(&now, address, &served.pod, &annotations, secret);
        let changed = olm.change_unchanged(kind, namespace, name, &patch).await?;
        if changed.is_some() {
            return Ok(());
        }
        let found = olm.find(kind, namespace, name).await?;
        now = found.ok_or_else(|| anyhow!("somebody has deleted {} {name}", kind.name()))?;
        if objects::has_moved(read, &now) {
            bail!(
                "somebody has changed the bundles or the image of CatalogSource {name} meanwhile, and they are left as they are; \
                 look what is wanted, and try again"
            );
        }
    }
    bail!("CatalogSource {name} changes all the time; try again")
}

/// The address of a pod that answers.
fn address(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let is_ready = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
    status.pod_ip.as_deref().filter(|_| is_ready).map(str::trim)
}

/// Where a server listens, as OLM reads it: an address of IPv6 is in brackets.
fn socket(ip: &str) -> anyhow::Result<String> {
    let ip: IpAddr = ip
        .parse()
        .with_context(|| format!("{ip:?} is no address of a pod"))?;
    Ok(SocketAddr::new(ip, PORT).to_string())
}

fn is_owned<K: Resource>(object: &K, uid: &str) -> bool {
    object.meta().deletion_timestamp.is_none()
        && object.owner_references().iter().any(|it| it.uid == uid)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Creates an object, unless it is there as it should be; what is left of another CatalogSource gives way. A pod has a security
/// context.
async fn create<K>(
    task: &Task<'_>,
    api: &Api<K>,
    object: &K,
    security: Option<SecurityContext>,
    is_right: impl Fn(&K) -> bool,
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
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let created = until([changes(api.clone(), &name)], task.deadline, async || {
        let error = match api.create(&params, object).await {
            Ok(_) => return Ok(Some(())),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                let found = api.get_opt(&name).await;
                match found.map(|it| it.map(|it| (is_right(&it), it.uid(), it))) {
                    Ok(Some((true, ..))) => return Ok(Some(())),
                    Ok(Some((false, uid, it))) if it.meta().deletion_timestamp.is_none() => {
                        let params = DeleteParams {
                            preconditions: uid.map(|uid| kube::api::Preconditions {
                                uid: Some(uid),
                                resource_version: None,
                            }),
                            ..DeleteParams::default()
                        };
                        let deleted = api.delete(&name, &params).await;
                        deleted.err().filter(|error| !Cluster::is_absent(error))
                    }
                    Ok(_) => None,
                    Err(error) => Some(error),
                }
            }
            Err(error) => Some(error),
        };
        match error {
            None => Ok(None),
            Some(error) => {
                let remedy = remedy(&error, security);
                let doing = format!("failed to create {kind} {name}");
                let error = task.cluster.trouble(doing, error);
                Err(match remedy {
                    Some(remedy) => anyhow!("{error:#}; {remedy}"),
                    None => error,
                })
            }
        }
    });
    let created = created.await?;
    created.ok_or_else(|| {
        anyhow!(
            "{kind} {name} of an earlier CatalogSource is still there; try again when it is gone"
        )
    })
}

/// What helps where the namespace takes only hardened pods.
fn remedy(error: &kube::Error, security: Option<SecurityContext>) -> Option<&'static str> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let is_too_free = security == Some(SecurityContext::Legacy)
        && status.message.contains("violates PodSecurity");
    is_too_free.then_some(
        "run the same command again with --security-context-config=restricted, which hardens the pod as the namespace asks for",
    )
}

/// Removes what served earlier catalogs of a CatalogSource. What is gone already needs no removal, and what cannot be removed
/// does no harm. `former` is the pod that the CatalogSource names.
pub(super) async fn forget(
    task: &Task<'_>,
    namespace: &str,
    owner: &OwnerReference,
    former: Option<&str>,
    served: &Served,
) {
    let forgetting = forget_all(task.cluster, namespace, owner, former, served);
    if task.deadline.within(forgetting).await.is_none() {
        message::warning(
            "what served the catalog before could not be removed in time; the next upgrade removes it",
        );
    }
}

async fn forget_all(
    cluster: &Cluster,
    namespace: &str,
    owner: &OwnerReference,
    former: Option<&str>,
    served: &Served,
) {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let found = of(cluster, &pods, |it| is_former_pod(it, owner, former)).await;
    for name in found.iter().filter(|it| **it != served.pod) {
        match pods.delete(name, &DeleteParams::default()).await {
            Ok(_) => {
                message::note(&format!("Deleted previous registry pod with name {name:?}"));
            }
            Err(error) if Cluster::is_absent(&error) => {}
            Err(error) => {
                let why = cluster.trouble(
                    format!("old registry pod {name:?} failed to delete, requires manual cleanup"),
                    error,
                );
                message::warning(&format!("{why:#}"));
            }
        }
    }
    let kept = &served.config_maps;
    for name in of(cluster, &maps, |it| is_former_part(it, owner, kept)).await {
        if let Err(error) = maps.delete(&name, &DeleteParams::default()).await
            && !Cluster::is_absent(&error)
        {
            let why = cluster.trouble(format!("ConfigMap {name} stays"), error);
            message::warning(&format!("{why:#}"));
        }
    }
}

/// The names of the objects that are meant.
async fn of<K>(
    cluster: &Cluster,
    api: &Api<K>,
    is_meant: impl Fn(&ObjectMeta) -> bool,
) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match api.list_metadata(&ListParams::default()).await {
        Ok(list) => {
            let meant = list.items.into_iter().filter(|it| is_meant(&it.metadata));
            meant.filter_map(|it| it.metadata.name).collect()
        }
        Err(error) => {
            let what = format!("what served the catalog before stays: no {}s", K::kind(&()));
            message::warning(&format!("{:#}", cluster.trouble(what, error)));
            Vec::new()
        }
    }
}

/// Whether a pod serves a catalog of a CatalogSource: one of ours, or the one that operator-sdk has noted.
fn is_former_pod(pod: &ObjectMeta, owner: &OwnerReference, noted: Option<&str>) -> bool {
    belongs(pod, owner)
        && (is_labelled(pod, owner) || noted.is_some() && pod.name.as_deref() == noted)
}

/// Whether a ConfigMap has a part of a catalog that is not served any more, by our label or operator-sdk's name for it. What OLM
/// has unpacked belongs to the CatalogSource as well.
fn is_former_part(map: &ObjectMeta, owner: &OwnerReference, kept: &BTreeSet<String>) -> bool {
    let name = map.name.as_deref().unwrap_or_default();
    let is_named = || name.starts_with(&format!("{}-configmap-partition-", owner.name));
    !kept.contains(name) && belongs(map, owner) && (is_labelled(map, owner) || is_named())
}

fn is_labelled(object: &ObjectMeta, owner: &OwnerReference) -> bool {
    let label = object.labels.as_ref().and_then(|it| it.get(OWNER));
    label == Some(&owner.uid)
}

/// Whether a CatalogSource owns an object that OLM does not look after: of OLM's own pods it is the controller.
fn belongs(object: &ObjectMeta, owner: &OwnerReference) -> bool {
    let mut owners = object.owner_references.iter().flatten();
    owners.any(|it| it.uid == owner.uid && it.controller != Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // parity: sdk-14
    #[test]
    fn a_pod_has_an_address_when_it_answers() {
        let pod = |ip, ready| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"ownerReferences": [{"uid": "1", "apiVersion": "", "kind": "", "name": ""}]},
                "status": {"podIP": ip, "phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap()
        };
        let ready = pod(Some("10.0.0.1"), "True");
        assert_eq!(address(&ready), Some("10.0.0.1"));
        assert_eq!(address(&pod(Some("10.0.0.1"), "False")), None);
        assert_eq!(address(&pod(None, "True")), None);
        assert!(is_owned(&ready, "1") && !is_owned(&ready, "2") && !has_ended(&ready));
    }

    #[test]
    fn a_pod_that_is_too_free_may_be_hardened() {
        let violates = r#"pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true"#;
        let quota = r#"pods "x" is forbidden: exceeded quota: few"#;
        for (message, security, expected) in [
            (violates, Some(SecurityContext::Legacy), true),
            (violates, Some(SecurityContext::Restricted), false),
            (violates, None, false),
            (quota, Some(SecurityContext::Legacy), false),
        ] {
            let error = crate::testing::refused(json!({"message": message}));
            let told = remedy(&error, security);
            assert_eq!(told.is_some(), expected, "{message}");
        }
    }

    #[test]
    fn an_address_is_of_either_family() {
        for (ip, expected) in [
            ("10.0.0.1", Some("10.0.0.1:50051")),
            ("fd00::1", Some("[fd00::1]:50051")),
            ("pod", None),
        ] {
            assert_eq!(socket(ip).ok().as_deref(), expected, "{ip}");
        }
    }

    // parity: sdk-17
    #[test]
    fn only_what_served_the_catalog_before_goes() {
        let owner: OwnerReference = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "tide-catalog", "uid": "1",
        }))
        .unwrap();
        let object = |name: &str, label: Option<&str>, uid: &str, controller| -> ObjectMeta {
            let labels = label.map(|it| json!({OWNER: it}));
            serde_json::from_value(json!({
                "name": name, "labels": labels,
                "ownerReferences": [{"uid": uid, "apiVersion": "", "kind": "", "name": "", "controller": controller}],
            }))
            .unwrap()
        };
        let part = "tide-catalog-configmap-partition-1";
        for (object, expected) in ::tests::rows![
            object("x", Some("1"), "1", None) => true;
            object(part, None, "1", Some(false)) => true;
            // What OLM has unpacked.
            object("0a1b2c", None, "1", Some(false)) => false;
            object("x", Some("2"), "1", None) => false;
            object(part, Some("1"), "2", None) => false;
            object(part, Some("1"), "1", Some(true)) => false;
        ] {
            let is_former = is_former_part(&object, &owner, &BTreeSet::new());
            assert_eq!(is_former, expected, "{object:?}");
        }
        // A catalog that has become smaller: three parts, then one.
        let kept = "tide-catalog-configmap-partition-new-1";
        let old = [1, 2, 3].map(|at| format!("tide-catalog-configmap-partition-old-{at}"));
        let mut all = old.to_vec();
        all.push(kept.to_owned());
        let kept = BTreeSet::from([kept.to_owned()]);
        all.retain(|name| is_former_part(&object(name, Some("1"), "1", None), &owner, &kept));
        assert_eq!(all, old);
        for (object, noted, expected) in ::tests::rows![
            object("x", Some("1"), "1", None), None => true;
            object("x", None, "1", Some(false)), Some("x") => true;
            object("x", None, "1", Some(false)), Some("y") => false;
            object("x", None, "1", Some(false)), None => false;
            // Whoever may write annotations cannot have any pod deleted.
            object("x", None, "2", None), Some("x") => false;
            ObjectMeta { name: Some("x".to_owned()), ..ObjectMeta::default() }, Some("x") => false;
            object("x", None, "1", Some(true)), Some("x") => false;
        ] {
            let is_former = is_former_pod(&object, &owner, noted);
            assert_eq!(is_former, expected, "{object:?} {noted:?}");
        }
    }
}

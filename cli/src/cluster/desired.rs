//! Desired objects of an instance: converted and placed like in the provisioner, and compared with the live ones.

use std::collections::BTreeSet;

use anyhow::Context;
use apply::revision::Revision;
use convert::{Options, deployment_config::DeploymentConfig};
use kube::ResourceExt as _;
use manifests::{
    api::{
        bundle_instance::BundleInstance,
        inventory_format,
        owner::{InstanceOwner, ObjectOwner},
        owner_metadata,
        revision::RevisionDetails,
    },
    content::Content,
    object::{Identity, Object},
    version::KubeVersion,
    yaml,
};
use serde_json::Value;

use super::{
    Cluster,
    live::{ApiKind, LiveObjects, inventory, metadata},
};
use crate::output::message::{self, count};

/// Default install namespace of plain manifests.
const PLAIN_NAMESPACE: &str = "default";

/// Placeholder for the uid of an instance that does not exist. The API server requires a uid in owner references.
const PLACEHOLDER_UID: &str = "00000000-0000-0000-0000-000000000000";

/// A desired object and its live counterpart.
pub(crate) struct DesiredObject {
    /// Object as the provisioner would apply it.
    pub(crate) object: Object,
    pub(crate) kind: ApiKind,
    /// Live object; `None` if it does not exist.
    pub(crate) live: Option<Value>,
    /// Owner of the live object; `None` if it does not exist.
    pub(crate) owner: Option<ObjectOwner>,
}

/// All objects of a bundle or revision for an instance.
pub(crate) struct Desired {
    pub(crate) objects: Vec<DesiredObject>,
    /// Existing Namespaces of other owners, which are used unchanged.
    pub(crate) used_as_is: Vec<Identity>,
    /// Objects of kinds that are not served.
    pub(crate) missing_kinds: Vec<Identity>,
    /// Objects of kinds that are not served, which the instance has neither applied nor deferred.
    pub(crate) newly_deferred: Vec<Object>,
    /// Objects that the instance owns and the bundle no longer contains.
    pub(crate) to_prune: Vec<Identity>,
    pub(crate) owner: InstanceOwner,
}

/// Settings for an instance that does not exist, or that its spec does not contain.
pub(crate) struct InstanceDefaults<'a> {
    pub(crate) name: &'a str,
    pub(crate) install_namespace: Option<&'a str>,
    pub(crate) class: Option<convert::Class>,
    pub(crate) limits: yaml::Limits,
}

/// Converts a bundle for an instance, and reads the live objects; `None` if the bundle is rejected, after its problems were
/// printed.
pub(crate) async fn from_bundle(
    cluster: &Cluster,
    instance: Option<&BundleInstance>,
    defaults: &InstanceDefaults<'_>,
    content: &Content,
) -> anyhow::Result<Option<Desired>> {
    let options = options(cluster, instance, defaults).await?;
    let conversion = convert::plain(content, &options);
    let mut report = conversion.report;
    let Some(objects) = conversion.objects else {
        report.locate(content);
        report.refusals().for_each(message::finding);
        message::error(&format!(
            "the bundle cannot be installed: {}",
            count(report.refusals().count(), "problem")
        ));
        return Ok(None);
    };
    let chosen = options.install_namespace.as_deref().unwrap_or_default();
    let namespace = [chosen, &report.facts.install_namespace, PLAIN_NAMESPACE]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or(PLAIN_NAMESPACE);
    let owner = InstanceOwner {
        name: defaults.name.to_owned(),
        uid: instance
            .and_then(kube::ResourceExt::uid)
            .unwrap_or_else(|| PLACEHOLDER_UID.to_owned()),
    };
    let desired = place(cluster, instance, owner, objects, namespace).await?;
    Ok(Some(desired))
}

/// Returns the objects of a recorded revision, and the live ones.
pub(crate) async fn from_revision(
    cluster: &Cluster,
    instance: &BundleInstance,
    revision: Revision<RevisionDetails>,
) -> anyhow::Result<Desired> {
    let Revision { header, objects } = revision;
    let owner = InstanceOwner {
        name: instance.name_any(),
        uid: instance.uid().unwrap_or_default(),
    };
    place(cluster, Some(instance), owner, objects, &header.namespace).await
}

/// Places rendered objects as the provisioner does, and reads the live ones.
async fn place(
    cluster: &Cluster,
    instance: Option<&BundleInstance>,
    owner: InstanceOwner,
    objects: Vec<Object>,
    namespace: &str,
) -> anyhow::Result<Desired> {
    let mut desired = Desired {
        objects: Vec::new(),
        used_as_is: Vec::new(),
        missing_kinds: Vec::new(),
        newly_deferred: Vec::new(),
        to_prune: Vec::new(),
        owner,
    };
    let recorded = match instance {
        Some(instance) => inventory(cluster, instance).await?,
        None => BTreeSet::new(),
    };
    let status = instance.and_then(|instance| instance.status.as_ref());
    let deferred = status.map_or(&[][..], |status| &status.waiting);
    let mut live = LiveObjects::new(cluster, &objects);
    let mut desired_identities = BTreeSet::new();
    for mut object in objects {
        let kind = live.kind(object.api_version(), object.kind()).await?;
        let Some(kind) = kind else {
            let identity = object.identity();
            let namespace = match identity.namespace.as_str() {
                "" => namespace,
                own => own,
            };
            // The scope of the kind is unknown, so neither of the two possible objects is pruned.
            let possible = ["", namespace].map(|namespace| Identity {
                namespace: namespace.to_owned(),
                ..identity.clone()
            });
            let is_recorded = possible.iter().any(|possible| recorded.contains(possible));
            desired_identities.extend(possible);
            if !is_recorded && !deferred.contains(&identity.deferred_line(object.api_version())) {
                desired.newly_deferred.push(object);
            }
            desired.missing_kinds.push(identity);
            continue;
        };
        owner_metadata::set_namespace(&mut object, kind.namespaced, namespace);
        let identity = object.identity();
        if !desired_identities.insert(identity.clone()) {
            continue; // two objects may become one here; the first one is applied
        }
        owner_metadata::set_owner(&mut object, &desired.owner);
        let found = live.get(&kind, &identity).await?;
        let metadata = found.as_ref().map(metadata).transpose()?;
        let holder = metadata
            .as_ref()
            .map(|metadata| ObjectOwner::from_metadata(metadata, &desired.owner));
        let is_ours = |holder: &ObjectOwner| {
            matches!(holder, ObjectOwner::ThisInstance | ObjectOwner::Released)
        };
        if identity.kind == "Namespace"
            && identity.group.is_empty()
            && holder.as_ref().is_some_and(|holder| !is_ours(holder))
        {
            desired.used_as_is.push(identity);
            continue;
        }
        desired.objects.push(DesiredObject {
            object,
            kind,
            live: found,
            owner: holder,
        });
    }
    desired.to_prune = recorded
        .into_iter()
        .filter(|identity| !desired_identities.contains(identity))
        .collect();
    Ok(desired)
}

async fn options(
    cluster: &Cluster,
    instance: Option<&BundleInstance>,
    defaults: &InstanceDefaults<'_>,
) -> anyhow::Result<Options> {
    let version = cluster.client.apiserver_version().await;
    let version = version.map_err(|error| {
        cluster.explain(
            "failed to read the Kubernetes version of the cluster",
            error,
        )
    })?;
    let kube_version: KubeVersion = format!("{}.{}", version.major, version.minor)
        .parse()
        .context("the API server does not report its version")?;
    let spec = instance.map(|instance| &instance.spec);
    let config = spec
        .and_then(|spec| spec.config.as_ref()?.deployment_config.clone())
        .map(DeploymentConfig::try_from)
        .transpose()
        .with_context(|| format!("invalid spec.config of BundleInstance {}", defaults.name))?;
    let own = spec.and_then(|spec| spec.install_namespace.clone());
    let namespace = defaults.install_namespace.map(str::to_owned);
    if let (Some(own), Some(other)) = (&own, &namespace)
        && own != other
    {
        anyhow::bail!(
            "BundleInstance {} is installed in {own} and cannot be moved to {other}",
            defaults.name
        );
    }
    // The provisioner checks the same API.
    let mut live = LiveObjects::new(cluster, &[]);
    let condition = live.kind("operators.coreos.com/v2", "OperatorCondition");
    Ok(Options {
        class: defaults.class,
        install_namespace: own.or(namespace),
        kube_version,
        operator_condition: condition.await?.is_some(),
        deployment_config: config,
        limits: defaults.limits,
        ..Options::default()
    })
}

/// Returns all objects that an instance owns.
async fn inventory(
    cluster: &Cluster,
    instance: &BundleInstance,
) -> anyhow::Result<BTreeSet<Identity>> {
    let listed = instance
        .status
        .as_ref()
        .and_then(|status| status.inventory.as_ref());
    let kinds = listed.map_or(&[][..], |listed| &listed.kinds);
    let overflow = inventory::overflow_inventory(cluster, instance).await?;
    let overflow = overflow.into_iter().map(|listed| listed.identity);
    let entries = inventory_format::entries(kinds).map(|(identity, _)| identity);
    Ok(entries.chain(overflow).collect())
}

//! The objects that an instance has, or would have: converted and placed as the provisioner does it.

use std::collections::BTreeSet;

use anyhow::Context;
use apply::revision::Revision;
use convert::{Options, overlay::DeploymentConfig};
use kube::ResourceExt as _;
use manifests::{
    api::{
        decorate,
        holder::{Holder, Owner},
        instance::BundleInstance,
        listing,
        revision::RevisionDetails,
    },
    content::Content,
    object::{Identity, Object},
    version::KubeVersion,
    yaml,
};
use serde_json::Value;

use crate::{
    cluster::Cluster,
    live::{Kind, Live, inventory, metadata},
    message::{self, count},
};

/// Where plain manifests without a namespace go when nothing is said.
const PLAIN_NAMESPACE: &str = "default";

/// Stands for the uid of an instance that does not exist: the server wants one in references.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// One object.
pub(crate) struct Wanted {
    /// As it would be sent.
    pub(crate) object: Object,
    pub(crate) kind: Kind,
    /// As it is, if it is there.
    pub(crate) live: Option<Value>,
    /// Whose it is, if it is there.
    pub(crate) holder: Option<Holder>,
}

/// All objects of a bundle for an instance.
pub(crate) struct Desired {
    pub(crate) wanted: Vec<Wanted>,
    /// Namespaces of others, which are used as they are.
    pub(crate) used: Vec<Identity>,
    /// Those whose kinds nobody serves.
    pub(crate) unserved: Vec<Identity>,
    /// What the instance has, and the bundle has not.
    pub(crate) leaving: Vec<Identity>,
    pub(crate) owner: Owner,
}

/// What there is to say besides an instance, or instead of one.
pub(crate) struct Choice<'a> {
    pub(crate) name: &'a str,
    pub(crate) install_namespace: Option<&'a str>,
    pub(crate) class: Option<convert::Class>,
    pub(crate) limits: yaml::Limits,
}

/// Converts a bundle for an instance, and looks at what is there; `None` if it is refused, and was said why.
pub(crate) async fn of(
    cluster: &Cluster,
    instance: Option<&BundleInstance>,
    choice: &Choice<'_>,
    content: &Content,
) -> anyhow::Result<Option<Desired>> {
    let options = options(cluster, instance, choice).await?;
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
    let owner = Owner {
        name: choice.name.to_owned(),
        uid: instance
            .and_then(kube::ResourceExt::uid)
            .unwrap_or_else(|| NOBODY.to_owned()),
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
    let owner = Owner {
        name: instance.name_any(),
        uid: instance.uid().unwrap_or_default(),
    };
    place(cluster, Some(instance), owner, objects, &header.namespace).await
}

/// Places rendered objects as the provisioner does, and reads the live ones.
async fn place(
    cluster: &Cluster,
    instance: Option<&BundleInstance>,
    owner: Owner,
    objects: Vec<Object>,
    namespace: &str,
) -> anyhow::Result<Desired> {
    let mut desired = Desired {
        wanted: Vec::new(),
        used: Vec::new(),
        unserved: Vec::new(),
        leaving: Vec::new(),
        owner,
    };
    let mut live = Live::new(cluster, &objects);
    let mut known = BTreeSet::new();
    for mut object in objects {
        let kind = live.kind(object.api_version(), object.kind()).await?;
        let Some(kind) = kind else {
            let identity = object.identity();
            known.insert(Identity {
                namespace: namespace.to_owned(),
                ..identity.clone()
            });
            known.insert(identity.clone());
            desired.unserved.push(identity);
            continue;
        };
        decorate::place(&mut object, kind.namespaced, namespace);
        let identity = object.identity();
        if !known.insert(identity.clone()) {
            continue; // of two that only became one here, the first counts
        }
        decorate::own(&mut object, &desired.owner);
        let found = live.get(&kind, &identity).await?;
        let metadata = found.as_ref().map(metadata).transpose()?;
        let holder = metadata.as_ref().map(|it| Holder::of(it, &desired.owner));
        let is_ours = |holder: &Holder| matches!(holder, Holder::Us | Holder::Released);
        if identity.kind == "Namespace"
            && identity.group.is_empty()
            && holder.as_ref().is_some_and(|it| !is_ours(it))
        {
            desired.used.push(identity);
            continue;
        }
        desired.wanted.push(Wanted {
            object,
            kind,
            live: found,
            holder,
        });
    }
    if let Some(instance) = instance {
        let had = inventory(cluster, instance).await?;
        desired.leaving = had.into_iter().filter(|it| !known.contains(it)).collect();
    }
    Ok(desired)
}

async fn options(
    cluster: &Cluster,
    instance: Option<&BundleInstance>,
    choice: &Choice<'_>,
) -> anyhow::Result<Options> {
    let version = cluster.client.apiserver_version().await;
    let version = version
        .map_err(|error| cluster.trouble("failed to ask for the server's version", error))?;
    let kube_version: KubeVersion = format!("{}.{}", version.major, version.minor)
        .parse()
        .context("the server does not tell its version")?;
    let spec = instance.map(|it| &it.spec);
    let config = spec
        .and_then(|spec| spec.config.as_ref()?.deployment_config.clone())
        .map(DeploymentConfig::try_from)
        .transpose()
        .with_context(|| format!("spec.config of BundleInstance {} is no good", choice.name))?;
    let own = spec.and_then(|spec| spec.install_namespace.clone());
    let namespace = choice.install_namespace.map(str::to_owned);
    if let (Some(own), Some(other)) = (&own, &namespace)
        && own != other
    {
        anyhow::bail!(
            "BundleInstance {} is installed in {own}, and cannot be moved to {other}",
            choice.name
        );
    }
    // As the provisioner asks.
    let mut live = Live::new(cluster, &[]);
    let condition = live.kind("operators.coreos.com/v2", "OperatorCondition");
    Ok(Options {
        class: choice.class,
        install_namespace: own.or(namespace),
        kube_version,
        operator_condition: condition.await?.is_some(),
        deployment_config: config,
        limits: choice.limits,
        ..Options::default()
    })
}

/// All that an instance has.
async fn inventory(
    cluster: &Cluster,
    instance: &BundleInstance,
) -> anyhow::Result<BTreeSet<Identity>> {
    let listed = instance
        .status
        .as_ref()
        .and_then(|it| it.inventory.as_ref());
    let kinds = listed.map_or(&[][..], |it| &it.kinds);
    let rest = inventory::rest(cluster, instance).await?;
    let rest = rest.into_iter().map(|listed| listed.identity);
    let entries = listing::entries(kinds).map(|(identity, _)| identity);
    Ok(entries.chain(rest).collect())
}

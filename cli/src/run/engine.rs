//! What installs: OLM, or rukpak.

use anyhow::Context;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use manifests::api::olm::{NAMESPACES, OPERATOR, Operator};

use super::native;
use crate::{args::Engine, cluster::Cluster, live::Live, message, upgrade::read::each};

/// Who is there, or was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Olm,
    Native,
}

/// Where somebody wants what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) engine: Engine,
    pub(super) package: &'a str,
    /// Where OLM would install it.
    pub(super) namespace: &'a str,
    /// Where it is to be removed from, if that was said: what is elsewhere is another one's. Nothing is installed beside what is
    /// elsewhere, and so that counts for whoever installs.
    pub(super) removed_from: Option<&'a str>,
}

/// What the cluster has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Seen {
    /// It serves Subscriptions and CatalogSources.
    olm: bool,
    /// OLM is to run, or nobody may see whether it is: its definitions stay when it goes.
    runs: bool,
    /// It serves BundleInstances.
    native: bool,
    /// There is a Subscription to the package in the namespace.
    has_subscription: bool,
    /// There is a BundleInstance of the package.
    has_instance: bool,
}

/// Nobody is there to install anything.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Nobody {
    #[error(
        "the cluster knows neither bundleinstances.core.rukpak.io nor subscriptions.operators.coreos.com with \
         catalogsources.operators.coreos.com: install rukpak first, with kubectl apply --server-side -f \
         manifests/install/rukpak.yaml"
    )]
    AtAll,
    #[error(
        "the cluster does not know subscriptions.operators.coreos.com and catalogsources.operators.coreos.com: install OLM first"
    )]
    Olm,
    #[error(
        "the cluster does not know bundleinstances.core.rukpak.io: install rukpak first, with kubectl apply --server-side -f \
         manifests/install/rukpak.yaml"
    )]
    Native,
}

/// Where both are OLM has to run, and then what is there of the package decides; OLM if nothing is.
#[expect(clippy::match_same_arms, reason = "it is read as a table")]
fn choose(asked: Engine, seen: Seen) -> Result<Found, Nobody> {
    match (asked, seen.olm, seen.native) {
        (Engine::Native, _, true) | (Engine::Auto, false, true) => Ok(Found::Native),
        (Engine::Olm, true, _) => Ok(Found::Olm),
        (Engine::Olm, false, _) => Err(Nobody::Olm),
        (Engine::Native, _, false) => Err(Nobody::Native),
        (Engine::Auto, true, false) => Ok(Found::Olm),
        (Engine::Auto, true, true) if !seen.runs => Ok(Found::Native),
        (Engine::Auto, true, true) if seen.has_subscription || !seen.has_instance => Ok(Found::Olm),
        (Engine::Auto, true, true) => Ok(Found::Native),
        (Engine::Auto, false, false) => Err(Nobody::AtAll),
    }
}

/// Looks at what the cluster has, no further than needed.
pub(super) async fn find(cluster: &Cluster, wanted: Wanted<'_>) -> anyhow::Result<Found> {
    let Wanted {
        engine,
        package,
        namespace,
        removed_from,
    } = wanted;
    let mut live = Live::new(cluster, &[]);
    let subscriptions = live
        .kind("operators.coreos.com/v1alpha1", "Subscription")
        .await?;
    let catalogs = live
        .kind("operators.coreos.com/v1alpha1", "CatalogSource")
        .await?;
    let instances = live
        .kind("core.rukpak.io/v1alpha1", "BundleInstance")
        .await?;
    let mut seen = Seen {
        olm: subscriptions.is_some() && catalogs.is_some(),
        native: instances.is_some(),
        ..Seen::default()
    };
    if engine == Engine::Auto
        && seen.native
        && seen.olm
        && let Some(kind) = subscriptions
    {
        seen.runs = olm_runs(cluster).await?;
        if seen.runs {
            seen.has_subscription =
                is_subscribed(cluster, &kind.resource, namespace, package).await?;
        }
        if seen.runs && !seen.has_subscription {
            seen.has_instance = has_instance(cluster, package, removed_from).await?;
        }
        if !seen.runs {
            message::note(
                "OLM does not run here, though its definitions are there: rukpak is taken; --engine olm decides otherwise",
            );
        }
    }
    choose(engine, seen).context("there is nothing to install with")
}

/// Whether OLM runs, or is to. Whoever may not look believes that it does, as the provisioner does.
async fn olm_runs(cluster: &Cluster) -> anyhow::Result<bool> {
    for namespace in NAMESPACES {
        let api = Api::<Deployment>::namespaced(cluster.client.clone(), namespace);
        match api.get_opt(OPERATOR).await {
            Ok(Some(found)) if Operator::of(&found) != Operator::Gone => return Ok(true),
            Ok(_) => {}
            Err(error) if is_forbidden(&error) => return Ok(true),
            Err(error) => {
                let what = format!("failed to read Deployment {namespace}/{OPERATOR}");
                return Err(cluster.trouble(what, error));
            }
        }
    }
    Ok(false)
}

async fn is_subscribed(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: &str,
    package: &str,
) -> anyhow::Result<bool> {
    let api = Api::<DynamicObject>::namespaced_with(cluster.client.clone(), namespace, resource);
    let mut is_found = false;
    let see = |it: DynamicObject| {
        let name = it.data.pointer("/spec/name");
        is_found |= name.is_some_and(|name| name == package);
    };
    match each(&api, ListParams::default().limit(500), see).await {
        Ok(()) => Ok(is_found),
        Err(error) if is_forbidden(&error) => Ok(false),
        Err(error) => Err(cluster.trouble("failed to list Subscriptions", error)),
    }
}

/// Whoever may not see BundleInstances cannot have made one, and may well use OLM.
async fn has_instance(
    cluster: &Cluster,
    package: &str,
    removed_from: Option<&str>,
) -> anyhow::Result<bool> {
    let instances = cluster.instances();
    match instances.list(&ListParams::default().limit(1)).await {
        Ok(_) => native::is_installed(cluster, package, removed_from).await,
        Err(error) if is_forbidden(&error) => {
            message::note(
                "Whether the package has a BundleInstance is not known, for you may not list them; OLM is taken",
            );
            Ok(false)
        }
        Err(error) => Err(cluster.trouble("failed to list BundleInstances", error)),
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: sdk-2
    #[test]
    fn what_is_there_of_the_package_decides_where_both_are() {
        let seen = |olm, runs, native, has_subscription, has_instance| Seen {
            olm,
            runs,
            native,
            has_subscription,
            has_instance,
        };
        let (auto, native, olm) = (Engine::Auto, Engine::Native, Engine::Olm);
        for (asked, seen, expected) in ::tests::rows![
            auto, seen(false, false, false, false, false) => Err(Nobody::AtAll);
            auto, seen(false, false, true, false, false) => Ok(Found::Native);
            auto, seen(true, true, false, false, false) => Ok(Found::Olm);
            auto, seen(true, true, true, false, false) => Ok(Found::Olm);
            auto, seen(true, true, true, true, true) => Ok(Found::Olm);
            auto, seen(true, true, true, false, true) => Ok(Found::Native);
            // Its definitions are all that is left of it.
            auto, seen(true, false, true, false, false) => Ok(Found::Native);
            auto, seen(true, false, true, true, false) => Ok(Found::Native);
            // It may have another name, or be on its way.
            auto, seen(true, false, false, true, false) => Ok(Found::Olm);
            olm, seen(true, false, true, false, true) => Ok(Found::Olm);
            olm, seen(false, false, true, false, false) => Err(Nobody::Olm);
            native, seen(true, true, true, true, false) => Ok(Found::Native);
            native, seen(true, true, false, false, false) => Err(Nobody::Native);
            native, seen(false, false, false, false, false) => Err(Nobody::Native);
        ] {
            assert_eq!(choose(asked, seen), expected, "{asked:?} {seen:?}");
        }
    }
}

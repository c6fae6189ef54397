//! Detection of the engine that installs operators in this cluster: OLM or rukpak.

use anyhow::Context;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use manifests::api::olm::{CatalogOperatorState, NAMESPACES, OPERATOR};

use super::native;
use crate::{
    args::Engine,
    cluster::{Cluster, live::LiveObjects},
    commands::upgrade_check::cluster_state::each,
    output::message,
};

/// Engine that runs in the cluster, or that the user requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DetectedEngine {
    Olm,
    Native,
}

/// Request for an engine for one package.
#[derive(Debug, Clone, Copy)]
pub(super) struct EngineRequest<'a> {
    pub(super) engine: Engine,
    pub(super) package: &'a str,
    /// Namespace in which OLM would install the package.
    pub(super) namespace: &'a str,
    /// Namespace from which the package is removed; `None` means any. A BundleInstance in another namespace does not count.
    /// An install has no such restriction: a package that is installed in another namespace is not installed twice.
    pub(super) removed_from: Option<&'a str>,
}

/// Features of the cluster that decide about the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct DetectedApis {
    /// The cluster serves Subscriptions and CatalogSources.
    olm: bool,
    /// OLM is running or starting, or its state is forbidden to the user. Its CRDs remain when OLM is uninstalled.
    olm_running: bool,
    /// The cluster serves BundleInstances.
    native: bool,
    /// A Subscription to the package exists in the namespace.
    has_subscription: bool,
    /// A BundleInstance of the package exists.
    has_instance: bool,
}

/// Error if the cluster does not serve the API of a suitable engine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoEngine {
    #[error(
        "the cluster serves neither bundleinstances.core.rukpak.io nor subscriptions.operators.coreos.com with \
         catalogsources.operators.coreos.com; install rukpak with \"kubectl apply --server-side -f \
         manifests/install/rukpak.yaml\""
    )]
    Neither,
    #[error(
        "the cluster does not serve subscriptions.operators.coreos.com and catalogsources.operators.coreos.com; install OLM"
    )]
    Olm,
    #[error(
        "the cluster does not serve bundleinstances.core.rukpak.io; install rukpak with \"kubectl apply --server-side -f \
         manifests/install/rukpak.yaml\""
    )]
    Native,
}

/// Chooses the engine. If both are served, OLM is used only if it is running. Then the objects of the package decide;
/// without any, OLM is used.
#[expect(clippy::match_same_arms, reason = "it is read as a table")]
fn choose(requested: Engine, detected: DetectedApis) -> Result<DetectedEngine, NoEngine> {
    match (requested, detected.olm, detected.native) {
        (Engine::Native, _, true) | (Engine::Auto, false, true) => Ok(DetectedEngine::Native),
        (Engine::Olm, true, _) => Ok(DetectedEngine::Olm),
        (Engine::Olm, false, _) => Err(NoEngine::Olm),
        (Engine::Native, _, false) => Err(NoEngine::Native),
        (Engine::Auto, true, false) => Ok(DetectedEngine::Olm),
        (Engine::Auto, true, true) if !detected.olm_running => Ok(DetectedEngine::Native),
        (Engine::Auto, true, true) if detected.has_subscription || !detected.has_instance => {
            Ok(DetectedEngine::Olm)
        }
        (Engine::Auto, true, true) => Ok(DetectedEngine::Native),
        (Engine::Auto, false, false) => Err(NoEngine::Neither),
    }
}

/// Detects the engine with as few requests as possible.
pub(super) async fn find(
    cluster: &Cluster,
    request: EngineRequest<'_>,
) -> anyhow::Result<DetectedEngine> {
    let EngineRequest {
        engine,
        package,
        namespace,
        removed_from,
    } = request;
    let mut live = LiveObjects::new(cluster, &[]);
    let subscriptions = live
        .kind("operators.coreos.com/v1alpha1", "Subscription")
        .await?;
    let catalogs = live
        .kind("operators.coreos.com/v1alpha1", "CatalogSource")
        .await?;
    let instances = live
        .kind("core.rukpak.io/v1alpha1", "BundleInstance")
        .await?;
    let mut detected = DetectedApis {
        olm: subscriptions.is_some() && catalogs.is_some(),
        native: instances.is_some(),
        ..DetectedApis::default()
    };
    if engine == Engine::Auto
        && detected.native
        && detected.olm
        && let Some(kind) = subscriptions
    {
        detected.olm_running = olm_runs(cluster).await?;
        if detected.olm_running {
            detected.has_subscription =
                is_subscribed(cluster, &kind.resource, namespace, package).await?;
        }
        if detected.olm_running && !detected.has_subscription {
            detected.has_instance = has_instance(cluster, package, removed_from).await?;
        }
        if !detected.olm_running {
            message::note(
                "OLM is not running although its CRDs are installed; using rukpak (set --engine olm to override)",
            );
        }
    }
    choose(engine, detected).context("no engine available")
}

/// Reports whether OLM is running or starting. Like the provisioner, it assumes that OLM runs if the user may not read its
/// Deployment.
async fn olm_runs(cluster: &Cluster) -> anyhow::Result<bool> {
    for namespace in NAMESPACES {
        let api = Api::<Deployment>::namespaced(cluster.client.clone(), namespace);
        match api.get_opt(OPERATOR).await {
            Ok(Some(deployment))
                if CatalogOperatorState::from_deployments(&deployment)
                    != CatalogOperatorState::Absent =>
            {
                return Ok(true);
            }
            Ok(_) => {}
            Err(error) if is_forbidden(&error) => return Ok(true),
            Err(error) => {
                let action = format!("failed to read Deployment {namespace}/{OPERATOR}");
                return Err(cluster.explain(action, error));
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
    let mut is_subscribed = false;
    let inspect = |subscription: DynamicObject| {
        let name = subscription.data.pointer("/spec/name");
        is_subscribed |= name.is_some_and(|name| name == package);
    };
    match each(&api, ListParams::default().limit(500), inspect).await {
        Ok(()) => Ok(is_subscribed),
        Err(error) if is_forbidden(&error) => Ok(false),
        Err(error) => Err(cluster.explain("failed to list Subscriptions", error)),
    }
}

/// Reports whether the package has a BundleInstance. A user who may not list them cannot have created one and probably uses
/// OLM.
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
                "cannot determine whether the package has a BundleInstance because you are not allowed to list \
                 BundleInstances; using OLM",
            );
            Ok(false)
        }
        Err(error) => Err(cluster.explain("failed to list BundleInstances", error)),
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
    fn package_decides_between_two_available_engines() {
        let detected = |olm, olm_running, native, has_subscription, has_instance| DetectedApis {
            olm,
            olm_running,
            native,
            has_subscription,
            has_instance,
        };
        let (auto, native, olm) = (Engine::Auto, Engine::Native, Engine::Olm);
        ::tests::assert_each!(|requested, detected, expected| choose(requested, detected) => expected;
            auto, detected(false, false, false, false, false) => Err(NoEngine::Neither);
            auto, detected(false, false, true, false, false) => Ok(DetectedEngine::Native);
            auto, detected(true, true, false, false, false) => Ok(DetectedEngine::Olm);
            auto, detected(true, true, true, false, false) => Ok(DetectedEngine::Olm);
            auto, detected(true, true, true, true, true) => Ok(DetectedEngine::Olm);
            auto, detected(true, true, true, false, true) => Ok(DetectedEngine::Native);
            // OLM was removed, but its CRDs remain.
            auto, detected(true, false, true, false, false) => Ok(DetectedEngine::Native);
            auto, detected(true, false, true, true, false) => Ok(DetectedEngine::Native);
            // OLM may run under another name, or may be starting.
            auto, detected(true, false, false, true, false) => Ok(DetectedEngine::Olm);
            olm, detected(true, false, true, false, true) => Ok(DetectedEngine::Olm);
            olm, detected(false, false, true, false, false) => Err(NoEngine::Olm);
            native, detected(true, true, true, true, false) => Ok(DetectedEngine::Native);
            native, detected(true, true, false, false, false) => Err(NoEngine::Native);
            native, detected(false, false, false, false, false) => Err(NoEngine::Native);
        );
    }
}

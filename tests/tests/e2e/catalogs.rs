//! CatalogSources as their clients see them: over gRPC, through their Services.
//!
//! ```text
//!  client on the machine ── Service NAME.NAMESPACE, kube-proxy ─┬─ the provisioner, which serves all
//!                                                               └─ a pod of the catalog's own
//! ```

mod forms;
mod pods;

use catalog::registry::{Bounds, Client};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::{Api, api::DeleteParams};
use manifests::api::catalog_source::{CatalogSource, CatalogSourceStatus};
use serde_json::{Value, json};

use super::{
    day_0::{self, Listed, MARKETPLACE},
    wait::{self, LONG, eventually},
    world::{World, kubectl},
};

/// Publishes an image of a catalog that has these versions of a package. Nobody installs any of them.
pub(crate) fn publish(image: &str, package: &'static str, versions: &[&'static str]) -> String {
    let listed: Vec<Listed> = versions.iter().map(|it| version(package, it)).collect();
    day_0::catalog_image(image, &listed.iter().collect::<Vec<_>>())
}

fn version(package: &'static str, version: &'static str) -> Listed {
    Listed {
        package,
        version,
        newest: "4.20",
        image: format!("quay.io/example/{package}:v{version}"),
    }
}

/// Gives the provisioner a role in the marketplace, as the documents say.
pub(crate) fn permit(world: &World, binding: &str, role: &str) {
    let account = "rukpak-system:provisioner";
    let binding = format!("rolebinding {binding} --clusterrole={role} --serviceaccount={account}");
    kubectl(world.cluster, &format!("create {binding} -n {MARKETPLACE}"));
}

/// A CatalogSource, in any form.
pub(crate) fn source(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

/// What a catalog lists to a client of its Service.
async fn listed(services: &Api<Service>, service: &str) -> Result<Vec<String>, String> {
    let service = services.get(service).await.map_err(|it| it.to_string())?;
    let address = service.spec.and_then(|it| it.cluster_ip);
    let address = format!("{}:50051", address.ok_or("it has no address")?);
    let client = Client::connect(&address, Bounds::default()).await;
    let client = client.map_err(|it| it.to_string())?;
    let bundles = client.list_bundles().try_collect::<Vec<_>>().await;
    let bundles = bundles.map_err(|it| it.to_string())?;
    let mut names: Vec<String> = bundles.into_iter().map(|it| it.csv_name).collect();
    names.sort();
    Ok(names)
}

impl World {
    pub(crate) fn sources(&self, namespace: &str) -> Api<CatalogSource> {
        self.of(namespace)
    }

    /// Waits until clients of a Service find these bundles.
    pub(crate) async fn lists(&self, namespace: &str, service: &str, expected: &[&str]) {
        let services = self.of(namespace);
        eventually(&format!("{service} lists {expected:?}"), LONG, async || {
            let names = listed(&services, service).await?;
            (names == expected)
                .then_some(())
                .ok_or(format!("{names:?}"))
        })
        .await;
    }

    /// Waits until the status of a CatalogSource is as wanted.
    pub(crate) async fn told_of(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        wanted: impl Fn(&CatalogSourceStatus) -> bool,
    ) -> CatalogSource {
        let is_it = |it: &CatalogSource| it.status.as_ref().is_some_and(&wanted);
        wait::until_within(self.sources(namespace), name, what, LONG, is_it).await
    }

    /// Waits until a CatalogSource says that clients find it at this address.
    pub(crate) async fn served_at(&self, namespace: &str, name: &str, address: &str) {
        self.told_of(namespace, name, &format!("served at {address}"), |it| {
            let connection = it.connection_state.as_ref();
            it.message.is_none()
                && connection.is_some_and(|it| {
                    it.last_observed_state == "READY" && it.address.as_deref() == Some(address)
                })
        })
        .await;
    }

    /// Deletes a CatalogSource, and waits until its Service is gone as well.
    pub(crate) async fn remove_source(&self, namespace: &str, name: &str) {
        let params = DeleteParams::default();
        let sources = self.sources(namespace);
        sources.delete(name, &params).await.unwrap();
        wait::gone(sources, name).await;
        wait::gone(self.of::<Service>(namespace), &name.replace('.', "-")).await;
    }
}

//! CatalogSources as their clients see them: over gRPC, through their Services.
//!
//! ```text
//!  client on the machine ── Service NAME.NAMESPACE, kube-proxy ─┬─ the provisioner, which serves all
//!                                                               └─ the pod of one catalog
//! ```

mod pods;

use std::error::Error;

use catalog::registry::{Client, ClientLimits};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use manifests::api::catalog_source::CatalogSource;
use serde_json::{Value, json};

use super::{
    day_0::{self, Listed, MARKETPLACE},
    environment::{SYSTEM, World, world},
    wait,
};

/// Publishes an image of a catalog that has these versions of a package. No test installs them: their images do not exist.
pub(crate) fn publish(image: &str, package: &'static str, versions: &[&'static str]) -> String {
    let listed = versions.iter().map(|&version| Listed {
        package,
        version,
        newest: "4.20",
        image: format!("quay.io/example/{package}:v{version}"),
    });
    let listed: Vec<Listed> = listed.collect();
    day_0::catalog_image(image, &listed.iter().collect::<Vec<_>>())
}

pub(crate) fn source(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
}

/// The bundles that a catalog lists to a client of its Service.
async fn listed(services: &Api<Service>, service: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let spec = services.get(service).await?.spec;
    let address = spec.and_then(|spec| spec.cluster_ip);
    let address = format!("{}:50051", address.ok_or("it has no address")?);
    let client = Client::connect(&address, ClientLimits::default()).await?;
    let names = client.list_bundles().map_ok(|bundle| bundle.csv_name);
    let mut names: Vec<String> = names.try_collect().await?;
    names.sort();
    Ok(names)
}

impl World {
    pub(crate) fn sources(&self, namespace: &str) -> Api<CatalogSource> {
        self.api(namespace)
    }

    /// Waits until clients of a Service receive these bundles.
    pub(crate) async fn lists(&self, namespace: &str, service: &str, expected: &[&str]) {
        let services = self.api(namespace);
        wait::equal(expected, async || listed(&services, service).await).await;
    }

    /// Waits until a CatalogSource reports that it is served at this address.
    pub(crate) async fn served_at(&self, namespace: &str, name: &str, address: &str) {
        let (sources, expectation) = (self.sources(namespace), format!("served at {address}"));
        wait::until_within(wait::LONG_TIMEOUT, sources, name, &expectation, |source| {
            source.status.as_ref().is_some_and(|status| {
                let state = status.connection_state.as_ref();
                let state =
                    state.map(|state| (&*state.last_observed_state, state.address.as_deref()));
                status.message.is_none() && state == Some(("READY", Some(address)))
            })
        })
        .await;
    }

    /// Deletes a CatalogSource, and waits until its Service is deleted as well.
    pub(crate) async fn remove_source(&self, namespace: &str, name: &str) {
        wait::delete(self.sources(namespace), name).await;
        wait::deleted(self.api::<Service>(namespace), &name.replace('.', "-")).await;
    }
}

// parity: source-1, source-7, source-18, serve-1
#[tokio::test]
async fn new_catalog_source_forms_work_end_to_end() {
    let world = world().await;
    let image = publish("chest:v1", "chest", &["1.0.0"]);
    let spec = json!({"catalogImageSource": {"catalogImage": image}, "priority": -10});
    world.apply(source(SYSTEM, "chest", &spec)).await;
    let address = "chest.rukpak-system.svc:50051";
    world.served_at(SYSTEM, "chest", address).await;
    world.lists(SYSTEM, "chest", &["chest.v1.0.0"]).await;

    // The provisioner's pod resolves the Service of the other catalog by name, and uses the default port.
    let service = json!({"address": "chest.rukpak-system.svc"});
    let spec = json!({"catalogServiceSource": service, "priority": -10});
    world.apply(source(MARKETPLACE, "lid", &spec)).await;
    world.served_at(MARKETPLACE, "lid", address).await;
    world.remove_source(MARKETPLACE, "lid").await;
    world.remove_source(SYSTEM, "chest").await;
}

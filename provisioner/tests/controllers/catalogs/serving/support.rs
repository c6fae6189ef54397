//! A cluster, and provisioners that serve catalogs in it.

use catalog::registry::{Client, ClientLimits};
use futures::TryStreamExt as _;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{Config, ResourceExt as _, api::ListParams};
use manifests::api::install;
use provisioner::runtime::settings::{Namespaces, Ports, Serving};

use super::super::*;
use crate::api::PROVISIONER;
use crate::support::{SYSTEM, install_rights};

/// An address that no machine has: the tests inspect the control plane, and no node.
pub(crate) const HERE: &str = "192.0.2.1";
pub(crate) const THERE: &str = "192.0.2.2";

/// The bundles of catalogs with one version and with two.
pub(crate) const ONE: [&str; 1] = ["tide.v1.0.0"];
pub(crate) const BOTH: [&str; 2] = ["tide.v1.0.0", "tide.v1.1.0"];

impl Leader {
    /// Starts a provisioner that serves catalogs from a pod with this address, next to the one of the shelf, which does not.
    pub(in crate::catalogs) fn start(cluster: &Cluster, address: &str) -> Self {
        let store = tempfile::tempdir().unwrap();
        Self::with(cluster, address, store, NamespaceQuota::default())
    }

    pub(in crate::catalogs) async fn behind_line(cluster: &Cluster, address: &str) -> (Self, Line) {
        let (line, config) = Line::to(cluster.config().clone()).await;
        let store = tempfile::tempdir().unwrap();
        let leader = Self::with_config(config, address, store, NamespaceQuota::default());
        (leader, line)
    }

    /// Starts a provisioner on the disk of an earlier one.
    pub(super) fn with(cluster: &Cluster, at: &str, store: TempDir, share: NamespaceQuota) -> Self {
        Self::with_config(cluster.config().clone(), at, store, share)
    }

    fn with_config(config: Config, address: &str, store: TempDir, share: NamespaceQuota) -> Self {
        let serving = Serving {
            address: address.parse().unwrap(),
            ports: Ports::Any,
            namespaces: Namespaces::Some(["catalogs".to_owned(), "served".to_owned()].into()),
            pods: false,
            share,
        };
        let settings = tests::with!(settings() => serving: Some(serving));
        Self::run(config, Some(PROVISIONER), settings, store)
    }

    pub(super) fn served(&self) -> Vec<String> {
        let text = self.ctx.metrics.render();
        let lines = text.lines();
        let served = lines.filter_map(|line| line.strip_prefix("rukpak_catalog_served"));
        let mut served: Vec<String> = served.map(str::to_owned).collect();
        served.sort();
        served
    }
}

/// Returns a cluster where the provisioner has the permissions that an admin grants.
pub(in crate::catalogs) async fn stage() -> Shelf {
    let shelf = Shelf::new().await;
    // The provisioner of the shelf serves nothing, and would report that in every status.
    shelf.reader.stop.cancel();
    for namespace in [SYSTEM, "served"] {
        apply(&shelf.cluster, &namespace_object(namespace)).await;
    }
    install_rights(&shelf.cluster, &install::file(&install::Options::default())).await;
    for namespace in ["catalogs", "served"] {
        let binding = install::catalog_server(&install::Options::default(), namespace);
        apply(&shelf.cluster, &binding).await;
    }
    shelf
}

impl Shelf {
    pub(crate) fn services(&self, namespace: &str) -> Api<Service> {
        self.api(namespace)
    }

    pub(crate) fn slices(&self, namespace: &str) -> Api<EndpointSlice> {
        self.api(namespace)
    }

    /// Deletes the CatalogSources of a namespace, and their objects, as the garbage collector would.
    pub(crate) async fn clear(&self, namespace: &str) {
        let (params, all) = (DeleteParams::default(), ListParams::default());
        let sources = self.sources(namespace);
        sources.delete_collection(&params, &all).await.unwrap();
        let services = self.services(namespace);
        for service in services.list(&all).await.unwrap() {
            // A provisioner may have deleted it.
            let _ = services.delete(&service.name_any(), &params).await;
        }
        let slices = self.slices(namespace);
        slices.delete_collection(&params, &all).await.unwrap();
    }

    /// Allows the provisioner to create pods of catalogs in the first namespace.
    pub(crate) async fn allow_pods(&self) {
        let binding = install::catalog_pods(&install::Options::default(), NAMESPACES[0]);
        self.apply(&binding).await;
    }

    /// Lists the objects of a kind in the first namespace that have a label of the provisioner.
    pub(crate) async fn own<K>(&self, label: &str) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let params = ListParams::default().labels(label);
        let objects = self.api::<K>(NAMESPACES[0]);
        objects.list(&params).await.unwrap().items
    }

    pub(crate) async fn endpoint_of(&self, namespace: &str, name: &str) -> Option<(String, u16)> {
        let params = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
        let slices = self.slices(namespace).list(&params).await.unwrap().items;
        let service = self.services(namespace).get_opt(name).await;
        let service = service.unwrap()?.spec.unwrap();
        if !service.selector.unwrap_or_default().is_empty() {
            return None; // its endpoints are pods
        }
        let [slice] = &slices[..] else {
            return None;
        };
        let ([endpoint], [port]) = (slice.endpoints.as_deref()?, slice.ports.as_deref()?) else {
            return None;
        };
        let port = u16::try_from(port.port?).ok()?;
        Some((endpoint.addresses.first()?.clone(), port))
    }

    /// Waits until a Service in the first namespace leads to the first address and serves these bundles, and returns
    /// the port.
    pub(crate) async fn serves(&self, service: &str, expected: &[&str]) -> u16 {
        let service = format!("{}/{service}", NAMESPACES[0]);
        self.hands_out(HERE, &service, expected).await
    }

    /// Waits until clients of a Service get a catalog in which the package has these bundles.
    pub(crate) async fn hands_out(&self, at: &str, service: &str, expected: &[&str]) -> u16 {
        let (namespace, service) = service.split_once('/').unwrap();
        eventually(&format!("{service} hands out {expected:?}"), async || {
            let Some((address, port)) = self.endpoint_of(namespace, service).await else {
                return Err("the Service has no endpoint".to_owned());
            };
            if address != at {
                return Err(format!("the endpoint is {address}"));
            }
            let bundles = bundles(port).await?;
            let is_expected = bundles == expected;
            is_expected.then_some(port).ok_or(format!("{bundles:?}"))
        })
        .await
    }

    /// Waits for an event of a CatalogSource. A name without a namespace is one of the first namespace.
    pub(super) async fn emits(&self, source: &str, reason: &str, text: &str) {
        let (namespace, name) = qualified(source);
        let notes = async || notes_about(&self.client(), namespace, name, reason).await;
        let has_text = |notes: &Vec<String>| notes.iter().any(|note| note.contains(text));
        until(&format!("{name}: {reason} {text}"), notes, has_text).await;
    }
}

/// Returns the sum of the API server's metrics whose lines have these parts, which are separated by spaces.
pub(super) async fn apiserver_metric(shelf: &Shelf, parts: &str) -> usize {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = shelf.client().request_text(request).await.unwrap();
    let lines = text
        .lines()
        .filter(|line| parts.split(' ').all(|part| line.contains(part)));
    let counts = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap());
    counts.sum()
}

pub(crate) async fn bundles(port: u16) -> Result<Vec<String>, String> {
    let list = async {
        let client = Client::connect(&format!("127.0.0.1:{port}"), ClientLimits::default()).await?;
        client.list_bundles().try_collect::<Vec<_>>().await
    };
    let bundles = list.await.map_err(|error| error.to_string())?;
    let names = bundles.into_iter().map(|bundle| bundle.csv_name);
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

pub(super) fn grpc(image: &str) -> Value {
    json!({"image": image})
}

//! Catalogs of servers outside of the provisioner.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use catalog::{
    Limits, Source,
    registry::{Cache, ObserveCalls, Service},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tokio::{net::TcpListener, sync::oneshot};

use super::{
    serving::{HERE, stage},
    status::reason,
    *,
};
use crate::cluster_operator::define;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    calls: Arc<CallCount>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    _dir: TempDir,
}

impl Server {
    /// Serves a catalog with these versions, at a former address, or at any address.
    pub(super) async fn start(at: Option<SocketAddr>, versions: &[&str]) -> Self {
        Self::with_documents(at, &tide(versions)).await
    }

    pub(crate) async fn with_documents(at: Option<SocketAddr>, documents: &[Value]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let configs = dir.path().join("configs");
        std::fs::create_dir(&configs).unwrap();
        write_documents(&configs, documents);
        let cache = Cache::open(&dir.path().join("cache")).unwrap();
        let (store, _) = cache
            .load_or_build(Source::Directory(&configs), &Limits::default())
            .unwrap();
        let at = at.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        let listener = eventually("the port is free", async || {
            let bound = TcpListener::bind(at).await;
            bound.map_err(|error| error.to_string())
        })
        .await;
        let address = listener.local_addr().unwrap();
        let calls = Arc::<CallCount>::default();
        let service = Service::with_observer(Arc::new(store), calls.clone()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            service.serve(listener, stopped).await.unwrap();
        });
        Self {
            address,
            calls,
            stop: Some(stop),
            task,
            _dir: dir,
        }
    }

    pub(crate) async fn replaced(self, documents: &[Value]) -> Self {
        Self::with_documents(Some(self.stop().await), documents).await
    }

    pub(crate) async fn stop(mut self) -> SocketAddr {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.await.unwrap();
        self.address
    }
}

#[derive(Default)]
struct CallCount(AtomicUsize);

impl ObserveCalls for CallCount {
    fn ended(&self, _: &'static str, _: &'static str, _: Duration) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

// The state of the connection needs no call.
#[tokio::test]
async fn catalog_that_no_operator_chooses_from_is_not_read() {
    let shelf = stage().await;
    let leader = Leader::start(&shelf.cluster, HERE);
    let packages = ["tide".to_owned()];
    leader.ctx.catalogs.track_candidates(packages.into());
    let server = Server::start(None, &["1.0.0"]).await;
    let address = server.address.to_string();
    let ready = json!({"connectionState": {"lastObservedState": "READY"}});
    for (namespace, is_read) in [("served", false), ("catalogs", true)] {
        let spec = json!({"address": address});
        shelf.declare(namespace, "mine", spec).await;
        let name = format!("{namespace}/mine");
        shelf.reports(&name, ready.clone()).await;
        tests::assert_rows!(server.calls.0.load(Ordering::Relaxed) > 0 => is_read, "{namespace}");
    }
    leader.end().await;
}

pub(super) fn track(shelf: &Shelf, packages: &[&str]) {
    let packages: BTreeSet<String> = packages.iter().map(|&package| package.to_owned()).collect();
    shelf.reader.ctx.catalogs.track_candidates(packages);
}

/// Leaves no catalogs.
pub(super) async fn servers_are_asked_for_what_is_wanted_and_reported(shelf: &Shelf) {
    let server = Server::start(None, &["1.0.0", "1.1.0"]).await;
    let address = server.address;
    let spec = json!({"address": address.to_string()});
    shelf.declare("catalogs", "mine", spec).await;
    shelf.offers_become(&["catalogs/mine: pending"]).await;
    track(shelf, &["tide", "none"]);
    shelf.tide(&["mine: 1.0.0 1.1.0"]).await;
    assert_eq!(shelf.offers("none"), ["catalogs/mine: absent"]);
    let ready = |address: SocketAddr| {
        json!({
            "reason": null, "message": null,
            "connectionState": {"lastObservedState": "READY", "address": address.to_string()},
            "registryService": {"protocol": "grpc", "serviceName": null, "createdAt": "*"},
        })
    };
    let first = shelf.reports("mine", ready(address)).await;

    // A catalog changes when another process serves it.
    server.stop().await;
    shelf.fails_with("mine", &address.to_string()).await;
    tests::assert_rows!(shelf.offers("tide") => ["catalogs/mine: tide.v1.0.0 tide.v1.1.0"]);
    let failing = json!({
        "reason": "RegistryServerError", "message": "couldn't connect to registry - *",
        "connectionState": {"lastObservedState": "TRANSIENT_FAILURE"},
    });
    shelf.reports("mine", failing).await;
    let server = Server::start(Some(address), &["1.0.0", "1.1.0", "1.2.0"]).await;
    shelf.tide(&["mine: 1.0.0 1.1.0 1.2.0"]).await;
    let again = shelf.reports("mine", ready(address)).await;
    assert_eq!(again.registry_service, first.registry_service);
    let connected = |status: CatalogSourceStatus| status.connection_state.unwrap().last_connect;
    assert!(connected(again) > connected(first));

    // Another address needs another connection.
    let other = Server::start(None, &["1.0.0"]).await;
    let spec = json!({"address": other.address.to_string()});
    shelf.declare("catalogs", "mine", spec).await;
    shelf.reports("mine", ready(other.address)).await;
    server.stop().await;
    shelf.forget(&["mine"]).await;
}

// parity: platform-7, openshift-13
#[tokio::test]
async fn catalogs_of_olm_are_read_from_its_server() {
    let shelf = Shelf::bare().await;
    // CRDs alone do not mean that OLM runs.
    let olm = define(&shelf.cluster, "clusterserviceversions").await;
    define(&shelf.cluster, "catalogsources").await;
    track(&shelf, &["tide"]);
    let spec = json!({"image": "127.0.0.1:1/org/catalog:v1"});
    shelf.declare("catalogs", "mine", spec).await;
    let unreached = "failed to reach the registry 127.0.0.1:1";
    shelf.fails_with("mine", unreached).await;
    let failed = json!({"reason": "RegistryServerError"});
    shelf.reports("mine", failed).await;
    shelf.olm(1).await;
    // No registry is asked while OLM may still start to serve the catalog.
    let waits = "catalogs/mine: unknown: OLM does not serve the catalog yet*";
    shelf.offers_become(&[waits]).await;

    let server = Server::start(None, &["1.0.0"]).await;
    let status = |state: &str| {
        json!({"status": {"connectionState": {
            "address": server.address.to_string(), "lastObservedState": state,
        }}})
    };
    let sources = shelf.sources("catalogs");
    // The content that was read is kept.
    for state in ["READY", "TRANSIENT_FAILURE"] {
        merge_status(&sources, "mine", &status(state)).await;
        shelf.tide(&["mine: 1.0.0"]).await;
    }

    // OLM writes the status of the catalog from now on.
    let source = sources.get("mine").await.unwrap();
    assert_eq!(reason(&source), "RegistryServerError", "{source:?}");

    // OLM and its server are removed, and the status that OLM wrote is kept. Then the image is read.
    merge_status(&sources, "mine", &status("READY")).await;
    server.stop().await;
    let crds: Api<CustomResourceDefinition> = Api::all(shelf.client());
    delete(&crds, &olm).await;
    shelf.fails_with("mine", unreached).await;
    assert_eq!(shelf.offers("tide"), ["catalogs/mine: tide.v1.0.0"]);
}

//! OLM as a client of our gRPC server.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use cluster::machine;
use serde_json::json;
use tempfile::TempDir;

use super::{
    index::{self, Version},
    world::world,
};

/// `rukpak catalog serve` on this machine, where pods reach it.
struct Server {
    child: Child,
    _folder: TempDir,
}

impl Server {
    fn start(address: SocketAddr, bundles: &[&Version]) -> Self {
        let folder = index::write(bundles);
        let mut command = Command::new("rukpak");
        command
            .args(["catalog", "serve", "--port", &address.port().to_string()])
            .arg(folder.path().join("configs"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        while !seen.contains("serving registry") {
            assert_ne!(log.read_line(&mut seen).unwrap(), 0, "{command:?}: {seen}");
        }
        // Whoever closes the pipe ends a server that has something to say.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self {
            child,
            _folder: folder,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

// parity: serve-9
#[tokio::test]
async fn olm_installs_and_upgrades_from_a_catalog_that_rukpak_serves() {
    let world = world().await;
    let address = SocketAddr::new(machine::ADDRESS.into(), 50061);
    let (first, second) = (
        Version::publish("kelp", "1.0.0"),
        Version::publish("kelp", "1.1.0"),
    );
    let other = Version::publish("anemone", "2.0.0");
    let server = Server::start(address, &[&other, &first]);
    world.namespace("served").await;
    world
        .apply(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "ours", "namespace": "served"},
            "spec": {"sourceType": "grpc", "address": address.to_string()},
        }))
        .await;
    let state = ".status.connectionState.lastObservedState";
    world.wait("served", "catalogsources/ours", state, "READY");
    world
        .apply(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "kelp", "namespace": "served"},
            "spec": {"name": "kelp", "channel": "stable", "source": "ours", "sourceNamespace": "served"},
        }))
        .await;
    world.succeeded("served", &first.csv());

    // Whoever updates a catalog's pod serves another catalog at the same address.
    drop(server);
    let _server = Server::start(address, &[&other, &first, &second]);
    world.succeeded("served", &second.csv());
    let subscription = "subscriptions.operators.coreos.com/kelp";
    world.wait(
        "served",
        subscription,
        ".status.installedCSV",
        &second.csv(),
    );
}

//! OLM as a client of the gRPC server of `rukpak catalog serve`.

use std::net::SocketAddr;

use cluster::sandbox;
use serde_json::json;

use super::{
    super::{catalogs, day_0::Server},
    command::subscribe,
    environment::world,
    index::{self, Version},
};

// parity: serve-9
#[tokio::test]
async fn olm_installs_and_upgrades_from_a_rukpak_catalog() {
    let world = world().await;
    let address = SocketAddr::new(sandbox::ADDRESS.into(), 50061);
    let (first, second) = (
        Version::publish("kelp", "1.0.0"),
        Version::publish("kelp", "1.1.0"),
    );
    let other = Version::publish("anemone", "2.0.0");
    let server = Server::start(address.port(), index::write(&[&other, &first]));
    world.namespace("served").await;
    let spec = json!({"sourceType": "grpc", "address": address.to_string()});
    world.apply(catalogs::source("served", "ours", &spec)).await;
    let state = ".status.connectionState.lastObservedState";
    world.wait("served", "catalogsources/ours", state, "READY");
    subscribe(world, "served", &first, "ours", json!({})).await;
    world.succeeded("served", &first.csv());

    // An update of a catalog's pod serves another catalog at the same address.
    drop(server);
    let both = index::write(&[&other, &first, &second]);
    let _server = Server::start(address.port(), both);
    world.succeeded("served", &second.csv());
    let subscription = "subscriptions.operators.coreos.com/kelp";
    let csv = second.csv();
    world.wait("served", subscription, ".status.installedCSV", &csv);
}

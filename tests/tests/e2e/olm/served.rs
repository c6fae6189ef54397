//! OLM as a client of the gRPC server of `rukpak catalog serve`.

use std::net::SocketAddr;

use cluster::sandbox;
use serde_json::json;

use super::{
    super::{catalogs, day_0::Server},
    command::Space,
    index::{self, Version},
};

// parity: serve-9
#[tokio::test]
async fn olm_installs_and_upgrades_from_a_rukpak_catalog() {
    let space = Space::with_group("served").await;
    let address = SocketAddr::new(sandbox::ADDRESS.into(), 50061);
    let [first, second] = ["1.0.0", "1.1.0"].map(|number| Version::publish("kelp", number));
    let other = Version::publish("anemone", "2.0.0");
    let server = Server::start(address.port(), index::write(&[&other, &first]));
    let spec = json!({"sourceType": "grpc", "address": address.to_string()});
    let source = catalogs::source(space.name, "ours", &spec);
    space.world.apply(source).await;
    let state = ".status.connectionState.lastObservedState";
    space.wait("catalogsources/ours", state, "READY");
    space.subscribe(&first, "ours", json!({})).await;
    space.succeeded(&first);

    // An update of a catalog's pod serves another catalog at the same address.
    drop(server);
    let both = index::write(&[&other, &first, &second]);
    let _server = Server::start(address.port(), both);
    space.succeeded(&second);
    let subscription = "subscriptions.operators.coreos.com/kelp";
    space.wait(subscription, ".status.installedCSV", &second.csv());
}

//! Platform operators where there is no OpenShift: the apiserver itself becomes another version.

use manifests::api::platform::PlatformOperator;
use serde_json::json;

use super::stage::{Platform, package};
use crate::{catalogs::served::Server, support::wait_for};

async fn minors(platform: &Platform, cluster: &str, package: &str) {
    let what = format!("{cluster} {package}");
    wait_for(
        platform.operators(),
        "tide",
        &what,
        |it: &PlatformOperator| (it.kept()?.to_string() == what).then_some(()),
    )
    .await;
}

// parity: platform-2
#[tokio::test]
async fn packages_follow_the_apiserver() {
    let platform = Platform::new().await;
    let cluster = platform.world.cluster;
    let tide = platform.bundles("tide", &["1.0.0", "1.1.0"]).await;
    let server = Server::of(None, &package("tide", &tide[..1])).await;
    platform.serve("mine", &server).await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    let _provisioner = platform.start().await;
    platform.has("tide", "1.0.0").await;
    minors(&platform, "1.36", "1.0").await;
    let address = server.stop().await;
    let server = Server::of(Some(address), &package("tide", &tide)).await;
    platform
        .waits(
            "tide",
            "1.1.0",
            "is installed when the cluster is upgraded to one after 1.36",
        )
        .await;
    cluster.upgrade_apiserver("v1.37.0").await.unwrap();
    platform.has("tide", "1.1.0").await;
    minors(&platform, "1.37", "1.1").await;
    server.stop().await;
}

//! Platform operators without OpenShift: the API server itself is upgraded.

use manifests::api::platform_operator::PlatformOperator;
use serde_json::{Value, json};

use super::support::{Platform, packages};
use crate::catalogs::external_servers::Server;
use crate::support::wait_for;

async fn minors(platform: &Platform, cluster: &str, package: &str) {
    let expected = format!("{cluster} {package}");
    let is_approved = |operator: &PlatformOperator| {
        (operator.approved_minors()?.to_string() == expected).then_some(())
    };
    wait_for(platform.operators(), "wave", &expected, is_approved).await;
}

/// Serves one more package, and upgrades the API server.
pub(super) async fn packages_follow_the_apiserver(
    platform: &Platform,
    server: Server,
    others: &[(&str, &[Value])],
) {
    let wave = platform.bundles("wave", &["1.0.0", "1.1.0"]).await;
    let with = |versions: usize| packages(&[others, &[("wave", &wave[..versions])]].concat());
    let server = server.replaced(&with(1)).await;
    platform.want(json!({"package": {"name": "wave"}})).await;
    platform.has("wave", "1.0.0").await;
    minors(platform, "1.36", "1.0").await;
    let server = server.replaced(&with(2)).await;
    let part = "is installed when the cluster is upgraded to a new minor version after 1.36";
    platform.waits("wave", "1.1.0", part).await;
    let cluster = platform.world.cluster;
    cluster.upgrade_apiserver("v1.37.0").await.unwrap();
    platform.has("wave", "1.1.0").await;
    minors(platform, "1.37", "1.1").await;
    server.stop().await;
}

//! Platform operators where there is no OpenShift: the apiserver itself becomes another version.

use manifests::api::platform::PlatformOperator;
use serde_json::{Value, json};

use super::stage::{Platform, packages};
use crate::{catalogs::served::Server, support::wait_for};

async fn minors(platform: &Platform, cluster: &str, package: &str) {
    let what = format!("{cluster} {package}");
    let is_kept = |it: &PlatformOperator| (it.kept()?.to_string() == what).then_some(());
    wait_for(platform.operators(), "wave", &what, is_kept).await;
}

/// Serves one more package beside the others, and upgrades the API server.
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
    let words = "is installed when the cluster is upgraded to a new minor version after 1.36";
    platform.waits("wave", "1.1.0", words).await;
    let cluster = platform.world.cluster;
    cluster.upgrade_apiserver("v1.37.0").await.unwrap();
    platform.has("wave", "1.1.0").await;
    minors(platform, "1.37", "1.1").await;
    server.stop().await;
}

//! Catalogs that are late, unavailable, available again, conflicting or invalid.

use manifests::api::catalog_source::CatalogSource;

use super::support::{Platform, optional_crd, package, packages};
use super::*;

/// Starts the provisioner first, and creates everything else in the most unfavorable order.
// parity: serve-16, platform-1, openshift-4, openshift-13
#[tokio::test]
async fn unavailable_catalog_causes_no_worse_choice() {
    let platform = Platform::bare().await;
    let _provisioner = platform.start().await;
    platform.define(&optional_crd("PlatformOperator")).await;
    platform.declare(json!({"package": {"name": "tide"}})).await;
    let failed = "failed to find candidate olm.bundles from the tide package";
    let reason = "SourceFailed";
    platform.becomes("tide", "False", reason, failed).await;
    reports(&platform, ("False", "NoCatalogs", "no catalog found")).await;
    platform.define(&optional_crd("CatalogSource")).await;
    // Invalid catalogs are reported, and do not affect the others.
    for (name, spec) in tests::rows![
        "garbage" => json!({"address": "not an address"});
        "nothing" => json!({"address": "127.0.0.1:1"});
        "odd" => json!({"image": "No Image"});
    ] {
        platform.source(name, spec).await;
        is_unavailable(&platform, &format!("catalogs/{name}: ")).await;
    }

    let tide = platform.bundles("tide", &["1.0.0", "1.0.1", "1.0.2"]).await;
    let surf = platform.bundles("surf", &["1.0.0"]).await;
    let both: [(&str, &[Value]); 2] = [("tide", &tide[..1]), ("surf", &surf)];
    let lesser = Server::with_documents(None, &packages(&both)).await;
    let better = Server::with_documents(None, &package("tide", &tide[..2])).await;
    let (from_lesser, from_better) = (lesser.address.to_string(), better.address.to_string());
    let from_lesser = json!({"address": from_lesser, "priority": -5});
    platform.source("a-lesser", from_lesser).await;
    platform.has("tide", "1.0.0").await;
    // The installed bundle belongs to its catalog until the operator pins another one. A second operator is installed
    // after the priority of the other catalog could have had an effect.
    let from_better = json!({"address": from_better, "priority": 5});
    platform.source("better", from_better).await;
    platform.declare(json!({"package": {"name": "surf"}})).await;
    platform.has("surf", "1.0.0").await;
    platform.has_chosen("tide", &["1.0.0"]).await;
    let pin = |catalog: Value| json!({"spec": {"catalog": catalog}});
    let catalog = json!({"name": "better", "namespace": "catalogs"});
    platform.edit("tide", pin(catalog)).await;
    platform.has("tide", "1.0.1").await;
    platform.edit("tide", pin(Value::Null)).await;
    let chosen = async || {
        let tide = platform.operators().get("tide").await.unwrap();
        let chosen = tide.status.unwrap().chosen_bundle.unwrap();
        format!("{} {}", chosen.version, chosen.catalog)
    };
    let begun = chosen().await;
    assert_eq!(begun, "1.0.1 catalogs/better");

    let sources: Api<CatalogSource> = Api::namespaced(platform.world.client(), "catalogs");
    for name in ["garbage", "nothing", "odd"] {
        delete(&sources, name).await;
    }
    are_available(&platform, "all catalogs are available").await;
    // The better catalog becomes unavailable: the choice is kept and not downgraded.
    let address = better.stop().await;
    is_unavailable(&platform, "catalogs/better: ").await;
    let patch = json!({"metadata": {"labels": {"look": "again"}}});
    platform.edit("tide", patch).await;
    platform.succeeds("tide", "Successfully applied").await;
    assert_eq!(chosen().await, begun);

    // A new operator does not wait for the unavailable catalog, which was never read for its package.
    let wave = platform.bundles("wave", &["1.0.0"]).await;
    let all: [(&str, &[Value]); 3] = [both[0], both[1], ("wave", &wave)];
    let _lesser = lesser.replaced(&packages(&all)).await;
    platform.declare(json!({"package": {"name": "wave"}})).await;
    platform.has("wave", "1.0.0").await;

    // The catalog is available again with a newer version, and then without the package.
    let better = Server::with_documents(Some(address), &package("tide", &tide)).await;
    platform.has("tide", "1.0.2").await;
    let _better = better.replaced(&package("surf", &surf)).await;
    let lost =
        "the source of the installed bundle, no longer exists or no longer contains the package";
    platform.succeeds("tide", lost).await;
    are_available(&platform, "").await;
    platform
        .has_chosen("tide", &["1.0.0", "1.0.1", "1.0.2"])
        .await;
}

/// Waits until `tide` reports its catalogs with this status, reason and part of the message.
async fn reports(platform: &Platform, expected: (&str, &str, &str)) {
    platform
        .wait_condition("tide", CATALOG_AVAILABLE, expected)
        .await;
}

async fn is_unavailable(platform: &Platform, part: &str) {
    reports(platform, ("False", "CatalogUnavailable", part)).await;
}

async fn are_available(platform: &Platform, part: &str) {
    reports(platform, ("True", "CatalogsAvailable", part)).await;
}

//! Catalogs that come late, go, come back, contradict each other, and hold what cannot be installed.

use manifests::api::{
    condition::INSTALLED,
    platform::{
        PlatformOperator,
        condition::{CATALOG_AVAILABLE, UPGRADEABLE},
    },
};
use serde_json::{Value, json};

use super::stage::{Platform, package, packages};
use crate::catalogs::served::Server;

/// Nothing is there but the provisioner, and then one after the other comes, in the oddest order.
// parity: serve-16, platform-1, openshift-4, openshift-13
#[tokio::test]
async fn catalogs_come_in_any_order_and_nothing_worse_is_chosen_while_one_is_away() {
    let platform = Platform::bare().await;
    let _provisioner = platform.start().await;
    platform.define_kind("PlatformOperator").await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    let failed = "failed to find candidate olm.bundles from the tide package";
    let not_installed = ("Unknown", "NotInstalled", "no bundle is installed");
    for (condition, said) in tests::rows![
        INSTALLED => ("False", "SourceFailed", failed);
        CATALOG_AVAILABLE => ("False", "NoCatalogs", "no catalog found");
        UPGRADEABLE => not_installed;
    ] {
        platform.says("tide", condition, said).await;
    }
    platform.define_kind("CatalogSource").await;
    // Garbage is told, and takes nobody else down.
    for (name, spec) in tests::rows![
        "garbage" => json!({"address": "not an address"});
        "nothing" => json!({"address": "127.0.0.1:1"});
        "odd" => json!({"image": "No Image"});
    ] {
        platform.source(name, spec).await;
        is_away(&platform, &format!("catalogs/{name}: ")).await;
    }

    let tide = platform.bundles("tide", &["1.0.0", "1.0.1", "1.0.2"]).await;
    let lesser = Server::of(None, &package("tide", &tide[..1])).await;
    let better = Server::of(None, &package("tide", &tide[..2])).await;
    let (from_lesser, from_better) = (lesser.address.to_string(), better.address.to_string());
    let from_lesser = json!({"address": from_lesser, "priority": -5});
    platform.source("a-lesser", from_lesser).await;
    platform.has("tide", "1.0.0").await;
    // With a priority that is no use: what is installed came from another one, until somebody names this one.
    let from_better = json!({"address": from_better, "priority": 5});
    platform.source("better", from_better).await;
    let lesser = only_who_is_named_takes_over(&platform, lesser, &tide).await;
    let chosen = async || {
        let tide = platform.operators().get("tide").await.unwrap();
        let chosen = tide.status.unwrap().chosen_bundle.unwrap();
        format!("{} {}", chosen.version, chosen.catalog)
    };
    let begun = chosen().await;
    assert_eq!(begun, "1.0.1 catalogs/better");

    for name in ["garbage", "nothing", "odd"] {
        platform.no_source(name).await;
    }
    all_are_there(&platform, "all catalogs are available").await;
    // The better one goes away: what it has said stays, and nobody goes back.
    let address = better.stop().await;
    is_away(&platform, "catalogs/better: ").await;
    let patch = json!({"metadata": {"labels": {"look": "again"}}});
    platform.patch::<PlatformOperator>("tide", patch).await;
    platform.succeeds("tide", "Successfully applied").await;
    assert_eq!(chosen().await, begun);

    // Somebody new, while the better one is away and was never read for that package: it is not waited for.
    let surf = platform.bundles("surf", &["1.0.0"]).await;
    let both: [(&str, &[Value]); 2] = [("tide", &tide[..1]), ("surf", &surf)];
    let lesser = lesser.replaced(&packages(&both)).await;
    platform.want(json!({"package": {"name": "surf"}})).await;
    platform.has("surf", "1.0.0").await;

    // It comes back with more, and then without the package at all.
    let better = Server::of(Some(address), &package("tide", &tide)).await;
    platform.has("tide", "1.0.2").await;
    let better = better.replaced(&packages(&[("surf", &surf[..])])).await;
    let lost =
        "the source of the installed bundle, no longer exists or no longer contains the package";
    platform.succeeds("tide", lost).await;
    all_are_there(&platform, "").await;
    assert_eq!(platform.choices("tide").await, ["1.0.0", "1.0.1", "1.0.2"]);

    // A catalog that is named is the only one that counts.
    let named = json!({"package": {"name": "tide"}, "catalog": {"name": "nobody"}});
    platform.want(named).await;
    let none = ("False", "NoCatalogs", "correct spec.catalog");
    platform.says("tide", CATALOG_AVAILABLE, none).await;
    platform.succeeds("tide", "Successfully applied").await;
    for server in [lesser, better] {
        server.stop().await;
    }
}

async fn is_away(platform: &Platform, words: &str) {
    let away = ("False", "CatalogUnavailable", words);
    platform.says("tide", CATALOG_AVAILABLE, away).await;
}

async fn all_are_there(platform: &Platform, words: &str) {
    let there = ("True", "CatalogsAvailable", words);
    platform.says("tide", CATALOG_AVAILABLE, there).await;
}

/// The catalog `better` has been there for a while when it is named.
async fn only_who_is_named_takes_over(
    platform: &Platform,
    server: Server,
    tide: &[Value],
) -> Server {
    let other = platform.bundles("wave", &["1.0.0"]).await;
    let server = {
        let both: [(&str, &[Value]); 2] = [("tide", &tide[..1]), ("wave", &other)];
        server.replaced(&packages(&both)).await
    };
    platform.want(json!({"package": {"name": "wave"}})).await;
    platform.has("wave", "1.0.0").await;
    assert_eq!(platform.choices("tide").await, ["1.0.0"]);
    let name = |catalog: Value| json!({"spec": {"catalog": catalog}});
    let better_one = json!({"name": "better", "namespace": "catalogs"});
    platform.edit("tide", name(better_one)).await;
    platform.has("tide", "1.0.1").await;
    platform.edit("tide", name(Value::Null)).await;
    server
}

//! Catalogs that come late, go, come back, contradict each other, and hold what cannot be installed.

use manifests::api::platform::{PlatformOperator, condition::UPGRADEABLE};
use serde_json::{Value, json};

use super::stage::{Platform, bundle, package, packages};
use crate::{
    catalogs::{images::push_documents, served::Server},
    support::{config_map, operator, plain, wait_for},
};

/// Nothing is there but the provisioner, and then one after the other comes, in the oddest order.
#[tokio::test]
async fn catalogs_come_in_any_order_and_nothing_worse_is_chosen_while_one_is_away() {
    let platform = Platform::bare().await;
    let _provisioner = platform.start().await;
    platform.define_kind("PlatformOperator").await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    let failed = "failed to find candidate olm.bundles from the tide package";
    platform
        .becomes("tide", "False", "SourceFailed", failed)
        .await;
    platform
        .catalogs("tide", "False", "NoCatalogs", "there is no catalog")
        .await;
    platform
        .says(
            "tide",
            UPGRADEABLE,
            ("Unknown", "NotInstalled", "nothing is installed"),
        )
        .await;
    platform.define_kind("CatalogSource").await;
    // Garbage is told, and takes nobody else down.
    platform
        .source("garbage", json!({"address": "not an address"}))
        .await;
    platform
        .source("nothing", json!({"address": "127.0.0.1:1"}))
        .await;
    platform.source("odd", json!({"image": "No Image"})).await;
    for words in ["catalogs/garbage: ", "catalogs/nothing: ", "catalogs/odd: "] {
        platform
            .catalogs("tide", "False", "CatalogUnavailable", words)
            .await;
    }

    let tide = platform.bundles("tide", &["1.0.0", "1.0.1", "1.0.2"]).await;
    let lesser = Server::of(None, &package("tide", &tide[..1])).await;
    let better = Server::of(None, &package("tide", &tide[..2])).await;
    let (from_lesser, from_better) = (lesser.address.to_string(), better.address.to_string());
    platform
        .source("a-lesser", json!({"address": from_lesser, "priority": -5}))
        .await;
    platform.has("tide", "1.0.0").await;
    // With a priority that is no use: what is installed came from another one, until somebody names this one.
    platform
        .source("better", json!({"address": from_better, "priority": 5}))
        .await;
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
    platform
        .catalogs(
            "tide",
            "True",
            "CatalogsAvailable",
            "all catalogs can be read",
        )
        .await;
    // The better one goes away: what it has said stays, and nobody goes back.
    let address = better.stop().await;
    platform
        .catalogs("tide", "False", "CatalogUnavailable", "catalogs/better: ")
        .await;
    let patch = json!({"metadata": {"labels": {"look": "again"}}});
    platform.patch::<PlatformOperator>("tide", patch).await;
    platform
        .becomes("tide", "True", "InstallSuccessful", "Successfully applied")
        .await;
    assert_eq!(chosen().await, begun);

    // Somebody new, while the better one is away and was never read for that package: it is not waited for.
    let surf = platform.bundles("surf", &["1.0.0"]).await;
    let both: [(&str, &[Value]); 2] = [("tide", &tide[..1]), ("surf", &surf)];
    let lesser = replace(lesser, &packages(&both)).await;
    platform.want(json!({"package": {"name": "surf"}})).await;
    platform.has("surf", "1.0.0").await;

    // It comes back with more, and then without the package at all.
    let better = Server::of(Some(address), &package("tide", &tide)).await;
    platform.has("tide", "1.0.2").await;
    let better = replace(better, &packages(&[("surf", &surf[..])])).await;
    let lost = "which what is installed was chosen from, is gone or has the package no more";
    platform
        .becomes("tide", "True", "InstallSuccessful", lost)
        .await;
    platform
        .catalogs("tide", "True", "CatalogsAvailable", "")
        .await;
    assert_eq!(platform.choices("tide").await, ["1.0.0", "1.0.1", "1.0.2"]);

    // A catalog that is named is the only one that counts.
    let named = json!({"package": {"name": "tide"}, "catalog": {"name": "nobody"}});
    platform.want(named).await;
    platform
        .catalogs("tide", "False", "NoCatalogs", "correct spec.catalog")
        .await;
    platform
        .becomes("tide", "True", "InstallSuccessful", "Successfully applied")
        .await;
    for server in [lesser, better] {
        server.stop().await;
    }
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
        replace(server, &packages(&both)).await
    };
    platform.want(json!({"package": {"name": "wave"}})).await;
    platform.has("wave", "1.0.0").await;
    assert_eq!(platform.choices("tide").await, ["1.0.0"]);
    let name = |catalog: Value| json!({"spec": {"catalog": catalog}});
    let better_one = json!({"name": "better", "namespace": "catalogs"});
    platform
        .patch::<PlatformOperator>("tide", name(better_one))
        .await;
    platform.has("tide", "1.0.1").await;
    platform
        .patch::<PlatformOperator>("tide", name(Value::Null))
        .await;
    server
}

async fn replace(server: Server, documents: &[Value]) -> Server {
    let address = server.stop().await;
    Server::of(Some(address), documents).await
}

/// Adds a property to a bundle.
fn with(mut bundle: Value, type_: &str, value: &Value) -> Value {
    let properties = bundle["properties"].as_array_mut().unwrap();
    properties.push(json!({"type": type_, "value": value}));
    bundle
}

#[tokio::test]
async fn what_cannot_be_installed_is_passed_over_and_told() {
    let platform = Platform::new().await;
    let hybrid = hybrid(&platform).await;
    platform.source("hybrid", json!({"image": hybrid})).await;
    let server = Server::of(None, &odd_packages(&platform).await).await;
    platform.serve("mine", &server).await;
    for package in ["sand", "reef", "tide", "surf", "moon", "gull"] {
        platform.want(json!({"package": {"name": package}})).await;
    }
    let longest = "o".repeat(45);
    platform
        .want_as(&longest, json!({"package": {"name": "a".repeat(56)}}))
        .await;
    let range = json!({"package": {"name": "range"}, "version": "soon or later"});
    platform.want_as("ranged", range).await;
    let _provisioner = platform.start().await;

    // 1.10.0 comes after 1.9.0, and releases before what is none.
    for (name, version) in [("tide", "1.0.0"), ("moon", "1.10.0")] {
        platform.has(name, version).await;
    }
    for (name, status, reason, words) in [
        (
            "moon",
            "True",
            "InstallSuccessful",
            "package moon is deprecated: use the sun; bundle moon.v1.10.0 is deprecated: it wanes",
        ),
        (
            "sand",
            "True",
            "InstallSuccessful",
            "Successfully applied the sand BundleInstance resource",
        ),
        (
            "reef",
            "False",
            "SourceFailed",
            "is of the format \"helm+v3\", which nothing here installs",
        ),
        ("surf", "False", "SourceFailed", "surf.v1.0.0 needs"),
        ("surf", "False", "SourceFailed", "needs a GPU"),
        (
            &longest,
            "False",
            "SourceFailed",
            "failed to find candidate olm.bundles from the aaaa",
        ),
        (
            "ranged",
            "False",
            "SourceFailed",
            "PlatformOperator ranged: spec.version: ",
        ),
        (
            "gull",
            "False",
            "UnpackFailed",
            "does not support the AllNamespaces install mode",
        ),
    ] {
        platform.becomes(name, status, reason, words).await;
    }
    // What comes after the installed one cannot be had, and it is said why.
    platform
        .waits("tide", "1.1.0", "and dependencies are not resolved here")
        .await;
    let sand = platform.instances().get("sand").await.unwrap();
    let class = sand.spec.template.spec.provisioner_class_name;
    assert_eq!(class.as_deref(), Some("core-rukpak-io-plain"));
    let status = sand.status.unwrap();
    assert_eq!(status.facts.cluster_service_version, None);
    // It is known although it says nothing of itself.
    let known = wait_for(platform.operators(), "sand", "known", |it| {
        it.status.as_ref()?.package_minor.as_ref().map(drop)
    })
    .await;
    assert_eq!(known.status.unwrap().package_minor.as_deref(), Some("1.0"));
    server.stop().await;
}

/// A catalog of what cannot be installed beside what can.
async fn odd_packages(platform: &Platform) -> Vec<Value> {
    let mut tide = platform.bundles("tide", &["1.0.0"]).await;
    let needy = |version: &str, type_: &str, value: &Value| {
        with(
            bundle("tide", version, "example.com/tide:none"),
            type_,
            value,
        )
    };
    tide.push(needy(
        "1.1.0",
        "olm.package.required",
        &json!({"packageName": "etcd", "versionRange": ">=1.0.0"}),
    ));
    tide.push(needy(
        "1.2.0",
        "olm.gvk.required",
        &json!({"group": "etcd.example.com", "kind": "Etcd", "version": "v1"}),
    ));
    tide.push(needy(
        "1.3.0",
        "olm.constraint",
        &json!({"failureMessage": "needs a GPU", "cel": {"rule": "true"}}),
    ));
    let mut surf = platform.bundles("surf", &["1.0.0"]).await;
    surf[0] = with(
        surf[0].clone(),
        "olm.constraint",
        &json!({"failureMessage": "needs a GPU", "cel": {"rule": "true"}}),
    );
    let moon = platform
        .bundles("moon", &["1.9.0", "1.10.0", "2.0.0-rc.1"])
        .await;
    let mut gull = platform.bundles("gull", &["1.0.0"]).await;
    gull[0]["image"] = own_namespace(platform, "gull").await.into();
    let all = [
        ("tide", tide),
        ("surf", surf),
        ("moon", moon),
        ("gull", gull),
    ];
    let mut documents = packages(&all);
    documents.push(json!({
        "schema": "olm.deprecations", "package": "moon", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "use the sun"},
            {"reference": {"schema": "olm.bundle", "name": "moon.v1.10.0"}, "message": "it wanes"},
        ],
    }));
    // Another channel has more, and is not the default.
    documents.push(json!({
        "schema": "olm.channel", "package": "moon", "name": "beta", "entries": [{"name": "moon.v3.0.0"}],
    }));
    documents.push(bundle("moon", "3.0.0", "example.com/moon:none"));
    documents
}

/// A catalog with bundles of several formats, as an image: servers leave out what OLM does not know.
async fn hybrid(platform: &Platform) -> String {
    let objects = [config_map("default", "sand", "hello")];
    let image = platform.push("sand:v1.0.0", &plain(&objects)).await;
    let of = |name: &str, media_type: &str| {
        let bundle = bundle(name, "1.0.0", &image);
        vec![with(bundle, "olm.bundle.mediatype", &media_type.into())]
    };
    let all = [
        ("sand", of("sand", "plain+v0")),
        ("reef", of("reef", "helm+v3")),
    ];
    push_documents(
        &platform.world.registry,
        "org/hybrid:v1",
        &packages(&all),
        None,
    )
}

/// Publishes an operator that wants a namespace to itself.
async fn own_namespace(platform: &Platform, name: &str) -> String {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v1.0.0")},
        "spec": {
            "displayName": name, "version": "1.0.0",
            "installModes": [
                {"type": "OwnNamespace", "supported": true},
                {"type": "SingleNamespace", "supported": false},
                {"type": "MultiNamespace", "supported": false},
                {"type": "AllNamespaces", "supported": false},
            ],
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
        },
    });
    let content = operator(name, "1.0.0", &[("manifests/csv.yaml", csv)]);
    platform.push(&format!("{name}:own"), &content).await
}

//! `rukpak run bundle`, `rukpak run bundle-upgrade` and `rukpak cleanup` with OLM: the stories of operator-sdk's users.

use serde_json::{Value, json};

use super::{
    super::catalogs,
    command::{Space, succeeds, upgraded},
    docs::story,
    index::{self, Version},
};

/// Waits until a version is the only one of its operator: OLM removes the replaced versions with a delay.
fn wait_only_version(space: &Space, version: &Version, before: &[Version]) {
    space.succeeded(version);
    for version in before {
        space.replaced(version);
    }
}

/// Story 1, without an index: v1, v2, v3, in a namespace in which only hardened pods run. Former catalogs leave nothing behind,
/// and `cleanup` removes all objects of the command.
// parity: run-1, run-17, sdk-1, sdk-15, sdk-17, sdk-19
#[tokio::test]
async fn story_1_bundle_is_run_and_upgraded_without_an_index() {
    let space = Space::restricted("run-default").await;
    let versions = ["0.0.1", "0.0.2", "0.0.3"].map(|number| Version::publish("coral", number));
    let hardened = ["--security-context-config=restricted"];
    let [first, second, third, cleanup] =
        story("### Story 1: what run bundle has installed is upgraded, without an index");
    first.plays(&space, &hardened);
    let groups = ["operatorgroup.operators.coreos.com/operator-sdk-og"];
    assert_eq!(space.names("operatorgroup"), groups);
    second.plays(&space, &hardened);
    third.plays(&space, &hardened);
    assert_eq!(space.parts("coral-catalog").len(), 1);
    // A second run reports success.
    let again = ["run", "bundle-upgrade", &versions[2].image, hardened[0]];
    succeeds(space.rukpak(&again), &upgraded(&versions[2]));

    wait_only_version(&space, &versions[2], &versions[..2]);
    cleanup.plays(&space, &[]);
    let kinds = "subscriptions.operators.coreos.com,csv,catalogsource,operatorgroup";
    assert_eq!(space.names(kinds), [""; 0]);
    let run = succeeds(space.rukpak(&["cleanup", "coral"]), "");
    run.err_has("package \"coral\" not found");
}

/// Story 1, with an index of files that has other packages, which can be installed before and after the upgrades.
// parity: run-2, run-18, run-20, sdk-24
#[tokio::test]
async fn story_1_bundle_is_run_and_upgraded_in_an_index_of_files() {
    let space = Space::new("run-files").await;
    let others = ["urchin", "squid"].map(|package| Version::publish(package, "1.0.0"));
    index::publish_dir("files:v1", index::write(&[&others[0], &others[1]]).path());
    let versions = ["0.0.1", "0.0.2", "0.0.3"].map(|number| Version::publish("sponge", number));
    let [first, second, third, cleanup] = story("### Story 1, with an index of files");
    first.plays(&space, &[]);
    for (step, other) in [second, third].iter().zip(&others) {
        step.plays(&space, &[]);
        space.subscribe(other, "sponge-catalog", json!({})).await;
        space.approve(other.package);
        space.succeeded(other);
    }
    // `cleanup` keeps a catalog that other Subscriptions use.
    wait_only_version(&space, &versions[2], &versions[..2]);
    cleanup.plays(&space, &[]);
    space.succeeded(&others[0]);
}

/// Story 1, with an index in an SQLite database. The pod of the catalog may be deleted already.
// parity: run-3, run-6, run-18
#[tokio::test]
async fn story_1_bundle_is_run_and_upgraded_in_a_database_index() {
    let space = Space::new("run-database").await;
    let other = Version::publish("barnacle", "1.0.0");
    index::publish_database("database:v1", &[&other]);
    let versions = ["0.0.1", "0.0.2", "0.0.3"].map(|number| Version::publish("mussel", number));
    let [first, second] = story("### Story 1, with an index in a database");
    first.plays(&space, &[]);
    second.plays(&space, &[]);

    let pod = space.annotation("mussel-catalog", "registry-pod-name");
    space.kubectl(&["delete", "pod", &pod]);
    space.upgrade(&versions[2]);
    space.subscribe(&other, "mussel-catalog", json!({})).await;
    space.approve("barnacle");
    space.succeeded(&other);
}

/// Story 2: v1 was installed by hand from an image that also has v2, which was never approved; then v3 and v4 are run. The
/// Subscription names no channel.
// parity: run-4, run-16, run-19, sdk-7, sdk-12
#[tokio::test]
async fn story_2_traditional_install_is_upgraded() {
    let space = Space::with_group("run-traditional").await;
    let versions =
        ["0.0.1", "0.0.2", "0.0.3", "0.0.4"].map(|number| Version::publish("limpet", number));
    let other = Version::publish("whelk", "1.0.0");
    let image = index::publish_serving("serving:v1", &[&other, &versions[0], &versions[1]]);
    let spec = json!({"sourceType": "grpc", "image": image});
    let source = catalogs::source(space.name, "limpets", &spec);
    space.world.apply(source).await;
    let by_hand =
        json!({"channel": null, "startingCSV": versions[0].csv(), "installPlanApproval": "Manual"});
    space.subscribe(&versions[0], "limpets", by_hand).await;
    space.approve("limpet");
    space.succeeded(&versions[0]);

    let [third, fourth, cleanup] =
        story("### Story 2: what was installed traditionally is upgraded");
    let run = third.plays(&space, &[]);
    let approved = run.err.matches("Approved InstallPlan").count();
    assert!(approved >= 2, "{run:?}");
    fourth.plays(&space, &[]);
    wait_only_version(&space, &versions[3], &versions[..3]);
    space.subscribe(&other, "limpets", json!({})).await;
    space.approve("whelk");
    space.succeeded(&other);
    let injected = space.annotation("limpets", "injected-bundles");
    let injected: Vec<Value> = serde_json::from_str(&injected).unwrap();
    let versions = &versions[2..];
    assert_eq!(injected.len(), versions.len());
    for (bundle, version) in injected.iter().zip(versions) {
        let image = bundle["imageTag"].as_str().unwrap();
        let (named, _) = image.split_once("@sha256:").unwrap();
        assert!(version.image.starts_with(named), "{injected:?}");
    }
    cleanup.plays(&space, &[]);
}

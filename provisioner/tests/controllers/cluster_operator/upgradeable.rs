//! The cluster upgrade gate: inputs from bundles, catalogs and operators.

use manifests::api::{condition::reason, config::ClusterOperatorSpec};

use super::*;
use crate::catalogs::external_servers::Server;
use crate::platform::support::{bundle, package, with_maximum};
use crate::support::{create, delete, image, instance, wait_deleted};

const WILL_NOT: &str = "The following operators will not run on the next OpenShift Version: ";

/// Returns catalog documents in which the bundle has another max OpenShift version.
fn listed(name: &str, image: &str, newest: &str) -> Vec<Value> {
    package(name, &[with_maximum(bundle(name, "1.0.0", image), newest)])
}

async fn is_closed(platform: &Platform, text: &str) {
    let closed = "Upgradeable=False IncompatibleOperatorsInstalled";
    becomes(platform, closed, text).await;
}

// parity: max-1, max-3, max-6, max-16
#[tokio::test]
async fn max_openshift_version_closes_gate_and_catalog_opens_it() {
    let platform = Platform::new().await;
    become_openshift(&platform, &["Completed 4.11.9"]).await;
    let cluster = platform.world.cluster;
    let tide = platform.push_limited("tide", "4.12").await;
    let moon = platform.push_limited("moon", "4.10").await;
    // Returns a catalog that declares these max OpenShift versions for the two operators.
    let catalog = |of_tide: &str, of_moon: &str| {
        let tide = listed("tide", &tide, of_tide);
        [tide, listed("moon", &moon, of_moon)].concat()
    };
    let provisioner = platform.start().await;
    gate_opens(&platform).await;

    // The gate covers every instance, regardless of its creator. 4.12 allows the next release, but not the one after.
    platform.install("tide", &tide).await;
    gate_opens(&platform).await;
    // The revision records the value for an installation that fails half way.
    let installed = platform.instances().get("tide").await.unwrap();
    tests::assert_rows!(installed.status.unwrap().revisions[0].max_open_shift_version.as_deref() => Some("4.12"));
    history(cluster, &["Partial 4.12.0", "Completed 4.11.9"]).await;
    gate_opens(&platform).await;
    history(cluster, &["Completed 4.12.0", "Completed 4.11.9"]).await;
    let names = format!("{WILL_NOT}tide-system/tide\n");
    is_closed(&platform, &names).await;

    // The catalog's value wins without a new bundle, even if no PlatformOperator uses the catalog.
    let server = platform.serve_mine(&catalog("4.13", "4.13")).await;
    gate_opens(&platform).await;

    // The catalog's value also applies to a bundle that was rejected before.
    platform.install("moon", &moon).await;
    let all = |operator: &ClusterOperator| {
        let details = operator.status.as_ref()?.extension.as_ref()?;
        (details["catalogMaxima"].as_object()?.len() == 2).then_some(())
    };
    wait_for(platform.world.api(), AGGREGATED, "recorded", all).await;
    gate_opens(&platform).await;

    // While the catalog is unavailable, its last value remains, also after a restart. The tests of `catalog_cache` and
    // `cluster_operator` cover catalogs of lower priority.
    let address = server.stop().await;
    drop(provisioner);
    let provisioner = platform.start().await;
    provisioner.wait_log("failed to read catalog").await;
    // Only another evaluation reports the condition again.
    let removed = json!({"status": {"conditions": null}});
    merge_status::<ClusterOperator>(&platform.world.api(), AGGREGATED, &removed).await;
    gate_opens(&platform).await;

    // The catalog is available again and lowers its values.
    let _server = Server::with_documents(Some(address), &catalog("4.12", "4.11")).await;
    let names = format!("{WILL_NOT}moon-system/moon, tide-system/tide");
    is_closed(&platform, &names).await;

    // The catalog's value also applies to installations: the bundle's own value would allow this one.
    let instances = platform.instances();
    delete(&instances, "moon").await;
    wait_deleted(instances, "moon").await;
    let (again, world) = (instance("moon", "registry", image(&moon)), &platform.world);
    world.create(&again).await;
    let condition = format!("Installed {}", reason::INSTALL_FAILED);
    let parts = ["requires OpenShift <= 4.1"];
    world.wait_message("moon", &condition, &parts).await;
    is_closed(&platform, "tide-system/tide").await;
    // Without the check, it is installed.
    let off = json!({"spec": {"preflight": {"clusterVersion": "Off"}}});
    merge(&platform.instances(), "moon", &off).await;
    world.wait_instance("moon", "Installed", "True").await;
    is_closed(&platform, &names).await;
}

/// Returns the ClusterServiceVersion of `moon`, as OLM writes it for a bundle with this max OpenShift version.
fn moon_csv(newest: &str) -> Value {
    let maximum = json!({"type": "olm.maxOpenShiftVersion", "value": newest});
    csv(("default", "moon.v1.0.0"), "moon", &[maximum])
}

// parity: max-1, max-6, max-olm-3, max-olm-15
#[tokio::test]
async fn the_catalog_of_a_subscription_opens_the_gate() {
    let platform = Platform::new().await;
    become_openshift(&platform, &["Completed 4.12.0"]).await;
    let world = &platform.world;
    for plural in ["clusterserviceversions", "subscriptions"] {
        define(world.cluster, plural).await;
    }
    let moon = platform.push_limited("moon", "4.12").await;
    let _server = platform.serve_mine(&listed("moon", &moon, "4.13")).await;
    world.apply(&moon_csv("4.12")).await;
    let spec = json!({"name": "moon", "source": "mine", "sourceNamespace": "catalogs", "channel": "stable"});
    let subscription = olm_object("Subscription", ("default", "moon"), &spec);
    world.apply(&subscription).await;
    let _provisioner = platform.start().await;
    // The Subscription has not installed anything yet.
    let closed = format!("{WILL_NOT}default/moon.v1.0.0");
    is_closed(&platform, &closed).await;
    let subscriptions = olm_api(&platform, "default", "Subscription");
    let installed = json!({"installedCSV": "moon.v1.0.0", "lastUpdated": "2026-01-01T00:00:00Z"});
    merge_status(&subscriptions, "moon", &json!({"status": installed})).await;
    gate_opens(&platform).await;

    // OLM's ClusterOperator ignores the value in the catalog.
    let component = ClusterOperator::new("operator-lifecycle-manager", ClusterOperatorSpec {});
    create(&world.api(), &component).await;
    let differs = "- blocks the upgrade, because OLM ignores the value in the catalog: default/moon.v1.0.0 (OLM reads 4.12, the \
                   catalog declares 4.13)";
    becomes(&platform, "Upgradeable=True AsExpected", differs).await;

    // Without the Subscription, the value in the ClusterServiceVersion applies, until the bundle author raises it.
    delete(&subscriptions, "moon").await;
    is_closed(&platform, &closed).await;
    world.apply(&moon_csv("4.13")).await;
    gate_opens(&platform).await;
}

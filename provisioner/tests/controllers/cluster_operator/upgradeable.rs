//! The cluster upgrade gate: inputs from bundles, catalogs and operators.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::PostParams;
use manifests::api::{condition::reason, config::ClusterOperatorSpec};

use super::*;
use crate::catalogs::api_errors::deny;
use crate::catalogs::external_servers::Server;
use crate::platform::support::{bundle, package, with_maximum};
use crate::support::{
    create, delete, found, image, instance, merge_status, operator, wait_deleted,
};

const READY: &str = "Ready for upgrade";
const WILL_NOT: &str = "The following operators will not run on the next OpenShift Version: ";
const INCOMPATIBLE: &str = "IncompatibleOperatorsInstalled";

/// Publishes an operator whose bundle declares this max OpenShift version, and returns its image.
async fn publish(platform: &Platform, name: &str, newest: &str) -> String {
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": newest}]});
    let content = operator(name, "1.0.0", &[("metadata/properties.yaml", properties)]);
    platform.push(&format!("{name}:v1.0.0"), &content).await
}

/// Returns catalog documents in which the bundle has another max OpenShift version.
fn listed(name: &str, image: &str, newest: &str) -> Vec<Value> {
    let bundle = bundle(name, "1.0.0", image);
    package(name, &[with_maximum(bundle, newest)])
}

async fn is_open(platform: &Platform) {
    becomes(platform, "Upgradeable=True AsExpected", READY).await;
}

async fn is_closed(platform: &Platform, text: &str) {
    let closed = format!("Upgradeable=False {INCOMPATIBLE}");
    becomes(platform, &closed, text).await;
}

// parity: max-1, max-6
#[tokio::test]
async fn max_openshift_version_closes_gate_and_catalog_opens_it() {
    let platform = Platform::new().await;
    become_openshift(&platform, &["Completed 4.11.9"]).await;
    let cluster = platform.world.cluster;
    let tide = publish(&platform, "tide", "4.12").await;
    let moon = publish(&platform, "moon", "4.10").await;
    // Returns a catalog that declares these max OpenShift versions for the two operators.
    let catalog = |of_tide: &str, of_moon: &str| {
        let tide = listed("tide", &tide, of_tide);
        [tide, listed("moon", &moon, of_moon)].concat()
    };
    let provisioner = platform.start().await;
    is_open(&platform).await;

    // The gate covers every instance, regardless of its creator. 4.12 allows the next release, but not the one after.
    platform.install("tide", &tide).await;
    is_open(&platform).await;
    history(cluster, &["Partial 4.12.0", "Completed 4.11.9"]).await;
    is_open(&platform).await;
    history(cluster, &["Completed 4.12.0", "Completed 4.11.9"]).await;
    let names = format!("{WILL_NOT}tide-system/tide\n");
    is_closed(&platform, &names).await;

    // The catalog's value wins without a new bundle, even if no PlatformOperator uses the catalog.
    let server = platform.serve_mine(&catalog("4.13", "4.13")).await;
    is_open(&platform).await;

    // The catalog's value also applies to a bundle that was rejected before.
    platform.install("moon", &moon).await;
    let all = |operator: &ClusterOperator| {
        let details = operator.status.as_ref()?.extension.as_ref()?;
        (details["catalogMaxima"].as_object()?.len() == 2).then_some(())
    };
    wait_for(platform.world.api(), AGGREGATED, "recorded", all).await;
    is_open(&platform).await;

    // While the catalog is unavailable, its last value remains, also after a restart, and a catalog of lower priority
    // does not override it.
    let other = Server::with_documents(None, &catalog("4.12", "4.12")).await;
    let low = json!({"address": other.address.to_string(), "priority": -1});
    platform.source("low", low).await;
    let address = server.stop().await;
    drop(provisioner);
    let provisioner = platform.start().await;
    provisioner.wait_log("failed to read catalog").await;
    found("the other one is read", async || {
        let mut lines = provisioner.lines().into_iter();
        lines.find(|line| line["catalog"] == "catalogs/low" && line["packages"] == 2)
    })
    .await;
    is_open(&platform).await;
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    let instances = platform.instances();
    merge(&instances, "tide", &touched).await;
    is_open(&platform).await;

    // The catalog is available again and lowers its values.
    let server = Server::with_documents(Some(address), &catalog("4.12", "4.11")).await;
    let names = format!("{WILL_NOT}moon-system/moon, tide-system/tide");
    is_closed(&platform, &names).await;

    // The catalog's value also applies to installations: the bundle's own value would allow this one.
    delete(&instances, "moon").await;
    wait_deleted(instances, "moon").await;
    let again = instance("moon", "registry", image(&moon));
    platform.world.create(&again).await;
    let condition = format!("Installed {}", reason::INSTALL_FAILED);
    let parts = ["requires OpenShift <= 4.1"];
    platform
        .world
        .wait_message("moon", &condition, &parts)
        .await;
    is_closed(&platform, "tide-system/tide").await;
    server.stop().await;
    other.stop().await;
}

// The objects of an installation that has begun are in the cluster, also after a failure.
#[tokio::test]
async fn a_first_installation_that_fails_half_way_closes_the_gate() {
    let platform = Platform::new().await;
    become_openshift(&platform, &["Completed 4.12.0"]).await;
    let wreck = publish(&platform, "wreck", "4.12").await;
    let deployments = Api::<Deployment>::namespaced(platform.world.client(), "default");
    let dry_run = tests::with!(PostParams::default() => dry_run: true);
    let labels = json!({"app": "wreck"});
    let pod = json!({"containers": [{"name": "wreck", "image": "example.com/wreck:v1"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let deployment = json!({
        "metadata": {"name": "wreck"}, "spec": {"selector": {"matchLabels": labels}, "template": template},
    });
    let deployment = serde_json::from_value(deployment).unwrap();
    let attempt = async || deployments.create(&dry_run, &deployment).await;
    let kind = ("apps", "deployments");
    deny(platform.world.cluster, "CREATE", kind, attempt).await;
    let _provisioner = platform.start().await;
    is_open(&platform).await;

    let (world, source) = (&platform.world, image(&wreck));
    world.instance("wreck", "registry", source).await;
    is_closed(&platform, "wreck: supports OpenShift up to 4.12").await;
    let instance = world.wait_instance("wreck", "Installed", "False").await;
    let status = instance.status.unwrap();
    assert_eq!(status.installed_bundle_name, None);
    assert_eq!(status.revisions.len(), 1);
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
    let moon = publish(&platform, "moon", "4.12").await;
    let server = platform.serve_mine(&listed("moon", &moon, "4.13")).await;
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
    is_open(&platform).await;

    // OLM's ClusterOperator ignores the value in the catalog.
    let name = "operator-lifecycle-manager";
    let component = ClusterOperator::new(name, ClusterOperatorSpec {});
    create(&world.api(), &component).await;
    let differs = "- blocks the upgrade, because OLM ignores the value in the catalog: default/moon.v1.0.0 (OLM reads 4.12, the \
                   catalog declares 4.13)";
    becomes(&platform, "Upgradeable=True AsExpected", differs).await;

    // Without the Subscription, the value in the ClusterServiceVersion applies, until the bundle author raises it.
    delete(&subscriptions, "moon").await;
    is_closed(&platform, &closed).await;
    world.apply(&moon_csv("4.13")).await;
    is_open(&platform).await;
    server.stop().await;
}

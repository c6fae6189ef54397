//! The cluster upgrade gate: inputs from bundles, catalogs and operators.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Client,
    api::PostParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::api::{bundle_instance::BundleInstance, condition::reason};
use unpacker::{Digest, registry::BundleImage};

use super::*;
use crate::catalogs::api_errors::deny;
use crate::catalogs::external_servers::Server;
use crate::platform::support::package;
use crate::support::{
    condition, delete, found, image, instance, merge_status, operator, wait_deleted,
};

const READY: &str = "Ready for upgrade";
const WILL_NOT: &str = "The following operators will not run on the next OpenShift Version: ";
const INCOMPATIBLE: &str = "IncompatibleOperatorsInstalled";

/// Publishes an operator whose bundle declares this max OpenShift version, and returns its image and digest.
async fn publish(platform: &Platform, name: &str, newest: &str) -> (String, Digest) {
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": newest}]});
    let content = operator(name, "1.0.0", &[("metadata/properties.yaml", properties)]);
    let tag = format!("{name}:v1.0.0");
    let image = platform.world.push(&tag, &content).await;
    (image, BundleImage::new(&content).unwrap().digest())
}

/// Returns catalog documents in which the bundle has another max OpenShift version.
fn listed(name: &str, (image, digest): &(String, Digest), newest: &str) -> Vec<Value> {
    let (repository, _) = image.rsplit_once(':').unwrap();
    package(
        name,
        &[json!({
            "schema": "olm.bundle", "package": name, "name": format!("{name}.v1.0.0"),
            "image": format!("{repository}@{digest}"),
            "properties": [
                {"type": "olm.package", "value": {"packageName": name, "version": "1.0.0"}},
                {"type": "olm.csv.metadata", "value": {"displayName": name}},
                {"type": "olm.maxOpenShiftVersion", "value": newest},
            ],
        })],
    )
}

async fn is_open(platform: &Platform) {
    becomes(platform, "Upgradeable=True AsExpected", READY).await;
}

async fn is_closed(platform: &Platform, text: &str) -> String {
    let closed = format!("Upgradeable=False {INCOMPATIBLE}");
    let status = becomes(platform, &closed, text).await.status.unwrap();
    let upgradeable = find(&status, "Upgradeable").unwrap();
    upgradeable.message.clone().unwrap()
}

// parity: max-1, max-6
#[tokio::test]
async fn max_openshift_version_closes_gate_and_catalog_opens_it() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    let cluster = platform.world.cluster;
    history(cluster, &["Completed 4.11.9"]).await;
    let tide = publish(&platform, "tide", "4.12").await;
    let moon = publish(&platform, "moon", "4.10").await;
    let reef = publish(&platform, "reef", "4.12").await;
    // Returns a catalog that declares these max OpenShift versions for the three operators.
    let catalog = |of_tide: &str, of_moon: &str, of_reef: &str| {
        [
            listed("tide", &tide, of_tide),
            listed("moon", &moon, of_moon),
            listed("reef", &reef, of_reef),
        ]
        .concat()
    };
    let provisioner = platform.start().await;
    is_open(&platform).await;

    // The gate covers every instance, regardless of its creator. 4.12 allows the next release, but not the one after.
    platform.install("tide", &tide.0).await;
    is_open(&platform).await;
    history(cluster, &["Partial 4.12.0", "Completed 4.11.9"]).await;
    is_open(&platform).await;
    history(cluster, &["Completed 4.12.0", "Completed 4.11.9"]).await;
    let message = is_closed(&platform, WILL_NOT).await;
    let mut lines = message.lines();
    assert_eq!(lines.next().unwrap(), format!("{WILL_NOT}tide-system/tide"));
    let remedy = "no known version supports 4.13";
    assert!(lines.next().unwrap().contains(remedy), "{message}");

    // The catalog's value wins without a new bundle, even if no PlatformOperator uses the catalog.
    let server = platform.serve_mine(&catalog("4.13", "4.13", "4.13")).await;
    is_open(&platform).await;

    // The catalog's value also applies to a bundle that was rejected before.
    platform.install("moon", &moon.0).await;
    // A PlatformOperator reports the same for itself.
    platform.want(json!({"package": {"name": "reef"}})).await;
    let may_go = ("True", "AsExpected", READY);
    platform.says("reef", "Upgradeable", may_go).await;
    let all = |operator: &ClusterOperator| {
        let details = operator.status.as_ref()?.extension.as_ref()?;
        (details["catalogMaxima"].as_object()?.len() == 3).then_some(())
    };
    wait_for(platform.world.api(), AGGREGATED, "remembered", all).await;
    is_open(&platform).await;

    // While the catalog is unavailable, its last value remains, also after a restart, and a catalog of lower priority
    // does not override it.
    let other = Server::with_documents(None, &catalog("4.12", "4.12", "4.12")).await;
    let low = json!({"address": other.address.to_string(), "priority": -1});
    platform.source("low", low).await;
    let address = server.stop().await;
    drop(provisioner);
    let provisioner = platform.start().await;
    provisioner.says("failed to read catalog").await;
    found("the other one is read", async || {
        let mut lines = provisioner.lines().into_iter();
        lines.find(|line| line["catalog"] == "catalogs/low" && line["packages"] == 3)
    })
    .await;
    is_open(&platform).await;
    let away = ("False", "CatalogUnavailable", "catalogs/mine");
    platform.says("reef", "CatalogAvailable", away).await;
    platform.says("reef", "Upgradeable", may_go).await;
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    change::<BundleInstance>(&platform, "tide", touched).await;
    is_open(&platform).await;

    // The catalog is available again and lowers its values.
    let server = Server::with_documents(Some(address), &catalog("4.12", "4.11", "4.13")).await;
    let names = format!("{WILL_NOT}moon-system/moon, tide-system/tide");
    is_closed(&platform, &names).await;

    // The catalog's value also applies to installations: the bundle's own value would allow this one.
    let instances = platform.world.api::<BundleInstance>();
    delete(&instances, "moon").await;
    wait_deleted(instances, "moon").await;
    let again = instance("moon", "registry", image(&moon.0));
    platform.world.create(&again).await;
    let refused = |moon: &BundleInstance| {
        let installed = condition(&moon.status.as_ref()?.conditions, "Installed")?;
        let is_refused = installed.reason == reason::INSTALL_FAILED
            && installed.message.contains("requires OpenShift <= 4.1");
        is_refused.then_some(())
    };
    wait_for(platform.world.api(), "moon", "refused", refused).await;
    is_closed(&platform, "tide-system/tide").await;
    server.stop().await;
    other.stop().await;
}

// The objects of an installation that has begun are in the cluster, also after a failure.
#[tokio::test]
async fn a_first_installation_that_fails_half_way_closes_the_gate() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    let cluster = platform.world.cluster;
    history(cluster, &["Completed 4.12.0"]).await;
    let wreck = publish(&platform, "wreck", "4.12").await;
    let deployments = Api::<Deployment>::namespaced(platform.world.client(), "default");
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let deployment = json!({
        "metadata": {"name": "wreck"},
        "spec": {
            "selector": {"matchLabels": {"app": "wreck"}},
            "template": {
                "metadata": {"labels": {"app": "wreck"}},
                "spec": {"containers": [{"name": "wreck", "image": "example.com/wreck:v1"}]},
            },
        },
    });
    let deployment = serde_json::from_value(deployment).unwrap();
    let attempt = async || deployments.create(&dry_run, &deployment).await;
    deny(cluster, "CREATE", ("apps", "deployments"), attempt).await;
    let _provisioner = platform.start().await;
    is_open(&platform).await;

    let source = image(&wreck.0);
    platform.world.instance("wreck", "registry", source).await;
    let message = is_closed(&platform, WILL_NOT).await;
    assert!(message.contains("wreck"), "{message}");
    let instance = platform
        .world
        .wait_instance("wreck", "Installed", "False")
        .await;
    let status = instance.status.unwrap();
    assert_eq!(status.installed_bundle_name, None);
    assert_eq!(status.revisions.len(), 1);
}

/// Applies the ClusterOperator of another component, with its related objects.
async fn component(platform: &Platform, name: &str, related: Value) {
    let operator = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {},
    });
    platform.world.apply(&operator).await;
    let status = json!({"status": {"relatedObjects": related}});
    let api = platform.world.api::<ClusterOperator>();
    merge_status(&api, name, &status).await;
}

/// Returns a ClusterServiceVersion of version 1.0.0 with these annotations.
fn service(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"displayName": name, "version": "1.0.0", "install": {"strategy": "deployment"}},
    })
}

/// Returns the annotation that OLM writes for a bundle of a package with this max OpenShift version.
fn recorded(package: &str, newest: &str) -> Value {
    let properties = json!({"properties": [
        {"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}},
        {"type": "olm.maxOpenShiftVersion", "value": newest},
    ]});
    json!({"operatorframework.io/properties": properties.to_string()})
}

fn subscription(package: &str, catalog: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": package, "namespace": "default"},
        "spec": {"name": package, "source": catalog, "sourceNamespace": "catalogs", "channel": "stable"},
    })
}

fn subscriptions(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", "Subscription");
    Api::namespaced_with(client, "default", &ApiResource::from_gvk(&kind))
}

/// Writes the installed ClusterServiceVersion into the status of a Subscription, as OLM does.
async fn is_installed(subscriptions: &Api<DynamicObject>, subscription: &mut Value, service: &str) {
    subscription["status"] =
        json!({"installedCSV": service, "lastUpdated": "2026-01-01T00:00:00Z"});
    let name = subscription["metadata"]["name"].as_str().unwrap();
    let (params, patch) = (
        PatchParams::apply("olm").force(),
        Patch::Apply(&*subscription),
    );
    let written = subscriptions.patch_status(name, &params, &patch).await;
    written.unwrap();
}

// parity: max-1, max-6, max-olm-3, max-olm-15
#[tokio::test]
async fn the_catalog_of_a_subscription_opens_the_gate() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    let cluster = platform.world.cluster;
    history(cluster, &["Completed 4.12.0"]).await;
    for plural in ["clusterserviceversions", "subscriptions"] {
        define(cluster, plural).await;
    }
    let moon = publish(&platform, "moon", "4.12").await;
    let server = platform.serve_mine(&listed("moon", &moon, "4.13")).await;
    let moon = service("moon.v1.0.0", &recorded("moon", "4.12"));
    platform.world.apply(&moon).await;
    let mut subscription = subscription("moon", "mine");
    platform.world.apply(&subscription).await;
    let _provisioner = platform.start().await;
    // The Subscription has not installed anything yet.
    is_closed(&platform, &format!("{WILL_NOT}default/moon.v1.0.0")).await;
    let subscriptions = subscriptions(platform.world.client());
    is_installed(&subscriptions, &mut subscription, "moon.v1.0.0").await;
    is_open(&platform).await;

    // OLM's ClusterOperator ignores the value in the catalog.
    component(&platform, "operator-lifecycle-manager", json!([])).await;
    let differs = "- blocks the upgrade, because OLM ignores the value in the catalog: default/moon.v1.0.0 (OLM reads 4.12, the \
                   catalog declares 4.13)";
    becomes(&platform, "Upgradeable=True AsExpected", differs).await;

    // An operator of the release payload is recognized by its ClusterOperator.
    platform.apply(&service("packageserver", &json!({}))).await;
    let unknown = "Upgradeable=True IndeterminateOperatorsInstalled";
    becomes(&platform, unknown, "default/packageserver").await;
    let related = json!([
        {"group": "", "resource": "namespaces", "name": "default"},
        {"group": "operators.coreos.com", "resource": "clusterserviceversions", "namespace": "default",
         "name": "packageserver"},
    ]);
    let name = "operator-lifecycle-manager-packageserver";
    component(&platform, name, related).await;
    is_open(&platform).await;

    // Without the Subscription, the value in the ClusterServiceVersion applies.
    delete(&subscriptions, "moon").await;
    is_closed(&platform, &format!("{WILL_NOT}default/moon.v1.0.0")).await;
    // The bundle author raises the value.
    let raised = service("moon.v1.0.0", &recorded("moon", "4.13"));
    platform.apply(&raised).await;
    is_open(&platform).await;
    server.stop().await;
}

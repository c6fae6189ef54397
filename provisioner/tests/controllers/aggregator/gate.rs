//! Whether the cluster may be upgraded, as bundles, catalogs and operators say.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DeleteParams;
use manifests::api::instance::BundleInstance;
use unpacker::{Digest, registry::BundleImage};

use super::*;
use crate::{
    catalogs::served::Server,
    platform::stage::package,
    support::{condition, eventually, image, instance, operator},
};

const READY: &str = "Ready for upgrade";
const WILL_NOT: &str = "The following operators will not run on the next OpenShift Version: ";
const INCOMPATIBLE: &str = "IncompatibleOperatorsInstalled";

/// Publishes an operator whose bundle names its newest release, and gives image and digest.
async fn publish(platform: &Platform, name: &str, newest: &str) -> (String, Digest) {
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": newest}]});
    let content = operator(name, "1.0.0", &[("metadata/properties.yaml", properties)]);
    let image = platform
        .world
        .push(&format!("{name}:v1.0.0"), &content)
        .await;
    (image, BundleImage::new(&content).unwrap().digest())
}

/// A catalog in which the bundle names another one.
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
    becomes(platform, "Upgradeable", "True", "AsExpected", READY).await;
}

async fn is_closed(platform: &Platform, words: &str) -> String {
    let operator = becomes(platform, "Upgradeable", "False", INCOMPATIBLE, words).await;
    let status = operator.status.unwrap();
    find(&status, "Upgradeable")
        .unwrap()
        .message
        .clone()
        .unwrap()
}

#[tokio::test]
async fn a_maximum_closes_the_gate_and_a_catalog_opens_it() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    let cluster = platform.world.cluster;
    history(cluster, &["Completed 4.11.9"]).await;
    let tide = publish(&platform, "tide", "4.12").await;
    let moon = publish(&platform, "moon", "4.10").await;
    let reef = publish(&platform, "reef", "4.12").await;
    // A catalog that names these for the three.
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

    // Whoever has made it: it counts. 4.12 runs on the next release, and not on the one after it.
    platform
        .world
        .instance("tide", "registry", image(&tide.0))
        .await;
    platform
        .world
        .wait_instance("tide", "Installed", "True")
        .await;
    is_open(&platform).await;
    history(cluster, &["Partial 4.12.0", "Completed 4.11.9"]).await;
    is_open(&platform).await;
    history(cluster, &["Completed 4.12.0", "Completed 4.11.9"]).await;
    let message = is_closed(&platform, WILL_NOT).await;
    let mut lines = message.lines();
    assert_eq!(lines.next().unwrap(), format!("{WILL_NOT}tide-system/tide"));
    let remedy = "no version that runs on 4.13 is known";
    assert!(lines.next().unwrap().contains(remedy), "{message}");

    // The catalog knows better, without a new bundle. It is asked although nobody chooses from it.
    let server = Server::of(None, &catalog("4.13", "4.13", "4.13")).await;
    platform.serve("mine", &server).await;
    is_open(&platform).await;

    // So it does for what was refused.
    platform
        .world
        .instance("moon", "registry", image(&moon.0))
        .await;
    platform
        .world
        .wait_instance("moon", "Installed", "True")
        .await;
    // A platform operator says the same of itself.
    platform.want(json!({"package": {"name": "reef"}})).await;
    let may_go = ("True", "AsExpected", READY);
    platform.says("reef", "Upgradeable", may_go).await;
    let all = |operator: &ClusterOperator| {
        let details = operator.status.as_ref()?.extension.as_ref()?;
        (details["catalogMaxima"].as_object()?.len() == 3).then_some(())
    };
    wait_for(platform.world.api(), AGGREGATED, "remembered", all).await;
    is_open(&platform).await;

    // While it is away, its last word stays: also for another process, and one that comes after it does not overrule it.
    let other = Server::of(None, &catalog("4.12", "4.12", "4.12")).await;
    let low = json!({"address": other.address.to_string(), "priority": -1});
    platform.source("low", low).await;
    let address = server.stop().await;
    drop(provisioner);
    let provisioner = platform.start().await;
    provisioner.says("a catalog cannot be read").await;
    eventually("the other one is read", async || {
        let mut lines = provisioner.lines().into_iter();
        let is_read = |line: &Value| line["catalog"] == "catalogs/low" && line["packages"] == 3;
        lines
            .find(is_read)
            .map(drop)
            .ok_or_else(|| provisioner.log())
    })
    .await;
    is_open(&platform).await;
    let away = ("False", "CatalogUnavailable", "catalogs/mine");
    platform.says("reef", "CatalogAvailable", away).await;
    platform.says("reef", "Upgradeable", may_go).await;
    let touched = json!({"metadata": {"annotations": {"touched": "yes"}}});
    change::<BundleInstance>(&platform, "tide", touched).await;
    is_open(&platform).await;

    // It is back, and takes its word back.
    let server = Server::of(Some(address), &catalog("4.12", "4.11", "4.13")).await;
    let names = format!("{WILL_NOT}moon-system/moon, tide-system/tide");
    is_closed(&platform, &names).await;

    // What it says counts for installations, too: this bundle's own word would let it in.
    let instances = platform.world.api::<BundleInstance>();
    instances
        .delete("moon", &DeleteParams::default())
        .await
        .unwrap();
    crate::support::gone(instances, "moon").await;
    let again = instance("moon", "registry", image(&moon.0));
    platform.world.create(&again).await;
    let refused = platform
        .world
        .wait_instance("moon", "Installed", "False")
        .await;
    let status = refused.status.unwrap();
    let said = &condition(&status.conditions, "Installed").unwrap().message;
    assert!(said.contains("requires OpenShift <= 4.1"), "{said}");
    is_closed(&platform, "tide-system/tide").await;
    server.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn what_olm_has_installed_counts_and_its_copies_do_not() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    let cluster = platform.world.cluster;
    history(cluster, &["Completed 4.12.0"]).await;
    let _provisioner = platform.start().await;
    is_open(&platform).await;

    let name = define(cluster, "clusterserviceversions").await;
    let service = |namespace: &str, name: &str, newest: Option<&str>, labels: Value| {
        let mut annotations = json!({"olm.operatorNamespace": "catalogs"});
        if let Some(newest) = newest {
            let properties =
                json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": newest}]});
            annotations["operatorframework.io/properties"] = properties.to_string().into();
        }
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations, "labels": labels},
            "spec": {"displayName": "x".repeat(1 << 16), "install": {"strategy": "deployment"}},
        })
    };
    // Two that do not say it, in their words and out of them.
    platform
        .world
        .apply(&service("catalogs", "silent.v1", None, json!({})))
        .await;
    platform
        .world
        .apply(&service("catalogs", "odd.v1", Some("foo"), json!({})))
        .await;
    let may_not = "The following operators may not run on the next OpenShift Version: catalogs/odd.v1, catalogs/silent.v1";
    let unknown = "IndeterminateOperatorsInstalled";
    becomes(&platform, "Upgradeable", "True", unknown, may_not).await;
    // One that blocks; and its copies, by their label, their annotation, and their status.
    platform
        .world
        .apply(&service("catalogs", "etcd.v1", Some("4.12"), json!({})))
        .await;
    let copied = json!({"olm.copiedFrom": "catalogs"});
    platform
        .world
        .apply(&service("default", "etcd.v1", Some("4.12"), copied))
        .await;
    platform
        .world
        .apply(&service("kube-system", "etcd.v1", Some("4.12"), json!({})))
        .await;
    let message = is_closed(&platform, "etcd.v1").await;
    let mut lines = message.lines();
    assert_eq!(lines.next().unwrap(), format!("{WILL_NOT}catalogs/etcd.v1"));
    let remedy =
        "runs on OpenShift 4.12 at most: upgrade it with its Subscription, or uninstall it";
    assert!(lines.next().unwrap().ends_with(remedy), "{message}");
    // Its maximum is raised.
    platform
        .world
        .apply(&service("catalogs", "etcd.v1", Some("4.13"), json!({})))
        .await;
    becomes(&platform, "Upgradeable", "True", unknown, may_not).await;
    // OLM goes.
    let definitions = platform.world.api::<CustomResourceDefinition>();
    definitions
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    is_open(&platform).await;
}

/// The example of the design document, with a name.
const EXAMPLE: &str = r#"
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo
  namespace: default
  annotations:
    # Prevent upgrades to OpenShift Version 4.9
    operators.coreos.com/maxOpenShiftVersion: "4.8"
spec:
  displayName: Foo
  install:
    strategy: deployment
"#;

#[tokio::test]
async fn the_annotation_of_a_csv_closes_the_gate() {
    let platform = Platform::new().await;
    become_openshift(&platform).await;
    let cluster = platform.world.cluster;
    history(cluster, &["Completed 4.7.9"]).await;
    define(cluster, "clusterserviceversions").await;
    let mut example = yaml::documents(EXAMPLE.as_bytes()).next().unwrap().unwrap();
    platform.world.apply(&example).await;
    let _provisioner = platform.start().await;
    is_open(&platform).await;
    history(cluster, &["Completed 4.8.0", "Completed 4.7.9"]).await;
    let message = is_closed(&platform, WILL_NOT).await;
    let first = "The following operators will not run on the next OpenShift Version: default/foo";
    assert_eq!(message.lines().next(), Some(first));
    assert!(
        message.contains("runs on OpenShift 4.8 at most"),
        "{message}"
    );
    // The author has tested the operator on 4.9.
    let annotations = &mut example["metadata"]["annotations"];
    annotations["operators.coreos.com/maxOpenShiftVersion"] = "4.9".into();
    platform.world.apply(&example).await;
    is_open(&platform).await;
}

/// Applies the ClusterOperator of another component, with its related objects.
async fn component(platform: &Platform, name: &str, related: Value) {
    let operator = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {},
    });
    platform.world.apply(&operator).await;
    let status = json!({"status": {"relatedObjects": related}});
    let api = platform.world.api::<ClusterOperator>();
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

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
    let server = Server::of(None, &listed("moon", &moon, "4.13")).await;
    platform.serve("mine", &server).await;
    let service = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"displayName": name, "version": "1.0.0", "install": {"strategy": "deployment"}},
        })
    };
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.12"}]});
    let written = json!({"operatorframework.io/properties": properties.to_string()});
    platform.world.apply(&service("moon.v1.0.0", written)).await;
    let mut subscription = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "moon", "namespace": "default"},
        "spec": {"name": "moon", "source": "mine", "sourceNamespace": "catalogs", "channel": "stable"},
    });
    platform.world.apply(&subscription).await;
    let _provisioner = platform.start().await;
    // The Subscription has installed nothing yet.
    is_closed(&platform, &format!("{WILL_NOT}default/moon.v1.0.0")).await;
    let status = json!({"installedCSV": "moon.v1.0.0", "lastUpdated": "2026-01-01T00:00:00Z"});
    subscription["status"] = status;
    let resource = kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
        "operators.coreos.com",
        "v1alpha1",
        "Subscription",
    ));
    let subscriptions: Api<kube::core::DynamicObject> =
        Api::namespaced_with(platform.world.client(), "default", &resource);
    let params = PatchParams::apply("olm").force();
    subscriptions
        .patch_status("moon", &params, &Patch::Apply(&subscription))
        .await
        .unwrap();
    is_open(&platform).await;

    // OLM's own ClusterOperator does not know of the catalog's value.
    component(&platform, "operator-lifecycle-manager", json!([])).await;
    let differs = "- blocks the upgrade, because OLM ignores the value in the catalog: default/moon.v1.0.0 (OLM reads 4.12, the \
                   catalog declares 4.13)";
    becomes(&platform, "Upgradeable", "True", "AsExpected", differs).await;

    // An operator of the release payload is known by its ClusterOperator.
    platform
        .world
        .apply(&service("packageserver", json!({})))
        .await;
    let unknown = "IndeterminateOperatorsInstalled";
    becomes(
        &platform,
        "Upgradeable",
        "True",
        unknown,
        "default/packageserver",
    )
    .await;
    let related = json!([
        {"group": "", "resource": "namespaces", "name": "default"},
        {"group": "operators.coreos.com", "resource": "clusterserviceversions", "namespace": "default",
         "name": "packageserver"},
    ]);
    component(
        &platform,
        "operator-lifecycle-manager-packageserver",
        related,
    )
    .await;
    is_open(&platform).await;

    // Without the Subscription, the ClusterServiceVersion's own value counts.
    subscriptions
        .delete("moon", &DeleteParams::default())
        .await
        .unwrap();
    is_closed(&platform, &format!("{WILL_NOT}default/moon.v1.0.0")).await;
    server.stop().await;
}

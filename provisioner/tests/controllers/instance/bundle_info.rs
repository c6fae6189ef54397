//! Bundle info in the status, and the settings of the instance for the installation.

use super::*;

/// Returns a registry bundle with many properties.
pub(super) fn talkative(name: &str, version: &str) -> manifests::content::Content {
    let properties = json!({"properties": [
        {"type": "olm.maxOpenShiftVersion", "value": "4.12"},
        {"type": "olm.package.required", "value": {"packageName": "etcd", "versionRange": ">=0.9.0"}},
    ]});
    support::operator(name, version, &[("metadata/properties.yaml", properties)])
}

// parity: r1, complaint-6
#[tokio::test]
async fn r1_status_reports_the_bundle_info() {
    let world = running().await;
    let (name, space) = (
        unique("facts"),
        world.cluster.temp_namespace("facts").await.unwrap(),
    );
    let tag = world
        .push(&format!("{name}:v1"), &talkative(&name, "1.2.3"))
        .await;
    let mut instance = support::instance(&name, "registry", image(&tag));
    instance.spec.install_namespace = Some(space.name().to_owned());
    instance.spec.config = Some(
        serde_json::from_value(json!({"deploymentConfig": {
            "env": [{"name": "TESTED", "value": "yes"}],
            "nodeSelector": {"disk": "fast"},
        }}))
        .unwrap(),
    );
    world.create(&instance).await;
    let instance = world.wait_instance(&name, "Installed", "True").await;
    let status = instance.status.as_ref().unwrap();
    let facts = &status.facts;
    assert_eq!(facts.package.as_deref(), Some(name.as_str()));
    assert_eq!(facts.version.as_deref(), Some("1.2.3"));
    assert_eq!(facts.max_open_shift_version.as_deref(), Some("4.12"));
    assert_eq!(
        facts.provided_apis,
        [format!("Widget {name}.example.com/v1")]
    );
    let conversion = facts.conversion.as_ref().unwrap();
    let requires = &facts.requires;
    let is_etcd = |line: &String| line == "etcd >=0.9.0";
    assert!(requires.iter().any(is_etcd), "{requires:?}");
    // The namespace exists already and has no owner.
    let installed = status.inventory.as_ref().unwrap().count;
    assert_eq!(conversion.objects, installed + 1);
    // The digest of the tag at that time.
    let resolved = status.resolved_source.clone().unwrap().image.unwrap();
    assert!(resolved.reference.contains("@sha256:"), "{resolved:?}");
    assert_eq!(status.install_namespace.as_deref(), Some(space.name()));

    let operator = format!("{name}-operator");
    let operators = deployments(world, space.name());
    let deployment = operators.get(&operator).await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.node_selector.unwrap()["disk"], "fast");
    let env = pod.containers[0].env.clone().unwrap();
    let tested = env.iter().find(|env| env.name == "TESTED").unwrap();
    assert_eq!(tested.value.as_deref(), Some("yes"));

    // Another config of the instance reinstalls the same bundle.
    let bundle = status.installed_bundle_name.clone();
    let other =
        json!({"spec": {"config": {"deploymentConfig": {"nodeSelector": {"disk": "slow"}}}}});
    change(world, &name, other).await;
    support::wait_for(
        operators.clone(),
        &operator,
        "slow",
        |deployment: &Deployment| {
            let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
            (pod.node_selector.as_ref()?["disk"] == "slow").then_some(())
        },
    )
    .await;
    let now = read(world, &name).await.status.unwrap();
    assert_eq!(now.installed_bundle_name, bundle);

    // An invalid config is reported, and the operator keeps running.
    let nonsense = json!({"spec": {"config": {"deploymentConfig": {"nodeSelector": 3}}}});
    change(world, &name, nonsense).await;
    let live = wait_reason(world, &name, "Installed", "ReconcileFailed").await;
    let config = format!("spec.config of BundleInstance {name}");
    assert_message(&live, "Installed", &[&config, "nodeSelector"]);
    operators.get(&operator).await.unwrap();
    delete(world, &name).await;
}

// parity: platform-16, platform-32, i10, r2, convert-1, convert-19
#[tokio::test]
async fn r2_unsuitable_registry_bundles_are_rejected_with_the_reason() {
    let world = running().await;
    let name = unique("r2");
    let good = talkative(&name, "1.0.0");
    let good = image(&world.push(&format!("{name}:v1"), &good).await);
    world.instance(&name, "registry", good).await;
    let before = world.wait_instance(&name, "Installed", "True").await;
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v2.0.0")},
        "spec": {
            "version": "2.0.0",
            "installModes": [{"type": "OwnNamespace", "supported": false}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
        },
    });
    let content = support::operator(&name, "2.0.0", &[("manifests/csv.yaml", csv)]);
    let source = image(&world.push(&format!("{name}:v2"), &content).await);
    point_at(world, &name, &source).await;
    let live = wait_reason(world, &name, "HasValidBundle", "UnpackFailed").await;
    let part = "convert registry+v1 bundle to plain+v0 bundle";
    assert_message(&live, "HasValidBundle", &[part]);
    assert_eq!(line(&live, "Installed"), "True InstallationSucceeded");
    let version = |instance: &BundleInstance| instance.status.clone().unwrap().facts.version;
    assert_eq!(version(&live), version(&before));
    newer_kubernetes_takes_an_override(world, &before).await;
    delete(world, &name).await;
}

/// An upgrade that needs a newer Kubernetes waits for an override of its content.
async fn newer_kubernetes_takes_an_override(world: &World, before: &BundleInstance) {
    let name = before.name_any();
    let content = support::operator(&name, "2.0.0", &[]);
    let csv = content.read("manifests/csv.yaml").unwrap();
    let mut csv: Value = serde_json::from_slice(csv).unwrap();
    csv["spec"]["minKubeVersion"] = "1.99.0".into();
    let content = support::operator(&name, "2.0.0", &[("manifests/csv.yaml", csv)]);
    let source = image(&world.push(&format!("{name}:v3"), &content).await);
    point_at(world, &name, &source).await;
    let live = wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    let parts = [
        "is still installed",
        "requires Kubernetes >= 1.99.0 but the cluster is",
        "to spec.overrides to install it anyway",
    ];
    let text = assert_message(&live, "Installed", &parts);
    let status = |instance: &BundleInstance| instance.status.clone().unwrap();
    assert_eq!(
        status(&live).installed_bundle_name,
        status(before).installed_bundle_name
    );
    assert_eq!(status(&live).facts.version.as_deref(), Some("1.0.0"));

    // Only the override from the message allows the upgrade.
    let (_, quoted) = text.split_once("digest: \"").unwrap();
    let (digest, _) = quoted.split_once('"').unwrap();
    assert_eq!(status(&live).overrides, []);
    let allow = |digest: &str| json!({"spec": {"overrides": [{"constraint": "minKubeVersion", "digest": digest, "reason": "tried by us"}]}});
    let other = format!("sha256:{}", "1".repeat(64));
    change(world, &name, allow(&other)).await;
    let other = observed(world, &name).await;
    assert_eq!(status(&other).facts.version.as_deref(), Some("1.0.0"));
    assert_eq!(status(&other).overrides, []);

    change(world, &name, allow(digest)).await;
    let now = wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    assert_eq!(status(&now).facts.version.as_deref(), Some("2.0.0"));
    assert_eq!(status(&now).content_digest.as_deref(), Some(digest));
    let overridden = &status(&now).overrides[0];
    assert_eq!(
        (overridden.digest.as_str(), overridden.reason.as_str()),
        (digest, "tried by us")
    );
    let allows = "(overridden in spec.overrides: \"tried by us\")";
    assert_message(&now, "Installed", &[allows]);
    let facts = status(&now).facts;
    assert_eq!(facts.min_kube_version.as_deref(), Some("1.99.0"));
}

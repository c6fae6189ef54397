//! Bundle info in the status, and the settings of the instance for the installation.

use super::*;

fn talkative(name: &str, version: &str) -> manifests::content::Content {
    let properties = json!({"properties": [
        {"type": "olm.maxOpenShiftVersion", "value": "4.12"},
        {"type": "olm.package.required", "value": {"packageName": "etcd", "versionRange": ">=0.9.0"}},
    ]});
    support::operator(name, version, &[("metadata/properties.yaml", properties)])
}

async fn are_counted(world: &World) {
    let metrics = format!("{}/metrics", world.provisioner().await.url("metrics"));
    eventually("everything is counted", async || {
        let text = reqwest::get(&metrics).await.unwrap().text().await.unwrap();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let are_counted = value("rukpak_objects_applied_total") > Some(0)
            && value("rukpak_unpacked_bytes_total") > Some(0)
            && value("rukpak_reconciles_total{controller=\"Bundle\"}") > Some(0)
            && value("rukpak_reconciles_total{controller=\"Instance\"}") > Some(0)
            && value("rukpak_queue_length{controller=\"Bundle\"}") == Some(0)
            && value("rukpak_queue_length{controller=\"Instance\"}") == Some(0);
        are_counted.then_some(()).ok_or(text)
    })
    .await;
}

// parity: platform-14, platform-15, i14, r1, complaint-6
#[tokio::test]
async fn r1_registry_bundles_become_ready_and_report_their_info() {
    let (world, name, space) = start("facts").await;
    world.cluster.stand_in_node().await.unwrap();
    let bundle = talkative(&name, "1.2.3");
    let tag = world.push(&format!("{name}:v1"), &bundle).await;
    let mut instance = support::instance(&name, "plain", image(&tag));
    // The converter of document 004 is the registry class.
    let class = "core.rukpak.io/converter";
    instance.spec.template.spec.provisioner_class_name = Some(class.to_owned());
    instance.spec.install_namespace = Some(space.name().to_owned());
    let config = json!({"deploymentConfig": {"env": [{"name": "TESTED", "value": "yes"}]}});
    instance.spec.config = Some(serde_json::from_value(config).unwrap());
    world.create(&instance).await;
    let instance = world.wait_instance(&name, "Healthy", "True").await;
    let bundle = bundles(world, &name).await.remove(0);
    assert_eq!(bundle.spec.provisioner_class_name, class);
    let status = instance.status.as_ref().unwrap();
    let facts = &status.facts;
    tests::assert_rows! {
        facts.package.as_deref() => Some(&*name);
        facts.version.as_deref() => Some("1.2.3");
        facts.max_open_shift_version.as_deref() => Some("4.12");
        facts.provided_apis => [format!("Widget {name}.example.com/v1")];
        facts.requires.contains(&"etcd >=0.9.0".to_owned()) => true, "{:?}", facts.requires;
        // The namespace exists already and has no owner.
        facts.conversion.as_ref().unwrap().objects => status.inventory.as_ref().unwrap().count + 1;
        status.install_namespace.as_deref() => Some(space.name());
    }
    // The digest of the tag at that time.
    let resolved = status.resolved_source.clone().unwrap().image.unwrap();
    assert_has(resolved.reference, "@sha256:");

    let operator = format!("{name}-operator");
    let operators = deployments(world, space.name());
    let deployment = operators.get(&operator).await.unwrap();
    assert_eq!(deployment.status.unwrap().ready_replicas, Some(1));
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let env = pod.containers[0].env.clone().unwrap();
    tests::assert_rows!(env.iter().find(|env| env.name == "TESTED").unwrap().value.as_deref() => Some("yes"));
    are_counted(world).await;

    // Another config of the instance reinstalls the same bundle.
    let bundle = status.installed_bundle_name.clone();
    let selector = |selector: Value| json!({"spec": {"config": {"deploymentConfig": {"nodeSelector": selector}}}});
    change(world, &name, selector(json!({"disk": "slow"}))).await;
    let slow = json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "slow"}}}}});
    support::wait_part(operators.clone(), &operator, slow).await;
    tests::assert_rows!(read(world, &name).await.status.unwrap().installed_bundle_name => bundle);

    // An invalid config is reported, and the operator keeps running.
    change(world, &name, selector(json!(3))).await;
    let config = format!("spec.config of BundleInstance {name}");
    let parts = [&*config, "nodeSelector"];
    wait_message(world, &name, "Installed ReconcileFailed", &parts).await;
    operators.get(&operator).await.unwrap();
    world.uninstall(&name).await;
    wait_deleted(operators, &operator).await;
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
    tests::assert_rows!(before.status.as_ref().unwrap().install_namespace.clone() => Some(format!("{name}-system")));
    let modes = json!([{"type": "OwnNamespace", "supported": false}]);
    let install = json!({"strategy": "deployment", "spec": {"deployments": []}});
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v2.0.0")},
        "spec": {"version": "2.0.0", "installModes": modes, "install": install}});
    let content = support::operator(&name, "2.0.0", &[("manifests/csv.yaml", csv)]);
    let source = image(&world.push(&format!("{name}:v2"), &content).await);
    point_at(world, &name, &source).await;
    let part = "convert registry+v1 bundle to plain+v0 bundle";
    let live = wait_message(world, &name, "HasValidBundle UnpackFailed", &[part]).await;
    assert_eq!(line(&live, "Installed"), "True InstallationSucceeded");
    let version = |instance: &BundleInstance| instance.status.clone().unwrap().facts.version;
    assert_eq!(version(&live), version(&before));
    Box::pin(newer_kubernetes_takes_an_override(world, &before)).await;
    world.uninstall(&name).await;
}

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
    let (old, new) = (status(before), status(&live));
    assert_eq!(new.installed_bundle_name, old.installed_bundle_name);
    assert_eq!(new.facts.version.as_deref(), Some("1.0.0"));

    // Only the override from the message allows the upgrade.
    let (_, quoted) = text.split_once("digest: \"").unwrap();
    let (digest, _) = quoted.split_once('"').unwrap();
    assert_eq!(new.overrides, []);
    let allow = |digest: &str| {
        let allowed = json!({"constraint": "minKubeVersion", "digest": digest, "reason": "tested"});
        json!({"spec": {"overrides": [allowed]}})
    };
    change(world, &name, allow(&format!("sha256:{}", "1".repeat(64)))).await;
    let other = status(&observed(world, &name).await);
    assert_eq!(other.facts.version.as_deref(), Some("1.0.0"));
    assert_eq!(other.overrides, []);

    change(world, &name, allow(digest)).await;
    let overridden = ["(overridden in spec.overrides: \"tested\")"];
    let now = wait_message(world, &name, "Installed InstallationSucceeded", &overridden).await;
    let now = status(&now);
    tests::assert_rows! {
        now.facts.version.as_deref() => Some("2.0.0");
        now.facts.min_kube_version.as_deref() => Some("1.99.0");
        now.content_digest.as_deref() => Some(digest);
        now.overrides[0].digest => digest;
        now.overrides[0].reason => "tested";
    }

    // Without the override the constraint applies again. The installed bundle keeps its desired state.
    let config = json!({"deploymentConfig": {"env": [{"name": "LOUD", "value": "yes"}]}});
    let patch = json!({"spec": {"overrides": null, "config": config}});
    change(world, &name, patch).await;
    let notice = "the bundle is already installed and is kept";
    wait_message(world, &name, "Installed", &[notice]).await;
    let live = wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    assert_eq!(status(&live).facts.version.as_deref(), Some("2.0.0"));
}

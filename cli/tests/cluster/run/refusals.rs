//! What is refused, and what is told of it.

use serde_json::json;

use super::{get, scene::Operator, text};
use crate::world::{World, unique, world};

// parity: run-5, run-9, sdk-1, sdk-23, sdk-27
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_run_is_refused_before_anything_is_made() {
    let world = world().await;
    let operator = Operator::new(&unique("no"));
    let name = &operator.name;
    let good = operator.publish("0.0.1");
    let own = json!({"installModes": [
        {"type": "OwnNamespace", "supported": true}, {"type": "AllNamespaces", "supported": false},
    ]});
    let own = operator.publish_spec("0.0.2", &own, &[]);
    let new = operator.publish_spec("0.0.3", &json!({"minKubeVersion": "1.99.0"}), &[]);
    let odd = operator.publish_spec("0.0.4", &json!({"version": "four"}), &[]);
    let index = operator.publish_index(name, "0.0.9");
    let missing = operator.publish("0.0.5").replace(":v0.0.5", ":v9");
    for (args, expected) in tests::rows![
        &["run", "bundle", &missing][..] => "pull bundle image: ";
        &["run", "bundle", &index] => "is a catalog and no bundle";
        &["run", "bundle", &odd] => "four";
        &["run", "bundle", &new] => "requires Kubernetes >= 1.99.0 but the cluster is 1.";
        &["run", "bundle", &own] => "the bundle does not support the AllNamespaces install mode (supported: OwnNamespace)";
        &["run", "bundle", &own, "--install-mode", "AllNamespaces"]
            => "install mode type \"AllNamespaces\" not supported in CSV";
        &["run", "bundle", &own, "--install-mode", "OwnNamespace"] => "install mode \"OwnNamespace\" needs OLM";
        &["run", "bundle", &good, "--mode", "replaces"] => "specifying the bundle add mode is not supported";
        &["run", "bundle", &good, "--index-image", &good] => "the image is a bundle and no catalog";
        &["run", "bundle-upgrade", &good] => "no BundleInstance for package";
    ] {
        let failed = match args[1] {
            "bundle" => "error: Failed to run bundle: ",
            _ => "error: Failed to run bundle upgrade: ",
        };
        let run = world.fail(&[args, &["--use-http"]].concat());
        assert_eq!(run.out, "");
        run.says(failed).says(expected);
    }
    world
        .run("run bundle ./folder")
        .exits(2)
        .says("is no image");
    assert_eq!(world.instances().get_opt(name).await.unwrap(), None);

    // Flags of operator-sdk are taken, and those that mean nothing are told.
    world
        .ok(&[
            "run", "bundle", &good, "--skip-tls", "--verbose", "--plugins=go/v4", "--service-account=x",
            "--image-pull-policy=Always", "--security-context-config=restricted", "--ca-secret-name=", "--timeout=3m0s",
            "-n", &operator.namespace(),
        ])
        .says("warning: --image-pull-policy, --security-context-config, --service-account means nothing");
    world
        .run_bundle(&own, &[])
        .exits(1)
        .says("the bundle does not support the AllNamespaces");
    let next = operator.publish("0.0.6");
    world.run_bundle(&next, &[]).exits(1).says(&format!(
        "BundleInstance {name} of package \"{name}\" exists already; upgrade it with"
    ));
    operators_elsewhere_are_left_alone(world, &operator, &good, &next).await;
}

/// With `--namespace`, the commands mean the operator of that namespace.
async fn operators_elsewhere_are_left_alone(
    world: &World,
    operator: &Operator,
    image: &str,
    next: &str,
) {
    let name = &operator.name;
    let prod = operator.namespace();
    let before = get(name).await;
    let cleaned = world.ok(&format!("cleanup {name} -n ci-123"));
    assert_eq!(cleaned.out, "");
    cleaned.says(&format!(
        "warning: package \"{name}\" not found in namespace ci-123; BundleInstance {name} is installed in {prod}\n"
    ));
    // The same bundle in another namespace is another operator.
    for image in [image, next] {
        world.run_bundle(image, &["-n", "ci-123"]).exits(1).says(&format!(
            "BundleInstance {name} is installed in {prod}, and watches all namespaces, so that it cannot be in ci-123 as well"
        ));
    }
    world
        .upgrade_bundle(next, &["-n", "ci-123"])
        .exits(1)
        .says(&format!(
            "BundleInstance {name} is installed in {prod}, and cannot be moved to ci-123"
        ));
    let after = get(name).await;
    assert_eq!(
        (after.spec, after.metadata.uid),
        (before.spec, before.metadata.uid)
    );
    assert_eq!(text(operator).await.as_deref(), Some("0.0.1"));

    world
        .run_bundle(image, &["-n", &prod])
        .exits(0)
        .says("is there already, of this bundle");
    world.upgrade_bundle(next, &["-n", &prod]).exits(0);
    let cleaned = world
        .ok(&format!(
            "cleanup {name} -n {prod} --delete-operator-groups --service-account=x"
        ))
        .says("warning: --delete-operator-groups, --service-account means nothing without OLM\n");
    assert_eq!(cleaned.out, format!("Operator \"{name}\" uninstalled\n"));
}

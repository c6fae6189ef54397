//! What is refused, and what is told of it.

use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use manifests::api::platform::PlatformOperator;
use serde_json::json;

use super::{INJECTED, get, scene::Operator};
use crate::world::{Run, unique, world};

// parity: run-5, run-9, sdk-1, sdk-23, sdk-27, sdk-38
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
    let index = operator.publish_index(&["0.0.9"]);
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
    for (args, expected) in tests::rows![
        &["run", "bundle"][..] => "BUNDLE-IMAGE";
        &["run", "bundle", "./folder"] => "is no image";
        &["run", "bundle", &good, "--install-mode", "Every"] => "unknown install mode type";
        &["run", "bundle", &good, "--mode", "semver-skippatch"]
            => "bundle add mode \"semver-skippatch\" does not exist, must be one of: [\"semver\" \"replaces\"]";
        &["run", "bundle", &good, "--security-context-config", "open"] => "must be one of \"legacy\", or \"restricted\"";
        &["run", "bundle-upgrade", &good, "--index-image", &index] => "--index-image";
        &["run", "packagemanifests"] => "packagemanifests";
    ] {
        world.run(args).exits(2).says(expected);
    }
    assert_eq!(world.instances().get_opt(name).await.unwrap(), None);

    // Flags of operator-sdk are taken, and those that mean nothing are told.
    world
        .ok(&[
            "run", "bundle", &good, "--skip-tls", "--verbose", "--plugins=go/v4", "--service-account=x",
            "--image-pull-policy=Always", "--security-context-config=restricted", "--ca-secret-name=", "--timeout=3m0s",
        ])
        .says("warning: --image-pull-policy, --security-context-config, --service-account means nothing");
    world
        .fail(&format!("run bundle {own} --use-http"))
        .says("the bundle does not support the AllNamespaces");
    let other = operator.publish("0.0.6");
    world
        .fail(&format!("run bundle {other} --use-http"))
        .says(&format!(
            "BundleInstance {name} of package \"{name}\" exists already; upgrade it with"
        ));
    world.ok(&format!("cleanup {name}"));
}

// parity: run-7, run-16, sdk-32
#[tokio::test(flavor = "multi_thread")]
async fn only_newer_versions_follow_and_the_history_must_be_true() {
    let world = world().await;
    let operator = Operator::new(&unique("line"));
    let name = &operator.name;
    let [one, two, three] = ["0.0.1", "0.0.2", "0.0.3"].map(|version| operator.publish(version));
    let upgrade = |image: &str, more: &[&str]| -> Run {
        let args = ["run", "bundle-upgrade", image, "--use-http"];
        world.run(&[&args[..], more].concat())
    };
    world.ok(&format!("run bundle {two} --use-http"));
    upgrade(&one, &[])
        .exits(1)
        .says("version 0.0.1 is not newer than 0.0.2, which is installed");
    // A rebuild has another digest.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-more")}});
    let two = operator.publish_with("0.0.2", &[map]);
    upgrade(&two, &[])
        .exits(1)
        .says("version 0.0.2 is not newer than 0.0.2");
    upgrade(&two, &["--force"]).exits(0);
    upgrade(&three, &["-n", "elsewhere"])
        .exits(1)
        .says("cannot be moved to elsewhere");

    let annotate = async |text: Option<&str>| {
        let patch = json!({"metadata": {"annotations": {INJECTED: text}}});
        let params = PatchParams::default();
        let instances = world.instances();
        instances
            .patch(name, &params, &Patch::Merge(patch))
            .await
            .unwrap();
    };
    let truth = get(name).await.annotations()[INJECTED].clone();
    for (text, expected) in tests::rows![
        "[{" => "injected-bundles is damaged: it is no list of bundles";
        &*format!("[{{\"imageTag\":\"{one}\"}}]")
            => "which is installed; its annotation operators.operatorframework.io/injected-bundles names";
        &truth.replace(name.as_str(), "nobody") => "cannot be had; remove its annotation";
    ] {
        annotate(Some(text)).await;
        let before = get(name).await;
        upgrade(&three, &[]).exits(1).says(expected);
        assert_eq!(get(name).await.spec, before.spec);
    }
    // As it says: without the annotation what is installed counts.
    annotate(None).await;
    upgrade(&three, &[]).exits(0);
    assert_eq!(super::history(&get(name).await).len(), 2);
    world.ok(&format!("cleanup {name}"));
}

// parity: sdk-33
#[tokio::test(flavor = "multi_thread")]
async fn what_a_platform_operator_decides_is_left_to_it() {
    let world = world().await;
    let operator = Operator::new(&unique("owned"));
    let name = &operator.name;
    let images = ["0.0.1", "0.0.2"].map(|version| operator.publish(version));
    let [operators, _] = manifests::api::definitions::foreign();
    world
        .apply(&serde_json::to_value(&operators).unwrap())
        .await;
    let definition = operators.metadata.name.unwrap();
    world.cluster.wait_established(&definition).await.unwrap();
    world
        .apply(&json!({
            "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
            "metadata": {"name": name}, "spec": {"package": {"name": name}},
        }))
        .await;
    let api = kube::Api::<PlatformOperator>::all(world.cluster.client().unwrap());
    let uid = api.get(name).await.unwrap().metadata.uid;
    world.ok(&["run", "bundle", &images[0], "--use-http"]);
    let owned = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "name": name, "uid": uid,
    }]}});
    let instances = world.instances();
    let params = PatchParams::default();
    instances
        .patch(name, &params, &Patch::Merge(owned))
        .await
        .unwrap();
    world
        .fail(&["run", "bundle-upgrade", &images[1], "--use-http"])
        .says(&format!(
            "belongs to PlatformOperator {name}, which would change it back; nothing was changed"
        ));
    world
        .fail(&["run", "bundle", &images[1], "--use-http"])
        .says(&format!(
            "belongs to PlatformOperator {name}, which decides about its version"
        ));
    world
        .fail(&format!("cleanup {name}"))
        .says("Cleanup operator: ")
        .says("which would make it anew; nothing was deleted");
    world
        .fail(&format!("uninstall {name}"))
        .says("which would make it anew; nothing was deleted")
        .says(&format!("kubectl delete platformoperator {name}"));
    assert_eq!(get(name).await.metadata.deletion_timestamp, None);
    // Its instance goes with it.
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

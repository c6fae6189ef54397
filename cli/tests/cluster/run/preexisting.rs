//! Operators that another command installed, and the versions that follow them.

use kube::{ResourceExt as _, api::DeleteParams};
use manifests::api::{crds, platform_operator::PlatformOperator};
use serde_json::{Value, json};

use super::{INJECTED, get, history, installed, support::Operator};
use crate::environment::{Rukpak as _, World, apply, objects, unique, world};

// parity: run-4, run-7, run-16, sdk-32, sdk-33
#[tokio::test(flavor = "multi_thread")]
async fn story_2_operators_installed_otherwise_are_upgraded() {
    let world = world().await;
    let operator = Operator::new(&unique("other"));
    let name = &operator.name;
    let [first, second, third] =
        ["0.0.1", "0.0.2", "0.0.3"].map(|version| operator.publish(version));
    // The instance has another name than the package.
    let own = unique("by-hand");
    tests::assert_runs! { world;
        "install {own} {first} --tls-verify=false" => 0, _;
        "cleanup {name}" => 1, "", "BundleInstance {own} of package \"{name}\" was not installed by", "uninstall {own}\" instead";
        "run bundle-upgrade {second} --use-http"
            => 0, _, "{own} was not installed by \"run bundle\"; upgrading from \"{name}.v0.0.1\"";
    }
    let line = history(&get(&own).await);
    assert_eq!(line.len(), 2);
    world.ok(&format!("run bundle-upgrade {third} --use-http"));
    let instance = get(&own).await;
    assert_eq!(installed(&instance), format!("{name}.v0.0.3"));
    assert_eq!(history(&instance)[..2], line);

    // Only newer versions follow. A rebuild has another digest.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-more")}});
    let rebuilt = operator.publish_with("0.0.3", &[map]);
    tests::assert_runs! { world;
        "run bundle-upgrade {rebuilt} --use-http" => 1, "", "version 0.0.3 is not newer than the installed version 0.0.3";
        "run bundle-upgrade {rebuilt} --use-http --force" => 0, _;
    }
    inconsistent_history_is_rejected(world, &operator, &own).await;
    platform_operators_decide_about_versions(world, &operator, &own).await;
    world.ok(&format!("cleanup {name}"));
    assert_eq!(world.instances().get_opt(&own).await.unwrap(), None);
}

async fn inconsistent_history_is_rejected(world: &World, operator: &Operator, own: &str) {
    let next = operator.publish("0.0.4");
    let upgrade = format!("run bundle-upgrade {next} --use-http");
    let annotate = async |text: Option<&str>| {
        let patch = json!({"metadata": {"annotations": {INJECTED: text}}});
        world.patch(own, patch).await;
    };
    let correct = get(own).await.annotations()[INJECTED].clone();
    annotate(Some(&correct.replace(operator.name.as_str(), "missing"))).await;
    let before = get(own).await;
    tests::assert_runs! { world;
        "{upgrade}" => 1, "", "of the history of BundleInstance {own}; remove annotation {INJECTED} to use the installed \
            bundle";
    }
    assert_eq!(get(own).await.spec, before.spec);
    // Without the annotation, the history starts with the installed version.
    annotate(None).await;
    world.ok(&upgrade);
    assert_eq!(history(&get(own).await).len(), 2);
}

async fn platform_operators_decide_about_versions(world: &World, operator: &Operator, own: &str) {
    let name = &operator.name;
    let [operators, _] = crds::optional_crds();
    apply(world.cluster, objects([operators])).await;
    let (version, kind) = ("platform.openshift.io/v1alpha1", "PlatformOperator");
    let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {"package": {"name": name}}});
    world.apply(object).await;
    let api = kube::Api::<PlatformOperator>::all(world.cluster.client().unwrap());
    let uid = api.get(name).await.unwrap().metadata.uid;
    let owned_by = async |owners: Value| {
        let patch = json!({"metadata": {"ownerReferences": owners}});
        world.patch(own, patch).await;
    };
    owned_by(json!([{"apiVersion": version, "kind": kind, "name": name, "uid": uid}])).await;
    let next = operator.publish("0.0.5");
    let refusal = "which would recreate it; nothing was deleted";
    tests::assert_runs! { world;
        "run bundle-upgrade {next} --use-http"
            => 1, "", "belongs to PlatformOperator {name}, which would revert the change; no changes were made";
        "run bundle {next} --use-http" => 1, "", "belongs to PlatformOperator {name}, which controls its version";
        "cleanup {name}" => 1, "", "Cleanup operator: ", "{refusal}";
        "uninstall {own}" => 1, "", "{refusal}", "kubectl delete platformoperator {name}";
    }
    assert_eq!(get(own).await.metadata.deletion_timestamp, None);
    owned_by(json!([])).await;
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

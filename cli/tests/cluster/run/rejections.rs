//! Rejected runs and their messages.

use serde_json::json;

use super::{get, support::Operator, text};
use crate::environment::{Rukpak as _, World, unique, world};

// parity: run-5, run-9, sdk-1, sdk-23, sdk-27
#[tokio::test(flavor = "multi_thread")]
async fn invalid_runs_are_rejected_before_any_write() {
    let world = world().await;
    let operator = Operator::new(&unique("no"));
    let (name, namespace) = (&operator.name, operator.namespace());
    let good = operator.publish("0.0.1");
    let own = json!({"installModes": [
        {"type": "OwnNamespace", "supported": true}, {"type": "AllNamespaces", "supported": false},
    ]});
    let own = operator.publish_spec("0.0.2", &own);
    let odd = operator.publish_spec("0.0.4", &json!({"version": "four"}));
    let index = operator.publish_index(name, "0.0.9");
    let missing = operator.publish("0.0.5").replace(":v0.0.5", ":v9");
    let failed = "error: Failed to run bundle: ";
    tests::assert_runs! { world;
        "run bundle {missing} --use-http" => 1, "", "{failed}", "pull bundle image: ";
        "run bundle {index} --use-http" => 1, "", "{failed}", "is a catalog, not a bundle";
        "run bundle {odd} --use-http" => 1, "", "{failed}", "four";
        "run bundle {own} --use-http"
            => 1, "", "{failed}", "the bundle does not support the AllNamespaces install mode (supported: OwnNamespace)";
        "run bundle {good} --use-http --mode replaces" => 1, "", "{failed}", "specifying the bundle add mode is not supported";
        "run bundle {good} --use-http --index-image {good}" => 1, "", "{failed}", "the image is a bundle, not a catalog";
        "run bundle-upgrade {good} --use-http" => 1, "", "error: Failed to run bundle upgrade: ", "no BundleInstance for package";
        "run bundle ./directory" => 2, _, "is not an image";
        "run bundle {missing} --use-http --index-image ./directory" => 2, _, "is not an image";
    }
    assert_eq!(world.instances().get_opt(name).await.unwrap(), None);

    // Flags of operator-sdk are accepted, and those without effect are reported.
    let next = operator.publish("0.0.6");
    tests::assert_runs! { world;
        "run bundle {good} --skip-tls --verbose --plugins=go/v4 --service-account=x --image-pull-policy=Always \
         --security-context-config=restricted --ca-secret-name= --timeout=3m0s -n {namespace}"
            => 0, _, "warning: --image-pull-policy, --security-context-config, --service-account ignored";
        "run bundle {own} --use-http" => 1, _, "the bundle does not support the AllNamespaces";
        "run bundle {next} --use-http" => 1, _, "BundleInstance {name} of package \"{name}\" already exists; upgrade it with";
    }
    other_namespaces_are_kept(world, &operator, &good, &next).await;
}

/// With `--namespace`, the commands apply to the operator of that namespace.
async fn other_namespaces_are_kept(world: &World, operator: &Operator, image: &str, next: &str) {
    let name = &operator.name;
    let prod = operator.namespace();
    let before = get(name).await;
    let moved = "watches all namespaces, so it cannot be installed in ci-123 as well";
    let moved = format!("BundleInstance {name} is installed in {prod} and {moved}");
    tests::assert_runs! { world;
        "cleanup {name} -n ci-123" => 0, "", "warning: package \"{name}\" not found in namespace ci-123; BundleInstance \
            {name} is installed in {prod}\n";
        // The same bundle in another namespace is another operator.
        "run bundle {image} --use-http -n ci-123" => 1, _, "{moved}";
        "run bundle {next} --use-http -n ci-123" => 1, _, "{moved}";
        "run bundle-upgrade {next} --use-http -n ci-123"
            => 1, _, "BundleInstance {name} is installed in {prod} and cannot be moved to ci-123";
    }
    let after = get(name).await;
    assert_eq!(after.spec, before.spec);
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(text(operator).await.as_deref(), Some("0.0.1"));
    tests::assert_runs! { world;
        "run bundle {image} --use-http -n {prod}" => 0, _, "already exists with this bundle";
        "run bundle-upgrade {next} --use-http -n {prod}" => 0, _;
        "cleanup {name} -n {prod} --delete-operator-groups --service-account=x" => 0, "Operator \"{name}\" uninstalled\n",
            "warning: --delete-operator-groups, --service-account ignored without OLM\n";
    }
}

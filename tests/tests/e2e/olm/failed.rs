//! Installations that OLM gives up: the command reports the failure at once, and the remedy that it prints works.

use std::process::Command;

use cluster::{DryRun, node};
use serde_json::{Value, json};
use tests::{Registry, Run};

use super::{
    super::{bundle::Operator, documents::output, wait},
    command::{Space, fails},
    index::Version,
};

const POLICY: &str = "deny-version";

/// OLM cannot unpack the second version, because the node cannot pull its image. The third version replaces the first.
// parity: sdk-9, sdk-11
#[tokio::test]
async fn bundle_that_fails_to_unpack_is_skipped_by_next_upgrade() {
    let space = Space::new("run-unpacked").await;
    // The node pulls all images from its own registry, never from this one.
    let other_registry = Registry::plain();
    let first = Version::publish("conch", "0.0.1");
    let operator = Operator::new("conch", "0.0.2");
    let second = Version::publish_in(other_registry.host(), &operator, &[]);
    let third = Version::publish("conch", "0.0.3");
    space.install(&first);
    // Long enough for the third version. After a change of the timeout, OLM would try the second version again.
    let timeout = "operatorframework.io/bundle-unpack-timeout=40s";
    space.kubectl(&["annotate", "operatorgroup", "--all", timeout]);
    let args = ["run", "bundle-upgrade", &second.image];
    let message = "error: Failed to run bundle upgrade: error waiting for CSV to install: OLM failed to unpack a bundle: ";
    let run = fails(space.rukpak(&args), message);
    assert!(run.err.contains("run bundle-upgrade IMAGE"), "{run:#?}");
    space.succeeded(&first);
    let run = space.upgrade(&third);
    run.err_has("Skipping versions after \"conch.v0.0.1\" that OLM failed to install");
}

/// The second version changes an immutable ConfigMap, and a policy first denies the third version. After the cause is
/// removed and the printed remedy is run, the same command continues.
// parity: sdk-9
#[tokio::test]
async fn failed_plan_is_reported_with_a_working_remedy() {
    let space = Space::new("run-planned").await;
    let existing = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "murex", "namespace": space.name},
        "immutable": true,
    });
    let changed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "murex"}, "data": {"a": "b"}});
    let first = Version::publish("murex", "0.0.1");
    let operator = Operator::new("murex", "0.0.2");
    let second = Version::publish_in(&node::REGISTRY.to_string(), &operator, &[changed]);
    let third = Version::publish("murex", "0.0.3");
    space.install(&first);
    space.world.apply(existing).await;

    let remedy = repeated_remedy(
        &space,
        &second,
        "field is immutable when `immutable` is set",
    );
    space.kubectl(&["delete", "configmap", "murex"]);
    run_remedy(&space, &remedy);
    space.upgrade(&second);

    for object in denial_policy(&third.csv()) {
        space.world.apply(object).await;
    }
    wait_denied(&space, &third, true).await;
    let remedy = repeated_remedy(&space, &third, "denied by the test");
    space.succeeded(&second);
    space.kubectl(&format!("delete validatingadmissionpolicybinding {POLICY}"));
    wait_denied(&space, &third, false).await;
    run_remedy(&space, &remedy);
    space.upgrade(&third);
}

/// The first version never becomes healthy, and OLM would let the second one wait forever. The printed remedy allows
/// upgrades to fail forward, and then the same command continues.
// parity: sdk-10
#[tokio::test]
async fn failed_version_is_upgraded_after_the_printed_remedy() {
    let space = Space::new("run-broken").await;
    // No image of this name exists.
    let image = "quay.io/tidewatch/operator:none";
    let operator = tests::with!(Operator::new("argonaut", "0.0.1") => image: image);
    let first = Version::publish_in(&node::REGISTRY.to_string(), &operator, &[]);
    let second = Version::publish("argonaut", "0.0.2");
    let message = "error: Failed to run bundle: error waiting for CSV to install: csv failed: ";
    let run = space.rukpak(&["run", "bundle", &first.image]);
    let run = fails(run, message);
    assert!(run.err.contains("run the same command again"), "{run:#?}");

    let annotation_of = |key| space.annotation("argonaut-catalog", key);
    let history = || ["injected-bundles", "registry-pod-name"].map(annotation_of);
    let before = history();
    let message = "argonaut.v0.0.1, which is to be replaced, has failed and is in phase ";
    let remedy = repeated_remedy(&space, &second, message);
    assert_eq!(history(), before);
    let versions = space.names("clusterserviceversions");
    assert_eq!(versions.len(), 1, "{versions:?}");

    run_remedy(&space, &remedy);
    space.upgrade(&second);
}

/// Returns the remedy that a failed upgrade prints. A second run must print the same remedy.
fn repeated_remedy(space: &Space, version: &Version, message: &str) -> String {
    let args = ["run", "bundle-upgrade", &version.image];
    let [run, again] = [(); 2].map(|()| fails(space.rukpak(&args), message));
    let remedy_of = |run: &Run| {
        let start = "error: Failed to run bundle upgrade: ";
        assert!(run.err.contains(start), "{run:#?}");
        let (_, remedy) = run.err.split_once(": kubectl ").unwrap();
        let end = "; then run the same command again";
        format!("kubectl {}", remedy.split_once(end).unwrap().0)
    };
    assert_eq!(remedy_of(&run), remedy_of(&again));
    remedy_of(&run)
}

/// Runs a printed command in a shell, as a user would.
fn run_remedy(space: &Space, remedy: &str) {
    let mut shell = Command::new("sh");
    let kubeconfig = space.world.cluster.kubeconfig_path();
    output(shell.args(["-c", remedy]).env("KUBECONFIG", kubeconfig));
}

/// The admission policy that denies the creation of a ClusterServiceVersion, and its binding.
fn denial_policy(csv: &str) -> [Value; 2] {
    let group = "admissionregistration.k8s.io/v1";
    let name = json!({"name": POLICY});
    let is_other = format!("object.metadata.name != '{csv}'");
    [
        json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": name,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["operators.coreos.com"], "apiVersions": ["*"], "operations": ["CREATE"],
                    "resources": ["clusterserviceversions"],
                }]},
                "validations": [{"expression": is_other, "message": "denied by the test"}],
            },
        }),
        json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": name,
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        }),
    ]
}

/// Waits until the API server denies or admits a ClusterServiceVersion. Policies take effect with a delay.
async fn wait_denied(space: &Space, version: &Version, is_denied: bool) {
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": version.csv(), "namespace": space.name},
        "spec": {"displayName": "x", "install": {"strategy": "deployment", "spec": {"deployments": []}}},
    });
    wait::eventually(&format!("denied: {is_denied}"), async || {
        let result = space.world.cluster.apply(&object, DryRun::Yes).await;
        let is_expected = result.is_err() == is_denied;
        is_expected.then_some(()).ok_or(format!("{result:?}"))
    })
    .await;
}

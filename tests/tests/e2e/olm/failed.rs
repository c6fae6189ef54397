//! What OLM gives up: it is told at once, and what is said of going on holds.

use std::{process::Command, time::Duration};

use cluster::{DryRun, worker};
use serde_json::{Value, json};
use tests::{Registry, Run};

use super::{
    command::{annotation, fails, install, names, rukpak, upgrade},
    index::Version,
    world::{World, world},
};

/// The second version is where the node does not look, so that OLM cannot unpack it. The third one comes after the first.
// parity: sdk-9, sdk-11
#[tokio::test]
async fn a_bundle_that_olm_cannot_unpack_is_left_out_of_the_next_upgrade() {
    let world = world().await;
    let space = "run-unpacked";
    world.bare_namespace(space).await;
    // All registries are one for the node, and it is not this one.
    let elsewhere = Registry::plain();
    let first = Version::publish("conch", "0.0.1");
    let second = Version::publish_with("conch", "0.0.2", elsewhere.host(), &[]);
    let third = Version::publish("conch", "0.0.3");
    install(world, space, &first, &[]);
    // As long as the third one may need. Were it another one later, OLM would try the second one again.
    let timeout = "operatorframework.io/bundle-unpack-timeout=40s";
    world.kubectl(&["-n", space, "annotate", "operatorgroup", "--all", timeout]);
    let args = ["run", "bundle-upgrade", &second.image];
    let why = "error: Failed to run bundle upgrade: error waiting for CSV to install: OLM failed to unpack a bundle: ";
    let run = fails(rukpak(world, space, &args), why);
    assert!(run.err.contains("run bundle-upgrade IMAGE"), "{run:#?}");
    world.succeeded(space, &first.csv());
    let run = upgrade(world, space, &third, &[]);
    run.err_has("Skipping versions after \"conch.v0.0.1\" that OLM failed to install");
}

/// The second version has a Service with a port that another one has, and nobody may create the third one at first. When that is
/// over, and OLM is told as the command says, the same command goes on.
// parity: sdk-9
#[tokio::test]
async fn a_plan_that_has_failed_is_told_with_what_has_olm_go_on() {
    let world = world().await;
    let space = "run-planned";
    world.bare_namespace(space).await;
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "selector": {"app": name}, "ports": [{"port": 80, "nodePort": 30999}]},
        })
    };
    let first = Version::publish("murex", "0.0.1");
    let more = [("service.yaml", service("murex"))];
    let second = Version::publish_with("murex", "0.0.2", &worker::REGISTRY.to_string(), &more);
    let third = Version::publish("murex", "0.0.3");
    install(world, space, &first, &[]);
    let mut other = service("other");
    other["metadata"]["namespace"] = space.into();
    world.apply(other).await;

    let said = told_twice(world, space, &second, "provided port is already allocated");
    world.kubectl(&["-n", space, "delete", "service", "other"]);
    go_on(world, &said);
    upgrade(world, space, &second, &[]);

    for object in nobody_creates(&third.csv()) {
        world.apply(object).await;
    }
    is_refused(world, space, &third.csv(), true).await;
    let said = told_twice(world, space, &third, "nobody creates it");
    world.succeeded(space, &second.csv());
    world.kubectl("delete validatingadmissionpolicybinding nobody-creates");
    is_refused(world, space, &third.csv(), false).await;
    go_on(world, &said);
    upgrade(world, space, &third, &[]);
}

/// The first version never becomes healthy, and OLM would have the second one wait for that for good. When upgrades fail forward,
/// as the command says, the same command goes on.
// parity: sdk-10
#[tokio::test]
async fn a_version_that_has_failed_is_left_behind_when_its_owner_wants_it() {
    let world = world().await;
    let space = "run-broken";
    world.bare_namespace(space).await;
    let first = Version::publish_broken("argonaut", "0.0.1");
    let second = Version::publish("argonaut", "0.0.2");
    let why = "error: Failed to run bundle: error waiting for CSV to install: csv failed: ";
    let run = fails(rukpak(world, space, &["run", "bundle", &first.image]), why);
    assert!(run.err.contains("run the same command again"), "{run:#?}");

    let told = |key| annotation(world, space, "argonaut-catalog", key);
    let history = || ["injected-bundles", "registry-pod-name"].map(told);
    let before = history();
    let why = "argonaut.v0.0.1, which is to be replaced, has failed and is in phase ";
    let said = told_twice(world, space, &second, why);
    assert_eq!(history(), before);
    let versions = names(world, space, "clusterserviceversions");
    assert_eq!(versions.len(), 1, "{versions:?}");

    go_on(world, &said);
    upgrade(world, space, &second, &[]);
}

/// What the command says that has OLM go on from where an upgrade cannot. Whoever tries again is told the same.
fn told_twice(world: &World, namespace: &str, version: &Version, why: &str) -> String {
    let args = ["run", "bundle-upgrade", &version.image];
    let [run, again] = [(); 2].map(|()| fails(rukpak(world, namespace, &args), why));
    let told = |run: &Run| {
        let start = "error: Failed to run bundle upgrade: ";
        assert!(run.err.contains(start), "{run:#?}");
        let (_, said) = run.err.split_once(": kubectl ").unwrap();
        let (said, _) = said
            .split_once("; then run the same command again")
            .unwrap();
        format!("kubectl {said}")
    };
    assert_eq!(told(&run), told(&again));
    told(&run)
}

/// Runs a command as a user would who copies it.
fn go_on(world: &World, said: &str) {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", said])
        .env("KUBECONFIG", world.cluster.kubeconfig_path());
    assert!(shell.status().unwrap().success(), "{said}");
}

/// What has the apiserver refuse a ClusterServiceVersion.
fn nobody_creates(csv: &str) -> [Value; 2] {
    let metadata = json!({"name": "nobody-creates"});
    let kind = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec,
        })
    };
    [
        kind(
            "ValidatingAdmissionPolicy",
            json!({
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["operators.coreos.com"], "apiVersions": ["*"], "operations": ["CREATE"],
                    "resources": ["clusterserviceversions"],
                }]},
                "validations": [{
                    "expression": format!("object.metadata.name != '{csv}'"), "message": "nobody creates it",
                }],
            }),
        ),
        kind(
            "ValidatingAdmissionPolicyBinding",
            json!({"policyName": "nobody-creates", "validationActions": ["Deny"]}),
        ),
    ]
}

/// Waits until the apiserver refuses a ClusterServiceVersion, or does no longer: policies count a moment later.
async fn is_refused(world: &World, namespace: &str, csv: &str, is_wanted: bool) {
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": csv, "namespace": namespace},
        "spec": {"displayName": "x", "install": {"strategy": "deployment", "spec": {"deployments": []}}},
    });
    for _ in 0..600 {
        let tried = world.cluster.apply(&object, DryRun::Yes).await;
        if tried.is_err() == is_wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{csv}: not as wanted, which is refused: {is_wanted}");
}

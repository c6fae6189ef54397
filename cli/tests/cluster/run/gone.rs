//! The engine `olm` where nothing but OLM's definitions is there: what is refused before anything is made, and what goes,
//! in which order, of what `run bundle` has made. What OLM makes of it is for the tests on a real node.

use cluster::{Cluster, DryRun};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::scene::Operator;
use crate::{
    upgrade,
    world::{Run, binary, unique},
};

const SPACE: &str = "tides";
const KINDS: [(&str, &str); 5] = [
    ("Subscription", "v1alpha1"),
    ("ClusterServiceVersion", "v1alpha1"),
    ("CatalogSource", "v1alpha1"),
    ("OperatorGroup", "v1"),
    ("InstallPlan", "v1alpha1"),
];

/// A control plane with OLM's definitions.
async fn with_definitions() -> Cluster {
    let cluster = upgrade::bare().await;
    let folder = upgrade::module("opm", "github.com/operator-framework/api");
    for (kind, _) in KINDS {
        let name = format!("{}s", kind.to_lowercase());
        let file = format!("crds/operators.coreos.com_{name}.yaml");
        let name = format!("{name}.operators.coreos.com");
        upgrade::define(&cluster, &folder, &[(&name, &file)]).await;
    }
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}});
    cluster.apply(&space, DryRun::No).await.unwrap();
    cluster
}

fn run(cluster: &Cluster, args: &[&str]) -> Run {
    let mut command = std::process::Command::new(binary());
    command
        .args(args)
        .args(["--engine", "olm", "--namespace", SPACE]);
    command.arg("--kubeconfig").arg(cluster.kubeconfig_path());
    command.output().unwrap().into()
}

fn api(cluster: &Cluster, kind: &str) -> Api<DynamicObject> {
    let version = KINDS.iter().find(|it| it.0 == kind).unwrap().1;
    let resource = GroupVersionKind::gvk("operators.coreos.com", version, kind);
    let resource =
        ApiResource::from_gvk_with_plural(&resource, &format!("{}s", kind.to_lowercase()));
    Api::namespaced_with(cluster.client().unwrap(), SPACE, &resource)
}

/// What there is of OLM's objects, each as `kind name`.
async fn left(cluster: &Cluster) -> Vec<String> {
    let mut all = Vec::new();
    for (kind, _) in KINDS {
        let (api, params) = (api(cluster, kind), ListParams::default());
        let names = api.list(&params).await.unwrap().items;
        let named = |it: &DynamicObject| {
            let name = it.metadata.name.as_deref().unwrap();
            format!("{} {name:?}", kind.to_lowercase())
        };
        all.extend(names.iter().map(named));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn with_olm_too_what_does_not_run_here_changes_nothing_and_what_goes_goes_in_order() {
    let cluster = with_definitions().await;
    upgrade::become_openshift(&cluster, "4.22.3").await;
    what_does_not_run_here_changes_nothing(&cluster).await;
    what_is_not_ready_in_time_is_told(&cluster).await;
    what_goes_goes_in_order(&cluster).await;
}

/// No node runs the pod of the catalog: what it waits for is told, OLM is told of no server yet, and what was made goes.
async fn what_is_not_ready_in_time_is_told(cluster: &Cluster) {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE},
    });
    cluster.apply(&account, DryRun::No).await.unwrap();
    let operator = Operator::new(&unique("shoal"));
    let (name, image) = (&operator.name, operator.publish("0.0.1"));
    let args = ["run", "bundle", &image, "--use-http", "--timeout", "30s"];
    let told = run(cluster, &args)
        .exits(1)
        .says("error: Failed to run bundle: create catalog: registry pod ")
        .says(" did not become ready within 30s")
        .says(&format!("Pod {SPACE}/"));
    assert_eq!(told.out, "");
    let catalog = format!("{name}-catalog");
    let source = api(cluster, "CatalogSource").get(&catalog).await.unwrap();
    assert_eq!(source.data["spec"].get("address"), None, "{source:?}");
    let told = run(cluster, &["cleanup", name]).exits(0);
    assert_eq!(told.out, format!("Operator {name:?} uninstalled\n"));
    assert_eq!(left(cluster).await, [""; 0]);
}

async fn what_does_not_run_here_changes_nothing(cluster: &Cluster) {
    let operator = Operator::new(&unique("reef"));
    let too_new = operator.publish_claiming("0.0.1", "4.21");
    let too_old = operator.publish_spec("0.0.2", &json!({"minKubeVersion": "1.99.0"}), &[]);
    let good = operator.publish("0.0.3");
    // They may not even see which OpenShift it is.
    for (image, told) in [
        (
            &too_new,
            "says on which OpenShift it runs at most, and which one this is may not be seen",
        ),
        (&good, "failed to list Subscriptions"),
    ] {
        let args = ["run", "bundle", image, "--use-http", "--as=nobody"];
        assert_eq!(run(cluster, &args).exits(1).says(told).out, "");
    }
    for (args, told) in [
        (
            ["bundle", &too_new],
            "requires OpenShift <= 4.21 but the cluster is 4.22",
        ),
        (
            ["bundle-upgrade", &too_new],
            "requires OpenShift <= 4.21 but the cluster is 4.22",
        ),
        (
            ["bundle", &too_old],
            "requires Kubernetes >= 1.99.0 but the cluster is 1.",
        ),
        (
            ["bundle-upgrade", &good],
            "no existing operator found in the cluster to upgrade",
        ),
    ] {
        let run = run(cluster, &[&["run"], &args[..], &["--use-http"]].concat());
        assert_eq!(run.exits(1).says(told).out, "");
    }
    assert_eq!(left(cluster).await, [""; 0]);
}

/// What `run bundle` and OLM make of a package, in the order in which it goes.
fn made(operator: &Operator) -> [(String, Value); 5] {
    let name = operator.name.as_str();
    let csv = format!("{name}.v1.0.0");
    let definition = operator.definition();
    let owned = definition["metadata"]["name"].as_str().unwrap().to_owned();
    let metadata = |name: &str| json!({"name": name, "namespace": SPACE});
    let mut labelled = metadata(&csv);
    labelled["labels"] = json!({format!("operators.coreos.com/{name}.{SPACE}"): ""});
    let catalog = format!("{name}-catalog");
    let of = |kind: &str, version: &str, metadata: Value, spec: Value| {
        json!({
            "apiVersion": format!("operators.coreos.com/{version}"), "kind": kind, "metadata": metadata, "spec": spec,
        })
    };
    let subscription = json!({"name": name, "channel": "operator-sdk-run-bundle", "source": catalog, "sourceNamespace": SPACE});
    let installs = json!({
        "displayName": "Tide", "version": "1.0.0",
        // What it only needs is others'.
        "customresourcedefinitions": {
            "owned": [{"name": owned, "version": "v1", "kind": "Tide"}],
            "required": [{"name": "subscriptions.operators.coreos.com", "version": "v1alpha1", "kind": "Subscription"}],
        },
        "install": {"strategy": "deployment", "spec": {"deployments": []}},
    });
    let source = json!({"sourceType": "grpc", "address": "192.0.2.1:50051", "publisher": "operator-sdk", "displayName": name});
    let sub = format!("{name}-v1-0-0-sub");
    [
        (
            format!("subscription {sub:?}"),
            of("Subscription", "v1alpha1", metadata(&sub), subscription),
        ),
        (format!("customresourcedefinition {owned:?}"), definition),
        (
            format!("clusterserviceversion {csv:?}"),
            of("ClusterServiceVersion", "v1alpha1", labelled, installs),
        ),
        (
            "operatorgroup \"operator-sdk-og\"".to_owned(),
            of(
                "OperatorGroup",
                "v1",
                metadata("operator-sdk-og"),
                json!({}),
            ),
        ),
        (
            format!("catalogsource {catalog:?}"),
            of("CatalogSource", "v1alpha1", metadata(&catalog), source),
        ),
    ]
}

/// Each of the objects may be missing already. Whose definitions these were, nobody knows without the
/// ClusterServiceVersion.
async fn what_goes_goes_in_order(cluster: &Cluster) {
    let operator = Operator::new(&unique("tide"));
    let name = operator.name.as_str();
    let objects = made(&operator);
    let definition = objects[1].0.clone();
    let without = |more: &'static [&str], kept: &'static [usize]| (more, kept);
    let (everything, no_more) = (without(&[], &[]), without(&["--delete-all=false"], &[1, 3]));
    for (missing, (more, kept)) in [
        (None, everything),
        (Some(0), everything),
        (Some(1), everything),
        (Some(2), without(&[], &[1])),
        (Some(3), everything),
        (Some(4), everything),
        (None, no_more),
    ] {
        for (at, (what, object)) in objects.iter().enumerate() {
            if Some(at) != missing {
                cluster.apply(object, DryRun::No).await.unwrap();
            }
            if Some(at) != missing && *what == definition {
                let name = object["metadata"]["name"].as_str().unwrap();
                cluster.wait_established(name).await.unwrap();
            }
        }
        let run = run(cluster, &[&["cleanup", name], more].concat()).exits(0);
        assert_eq!(run.out, format!("Operator {name:?} uninstalled\n"));
        let gone: Vec<&str> = run
            .err
            .lines()
            .filter_map(|it| it.strip_suffix(" deleted"))
            .collect();
        let expected: Vec<&str> = objects
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != missing && !kept.contains(at))
            .map(|(_, (what, _))| what.as_str())
            .collect();
        assert_eq!(gone, expected, "without {missing:?}: {run:?}");
        let stays: Vec<&str> = kept
            .iter()
            .map(|at| objects[*at].0.as_str())
            .filter(|it| *it != definition)
            .collect();
        assert_eq!(left(cluster).await, stays, "without {missing:?}");
        if kept.contains(&1) {
            let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client().unwrap());
            let name = objects[1].1["metadata"]["name"].as_str().unwrap();
            definitions.get(name).await.unwrap();
        }
    }
    let groups = api(cluster, "OperatorGroup");
    groups
        .delete("operator-sdk-og", &DeleteParams::default())
        .await
        .unwrap();
    let run = run(cluster, &["cleanup", name]).exits(0);
    assert_eq!(run.out, "");
    run.says(&format!("package {name:?} not found"));
}

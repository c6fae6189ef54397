//! The same commands with the CRDs of OLM, but without a running OLM: requests, writes and their order. Tests on a real
//! node cover the behavior of OLM, and commands that are killed or disconnected at each of their writes.

mod support;

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use manifests::api::install;
use serde_json::{Value, json};

use self::support::{NAMESPACE_ADMIN, SPACE, Scene, TENANT};
use super::support::Operator;
use crate::environment::{Rukpak as _, Run, apply, crd, namespace, unique};
use crate::upgrade::become_openshift;

/// Only bundles that declare a max OpenShift version require permission to read the ClusterVersion.
async fn constraints_are_checked_before_any_write(scene: &Scene, operator: &Operator) {
    become_openshift(&scene.cluster, "4.22.3").await;
    let good = operator.publish("0.0.1");
    let claiming = operator.publish_claiming("0.0.2", "4.22");
    let too_new = operator.publish_claiming("0.0.3", "4.21");
    let nothing = "no existing operator found in the cluster to upgrade";
    let hidden = "sets maxOpenShiftVersion, but you are not allowed to read the cluster version";
    let newer = "requires OpenShift <= 4.21 but the cluster is 4.22";
    tests::assert_runs! { scene;
        "run bundle-upgrade {good} --use-http --engine=olm --as={TENANT}" => 1, "", "{nothing}";
        "run bundle-upgrade {claiming} --use-http --engine=olm --as={TENANT}" => 1, "", "{hidden}";
        "run bundle {too_new} --use-http --engine=olm" => 1, "", "{newer}";
        "run bundle {too_new} --use-http --engine=native" => 1, "", "{newer}";
    }
    scene.assert_empty().await;
}

const CRD: &str = "tides.tide.example.com";

/// Creates a package with all objects of the command and of OLM.
async fn installed(scene: &Scene) {
    scene.subscribe(SPACE, "tide", "tide-catalog").await;
    let label = format!("operators.coreos.com/tide.{SPACE}");
    let csv = json!({
        "displayName": "Tide", "install": {"strategy": "deployment", "spec": {"deployments": []}},
        "customresourcedefinitions": {"owned": [{"kind": "Tide", "name": CRD, "version": "v1"}]},
    });
    for (kind, name, labels, spec) in tests::rows![
        "ClusterServiceVersion", "tide.v1", json!({label: ""}) => csv;
        "CatalogSource", "tide-catalog", json!({}) => json!({"sourceType": "grpc", "publisher": "operator-sdk"});
        "OperatorGroup", "operator-sdk-og", json!({}) => json!({});
    ] {
        let metadata = json!({"name": name, "namespace": SPACE, "labels": labels});
        scene.object(kind, &metadata, &spec).await;
    }
}

/// Returns the objects that the command reports as deleted, in order.
fn deleted(run: &Run) -> Vec<&str> {
    let lines = run.err.lines();
    let deleted = lines.filter_map(|line| line.strip_suffix(" deleted"));
    deleted.collect()
}

async fn cleanup_deletes_the_created_objects(scene: &Scene) {
    installed(scene).await;
    let run = scene.ok("cleanup tide --delete-all=false --engine=olm");
    run.err_has("Skipping CRD deletion");
    run.err_has("Skipping Operator Groups deletion");
    let [subscription, version, catalog] = [
        "subscription \"tide\"",
        "clusterserviceversion \"tide.v1\"",
        "catalogsource \"tide-catalog\"",
    ];
    assert_eq!(deleted(&run), [subscription, version, catalog]);
    assert_eq!(scene.has("OperatorGroup").await, ["operator-sdk-og"]);

    installed(scene).await;
    let run = scene.ok(&format!("cleanup tide --as {NAMESPACE_ADMIN}"));
    run.err_has("warning: operatorgroup \"operator-sdk-og\" is kept: ");
    run.err_has("cannot delete resource \"operatorgroups\"");
    assert_eq!(deleted(&run), [subscription, version, catalog]);
    assert_eq!(scene.has("OperatorGroup").await, ["operator-sdk-og"]);

    installed(scene).await;
    let run = scene.ok(&format!("cleanup tide --as {TENANT}"));
    let unread = format!("cannot determine whether other namespaces install from {catalog}");
    run.err_has(unread);
    let kept = format!("customresourcedefinition {CRD:?} and all of its custom resources are kept");
    run.err_has(kept);
    assert_eq!(run.out, "Operator \"tide\" uninstalled\n");
    tests::assert_rows!(deleted(&run) => [subscription, version, "operatorgroup \"operator-sdk-og\"", catalog]);
    scene.assert_empty().await;
}

/// CRDs of a BundleInstance are kept, also if their deletion is requested.
async fn cleanup_keeps_crds_of_instances(scene: &Scene) {
    let mut owned = crd("tide");
    owned["metadata"]["labels"] =
        json!({"core.rukpak.io/owner-kind": "BundleInstance", "core.rukpak.io/owner-name": "prod"});
    scene.apply(&owned).await;
    installed(scene).await;
    tests::assert_runs! { scene;
        "cleanup tide --engine=olm --delete-crds" => 0, "Operator \"tide\" uninstalled\n",
            "customresourcedefinition \"{CRD}\" and all of its custom resources are kept: BundleInstance prod also owns the CRD\n";
    }
    scene.assert_empty().await;
    let crds = Api::<CustomResourceDefinition>::all(scene.cluster.client().unwrap());
    tests::assert_rows!(crds.get(CRD).await.unwrap().metadata.deletion_timestamp => None);
}

/// The remedies apply to the namespace of the run.
async fn installed_package_is_not_run_again(scene: &Scene, operator: &Operator) {
    installed(scene).await;
    let image = operator.publish("0.0.4");
    tests::assert_runs! { scene;
        "run bundle {image} --use-http --engine=olm"
            => 1, "", "package \"tide\" already has Subscription tide in namespace {SPACE}; upgrade it with \"rukpak run \
                       bundle-upgrade {image} --namespace {SPACE}\", or remove it with \"rukpak cleanup tide --namespace \
                       {SPACE}\"\n";
        "cleanup tide --engine=olm" => 0, _;
    }
    scene.assert_empty().await;
}

// parity: sdk-2, sdk-20, sdk-28, sdk-31, sdk-34
#[tokio::test(flavor = "multi_thread")]
async fn olm_commands_need_permissions_in_one_namespace_only() {
    let scene = Scene::new().await;
    pod_is_hardened_on_request_and_reported_if_not_ready(&scene).await;
    // If rukpak is installed too, the tenant can read neither the Deployments of OLM nor the BundleInstances.
    let objects = install::objects(&install::Options::default());
    apply(&scene.cluster, objects).await;
    let operator = Operator::new("tide");
    scene.apply(&crd("tide")).await;
    cleanup_deletes_the_created_objects(&scene).await;
    tests::assert_runs! { scene;
        "cleanup tide --as {TENANT}" => 0, _, "package \"tide\" not found in namespace tides",
            "cannot determine whether the package has a BundleInstance because you are not allowed to list BundleInstances; \
             using OLM";
    }
    cleanup_keeps_crds_of_instances(&scene).await;
    installed_package_is_not_run_again(&scene, &operator).await;
    constraints_are_checked_before_any_write(&scene, &operator).await;
    engine_of_the_package_is_detected(&scene).await;
}

/// CRDs alone do not make a running OLM, and Subscriptions in other namespaces do not count.
async fn engine_of_the_package_is_detected(scene: &Scene) {
    scene.subscribe("elsewhere", "coral", "coral-catalog").await;
    let instance = async |name: &str, more: Value| {
        let source = json!({"type": "image", "image": {"ref": "example.com/coral:v1"}});
        let mut object = json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance",
            "metadata": {"name": name, "annotations": {"core.rukpak.io/package": "coral"}},
            "spec": {"provisionerClassName": "core.rukpak.io/plain", "template": {"spec": {
                "provisionerClassName": "core.rukpak.io/registry", "source": source,
            }}},
        });
        let spec = object["spec"].as_object_mut().unwrap();
        spec.extend(more.as_object().unwrap().clone());
        scene.apply(&object).await;
    };
    let in_namespace = json!({"installNamespace": SPACE});
    instance("coral", json!({})).await;
    tests::assert_runs! { scene;
        "cleanup coral" => 1, "", "BundleInstance coral does not report its install namespace yet, so it may not be in \
                                   tides; nothing was deleted";
    }
    instance("others", json!({"installNamespace": "prod"})).await;
    instance("coral", in_namespace.clone()).await;
    let not_found = "package \"coral\" not found in namespace tides; BundleInstance others is installed in prod\n";
    tests::assert_runs! { scene;
        "cleanup coral" => 0, _, "OLM is not running although its CRDs are installed", "bundleinstance \"coral\" deleted";
        "cleanup coral" => 0, _, "{not_found}";
    }
    let labels = json!({"app": "catalog-operator"});
    let pod = json!({"containers": [{"name": "olm", "image": "example.com/olm:v1"}]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "catalog-operator", "namespace": "olm"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    });
    apply(&scene.cluster, [namespace("olm"), deployment]).await;
    instance("coral", in_namespace).await;
    tests::assert_runs! { scene;
        "cleanup coral" => 0, _, "bundleinstance \"coral\" deleted";
        // The namespace has no BundleInstance of the package now, so OLM is used.
        "cleanup coral" => 0, _, "BundleInstance others is installed in prod, not in tides; using OLM",
            "package \"coral\" not found in namespace tides";
    }
    let deployments = Api::<Deployment>::namespaced(scene.cluster.client().unwrap(), "olm");
    let (name, params) = ("catalog-operator", PatchParams::default());
    let stopped = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments.patch(name, &params, &stopped).await.unwrap();
    tests::assert_runs! { scene; "cleanup coral" => 0, _, "OLM is not running", "{not_found}"; }
}

async fn pod_is_hardened_on_request_and_reported_if_not_ready(scene: &Scene) {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    scene.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": labels}})).await;
    let operator = Operator::new(&unique("free"));
    let (name, image) = (&operator.name, operator.publish("0.0.1"));
    let bundle = format!("run bundle {image} --use-http --engine=olm");
    let run = scene.run(&bundle).exits(1);
    run.err_has("error: Failed to run bundle: create catalog: failed to create Pod ");
    run.err_has("violates PodSecurity \"restricted:latest\"");
    run.err_has("; run the same command again with --security-context-config=restricted");
    run.err_lacks("cluster admin");
    tests::assert_runs! { scene;
        "{bundle} --security-context-config=restricted --timeout=10s"
            => 1, "", "error: Failed to run bundle: create catalog: timed out after 10s: registry pod ", " is not ready; \
                                                                                                          the CatalogSource \
                                                                                                          was not changed",
            "Pod {SPACE}/";
    }
    // The CatalogSource gets no address before the pod is ready, and cleanup deletes the created objects.
    let catalog = format!("{name}-catalog");
    let sources = scene.api_of_kind("CatalogSource");
    let source = sources.get(&catalog).await.unwrap();
    assert_eq!(source.data["spec"].get("address"), None, "{source:?}");
    tests::assert_runs! { scene; "cleanup {name} --engine=olm" => 0, "Operator \"{name}\" uninstalled\n"; }
    scene.assert_empty().await;
}

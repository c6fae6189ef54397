//! The same commands with OLM's definitions, and nobody behind them: what is asked, what is written, and in which order. What
//! OLM makes of it is tested on a real node.

mod pod;

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
};

use cluster::{DryRun, Lease};
use flate2::read::MultiGzDecoder;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::api::install;
use serde_json::{Value, json};

use tests::Args;

use super::scene::Operator;
use crate::{
    upgrade::{become_openshift, define, module},
    world::{self, Run, bare, binary, eventually, unique},
};

const SPACE: &str = "tides";
/// Who may do anything with OLM's kinds in that namespace, and nothing else.
const TENANT: &str = "ann";
/// Who may install without OLM, and nothing else.
const AUTHOR: &str = "bea";
/// Who may do anything.
const ADMIN: &str = "kubernetes-admin";
const INJECTED: &str = "operators.operatorframework.io/injected-bundles";
/// What the command and OLM make of a package.
const KINDS: [&str; 5] = [
    "Subscription",
    "ClusterServiceVersion",
    "CatalogSource",
    "OperatorGroup",
    "InstallPlan",
];

/// A cluster with OLM's definitions.
struct Scene {
    cluster: Lease,
}

impl Scene {
    async fn new() -> Self {
        let cluster = bare().await;
        let folder = module("opm", "github.com/operator-framework/api");
        for name in [
            "catalogsources",
            "clusterserviceversions",
            "installplans",
            "operatorgroups",
            "subscriptions",
        ] {
            let file = format!("crds/operators.coreos.com_{name}.yaml");
            let definition = (&*format!("{name}.operators.coreos.com"), &*file);
            define(&cluster, &folder, &[definition]).await;
        }
        let scene = Self { cluster };
        let rules =
            json!([{"apiGroups": ["operators.coreos.com"], "resources": ["*"], "verbs": ["*"]}]);
        let group = "rbac.authorization.k8s.io";
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "Role",
                "metadata": {"name": TENANT, "namespace": SPACE}, "rules": rules,
            }),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
                "metadata": {"name": TENANT, "namespace": SPACE},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": TENANT},
                "subjects": [{"apiGroup": group, "kind": "User", "name": TENANT}],
            }),
        ] {
            scene.apply(&object).await;
        }
        scene
    }

    async fn apply(&self, object: &Value) -> DynamicObject {
        self.cluster.apply(object, DryRun::No).await.unwrap()
    }

    fn of(&self, kind: &str) -> Api<DynamicObject> {
        self.within(SPACE, kind)
    }

    fn within(&self, namespace: &str, kind: &str) -> Api<DynamicObject> {
        let version = if kind == "OperatorGroup" {
            "v1"
        } else {
            "v1alpha1"
        };
        let kind = GroupVersionKind::gvk("operators.coreos.com", version, kind);
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.cluster.client().unwrap(), namespace, &resource)
    }

    async fn status(&self, kind: &str, name: &str, status: &Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.of(kind)
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    async fn has(&self, kind: &str) -> Vec<String> {
        let found = self.of(kind).list(&ListParams::default()).await.unwrap();
        found
            .items
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect()
    }

    async fn assert_empty(&self) {
        for kind in KINDS {
            assert_eq!(self.has(kind).await, [""; 0], "{kind}");
        }
    }

    fn command(&self, args: &(impl Args + ?Sized)) -> Command {
        let mut command = Command::new(binary());
        command.args(args.words()).args(["--namespace", SPACE]);
        command
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig_path());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &(impl Args + ?Sized)) -> Run {
        self.command(args).output().unwrap().into()
    }

    fn spawn(&self, args: &(impl Args + ?Sized)) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    async fn subscribe(&self, namespace: &str, package: &str, source: &str) {
        self.apply(&json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": package, "namespace": namespace},
            "spec": {
                "name": package, "source": source, "sourceNamespace": namespace, "installPlanApproval": "Manual",
            },
        }))
        .await;
    }

    async fn catalog(&self, name: &str, annotations: &Value, spec: &Value) -> String {
        let mut spec = spec.clone();
        spec["sourceType"] = "grpc".into();
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": SPACE, "annotations": annotations}, "spec": spec,
        });
        self.apply(&source).await.uid().unwrap()
    }
}

fn csv(package: &str, definition: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{package}.v1"), "namespace": SPACE,
            "labels": {format!("operators.coreos.com/{package}.{SPACE}"): ""},
        },
        "spec": {
            "displayName": "Tide", "install": {"strategy": "deployment", "spec": {"deployments": []}},
            "customresourcedefinitions": {"owned": [{"kind": "Tide", "name": definition, "version": "v1"}]},
        },
    })
}

/// Bundles that declare no maximum need nobody who may see which OpenShift it is. Nothing is made of what cannot run here.
async fn demands_are_checked_before_anything_is_made(scene: &Scene, operator: &Operator) {
    become_openshift(&scene.cluster, "4.22.3").await;
    let group = "rbac.authorization.k8s.io";
    scene
        .apply(&json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": AUTHOR},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "bundleinstances-admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": AUTHOR}],
        }))
        .await;
    let good = operator.publish("0.0.1");
    let claiming = operator.publish_claiming("0.0.2", "4.22");
    let too_new = operator.publish_claiming("0.0.3", "4.21");
    let too_old = operator.publish_spec("0.0.4", &json!({"minKubeVersion": "1.99.0"}), &[]);
    let nothing = "no existing operator found in the cluster to upgrade";
    let hidden = "says on which OpenShift it runs at most, and which one this is may not be seen";
    let newer = "requires OpenShift <= 4.21 but the cluster is 4.22";
    let too_small = "requires Kubernetes >= 1.99.0 but the cluster is 1.";
    for (engine, command, image, user, expected) in tests::rows![
        "olm", "bundle-upgrade", &good, TENANT => nothing;
        "olm", "bundle-upgrade", &claiming, TENANT => hidden;
        "olm", "bundle", &claiming, "nobody" => hidden;
        "olm", "bundle", &good, "nobody" => "failed to list Subscriptions";
        "olm", "bundle", &too_new, ADMIN => newer;
        "olm", "bundle-upgrade", &too_new, ADMIN => newer;
        "olm", "bundle", &too_old, ADMIN => too_small;
        "olm", "bundle-upgrade", &good, ADMIN => nothing;
        "native", "bundle", &too_new, ADMIN => newer;
        "native", "bundle", &claiming, AUTHOR => hidden;
    ] {
        let user = match user {
            ADMIN => String::new(),
            user => format!("--as={user}"),
        };
        let words = format!("run {command} {image} --use-http --engine={engine} {user}");
        assert_eq!(scene.run(&words).exits(1).says(expected).out, "");
    }
    scene.assert_empty().await;
}

const DEFINITION: &str = "tides.tide.example.com";

/// A package with everything that the command and OLM make of it.
async fn installed(scene: &Scene) {
    scene.subscribe(SPACE, "tide", "tide-catalog").await;
    scene.apply(&csv("tide", DEFINITION)).await;
    let spec = json!({"publisher": "operator-sdk"});
    scene.catalog("tide-catalog", &json!({}), &spec).await;
    scene
        .apply(&json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "operator-sdk-og", "namespace": SPACE}, "spec": {},
        }))
        .await;
}

/// What a command says that it has deleted, in its order.
fn deleted(run: &Run) -> Vec<&str> {
    let lines = run.err.lines();
    lines
        .filter_map(|line| line.strip_suffix(" deleted"))
        .collect()
}

/// What was made goes in its order, as far as flags and permissions allow.
async fn cleanup_removes_what_was_made(scene: &Scene) {
    installed(scene).await;
    let run = scene
        .run(&["cleanup", "tide", "--delete-all=false", "--engine=olm"])
        .exits(0)
        .says("Skipping CRD deletion")
        .says("Skipping Operator Groups deletion");
    let own = [
        "subscription \"tide\"",
        "clusterserviceversion \"tide.v1\"",
        "catalogsource \"tide-catalog\"",
    ];
    assert_eq!(deleted(&run), own);
    assert_eq!(scene.has("OperatorGroup").await, ["operator-sdk-og"]);

    installed(scene).await;
    let run = scene
        .run(&["cleanup", "tide", "--as", TENANT])
        .exits(0)
        .says("Whether other namespaces install from catalogsource \"tide-catalog\" is not known")
        .says(&format!(
            "customresourcedefinition {DEFINITION:?} stays, and all of its custom resources"
        ));
    assert_eq!(run.out, "Operator \"tide\" uninstalled\n");
    let [subscription, version, catalog] = own;
    let all = [
        subscription,
        version,
        "operatorgroup \"operator-sdk-og\"",
        catalog,
    ];
    assert_eq!(deleted(&run), all);
    scene.assert_empty().await;
}

// parity: sdk-2, sdk-31, sdk-34
#[tokio::test(flavor = "multi_thread")]
async fn with_olm_only_the_namespace_counts_and_rights_there_are_enough() {
    let scene = Scene::new().await;
    // Where rukpak is as well, the tenant sees neither who runs OLM nor what rukpak has installed.
    world::install(&scene.cluster, &install::Options::default()).await;
    let operator = Operator::new("tide");
    scene.apply(&operator.definition()).await;
    cleanup_removes_what_was_made(&scene).await;

    scene
        .run(&["cleanup", "tide", "--as", TENANT])
        .exits(0)
        .says("Whether the package has a BundleInstance is not known, for you may not list them; OLM is taken")
        .says("package \"tide\" not found in namespace tides");

    demands_are_checked_before_anything_is_made(&scene, &operator).await;

    // Definitions are no OLM, and a Subscription elsewhere says nothing of this namespace.
    scene.subscribe("elsewhere", "coral", "coral-catalog").await;
    let instance = async |name: &str, namespace: Option<&str>| {
        let source = json!({"type": "image", "image": {"ref": "example.com/coral:v1"}});
        let mut object = json!({
            "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance",
            "metadata": {"name": name, "annotations": {"core.rukpak.io/package": "coral"}},
            "spec": {"provisionerClassName": "core.rukpak.io/plain", "template": {"spec": {
                "provisionerClassName": "core.rukpak.io/registry", "source": source,
            }}},
        });
        if let Some(namespace) = namespace {
            object["spec"]["installNamespace"] = namespace.into();
        }
        scene.apply(&object).await;
    };
    instance("coral", None).await;
    scene
        .run(&["cleanup", "coral"])
        .exits(1)
        .says("BundleInstance coral does not tell yet where it is installed, which may not be tides; nothing was deleted");
    instance("others", Some("prod")).await;
    instance("coral", Some(SPACE)).await;
    scene
        .run(&["cleanup", "coral"])
        .exits(0)
        .says("OLM does not run here, though its definitions are there")
        .says("bundleinstance \"coral\" deleted");
    let stays = "package \"coral\" not found in namespace tides; BundleInstance others is installed in prod\n";
    scene.run(&["cleanup", "coral"]).exits(0).says(stays);
    let labels = json!({"app": "catalog-operator"});
    let pod = json!({"containers": [{"name": "olm", "image": "example.com/olm:v1"}]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "catalog-operator", "namespace": "olm"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "olm"}});
    scene.apply(&namespace).await;
    scene.apply(&deployment).await;
    instance("coral", Some(SPACE)).await;
    scene
        .run(&["cleanup", "coral"])
        .exits(0)
        .says("bundleinstance \"coral\" deleted");
    // Now that nothing of it is in the namespace, it is OLM's.
    scene
        .run(&["cleanup", "coral"])
        .exits(0)
        .says("BundleInstance others is installed in prod, and not in tides; OLM is taken")
        .says("package \"coral\" not found in namespace tides");
    let client = scene.cluster.client().unwrap();
    let deployments = Api::<Deployment>::namespaced(client, "olm");
    let away = json!({"spec": {"replicas": 0}});
    let params = PatchParams::default();
    deployments
        .patch("catalog-operator", &params, &Patch::Merge(away))
        .await
        .unwrap();
    scene
        .run(&["cleanup", "coral"])
        .exits(0)
        .says("OLM does not run here")
        .says(stays);
}

#[expect(clippy::too_many_lines, reason = "one story, step by step")]
// parity: sdk-8, sdk-12, sdk-30
#[tokio::test(flavor = "multi_thread")]
async fn with_olm_an_upgrade_is_decided_first_and_gone_on_with_wherever_it_was_killed() {
    let scene = Scene::new().await;
    let operator = Operator::new(&unique("olm"));
    let name = operator.name.as_str();
    let index = operator.publish_index(&["0.0.1"]);
    let image = operator.publish("0.0.2");
    let csv = |version: &str| format!("{name}.v{version}");
    let template = json!({"olm.catalogImageTemplate": "a.io/index:v{kube_major_version}"});
    let uid = scene
        .catalog("index", &template, &json!({"image": index}))
        .await;
    // It names no channel: OLM takes the default one.
    scene.subscribe(SPACE, name, "index").await;
    let reference = |plan: &str| json!({"installPlanRef": {"kind": "InstallPlan", "namespace": SPACE, "name": plan}});
    let mut status = reference("install-1");
    status["lastUpdated"] = "2026-01-01T00:00:00Z".into();
    status["installedCSV"] = csv("0.0.1").into();
    status["currentCSV"] = csv("0.0.2").into();
    status["state"] = "UpgradePending".into();
    scene.status("Subscription", name, &status).await;
    let plan = async |plan: &str, approved: bool, csvs: &[&str], status: Value| {
        scene
            .apply(&json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
                "metadata": {"name": plan, "namespace": SPACE},
                "spec": {"approval": "Manual", "approved": approved, "clusterServiceVersionNames": csvs},
            }))
            .await;
        scene.status("InstallPlan", plan, &status).await;
    };
    let failed = json!({"phase": "Failed", "catalogSources": [], "message": "quota exceeded"});
    plan("install-1", true, &["other.v1"], failed).await;
    let upgrade = [
        "run",
        "bundle-upgrade",
        &image,
        "--use-http",
        "--engine=olm",
    ];

    // OLM would never make another plan. What is said helps.
    let run = scene
        .run(&upgrade)
        .exits(1)
        .says("InstallPlan install-1 failed: quota exceeded; OLM does not try it again")
        .says("nothing was changed");
    let patch = run.err.split_once("--patch '").unwrap().1;
    let patch: Value = serde_json::from_str(patch.split_once('\'').unwrap().0).unwrap();
    scene.status("Subscription", name, &patch["status"]).await;

    let sources = scene.of("CatalogSource");
    let before = sources.get("index").await.unwrap();

    // What served an earlier catalog, in three parts; and what OLM has unpacked.
    let client = scene.cluster.client().unwrap();
    let (maps, pods): (Api<ConfigMap>, Api<Pod>) = (
        Api::namespaced(client.clone(), SPACE),
        Api::namespaced(client, SPACE),
    );
    let owner = json!([{
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "index", "uid": uid,
    }]);
    for number in 0..=3 {
        let name = match number {
            0 => "0a1b2c".to_owned(),
            number => format!("index-configmap-partition-{number}"),
        };
        scene
            .apply(&json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": SPACE, "ownerReferences": owner},
            }))
            .await;
    }
    let former = async || {
        let found = maps.list(&ListParams::default()).await.unwrap();
        let names = found.items.iter().map(kube::ResourceExt::name_any);
        names
            .filter(|it| it != "kube-root-ca.crt")
            .collect::<Vec<_>>()
    };
    let registry = async || {
        let found = pods.list(&ListParams::default()).await.unwrap();
        match found.items.as_slice() {
            [pod] => Ok(pod.name_any()),
            other => Err(format!("{} pods", other.len())),
        }
    };

    // Killed when the pod is there: OLM has what it had.
    let mut child = scene.spawn(&upgrade);
    let pod = eventually("a pod", registry).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let after = sources.get("index").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    let all = former().await;
    assert_eq!(all.len(), 5, "{all:?}");
    let part = all
        .iter()
        .find(|it| it.len() > "index-configmap-partition-1".len())
        .unwrap();
    let data = maps.get(part).await.unwrap().binary_data.unwrap();
    let mut text = String::new();
    MultiGzDecoder::new(data["extraFBC"].0.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert!(
        text.contains(&format!("replaces: {}\nname: stable\n", csv("0.0.1"))),
        "{text}"
    );

    // Killed when OLM has the new catalog: nothing of the one before is left after the next run, and the pod is the same.
    let ready = json!({"status": {
        "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let params = PatchParams::default();
    pods.patch_status(&pod, &params, &Patch::Merge(ready))
        .await
        .unwrap();
    let mut child = scene.spawn(&upgrade);
    let pointed = async || {
        let found = sources.get("index").await.unwrap();
        match found.data["spec"]["address"].as_str() {
            Some("10.0.0.9:50051") => Ok(found),
            other => Err(format!("{other:?}")),
        }
    };
    let after = eventually("pointed", pointed).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(after.data["spec"]["image"], Value::Null);
    assert_eq!(after.annotations().get("olm.catalogImageTemplate"), None);
    assert!(
        after.annotations()[INJECTED].contains("@sha256:"),
        "{after:?}"
    );
    let state =
        json!({"connectionState": {"address": "10.0.0.9:50051", "lastObservedState": "READY"}});
    scene.status("CatalogSource", "index", &state).await;

    // OLM makes a plan that has somebody else's operator in it.
    scene.subscribe(SPACE, "coral", "other").await;
    let current = json!({"currentCSV": "coral.v1", "lastUpdated": "2026-01-01T00:00:00Z"});
    scene.status("Subscription", "coral", &current).await;
    let wanted = csv("0.0.2");
    let waits = json!({"phase": "RequiresApproval", "catalogSources": []});
    plan("install-2", false, &[&wanted, "coral.v1"], waits).await;
    scene
        .status("Subscription", name, &reference("install-2"))
        .await;
    scene
        .run(&upgrade)
        .exits(1)
        .says("InstallPlan install-2 would install coral.v1 (Subscription coral) as well")
        .says("kubectl patch installplan install-2 --namespace tides");
    let plan = scene.of("InstallPlan").get("install-2").await.unwrap();
    assert_eq!(plan.data["spec"]["approved"], false);
    assert_eq!(eventually("one pod", registry).await, pod);
    let left = former().await;
    assert_eq!(left, ["0a1b2c".to_owned(), part.clone()]);
    let told = sources.get("index").await.unwrap().annotations()[INJECTED].clone();
    assert_eq!(told, after.annotations()[INJECTED]);
}

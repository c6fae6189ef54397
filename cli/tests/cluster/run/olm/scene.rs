//! A control plane with OLM's definitions.

use std::process::{Child, Command, Stdio};

use cluster::{DryRun, Lease};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use tests::Args;

use crate::{
    upgrade::{define, module},
    world::{Run, bare, binary},
};

pub(super) const SPACE: &str = "tides";
/// A user with all rights on OLM's kinds in that namespace, and no other right.
pub(super) const TENANT: &str = "ann";
/// The kinds of the objects that the command and OLM create for a package.
const KINDS: [&str; 5] = [
    "Subscription",
    "ClusterServiceVersion",
    "CatalogSource",
    "OperatorGroup",
    "InstallPlan",
];

/// A cluster with OLM's definitions.
pub(super) struct Scene {
    pub(super) cluster: Lease,
}

impl Scene {
    pub(super) async fn new() -> Self {
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

    pub(super) async fn apply(&self, object: &Value) -> DynamicObject {
        self.cluster.apply(object, DryRun::No).await.unwrap()
    }

    pub(super) fn of(&self, kind: &str) -> Api<DynamicObject> {
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

    pub(super) async fn status(&self, kind: &str, name: &str, status: &Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.of(kind)
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    pub(super) async fn has(&self, kind: &str) -> Vec<String> {
        let found = self.of(kind).list(&ListParams::default()).await.unwrap();
        found
            .items
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect()
    }

    pub(super) async fn assert_empty(&self) {
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

    pub(super) fn run(&self, args: &(impl Args + ?Sized)) -> Run {
        self.command(args).output().unwrap().into()
    }

    pub(super) fn spawn(&self, args: &(impl Args + ?Sized)) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    pub(super) async fn subscribe(&self, namespace: &str, package: &str, source: &str) {
        self.apply(&json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": package, "namespace": namespace},
            "spec": {
                "name": package, "source": source, "sourceNamespace": namespace, "installPlanApproval": "Manual",
            },
        }))
        .await;
    }

    pub(super) async fn catalog(&self, name: &str, annotations: &Value, spec: &Value) -> String {
        let mut spec = spec.clone();
        spec["sourceType"] = "grpc".into();
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": SPACE, "annotations": annotations}, "spec": spec,
        });
        self.apply(&source).await.uid().unwrap()
    }
}

//! A control plane with the CRDs of OLM.

use std::process::Command;

use cluster::{DryRun, Lease};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use tests::Args;

use crate::environment::{Rukpak, apply, bare, binding, namespace, user};
use crate::upgrade::define_olm;

pub(super) const SPACE: &str = "tides";
/// A user with all permissions on the kinds of OLM in that namespace, and no others.
pub(super) const TENANT: &str = "ann";
/// The kinds of the objects that the command and OLM create for a package.
const KINDS: [&str; 5] = [
    "Subscription",
    "ClusterServiceVersion",
    "CatalogSource",
    "OperatorGroup",
    "InstallPlan",
];

/// A cluster with the CRDs of OLM.
pub(super) struct Scene {
    pub(super) cluster: Lease,
}

impl Scene {
    pub(super) async fn new() -> Self {
        let cluster = bare().await;
        let kinds = [
            "catalogsources",
            "clusterserviceversions",
            "installplans",
            "operatorgroups",
            "subscriptions",
        ];
        define_olm(&cluster, &kinds).await;
        let rules =
            json!([{"apiGroups": ["operators.coreos.com"], "resources": ["*"], "verbs": ["*"]}]);
        let objects = [
            namespace(SPACE),
            namespace("elsewhere"),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": TENANT, "namespace": SPACE}, "rules": rules,
            }),
            binding(TENANT, Some(SPACE), ("Role", TENANT), &user(TENANT)),
        ];
        apply(&cluster, objects).await;
        Self { cluster }
    }

    pub(super) async fn apply(&self, object: &Value) -> DynamicObject {
        self.cluster.apply(object, DryRun::No).await.unwrap()
    }

    /// Applies an object of OLM.
    pub(super) async fn object(&self, kind: &str, metadata: &Value, spec: &Value) -> DynamicObject {
        let api_version = format!("operators.coreos.com/{}", version(kind));
        self.apply(
            &json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}),
        )
        .await
    }

    pub(super) fn api_of_kind(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("operators.coreos.com", version(kind), kind);
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.cluster.client().unwrap(), SPACE, &resource)
    }

    pub(super) async fn status(&self, kind: &str, name: &str, status: &Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let (api, params) = (self.api_of_kind(kind), PatchParams::default());
        api.patch_status(name, &params, &patch).await.unwrap();
    }

    pub(super) async fn has(&self, kind: &str) -> Vec<String> {
        let found = self
            .api_of_kind(kind)
            .list(&ListParams::default())
            .await
            .unwrap();
        found.items.iter().map(ResourceExt::name_any).collect()
    }

    pub(super) async fn assert_empty(&self) {
        for kind in KINDS {
            assert_eq!(self.has(kind).await, [""; 0], "{kind}");
        }
    }

    pub(super) async fn subscribe(&self, namespace: &str, package: &str, source: &str) {
        let metadata = json!({"name": package, "namespace": namespace});
        let spec = json!({
            "name": package, "source": source, "sourceNamespace": namespace, "installPlanApproval": "Manual",
        });
        self.object("Subscription", &metadata, &spec).await;
    }

    pub(super) async fn catalog(&self, name: &str, annotations: &Value, spec: &Value) -> String {
        let mut spec = spec.clone();
        spec["sourceType"] = "grpc".into();
        let metadata = json!({"name": name, "namespace": SPACE, "annotations": annotations});
        let source = self.object("CatalogSource", &metadata, &spec).await;
        source.uid().unwrap()
    }
}

impl Rukpak for Scene {
    fn rukpak(&self, args: &(impl Args + ?Sized)) -> Command {
        let mut command = self.cluster.rukpak(args);
        command.args(["--namespace", SPACE]);
        command
    }
}

fn version(kind: &str) -> &'static str {
    match kind {
        "OperatorGroup" => "v1",
        _ => "v1alpha1",
    }
}

//! A control plane with the CRDs of OLM.

use std::process::Command;

use cluster::Lease;
use kube::{
    Api, ResourceExt,
    api::ListParams,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use tests::Args;

use crate::environment::{Rukpak, apply, bare, binding, namespace, user};
use crate::upgrade::define_olm;

pub(super) const SPACE: &str = "tides";
/// A user with all permissions on the kinds of OLM in that namespace, and no others.
pub(super) const TENANT: &str = "ann";
/// A user with the permissions that OLM grants to namespace admins, who may not delete OperatorGroups.
pub(super) const NAMESPACE_ADMIN: &str = "bob";
/// The kinds of the objects that the command and OLM create for a package.
const KINDS: &str = "Subscription ClusterServiceVersion CatalogSource OperatorGroup InstallPlan";

pub(super) struct Scene {
    pub(super) cluster: Lease,
}

impl Scene {
    pub(super) async fn new() -> Self {
        let cluster = bare().await;
        let kinds =
            "catalogsources clusterserviceversions installplans operatorgroups subscriptions";
        define_olm(&cluster, kinds).await;
        let mut objects = vec![
            namespace(SPACE),
            namespace("elsewhere"),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}),
        ];
        let group = ["operators.coreos.com"];
        let deletable = ["subscriptions", "clusterserviceversions", "catalogsources"];
        for (name, rules) in tests::rows![
            TENANT => json!([{"apiGroups": group, "resources": ["*"], "verbs": ["*"]}]);
            NAMESPACE_ADMIN => json!([
                {"apiGroups": group, "resources": ["*"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": group, "resources": deletable, "verbs": ["delete"]},
            ]);
        ] {
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": name, "namespace": SPACE}, "rules": rules,
            }));
            objects.push(binding(name, Some(SPACE), ("Role", name), &user(name)));
        }
        apply(&cluster, objects).await;
        Self { cluster }
    }

    pub(super) async fn apply(&self, object: &Value) {
        apply(&self.cluster, [object]).await;
    }

    pub(super) async fn object(&self, kind: &str, metadata: &Value, spec: &Value) {
        let api_version = format!("operators.coreos.com/{}", version(kind));
        let object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
        self.apply(&object).await;
    }

    pub(super) fn api_of_kind(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("operators.coreos.com", version(kind), kind);
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.cluster.client().unwrap(), SPACE, &resource)
    }

    pub(super) async fn has(&self, kind: &str) -> Vec<String> {
        let (api, params) = (self.api_of_kind(kind), ListParams::default());
        let found = api.list(&params).await.unwrap();
        found.items.iter().map(ResourceExt::name_any).collect()
    }

    pub(super) async fn assert_empty(&self) {
        for kind in KINDS.split(' ') {
            assert_eq!(self.has(kind).await, [""; 0], "{kind}");
        }
    }

    pub(super) async fn subscribe(&self, namespace: &str, package: &str, source: &str) {
        let metadata = json!({"name": package, "namespace": namespace});
        let spec = json!({"name": package, "source": source, "sourceNamespace": namespace, "installPlanApproval": "Manual"});
        self.object("Subscription", &metadata, &spec).await;
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

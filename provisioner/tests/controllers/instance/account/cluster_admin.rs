//! An account with cluster-admin: objects that it must not apply, and limits of the cluster version.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use manifests::api::bundle_instance::{CheckMode, Preflight};

use super::*;

/// Makes the cluster look like OpenShift, with a small CRD of the real name.
pub(super) async fn be_open_shift(cluster: &Cluster, version: &str) {
    let mut crd = support::crd("config.openshift.io", "ClusterVersion");
    crd["metadata"]["annotations"] =
        json!({"api-approved.kubernetes.io": "https://github.com/openshift/api/pull/495"});
    crd["spec"]["scope"] = "Cluster".into();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    crd["spec"]["versions"][0]["subresources"] = json!({});
    support::define(cluster, &crd).await;
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "status": {
            "history": [{"state": "Completed", "version": version}],
            "desired": {"version": version},
        },
    });
    support::apply(cluster, &object).await;
}

/// Creates an account with cluster-admin.
async fn cluster_admin(world: &World, namespace: &str) -> ServiceAccountRef {
    let account = installer(world, namespace).await;
    let name = format!("mighty-{namespace}");
    bind(world.cluster, None, &name, "cluster-admin", &account).await;
    account
}

#[tokio::test]
async fn the_install_file_belongs_to_no_bundle() {
    let world = modest().await;
    let (name, space) = fresh(world, "mighty").await;
    let account = cluster_admin(world, space.name()).await;
    let group = "rbac.authorization.k8s.io";
    let policy = "bundleinstance-service-account";
    let mut crd = support::crd("core.rukpak.io", "Bundle");
    crd["spec"]["scope"] = "Cluster".into();
    crd["spec"]["versions"][0]["name"] = "v1alpha1".into();
    let objects = [
        crd,
        map(space.name(), "a", &[]),
        cluster_role("provisioner"),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "provisioner"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "provisioner"}, "subjects": [],
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": policy}, "spec": {"policyName": policy, "validationActions": ["Audit"]},
        }),
        deployment(support::SYSTEM, "core", 0, "v1", "ready"),
    ];
    let roles = world.api::<ClusterRole>();
    let was = roles.get("provisioner").await.unwrap();
    let generation = async || {
        let crds: Api<CustomResourceDefinition> = world.api();
        let found = crds.get("bundles.core.rukpak.io").await.unwrap();
        found.metadata.generation
    };
    let before = generation().await;
    install(world, &name, &account, &objects).await;
    let instance = says(world, &name, "Installed", &["ClusterRole provisioner"]).await;
    assert_eq!(line(&instance, "Installed"), "False InstallFailed");
    let parts = [
        "ClusterRole provisioner already exists and is owned by",
        "ClusterRoleBinding provisioner already exists and is owned by",
        "ValidatingAdmissionPolicyBinding bundleinstance-service-account already exists and is owned by",
        "Deployment rukpak-system/core would be created in the provisioner's namespace",
        "CustomResourceDefinition bundles.core.rukpak.io belongs to the provisioner",
    ];
    assert_message(&instance, "Installed", &parts);
    delete(world, &name).await;
    let is = roles.get("provisioner").await.unwrap();
    assert_eq!((is.uid(), is.rules), (was.uid(), was.rules));
    assert_eq!(generation().await, before);
    let begun = maps(world, space.name()).get_opt("a").await.unwrap();
    assert!(begun.is_none());
}

// parity: max-olm-19
#[tokio::test]
async fn override_permits_a_bundle_above_its_max_openshift_version() {
    let world = modest().await;
    let (name, space) = fresh(world, "maxocp").await;
    install_operator(world, &name, cluster_admin(world, space.name()).await).await;
    world.wait_instance(&name, "Installed", "True").await;

    let new = bundle_info::talkative(&name, "2.0.0");
    let source = image(&world.push(&format!("{name}:v2"), &new).await);
    point_at(world, &name, &source).await;
    let live = wait_reason(world, &name, "Installed", "UpgradeFailed").await;
    let parts = [
        "is still installed",
        "requires OpenShift <= 4.12 but the cluster is 4.13",
        "to spec.overrides to install it anyway",
    ];
    assert_message(&live, "Installed", &parts);
    let version = |instance: &BundleInstance| instance.status.clone().unwrap().facts.version;
    assert_eq!(version(&live).as_deref(), Some("1.0.0"));

    let off = json!({"spec": {"preflight": {"clusterVersion": "Off"}}});
    change(world, &name, off).await;
    let now = wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    assert_eq!(version(&now).as_deref(), Some("2.0.0"));
    let recorded = Preflight {
        cluster_version: CheckMode::Off,
        ..Preflight::default()
    };
    assert_eq!(now.spec.preflight, Some(recorded));

    // Without the override the constraint applies again. The installed bundle is unaffected and stays in its desired state.
    let env = json!([{"name": "LOUD", "value": "yes"}]);
    let config = json!({"deploymentConfig": {"env": env}});
    let on = json!({"spec": {"preflight": null, "config": config}});
    change(world, &name, on).await;
    let notice = "the bundle is already installed and is kept";
    says(world, &name, "Installed", &[notice]).await;
    let reason = wait_reason(world, &name, "Installed", "InstallationSucceeded").await;
    assert_eq!(version(&reason).as_deref(), Some("2.0.0"));
    delete(world, &name).await;
}

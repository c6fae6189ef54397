//! The install file and the samples.

use std::fs;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use manifests::{api::install, yaml};

use super::*;
use crate::support::{apply, bind_role, user, wait_permission};

#[tokio::test]
async fn install_file_is_restricted_and_accepts_samples() {
    run("create namespace tenant-a").await;
    let mut kinds = Vec::new();
    for entry in fs::read_dir(manifests("samples")).unwrap() {
        let file = entry.unwrap().path();
        let apply = "apply --server-side --dry-run=server --filename";
        run(&format!("{apply} {}", file.display())).await;
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().map(str::trim);
        let types = lines.filter_map(|line| line.strip_prefix("type: "));
        kinds.extend(types.map(str::to_owned));
    }
    for kind in ["image", "git", "http", "configMaps", "upload"] {
        assert!(kinds.iter().any(|other| other == kind), "{kind}: {kinds:?}");
    }

    // The pods of the Deployment comply with the Pod Security Standard `restricted`.
    let cluster = installed().await;
    let text = run("get deployment core --namespace rukpak-system --output json").await;
    let deployment: Value = serde_json::from_str(&text).unwrap();
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"] = json!({"name": "core", "namespace": "rukpak-system"});
    let create = ["create", "--dry-run=server", "--filename", "-"];
    kubectl(cluster, &create, &pod.to_string()).await.unwrap();

    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = true.into();
    let rejected = kubectl(cluster, &create, &pod.to_string()).await;
    let violation = "violates PodSecurity \"restricted:latest\"";
    assert_has(rejected.unwrap_err(), violation);
    let flags = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_has(flags, "\"--leader-elect\"");
}

#[tokio::test]
async fn each_binding_grants_its_permissions_and_no_more() {
    let cluster = installed().await;
    // The user `modest` has the provisioner's permissions without its second binding, plus those that OpenShift adds: the
    // rest of this file needs the second binding.
    let openshift = install::openshift(&install::Options::default());
    let mut documents = yaml::documents(openshift.as_bytes()).map(Result::unwrap);
    let added = documents.find(|document: &Value| {
        document["kind"] == "ClusterRole" && document["metadata"]["name"] == "provisioner-openshift"
    });
    apply(cluster, &added.unwrap()).await;
    for (role, namespace) in tests::rows![
        ("ClusterRole", "provisioner") => None;
        ("Role", "provisioner") => Some("rukpak-system");
        ("ClusterRole", "provisioner-openshift") => None;
    ] {
        let name = format!("modest-{}", role.1);
        bind_role(cluster, &user("modest"), namespace, role, &name).await;
    }
    for (allowed, verb, resource, namespace) in tests::rows![
        true, "create", "deployments.apps" => "default";
        true, "escalate", "clusterroles.rbac.authorization.k8s.io" => "";
        false, "impersonate", "serviceaccounts" => "default";
        false, "impersonate", "users" => "";
        false, "impersonate", "groups" => "";
    ] {
        wait_permission(cluster, PROVISIONER, (allowed, verb, resource, namespace)).await;
    }
    for (allowed, verb, resource, namespace) in tests::rows![
        true, "watch", "bundleinstances.core.rukpak.io" => "";
        true, "delete", "bundles.core.rukpak.io" => "";
        true, "patch", "bundleinstances/status.core.rukpak.io" => "";
        false, "delete", "bundleinstances.core.rukpak.io" => "";
        true, "create", "bundleinstances.core.rukpak.io" => "";
        true, "patch", "platformoperators.platform.openshift.io" => "";
        true, "patch", "platformoperators/status.platform.openshift.io" => "";
        true, "update", "platformoperators/finalizers.platform.openshift.io" => "";
        false, "delete", "platformoperators.platform.openshift.io" => "";
        true, "watch", "catalogsources.operators.coreos.com" => "openshift-marketplace";
        true, "update", "platformstatuses/status.core.rukpak.io" => "";
        false, "patch", "platformstatuses.core.rukpak.io" => "";
        false, "get", "secrets" => "openshift-marketplace";
        true, "create", "tokenreviews.authentication.k8s.io" => "";
        true, "watch", "customresourcedefinitions.apiextensions.k8s.io" => "";
        false, "patch", "customresourcedefinitions.apiextensions.k8s.io" => "";
        true, "get", "secrets" => "rukpak-system";
        true, "update", "secrets" => "rukpak-system";
        true, "delete", "secrets" => "rukpak-system";
        false, "patch", "secrets" => "rukpak-system";
        false, "get", "secrets" => "default";
        true, "delete", "configmaps" => "rukpak-system";
        true, "patch", "configmaps" => "rukpak-system";
        false, "update", "configmaps" => "rukpak-system";
        false, "get", "configmaps" => "default";
        true, "create", "clusteroperators.config.openshift.io" => "";
        true, "update", "clusteroperators/status.config.openshift.io" => "";
        false, "patch", "clusteroperators/status.config.openshift.io" => "";
        false, "patch", "clusterversions.config.openshift.io" => "";
        false, "patch", "bundles.core.rukpak.io" => "";
        false, "get", "bundles/status.core.rukpak.io" => "";
        false, "list", "leases.coordination.k8s.io" => "rukpak-system";
        true, "update", "leases.coordination.k8s.io" => "rukpak-system";
        false, "impersonate", "serviceaccounts" => "rukpak-system";
        false, "create", "deployments.apps" => "default";
        // CatalogSources get statuses and images; the only readable Deployment is that of OLM.
        true, "patch", "catalogsources.operators.coreos.com" => "openshift-marketplace";
        true, "patch", "catalogsources/status.operators.coreos.com" => "openshift-marketplace";
        false, "delete", "catalogsources.operators.coreos.com" => "openshift-marketplace";
        true, "watch", "nodes" => "";
        false, "patch", "nodes" => "";
        false, "watch", "deployments.apps" => "olm";
    ] {
        wait_permission(cluster, "modest", (allowed, verb, resource, namespace)).await;
    }
    let mut config = cluster.config().clone();
    config.auth_info.impersonate = Some("modest".to_owned());
    let deployments: Api<Deployment> = Api::all(Client::try_from(config).unwrap());
    let only = ListParams::default().fields("metadata.name=catalog-operator");
    deployments.list(&only).await.unwrap();
    let other = ListParams::default().fields("metadata.name=other");
    for params in [other, ListParams::default()] {
        deployments.list(&params).await.unwrap_err();
    }
}

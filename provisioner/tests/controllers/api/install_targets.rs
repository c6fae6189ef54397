//! The manifests for each kind of cluster, as the API server accepts them with only the CRDs of that cluster.

use super::*;
use crate::{
    openshift::{CLUSTER_OPERATOR, OPENSHIFT, definition_of},
    support::define,
};

const PROMETHEUS: &str = "github.com/prometheus-operator/prometheus-operator";

/// Applies a file or a directory. A warning is an error, because none is expected.
async fn apply(cluster: &Cluster, path: &str) {
    let path = manifests(path);
    let on_server = async |verb| {
        let line = format!("{verb} --server-side --warnings-as-errors --filename {path}");
        kubectl(cluster, &line.split(' ').collect::<Vec<_>>(), "").await
    };
    let applied = on_server("apply").await;
    assert!(applied.is_ok(), "{path}: {applied:?}");
    assert_eq!(on_server("diff").await, Ok(String::new()), "{path}");
}

async fn jsonpath(cluster: &Cluster, namespace: &str, object: &str, path: &str) -> String {
    let path = format!("jsonpath={path}");
    let arguments = ["--namespace", namespace, "get", object, "--output", &path];
    kubectl(cluster, &arguments, "").await.unwrap()
}

#[tokio::test]
async fn manifests_apply_without_warnings_on_each_cluster_kind() {
    let cluster = crate::support::without_controllers().await;
    for (module, file) in tests::rows![
        OPENSHIFT => CLUSTER_OPERATOR.1;
        OPENSHIFT => "config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_featuregates.crd.yaml";
        PROMETHEUS => "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml";
        PROMETHEUS => "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml";
    ] {
        define(&cluster, &definition_of(module, file)).await;
    }
    apply(&cluster, "install/rukpak.yaml").await;
    apply(&cluster, "install/monitoring.yaml").await;
    let user = "{.spec.template.spec.securityContext.runAsUser}";
    tests::assert_rows!(jsonpath(&cluster, "rukpak-system", "deployment/core", user).await => "65532");

    // An admin who has applied the wrong file applies the right one.
    for namespace in ["openshift-config", "openshift-marketplace"] {
        let arguments = ["create", "namespace", namespace];
        kubectl(&cluster, &arguments, "").await.unwrap();
    }
    apply(&cluster, "install/openshift.yaml").await;
    tests::assert_rows!(jsonpath(&cluster, "rukpak-system", "deployment/core", user).await => "");
    let label = "{.metadata.labels.openshift\\.io/cluster-monitoring}";
    tests::assert_rows!(jsonpath(&cluster, "rukpak-system", "namespace/rukpak-system", label).await => "true");

    apply(&cluster, "release").await;
    let operators = jsonpath(&cluster, "default", "clusteroperators", "{..metadata.name}").await;
    tests::assert_rows!(operators => "platform-operators-aggregated platform-operators-core");
    apply(&cluster, "day-0/feature-gate.yaml").await;
}

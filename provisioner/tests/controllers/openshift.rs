//! What is concluded about platform operators, with OpenShift's own definitions: ClusterVersion, ClusterOperator, and the
//! PlatformOperator of 4.12 to 4.16. They are read from the Go module that OpenShift publishes them in.

use std::{fs, path::PathBuf, process::Command};

use cluster::Lease;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use manifests::{
    api::{
        config::{ClusterOperator, ClusterOperatorStatus, ClusterVersion},
        labels,
        platform::{Kept, PlatformOperator},
    },
    openshift::Release,
    yaml,
};
use provisioner::platform::{
    aggregate::{self, AGGREGATED, CORE, Input},
    gate,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::support::{apply, merge, without_controllers};

const SYSTEM: &str = "rukpak-system";

/// A control plane with these definitions, by their files below the module's folder.
async fn openshift(definitions: &[(&str, &str)]) -> Lease {
    let cluster = without_controllers().await;
    for wanted in definitions {
        let definition = definition(*wanted);
        apply(&cluster, &definition).await;
        cluster.wait_established(wanted.0).await.unwrap();
    }
    cluster
}

/// A definition, by its name and its file below the module's folder.
pub(crate) fn definition((name, file): (&str, &str)) -> Value {
    let bytes = fs::read(module().join(file)).unwrap();
    let definition = yaml::documents(&bytes).next().unwrap().unwrap();
    assert_eq!(definition["metadata"]["name"], *name);
    definition
}

/// The folder of the module that has OpenShift's definitions.
pub(crate) fn module() -> PathBuf {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/cluster/openshift/definitions.sh"
    );
    let output = Command::new(script).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).unwrap().trim_end().into()
}

pub(crate) const CLUSTER_VERSION: (&str, &str) = (
    "clusterversions.config.openshift.io",
    "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml",
);
pub(crate) const CLUSTER_OPERATOR: (&str, &str) = (
    "clusteroperators.config.openshift.io",
    "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml",
);
pub(crate) const PLATFORM_OPERATOR: (&str, &str) = (
    "platformoperators.platform.openshift.io",
    "platform/v1alpha1/zz_generated.crd-manifests/platformoperators-TechPreviewNoUpgrade.crd.yaml",
);

async fn write_status<K>(api: &Api<K>, name: &str, status: &impl Serialize) -> K
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let body = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": name}, "status": status,
    });
    let params = PatchParams::apply("rukpak").force();
    api.patch_status(name, &params, &Patch::Apply(body))
        .await
        .unwrap()
}

/// The release as the cluster's version tells it.
async fn release(versions: &Api<ClusterVersion>, history: Value, desired: &str) -> gate::Cluster {
    let status = json!({
        "desired": {"version": desired, "image": ""}, "history": history, "observedGeneration": 1, "versionHash": "",
        "availableUpdates": null,
    });
    let version = write_status(versions, "version", &status).await;
    let cluster = version.status.unwrap().cluster();
    gate::Cluster::OpenShift(cluster.completed().map_err(str::to_owned))
}

pub(crate) fn entry(state: &str, version: &str) -> Value {
    json!({"state": state, "version": version, "image": "", "verified": true,
           "startedTime": "2026-01-01T00:00:00Z", "completionTime": null})
}

fn running(release: &str) -> gate::Cluster {
    gate::Cluster::OpenShift(Ok(Release::read(release).unwrap()))
}

// parity: max-11, platform-3
#[tokio::test]
async fn a_cluster_that_moves_closes_its_gate_and_its_operator_says_so() {
    let cluster = openshift(&[CLUSTER_VERSION, CLUSTER_OPERATOR]).await;
    let client = cluster.client().unwrap();
    let versions: Api<ClusterVersion> = Api::all(client.clone());
    let version = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "00000000-0000-0000-0000-000000000000"},
    });
    apply(&cluster, &version).await;
    let operators: Api<ClusterOperator> = Api::all(client);
    let made = ClusterOperator::new(AGGREGATED, manifests::api::config::ClusterOperatorSpec {});
    let made = operators
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    assert_eq!(made.status, None);

    let etcd = gate::Operator {
        namespace: "etcd-system".into(),
        name: "etcd".into(),
        maximum: Some("\"4.12\"".into()),
        ..gate::Operator::default()
    };
    let will_not =
        "The following operators will not run on the next OpenShift Version: etcd-system/etcd";
    let mut before: Option<ClusterOperatorStatus> = None;
    for (history, desired, expected, status, first) in tests::rows![
        json!([entry("Completed", "4.11.9")]), "4.11.9", running("4.11"), "True" => "Ready for upgrade";
        // On its way, and then there.
        json!([entry("Partial", "4.12.0"), entry("Completed", "4.11.9")]), "4.12.0", running("4.11"), "True"
            => "Ready for upgrade";
        json!([entry("Completed", "4.12.0"), entry("Completed", "4.11.9")]), "4.12.0", running("4.12"), "False" => will_not;
        // A patch changes nothing.
        json!([entry("Completed", "4.12.7")]), "4.12.7", running("4.12"), "False" => will_not;
    ] {
        let found = release(&versions, history, desired).await;
        assert_eq!(found, expected);
        let verdict = gate::judge(&found, [&etcd], &[]);
        let input = Input {
            operators: Ok(Vec::new()),
            instances: Vec::new(),
            is_installing: false,
            is_updating: false,
            gate: &verdict,
            catalog_maxima: [("etcd/etcd.v1@sha256:a".to_owned(), "4.12".to_owned())].into(),
            now: "2026-01-01T00:00:00.5Z".parse().unwrap(),
        };
        let output = aggregate::cluster_operator(before.as_ref(), &input, SYSTEM, Some(desired));
        let stored = write_status(&operators, AGGREGATED, &output.status).await;
        let kept = stored.status.unwrap();
        assert_eq!(kept, output.status, "the definition has dropped something");
        let again = aggregate::cluster_operator(Some(&kept), &input, SYSTEM, Some(desired));
        assert_eq!(again.status, kept);
        let upgradeable = kept
            .conditions
            .iter()
            .find(|it| it.type_ == "Upgradeable")
            .unwrap();
        assert_eq!(upgradeable.status, status);
        let message = upgradeable.message.as_deref().unwrap();
        assert_eq!(message.lines().next(), Some(first));
        before = Some(kept);
    }
    let core = aggregate::core(
        None,
        Ok(()),
        SYSTEM,
        None,
        "2026-01-01T00:00:00Z".parse().unwrap(),
    );
    let made = ClusterOperator::new(CORE, manifests::api::config::ClusterOperatorSpec {});
    operators
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    let stored = write_status(&operators, CORE, &core.status).await;
    assert_eq!(stored.status.unwrap(), core.status);
}

// parity: openshift-24
#[tokio::test]
async fn openshifts_own_platform_operator_keeps_what_is_needed() {
    let cluster = openshift(&[PLATFORM_OPERATOR]).await;
    let operators: Api<PlatformOperator> = Api::all(cluster.client().unwrap());
    let operator = |name: &str, package: &str| -> PlatformOperator {
        serde_json::from_value(json!({
            "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "metadata": {"name": name},
            "spec": {"package": {"name": package}, "channel": "stable"},
        }))
        .unwrap()
    };
    let create = |operator| {
        let operators = operators.clone();
        async move {
            operators
                .create(&PostParams::default(), &operator)
                .await
                .unwrap()
        }
    };
    // It takes what can be no package, and we tell.
    let odd = create(operator("odd", "Foo_Bar!")).await;
    assert!(
        odd.check()
            .unwrap_err()
            .to_string()
            .contains("spec.package.name \"Foo_Bar!\"")
    );
    let long = create(operator(&"l".repeat(60), "etcd")).await;
    assert!(
        long.check()
            .unwrap_err()
            .to_string()
            .contains("has more than 45 characters")
    );

    let made = create(operator("etcd", "etcd")).await;
    assert_eq!(made.check(), Ok(()));
    assert_eq!(
        made.spec.channel, None,
        "it is known by now; the docs say otherwise"
    );
    let status = json!({
        "conditions": [{"type": "Installed", "status": "True", "reason": "InstallSuccessful", "message": "m",
                        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}],
        "activeBundleInstance": {"name": "etcd"}, "activeBundleDeployment": {"name": "etcd"},
        "clusterMinor": "4.12", "packageMinor": "1.2",
    });
    // Who writes all of the status gets along with a definition that drops most of it.
    let params = PatchParams {
        field_validation: Some(kube::api::ValidationDirective::Ignore),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"status": status}));
    let stored = operators
        .patch_status("etcd", &params, &patch)
        .await
        .unwrap();
    assert_eq!(stored.active_instance(), Some("etcd"));
    assert_eq!(stored.status.as_ref().unwrap().conditions.len(), 1);
    assert_eq!(stored.status.as_ref().unwrap().cluster_minor, None);
    assert_eq!(stored.kept(), None);
    // What an approval rests on has another home.
    let kept: Kept = "4.12 1.2".parse().unwrap();
    let patch = json!({"metadata": {"annotations": {labels::KEPT_MINORS: kept.to_string()}}});
    let stored = merge(&operators, "etcd", &patch).await;
    assert_eq!(stored.kept(), Some(kept));
    assert_eq!(stored.name_any(), "etcd");
}

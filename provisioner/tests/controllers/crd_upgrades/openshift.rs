//! maxOpenShiftVersion and minKubeVersion against a cluster that reports an OpenShift version, with OpenShift's CRD of
//! ClusterVersion. It would affect every bundle of other tests, so these tests have a separate control plane. The tests
//! of `provisioner::cluster::versions` cover rejections and overrides.

use apply::preflight::{Check, Findings};
use convert::bundle_info::BundleInfo;
use kube::Client;
use manifests::{
    api::bundle_instance::{CheckMode, Preflight},
    openshift::{MaxOpenShiftVersion, Spelling},
};
use provisioner::cluster::{
    overrides::ContentDigests,
    versions::{self, Candidate, Versions},
};
use tests::assert_has;

use crate::cluster_operator::{history, version};
use crate::openshift::CLUSTER_VERSION;
use crate::support::{apply, define, image, instance, without_controllers};

async fn check(client: &Client, facts: &BundleInfo, cluster_version: CheckMode) -> Findings {
    let mut instance = instance("sky", "plain", image("registry.example/a:1"));
    instance.spec.preflight = Some(tests::with!(Preflight, cluster_version));
    let candidate = Candidate {
        instance: &instance,
        digests: ContentDigests::new(None, None),
        facts,
    };
    let versions = Versions::new(client.clone(), None);
    versions::check(&candidate, &versions).await.unwrap()
}

/// Checks that a bundle has this problem, or none, and that the check reports none if enforcement is off.
async fn is_refused(client: &Client, facts: &BundleInfo, problem: Option<&str>) {
    let findings = check(client, facts, CheckMode::Enforce).await;
    let Some(problem) = problem else {
        assert_eq!(findings, Findings::default());
        return;
    };
    let [found] = &findings.problems[..] else {
        panic!("{findings:?}");
    };
    assert_eq!(found.check, Check::ClusterVersion);
    assert!(found.message.starts_with(problem), "{found:?}");
    let findings = check(client, facts, CheckMode::Off).await;
    assert_eq!(findings, Findings::default());
}

fn facts(minor: u64) -> BundleInfo {
    let newest = MaxOpenShiftVersion::new(&format!("4.{minor}"), Spelling::BundleProperties);
    tests::with!(BundleInfo, name: "etcd.v1".into(), max_open_shift_version: Some(newest))
}

// parity: max-3, max-12, max-16, convert-19
#[tokio::test]
async fn bundles_are_held_back_by_the_versions_of_the_cluster() {
    let cluster = without_controllers().await;
    let client = cluster.client().unwrap();
    let versions = Versions::new(client.clone(), None);
    let running = versions.kubernetes_release().await.unwrap();
    let newer = format!("1.{}.0", running.minor + 1);
    let problem = format!("etcd.v1 requires Kubernetes >= {newer} but the cluster is {running};");
    let newer = tests::with!(facts(12) => min_kube_version: Some(newer));
    is_refused(&client, &newer, Some(&problem)).await;

    // Plain Kubernetes.
    is_refused(&client, &facts(12), None).await;
    let versions = Versions::new(client.clone(), Some("4.13.0".into()));
    assert_eq!(versions.openshift().await.unwrap(), None);

    let crd = crate::openshift::crd(CLUSTER_VERSION);
    define(&cluster, &crd).await;
    // A missing API is not requested each time.
    assert_eq!(versions.openshift().await.unwrap(), None);
    // An OpenShift cluster that does not know its version yet.
    let findings = check(&client, &facts(12), CheckMode::Enforce).await;
    assert_eq!(findings.problems, []);
    let warning = &findings.warnings[0].message;
    assert_has(warning, "the ClusterVersion has no version");

    apply(&cluster, &version()).await;
    for (entries, newest, problem) in tests::rows![
        &["Completed 4.12.7"][..], 12 => None;
        &["Partial 4.13.0", "Completed 4.12.7"], 12
            => Some("etcd.v1 requires OpenShift <= 4.12 but the cluster is 4.12, being upgraded to 4.13");
        &["Completed 4.13.2"], 12 => Some("etcd.v1 requires OpenShift <= 4.12 but the cluster is 4.13");
    ] {
        history(&cluster, entries).await;
        is_refused(&client, &facts(newest), problem).await;
    }
}

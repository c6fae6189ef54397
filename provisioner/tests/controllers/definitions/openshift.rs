//! maxOpenShiftVersion and minKubeVersion against a cluster that says of itself that it is an OpenShift, by OpenShift's own
//! definition of ClusterVersion. It would make every bundle of other tests ask, so there is a control plane for this alone.

use apply::preflight::{Check, Findings};
use convert::facts::Facts;
use kube::Client;
use manifests::{
    api::instance::{
        BundleInstance, BundleInstanceSpec, Constraint, Enforcement, Override, Preflight,
    },
    openshift::{MaxOpenShiftVersion, Release, Spelling},
};

use provisioner::{
    overrides::Digests,
    versions::{self, Candidate, Versions},
};
use serde_json::json;

use crate::support::apply;
use crate::{
    aggregator::{history, version},
    openshift::CLUSTER_VERSION,
};

/// The digest of the content that is installed.
const CONTENT: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

async fn check(client: &Client, facts: &Facts, cluster_version: Enforcement) -> Findings {
    check_with(client, facts, cluster_version, &[]).await
}

/// With constraints that do not count for these contents.
async fn check_with(
    client: &Client,
    facts: &Facts,
    cluster_version: Enforcement,
    overridden: &[(Constraint, &str)],
) -> Findings {
    let overrides = overridden.iter().map(|(constraint, digest)| Override {
        constraint: *constraint,
        digest: (*digest).to_owned(),
        reason: "tested".into(),
    });
    let spec = BundleInstanceSpec {
        preflight: Some(Preflight {
            cluster_version,
            ..Preflight::default()
        }),
        overrides: overrides.collect(),
        ..serde_json::from_value(json!({
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"spec": {"source": {"type": "image", "image": {"ref": "registry.example/a:1"}}}},
        }))
        .unwrap()
    };
    let candidate = Candidate {
        instance: &BundleInstance::new("sky", spec),
        digests: Digests::new(Some(CONTENT), None),
        facts,
    };
    let versions = Versions::new(client.clone(), None);
    versions::check(&candidate, &versions).await.unwrap()
}

fn facts(minor: u64) -> Facts {
    Facts {
        name: "etcd.v1".into(),
        max_open_shift_version: Some(MaxOpenShiftVersion::new(
            &format!("4.{minor}"),
            Spelling::BundleProperties,
        )),
        ..Facts::default()
    }
}

// parity: max-3, max-12, max-16, convert-19
#[tokio::test]
async fn bundles_are_held_back_by_the_versions_of_the_cluster() {
    let cluster = crate::support::without_controllers().await;
    let client = cluster.client().unwrap();
    newer_kubernetes_is_required(&client).await;

    // Plain Kubernetes.
    assert_eq!(
        check(&client, &facts(12), Enforcement::Enforce).await,
        Findings::default()
    );
    let versions = Versions::new(client.clone(), Some("4.13.0".into()));
    assert_eq!(versions.openshift().await.unwrap(), None);

    let definition = crate::openshift::definition(CLUSTER_VERSION);
    apply(&cluster, &definition).await;
    cluster.wait_established(CLUSTER_VERSION.0).await.unwrap();
    // What is not there is not asked for anew each time.
    assert_eq!(versions.openshift().await.unwrap(), None);
    // An OpenShift that does not know its version yet.
    let findings = check(&client, &facts(12), Enforcement::Enforce).await;
    assert_eq!(findings.problems, []);
    assert!(
        findings.warnings[0]
            .message
            .contains("the ClusterVersion names no version"),
        "{findings:?}"
    );

    apply(&cluster, &version()).await;
    for (entries, newest, problem) in tests::rows![
        &["Completed 4.12.7"][..], 12 => None;
        &["Completed 4.12.7"], 13 => None;
        &["Partial 4.13.0", "Completed 4.12.7"], 12
            => Some("etcd.v1 requires OpenShift <= 4.12 but the cluster is 4.12, on its way to 4.13");
        &["Completed 4.13.2"], 12 => Some("etcd.v1 requires OpenShift <= 4.12 but the cluster is 4.13");
    ] {
        history(&cluster, entries).await;
        let findings = check(&client, &facts(newest), Enforcement::Enforce).await;
        let found: Vec<_> = findings
            .problems
            .iter()
            .map(|p| (p.check, p.message.as_str()))
            .collect();
        match problem {
            None => assert_eq!(found, []),
            Some(problem) => {
                assert_eq!(found.len(), 1);
                assert_eq!(found[0].0, Check::ClusterVersion);
                assert!(found[0].1.starts_with(problem), "{found:?}");
            }
        }
        assert_eq!(
            check(&client, &facts(newest), Enforcement::Off).await,
            Findings::default()
        );
        // An override is about one constraint and one content.
        let (max, min) = (Constraint::MaxOpenShiftVersion, Constraint::MinKubeVersion);
        let other = CONTENT.replace('1', "2");
        for (overridden, counts) in [
            ((max, CONTENT), false),
            ((max, other.as_str()), true),
            ((min, CONTENT), true),
        ] {
            let findings =
                check_with(&client, &facts(newest), Enforcement::Enforce, &[overridden]).await;
            let refused = problem.is_some();
            assert_eq!(findings.problems.len(), usize::from(refused && counts));
            assert_eq!(findings.warnings.len(), usize::from(refused && !counts));
        }
        // Most bundles claim nothing.
        assert_eq!(
            check(&client, &Facts::default(), Enforcement::Enforce).await,
            Findings::default()
        );
    }

    // What the payload says of itself is no update that is complete.
    for (release, running) in [("4.14.0", 13), ("0.0.1-snapshot", 13)] {
        let versions = Versions::new(client.clone(), Some(release.into()));
        let found = versions.openshift().await.unwrap().unwrap();
        assert_eq!(
            found.running,
            Some(Release {
                major: 4,
                minor: running
            })
        );
    }
}

/// A bundle that needs a newer Kubernetes is refused.
async fn newer_kubernetes_is_required(client: &Client) {
    let versions = Versions::new(client.clone(), None);
    let running = versions.kubernetes_release().await.unwrap();
    assert_eq!(versions.kubernetes().await.unwrap().minor, running.minor);
    let needs = |min: String| Facts {
        name: "etcd.v1".into(),
        min_kube_version: Some(min),
        ..Facts::default()
    };
    for (min, problem) in tests::rows![
        running.to_string() => None;
        format!("1.{}.0", running.minor + 1)
            => Some(format!("etcd.v1 requires Kubernetes >= 1.{}.0 but the cluster is {running};", running.minor + 1));
    ] {
        let facts = needs(min);
        let findings = check(client, &facts, Enforcement::Enforce).await;
        match problem {
            None => assert_eq!(findings, Findings::default()),
            Some(problem) => assert!(
                findings.problems[0].message.starts_with(&problem),
                "{findings:?}"
            ),
        }
        assert_eq!(
            check(client, &facts, Enforcement::Off).await,
            Findings::default()
        );
    }
}

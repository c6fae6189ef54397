//! Upgrades along single edges, and their approval.

use cluster::fake_node::FATE;
use kube::ResourceExt as _;
use manifests::api::{bundle_instance::BundleInstance, labels};
use serde_json::{Value, json};

use super::kubernetes::packages_follow_the_apiserver;
use super::support::{Platform, bundle, packages};
use crate::support::{account, operator, wait_for};

const LINE: [&str; 3] = ["1.0.0", "1.0.1", "1.0.2"];

// parity: platform-2
#[tokio::test]
async fn upgrades_follow_single_edges_up_to_the_approved_version() {
    let platform = Platform::new().await;
    let tide = platform.bundles("tide", &LINE).await;
    let surf = platform.bundles("surf", &["1.0.0", "1.1.0", "2.0.0"]).await;
    let moon = platform.bundles("moon", &["1.0.0", "1.1.0", "2.0.0"]).await;
    let mut sand = platform.bundles("sand", &["1.0.0"]).await;
    sand.push(bundle_with_more_permissions(&platform, "sand", "1.0.1").await);
    let mut reef = platform.bundles("reef", &["1.0.0"]).await;
    reef.push(bundle("reef", "1.0.1", "127.0.0.1:1/reef:none"));
    let all: [(&str, &[Value]); 5] = tests::rows![
        "tide" => &tide;
        "surf" => &surf;
        "moon" => &moon;
        "sand" => &sand;
        "reef" => &reef;
    ];
    let first = all.map(|(name, bundles)| (name, &bundles[..1]));
    let server = platform.serve_mine(&packages(&first)).await;
    for (name, mut spec) in tests::rows![
        "tide" => json!({});
        "surf" => json!({"upgradeApproval": "Automatic"});
        "moon" => json!({"upgradeApproval": "Manual"});
        "sand" => json!({"approveNewRights": "Manual"});
        "reef" => json!({"approveNewRights": "Manual"});
    ] {
        spec["package"] = json!({"name": name});
        platform.want(spec).await;
    }
    let _provisioner = platform.start().await;
    for (name, _) in all {
        platform.has(name, "1.0.0").await;
    }

    // An unhealthy bundle blocks the next upgrade.
    let fate = json!({"spec": {"config": {"deploymentConfig": {"annotations": {FATE: "fails"}}}}});
    platform.patch::<BundleInstance>("tide", fate).await;
    platform.is_healthy("tide", "False").await;
    let server = server.replaced(&packages(&all)).await;
    platform.waits("tide", "1.0.1", "not healthy yet").await;
    platform.has("surf", "2.0.0").await;
    assert_eq!(platform.choices("surf").await, ["1.0.0", "1.1.0", "2.0.0"]);
    assert_eq!(platform.choices("tide").await, ["1.0.0"]);
    let fate = json!({"spec": {"config": null}});
    platform.patch::<BundleInstance>("tide", fate).await;
    platform.has("tide", "1.0.2").await;
    assert_eq!(platform.choices("tide").await, LINE);

    // Manual upgrades stop at the approved version, and pass through the versions in between.
    let remedy = "set spec.approvedVersion: 1.1.0";
    platform.waits("moon", "1.1.0", remedy).await;
    let approve = |version: &str| json!({"spec": {"approvedVersion": version}});
    platform.edit("moon", approve("1.1.0")).await;
    platform.has("moon", "1.1.0").await;
    let newer = "is newer than spec.approvedVersion 1.1.0";
    platform.waits("moon", "2.0.0", newer).await;
    platform.edit("moon", approve("2.0.0")).await;
    platform.has("moon", "2.0.0").await;
    assert_eq!(platform.choices("moon").await, ["1.0.0", "1.1.0", "2.0.0"]);

    new_rights_wait_for_their_digest(&platform).await;
    unreadable_candidate_is_not_installed(&platform).await;
    packages_follow_the_apiserver(&platform, server, &all).await;
}

async fn new_rights_wait_for_their_digest(platform: &Platform) {
    let gains = "requests new permissions that are not approved";
    let status = platform.waits("sand", "1.0.1", gains).await;
    let permissions = status.new_rights.unwrap();
    let rules = permissions.rules.join("\n");
    assert!(rules.contains("secrets"), "{rules}");
    let patch = |digest: &str| json!({"spec": {"approvedRights": digest}});
    let other = format!("sha256:{}", "0".repeat(64));
    platform.edit("sand", patch(&other)).await;
    let others = "that differ from those in spec.approvedRights";
    platform.waits("sand", "1.0.1", others).await;
    assert_eq!(platform.choices("sand").await, ["1.0.0"]);
    platform.edit("sand", patch(&permissions.digest)).await;
    platform.has("sand", "1.0.1").await;
    wait_for(platform.operators(), "sand", "at rest", |operator| {
        let status = operator.status.as_ref()?;
        (status.new_rights.is_none() && status.next_available.is_none()).then_some(())
    })
    .await;

    // The status records the choice and its reasons. The annotation of the instance records the choice as well.
    let sand = platform.operators().get("sand").await.unwrap();
    let chosen = sand.status.unwrap().chosen_bundle.unwrap();
    assert_eq!(
        (chosen.name.as_str(), chosen.catalog.as_str()),
        ("sand.v1.0.1", "catalogs/mine")
    );
    let why = chosen.why.join("\n");
    assert!(why.contains("its new permissions are approved"), "{why}");
    let sand = platform.instances().get("sand").await.unwrap();
    assert!(sand.annotations()[labels::CHOSEN_BUNDLE].contains("sand.v1.0.1"));
}

/// The installed bundle stays in its desired state while the candidate cannot be read.
async fn unreadable_candidate_is_not_installed(platform: &Platform) {
    let unknown = "cannot determine the permissions of 127.0.0.1:1/reef:none: ";
    platform.succeeds("reef", unknown).await;
    let patch = json!({"metadata": {"labels": {labels::PLATFORM_OPERATOR: null}}});
    platform.patch::<BundleInstance>("reef", patch).await;
    wait_for(platform.instances(), "reef", "labeled again", |instance| {
        instance.labels().get(labels::PLATFORM_OPERATOR).map(drop)
    })
    .await;
    assert_eq!(platform.choices("reef").await, ["1.0.0"]);
}

/// Returns a bundle with permission to read Secrets.
async fn bundle_with_more_permissions(platform: &Platform, name: &str, version: &str) -> Value {
    let api = "rbac.authorization.k8s.io";
    let (version_of_api, more) = (format!("{api}/v1"), format!("{name}-more"));
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let role = json!({"apiVersion": version_of_api, "kind": "ClusterRole", "metadata": {"name": more}, "rules": rules});
    let binding = json!({
        "apiVersion": version_of_api, "kind": "ClusterRoleBinding", "metadata": {"name": more},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": more},
        "subjects": [account(&format!("{name}-system"), &format!("{name}-operator"))],
    });
    let files = tests::rows![
        "manifests/role.yaml" => role;
        "manifests/binding.yaml" => binding;
    ];
    let content = operator(name, version, &files);
    let image = platform.push(&format!("{name}:v{version}"), &content).await;
    bundle(name, version, &image)
}

//! Upgrades along single edges, and their approval.

use super::support::{Platform, packages};
use super::*;

const LINE: [&str; 3] = ["1.0.0", "1.0.1", "1.0.2"];

// parity: platform-2
#[tokio::test]
async fn upgrades_follow_single_edges_up_to_the_approved_version() {
    let platform = Platform::new().await;
    let tide = platform.bundles("tide", &LINE).await;
    let surf = platform.bundles("surf", &["1.0.0", "1.1.0", "2.0.0"]).await;
    let mut sand = platform.bundles("sand", &["1.0.0"]).await;
    let reads_secrets = |csv: &mut Value| {
        let permissions = &mut csv["spec"]["install"]["spec"]["clusterPermissions"][0];
        let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
        permissions["rules"].as_array_mut().unwrap().push(rule);
    };
    let more = platform.push_changed("sand", "1.0.1", reads_secrets);
    sand.push(more.await);
    let mut dune = platform.bundles("dune", &["1.0.0"]).await;
    let suggested = json!({"operatorframework.io/suggested-namespace": "elsewhere"});
    let moved = |csv: &mut Value| csv["metadata"]["annotations"] = suggested;
    dune.push(platform.push_changed("dune", "1.0.1", moved).await);
    let all: [(&str, &[Value]); 4] = tests::rows![
        "tide" => &tide;
        "surf" => &surf;
        "sand" => &sand;
        "dune" => &dune;
    ];
    let first = all.map(|(name, bundles)| (name, &bundles[..1]));
    let server = platform.serve_mine(&packages(&first)).await;
    for spec in [
        json!({"package": {"name": "tide"}}),
        json!({"package": {"name": "surf"}, "upgradeApproval": "Manual"}),
        json!({"package": {"name": "sand"}, "approveNewRights": "Manual"}),
        json!({"package": {"name": "dune"}, "approveNewRights": "Manual"}),
    ] {
        platform.declare(spec).await;
    }
    let _provisioner = platform.start().await;
    for (name, _) in all {
        platform.has(name, "1.0.0").await;
    }

    let server = server.replaced(&packages(&all)).await;
    // Manual upgrades stop at the approved version, and pass through the versions in between.
    let remedy = "set spec.approvedVersion: 1.1.0";
    platform.waits("surf", "1.1.0", remedy).await;
    let approve = |version: &str| json!({"spec": {"approvedVersion": version}});
    platform.edit("surf", approve("1.1.0")).await;
    let newer = "is newer than spec.approvedVersion 1.1.0";
    platform.waits("surf", "2.0.0", newer).await;
    platform.edit("surf", approve("2.0.0")).await;
    platform.has("surf", "2.0.0").await;
    platform
        .has_chosen("surf", &["1.0.0", "1.1.0", "2.0.0"])
        .await;
    platform.has("tide", "1.0.2").await;
    platform.has_chosen("tide", &LINE).await;

    let gains = "requests new permissions that are not approved";
    // The same permissions in another namespace are new.
    let status = platform.waits("dune", "1.0.1", gains).await;
    let rules = status.new_rights.unwrap().rules.join("\n");
    tests::assert_has(rules, "ServiceAccount elsewhere/dune-operator");
    assert_eq!(platform.choices("dune").await, ["1.0.0"]);

    let status = platform.waits("sand", "1.0.1", gains).await;
    let permissions = status.new_rights.unwrap();
    tests::assert_has(permissions.rules.join("\n"), "secrets");
    let patch = |digest: &str| json!({"spec": {"approvedRights": digest}});
    let other = format!("sha256:{}", "0".repeat(64));
    platform.edit("sand", patch(&other)).await;
    let others = "that differ from those in spec.approvedRights";
    platform.waits("sand", "1.0.1", others).await;
    assert_eq!(platform.choices("sand").await, ["1.0.0"]);
    platform.edit("sand", patch(&permissions.digest)).await;
    platform.has("sand", "1.0.1").await;
    let at_rest = json!({"status": {"newRights": null, "nextAvailable": null}});
    wait_part(platform.operators(), "sand", at_rest).await;

    // The status records the reasons of the choice.
    let sand = platform.operators().get("sand").await.unwrap();
    let why = sand.status.unwrap().chosen_bundle.unwrap().why.join("\n");
    tests::assert_has(why, "its new permissions are approved");

    // One more package follows the API server of a cluster without OpenShift.
    let wave = platform.bundles("wave", &["1.0.0", "1.1.0"]).await;
    let with = |versions: usize| packages(&[&all[..], &[("wave", &wave[..versions])]].concat());
    let server = server.replaced(&with(1)).await;
    platform.declare(json!({"package": {"name": "wave"}})).await;
    platform.has("wave", "1.0.0").await;
    platform.has_minors("wave", "1.36 1.0").await;
    let _server = server.replaced(&with(2)).await;
    let part = "is installed when the cluster is upgraded to a new minor version after 1.36";
    platform.waits("wave", "1.1.0", part).await;
    let upgraded = platform.world.cluster.upgrade_apiserver("v1.37.0").await;
    upgraded.unwrap();
    platform.has("wave", "1.1.0").await;
    platform.has_minors("wave", "1.37 1.1").await;
}

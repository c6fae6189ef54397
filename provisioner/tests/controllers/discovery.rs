//! Discovery of kinds at a real API server.

use apply::discovery::Discovery;
use kube::core::GroupVersionKind;

use crate::support::world;

#[tokio::test]
async fn kinds_are_found_with_their_scope_and_absent_ones_are_none() {
    let kinds = Discovery::new(world().await.client());
    let rows = tests::rows![
        "", "v1", "Namespace" => Some(("namespaces", false));
        "", "v1", "Secret" => Some(("secrets", true));
        "apps", "v1", "Deployment" => Some(("deployments", true));
        "apps", "v1", "Scale" => None;
        "apps", "v1beta1", "Deployment" => None;
        "", "v1", "Nothing" => None;
        "none.example.com", "v1", "Nothing" => None;
        "../api", "v1", "Secret" => None;
        "apps", "v1/deployments", "Deployment" => None;
        "", "", "" => None;
    ];
    let gvks = rows.map(|(group, version, kind, _)| GroupVersionKind::gvk(group, version, kind));
    // The second lookup needs no request.
    for _ in 0..2 {
        let found = kinds.find(gvks.clone()).await.unwrap();
        for (kind, (.., expected)) in gvks.iter().zip(rows) {
            let result = found[kind].as_ref();
            tests::assert_rows!(result.map(|kind| (kind.resource.plural.as_str(), kind.namespaced)) => expected, "{kind:?}");
        }
    }

    // Lookups of groups that are not served return at once.
    let many = (0..5000).map(|n| GroupVersionKind::gvk(&format!("g{n}.example.com"), "v1", "A"));
    let start = std::time::Instant::now();
    let found = kinds.find(many).await.unwrap();
    assert_eq!(found.values().flatten().count(), 0);
    assert_eq!(found.len(), 5000);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());

    // A kind of a removed version is found in another version.
    let old = GroupVersionKind::gvk("policy", "v1beta1", "PodDisruptionBudget");
    tests::assert_rows!(kinds.find_any(old).await.unwrap().unwrap().resource.api_version => "policy/v1");
    tests::assert_rows!(kinds.find_any(GroupVersionKind::gvk("policy", "v1beta1", "Nothing")).await.unwrap() => None);
}

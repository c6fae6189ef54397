//! The progress of a rollout in `rukpak status`.

use apply::revision::ObjectHash;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams};

use super::*;

pub(super) async fn status_counts_the_applied_objects(cluster: &Cluster) {
    let instance = create(cluster, "flood").await;
    let status = || cluster.ok("status flood -o json").json();
    assert_eq!(status()["phase"], "Reconciling");

    let objects = [config_map("a", "one"), config_map("b", "two")];
    let owner = owner(&instance);
    let record = encoded(1, &owner.uid, &objects);
    write_record(cluster, &instance, 1, &record).await;
    let condition = |facts| condition(Some(1), facts);
    let rolling_out = json!({
        "observedGeneration": 1, "progressingSince": Timestamp::now().to_string(),
        "revisions": [entry(1, "RollingOut", &record)], "inventory": {"count": 2, "kinds": []},
        "conditions": [
            condition(["Progressing", "True", "Applying"]), condition(["Ready", "Unknown", "Applying"]),
            condition(["Reconciling", "True", "Progressing"]),
        ],
    });
    write_status(cluster, "flood", rolling_out).await;
    tests::assert_runs! { cluster;
        "status flood" => 0, [
            "BundleInstance flood: Reconciling, applying", "rollout of revision 1: 0 of 2 objects applied",
            "awaited: ConfigMap a\n", "until the progress deadline\n"
        ];
    }
    // The status lists no object, but the record has both.
    let found = cluster.ok("status flood --all -o json").json();
    let names = [0_usize, 1, 2].map(|at| &found["objects"][at]["name"]);
    assert_eq!(json!(names), json!(["a", "b", null]), "{found}");

    let hash = ObjectHash::new(&objects[0]).to_string();
    apply_owned(cluster, &owner, &objects[0], &hash).await;
    let rollout = &status()["rollout"];
    let fields = ["revision", "applied", "objects", "awaited"].map(|field| &rollout[field]);
    assert_eq!(json!(fields), json!([1, 1, 2, "ConfigMap b"]));
    let left = rollout["secondsLeft"].as_u64();
    assert!(left.is_some_and(|left| left <= 600), "{left:?}");

    // Without the record, the number of applied objects is not known.
    let secrets: Api<Secret> = Api::namespaced(cluster.client().unwrap(), SYSTEM_NAMESPACE);
    let (delete, list) = (DeleteParams::default(), ListParams::default());
    secrets.delete_collection(&delete, &list).await.unwrap();
    tests::assert_runs! { cluster;
        "status flood" => 0, ["rollout of revision 1: 2 objects\n"];
        "status flood --all" => 1, _, "failed to read the objects of BundleInstance flood that its status does not list: \
            Secret rukpak-system/flood-r1-1 of revision 1 not found";
    }
}

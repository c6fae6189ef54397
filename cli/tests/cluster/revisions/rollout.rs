//! The progress of a rollout in `rukpak status`.

use apply::revision::ObjectHash;
use k8s_openapi::{api::core::v1::ConfigMap, jiff::Timestamp};

use super::*;

pub(super) async fn status_counts_the_applied_objects(cluster: &Cluster) {
    let instance = create(cluster, "flood").await;
    let phase = || run(cluster, "status flood -o json").exits(0).json()["phase"].clone();
    assert_eq!(phase(), "Reconciling");

    let objects = [config_map("a", "one"), config_map("b", "two")];
    let record = encoded(1, &instance.uid().unwrap(), &objects);
    write_record(cluster, &instance, 1, &record).await;
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": "applying 2 objects", "observedGeneration": 1,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status = json!({
        "observedGeneration": 1,
        "progressingSince": Timestamp::now().to_string(),
        "revisions": [entry(1, "RollingOut", &record)],
        "inventory": {"count": 2, "kinds": []},
        "conditions": [
            condition("Progressing", "True", "Applying"), condition("Ready", "Unknown", "Applying"),
            condition("Reconciling", "True", "Progressing"),
        ],
    });
    write_status(cluster, "flood", status).await;
    let found = run(cluster, "status flood").exits(0).out;
    for part in [
        "BundleInstance flood: Reconciling, applying",
        "rollout of revision 1: 0 of 2 objects applied",
        "awaited: ConfigMap a\n",
        "until the progress deadline\n",
    ] {
        assert!(found.contains(part), "{part}: {found}");
    }
    // The status lists no object, but the record has both.
    let found = run(cluster, "status flood --all -o json").exits(0).json();
    let objects_of = found["objects"].as_array().unwrap().iter();
    let names: Vec<_> = objects_of.map(|object| object["name"].clone()).collect();
    assert_eq!(names, [json!("a"), json!("b")], "{found}");

    let owner = Owner {
        name: "flood".to_owned(),
        uid: instance.uid().unwrap(),
    };
    let mut applied = objects[0].clone();
    let hash = ObjectHash::new(&applied).to_string();
    decorate::place(&mut applied, true, "default");
    decorate::own(&mut applied, &owner);
    decorate::record_hash(&mut applied, &hash);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().unwrap(), "default");
    let params = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(applied.value());
    maps.patch("a", &params, &patch).await.unwrap();
    let found = run(cluster, "status flood -o json").exits(0).json();
    let rollout = &found["rollout"];
    assert_eq!(
        [
            &rollout["revision"],
            &rollout["applied"],
            &rollout["objects"]
        ],
        [&json!(1), &json!(1), &json!(2)]
    );
    assert_eq!(rollout["awaited"], "ConfigMap b");
    assert!(
        rollout["secondsLeft"]
            .as_u64()
            .is_some_and(|left| left <= 600)
    );

    // Without the record, the number of applied objects is not known.
    let secrets: Api<Secret> = Api::namespaced(cluster.client().unwrap(), SYSTEM_NAMESPACE);
    for secret in secrets
        .list(&kube::api::ListParams::default())
        .await
        .unwrap()
    {
        let params = kube::api::DeleteParams::default();
        secrets.delete(&secret.name_any(), &params).await.unwrap();
    }
    let found = run(cluster, "status flood").exits(0).out;
    assert!(
        found.contains("rollout of revision 1: 2 objects\n"),
        "{found}"
    );
    run(cluster, "status flood --all").exits(1).err_has(
        "failed to read the objects of BundleInstance flood that its status does not list: Secret rukpak-system/flood-r1-1 of \
         revision 1 not found",
    );
}

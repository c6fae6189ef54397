//! Rollbacks to an earlier revision: only after failures of the rollout, and without loss of custom resources.

use manifests::api::bundle_instance::RemovedApi;

use super::*;
use crate::support::storage;

fn stalled(generation: i64) -> Value {
    json!({"observedGeneration": generation,
        "conditions": [{"type": "Stalled", "status": "True", "reason": "Broken", "message": "broken"}]})
}

impl Fixture<'_> {
    async fn install_with_rollback(&self, objects: &[Value], deadline: Option<i64>) {
        let mut declared = self.declare(objects).await;
        declared.spec.rollback = Rollback::OnFailure;
        declared.spec.progress_deadline_seconds = deadline;
        self.create(declared).await;
    }

    async fn is_not_given_up(&self, time: Duration) {
        observe(time, async || {
            let failed = self.read().await.status.unwrap().failed_template_hash;
            let installed = self.condition("Installed").await;
            assert!(failed.is_none(), "{failed:?}: {installed:?}");
            assert_ne!(installed.0, "RolledBack", "{installed:?}");
        })
        .await;
    }
}

/// Returns a Widget that no upgrade changes, its CRD, and a ConfigMap with a text.
fn with_broken_widget(fixture: &Fixture<'_>, text: &str) -> [Value; 3] {
    let map = fixture.map("changed", text);
    [fixture.widget_crd(), fixture.widget("broken", 1), map]
}

// `rollback: OnFailure` counts only failures of objects that the rollout changed, or that began after the rollout started,
// also after a restart.
#[tokio::test]
async fn only_later_failure_causes_a_rollback_after_a_restart() {
    let (cluster, _audit, _lease) = empty().await;
    let store = storage();
    let options = tests::with!(Options, storage: Some(store.path().to_owned()));
    let provisioner = Provisioner::start(cluster, options.clone()).await;
    let world = World::bare(cluster);
    let earlier = Fixture::new(&world, "restarted").await;
    let later = Fixture::new(&world, "later").await;
    let first = with_broken_widget(&earlier, "1");
    earlier.install_with_rollback(&first, None).await;
    earlier.observe("broken", stalled(1)).await;
    earlier.wait("Healthy", "False").await;
    // No operator observes generation 2 of this Widget, so that the rollout continues.
    let operand = |size| later.widget("operand", size);
    let mut first = with_broken_widget(&later, "1").to_vec();
    first.push(operand(1));
    later.install_with_rollback(&first, None).await;
    later.observe_generation("operand", 1).await;
    later.is_active(1).await;

    // An object of another client blocks the unpacked bundle until the restart.
    for (fixture, more) in [(&earlier, None), (&later, Some(operand(2)))] {
        world.apply(&fixture.map("taken", "foreign")).await;
        let mut second = with_broken_widget(fixture, "2").to_vec();
        second.push(fixture.map("taken", "2"));
        second.extend(more);
        fixture.upgrade("v2", &second).await;
        fixture.reports("is not managed by a BundleInstance").await;
    }
    provisioner.kill().await;
    for fixture in [&earlier, &later] {
        delete(&fixture.maps(), "taken").await;
    }
    let _provisioner = Provisioner::start(cluster, options).await;
    for fixture in [&earlier, &later] {
        fixture.has_text(ROLLOUT_TIMEOUT, "changed", "2").await;
    }
    later.observe("broken", stalled(1)).await;
    later.has_reason("Installed RolledBack").await;
    earlier.is_not_given_up(2 * OBSERVATION).await;
    assert_eq!(earlier.text("changed").await.as_deref(), Some("2"));
    earlier.uninstall().await;
    later.uninstall().await;
}

// Pausing an instance restarts the deadline. A rollback that is blocked after the deadline is not abandoned: the failed revision
// does not become active.
#[tokio::test]
async fn blocked_rollback_outlives_a_deadline_that_a_pause_restarts() {
    const DEADLINE: i64 = 14;
    let fixture = Fixture::new(running().await, "blocked").await;
    let objects = |text: &str, size: u8, is_immutable: bool| {
        let map = tests::with!(fixture.map("changed", text) => |map| map["immutable"] = json!(is_immutable));
        [fixture.widget_crd(), fixture.widget("operand", size), map]
    };
    let (first, deadline) = (objects("1", 1, false), Some(DEADLINE));
    fixture.install_with_rollback(&first, deadline).await;
    fixture.observe_generation("operand", 1).await;
    fixture.is_active(1).await;
    // No operator observes generation 2, and the ConfigMap cannot be changed back.
    fixture.upgrade("v2", &objects("2", 2, true)).await;
    fixture.has_reason("Progressing WaitingForHealth").await;
    fixture.change(json!({"paused": true})).await;
    fixture.has_reason("Progressing Paused").await;
    sleep(Duration::from_secs(DEADLINE.unsigned_abs())).await;
    fixture.change(json!({"paused": false})).await;
    fixture.is_not_given_up(OBSERVATION).await;
    fixture.reports("rollback failed").await;
    observe(2 * OBSERVATION, async || {
        let status = fixture.read().await.status.unwrap();
        assert!(status.failed_template_hash.is_some());
        assert_eq!(status.active().map(|active| active.number), Some(1));
    })
    .await;
    delete(&fixture.maps(), "changed").await;
    fixture.has_reason("Installed RolledBack").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "changed", "1").await;
    fixture.uninstall().await;
}

// Each live revision lists the uses of APIs that later versions of Kubernetes remove. The record completes a missing list.
// parity: max-21
#[tokio::test]
async fn revisions_list_the_uses_of_removed_apis() {
    let fixture = Fixture::new(running().await, "removed").await;
    let rules = json!([{"apiGroups": ["networking.k8s.io"], "resources": ["ipaddresses"], "verbs": ["get"]}]);
    let version = "rbac.authorization.k8s.io/v1";
    let role = fixture.object(version, "Role", "addresses", &json!({"rules": rules}));
    fixture.install(&[role, fixture.map("changed", "1")]).await;
    let listed = async || {
        let revisions = fixture.read().await.status.unwrap().revisions;
        let newest = revisions.into_iter().next_back().unwrap();
        (newest.number, newest.removed_apis)
    };
    let (number, first) = listed().await;
    let text = format!(
        "Role {}/addresses refers to the resource of IPAddress, and Kubernetes 1.37 does not serve networking.k8s.io/v1beta1",
        fixture.name
    );
    let [used] = &first.as_ref().unwrap()[..] else {
        panic!("{first:?}");
    };
    assert!(used.message.starts_with(&text), "{used:?}");
    assert_eq!((number, used.removed_in.as_str()), (1, "1.37"));

    fixture.upgrade("v2", &[fixture.map("changed", "2")]).await;
    let lists = async |expected: (i64, Option<Vec<RemovedApi>>)| {
        let description = "the list of the newest revision";
        becomes(description, &listed, |found| *found == expected).await;
    };
    lists((2, Some(vec![]))).await;
    fixture.change(json!({"rollbackTo": 1})).await;
    lists((3, first.clone())).await;

    // An older provisioner created the revision, and the instance is paused.
    let revisions = async || fixture.read().await.status.unwrap().revisions;
    let mut revisions = becomes("no list of an archived revision", revisions, |revisions| {
        let lists = revisions.iter().map(|one| one.removed_apis.is_some());
        lists.eq([false, false, true])
    })
    .await;
    fixture.change(json!({"paused": true})).await;
    fixture.has_reason("Progressing Paused").await;
    revisions[2].removed_apis = None;
    let patch = json!({"status": {"revisions": revisions}});
    merge_status(&fixture.instances(), &fixture.name, &patch).await;
    lists((3, first)).await;
    fixture.uninstall().await;
}

#[tokio::test]
async fn repair_after_rollback_keeps_the_newer_crd() {
    let fixture = Fixture::new(running().await, "newer").await;
    let objects = |text: &str, size: u8, maximum: u8| {
        let mut crd = fixture.widget_crd();
        crd["metadata"]["labels"] = json!({"of": "bundle"});
        let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["properties"]["size"]["maximum"] = json!(maximum);
        let map = fixture.map("changed", text);
        [crd, fixture.widget("operand", size), map]
    };
    let first = objects("1", 1, 10);
    fixture.install_with_rollback(&first, None).await;
    fixture.observe_generation("operand", 1).await;
    fixture.upgrade("v2", &objects("2", 2, 100)).await;
    fixture.has_generation("operand", 2).await;

    // This custom resource is invalid under the older CRD.
    let large = serde_json::from_value(fixture.widget("large", 50)).unwrap();
    let params = PostParams::default();
    within(ROLLOUT_TIMEOUT, "Widget of size 50", async || {
        let created = fixture.widgets().create(&params, &large).await;
        created.map(drop).map_err(|error| error.to_string())
    })
    .await;
    fixture.observe("operand", stalled(2)).await;
    fixture.has_reason("Installed RolledBack").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "changed", "1").await;
    fixture.has_generation("operand", 3).await;
    let working = json!({"observedGeneration": 3, "conditions": null});
    fixture.observe("operand", working).await;
    fixture.wait("Healthy", "True").await;
    let maximum = async || {
        let crd = serde_json::to_value(fixture.crd().await).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["properties"]["size"]["maximum"].as_f64()
    };
    assert_eq!(maximum().await, Some(100.0));

    let crds: Api<CustomResourceDefinition> = fixture.world.api();
    let altered = json!({"metadata": {"labels": {"of": "another-client"}}});
    patch_as(&crds, &fixture.crd_name(), "another-client", &altered).await;
    let labels = async || fixture.crd().await.labels().clone();
    let are_repaired = |labels: &BTreeMap<String, String>| labels["of"] == "bundle";
    until_within(REPAIR_TIMEOUT, "repaired CRD", labels, are_repaired).await;
    assert_eq!(maximum().await, Some(100.0), "the older CRD");
    fixture.uninstall().await;
}

//! Rollouts of many objects, and objects that an upgrade removes. The tests of `bundle_instance::model` cover that the old
//! revision is complete until the new one is active.

use super::*;

/// Two whole steps and a part of another. The status lists 500 objects.
const OBJECTS: usize = 550;

impl Fixture<'_> {
    fn many(&self, text: &str) -> Vec<Value> {
        let map = |number: usize| {
            let map = self.map(&format!("m{number:03}"), text);
            // A dry run precedes a change.
            tests::with!(map => |map| map["immutable"] = json!(false))
        };
        (0..OBJECTS).map(map).collect()
    }

    async fn count_with_text(&self, text: &str) -> usize {
        let maps = list(&self.maps()).await.into_iter();
        let maps = maps.filter(|map| map.name_any().starts_with('m'));
        let texts = maps.filter_map(|map| map.data?.remove("text"));
        texts.filter(|found| found == text).count()
    }

    async fn is_rolled_out(&self, number: i64, text: &str) {
        within(LARGE_TIMEOUT, &format!("revision {number}"), async || {
            let status = self.read().await.status.unwrap_or_default();
            let newest = status.revisions.last();
            let state = newest.map(|newest| (newest.number, newest.state));
            let count = self.count_with_text(text).await;
            (state == Some((number, RevisionState::Active)) && count == OBJECTS)
                .then_some(())
                .ok_or_else(|| format!("{state:?}, {count} objects, {:?}", status.conditions))
        })
        .await;
    }
}

// A rollout applies at most 200 objects at a time. The checks and the dry runs precede the first step only. A rollout that
// is interrupted between two steps continues after a restart, with the same revision. The record lists the objects that
// exceed the status: they are repaired and removed.
#[tokio::test]
async fn large_revision_is_rolled_out_in_steps_across_restarts() {
    let (cluster, audit, _lease) = empty().await;
    let world = World::bare(cluster);
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    let fixture = Fixture::new(&world, "steps").await;
    let messages = Messages::new(&fixture).await;
    let declared = fixture.declare(&fixture.many("1")).await;
    world.create(&declared).await;
    fixture.is_rolled_out(1, "1").await;
    for applied in ["550 objects", "200 are applied", "400 are applied"] {
        messages.wait(&["Progressing: ", applied]).await;
    }

    let mark = audit.mark();
    let messages = Messages::new(&fixture).await;
    fixture.upgrade("v2", &fixture.many("2")).await;
    // Objects that drift in between are repaired, to the new form if they were applied already.
    messages.wait(&["Progressing: ", "200 are applied"]).await;
    fixture.alter("m000").await;
    fixture.is_rolled_out(2, "2").await;
    messages.wait(&["Progressing: ", "400 are applied"]).await;
    let requests = audit.since(&mark);
    let patches = |is_dry: bool| {
        let patches = requests.all.iter().filter(|request| {
            request.verb == "patch"
                && request.uri.contains("/configmaps/m")
                && request.uri.contains("dryRun") == is_dry
        });
        patches.count()
    };
    assert_eq!(patches(true), OBJECTS, "{requests}");
    // A repair takes two requests: the first one shows which field manager changed the object.
    let repairs = patches(false) - OBJECTS;
    assert!((1..=4).contains(&repairs), "{repairs}\n{requests}");

    let messages = Messages::new(&fixture).await;
    fixture.upgrade("v3", &fixture.many("3")).await;
    messages.wait(&["Progressing: ", "200 are applied"]).await;
    provisioner.kill().await;
    assert_eq!(fixture.read().await.status.unwrap().applied_digest, None);
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    fixture.is_rolled_out(3, "3").await;

    provisioner.kill().await;
    let last = format!("m{:03}", OBJECTS - 1);
    let listed = fixture.read().await.status.unwrap().inventory.unwrap();
    assert_eq!(listed.count, i64::try_from(OBJECTS).unwrap());
    assert!(!serde_json::to_string(&listed).unwrap().contains(&last));
    fixture.alter(&last).await;
    delete(&fixture.maps(), "m000").await;
    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    for name in [&*last, "m000"] {
        fixture.has_text(LARGE_TIMEOUT, name, "3").await;
    }
    let (instances, params) = (fixture.instances(), DeleteParams::foreground());
    instances.delete(&fixture.name, &params).await.unwrap();
    wait_deleted(instances, &fixture.name).await;
    let left = async || fixture.count_with_text("3").await;
    until_within(LARGE_TIMEOUT, "end of the removal", left, |left| *left == 0).await;
}

// An object that left the bundle and waits for a finalizer is watched: the other objects are not applied again, and
// Progressing does not change in the meantime.
#[tokio::test]
async fn terminating_object_causes_no_write_of_other_objects() {
    let stage = stage(Options::default()).await;
    let fixture = Fixture::new(&stage.world, "held").await;
    let objects = [fixture.map("kept", "1"), fixture.map("held", "1")];
    fixture.install(&objects).await;
    fixture.set_finalizers("held", json!([FINALIZER])).await;
    fixture.upgrade("v2", &[fixture.map("kept", "2")]).await;
    fixture.is_terminating("held").await;
    let progressing = async || fixture.condition("Progressing").await;
    let is_over = |(reason, _): &(String, String)| reason != "Applying";
    becomes("end of the rollout", progressing, is_over).await;
    // The status follows the deletion.
    sleep(Duration::from_secs(1)).await;

    let mark = stage.audit.mark();
    let mut progressing = BTreeSet::new();
    observe(2 * OBSERVATION, async || {
        progressing.insert(fixture.condition("Progressing").await.0);
    })
    .await;
    let path = format!("/namespaces/{}/configmaps/kept", fixture.name);
    let requests = stage.audit.since(&mark);
    let writes = requests.all.iter().filter(|request| {
        request.verb != "get" && request.uri.contains(&path) && !request.uri.contains("dryRun")
    });
    assert_eq!(writes.count(), 0, "{requests}");
    assert_eq!(progressing.len(), 1, "{progressing:?}");

    fixture.set_finalizers("held", Value::Null).await;
    wait_deleted(fixture.maps(), "held").await;
    fixture.uninstall().await;
}

//! Rollouts of many objects.

use std::sync::{Arc, Mutex};

use futures::TryStreamExt as _;
use kube::{
    api::{DeleteParams, ListParams},
    runtime::{WatchStreamExt as _, watcher},
};
use manifests::api::bundle_instance::RevisionState;
use tokio::task::AbortHandle;

use super::*;
use crate::faults::support::{empty, stage};
use crate::support::{Options, Provisioner, wait_deleted};

/// Two whole steps and a part of another. The status lists 500 objects.
const OBJECTS: usize = 550;
/// The limit of these rollouts.
const LARGE_TIMEOUT: Duration = Duration::from_secs(90);

/// The messages of the condition Progressing, as a watch shows them.
struct Messages {
    messages: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl Messages {
    fn follow(fixture: &Fixture<'_>) -> Self {
        let messages = Arc::<Mutex<Vec<String>>>::default();
        let config = watcher::Config::default().fields(&format!("metadata.name={}", fixture.name));
        let instances: Api<BundleInstance> = fixture.world.api();
        let task = tokio::spawn({
            let messages = Arc::clone(&messages);
            watcher(instances, config)
                .applied_objects()
                .try_for_each(move |instance| {
                    let conditions = instance.status.unwrap_or_default().conditions;
                    let progressing = condition(&conditions, "Progressing");
                    let message = progressing.map(|progressing| progressing.message.clone());
                    messages.lock().unwrap().extend(message);
                    std::future::ready(Ok(()))
                })
        });
        Self {
            messages,
            task: task.abort_handle(),
        }
    }

    fn has(&self, part: &str) -> bool {
        let messages = self.messages.lock().unwrap();
        messages.iter().any(|message| message.contains(part))
    }

    /// Waits for a message.
    async fn wait(&self, part: &str) {
        within(LARGE_TIMEOUT, part, async || {
            let messages = format!("{:?}", self.messages.lock().unwrap());
            self.has(part).then_some(()).ok_or(messages)
        })
        .await;
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fixture<'_> {
    fn many(&self, text: &str) -> Vec<Value> {
        let map = |number: usize| {
            let mut map = self.map(&format!("m{number:03}"), text);
            // A dry run precedes a change.
            map["immutable"] = json!(false);
            map
        };
        (0..OBJECTS).map(map).collect()
    }

    /// Waits until this revision is active, and every object has this text.
    async fn is_rolled_out(&self, number: i64, text: &str) {
        within(LARGE_TIMEOUT, &format!("revision {number}"), async || {
            let status = self.read().await.status.unwrap_or_default();
            let newest = status.revisions.last();
            let state = newest.map(|newest| (newest.number, newest.state));
            let maps = self.maps().list(&ListParams::default()).await.unwrap();
            let maps = maps.iter().filter(|map| map.name_any().starts_with('m'));
            let texts = maps.filter_map(|map| map.data.as_ref()?.get("text"));
            let count = texts.filter(|found| *found == text).count();
            (state == Some((number, RevisionState::Active)) && count == OBJECTS)
                .then_some(())
                .ok_or(format!(
                    "{state:?}, {count} objects, {:?}",
                    status.conditions
                ))
        })
        .await;
    }
}

// A rollout applies at most 200 objects at a time. The checks and the dry runs precede the first step only.
#[tokio::test]
async fn large_revision_is_rolled_out_in_steps() {
    let stage = stage(Options::default()).await;
    let fixture = Fixture::new(&stage.world, "steps").await;
    let messages = Messages::follow(&fixture);
    let declared = fixture.declare(&fixture.many("1")).await;
    stage.world.create(&declared).await;
    fixture.is_rolled_out(1, "1").await;
    for applied in ["550 objects", "200 are applied", "400 are applied"] {
        assert!(messages.has(applied), "{applied}: {:?}", messages.messages);
    }

    let mark = stage.audit.mark();
    let messages = Messages::follow(&fixture);
    fixture.upgrade("v2", &fixture.many("2")).await;
    // Objects that drift in between are repaired, to the new form if they were applied already.
    messages.wait("200 are applied").await;
    fixture.alter("m000").await;
    fixture.is_rolled_out(2, "2").await;
    messages.wait("400 are applied").await;
    let requests = stage.audit.since(&mark);
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
    fixture.uninstall().await;
}

// A rollout that is interrupted between two steps continues after a restart, with the same revision. The record lists the
// objects that exceed the status: they are repaired and removed.
#[tokio::test]
async fn rollout_continues_after_a_restart_between_steps() {
    let (cluster, _audit, _lease) = empty().await;
    let world = World::bare(cluster);
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    let fixture = Fixture::new(&world, "interrupted").await;
    fixture.install(&fixture.many("1")).await;
    let messages = Messages::follow(&fixture);
    fixture.upgrade("v2", &fixture.many("2")).await;
    messages.wait("200 are applied").await;
    provisioner.kill().await;
    assert_eq!(fixture.read().await.status.unwrap().applied_digest, None);

    let provisioner = Provisioner::start(cluster, Options::default()).await;
    fixture.is_rolled_out(2, "2").await;
    provisioner.kill().await;
    let last = format!("m{:03}", OBJECTS - 1);
    let listed = fixture.read().await.status.unwrap().inventory.unwrap();
    assert_eq!(listed.count, i64::try_from(OBJECTS).unwrap());
    assert!(!serde_json::to_string(&listed).unwrap().contains(&last));
    fixture.alter(&last).await;

    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    fixture.has_text(LARGE_TIMEOUT, &last, "2").await;
    let instances: Api<BundleInstance> = world.api();
    let params = DeleteParams::foreground();
    instances.delete(&fixture.name, &params).await.unwrap();
    wait_deleted(instances, &fixture.name).await;
    let left = async || {
        let maps = fixture.maps().list(&ListParams::default()).await.unwrap();
        let left = maps.iter().filter(|map| map.name_any().starts_with('m'));
        left.count()
    };
    until_within(LARGE_TIMEOUT, "end of the removal", left, |left| *left == 0).await;
}

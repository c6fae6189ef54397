//! Records of revisions that are lost, altered or denied: nothing installed is harmed, the problem is reported, and the record
//! is written again.

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt;
use manifests::api::bundle_instance::RevisionStatus;
use unpacker::Digest;

use super::*;
use crate::support::{SYSTEM, large, quota};

/// The number of objects whose record takes several Secrets.
const OBJECT_COUNT: usize = 2500;

fn secrets(world: &World) -> Api<Secret> {
    Api::namespaced(world.client(), SYSTEM)
}

impl Fixture<'_> {
    fn part(&self, revision: i64, part: i64) -> String {
        format!("{}-r{revision}-{part}", self.name)
    }

    async fn records(&self) -> Vec<String> {
        let selector = format!("{}={}", labels::REVISION_OF, self.name);
        let params = ListParams::default().labels(&selector);
        let found = secrets(self.world).list_metadata(&params).await.unwrap();
        found.iter().map(ResourceExt::name_any).collect()
    }

    /// Waits until the newest revision is active, and all its Secrets exist.
    async fn is_recorded(&self) -> RevisionStatus {
        within(ROLLOUT_TIMEOUT, "recorded revision", async || {
            let status = self.read().await.status.unwrap_or_default();
            let revision = status.revisions.last().ok_or("no revision is listed")?;
            let records = self.records().await;
            let mut parts = (1..=revision.parts).map(|part| self.part(revision.number, part));
            let is_recorded = parts.all(|name| records.contains(&name));
            if revision.state == RevisionState::Active && is_recorded {
                return Ok(revision.clone());
            }
            Err(format!("{revision:?}, {records:?}"))
        })
        .await
    }

    async fn count(&self) -> usize {
        let params = ListParams::default().labels(&format!("{}={}", labels::OWNER_NAME, self.name));
        let maps = self.maps().list_metadata(&params).await;
        maps.unwrap().items.len()
    }

    /// Checks for a while that the ConfigMap `a` has this text, and that another one does not exist.
    async fn assert_unchanged(&self, text: &str, absent: &str) {
        observe(OBSERVATION, async || {
            tests::assert_rows!([self.text("a").await, self.text(absent).await] => [Some(text.to_owned()), None]);
        })
        .await;
    }

    /// Removes the instance, and waits until neither an object nor a record exists.
    async fn leaves_nothing(&self) {
        self.uninstall().await;
        // The garbage collector deletes many Secrets one by one.
        let left = async || (self.count().await, self.records().await);
        let is_none = |(maps, records): &(usize, Vec<String>)| *maps == 0 && records.is_empty();
        until_within(Duration::from_secs(60), "end of the removal", left, is_none).await;
    }
}

enum Damage {
    Deleted,
    /// The bytes are edited, and the checksum beside them agrees.
    Forged,
    /// The record of another instance.
    Foreign(BTreeMap<String, ByteString>),
}

/// Damages the Secret of a record. These Secrets are immutable, so another one replaces it.
async fn damage(world: &World, name: &str, damage: Damage) {
    let api = secrets(world);
    let mut secret = api.get(name).await.unwrap();
    delete(&api, name).await;
    match damage {
        Damage::Deleted => return,
        Damage::Forged => {
            let fields = secret.data.as_mut().unwrap();
            let data = &mut fields.get_mut("data").unwrap().0;
            let middle = data.len() / 2;
            data[middle] ^= 1;
            // Part 1 stores the checksum in this form.
            let checksum = Digest::sha256(data).to_string();
            fields.insert("checksum".to_owned(), ByteString(checksum.into_bytes()));
        }
        Damage::Foreign(other) => secret.data = Some(other),
    }
    secret.metadata.resource_version = None;
    secret.metadata.uid = None;
    secret.metadata.creation_timestamp = None;
    secret.metadata.managed_fields = None;
    api.create(&PostParams::default(), &secret).await.unwrap();
}

// The record is written again from the installed Bundle. The removal of an instance needs no record.
#[tokio::test]
async fn unusable_record_is_reported_and_written_again() {
    let fixture = Fixture::new(running().await, "damaged").await;
    // Each object drifts once, so that no change looks like a field conflict.
    let drifting = |number: usize| [format!("before-{number}"), format!("after-{number}")];
    let names = (0..3).flat_map(drifting).chain(["other".to_owned()]);
    // The Namespace of another client is recorded, and is not an object of the instance.
    let mut objects = vec![namespace_object(&fixture.name)];
    objects.extend(names.map(|name| fixture.map(&name, "1")));
    fixture.install(&objects).await;
    let second = Fixture::new(fixture.world, "second").await;
    second.install(&[second.map("kept", "1")]).await;
    let name = second.part(second.is_recorded().await.number, 1);
    let foreign = secrets(fixture.world).get(&name).await.unwrap();
    let objects = async || {
        let other = fixture.maps().get("other").await.unwrap();
        (other, second.maps().get("kept").await.unwrap())
    };
    let before = objects().await;
    let cases = tests::rows![
        Damage::Deleted => "not found";
        Damage::Forged => "checksum mismatch";
        Damage::Foreign(foreign.data.unwrap()) => "checksum mismatch";
    ];
    for (number, (kind, message)) in cases.into_iter().enumerate() {
        let [early, late] = drifting(number);
        let name = fixture.part(fixture.is_recorded().await.number, 1);
        let messages = Messages::new(&fixture).await;
        damage(fixture.world, &name, kind).await;
        fixture.alter(&early).await;
        messages.wait(&[&name, message]).await;
        fixture.has_text(ROLLOUT_TIMEOUT, &early, "1").await;
        fixture.is_recorded().await;
        fixture.has_reason("Installed InstallationSucceeded").await;
        fixture.alter(&late).await;
        fixture.has_text(REPAIR_TIMEOUT, &late, "1").await;
    }
    assert_eq!(objects().await, before);
    let inventory = fixture.read().await.status.unwrap().inventory.unwrap();
    assert_eq!(inventory.count, 7, "{inventory:?}");
    fixture.wait("Healthy", "True").await;
    let name = fixture.part(fixture.is_recorded().await.number, 1);
    damage(fixture.world, &name, Damage::Forged).await;
    fixture.leaves_nothing().await;
    second.leaves_nothing().await;
}

// The revision is removed from the list, and the message names the others.
#[tokio::test]
async fn rollback_to_a_lost_record_is_reported() {
    let fixture = Fixture::new(running().await, "unreturnable").await;
    fixture.install(&[fixture.map("kept", "1")]).await;
    fixture.is_recorded().await;
    fixture.upgrade("v2", &[fixture.map("kept", "2")]).await;
    fixture.is_active(2).await;
    let name = fixture.part(1, 1);
    let messages = Messages::new(&fixture).await;
    damage(fixture.world, &name, Damage::Deleted).await;
    fixture.change(json!({"rollbackTo": 1})).await;
    messages.wait(&[&name, "not found"]).await;
    fixture.reports("is not recorded (recorded: 2)").await;
    fixture.has_reason("Stalled Blocked").await;
    assert_eq!(fixture.text("kept").await.as_deref(), Some("2"));
    fixture.change(json!({"rollbackTo": null})).await;
    fixture.has_reason("Ready UpToDate").await;
    fixture.leaves_nothing().await;
}

// The number of the revision is skipped. Secrets that only look like records change nothing, at any number.
#[tokio::test]
async fn secrets_of_other_clients_are_not_used_as_records() {
    const SURPLUS: i64 = 100;
    let fixture = Fixture::new(running().await, "taken").await;
    fixture.install(&[fixture.map("kept", "1")]).await;
    assert_eq!(fixture.is_recorded().await.number, 1);
    let take = async |number: i64| {
        let metadata = json!({"name": fixture.part(number, 1), "namespace": SYSTEM});
        let data = json!({"data": "of another client"});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data});
        fixture.world.apply(&secret).await;
    };
    let api = secrets(fixture.world);
    for number in [2, 3] {
        take(number).await;
    }
    let before = api.get(&fixture.part(2, 1)).await.unwrap();
    fixture.upgrade("v2", &[fixture.map("kept", "2")]).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "kept", "2").await;
    assert_eq!(fixture.is_recorded().await.number, 4);

    // The same holds if the record of an installed revision is replaced as a whole.
    delete(&api, &fixture.part(4, 1)).await;
    take(4).await;
    fixture.alter("kept").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "kept", "2").await;
    let number = fixture.is_recorded().await.number;

    let mut part = api.get(&fixture.part(number, 1)).await.unwrap();
    part.metadata.resource_version = None;
    for surplus in 1..=SURPLUS {
        part.metadata.name = Some(fixture.part(number + surplus, 1));
        api.create(&PostParams::default(), &part).await.unwrap();
    }
    fixture.alter("kept").await;
    fixture.has_text(REPAIR_TIMEOUT, "kept", "2").await;
    fixture.upgrade("v3", &[fixture.map("kept", "3")]).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "kept", "3").await;
    assert_eq!(fixture.is_recorded().await.number, number + 1);
    fixture.leaves_nothing().await;
    tests::assert_rows!(api.get(&fixture.part(2, 1)).await.unwrap() => before);
    for number in [2, 3, 4] {
        delete(&api, &fixture.part(number, 1)).await;
    }
}

#[tokio::test]
async fn lost_inventory_is_built_from_the_records() {
    let fixture = Fixture::new(running().await, "unlisted").await;
    let [drifted, other] = ["drifted", "other"].map(|name| fixture.map(name, "1"));
    let namespace = namespace_object(&fixture.name);
    let objects = [namespace, fixture.widget_crd(), drifted, other];
    fixture.install(&objects).await;
    fixture.is_recorded().await;
    let lose = async || {
        let lost = json!({"status": {"inventory": null}});
        merge_status(&fixture.instances(), &fixture.name, &lost).await;
    };
    lose().await;
    let count = async || Some(fixture.read().await.status?.inventory?.count);
    becomes("inventory", count, |count| *count == Some(3)).await;
    fixture.alter("drifted").await;
    fixture.has_text(REPAIR_TIMEOUT, "drifted", "1").await;
    fixture.has_reason("Installed InstallationSucceeded").await;
    lose().await;
    fixture.leaves_nothing().await;
    wait_deleted::<CustomResourceDefinition>(fixture.world.api(), &fixture.crd_name()).await;
}

// A record of several Secrets is read as a whole or not at all. The status lists a part of the inventory.
// parity: rukpak-31
#[tokio::test]
async fn thousands_of_objects_are_recorded_in_parts_and_pruned() {
    let fixture = Fixture::new(running().await, "parts").await;
    let map = |number: usize| {
        let random: String = (0..500).map(|_| fastrand::alphanumeric()).collect();
        fixture.map(&format!("m{number:05}"), &random)
    };
    let objects: Vec<Value> = (0..OBJECT_COUNT).map(map).collect();
    let tag = format!("{}:v1", fixture.name);
    let pushed = fixture.world.push(&tag, &large(&objects)).await;
    let declared = instance(&fixture.name, "plain", image(&pushed));
    fixture.create(declared).await;
    let revision = fixture.is_recorded().await;
    assert!(revision.parts >= 2, "{revision:?}");
    assert_eq!(fixture.count().await, OBJECT_COUNT);
    let installed = fixture.read().await;
    // The instance has to fit into etcd.
    assert!(json!(installed).to_string().len() < 256 << 10);
    let inventory = installed.status.unwrap().inventory.unwrap();
    let listed: usize = inventory.kinds.iter().map(|kind| kind.objects.len()).sum();
    assert_eq!((inventory.count, listed, inventory.more), (2500, 500, None));

    // Objects that the status does not list are repaired as well.
    let text = fixture.text("m02499").await.unwrap();
    fixture.alter("m02499").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "m02499", &text).await;

    let last = fixture.part(revision.number, revision.parts);
    let messages = Messages::new(&fixture).await;
    delete(&secrets(fixture.world), &last).await;
    fixture.alter("m02499").await;
    messages.wait(&["-2 of revision", "not found"]).await;
    fixture.has_text(LARGE_TIMEOUT, "m02499", &text).await;
    tests::assert_rows!(fixture.is_recorded().await.parts => revision.parts);

    fixture.upgrade("v2", &objects[..1]).await;
    let left = async || fixture.count().await;
    until("one object is left", left, |left| *left == 1).await;
    fixture.leaves_nothing().await;
}

// The rollout continues once the record can be written.
#[tokio::test]
async fn unrecorded_revision_is_not_applied() {
    let stage = stage(Options::default()).await;
    let fixture = Fixture::new(&stage.world, "denied").await;
    let removed = Fixture::new(&stage.world, "removed").await;
    let objects = [fixture.map("a", "1"), fixture.map("b", "1")];
    fixture.install(&objects).await;
    removed.install(&[removed.map("a", "1")]).await;
    let quotas = quota(&stage.world, SYSTEM, "full", &json!({"count/secrets": "0"})).await;

    let objects = [fixture.map("a", "2"), fixture.map("c", "2")];
    fixture.upgrade("v2", &objects).await;
    for part in ["none of its objects is applied", "exceeded quota"] {
        fixture.reports(part).await;
    }
    fixture.assert_unchanged("1", "c").await;
    fixture.alter("b").await;
    fixture.has_text(REPAIR_TIMEOUT, "b", "1").await;
    removed.leaves_nothing().await;

    delete(&quotas, "full").await;
    // The next attempt may start 40 seconds after the last one.
    fixture.has_text(LARGE_TIMEOUT, "a", "2").await;
    fixture.has_text(LARGE_TIMEOUT, "c", "2").await;
    fixture.is_recorded().await;
    wait_deleted(fixture.maps(), "b").await;

    // A full etcd permits neither the record nor the status: the log has the message, and nothing is applied. A rollback
    // needs nothing but the record.
    let provisioner = stage.world.provisioner().await;
    provisioner.signal("STOP").await;
    fixture.change(json!({"rollbackTo": 1})).await;
    stage.world.cluster.fill_etcd(true).await.unwrap();
    provisioner.signal("CONT").await;
    let log = async || provisioner.log();
    let parts = ["none of its objects is applied", "database space exceeded"];
    let has_parts = |log: &String| parts.iter().all(|part| log.contains(part));
    until("the message", log, has_parts).await;
    fixture.assert_unchanged("2", "b").await;

    stage.world.cluster.fill_etcd(false).await.unwrap();
    fixture.has_text(ROLLOUT_TIMEOUT, "a", "1").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "b", "1").await;
    fixture.is_recorded().await;
    wait_deleted(fixture.maps(), "c").await;
    assert!(!provisioner.has_ended());
    fixture.leaves_nothing().await;
}

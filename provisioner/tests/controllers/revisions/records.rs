//! Records of revisions that are lost, altered or denied: nothing installed is harmed, the problem is reported, and the record
//! is written again.

use std::{fmt::Write as _, sync::Arc};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    ResourceExt,
    api::{ListParams, PostParams},
};
use manifests::api::{
    bundle_instance::{RevisionState, RevisionStatus},
    labels,
};
use sha2::{Digest as _, Sha256};
use tokio::{sync::Notify, task::JoinHandle};

use super::*;
use crate::faults::support::stage;
use crate::support::{Options, SYSTEM, crd, large, quota, until, wait_for};

/// The number of objects whose record takes several Secrets.
const MANY: usize = 2500;
/// The time until an instance of many objects is installed, or removed.
const LARGE_TIMEOUT: Duration = Duration::from_secs(120);

/// The Secrets of the system namespace.
fn secrets(world: &World) -> Api<Secret> {
    Api::namespaced(world.client(), SYSTEM)
}

impl Fixture<'_> {
    /// A Secret of a record.
    fn part(&self, revision: &RevisionStatus, part: i64) -> String {
        format!("{}-r{}-{part}", self.name, revision.number)
    }

    /// Lists the names of the Secrets that record revisions.
    async fn records(&self) -> Vec<String> {
        let selector = format!("{}={}", labels::REVISION_OF, self.name);
        let params = ListParams::default().labels(&selector);
        let found = secrets(self.world).list_metadata(&params).await.unwrap();
        found.iter().map(ResourceExt::name_any).collect()
    }

    /// Follows the conditions until one has these parts in its message. The watch runs when this returns.
    async fn follow(&self, parts: &'static [&'static str]) -> JoinHandle<()> {
        let started = Arc::new(Notify::new());
        let notify = Arc::clone(&started);
        let (api, name) = (self.world.api(), self.name.clone());
        let follow = async move {
            let has_parts = move |instance: &BundleInstance| {
                notify.notify_one();
                let conditions = &instance.status.as_ref()?.conditions;
                let mut messages = conditions.iter().map(|condition| &condition.message);
                messages
                    .any(|message| parts.iter().all(|part| message.contains(part)))
                    .then_some(())
            };
            wait_for(api, &name, &format!("{parts:?}"), has_parts).await;
        };
        let follow = tokio::spawn(follow);
        started.notified().await;
        follow
    }

    /// Waits until the newest revision is active, and all its Secrets exist.
    async fn is_recorded(&self) -> RevisionStatus {
        within(ROLLOUT_TIMEOUT, "recorded revision", async || {
            let status = self.read().await.status.unwrap_or_default();
            let revision = status.revisions.last().ok_or("no revision is listed")?;
            if revision.state != RevisionState::Active {
                return Err(format!("{revision:?}"));
            }
            let records = self.records().await;
            for part in 1..=revision.parts {
                let name = self.part(revision, part);
                if !records.contains(&name) {
                    return Err(format!("{name} is not among {records:?}"));
                }
            }
            Ok(revision.clone())
        })
        .await
    }

    /// Removes the instance, and waits until neither an object nor a record exists.
    async fn leaves_nothing(&self) {
        self.uninstall().await;
        let selector = format!("{}={}", labels::OWNER_NAME, self.name);
        let params = ListParams::default().labels(&selector);
        // The garbage collector deletes many Secrets one by one.
        within(Duration::from_secs(60), "end of the removal", async || {
            let maps = self.maps().list_metadata(&params).await.unwrap().items;
            let records = self.records().await;
            (maps.is_empty() && records.is_empty())
                .then_some(())
                .ok_or_else(|| format!("{} ConfigMaps, {records:?}", maps.len()))
        })
        .await;
    }
}

/// Creates a Secret again with other data. The Secrets of records are immutable.
async fn replace(world: &World, mut secret: Secret, change: impl FnOnce(&mut Secret)) {
    let api = secrets(world);
    let name = secret.name_any();
    delete(&api, &name).await;
    secret.metadata.resource_version = None;
    secret.metadata.uid = None;
    secret.metadata.creation_timestamp = None;
    secret.metadata.managed_fields = None;
    change(&mut secret);
    api.create(&PostParams::default(), &secret).await.unwrap();
}

/// Returns the recorded bytes.
fn data(secret: &mut Secret) -> &mut Vec<u8> {
    let data = secret.data.as_mut().unwrap();
    &mut data.get_mut("data").unwrap().0
}

/// Returns the checksum of recorded bytes as part 1 stores it.
fn checksum(data: &[u8]) -> String {
    let mut checksum = "sha256:".to_owned();
    for byte in Sha256::digest(data) {
        write!(checksum, "{byte:02x}").unwrap();
    }
    checksum
}

/// Damage to a record.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Deleted,
    Truncated,
    Edited,
    /// The bytes are edited, and the checksum beside them agrees.
    Forged,
}

async fn damage(world: &World, name: &str, damage: Damage) {
    let secret = secrets(world).get(name).await.unwrap();
    match damage {
        Damage::Deleted => delete(&secrets(world), name).await,
        Damage::Truncated => {
            replace(world, secret, |secret| {
                let data = data(secret);
                data.truncate(data.len() / 2);
            })
            .await;
        }
        Damage::Edited | Damage::Forged => {
            let edited = |secret: &mut Secret| {
                let data = data(secret);
                let middle = data.len() / 2;
                data[middle] ^= 1;
                if matches!(damage, Damage::Forged) {
                    let checksum = checksum(self::data(secret));
                    let fields = secret.data.as_mut().unwrap();
                    fields.insert("checksum".to_owned(), ByteString(checksum.into_bytes()));
                }
            };
            replace(world, secret, edited).await;
        }
    }
}

// A record that cannot be used is reported, and written again from the installed Bundle. Nothing else is touched, and drift
// is repaired afterwards.
#[tokio::test]
async fn unusable_record_is_reported_and_written_again() {
    let fixture = Fixture::new(running().await, "damaged").await;
    // Each object drifts once, so that no change looks like a field conflict.
    let drifting = |number: usize| [format!("before-{number}"), format!("after-{number}")];
    let names = (0..4).flat_map(drifting).chain(["other".to_owned()]);
    // The Namespace of another client is recorded, and is not an object of the instance.
    let mut objects = vec![namespace_object(fixture.namespace())];
    objects.extend(names.map(|name| fixture.map(&name, "1")));
    fixture.install(&objects).await;
    let other = fixture.maps().get("other").await.unwrap();
    let cases = [
        (Damage::Deleted, "not found"),
        (Damage::Truncated, "checksum mismatch"),
        (Damage::Edited, "checksum mismatch"),
        (Damage::Forged, "checksum mismatch"),
    ];
    for (number, (kind, message)) in cases.into_iter().enumerate() {
        let [before, after] = drifting(number);
        let revision = fixture.is_recorded().await;
        let name = fixture.part(&revision, 1);
        let parts: &'static [&'static str] = vec![&*name.clone().leak(), message].leak();
        let report = fixture.follow(parts).await;
        damage(fixture.world, &name, kind).await;
        fixture.alter(&before).await;
        report.await.unwrap();
        fixture.has_text(ROLLOUT_TIMEOUT, &before, "1").await;
        fixture.is_recorded().await;
        fixture.is_installed().await;
        fixture.alter(&after).await;
        fixture.has_text(REPAIR_TIMEOUT, &after, "1").await;
    }
    let found = fixture.maps().get("other").await.unwrap();
    assert_eq!(found.metadata, other.metadata);
    let inventory = fixture.read().await.status.unwrap().inventory.unwrap();
    assert_eq!(inventory.count, 9, "{inventory:?}");
    fixture.wait("Healthy", "True").await;
    fixture.leaves_nothing().await;
}

// The removal of an instance needs no record.
#[tokio::test]
async fn unusable_record_stops_no_removal() {
    for kind in [Damage::Deleted, Damage::Truncated, Damage::Forged] {
        let fixture = Fixture::new(running().await, "removed").await;
        fixture.install(&[fixture.map("kept", "1")]).await;
        let revision = fixture.is_recorded().await;
        damage(fixture.world, &fixture.part(&revision, 1), kind).await;
        fixture.leaves_nothing().await;
    }
}

// The record of one instance is not used for another.
#[tokio::test]
async fn record_of_another_instance_is_not_used() {
    let world = running().await;
    let fixtures = [
        Fixture::new(world, "first").await,
        Fixture::new(world, "second").await,
    ];
    let mut parts = Vec::new();
    for fixture in &fixtures {
        let objects = [fixture.map("kept", &fixture.name), fixture.map("b", "1")];
        fixture.install(&objects).await;
        let revision = fixture.is_recorded().await;
        let name = fixture.part(&revision, 1);
        parts.push(secrets(world).get(&name).await.unwrap());
    }
    let data = [parts[1].data.clone(), parts[0].data.clone()];
    for (part, data) in parts.iter().zip(data) {
        replace(world, part.clone(), |secret| secret.data = data).await;
    }
    for fixture in &fixtures {
        let report = fixture
            .follow(&["cannot be used", "checksum mismatch"])
            .await;
        fixture.alter("kept").await;
        report.await.unwrap();
        let text = &fixture.name;
        fixture.has_text(ROLLOUT_TIMEOUT, "kept", text).await;
    }
    for fixture in &fixtures {
        fixture.is_recorded().await;
        let maps = fixture.maps().list(&ListParams::default()).await.unwrap();
        let owners: Vec<&String> = maps
            .iter()
            .filter_map(|map| map.labels().get(labels::OWNER_NAME))
            .collect();
        assert_eq!(owners, [&fixture.name; 2]);
        fixture.leaves_nothing().await;
    }
}

// A name that another client has taken is not used: the number of the revision is skipped, and the Secret stays as it is.
#[tokio::test]
async fn taken_name_of_a_record_is_skipped() {
    let fixture = Fixture::new(running().await, "taken").await;
    fixture.install(&[fixture.map("kept", "1")]).await;
    let revision = fixture.is_recorded().await;
    assert_eq!(revision.number, 1);
    let foreign = |number: i64| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{}-r{number}-1", fixture.name), "namespace": SYSTEM},
            "stringData": {"data": "of another client"},
        })
    };
    let api = secrets(fixture.world);
    for number in [2, 3] {
        fixture.world.apply(&foreign(number)).await;
    }
    let before = api.get(&format!("{}-r2-1", fixture.name)).await.unwrap();
    fixture.upgrade("v2", &[fixture.map("kept", "2")]).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "kept", "2").await;
    let revision = fixture.is_recorded().await;
    assert_eq!(revision.number, 4);

    // The same holds if the record of an installed revision is replaced as a whole.
    delete(&api, &fixture.part(&revision, 1)).await;
    fixture.world.apply(&foreign(4)).await;
    fixture.alter("kept").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "kept", "2").await;
    fixture.is_recorded().await;
    fixture.leaves_nothing().await;
    let after = api.get(&format!("{}-r2-1", fixture.name)).await.unwrap();
    assert_eq!(after, before);
    for number in [2, 3, 4] {
        delete(&api, &format!("{}-r{number}-1", fixture.name)).await;
    }
}

// Secrets that only look like records change nothing, at any number.
#[tokio::test]
async fn surplus_records_are_ignored() {
    const SURPLUS: i64 = 100;
    let fixture = Fixture::new(running().await, "surplus").await;
    fixture.install(&[fixture.map("kept", "1")]).await;
    let revision = fixture.is_recorded().await;
    let api = secrets(fixture.world);
    let mut part = api.get(&fixture.part(&revision, 1)).await.unwrap();
    part.metadata.resource_version = None;
    for number in 2..=SURPLUS {
        part.metadata.name = Some(format!("{}-r{number}-1", fixture.name));
        api.create(&PostParams::default(), &part).await.unwrap();
    }
    fixture.alter("kept").await;
    fixture.has_text(REPAIR_TIMEOUT, "kept", "1").await;
    fixture.upgrade("v2", &[fixture.map("kept", "2")]).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "kept", "2").await;
    let revision = fixture.is_recorded().await;
    assert_eq!(revision.number, 2);
    fixture.leaves_nothing().await;
}

// The status may lose the inventory: it is built from the records.
#[tokio::test]
async fn lost_inventory_is_built_from_the_records() {
    let fixture = Fixture::new(running().await, "unlisted").await;
    let objects = [
        namespace_object(fixture.namespace()),
        crd(&fixture.group(), "Widget"),
        fixture.map("drifted", "1"),
        fixture.map("other", "1"),
    ];
    fixture.install(&objects).await;
    fixture.is_recorded().await;
    let instances: Api<BundleInstance> = fixture.world.api();
    let lose = async || {
        let lost = json!({"status": {"inventory": null}});
        merge_status(&instances, &fixture.name, &lost).await;
    };
    lose().await;
    let count = async || Some(fixture.read().await.status?.inventory?.count);
    becomes("inventory", count, |count| *count == Some(3)).await;
    fixture.alter("drifted").await;
    fixture.has_text(REPAIR_TIMEOUT, "drifted", "1").await;
    fixture.is_installed().await;
    lose().await;
    fixture.leaves_nothing().await;
    let crds: Api<CustomResourceDefinition> = fixture.world.api();
    wait_deleted(crds, &format!("widgets.{}", fixture.group())).await;
}

// A record of several Secrets is read as a whole or not at all.
#[tokio::test]
async fn record_in_several_parts_is_read_and_written_again() {
    let fixture = Fixture::new(running().await, "parts").await;
    let random = |_: usize| -> String { (0..500).map(|_| fastrand::alphanumeric()).collect() };
    let objects: Vec<Value> = (0..MANY)
        .map(|number| fixture.map(&format!("m{number:05}"), &random(number)))
        .collect();
    let tag = format!("{}:v1", fixture.name);
    let pushed = fixture.world.push(&tag, &large(&objects)).await;
    let declared = instance(&fixture.name, "plain", image(&pushed));
    fixture.create(declared).await;
    let revision = fixture.is_recorded().await;
    assert!(revision.parts >= 2, "{revision:?}");
    let text = fixture.text("m02499").await.unwrap();
    fixture.alter("m02499").await;
    fixture.has_text(REPAIR_TIMEOUT, "m02499", &text).await;

    let last = fixture.part(&revision, revision.parts);
    let report = fixture.follow(&["-2 of revision", "not found"]).await;
    delete(&secrets(fixture.world), &last).await;
    fixture.alter("m02499").await;
    report.await.unwrap();
    fixture.has_text(LARGE_TIMEOUT, "m02499", &text).await;
    let again = fixture.is_recorded().await;
    assert_eq!(again.parts, revision.parts);
    fixture.leaves_nothing().await;
}

// While a revision cannot be recorded, nothing of it is applied. The message says so, and the rollout continues once the
// record can be written.
#[tokio::test]
async fn unrecorded_revision_is_not_applied() {
    let stage = stage(Options::default()).await;
    let fixture = Fixture::new(&stage.world, "denied").await;
    let removed = Fixture::new(&stage.world, "removed").await;
    let objects = [fixture.map("a", "1"), fixture.map("b", "1")];
    fixture.install(&objects).await;
    removed.install(&[removed.map("a", "1")]).await;
    let none = json!({"count/secrets": "0"});
    let quotas = quota(&stage.world, SYSTEM, "full", &none).await;

    let objects = [fixture.map("a", "2"), fixture.map("c", "2")];
    fixture.upgrade("v2", &objects).await;
    for part in ["none of its objects is applied", "exceeded quota"] {
        fixture.reports(part).await;
    }
    observe(OBSERVATION, async || {
        let texts = [fixture.text("a").await, fixture.text("c").await];
        assert_eq!(texts, [Some("1".to_owned()), None]);
    })
    .await;
    fixture.alter("b").await;
    fixture.has_text(REPAIR_TIMEOUT, "b", "1").await;
    removed.leaves_nothing().await;

    delete(&quotas, "full").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "a", "2").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "c", "2").await;
    fixture.is_recorded().await;
    wait_deleted(fixture.maps(), "b").await;
    fixture.leaves_nothing().await;
}

// A full etcd permits neither the record nor the status: the log has the message, and nothing is applied.
#[tokio::test]
async fn full_etcd_stops_a_rollout_before_its_first_object() {
    let stage = stage(Options::default()).await;
    let fixture = Fixture::new(&stage.world, "full").await;
    let [first, second] = [["a", "b"], ["a", "c"]];
    let of = |names: [&str; 2], text: &str| names.map(|name| fixture.map(name, text));
    fixture.install(&of(first, "1")).await;
    fixture.is_recorded().await;
    fixture.upgrade("v2", &of(second, "2")).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "a", "2").await;
    fixture.is_recorded().await;
    wait_deleted(fixture.maps(), "b").await;

    // A rollback needs nothing but the record.
    let provisioner = stage.provisioner().await;
    provisioner.signal("STOP").await;
    fixture.change(json!({"rollbackTo": 1})).await;
    stage.cluster.fill_etcd(true).await.unwrap();
    provisioner.signal("CONT").await;
    until(
        "the message",
        async || provisioner.log(),
        |log| {
            log.contains("none of its objects is applied")
                && log.contains("database space exceeded")
        },
    )
    .await;
    observe(OBSERVATION, async || {
        let texts = [fixture.text("a").await, fixture.text("b").await];
        assert_eq!(texts, [Some("2".to_owned()), None]);
    })
    .await;

    stage.cluster.fill_etcd(false).await.unwrap();
    fixture.has_text(ROLLOUT_TIMEOUT, "a", "1").await;
    fixture.has_text(ROLLOUT_TIMEOUT, "b", "1").await;
    fixture.is_recorded().await;
    wait_deleted(fixture.maps(), "c").await;
    assert!(!provisioner.has_ended());
    fixture.leaves_nothing().await;
}

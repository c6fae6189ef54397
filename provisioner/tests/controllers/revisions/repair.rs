//! Repair acts on each object from the revision that the object belongs to, and depends on nothing else.

use manifests::api::bundle::{Bundle, Phase};

use super::*;
use crate::catalogs::api_errors::{allow, deny_unless};
use crate::support::{Fault, Relay, define, operator_conditions};

#[tokio::test]
async fn denied_object_stops_no_repair_of_other_objects() {
    let fixture = Fixture::new(running().await, "denied").await;
    let [denied, other] = ["denied", "other"].map(|name| fixture.map(name, "1"));
    let probe: ConfigMap = serde_json::from_value(denied.clone()).unwrap();
    fixture.install(&[denied, other, fixture.web("web")]).await;
    let is_other_namespace = format!("object.metadata.namespace != '{}'", fixture.name);
    let is_other = is_other_namespace + " || object.metadata.name != 'denied'";
    let (cluster, resource) = (fixture.world.cluster, ("", "configmaps"));
    let dry_run = tests::with!(PostParams, dry_run: true);
    let attempt = async || fixture.maps().create(&dry_run, &probe).await;
    deny_unless(&is_other, cluster, "CREATE", resource, attempt).await;
    delete(&fixture.maps(), "denied").await;
    fixture.reports("nothing is done here").await;

    // The provisioner applies workloads after configuration.
    let deployments: Api<Deployment> = fixture.api();
    let altered = json!({"metadata": {"labels": {"version": "altered"}}});
    patch_as(&deployments, "web", "another-client", &altered).await;
    fixture.alter("other").await;
    let version = async || deployments.get("web").await.unwrap().labels()["version"].clone();
    let is_repaired = |version: &String| version == "1";
    futures::join!(
        until_within(REPAIR_TIMEOUT, "repaired Deployment", version, is_repaired),
        fixture.has_text(REPAIR_TIMEOUT, "other", "1"),
    );
    assert_eq!(fixture.text("denied").await, None);
    allow(cluster, "configmaps").await;
    fixture.uninstall().await;
}

async fn conditions_stay(fixture: &Fixture<'_>, expected: &[(&str, &str)]) {
    observe(2 * OBSERVATION, async || {
        let conditions = fixture.conditions().await;
        for (type_, expected) in expected {
            let found = condition(&conditions, type_).unwrap();
            tests::assert_rows!(format!("{} {}", found.status, found.reason) => *expected, "{found:?}");
        }
    })
    .await;
}

// A change of the cluster renders the bundle again. As long as the content cannot be fetched, the installation is as recorded.
#[tokio::test]
async fn lost_content_changes_no_condition_and_stops_no_repair() {
    let (cluster, _audit, _lease) = empty().await;
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    let world = World::bare(cluster);
    let mut line = Line::new(world.registry.host()).await;
    let plain = Fixture::new(&world, "lost").await;
    let objects = [plain.map("before", "1"), plain.map("after", "1")];
    let mut declared = plain.declare(&objects).await;
    plain.through(&line, &mut declared);
    plain.create(declared).await;
    let operator = Fixture::new(&world, "unrendered").await;
    let map = ("manifests/map.yaml", operator.map("kept", "1"));
    let mut declared = operator.declare_operator(&[map]).await;
    operator.through(&line, &mut declared);
    world.create(&declared).await;
    operator.wait("Installed", "True").await;

    provisioner.stop().await;
    line.cut();
    plain.alter("before").await;
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    plain.alter("after").await;
    let expected = [
        ("HasValidBundle", "True UnpackSuccessful"),
        ("Installed", "True InstallationSucceeded"),
        ("Healthy", "True Healthy"),
    ];
    conditions_stay(&plain, &expected).await;
    for name in ["before", "after"] {
        plain.has_text(ROLLOUT_TIMEOUT, name, "1").await;
    }

    provisioner.stop().await;
    define(cluster, &operator_conditions()).await;
    operator.alter("kept").await;
    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    conditions_stay(&operator, &expected[1..2]).await;
    operator.has_text(ROLLOUT_TIMEOUT, "kept", "1").await;
    plain.uninstall().await;
    operator.uninstall().await;
}

// After a restart, the watches start although the first lookup of the kinds of a group fails. Rollouts that wait for the API
// server take only a part of the workers.
#[tokio::test]
async fn failed_lookup_and_slow_rollouts_delay_no_repair() {
    /// The number of objects that the controller reconciles at once.
    const SLOW: usize = 16;
    let (cluster, _audit, _lease) = empty().await;
    let relay = Relay::new(cluster).await;
    let world = World::bare(cluster);
    let provisioner = Provisioner::start(cluster, relay.options()).await;
    let other = Fixture::new(&world, "kept").await;
    let objects = [other.map("kept", "1"), other.web("web")];
    other.install(&objects).await;
    let deleted = Fixture::new(&world, "deleted").await;
    deleted.install(&[deleted.map("deleted", "1")]).await;
    provisioner.kill().await;

    relay.fails(Fault::Failed(&["/apis/apps/v1"]));
    let provisioner = Provisioner::start(cluster, relay.options()).await;
    let failure = "failed to list the served APIs for the watches of an instance; retrying";
    provisioner.wait_log(failure).await;
    relay.restore();
    let deployments: Api<Deployment> = other.api();
    delete(&deployments, "web").await;
    let deployment = async || deployments.get_opt("web").await.unwrap();
    // The lookup is repeated after 15 seconds.
    until_within(
        2 * ROLLOUT_TIMEOUT,
        "recreated",
        deployment,
        Option::is_some,
    )
    .await;

    // The API server answers no request for objects in the namespace of the slow instances.
    let slow = unique("slow");
    world.apply(&namespace_object(&slow)).await;
    let path: &'static str = format!("/namespaces/{slow}/").leak();
    relay.fails(Fault::Silent(vec![path].leak()));
    let names: Vec<_> = (0..SLOW).map(|number| format!("{slow}-{number}")).collect();
    for name in &names {
        let bundle = plain(&[config_map(&slow, name, "1")]);
        let pushed = world.push(&format!("{name}:v1"), &bundle).await;
        world.instance(name, "plain", image(&pushed)).await;
    }
    let unpacked = async || {
        let mut bundles = list(&world.api::<Bundle>()).await;
        bundles.retain(|bundle| {
            let phase = bundle.status.as_ref().and_then(|status| status.phase);
            bundle.name_any().starts_with(&slow) && phase == Some(Phase::Unpacked)
        });
        bundles.len()
    };
    let are_all = |count: &usize| *count == SLOW;
    becomes("all slow Bundles unpacked", unpacked, are_all).await;
    // The rollouts begin.
    sleep(Duration::from_secs(1)).await;

    other.alter("kept").await;
    let instances: Api<BundleInstance> = world.api();
    delete(&instances, &deleted.name).await;
    let instance = async || instances.get_opt(&deleted.name).await.unwrap();
    futures::join!(
        until_within(REPAIR_TIMEOUT, "deleted", instance, Option::is_none),
        other.has_text(REPAIR_TIMEOUT, "kept", "1"),
    );

    relay.restore();
    for name in &names {
        delete(&instances, name).await;
    }
    for name in &names {
        wait_deleted(instances.clone(), name).await;
    }
    other.uninstall().await;
}

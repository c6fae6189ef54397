//! Repair acts on each object from the revision that the object belongs to, and depends on nothing else.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use manifests::api::bundle::{Bundle, Phase};

use super::*;
use crate::support::{Fault, Relay, bind, define, operator_conditions, service_account};

/// The message of the admission policies.
const DENIED: &str = "denied by the policy of this test";

impl Fixture<'_> {
    /// Denies writes of ConfigMaps for which a CEL expression is false, and waits until a write of this one is denied.
    async fn deny_unless(&self, expression: &str, map: &str) {
        let version = "admissionregistration.k8s.io/v1";
        let metadata = json!({"name": self.name});
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": self.namespace()}});
        let resources = json!([{
            "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"],
        }]);
        let policy = json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail", "validations": [{"expression": expression, "message": DENIED}],
                "matchConstraints": {"namespaceSelector": selector, "resourceRules": resources},
            },
        });
        let binding = json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
            "spec": {"policyName": self.name, "validationActions": ["Deny"]},
        });
        self.world.apply(&policy).await;
        self.world.apply(&binding).await;
        let manager = MANAGER.to_owned();
        let params = tests::with!(PatchParams, dry_run: true, field_manager: Some(manager));
        let probe = Patch::Merge(json!({"metadata": {"labels": {"probe": "yes"}}}));
        within(ROLLOUT_TIMEOUT, "a denied write", async || {
            match self.maps().patch(map, &params, &probe).await {
                Err(kube::Error::Api(status)) if status.message.contains(DENIED) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    async fn allow(&self) {
        delete::<ValidatingAdmissionPolicyBinding>(&self.world.api(), &self.name).await;
    }
}

// The repair of an object continues while another object of the same instance cannot be applied.
#[tokio::test]
async fn denied_object_stops_no_repair_of_other_objects() {
    let fixture = Fixture::new(running().await, "denied").await;
    let [denied, other] = ["denied", "other"].map(|name| fixture.map(name, "1"));
    fixture.install(&[denied, other, fixture.web("web")]).await;
    let is_other = "object.metadata.name != 'denied'";
    fixture.deny_unless(is_other, "denied").await;
    delete(&fixture.maps(), "denied").await;
    fixture.reports(DENIED).await;

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
    fixture.allow().await;
    fixture.uninstall().await;
}

async fn conditions_stay(fixture: &Fixture<'_>, expected: &[(&str, &str)]) {
    observe(2 * OBSERVATION, async || {
        let conditions = fixture.conditions().await;
        for (type_, expected) in expected {
            let found = condition(&conditions, type_).unwrap();
            let text = format!("{} {}", found.status, found.reason);
            assert_eq!(text, *expected, "{found:?}");
        }
    })
    .await;
}

// An installed revision needs neither the content store nor the registry: the loss of both changes no condition and stops
// no repair. A change of the cluster renders the bundle again. As long as the content is lost and cannot be fetched, the
// installation is as recorded.
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
        let text = plain.text(name).await;
        assert_eq!(text.as_deref(), Some("1"), "{name} is not repaired");
    }

    provisioner.stop().await;
    define(cluster, &operator_conditions()).await;
    operator.alter("kept").await;
    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    conditions_stay(&operator, &expected[1..2]).await;
    let text = operator.text("kept").await;
    assert_eq!(text.as_deref(), Some("1"), "not repaired");
    plain.uninstall().await;
    operator.uninstall().await;
}

// A revision is repaired with its own ServiceAccount, also after the spec names another one that is rejected.
#[tokio::test]
async fn rejected_service_account_repairs_nothing() {
    let fixture = Fixture::new(running().await, "account").await;
    let namespace = fixture.namespace();
    let (cluster, space) = (fixture.world.cluster, Some(namespace));
    let first = service_account(cluster, namespace, "first").await;
    let second = service_account(cluster, namespace, "second").await;
    bind(cluster, space, "first", "cluster-admin", &first).await;
    let mut declared = fixture.declare(&[fixture.map("kept", "1")]).await;
    declared.spec.service_account = Some(first);
    fixture.create(declared).await;

    fixture.change(json!({"serviceAccount": second})).await;
    fixture.reports(&format!("{namespace}/second")).await;
    // The provisioner's own account has permission to write the object, and must not do so.
    let first = format!("system:serviceaccount:{namespace}:first");
    let is_first = format!(
        "request.userInfo.username == '{first}' || !has(request.options.fieldManager) \
         || request.options.fieldManager != '{MANAGER}'"
    );
    fixture.deny_unless(&is_first, "kept").await;
    fixture.alter("kept").await;
    fixture.has_text(REPAIR_TIMEOUT, "kept", "1").await;
    fixture.allow().await;
    fixture.uninstall().await;
}

// After a restart, the watches start although the API server fails the first request for the kinds of a group.
#[tokio::test]
async fn failed_lookup_of_kinds_delays_watches_by_seconds() {
    let (cluster, _audit, _lease) = empty().await;
    let relay = Relay::new(cluster).await;
    let world = World::bare(cluster);
    let provisioner = Provisioner::start(cluster, relay.options()).await;
    let fixture = Fixture::new(&world, "unseen").await;
    fixture.install(&[fixture.web("web")]).await;
    provisioner.kill().await;

    relay.fails(Fault::Failed(&["/apis/apps/v1"]));
    let provisioner = Provisioner::start(cluster, relay.options()).await;
    let failure = "failed to list the served APIs for the watches of an instance; retrying";
    provisioner.wait_log(failure).await;
    relay.restore();
    let deployments: Api<Deployment> = fixture.api();
    delete(&deployments, "web").await;
    let deployment = async || deployments.get_opt("web").await.unwrap();
    becomes("recreated", deployment, Option::is_some).await;
    fixture.uninstall().await;
}

// Rollouts take a part of the workers: those that wait for the API server delay neither the repair nor the deletion of
// another instance.
#[tokio::test]
async fn slow_rollouts_delay_no_other_instance() {
    /// The number of objects that the controller reconciles at once.
    const SLOW: usize = 16;
    let (cluster, _audit, _lease) = empty().await;
    let relay = Relay::new(cluster).await;
    let provisioner = Provisioner::start(cluster, relay.options()).await;
    let world = World::with_provisioner(cluster, provisioner);
    let other = Fixture::new(&world, "kept").await;
    other.install(&[other.map("kept", "1")]).await;
    let deleted = Fixture::new(&world, "deleted").await;
    deleted.install(&[deleted.map("deleted", "1")]).await;

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

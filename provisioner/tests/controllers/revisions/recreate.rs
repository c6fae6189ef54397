//! Objects whose new form changes immutable fields: rejected, or deleted and created again.

use futures::TryStreamExt as _;
use k8s_openapi::api::{batch::v1::Job, core::v1::Service, rbac::v1::RoleBinding};
use kube::api::{WatchEvent, WatchParams};
use manifests::api::bundle_instance::{Recreate, Upgrade};

use super::*;
use crate::support::{ApiObject, notes};

impl Fixture<'_> {
    fn fixed(&self, text: &str) -> Value {
        tests::with!(self.map("fixed", text) => |map| map["immutable"] = json!(true))
    }

    /// Returns a RoleBinding and two Roles, one of which it refers to.
    fn binding(&self, role: &str) -> [Value; 3] {
        let group = "rbac.authorization.k8s.io";
        let version = format!("{group}/v1");
        let role_of = |name| self.object(&version, "Role", name, &json!({"rules": []}));
        let reference = json!({"roleRef": {"apiGroup": group, "kind": "Role", "name": role}});
        let binding = self.object(&version, "RoleBinding", "binding", &reference);
        [role_of("one"), role_of("two"), binding]
    }

    async fn declare_permitted(&self, objects: &[Value]) -> BundleInstance {
        tests::with!(self.declare(objects).await => spec.upgrade: Some(Upgrade { recreate: Recreate::WhenImmutable }))
    }

    async fn uid<K>(&self, name: &str) -> Option<String>
    where
        K: ApiObject + kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.api::<K>().get(name).await.unwrap().uid()
    }

    async fn refused(&self) -> String {
        self.has_reason("Installed UpgradeFailed").await;
        self.condition("Installed").await.1
    }
}

// The message names both remedies: an admin may delete the objects one after the other, or change the policy.
#[tokio::test]
async fn immutable_objects_are_not_upgraded_without_permission() {
    let fixture = Fixture::new(running().await, "never").await;
    let objects = |text: &str, role: &str| {
        let maps = [fixture.fixed(text), fixture.map("other", text)];
        [&maps[..], &fixture.binding(role)].concat()
    };
    fixture.install(&objects("1", "one")).await;
    let uids = async || {
        let fixed = fixture.uid::<ConfigMap>("fixed").await;
        (fixed, fixture.uid::<RoleBinding>("binding").await)
    };
    let before = uids().await;
    fixture.upgrade("v2", &objects("2", "two")).await;
    let message = fixture.refused().await;
    let space = &fixture.name;
    for line in [
        format!("ConfigMap {space}/fixed: immutable fields changed: data; "),
        format!("RoleBinding {space}/binding: immutable fields changed: roleRef; "),
    ] {
        let remedy = "set spec.upgrade.recreate: WhenImmutable, or delete the object";
        assert_has(&message, &(line + remedy));
    }
    assert_has(&message, "is still installed");
    fixture.has_reason("Stalled Blocked").await;
    assert_eq!(uids().await, before);
    assert_eq!(fixture.text("other").await.as_deref(), Some("1"));
    assert_eq!(fixture.read().await.status.unwrap().revisions.len(), 1);

    delete(&fixture.maps(), "fixed").await;
    let is_other = |text: &String| !text.contains("/fixed:") && text.contains("/binding:");
    let message = async || fixture.condition("Installed").await.1;
    until("refused for the other object", message, is_other).await;
    assert_eq!(fixture.text("fixed").await, None);
    delete(&fixture.api::<RoleBinding>(), "binding").await;
    fixture.is_active(2).await;
    fixture.wait("Ready", "True").await;
    assert_eq!(fixture.condition("Stalled").await.0, "");
    assert_eq!(fixture.text("fixed").await.as_deref(), Some("2"));
    tests::assert_rows!(fixture.api::<RoleBinding>().get("binding").await.unwrap().role_ref.name => "two");
    tests::assert_rows!(notes(fixture.world, &fixture.name, "Recreated").await => [""; 0]);

    // A change of the policy continues a rejected upgrade at once.
    fixture.upgrade("v3", &objects("3", "two")).await;
    fixture.refused().await;
    let permission = json!({"upgrade": {"recreate": "WhenImmutable"}});
    fixture.change(permission).await;
    fixture.has_text(REPAIR_TIMEOUT, "fixed", "3").await;
    fixture.is_active(3).await;
    fixture.uninstall().await;
}

#[tokio::test]
async fn permitted_upgrades_and_rollbacks_recreate_objects() {
    let fixture = Fixture::new(running().await, "when").await;
    let objects = |text: &str, role: &str| {
        let mut spec = json!({"ports": [{"port": 80}]});
        if role == "two" {
            spec["clusterIP"] = json!("None");
        }
        let service = fixture.object("v1", "Service", "web", &json!({"spec": spec}));
        let maps = [fixture.fixed(text), fixture.map("other", text)];
        let workload = [fixture.web(role), service];
        [&maps[..], &workload, &fixture.binding(role)].concat()
    };
    let declared = fixture.declare_permitted(&objects("1", "one")).await;
    fixture.create(declared).await;
    let uids = async || {
        [
            fixture.uid::<ConfigMap>("fixed").await,
            fixture.uid::<Deployment>("web").await,
            fixture.uid::<Service>("web").await,
            fixture.uid::<RoleBinding>("binding").await,
        ]
    };
    let (first, other) = (uids().await, fixture.uid::<ConfigMap>("other").await);
    fixture.upgrade("v2", &objects("2", "two")).await;
    fixture.is_active(2).await;
    fixture.wait("Healthy", "True").await;
    let second = uids().await;
    for (before, after) in first.iter().zip(&second) {
        assert_ne!(before, after);
    }
    assert_eq!(fixture.uid::<ConfigMap>("other").await, other);
    assert_eq!(fixture.text("fixed").await.as_deref(), Some("2"));
    let web: Service = fixture.api().get("web").await.unwrap();
    assert_eq!(web.spec.unwrap().cluster_ip.as_deref(), Some("None"));
    let recreated =
        tests::pairs("ConfigMap fixed, Deployment web, RoleBinding binding, Service web");
    let space = &fixture.name;
    let note =
        |(kind, name)| format!("recreated {kind} {space}/{name}: its immutable fields changed");
    let recreated: Vec<String> = recreated.map(note).collect();
    tests::assert_rows!(notes(fixture.world, space, "Recreated").await => recreated);
    let inventory = json!(fixture.read().await.status.unwrap().inventory).to_string();
    assert!(!inventory.contains("+recreate"), "{inventory}");

    fixture.change(json!({"rollbackTo": 1})).await;
    fixture.is_active(3).await;
    let third = uids().await;
    for index in [0, 1, 3] {
        assert_ne!(second[index], third[index]);
    }
    // The API server retains the cluster IP of a Service whose new form names none.
    assert_eq!(second[2], third[2]);
    assert_eq!(fixture.text("fixed").await.as_deref(), Some("1"));
    fixture.uninstall().await;
}

// A finished Job is recreated without permission; an unfinished one is awaited.
#[tokio::test]
async fn finished_jobs_are_recreated_without_permission() {
    let fixture = Fixture::new(running().await, "job").await;
    let objects = |image: &str, text: &str| {
        // Its pod runs on no node, not even on the stand-in that other tests start.
        let pod = json!({"restartPolicy": "Never", "schedulingGates": [{"name": "example.com/never"}],
            "containers": [{"name": "main", "image": image}]});
        let spec = json!({"spec": {"template": {"spec": pod}}});
        let job = fixture.object("batch/v1", "Job", "job", &spec);
        [job, fixture.map("other", text)]
    };
    let jobs: Api<Job> = fixture.api();
    let declared = fixture.declare(&objects("example.com/a:1", "1")).await;
    fixture.world.create(&declared).await;
    fixture.wait("Installed", "True").await;
    let before = fixture.uid::<Job>("job").await;
    let changed = objects("example.com/a:2", "2");
    fixture.upgrade("v2", &changed).await;
    let fields = "immutable fields changed: spec.template; wait until the Job is finished, set";
    assert_has(fixture.refused().await, fields);
    assert_eq!(fixture.uid::<Job>("job").await, before);

    let finish = json!({"spec": {"activeDeadlineSeconds": 1}});
    patch_as(&jobs, "job", "another-client", &finish).await;
    within(4 * ROLLOUT_TIMEOUT, "recreated Job", async || {
        let found = jobs.get_opt("job").await.unwrap();
        let found = found.filter(|found| found.uid() != before);
        found.ok_or(fixture.condition("Installed").await.1)
    })
    .await;
    fixture.has_text(ROLLOUT_TIMEOUT, "other", "2").await;
    fixture.uninstall().await;
}

// An object with a finalizer is deleted and reported. In the meantime the object is not created again, and other objects
// are applied. A provisioner that is killed before the creation loses no object: the next process creates the new form,
// also while the revision cannot be rolled out, and never the older form.
#[tokio::test]
async fn object_deleted_by_a_killed_provisioner_gets_its_new_form() {
    let (cluster, _audit, _lease) = empty().await;
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    let world = World::bare(cluster);
    let fixture = Fixture::new(&world, "killed").await;
    let objects = |text: &str| [fixture.fixed(text), fixture.map("other", text)];
    let mut line = Line::new(world.registry.host()).await;
    let mut declared = fixture.declare_permitted(&objects("1")).await;
    fixture.through(&line, &mut declared);
    fixture.create(declared).await;
    fixture.set_finalizers("fixed", json!([FINALIZER])).await;
    let tag = format!("{}:v2", fixture.name);
    let pushed = world.push(&tag, &plain(&objects("2"))).await;
    let source = image(&pushed.replace(world.registry.host(), &line.host()));
    let template = json!({"template": {"spec": {"source": source}}});
    fixture.change(template).await;
    fixture.is_terminating("fixed").await;
    fixture.reports(FINALIZER).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "other", "2").await;
    assert_eq!(fixture.condition("Installed").await.0, "UpgradeFailed");
    // Other objects are repaired to their new form.
    fixture.alter("other").await;
    fixture.has_text(REPAIR_TIMEOUT, "other", "2").await;
    provisioner.kill().await;
    fixture.alter("other").await;

    // The content is lost with the store of the killed provisioner, and cannot be fetched again.
    line.cut();
    let maps = fixture.maps();
    fixture.set_finalizers("fixed", Value::Null).await;
    wait_deleted(maps.clone(), "fixed").await;
    let version = maps.list(&ListParams::default()).await.unwrap();
    let version = version.metadata.resource_version.unwrap();
    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "fixed", "2").await;
    line.restore().await;
    fixture.is_active(2).await;
    fixture.has_text(REPAIR_TIMEOUT, "other", "2").await;

    // All forms of the object since then.
    let params = WatchParams::default().disable_bookmarks();
    let params = params.fields("metadata.name=fixed").timeout(5);
    let events = maps.watch(&params, &version).await.unwrap();
    let events: Vec<WatchEvent<ConfigMap>> = events.boxed().try_collect().await.unwrap();
    assert!(!events.is_empty());
    for event in events {
        let (WatchEvent::Added(map) | WatchEvent::Modified(map)) = event else {
            panic!("{event:?}");
        };
        assert_eq!(map.data.unwrap()["text"], "2");
    }
    fixture.uninstall().await;
}

// A first installation that failed in part leaves objects behind, which the corrected bundle recreates. The annotation of
// an object precedes the policy of the spec.
#[tokio::test]
async fn a_corrected_first_installation_recreates_objects() {
    let fixture = Fixture::new(running().await, "first").await;
    let annotated = |text: &str| {
        let annotations = json!({labels::RECREATE: "WhenImmutable"});
        tests::with!(fixture.fixed(text) => |fixed| fixed["metadata"]["annotations"] = annotations)
    };
    let broken = fixture.object("v1", "Service", "broken", &json!({"spec": {"ports": []}}));
    let declared = fixture.declare(&[annotated("1"), broken]).await;
    fixture.world.create(&declared).await;
    fixture.has_reason("Installed InstallFailed").await;
    assert_eq!(fixture.text("fixed").await.as_deref(), Some("1"));
    fixture.upgrade("v2", &[annotated("2")]).await;
    fixture.has_text(REPAIR_TIMEOUT, "fixed", "2").await;
    fixture.is_active(2).await;
    fixture.uninstall().await;
}

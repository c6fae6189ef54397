//! Objects whose new form changes immutable fields: rejected, or deleted and created again.

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::{
    apps::v1::Deployment, batch::v1::Job, core::v1::Service, rbac::v1::RoleBinding,
};
use kube::{
    api::{ListParams, WatchEvent, WatchParams},
    core::NamespaceResourceScope,
};
use manifests::api::{
    bundle_instance::{Recreate, RevisionState, RevisionStatus, Upgrade},
    labels,
};

use super::*;
use crate::faults::support::empty;
use crate::support::{Options, Provisioner, notes, until};

impl Fixture<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.world.client(), self.namespace())
    }

    /// Returns a ConfigMap whose data cannot change.
    fn fixed(&self, text: &str) -> Value {
        let mut fixed = self.map("fixed", text);
        fixed["immutable"] = json!(true);
        fixed
    }

    /// Returns an object of a bundle.
    fn object(&self, api_version: &str, kind: &str, name: &str, more: &Value) -> Value {
        let mut object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": self.namespace()},
        });
        for (field, value) in more.as_object().unwrap() {
            object[field] = value.clone();
        }
        object
    }

    /// Returns a RoleBinding and two Roles, one of which it refers to.
    fn binding(&self, role: &str) -> [Value; 3] {
        let group = "rbac.authorization.k8s.io";
        let version = format!("{group}/v1");
        let role_of = |name| self.object(&version, "Role", name, &json!({"rules": []}));
        let reference = json!({"roleRef": {"apiGroup": group, "kind": "Role", "name": role}});
        [
            role_of("one"),
            role_of("two"),
            self.object(&version, "RoleBinding", "binding", &reference),
        ]
    }

    /// Publishes a plain bundle, and returns the BundleInstance that installs the bundle with a policy.
    async fn declare_with(&self, recreate: Recreate, objects: &[Value]) -> BundleInstance {
        let mut declared = self.declare(objects).await;
        declared.spec.upgrade = Some(Upgrade { recreate });
        declared
    }

    /// Installs objects with a policy.
    async fn install_with(&self, recreate: Recreate, objects: &[Value]) {
        self.create(self.declare_with(recreate, objects).await)
            .await;
    }

    async fn uid<K>(&self, name: &str) -> Option<String>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        self.api::<K>().get(name).await.unwrap().uid()
    }

    /// Waits until the revision of this number is the active one.
    async fn is_active(&self, number: i64) {
        let description = format!("active revision {number}");
        let status = async || self.read().await.status.unwrap_or_default();
        becomes(&description, status, |status| {
            let is_active = |revision: &RevisionStatus| {
                revision.number == number && revision.state == RevisionState::Active
            };
            status.revisions.last().is_some_and(is_active)
        })
        .await;
    }

    /// Waits until an upgrade is rejected, and returns the message.
    async fn refused(&self) -> String {
        self.has_reason("Installed", "UpgradeFailed").await;
        self.condition("Installed").await.1
    }

    /// Lists the notes of the Events about recreated objects, sorted.
    async fn recreated(&self) -> Vec<String> {
        notes(self.world, &self.name, "Recreated").await
    }
}

// Without permission, an upgrade that changes immutable fields is rejected before anything is applied. The message names
// the objects, the fields and both remedies. An admin may delete the objects one after the other.
#[tokio::test]
async fn immutable_objects_are_not_upgraded_without_permission() {
    let fixture = Fixture::new(running().await, "never").await;
    let objects = |text: &str, role: &str| {
        let mut objects = vec![fixture.fixed(text), fixture.map("other", text)];
        objects.extend(fixture.binding(role));
        objects
    };
    fixture.install(&objects("1", "one")).await;
    let before = (
        fixture.uid::<ConfigMap>("fixed").await,
        fixture.uid::<RoleBinding>("binding").await,
    );
    fixture.upgrade("v2", &objects("2", "two")).await;
    let message = fixture.refused().await;
    let space = fixture.namespace();
    for line in [
        format!("ConfigMap {space}/fixed: immutable fields changed: data; "),
        format!("RoleBinding {space}/binding: immutable fields changed: roleRef; "),
    ] {
        let remedy = "set spec.upgrade.recreate: WhenImmutable, or delete the object";
        assert!(message.contains(&(line + remedy)), "{message}");
    }
    assert!(message.contains("is still installed"), "{message}");
    assert_eq!(fixture.condition("Progressing").await.0, "Blocked");
    fixture.has_reason("Stalled", "Blocked").await;
    let untouched = (
        fixture.uid::<ConfigMap>("fixed").await,
        fixture.uid::<RoleBinding>("binding").await,
    );
    assert_eq!(untouched, before);
    assert_eq!(fixture.text("other").await.as_deref(), Some("1"));
    assert_eq!(fixture.read().await.status.unwrap().revisions.len(), 1);

    let refused = super::conditions::verdict(&fixture.read().await, 1);
    assert_eq!(refused.2, "Failed");
    delete(&fixture.maps(), "fixed").await;
    let is_about_the_other =
        |message: &String| !message.contains("/fixed:") && message.contains("/binding:");
    let message = async || fixture.condition("Installed").await.1;
    until("refused for the other object", message, is_about_the_other).await;
    assert_eq!(fixture.text("fixed").await, None);
    delete(&fixture.api::<RoleBinding>(), "binding").await;
    fixture.is_active(2).await;
    fixture.wait("Ready", "True").await;
    assert_eq!(fixture.condition("Stalled").await.0, "");
    assert_eq!(fixture.text("fixed").await.as_deref(), Some("2"));
    let binding: RoleBinding = fixture.api().get("binding").await.unwrap();
    assert_eq!(binding.role_ref.name, "two");
    assert_eq!(fixture.recreated().await, [] as [&str; 0]);
    fixture.uninstall().await;
}

// A change of the policy continues a rejected upgrade at once.
#[tokio::test]
async fn permission_continues_a_rejected_upgrade() {
    let fixture = Fixture::new(running().await, "later").await;
    fixture.install(&[fixture.fixed("1")]).await;
    fixture.upgrade("v2", &[fixture.fixed("2")]).await;
    fixture.refused().await;
    fixture
        .change(json!({"upgrade": {"recreate": "WhenImmutable"}}))
        .await;
    fixture.has_text(REPAIR_TIMEOUT, "fixed", "2").await;
    fixture.is_active(2).await;
    fixture.uninstall().await;
}

// With permission, objects are deleted and created in their new form, in an upgrade and in a rollback.
#[tokio::test]
async fn permitted_upgrades_and_rollbacks_recreate_objects() {
    let fixture = Fixture::new(running().await, "when").await;
    let service = |headless: bool| {
        let mut spec = json!({"ports": [{"port": 80}]});
        if headless {
            spec["clusterIP"] = json!("None");
        }
        fixture.object("v1", "Service", "web", &json!({"spec": spec}))
    };
    let objects = |text: &str, role: &str| {
        let mut objects = vec![
            fixture.fixed(text),
            fixture.map("other", text),
            fixture.web(role),
            service(role == "two"),
        ];
        objects.extend(fixture.binding(role));
        objects
    };
    fixture
        .install_with(Recreate::WhenImmutable, &objects("1", "one"))
        .await;
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
    let space = fixture.namespace();
    let note = |object: &str| {
        let cause = "its immutable fields changed";
        format!("recreated {object}: {cause}")
    };
    let notes = [
        note(&format!("ConfigMap {space}/fixed")),
        note(&format!("Deployment {space}/web")),
        note(&format!("RoleBinding {space}/binding")),
        note(&format!("Service {space}/web")),
    ];
    assert_eq!(fixture.recreated().await, notes);
    let inventory = fixture.read().await.status.unwrap().inventory.unwrap();
    let listed = serde_json::to_string(&inventory).unwrap();
    assert!(!listed.contains("+recreate"), "{listed}");

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

// The annotation of an object precedes the spec, in both directions; an unknown value counts as Never.
#[tokio::test]
async fn annotations_precede_the_spec() {
    let world = running().await;
    let remedy =
        "change its annotation core.rukpak.io/recreate in the bundle from \"always\" to Never or";
    for (spec, value, refused) in [
        (Recreate::Never, "WhenImmutable", None),
        (Recreate::WhenImmutable, "always", Some(remedy)),
    ] {
        let fixture = Fixture::new(world, "annotated").await;
        let objects = |text: &str| {
            let mut fixed = fixture.fixed(text);
            fixed["metadata"]["annotations"] = json!({labels::RECREATE: value});
            [fixed, fixture.map("other", text)]
        };
        fixture.install_with(spec, &objects("1")).await;
        let (_, installed) = fixture.condition("Installed").await;
        let warning = format!("has the invalid value {value:?}, which is treated as Never");
        assert_eq!(
            installed.contains(&warning),
            refused.is_some(),
            "{installed}"
        );
        fixture.upgrade("v2", &objects("2")).await;
        if let Some(part) = refused {
            let message = fixture.refused().await;
            assert!(message.contains(part), "{message}");
            assert_eq!(fixture.text("other").await.as_deref(), Some("1"));
        } else {
            fixture.is_active(2).await;
        }
        let text = if refused.is_some() { "1" } else { "2" };
        assert_eq!(fixture.text("fixed").await.as_deref(), Some(text));
        fixture.uninstall().await;
    }
}

// A finished Job is recreated without permission; an unfinished one is awaited.
#[tokio::test]
async fn finished_jobs_are_recreated_without_permission() {
    let fixture = Fixture::new(running().await, "job").await;
    let job = |image: &str| {
        // Its pod runs on no node, not even on the stand-in that other tests start.
        let pod = json!({
            "restartPolicy": "Never", "schedulingGates": [{"name": "example.com/never"}],
            "containers": [{"name": "main", "image": image}],
        });
        let spec = json!({"template": {"spec": pod}});
        fixture.object("batch/v1", "Job", "job", &json!({"spec": spec}))
    };
    let jobs: Api<Job> = fixture.api();
    let objects = |image: &str, text: &str| [job(image), fixture.map("other", text)];
    let declared = fixture.declare(&objects("example.com/a:1", "1")).await;
    fixture.world.create(&declared).await;
    fixture.wait("Installed", "True").await;
    let before = fixture.uid::<Job>("job").await;
    let changed = objects("example.com/a:2", "2");
    fixture.upgrade("v2", &changed).await;
    let message = fixture.refused().await;
    assert!(
        message.contains(
            "immutable fields changed: spec.template; wait until the Job is finished, set"
        ),
        "{message}"
    );
    assert_eq!(fixture.uid::<Job>("job").await, before);

    let finish = json!({"spec": {"activeDeadlineSeconds": 1}});
    patch_as(&jobs, "job", "another-client", &finish).await;
    within(4 * ROLLOUT_TIMEOUT, "recreated Job", async || {
        let found = jobs.get_opt("job").await.unwrap();
        let found = found.filter(|found| found.uid() != before);
        let message = fixture.condition("Installed").await.1;
        found.ok_or(message)
    })
    .await;
    fixture.has_text(ROLLOUT_TIMEOUT, "other", "2").await;
    fixture.uninstall().await;
}

// An object with a finalizer is deleted and reported, and the rollout ends once the finalizer is removed. In the meantime
// the object is not created again, and other objects are applied.
#[tokio::test]
async fn finalizer_delays_the_rollout_and_nothing_else() {
    let fixture = Fixture::new(running().await, "finalizer").await;
    let objects = |text: &str| [fixture.fixed(text), fixture.map("other", text)];
    fixture
        .install_with(Recreate::WhenImmutable, &objects("1"))
        .await;
    fixture.set_finalizers("fixed", json!([FINALIZER])).await;
    fixture.upgrade("v2", &objects("2")).await;
    fixture.is_terminating("fixed").await;
    fixture.reports(FINALIZER).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "other", "2").await;
    assert_eq!(fixture.condition("Installed").await.0, "UpgradeFailed");
    // Other objects are repaired to their new form.
    fixture.alter("other").await;
    fixture.has_text(REPAIR_TIMEOUT, "other", "2").await;

    fixture.set_finalizers("fixed", Value::Null).await;
    fixture.has_text(REPAIR_TIMEOUT, "fixed", "2").await;
    fixture.is_active(2).await;
    let notes = fixture.recreated().await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    fixture.uninstall().await;
}

// A provisioner that is killed between the deletion and the creation loses no object. The next process creates the new
// form, also while the revision cannot be rolled out, and never the older form.
#[tokio::test]
async fn object_deleted_by_a_killed_provisioner_gets_its_new_form() {
    let (cluster, _audit, _lease) = empty().await;
    let provisioner = Provisioner::start(cluster, Options::default()).await;
    let world = World::bare(cluster);
    let fixture = Fixture::new(&world, "killed").await;
    let objects = |text: &str| [fixture.fixed(text), fixture.map("other", text)];
    let mut line = Line::new(world.registry.host()).await;
    let permission = Recreate::WhenImmutable;
    let mut declared = fixture.declare_with(permission, &objects("1")).await;
    fixture.through(&line, &mut declared);
    fixture.create(declared).await;
    fixture.set_finalizers("fixed", json!([FINALIZER])).await;
    let tag = format!("{}:v2", fixture.name);
    let pushed = world.push(&tag, &plain(&objects("2"))).await;
    let source = image(&pushed.replace(world.registry.host(), &line.host()));
    let template = json!({"template": {"spec": {"source": source}}});
    fixture.change(template).await;
    fixture.is_terminating("fixed").await;
    provisioner.kill().await;

    // The content is lost with the store of the killed provisioner, and cannot be fetched again.
    line.cut();
    let maps = fixture.maps();
    fixture.set_finalizers("fixed", Value::Null).await;
    wait_deleted(maps.clone(), "fixed").await;
    let version = maps.list(&ListParams::default()).await.unwrap();
    let version = version.metadata.resource_version.unwrap();
    let _provisioner = Provisioner::start(cluster, Options::default()).await;
    fixture.has_text(ROLLOUT_TIMEOUT, "fixed", "2").await;
    line.mend().await;
    fixture.is_active(2).await;
    assert_eq!(fixture.text("other").await.as_deref(), Some("2"));

    // All forms of the object since then.
    let params = WatchParams::default()
        .fields("metadata.name=fixed")
        .timeout(1);
    let events = maps.watch(&params, &version).await.unwrap();
    let events: Vec<WatchEvent<ConfigMap>> = events.boxed().try_collect().await.unwrap();
    let texts: Vec<_> = events
        .iter()
        .map(|event| match event {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                map.data.clone().unwrap()["text"].clone()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(
        !texts.is_empty() && texts.iter().all(|text| text == "2"),
        "{texts:?}"
    );
    fixture.uninstall().await;
}

// A first installation that failed in part leaves objects behind, which the corrected bundle recreates.
#[tokio::test]
async fn a_corrected_first_installation_recreates_objects() {
    let fixture = Fixture::new(running().await, "first").await;
    let broken = fixture.object("v1", "Service", "broken", &json!({"spec": {"ports": []}}));
    let objects = [fixture.fixed("1"), broken];
    let permission = Recreate::WhenImmutable;
    let declared = fixture.declare_with(permission, &objects).await;
    fixture.world.create(&declared).await;
    fixture.has_reason("Installed", "InstallFailed").await;
    assert_eq!(fixture.text("fixed").await.as_deref(), Some("1"));
    fixture.upgrade("v2", &[fixture.fixed("2")]).await;
    fixture.has_text(REPAIR_TIMEOUT, "fixed", "2").await;
    fixture.is_active(2).await;
    fixture.uninstall().await;
}

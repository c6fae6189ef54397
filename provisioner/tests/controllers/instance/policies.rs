//! CRD deletion policies: on uninstall, and when the CRD leaves the bundle.

use super::*;

/// An instance with a CRD, a workload, and custom resources of a user.
struct Scene {
    world: &'static World,
    name: String,
    space: TempNamespace,
}

impl Scene {
    async fn new(prefix: &str, policy: CrdDeletionPolicy) -> Self {
        let this = Self::prepare(prefix).await;
        this.install(policy, this.widget_crd()).await;
        this
    }

    async fn prepare(prefix: &str) -> Self {
        let (world, name, space) = start(prefix).await;
        Self { world, name, space }
    }

    async fn install(&self, policy: CrdDeletionPolicy, crd: Value) {
        declare_with(self.world, &self.name, &[crd, self.operator()], |spec| {
            spec.crd_deletion_policy = policy;
            // The operator never becomes healthy in this test. CRDs are pruned nevertheless.
            spec.progress_deadline_seconds = Some(1);
        })
        .await;
        let world = self.world;
        world.wait_instance(&self.name, "Installed", "True").await;
    }

    fn widget_crd(&self) -> Value {
        support::crd(&self.group(), "Widget")
    }

    fn operator(&self) -> Value {
        deployment(self.space.name(), "operator", 1, "1", "ready")
    }

    fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    fn crd(&self) -> String {
        format!("widgets.{}", self.group())
    }

    fn crds(&self) -> Api<CustomResourceDefinition> {
        self.world.api()
    }

    fn widgets(&self, version: &str) -> Api<DynamicObject> {
        let group = self.group();
        custom_resources(self.world, self.space.name(), [&group, version, "Widget"])
    }

    async fn widget(&self, version: &str, name: &str, finalizers: &[&str]) {
        let widget = json!({"apiVersion": format!("{}/{version}", self.group()), "kind": "Widget",
            "metadata": {"name": name, "finalizers": finalizers}, "spec": {"size": 1}});
        let widget = serde_json::from_value(widget).unwrap();
        let widgets = self.widgets(version);
        eventually("a Widget can be created", async || {
            let made = widgets.create(&PostParams::default(), &widget).await;
            made.map_err(|error| error.to_string())
        })
        .await;
    }

    /// Returns the note of the Event about the retained CRD. The Event outlives the instance.
    async fn released(&self) -> String {
        let notes = async || support::notes(self.world, &self.name, "Released").await;
        let is_any = |notes: &Vec<String>| !notes.is_empty();
        let mut notes = support::until("an Event about the CRD", notes, is_any).await;
        notes.remove(0)
    }

    /// Checks that the CRD exists without an owner, and deletes the CRD.
    async fn is_kept(&self) {
        let crd = self.crds().get(&self.crd()).await.unwrap();
        assert_eq!(crd.metadata.deletion_timestamp, None);
        assert!(!crd.labels().contains_key(labels::OWNER_NAME), "{crd:?}");
        assert!(!crd.labels().contains_key(labels::OWNER_KIND), "{crd:?}");
        support::delete(&self.crds(), &self.crd()).await;
    }

    async fn request_deletion(&self) {
        support::delete(&self.world.api::<BundleInstance>(), &self.name).await;
    }

    async fn set_policy(&self, policy: &str) {
        let patch = json!({"spec": {"crdDeletionPolicy": policy}});
        change(self.world, &self.name, patch).await;
    }

    async fn is_deleted(&self) {
        wait_deleted(self.world.api::<BundleInstance>(), &self.name).await;
        wait_deleted(deployments(self.world, self.space.name()), "operator").await;
    }

    /// Returns a CRD whose conversion webhook does not exist.
    fn unconvertible(&self, stored: &str) -> Value {
        let mut crd = crd_with_v2(&self.group());
        for version in crd["spec"]["versions"].as_array_mut().unwrap() {
            version["storage"] = (version["name"] == stored).into();
        }
        let service = json!({"namespace": "default", "name": "nowhere", "path": "/convert"});
        let webhook =
            json!({"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}});
        crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
        crd
    }

    /// Makes the custom resources readable, so that the CRD can be deleted, and deletes the CRD.
    async fn is_kept_until_repaired(&self) {
        let patch = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        patch_as_other(&self.crds(), &self.crd(), patch).await;
        self.is_kept().await;
    }

    /// Waits until the inventory of the instance contains only the workload.
    async fn has_left(&self) -> BundleInstance {
        let conditions = json!([{"type": "Progressing", "status": "False"}]);
        let part = json!({"status": {"conditions": conditions, "inventory": {"count": 1}}});
        support::wait_part(self.world.api(), &self.name, part).await
    }
}

// parity: platform-19, openshift-10, g4
#[tokio::test]
async fn used_crd_is_retained_and_adopted_by_the_same_name() {
    let scene = Scene::new("in-use", CrdDeletionPolicy::DeleteIfUnused).await;
    scene.widget("v1", "precious", &[]).await;
    let uid = scene.widgets("v1").get("precious").await.unwrap().uid();
    scene.world.uninstall(&scene.name).await;
    scene.is_deleted().await;
    let parts = [
        &format!("CustomResourceDefinition {}", scene.crd()),
        &format!("1 custom resource is left ({}/precious)", scene.space),
        "delete them and then the CRD",
    ];
    has_parts(&scene.released().await, &parts);
    let policy = CrdDeletionPolicy::DeleteIfUnused;
    scene.install(policy, scene.widget_crd()).await;
    tests::assert_rows!(scene.widgets("v1").get("precious").await.unwrap().uid() => uid);

    // Without custom resources the CRD is deleted.
    support::delete(&scene.widgets("v1"), "precious").await;
    scene.world.uninstall(&scene.name).await;
    wait_deleted(scene.crds(), &scene.crd()).await;
}

// parity: i12, rukpak-41
#[tokio::test]
async fn i12_only_uninstalls_delete_custom_resources_unless_retained() {
    let scene = Scene::new("delete", CrdDeletionPolicy::Delete).await;
    let (world, space) = (scene.world, scene.space.name());
    scene.widget("v1", "held", &["example.com/operator"]).await;
    scene.widget("v1", "free", &[]).await;
    let uids = async || {
        let widgets = support::list(&scene.widgets("v1")).await;
        widgets.iter().map(DynamicObject::uid).collect::<Vec<_>>()
    };
    let before = uids().await;
    let pruned = map(space, "pruned", &[]);
    let mut objects = vec![scene.widget_crd(), scene.operator(), pruned];
    upgrade(world, &scene.name, "v2", &objects).await;
    wait_for(maps(world, space), "pruned", "applied", |_| Some(())).await;
    objects.pop();
    upgrade(world, &scene.name, "v3", &objects).await;
    wait_deleted(maps(world, space), "pruned").await;
    assert_eq!(uids().await, before);

    scene.request_deletion().await;
    let parts = [
        &format!("CustomResourceDefinition {}: ", scene.crd()),
        &format!("{space}/held"),
        "example.com/operator",
        "set spec.crdDeletionPolicy to Retain",
    ];
    wait_message(world, &scene.name, "Progressing", &parts).await;
    assert_eq!(scene.widgets("v1").get_opt("free").await.unwrap(), None);
    // The operator that has to finalize the other custom resource still exists.
    tests::assert_rows!(deployments(world, space).get("operator").await.unwrap().metadata.deletion_timestamp => None);
    tests::assert_rows!(scene.crds().get(&scene.crd()).await.unwrap().metadata.deletion_timestamp => None);

    scene.set_policy("Retain").await;
    scene.is_deleted().await;
    tests::assert_rows!(scene.widgets("v1").get("held").await.unwrap().metadata.deletion_timestamp.is_some() => true);
    finalize(&scene.widgets("v1"), "held").await;
    scene.is_kept().await;
}

#[tokio::test]
async fn retain_releases_a_crd_that_another_client_deletes() {
    let scene = Scene::new("terminating", CrdDeletionPolicy::DeleteIfUnused).await;
    scene.widget("v1", "stuck", &["example.com/absent"]).await;
    support::delete(&scene.crds(), &scene.crd()).await;
    scene.request_deletion().await;
    let parts = ["customresourcecleanup", &scene.crd()];
    wait_message(scene.world, &scene.name, "Progressing", &parts).await;
    scene.set_policy("Retain").await;
    scene.is_deleted().await;
    finalize(&scene.widgets("v1"), "stuck").await;
    wait_deleted(scene.crds(), &scene.crd()).await;
}

#[tokio::test]
async fn crds_that_leave_a_bundle_are_pruned_if_unused() {
    for (policy, why) in tests::rows![
        CrdDeletionPolicy::DeleteIfUnused => "1 custom resource is left";
        // The policy applies to the uninstall: no upgrade deletes custom resources.
        CrdDeletionPolicy::Delete => "1 custom resource is left";
        CrdDeletionPolicy::Retain => "is kept by spec.crdDeletionPolicy Retain";
    ] {
        let scene = Scene::new("retained", policy).await;
        scene.widget("v1", "precious", &[]).await;
        upgrade(scene.world, &scene.name, "v2", &[scene.operator()]).await;
        let released = scene.has_left().await.status.unwrap().released;
        assert_eq!(released.len(), 1, "{released:?}");
        has_parts(&released[0], &[&scene.crd(), why]);
        let precious = scene.widgets("v1").get("precious").await.unwrap();
        assert_eq!(precious.metadata.deletion_timestamp, None);
        tests::assert_rows!(scene.crds().get(&scene.crd()).await.unwrap().metadata.deletion_timestamp => None);
        if policy == CrdDeletionPolicy::DeleteIfUnused {
            // The CRD is added again, and is removed once it has no custom resources.
            let objects = [scene.widget_crd(), scene.operator()];
            upgrade(scene.world, &scene.name, "v3", &objects).await;
            wait_owned(scene.crds(), &scene.crd(), &scene.name).await;
            support::delete(&scene.widgets("v1"), "precious").await;
            upgrade(scene.world, &scene.name, "v4", &[scene.operator()]).await;
            wait_deleted(scene.crds(), &scene.crd()).await;
            tests::assert_rows!(scene.has_left().await.status.unwrap().released => [""; 0]);
            scene.world.uninstall(&scene.name).await;
            continue;
        }
        // The CRD is released: it outlives the instance.
        scene.set_policy("Delete").await;
        scene.world.uninstall(&scene.name).await;
        scene.widgets("v1").get("precious").await.unwrap();
        scene.is_kept().await;
    }
}

#[tokio::test]
async fn current_storage_version_needs_no_conversion() {
    let scene = Scene::prepare("stored").await;
    let policy = CrdDeletionPolicy::DeleteIfUnused;
    scene.install(policy, scene.unconvertible("v2")).await;
    scene.widget("v2", "new", &[]).await;
    scene.world.uninstall(&scene.name).await;
    assert_has(scene.released().await, "1 custom resource is left");
    scene.is_kept_until_repaired().await;
}

#[tokio::test]
async fn unreadable_custom_resources_are_reported_and_keep_their_crd() {
    let scene = Scene::prepare("unreadable").await;
    let crd = scene.unconvertible("v1");
    // The upgrade safety check cannot read the custom resources either.
    let off = json!({"spec": {"preflight": {"crdUpgradeSafety": "Off"}}});
    let policy = CrdDeletionPolicy::Delete;
    scene.install(policy, crd).await;
    change(scene.world, &scene.name, off).await;
    scene.widget("v1", "old", &[]).await;
    // The custom resource is in a version that is no longer the storage version.
    let objects = [scene.unconvertible("v2"), scene.operator()];
    upgrade(scene.world, &scene.name, "v2", &objects).await;
    let part = json!({"spec": {"versions": [{"name": "v2", "storage": true}]}});
    support::wait_part(scene.crds(), &scene.crd(), part).await;

    scene.request_deletion().await;
    let parts = [
        &scene.crd(),
        "make sure that the conversion webhook of its CRD is running",
        "set spec.crdDeletionPolicy to Retain",
    ];
    wait_message(scene.world, &scene.name, "Progressing", &parts).await;
    // The operator that could convert them still exists.
    tests::assert_rows!(deployments(scene.world, scene.space.name()).get_opt("operator").await.unwrap().is_some() => true);

    scene.set_policy("DeleteIfUnused").await;
    scene.is_deleted().await;
    let parts = [
        "failed to read the remaining custom resources",
        "conversion webhook for ",
        "repair the conversion webhook",
    ];
    has_parts(&scene.released().await, &parts);
    scene.is_kept_until_repaired().await;
}

//! A PlatformOperator records its choice and re-creates a deleted BundleInstance at that bundle.

use std::time::Duration;

use kube::api::{Patch, PatchParams};

use super::support::{Platform, optional_crd, package};
use super::*;
use crate::catalogs::api_errors::{allow, deny};

/// The operator `tide`, installed at 1.0.0, while the catalog offers 1.1.0 as well.
struct Scene {
    platform: Platform,
    server: Server,
    bundles: Vec<Value>,
    provisioner: Option<Provisioner>,
}

impl Scene {
    async fn with(platform: Platform, provisioner: Provisioner) -> Self {
        let bundles = platform.bundles("tide", &["1.0.0", "1.1.0"]).await;
        let server = platform.serve_mine(&package("tide", &bundles[..1])).await;
        platform.declare(json!({"package": {"name": "tide"}})).await;
        platform.has("tide", "1.0.0").await;
        platform.succeeds("tide", "Successfully applied").await;
        let scene = Self {
            platform,
            server,
            bundles,
            provisioner: Some(provisioner),
        };
        scene.offers(2).await
    }

    /// Serves this many versions, at the same address.
    async fn offers(mut self, versions: usize) -> Self {
        let documents = package("tide", &self.bundles[..versions]);
        self.server = self.server.replaced(&documents).await;
        self
    }

    async fn uid(&self) -> String {
        let tide = self.platform.instances().get("tide").await.unwrap();
        tide.uid().unwrap()
    }

    /// Waits until 1.0.0 is installed by a BundleInstance with another uid.
    async fn is_recreated(&self, before: &str) {
        let image = self.bundles[0]["image"].as_str().unwrap();
        let instances = self.platform.instances();
        let tide = wait_recreated(instances, "tide", Some(before.to_owned())).await;
        tests::assert_rows!(tide.spec.template.spec.source.image.unwrap().reference => image);
        self.platform.has("tide", "1.0.0").await;
        tests::assert_rows!(self.platform.choices("tide").await.contains(&"1.1.0".to_owned()) => false);
    }

    async fn annotation(&self) -> Option<String> {
        let tide = self.platform.operators().get("tide").await.unwrap();
        tide.annotations().get(labels::CHOSEN_BUNDLE).cloned()
    }

    async fn annotate(&self, value: Value) {
        let patch = json!({"metadata": {"annotations": {labels::CHOSEN_BUNDLE: value}}});
        self.platform.edit("tide", patch).await;
    }

    /// Changes the annotation and deletes the BundleInstance while no provisioner runs.
    async fn forge(&mut self, value: Value) {
        drop(self.provisioner.take());
        self.annotate(value).await;
        delete(&self.platform.instances(), "tide").await;
        self.provisioner = Some(self.platform.start().await);
    }
}

#[tokio::test]
async fn choice_is_recorded_and_deleted_instance_is_recreated() {
    let platform = Platform::new().await;
    // Failed status writes back off. The operator has no catalog yet.
    platform.declare(json!({"package": {"name": "tide"}})).await;
    let status = ("platform.openshift.io", "platformoperators/status");
    let operators = platform.operators();
    let patch = Patch::Merge(json!({"status": {"clusterMinor": "1.1"}}));
    let params = tests::with!(PatchParams::default() => dry_run: true);
    let attempt = async || operators.patch_status("tide", &params, &patch).await;
    deny(platform.world.cluster, "UPDATE", status, attempt).await;
    let provisioner = platform.start().await;
    let failures = async || -> Vec<jiff::Timestamp> {
        let mut lines = provisioner.lines();
        lines.retain(|line| line["message"] == "reconcile failed; retrying");
        let times = lines.iter().map(|line| line["timestamp"].as_str().unwrap());
        times.map(|time| time.parse().unwrap()).collect()
    };
    let all = until("six failures", failures, |all| all.len() >= 6).await;
    let delays = all.windows(2).map(|pair| pair[1].duration_since(pair[0]));
    let delays: Vec<Duration> = delays.map(|delay| delay.try_into().unwrap()).collect();
    // Watch events also cause reconciles at the start. Without back-off, the interval was two seconds.
    tests::assert_rows!(*delays.iter().max().unwrap() >= Duration::from_secs(5) => true, "{delays:?}");
    allow(platform.world.cluster, status.1).await;
    // A change of the operator resets the back-off.
    let patch = json!({"spec": {"version": ">=1.0.0"}});
    platform.edit("tide", patch).await;

    let mut scene = Scene::with(platform, provisioner).await;
    let minor = "1.1.0 is a new minor version";
    scene.platform.waits("tide", "1.1.0", minor).await;
    let before = scene.uid().await;
    delete(&scene.platform.instances(), "tide").await;
    scene.is_recreated(&before).await;
    scene.platform.waits("tide", "1.1.0", minor).await;

    // The record survives a restart of the provisioner, and a loss of the annotation's value.
    let before = scene.uid().await;
    scene.forge(Value::Null).await;
    scene.is_recreated(&before).await;
    tests::assert_has(scene.annotation().await.unwrap(), "tide.v1.0.0");
}

#[tokio::test]
async fn annotation_records_the_choice_for_the_openshift_crd() {
    let platform = Platform::bare().await;
    for crd in [crd(PLATFORM_OPERATOR), optional_crd("CatalogSource")] {
        platform.define(&crd).await;
    }
    let provisioner = platform.start().await;
    let mut scene = Scene::with(platform, provisioner).await;
    let recorded = scene.annotation().await.unwrap();
    // While the BundleInstance exists, a changed annotation is repaired.
    scene.annotate("garbage".into()).await;
    let repaired = json!({"metadata": {"annotations": {labels::CHOSEN_BUNDLE: recorded}}});
    wait_part(scene.platform.operators(), "tide", repaired).await;

    // An image that no catalog offers is not installed, and neither is another one.
    let mut edited: Value = serde_json::from_str(&recorded).unwrap();
    edited["image"] = format!("127.0.0.1:1/evil@sha256:{}", "6".repeat(64)).into();
    scene.forge(edited.to_string().into()).await;
    let other = "catalog catalogs/mine offers another image under that name";
    let rejected = scene
        .platform
        .becomes("tide", "False", "InstallPending", other);
    rejected.await;
    let instance = scene.platform.instances().get_opt("tide").await.unwrap();
    assert!(instance.is_none(), "{instance:?}");
    scene.annotate(recorded.into()).await;
    scene.platform.has("tide", "1.0.0").await;
}

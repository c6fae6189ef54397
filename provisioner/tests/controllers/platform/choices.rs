//! A PlatformOperator records its choice and re-creates a deleted BundleInstance at that bundle.

use kube::ResourceExt as _;
use manifests::api::{bundle_instance::BundleInstance, labels};
use serde_json::{Value, json};

use super::backoff::failed_status_writes_back_off;
use super::support::{Platform, package};
use crate::catalogs::external_servers::Server;
use crate::openshift::{PLATFORM_OPERATOR, crd};
use crate::support::{Provisioner, wait_for};

/// The operator `tide`, installed at 1.0.0, while the catalog offers 1.1.0 as well.
struct Scene {
    platform: Platform,
    server: Server,
    bundles: Vec<Value>,
    provisioner: Option<Provisioner>,
}

// === impl Scene ===

impl Scene {
    async fn new(platform: Platform) -> Self {
        let provisioner = platform.start().await;
        Self::with(platform, provisioner).await
    }

    async fn with(platform: Platform, provisioner: Provisioner) -> Self {
        let bundles = platform.bundles("tide", &["1.0.0", "1.1.0"]).await;
        let server = platform.serve_mine(&package("tide", &bundles[..1])).await;
        platform.want(json!({"package": {"name": "tide"}})).await;
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
        let tide = wait_for(instances, "tide", "re-created", |instance| {
            (instance.uid().as_deref() != Some(before)).then_some(())
        })
        .await;
        let source = tide.spec.template.spec.source.image.unwrap();
        assert_eq!(source.reference, image);
        self.platform.has("tide", "1.0.0").await;
        let choices = self.platform.choices("tide").await;
        assert!(!choices.contains(&"1.1.0".to_owned()), "{choices:?}");
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
        self.platform.delete::<BundleInstance>("tide").await;
        self.provisioner = Some(self.platform.start().await);
    }
}

#[tokio::test]
async fn choice_is_recorded_and_deleted_instance_is_recreated() {
    let platform = Platform::new().await;
    let provisioner = failed_status_writes_back_off(&platform).await;
    let mut scene = Scene::with(platform, provisioner).await;
    let operators = scene.platform.operators();
    wait_for(operators, "tide", "told", |operator| {
        let status = operator.status.as_ref()?;
        status.active_bundle_instance.as_ref().map(drop)
    })
    .await;
    let minor = "1.1.0 is a new minor version";
    scene.platform.waits("tide", "1.1.0", minor).await;
    let before = scene.uid().await;
    scene.platform.delete::<BundleInstance>("tide").await;
    scene.is_recreated(&before).await;
    scene.platform.waits("tide", "1.1.0", minor).await;

    // The record survives a restart of the provisioner, and a loss of the annotation's value.
    let before = scene.uid().await;
    scene.forge(Value::Null).await;
    scene.is_recreated(&before).await;
    let annotation = scene.annotation().await.unwrap();
    assert!(annotation.contains("tide.v1.0.0"), "{annotation}");
    scene.server.stop().await;
}

#[tokio::test]
async fn annotation_records_the_choice_for_the_openshift_crd() {
    let platform = Platform::bare().await;
    platform.define(&crd(PLATFORM_OPERATOR)).await;
    platform.define_kind("CatalogSource").await;
    let mut scene = Scene::new(platform).await;
    let recorded = scene.annotation().await.unwrap();
    let before = scene.uid().await;
    scene.forge(recorded.clone().into()).await;
    scene.is_recreated(&before).await;

    // While the BundleInstance exists, a changed annotation is repaired.
    scene.annotate("garbage".into()).await;
    wait_for(scene.platform.operators(), "tide", "repaired", |tide| {
        (tide.annotations().get(labels::CHOSEN_BUNDLE)? == &recorded).then_some(())
    })
    .await;

    // An image that no catalog offers is not installed, and neither is another one.
    let mut edited: Value = serde_json::from_str(&recorded).unwrap();
    edited["image"] = format!("127.0.0.1:1/evil@sha256:{}", "6".repeat(64)).into();
    scene.forge(edited.to_string().into()).await;
    let other = "catalog catalogs/mine offers another image under that name";
    let refused = scene
        .platform
        .becomes("tide", "False", "InstallPending", other);
    refused.await;
    let instance = scene.platform.instances().get_opt("tide").await.unwrap();
    assert!(instance.is_none(), "{instance:?}");
    scene.annotate(recorded.into()).await;
    scene.platform.has("tide", "1.0.0").await;

    // Without the annotation, a bundle is chosen again.
    scene.forge(Value::Null).await;
    scene.platform.has("tide", "1.1.0").await;
    scene.server.stop().await;
}

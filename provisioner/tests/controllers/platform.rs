//! Platform operators on a control plane of their own, with catalogs that are served for real.

mod rights;
pub(crate) mod stage;

use kube::api::{Patch, PatchParams};
use manifests::api::{instance::BundleInstance, platform::PlatformOperator};
use serde_json::json;

use self::stage::{Platform, package};
use crate::{
    catalogs::served::Server,
    support::{eventually, wait_for},
};

#[tokio::test]
async fn what_is_there_before_the_provisioner_is_installed_and_patched() {
    let platform = Platform::new().await;
    let bundles = platform.bundles("tide", &["1.0.0", "1.0.1"]).await;
    let server = Server::of(None, &package("tide", &bundles[..1])).await;
    platform.want(json!({"package": {"name": "tide"}})).await;
    platform.want(json!({"package": {"name": "typo"}})).await;
    platform.serve("mine", &server).await;
    let _provisioner = platform.start().await;
    platform
        .becomes("tide", "True", "InstallSuccessful", "Successfully applied")
        .await;
    platform
        .becomes("typo", "False", "SourceFailed", "failed to find candidate")
        .await;
    let operators = platform.world.api::<PlatformOperator>();
    let tide = operators.get("tide").await.unwrap();
    assert_eq!(tide.active_instance(), Some("tide"));
    let status = tide.status.unwrap();
    assert_eq!(status.chosen_bundle.unwrap().name, "tide.v1.0.0");

    // Somebody meddles; the choice comes back, what he added stays.
    let instances = platform.world.api::<BundleInstance>();
    let patch = json!({
        "metadata": {"annotations": {"mine": "x"}},
        "spec": {"template": {"spec": {"source": {"image": {"ref": "127.0.0.1:1/other:v1"}}}}},
    });
    instances
        .patch("tide", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let image = bundles[0]["image"].as_str().unwrap().to_owned();
    eventually("it is put back", async || {
        let tide = instances.get("tide").await.unwrap();
        let source = tide.spec.template.spec.source.image.unwrap().reference;
        let kept = tide.metadata.annotations.unwrap().contains_key("mine");
        let status = operators.get("tide").await.unwrap().status;
        (source == image && kept)
            .then_some(())
            .ok_or(format!("{source} {status:?}"))
    })
    .await;

    // The catalog gets a patch: another server comes in place of the one there was.
    let address = server.stop().await;
    let server = Server::of(Some(address), &package("tide", &bundles)).await;
    wait_for(operators, "tide", "patched", |tide| {
        let chosen = tide.status.as_ref()?.chosen_bundle.as_ref()?;
        (chosen.name == "tide.v1.0.1").then_some(())
    })
    .await;
    wait_for(instances, "tide", "installed", |tide| {
        let status = tide.status.as_ref()?;
        (status.facts.version.as_deref() == Some("1.0.1")).then_some(())
    })
    .await;
    server.stop().await;
}

//! Platform operators on control planes of their own, with catalogs that are served for real.
//!
//! What a platform operator has to do, and what tries it; what ClusterOperators tell of it is tried with
//! `provisioner::platform::aggregate` and in `openshift`.
//!
//! | given | then | tried by |
//! | --- | --- | --- |
//! | a valid operator | `InstallSuccessful`, `Successfully applied` | `what_is_there_before_the_provisioner…`, here |
//! | an apiserver that is not there yet, is busy, and comes | the operator is installed, and nothing was restarted | `day0` |
//! | a namespace and an account of the operator's own | objects are there, with the account's rights or not at all | `day0` |
//! | what fails again and again | it is tried ever more slowly | `pauses` |
//! | an unknown package | `SourceFailed`, `failed to find candidate` | the same |
//! | a good and a bad one | the good one stays installed | the same |
//! | an operator | a BundleInstance of its name with the right image, which the status names | the same |
//! | somebody edits the BundleInstance | it is put back | the same; `conflicts::meddling_is_undone` |
//! | the operator is deleted, also in the foreground | so is what it has installed | `conflicts::an_operator_goes…` |
//! | a bundle without AllNamespaces | `UnpackFailed` with the conversion's words | `catalogs::what_cannot_be_installed…` |
//! | conditions of the BundleInstance, absent, odd, failing, good | the condition Installed | `installed::tests`, `status::tests` |
//! | a catalog that is missing, garbage, or has no address | it is said, and tried again when it changes | `catalogs::catalogs_come_in_any_order…`, `catalogs::served` |
//! | versions 1.9.0, 1.10.0, 2.0.0-rc.1, and a channel that is not the default | 1.10.0 | `catalogs::what_cannot_be_installed…` |
//! | a stream that breaks off | an error, and no choice from a part | `suspicion` and `reading` of the catalog's tests; `catalogs::broken`; `plan::tests` |
//! | two operators of one package | the second names the first, and has it when that goes | `conflicts` |
//! | a package `Foo_Bar!`, or of 57 characters | refused; where the definition takes it, not served | `api::platform`; `openshift`, `plan::tests::hostile` |
//! | a maximum below the cluster | the next lower bundle, or `SourceFailed` | `openshift`, `plan::tests` |

mod catalogs;
mod conflicts;
mod day0;
mod kubernetes;
mod openshift;
mod pauses;
mod rights;
pub(crate) mod stage;
mod upgrades;

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

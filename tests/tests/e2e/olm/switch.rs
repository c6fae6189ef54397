//! Templates of catalog images that OLM serves: the provisioner beside the real catalog-operator, on a cluster that is
//! upgraded. tests/e2e.sh runs this test after the others of its node and in a separate process, because the test replaces the
//! API server.
//!
//! ```text
//!  annotation ── provisioner ── spec.image ── catalog-operator ── pod ── Subscription ── operator
//!                     └── conditions, applied beside the status that catalog-operator writes
//! ```

use std::time::Duration;

use cluster::node;
use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::apis::meta::v1::Time};
use kube::ResourceExt as _;
use manifests::api::{catalog_source::CatalogSource, labels::CATALOG_IMAGE_TEMPLATE};
use serde_json::json;

use super::{
    super::{
        catalogs,
        day_0::MARKETPLACE,
        environment::{CORE, SYSTEM, World, apply_install_file, merge},
        wait::{self, eventually},
    },
    command::Space,
    index::{self, Version},
};

const NAME: &str = "follow";
/// Number of changes of the CatalogSource that neither controller has to answer.
const ROUNDS: u32 = 10;

impl World {
    async fn becomes(
        &self,
        expectation: &str,
        expected: impl Fn(&CatalogSource) -> bool,
    ) -> CatalogSource {
        let sources = self.sources(MARKETPLACE);
        wait::until_within(wait::LONG_TIMEOUT, sources, NAME, expectation, expected).await
    }
}

/// Waits until OLM serves the catalog from one pod, which has this image.
async fn wait_served_from(space: &Space, image: &str) {
    let path = "jsonpath={.items[*].spec.containers[0].image}";
    let pods = format!("get pods -l olm.catalogSource={NAME} -o {path}");
    let images = async || Ok::<_, String>(space.kubectl(&pods));
    wait::equal(image, images).await;
    let state = ".status.connectionState.lastObservedState";
    space.wait(&format!("catalogsources/{NAME}"), state, "READY");
}

/// Status and message of the condition that reports the template.
fn reported(source: &CatalogSource) -> Option<(&str, &str)> {
    let mut all = source.status.iter().flat_map(|status| &status.conditions);
    let found = all.find(|condition| condition.type_ == "core.rukpak.io/TemplateResolved")?;
    Some((&found.status, &found.message))
}

/// Returns the time of the provisioner's last write of the status.
fn written(source: &CatalogSource) -> Option<Time> {
    let mut all = source.metadata.managed_fields.iter().flatten();
    let entry = all.find(|entry| {
        entry.manager.as_deref() == Some("rukpak") && entry.subresource.as_deref() == Some("status")
    });
    entry?.time.clone()
}

/// Waits until neither OLM nor the provisioner writes.
async fn wait_at_rest(world: &World) {
    let sources = world.sources(MARKETPLACE);
    let version = async || sources.get(NAME).await.unwrap().resource_version();
    eventually("no writes", async || {
        let before = version().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let versions = (before, version().await);
        let is_at_rest = versions.0 == versions.1;
        is_at_rest.then_some(()).ok_or(format!("{versions:?}"))
    })
    .await;
}

/// Asserts that neither OLM nor the provisioner answers changes that concern neither of them.
async fn assert_at_rest(world: &World) {
    wait_at_rest(world).await;
    let sources = world.sources(MARKETPLACE);
    let at_rest = written(&sources.get(NAME).await.unwrap());
    assert!(at_rest.is_some());
    for round in 0..ROUNDS {
        let note = json!({"metadata": {"annotations": {"example.com/note": round.to_string()}}});
        merge(&sources, NAME, &note).await;
    }
    wait_at_rest(world).await;
    assert_eq!(written(&sources.get(NAME).await.unwrap()), at_rest);
}

// parity: switch-5, switch-16
#[tokio::test]
async fn template_resolves_and_olm_rolls_its_pod_after_an_upgrade() {
    // The provisioner reads the CatalogSources of this namespace without a setting.
    let space = Space::with_group(MARKETPLACE).await;
    let world = space.world;
    apply_install_file(world.cluster);
    world.runs(SYSTEM, CORE).await;
    let minor = world.kubernetes().await;
    let [first, second] = ["1.0.0", "1.1.0"].map(|number| Version::publish("sponge", number));
    let tag = |minor: u64| format!("{NAME}:v1.{minor}-olm0.45");
    let before = index::publish_serving(&tag(minor), &[&first]);
    let after = index::publish_serving(&tag(minor + 1), &[&first, &second]);
    let variables =
        "{kube_major_version}.{kube_minor_version}-olm{olm_major_version}.{olm_minor_version}";
    let template = format!("{}/catalogs/{NAME}:v{variables}", node::REGISTRY);
    let pod = json!({"securityContextConfig": "restricted"});
    let spec = json!({"sourceType": "grpc", "image": before, "grpcPodConfig": pod});
    let mut source = catalogs::source(MARKETPLACE, NAME, &spec);
    source["metadata"]["annotations"] = json!({CATALOG_IMAGE_TEMPLATE: template});
    world.apply(source).await;

    // No object declares the version of this OLM. The condition reports that, and OLM's writes keep it.
    let reason_text = "Cannot construct catalog image reference, variables \"olm_major_version\", \"olm_minor_version\" couldn't be \
               resolved; cannot determine the version of OLM: ";
    let is_unresolved = |source: &CatalogSource| {
        let (status, message) = reported(source).unwrap_or_default();
        status == "False" && message.starts_with(reason_text)
    };
    world.becomes("unresolved", is_unresolved).await;
    wait_served_from(&space, &before).await;
    world.becomes("unresolved", is_unresolved).await;
    // A client that drops the provisioner's conditions.
    let status = ["--subresource=status", "--type=merge"];
    let none = ["-p", r#"{"status":{"conditions":null}}"#];
    space.kubectl(&[&["patch", "catalogsource", NAME], &status[..], &none].concat());
    world.becomes("unresolved again", is_unresolved).await;

    let label = json!({"metadata": {"labels": {"olm.version": "0.45.0"}}});
    merge(&world.api::<Deployment>("olm"), "catalog-operator", &label).await;
    let is_resolved =
        |source: &CatalogSource| reported(source).is_some_and(|(status, _)| status == "True");
    world.becomes("resolved", is_resolved).await;
    space.subscribe(&first, NAME, json!({})).await;
    space.succeeded(&first);

    assert_at_rest(world).await;
    let version = format!("v1.{}.0", minor + 1);
    world.cluster.upgrade_apiserver(&version).await.unwrap();
    let is_written = |source: &CatalogSource| source.spec.image.as_ref() == Some(&after);
    let source = world.becomes("written", is_written).await;
    assert!(is_resolved(&source), "{source:?}");
    wait_served_from(&space, &after).await;
    space.succeeded(&second);
    let source = world.becomes("resolved", is_resolved).await;
    assert_eq!(source.annotations()[CATALOG_IMAGE_TEMPLATE], template);
}

//! Images that follow the version of a real cluster that is upgraded.

mod beside_olm;

use k8s_openapi::{
    api::core::v1::{Node, Pod, Service},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::api::{DeleteParams, PostParams};
use manifests::{api::labels::CATALOG_IMAGE_TEMPLATE, image_template::ANNOTATION};
use tests::Registry;

use super::{
    images::push_tide,
    status::{message, reason, status},
    *,
};
use crate::cluster_operator::{define, history, version};
use crate::openshift::{CLUSTER_VERSION, crd};
use crate::support::node_object;

/// Returns type, status and message of the conditions of a template.
fn conditions(source: &CatalogSource) -> Vec<String> {
    let all = status(source).conditions.into_iter();
    all.map(|condition| {
        format!(
            "{} {} {}",
            condition.type_, condition.status, condition.message
        )
    })
    .collect()
}

fn has(source: &CatalogSource, condition: &str) -> bool {
    conditions(source).iter().any(|line| line == condition)
}

fn image(source: &CatalogSource) -> &str {
    source.spec.image.as_deref().unwrap_or_default()
}

/// Makes the cluster an OpenShift cluster of these versions, the newest first.
async fn openshift(shelf: &Shelf, channel: &str, entries: &[&str]) {
    let mut version = version();
    version["spec"]["channel"] = channel.into();
    shelf.apply(&version).await;
    history(&shelf.cluster, entries).await;
}

impl Shelf {
    /// Waits until a catalog has a condition.
    async fn has(&self, name: &str, condition: &str) -> CatalogSource {
        self.becomes(name, condition, |source| has(source, condition))
            .await
    }

    /// Waits until the status of a catalog has this message.
    async fn says(&self, name: &str, text: &str) -> CatalogSource {
        self.becomes(name, text, |source| message(source) == text)
            .await
    }
}

/// The first user story of automatic catalog switching. With two annotations, the next image exists only after the
/// upgrade.
// parity: switch-1, switch-6, switch-12, switch-14, switch-15, switch-16, switch-18, switch-olm-1, switch-olm-3, complaint-20
#[tokio::test]
async fn as_a_cluster_admin_i_upgrade_my_cluster_and_its_catalogs_are_upgraded() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    the_architecture_is_that_of_all_nodes(&shelf, &registry).await;
    annotations_are_written_into_the_image(&shelf, &registry).await;
    catalogs_follow_an_upgrade(&shelf, &registry).await;
}

async fn catalogs_follow_an_upgrade(shelf: &Shelf, registry: &Registry) {
    let versions = ["1.0.0", "1.1.0"];
    push_tide(registry, "org/catalog:v1.36", &versions[..1]);
    push_tide(registry, "org/catalog:v1.37", &versions);
    let template = registry.image("org/catalog:v{kube_major_version}.{kube_minor_version}");
    shelf.image("dynamic", &template).await;
    let old = push_tide(registry, "org/catalog:v36", &versions[..1]);
    for (name, annotation) in [("ours", CATALOG_IMAGE_TEMPLATE), ("olms", ANNOTATION)] {
        let annotations = json!({annotation: registry.image("org/catalog:v{kube_minor_version}")});
        let spec = json!({"image": old});
        let declared = shelf.declare_with("catalogs", name, spec, annotations);
        declared.await;
    }
    let before = ["dynamic: 1.0.0", "olms: 1.0.0", "ours: 1.0.0"];
    shelf.tide(&before).await;
    let resolved = |release: &str| {
        let image = registry.image(&format!("org/catalog:{release}"));
        format!("resolved_image True {image}")
    };
    let source = shelf.has("dynamic", &resolved("v1.36")).await;
    let all = "TemplatesHaveResolved True catalog image reference was successfully resolved";
    assert!(has(&source, all), "{source:?}");
    // The template stays.
    assert_eq!(image(&source), template);

    shelf.cluster.upgrade_apiserver("v1.37.0").await.unwrap();
    let new = registry.image("org/catalog:v37");
    let missing = "org/catalog:v37 does not exist";
    for name in ["olms", "ours"] {
        let source = shelf
            .becomes(name, "told of what is missing", |source| {
                image(source) == new && message(source).contains(missing)
            })
            .await;
        assert_eq!(reason(&source), "RegistryServerError");
        shelf.fails_with(name, missing).await;
    }
    // The content that was read stays.
    let dynamic = "dynamic: 1.0.0 1.1.0";
    let offers = [dynamic, "olms: 1.0.0", "ours: 1.0.0"];
    shelf.tide(&offers).await;
    push_tide(registry, "org/catalog:v37", &versions);
    let offers = [dynamic, "olms: 1.0.0 1.1.0", "ours: 1.0.0 1.1.0"];
    shelf.tide(&offers).await;
    let source = shelf.has("dynamic", &resolved("v1.37")).await;
    assert_eq!(
        (image(&source), reason(&source)),
        (template.as_str(), String::new())
    );
}

/// Waits until the pods in the namespace `elsewhere`, whose catalogs are only served, have these images.
async fn pods_become(shelf: &Shelf, registry: &Registry, releases: &[&str]) -> Vec<Pod> {
    let expected: Vec<String> = releases
        .iter()
        .map(|release| registry.image(&format!("openshift-v4/catalog:v{release}-fast")))
        .collect();
    let pods = shelf.api::<Pod>("elsewhere");
    eventually(&format!("pods of {expected:?}"), async || {
        let mut running = list(&pods).await;
        running.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
        running.sort_by_key(image);
        let images: Vec<String> = running.iter().filter_map(image).collect();
        let is_expected = images == expected;
        is_expected.then_some(running).ok_or(format!("{images:?}"))
    })
    .await
}

/// The earlier pod is deleted when the next one is ready. Returns the name of the next pod.
async fn the_next_pod_serves(shelf: &Shelf, registry: &Registry) -> String {
    let both = pods_become(shelf, registry, &["4.8", "4.9"]).await;
    let next = both[1].metadata.name.as_deref().unwrap();
    let pods = shelf.api::<Pod>("elsewhere");
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    merge_status(&pods, next, &ready).await;
    pods_become(shelf, registry, &["4.9"]).await;
    next.to_owned()
}

/// The template can no longer be resolved.
async fn its_pod_is_kept_as_it_was(shelf: &Shelf, registry: &Registry, why: &str, next: &str) {
    let pods = shelf.api::<Pod>("elsewhere");
    let unresolved = json!({"message": why});
    shelf.reports("elsewhere/dynamic", unresolved).await;
    let left = pods_become(shelf, registry, &["4.9"]).await;
    assert_eq!(left[0].metadata.name.as_deref(), Some(next));
    let services = shelf.api::<Service>("elsewhere");
    let service = services.get("dynamic").await.unwrap();
    let selector = service.spec.unwrap().selector.unwrap();
    assert_eq!(selector["olm.catalogSource"], "dynamic");
    // The pod is kept as before, also after a change of the spec.
    let priority = json!({"spec": {"priority": 5}});
    let edited = merge(&shelf.sources("elsewhere"), "dynamic", &priority).await;
    let generation = edited.metadata.generation;
    let last_resolved = json!({"reason": "LastResolved", "observedGeneration": generation});
    let reported = json!({"conditions": [last_resolved]});
    shelf.reports("elsewhere/dynamic", reported).await;
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(next, &at_once).await.unwrap();
    let name = async || {
        pods_become(shelf, registry, &["4.9"]).await[0]
            .metadata
            .name
            .clone()
    };
    let is_other = |name: &Option<String>| name.as_deref() != Some(next);
    until("another pod", name, is_other).await;
}

async fn the_architecture_is_that_of_all_nodes(shelf: &Shelf, registry: &Registry) {
    push_tide(registry, "org/catalog:x86_64", &["1.0.0"]);
    for (name, architecture) in [("a", "amd64"), ("b", "arm64")] {
        shelf.apply(&node_object(name, architecture)).await;
        if name == "a" {
            let template = registry.image("org/catalog:{platform_architecture}");
            shelf.image("mine", &template).await;
            shelf.tide(&["mine: 1.0.0"]).await;
        }
    }
    let why = "Cannot construct catalog image reference, variable \"platform_architecture\" couldn't be resolved";
    shelf.says("mine", why).await;
    let more = format!("{why}; the nodes are amd64, arm64");
    shelf.fails_with("mine", &more).await;
    assert_eq!(shelf.offers("tide"), ["catalogs/mine: tide.v1.0.0"]);
    let nodes: Api<Node> = Api::all(shelf.client());
    delete(&nodes, "b").await;
    shelf.reports("mine", json!({"reason": null})).await;
    shelf.forget(&["mine"]).await;
}

/// The second user story. A catalog with a separate pod follows in the same way.
// parity: switch-2, switch-7, switch-8, switch-9, switch-13, switch-16, pod-3
#[tokio::test]
async fn as_a_catalog_creator_i_provide_catalogs_for_each_release_of_openshift() {
    let shelf = Shelf::serving().await;
    let registry = Registry::plain();
    let versions = ["1.0.0", "1.1.0"];
    push_tide(&registry, "openshift-v4/catalog:v4.8-fast", &versions[..1]);
    push_tide(&registry, "openshift-v4/catalog:v4.9-fast", &versions);
    let template = registry.image(
        "openshift-v{ocp_major_version}/catalog:v{ocp_major_version}.{ocp_minor_version}-{ocp_update_channels}",
    );
    shelf.image("dynamic", &template).await;
    let own = json!({"image": template, "grpcPodConfig": {"nodeSelector": {"a": "b"}}});
    shelf.declare("elsewhere", "dynamic", own).await;
    // This cluster is not OpenShift yet.
    let why = "Cannot construct catalog image reference, variables \"ocp_major_version\", \"ocp_minor_version\", \
               \"ocp_update_channels\" couldn't be resolved";
    let source = shelf.says("dynamic", why).await;
    assert_eq!(reason(&source), "RegistryServerError");
    shelf.fails_with("dynamic", why).await;
    let partial = format!("ResolvedImage False {template}");
    assert!(has(&source, &partial), "{source:?}");

    crate::support::define(&shelf.cluster, &crd(CLUSTER_VERSION)).await;
    openshift(&shelf, "fast-4.8", &["Completed 4.8.3", "Completed 4.7.9"]).await;
    shelf.tide(&["dynamic: 1.0.0"]).await;
    pods_become(&shelf, &registry, &["4.8"]).await;
    // Only completed versions count.
    let moving = ["Partial 4.9.1", "Completed 4.8.3"];
    openshift(&shelf, "fast-4.9", &moving).await;
    let of = |release: &str| registry.image(&format!("openshift-v4/catalog:v{release}-fast"));
    let resolved = format!("resolved_image True {}", of("4.8"));
    shelf.has("dynamic", &resolved).await;
    pods_become(&shelf, &registry, &["4.8"]).await;
    let moved = ["Completed 4.9.1", "Completed 4.8.3"];
    openshift(&shelf, "fast-4.9", &moved).await;
    let newer = "catalogs/dynamic: tide.v1.0.0 tide.v1.1.0";
    shelf.offers_become("tide", &[newer]).await;
    let resolved = format!("resolved_image True {}", of("4.9"));
    shelf.has("dynamic", &resolved).await;
    let pod = the_next_pod_serves(&shelf, &registry).await;

    // A variable without a value is reported, and the content that was read stays.
    let versions: Api<manifests::api::config::ClusterVersion> = Api::all(shelf.client());
    delete(&versions, "version").await;
    let source = shelf.says("dynamic", why).await;
    let last_image = format!("resolved_image False {}", of("4.9"));
    assert!(has(&source, &last_image), "{source:?}");
    assert_eq!(shelf.offers("tide"), [newer]);
    its_pod_is_kept_as_it_was(&shelf, &registry, why, &pod).await;
}

/// The tests of `provisioner::controllers::catalog_source::image_template` cover the result of each annotation.
async fn annotations_are_written_into_the_image(shelf: &Shelf, registry: &Registry) {
    let expected_image = push_tide(registry, "org/catalog:v36", &["1.0.0"]);
    let annotation = |template: &Value| json!({CATALOG_IMAGE_TEMPLATE: template});
    let template = registry.image("org/catalog:v{kube_minor_version}").into();
    let spec = json!({"image": registry.image("org/catalog:none")});
    let annotations = annotation(&template);
    let declared = shelf.declare_with("catalogs", "ours", spec, annotations);
    declared.await;
    let resolved = format!("resolved_image True {expected_image}");
    let source = shelf.has("ours", &resolved).await;
    assert_eq!(
        (image(&source), conditions(&source).len()),
        (&*expected_image, 3)
    );
    // An annotation that cannot be resolved leaves the image unchanged and is reported.
    let sources = shelf.sources("catalogs");
    for (text, expected) in [
        ("v{ocp_minor_version}", "RegistryServerError"),
        ("v{foobar}", "SpecInvalidError"),
    ] {
        let template = registry.image(&format!("org/catalog:{text}"));
        let annotations = annotation(&template.as_str().into());
        let patch = json!({"metadata": {"annotations": annotations}});
        merge(&sources, "ours", &patch).await;
        let partial = format!("ResolvedImage False {template}");
        let is_reported =
            |source: &CatalogSource| has(source, &partial) && reason(source) == expected;
        let source = shelf.becomes("ours", text, is_reported).await;
        assert!(!message(&source).is_empty(), "{text}");
        assert_eq!(image(&source), expected_image);
        let last_image = format!("resolved_image False {expected_image}");
        assert!(has(&source, &last_image), "{source:?}");
    }
    // Without the annotation, the image stays, and no condition is written.
    let none = json!({"metadata": {"annotations": annotation(&Value::Null)}});
    merge(&sources, "ours", &none).await;
    let is_plain =
        |source: &CatalogSource| conditions(source).is_empty() && reason(source).is_empty();
    let source = shelf.becomes("ours", "plain", is_plain).await;
    assert_eq!(image(&source), expected_image);
    shelf.tide(&["ours: 1.0.0"]).await;
}

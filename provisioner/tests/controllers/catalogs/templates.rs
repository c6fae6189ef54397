//! Images that follow the version of a real cluster that is upgraded.

mod beside_olm;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use manifests::{api::labels::CATALOG_IMAGE_TEMPLATE, image_template::ANNOTATION};

use super::{
    images::push_tide,
    status::{message, reason, status},
    *,
};
use crate::cluster_operator::{define, history, version};
use crate::openshift::{CLUSTER_VERSION, crd};

/// Returns type, status and message of the conditions of a template.
fn conditions(source: &CatalogSource) -> Vec<String> {
    let all = status(source).conditions.into_iter();
    let line = |found: Condition| format!("{} {} {}", found.type_, found.status, found.message);
    all.map(line).collect()
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
    async fn has(&self, name: &str, condition: &str) -> CatalogSource {
        let has = |source: &CatalogSource| has(source, condition);
        self.becomes(name, condition, has).await
    }
}

/// The first user story of automatic catalog switching. With two annotations, the next image exists only after the
/// upgrade. The tests of `provisioner::controllers::catalog_source::template_resolution` cover the result of each annotation.
// parity: switch-1, switch-12, switch-14, switch-15, switch-16, switch-18, switch-olm-1, switch-olm-3, complaint-20
#[tokio::test]
async fn as_a_cluster_admin_i_upgrade_my_cluster_and_its_catalogs() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let versions = ["1.0.0", "1.1.0"];
    push_tide(&registry, "org/catalog:v1.36", &versions[..1]);
    push_tide(&registry, "org/catalog:v1.37", &versions);
    let template = registry.image("org/catalog:v{kube_major_version}.{kube_minor_version}");
    shelf.image("dynamic", &template).await;
    let old = push_tide(&registry, "org/catalog:v36", &versions[..1]);
    for (name, annotation) in [("ours", CATALOG_IMAGE_TEMPLATE), ("olms", ANNOTATION)] {
        let annotations = json!({annotation: registry.image("org/catalog:v{kube_minor_version}")});
        let spec = json!({"image": registry.image("org/catalog:none")});
        let declared = shelf.declare_with("catalogs", name, spec, annotations);
        declared.await;
        let source = shelf.has(name, &format!("resolved_image True {old}")).await;
        assert_eq!((image(&source), conditions(&source).len()), (&*old, 3));
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
    // The template is kept.
    assert_eq!(image(&source), template);

    shelf.cluster.upgrade_apiserver("v1.37.0").await.unwrap();
    let new = registry.image("org/catalog:v37");
    let missing = "org/catalog:v37 does not exist";
    for name in ["olms", "ours"] {
        let is_reported =
            |source: &CatalogSource| image(source) == new && message(source).contains(missing);
        tests::assert_rows!(reason(&shelf.becomes(name, missing, is_reported).await) => "RegistryServerError");
        shelf.fails_with(name, missing).await;
    }
    // The content that was read is kept.
    let dynamic = "dynamic: 1.0.0 1.1.0";
    shelf.tide(&[dynamic, "olms: 1.0.0", "ours: 1.0.0"]).await;
    push_tide(&registry, "org/catalog:v37", &versions);
    let offers = [dynamic, "olms: 1.0.0 1.1.0", "ours: 1.0.0 1.1.0"];
    shelf.tide(&offers).await;
    let source = shelf.has("dynamic", &resolved("v1.37")).await;
    assert_eq!((image(&source), &*reason(&source)), (&*template, ""));
    // Without the annotation, no condition is written, and the image is kept.
    let none = json!({"metadata": {"annotations": {CATALOG_IMAGE_TEMPLATE: null}}});
    merge(&shelf.sources("catalogs"), "ours", &none).await;
    let is_plain = |source: &CatalogSource| conditions(source).is_empty();
    let source = shelf.becomes("ours", "plain", is_plain).await;
    assert_eq!((image(&source), &*reason(&source)), (&*new, ""));
}

/// The second user story.
// parity: switch-2, switch-7, switch-8, switch-9, switch-13, switch-16
#[tokio::test]
async fn as_a_catalog_creator_i_provide_catalogs_for_each_release() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let versions = ["1.0.0", "1.1.0"];
    push_tide(&registry, "openshift-v4/catalog:v4.8-fast", &versions[..1]);
    push_tide(&registry, "openshift-v4/catalog:v4.9-fast", &versions);
    let template = registry.image(
        "openshift-v{ocp_major_version}/catalog:v{ocp_major_version}.{ocp_minor_version}-{ocp_update_channels}",
    );
    shelf.image("dynamic", &template).await;
    // This cluster is not OpenShift yet.
    let why = "Cannot construct catalog image reference, variables \"ocp_major_version\", \"ocp_minor_version\", \
               \"ocp_update_channels\" couldn't be resolved";
    let partial = json!({"type": "ResolvedImage", "status": "False", "message": template});
    let failed = json!({"reason": "RegistryServerError", "message": why, "conditions": [partial]});
    shelf.reports("dynamic", failed).await;
    shelf.fails_with("dynamic", why).await;

    crate::support::define(&shelf.cluster, &crd(CLUSTER_VERSION)).await;
    openshift(&shelf, "fast-4.8", &["Completed 4.8.3", "Completed 4.7.9"]).await;
    shelf.tide(&["dynamic: 1.0.0"]).await;
    let of = |release: &str| registry.image(&format!("openshift-v4/catalog:v{release}-fast"));
    let resolved = format!("resolved_image True {}", of("4.8"));
    shelf.has("dynamic", &resolved).await;
    openshift(&shelf, "fast-4.9", &["Completed 4.9.1", "Completed 4.8.3"]).await;
    shelf.tide(&["dynamic: 1.0.0 1.1.0"]).await;
    let resolved = format!("resolved_image True {}", of("4.9"));
    shelf.has("dynamic", &resolved).await;

    // A variable without a value is reported, and the content that was read is kept.
    let versions: Api<manifests::api::config::ClusterVersion> = Api::all(shelf.client());
    delete(&versions, "version").await;
    let last_image = json!({"type": "resolved_image", "status": "False", "message": of("4.9")});
    let reported = json!({"message": why, "conditions": [last_image]});
    shelf.reports("dynamic", reported).await;
    tests::assert_rows!(shelf.offers("tide") => ["catalogs/dynamic: tide.v1.0.0 tide.v1.1.0"]);
}

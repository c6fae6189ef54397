//! Conditions in a status that OLM writes, and the version of the OLM that serves. The CRDs are those of OLM.

use std::time::Duration;

use kube::api::PostParams;
use manifests::api::config::ClusterOperator;

use super::*;
use crate::cluster_operator::olm_object;
use crate::openshift::CLUSTER_OPERATOR;

const TEMPLATE: &str = "example.com/catalog:v{kube_minor_version}";

// parity: switch-1, switch-5, switch-11, switch-olm-4, switch-olm-5
#[tokio::test]
async fn beside_olm_annotations_and_conditions_are_written() {
    let shelf = Shelf::bare().await;
    define(&shelf.cluster, "clusterserviceversions").await;
    shelf.olm(1).await;
    define(&shelf.cluster, "catalogsources").await;

    shelf.declare_template("mine", TEMPLATE).await;
    let source = shelf
        .becomes("mine", "written", |source| {
            let resolved = "core.rukpak.io/TemplateResolved True catalog image reference was successfully resolved";
            conditions(source) == [resolved, "resolved_image True example.com/catalog:v36"]
        })
        .await;
    assert_eq!(image(&source), "example.com/catalog:v36");
    // OLM's part of the status is kept, and OLM may write it at any time.
    let olms = json!({"status": {"message": "OLM's", "connectionState": {"address": "a:1", "lastObservedState": "CONNECTING"}}});
    let sources = shelf.sources("catalogs");
    merge_status(&sources, "mine", &olms).await;
    let none = json!({"metadata": {"annotations": {CATALOG_IMAGE_TEMPLATE: null}}});
    merge(&sources, "mine", &none).await;
    let source = shelf
        .becomes("mine", "plain", |source| conditions(source).is_empty())
        .await;
    assert_eq!(image(&source), "example.com/catalog:v36");
    assert_eq!(message(&source), "OLM's");

    // A template in a field that OLM cannot read is reported by an Event.
    shelf.image("braces", TEMPLATE).await;
    let notes = async || notes_about(&shelf.client(), "catalogs", "braces", "ImageTemplate").await;
    let has_annotation = |notes: &Vec<String>| notes.concat().contains(CATALOG_IMAGE_TEMPLATE);
    until("an Event with the annotation", notes, has_annotation).await;
    let unsupported = format!(
        "core.rukpak.io/TemplateResolved False OLM does not resolve a template in the image field; move the template \
         to annotation {CATALOG_IMAGE_TEMPLATE}, and set the field to any valid image"
    );
    let is_reported = |source: &CatalogSource| conditions(source) == [&*unsupported];
    let source = shelf.becomes("braces", "reported", is_reported).await;
    assert_eq!((image(&source), &*message(&source)), (TEMPLATE, ""));

    concurrent_writes_lose_no_fields(&shelf, &sources).await;

    let template =
        "example.com/catalog:v{olm_major_version}.{olm_minor_version}.{olm_patch_version}";
    shelf.declare_template("versions", template).await;
    // The tag of the image of OLM's Deployment.
    shelf.write_version("0.38.0").await;

    let deployments = shelf.api::<Deployment>("olm");
    let pinned = format!("example.com/olm@sha256:{}", "a".repeat(64));
    let containers = json!([{"name": "catalog-operator", "image": pinned}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    merge(&deployments, "catalog-operator", &patch).await;
    let why = format!(
        "core.rukpak.io/TemplateResolved False Cannot construct catalog image reference, variables \"olm_major_version\", \
         \"olm_minor_version\", \"olm_patch_version\" couldn't be resolved; cannot determine the version of OLM: neither image \
         {pinned:?} of Deployment catalog-operator, nor ClusterOperator operator-lifecycle-manager, nor label olm.version of \
         ClusterServiceVersion packageserver declares it; set label olm.version on Deployment catalog-operator"
    );
    tests::assert_rows!(image(&shelf.has("versions", &why).await) => "example.com/catalog:v0.38.0");

    // Of several objects of that name, the one in OLM's namespace counts.
    let spec = json!({"displayName": "Package Server", "install": {"strategy": "deployment", "spec": {"deployments": []}}});
    for (namespace, version) in [("elsewhere", "9.9.9"), ("olm", "0.39.1")] {
        let mut csv = olm_object("ClusterServiceVersion", (namespace, "packageserver"), &spec);
        csv["metadata"]["labels"] = json!({"olm.version": version});
        shelf.apply(&csv).await;
    }
    shelf.write_version("0.39.1").await;
    crate::support::define(&shelf.cluster, &crd(CLUSTER_OPERATOR)).await;
    let name = "operator-lifecycle-manager";
    let operator = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {},
    });
    shelf.apply(&operator).await;
    let api: Api<ClusterOperator> = Api::all(shelf.client());
    let status = json!({"status": {"versions": [
        {"name": "operator", "version": "4.20.1"}, {"name": name, "version": "0.40.0"},
    ]}});
    merge_status(&api, name, &status).await;
    shelf.write_version("0.40.0").await;
}

impl Shelf {
    /// Declares a CatalogSource whose annotation holds a template.
    async fn declare_template(&self, name: &str, template: &str) {
        let spec = json!({"image": "example.com/catalog:any"});
        let annotations = json!({CATALOG_IMAGE_TEMPLATE: template});
        self.declare_with("catalogs", name, spec, annotations).await;
    }

    /// Waits until the image of the catalog `versions` has this version of OLM.
    async fn write_version(&self, version: &str) {
        let expected = format!("example.com/catalog:v{version}");
        let is_written = |source: &CatalogSource| image(source) == expected;
        self.becomes("versions", version, is_written).await;
    }
}

/// Number of template changes while OLM writes.
const TEMPLATES: u32 = 30;

/// OLM and the provisioner write the same status all the time, and the provisioner also writes the image.
async fn concurrent_writes_lose_no_fields(shelf: &Shelf, sources: &Api<CatalogSource>) {
    let template = |round: u32| format!("{TEMPLATE}-{round}");
    shelf.declare_template("busy", &template(0)).await;
    let enough = CancellationToken::new();
    let provisioner = async {
        for round in 0..TEMPLATES {
            let patch =
                json!({"metadata": {"annotations": {CATALOG_IMAGE_TEMPLATE: template(round)}}});
            merge(sources, "busy", &patch).await;
            let expected = format!("example.com/catalog:v36-{round}");
            let resolved = format!("resolved_image True {expected}");
            let is_written =
                |source: &CatalogSource| has(source, &resolved) && image(source) == expected;
            shelf.becomes("busy", &expected, is_written).await;
        }
        enough.cancel();
    };
    let ((), written) = tokio::join!(provisioner, write_as_olm(sources, "busy", &enough));
    let source = sources.get("busy").await.unwrap();
    let own = format!("OlmsOwn True {written}");
    assert!(has(&source, &own), "{source:?}");
    assert_eq!(message(&source), written.to_string());
    assert_eq!(conditions(&source).len(), 3, "{source:?}");
}

/// Writes a status as OLM does, by replacing the one it has read, until cancelled. Returns the number of writes. Each
/// read must contain the parts that were written before.
async fn write_as_olm(sources: &Api<CatalogSource>, name: &str, enough: &CancellationToken) -> u32 {
    let mut written = 0;
    let mut turn = tokio::time::interval(Duration::from_millis(5));
    while !enough.is_cancelled() {
        turn.tick().await;
        let mut source = sources.get(name).await.unwrap();
        let mut status = status(&source);
        let mut all = status.conditions.iter();
        let own = all.position(|condition| condition.type_ == "OlmsOwn");
        if let Some(own) = own {
            let condition = status.conditions.remove(own);
            assert_eq!(condition.message, written.to_string());
            assert_eq!(status.message, Some(written.to_string()));
        }
        assert_eq!(own.is_some(), written > 0);
        let next = (written + 1).to_string();
        let condition = json!({
            "type": "OlmsOwn", "status": "True", "reason": "Counting", "message": next,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let condition = serde_json::from_value(condition).unwrap();
        status.conditions.insert(own.unwrap_or_default(), condition);
        status.message = Some(next);
        source.status = Some(status);
        let params = PostParams::default();
        match sources.replace_status(name, &params, &source).await {
            Ok(_) => written += 1,
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }
    written
}

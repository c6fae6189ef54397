//! Conditions in a status that OLM writes, and the version of the OLM that serves. The CRDs are those of OLM.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    ResourceExt as _,
    api::{DynamicObject, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind},
};

use super::*;
use crate::openshift::CLUSTER_OPERATOR;

const CANNOT: &str =
    "Cannot construct catalog image reference, variable \"ocp_minor_version\" couldn't be resolved";
/// Number of writes that must not be answered.
const ROUNDS: u32 = 10;

// parity: switch-1, switch-5, switch-11, switch-olm-4, switch-olm-5
#[tokio::test]
async fn beside_olm_annotations_and_conditions_are_written() {
    let shelf = Shelf::bare().await;
    define(&shelf.cluster, "clusterserviceversions").await;
    shelf.olm(1).await;
    define(&shelf.cluster, "catalogsources").await;
    Box::pin(our_annotation_is_written_and_nothing_else(&shelf)).await;
    removed_conditions_are_applied_again(&shelf).await;
    writes_of_others_are_not_answered(&shelf).await;
    olm_variables_have_the_version_that_serves(&shelf).await;
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

/// Returns the conditions that the field manager of a status has applied.
fn applied(source: &CatalogSource) -> BTreeSet<String> {
    let all = source.metadata.managed_fields.iter().flatten();
    let entries = all.filter(|entry| entry.manager.as_deref() == Some("rukpak"));
    let status = entries.filter(|entry| entry.subresource.as_deref() == Some("status"));
    let mut found = BTreeSet::new();
    for entry in status {
        assert_eq!(entry.operation.as_deref(), Some("Apply"), "{entry:?}");
        let fields = &entry.fields_v1.as_ref().unwrap().0["f:status"];
        assert_eq!(fields.as_object().unwrap().len(), 1, "{fields}");
        let conditions = fields["f:conditions"].as_object().unwrap();
        found.extend(conditions.keys().cloned());
    }
    found
}

async fn our_annotation_is_written_and_nothing_else(shelf: &Shelf) {
    let annotation = |text: &str| json!({CATALOG_IMAGE_TEMPLATE: text});
    let spec = json!({"image": "example.com/catalog:any"});
    let template = "example.com/catalog:v{kube_minor_version}";
    shelf
        .declare_with("catalogs", "mine", spec.clone(), annotation(template))
        .await;
    let source = shelf
        .becomes("mine", "written", |source| {
            let resolved = "core.rukpak.io/TemplateResolved True catalog image reference was successfully resolved";
            conditions(source) == [resolved, "resolved_image True example.com/catalog:v36"]
        })
        .await;
    assert_eq!(image(&source), "example.com/catalog:v36");
    // OLM's part of the status stays, and OLM may write it at any time.
    let olms = json!({"status": {"message": "OLM's", "connectionState": {"address": "a:1", "lastObservedState": "CONNECTING"}}});
    let sources = shelf.sources("catalogs");
    merge_status(&sources, "mine", &olms).await;
    let none = json!({"metadata": {"annotations": {CATALOG_IMAGE_TEMPLATE: null}}});
    merge(&sources, "mine", &none).await;
    let source = shelf
        .becomes("mine", "plain", |source| conditions(source).is_empty())
        .await;
    assert_eq!(
        (image(&source), message(&source).as_str()),
        ("example.com/catalog:v36", "OLM's")
    );

    // A template in a field that OLM cannot read is reported by an Event, and OLM's annotation belongs to OLM.
    shelf
        .declare_with("catalogs", "other", spec, json!({ANNOTATION: template}))
        .await;
    let in_place = json!({"image": template});
    shelf.declare("catalogs", "braces", in_place).await;
    let found_notes =
        async || notes_about(&shelf.client(), "catalogs", "braces", "ImageTemplate").await;
    let has_annotation = |notes: &Vec<String>| {
        notes
            .iter()
            .any(|note| note.contains(CATALOG_IMAGE_TEMPLATE))
    };
    until(
        "an event tells of the annotation",
        found_notes,
        has_annotation,
    )
    .await;
    let source = sources.get("other").await.unwrap();
    assert_eq!(
        (image(&source), &source.status),
        ("example.com/catalog:any", &None)
    );
    let unsupported = format!(
        "core.rukpak.io/TemplateResolved False OLM does not resolve a template in the image field; move the template \
         to annotation {CATALOG_IMAGE_TEMPLATE}, and set the field to any valid image"
    );
    let source = shelf
        .becomes("braces", "reported", |source| {
            conditions(source) == [&*unsupported]
        })
        .await;
    assert_eq!((image(&source), message(&source).as_str()), (template, ""));

    concurrent_writes_lose_no_fields(shelf, &sources).await;
}

/// Number of template changes while OLM writes.
const TEMPLATES: u32 = 30;

/// OLM and the provisioner write the same status all the time, and the provisioner also writes the image.
async fn concurrent_writes_lose_no_fields(shelf: &Shelf, sources: &Api<CatalogSource>) {
    let template = |round: u32| format!("example.com/catalog:v{{kube_minor_version}}-{round}");
    let spec = json!({"image": "example.com/catalog:any"});
    let first = json!({CATALOG_IMAGE_TEMPLATE: template(0)});
    shelf.declare_with("catalogs", "busy", spec, first).await;
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
    let mut turn = tokio::time::interval(std::time::Duration::from_millis(5));
    while !enough.is_cancelled() {
        turn.tick().await;
        let mut source = sources.get(name).await.unwrap();
        let mut status = status(&source);
        let olms = |condition: &&mut Condition| condition.type_ == "OlmsOwn";
        let found = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "OlmsOwn");
        if written > 0 {
            assert_eq!(found.unwrap().message, written.to_string());
            assert_eq!(status.message, Some(written.to_string()));
        }
        let next = (written + 1).to_string();
        match status.conditions.iter_mut().find(olms) {
            Some(condition) => condition.message.clone_from(&next),
            None => status.conditions.insert(
                0,
                Condition {
                    type_: "OlmsOwn".to_owned(),
                    status: "True".to_owned(),
                    reason: "Counting".to_owned(),
                    message: next.clone(),
                    last_transition_time: Time(Timestamp::UNIX_EPOCH),
                    observed_generation: None,
                },
            ),
        }
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

async fn removed_conditions_are_applied_again(shelf: &Shelf) {
    shelf
        .declare_template("removed", "example.com/catalog:v{ocp_minor_version}")
        .await;
    let why = format!("core.rukpak.io/TemplateResolved False {CANNOT}");
    let image_condition = "resolved_image False example.com/catalog:any";
    let source = shelf
        .becomes("removed", "reported", |source| {
            conditions(source) == [&*why, image_condition]
        })
        .await;
    let expected = [
        "k:{\"type\":\"core.rukpak.io/TemplateResolved\"}",
        "k:{\"type\":\"resolved_image\"}",
    ];
    assert_eq!(applied(&source), expected.map(str::to_owned).into());

    let sources = shelf.sources("catalogs");
    for round in 1..=3 {
        // A client that replaces the status without having read that of the provisioner.
        let message = format!("OLM's {round}");
        let others = json!({
            "message": message,
            "conditions": [{
                "type": "OlmsOwn", "status": "True", "reason": "Counting", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        let mut source = sources.get("removed").await.unwrap();
        source.status = serde_json::from_value(others).unwrap();
        sources
            .replace_status("removed", &PostParams::default(), &source)
            .await
            .unwrap();
        let own = format!("OlmsOwn True {message}");
        let source = shelf
            .becomes("removed", "reported again", |source| {
                let all = conditions(source);
                all.contains(&why) && all.contains(&own) && all.len() == 3
            })
            .await;
        assert_eq!(super::message(&source), message);
    }
}

/// A client that reacts to each write of the provisioner would loop forever if the provisioner answered its writes.
async fn writes_of_others_are_not_answered(shelf: &Shelf) {
    let template = "example.com/catalog:v{kube_minor_version}";
    shelf.declare_template("watched", template).await;
    let resolved = "resolved_image True example.com/catalog:v36";
    let source = shelf.has("watched", resolved).await;

    let sources = shelf.sources("catalogs");
    let params = WatchParams::default().fields("metadata.name=watched");
    let version = source.resource_version().unwrap();
    let events = sources.watch(&params, &version).await.unwrap();
    let mut last = String::new();
    for round in 0..ROUNDS {
        let note = json!({"metadata": {"annotations": {"example.com/note": round.to_string()}}});
        let status = json!({"status": {"message": format!("OLM's {round}")}});
        merge(&sources, "watched", &note).await;
        let written = merge_status(&sources, "watched", &status).await;
        last = written.resource_version().unwrap();
        // Observed after those writes, and answered.
        let after = format!("after-{round}");
        shelf.declare_template(&after, template).await;
        shelf.has(&after, resolved).await;
    }
    let mut observed = 0;
    let mut events = events.boxed();
    while let Some(event) = events.try_next().await.unwrap() {
        let WatchEvent::Modified(source) = event else {
            panic!("{event:?}");
        };
        observed += 1;
        if source.resource_version().as_ref() == Some(&last) {
            break;
        }
    }
    assert_eq!(observed, 2 * ROUNDS);
    let rests = sources.get("watched").await.unwrap();
    assert_eq!(rests.resource_version(), Some(last));
}

/// Returns a ClusterServiceVersion that declares only its version.
fn packageserver(namespace: &str, version: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "packageserver", "namespace": namespace, "labels": {"olm.version": version}},
        "spec": {"displayName": "Package Server", "install": {"strategy": "deployment", "spec": {"deployments": []}}},
    })
}

async fn report_version(shelf: &Shelf, version: &str) {
    let operator = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "operator-lifecycle-manager"}, "spec": {},
    });
    shelf.apply(&operator).await;
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
    let api: Api<DynamicObject> = Api::all_with(shelf.client(), &ApiResource::from_gvk(&kind));
    let status = json!({"status": {"versions": [
        {"name": "operator", "version": "4.20.1"},
        {"name": "operator-lifecycle-manager", "version": version},
    ]}});
    merge_status(&api, "operator-lifecycle-manager", &status).await;
}

async fn olm_variables_have_the_version_that_serves(shelf: &Shelf) {
    let template =
        "example.com/catalog:v{olm_major_version}.{olm_minor_version}.{olm_patch_version}";
    shelf.declare_template("versions", template).await;
    // The tag of the image of OLM's Deployment.
    shelf.write_version("0.38.0").await;

    let deployments = shelf.api::<Deployment>("olm");
    let change = async |patch: Value| {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        let changed = deployments.patch("catalog-operator", &params, &patch);
        changed.await.unwrap();
    };
    let pinned = format!("example.com/olm@sha256:{}", "a".repeat(64));
    let container = json!({"name": "catalog-operator", "image": pinned});
    change(json!({"spec": {"template": {"spec": {"containers": [container]}}}})).await;
    let why = format!(
        "core.rukpak.io/TemplateResolved False Cannot construct catalog image reference, variables \"olm_major_version\", \
         \"olm_minor_version\", \"olm_patch_version\" couldn't be resolved; cannot determine the version of OLM: neither image \
         {pinned:?} of Deployment catalog-operator, nor ClusterOperator operator-lifecycle-manager, nor label olm.version of \
         ClusterServiceVersion packageserver declares it; set label olm.version on Deployment catalog-operator"
    );
    let source = shelf.has("versions", &why).await;
    assert_eq!(image(&source), "example.com/catalog:v0.38.0");

    // Of several objects of that name, the one in OLM's namespace counts.
    for (namespace, version) in [("elsewhere", "9.9.9"), ("olm", "0.39.1")] {
        shelf.apply(&packageserver(namespace, version)).await;
    }
    shelf.write_version("0.39.1").await;
    let crd = crd(CLUSTER_OPERATOR);
    crate::support::define(&shelf.cluster, &crd).await;
    report_version(shelf, "0.40.0").await;
    shelf.write_version("0.40.0").await;
    change(json!({"metadata": {"labels": {"olm.version": "0.41.0"}}})).await;
    shelf.write_version("0.41.0").await;
}

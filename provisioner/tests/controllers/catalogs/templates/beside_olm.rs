//! Conditions in a status that OLM writes, and the version of the OLM that serves. The definitions are OLM's own.

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
use crate::support::{apply, merge, merge_status};

const CANNOT: &str =
    "Cannot construct catalog image reference, variable \"ocp_minor_version\" couldn't be resolved";
/// The number of writes that must not be answered.
const ROUNDS: u32 = 10;

/// A cluster in which OLM's Deployment runs, and nothing of OLM writes.
async fn shelf() -> Shelf {
    let shelf = Shelf::bare().await;
    define(&shelf.cluster, "clusterserviceversions").await;
    shelf.olm(1).await;
    define(&shelf.cluster, "catalogsources").await;
    shelf
}

impl Shelf {
    /// Declares a CatalogSource whose annotation holds a template.
    async fn declare_template(&self, name: &str, template: &str) {
        let spec = json!({"image": "example.com/catalog:any"});
        let annotations = json!({CATALOG_IMAGE_TEMPLATE: template});
        self.declare_with("catalogs", name, spec, annotations).await;
    }

    async fn write_image(&self, name: &str, expected: &str) {
        self.becomes(name, expected, |source| image(source) == expected)
            .await;
    }
}

/// The conditions that the field manager of a status has applied.
fn applied(source: &CatalogSource) -> BTreeSet<String> {
    let all = source.metadata.managed_fields.iter().flatten();
    let ours = all.filter(|entry| entry.manager.as_deref() == Some("rukpak"));
    let status = ours.filter(|entry| entry.subresource.as_deref() == Some("status"));
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

// parity: switch-11
#[tokio::test]
async fn conditions_removed_by_another_client_are_applied_again() {
    let shelf = shelf().await;
    shelf
        .declare_template("mine", "example.com/catalog:v{ocp_minor_version}")
        .await;
    let why = format!("core.rukpak.io/TemplateResolved False {CANNOT}");
    let kept = "resolved_image False example.com/catalog:any";
    let source = shelf
        .becomes("mine", "reported", |source| {
            conditions(source) == [&*why, kept]
        })
        .await;
    let expected = [
        "k:{\"type\":\"core.rukpak.io/TemplateResolved\"}",
        "k:{\"type\":\"resolved_image\"}",
    ];
    assert_eq!(applied(&source), expected.map(str::to_owned).into());

    let sources = shelf.sources("catalogs");
    for round in 1..=3 {
        // A client that replaces the status by one which it made without reading ours.
        let message = format!("OLM's {round}");
        let others = json!({
            "message": message,
            "conditions": [{
                "type": "OlmsOwn", "status": "True", "reason": "Counting", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        let mut source = sources.get("mine").await.unwrap();
        source.status = serde_json::from_value(others).unwrap();
        sources
            .replace_status("mine", &PostParams::default(), &source)
            .await
            .unwrap();
        let own = format!("OlmsOwn True {message}");
        let source = shelf
            .becomes("mine", "reported again", |source| {
                let all = conditions(source);
                all.contains(&why) && all.contains(&own) && all.len() == 3
            })
            .await;
        assert_eq!(super::message(&source), message);
    }
}

/// A client that reacts to each write of the provisioner would loop forever if the provisioner answered its writes.
// parity: switch-olm-5
#[tokio::test]
async fn writes_of_others_are_not_answered() {
    let shelf = shelf().await;
    let template = "example.com/catalog:v{kube_minor_version}";
    shelf.declare_template("mine", template).await;
    let resolved = "resolved_image True example.com/catalog:v36";
    let source = shelf
        .becomes("mine", "resolved", |source| has(source, resolved))
        .await;

    let sources = shelf.sources("catalogs");
    let params = WatchParams::default().fields("metadata.name=mine");
    let version = source.resource_version().unwrap();
    let events = sources.watch(&params, &version).await.unwrap();
    let mut last = String::new();
    for round in 0..ROUNDS {
        let note = json!({"metadata": {"annotations": {"example.com/note": round.to_string()}}});
        let status = json!({"status": {"message": format!("OLM's {round}")}});
        let params = PatchParams::default();
        merge(&sources, "mine", &note).await;
        let written = sources
            .patch_status("mine", &params, &Patch::Merge(status))
            .await
            .unwrap();
        last = written.resource_version().unwrap();
        // Seen after that, and answered.
        let after = format!("after-{round}");
        shelf.declare_template(&after, template).await;
        shelf
            .becomes(&after, "resolved", |source| has(source, resolved))
            .await;
    }
    let mut seen = 0;
    let mut events = events.boxed();
    while let Some(event) = events.try_next().await.unwrap() {
        let WatchEvent::Modified(source) = event else {
            panic!("{event:?}");
        };
        seen += 1;
        if source.resource_version().as_ref() == Some(&last) {
            break;
        }
    }
    assert_eq!(seen, 2 * ROUNDS);
    let rests = sources.get("mine").await.unwrap();
    assert_eq!(rests.resource_version(), Some(last));
}

/// A ClusterServiceVersion with nothing in it but what declares its version.
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
    apply(&shelf.cluster, &operator).await;
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
    let api: Api<DynamicObject> = Api::all_with(
        shelf.cluster.client().unwrap(),
        &ApiResource::from_gvk(&kind),
    );
    let status = json!({"status": {"versions": [
        {"name": "operator", "version": "4.20.1"},
        {"name": "operator-lifecycle-manager", "version": version},
    ]}});
    merge_status(&api, "operator-lifecycle-manager", &status).await;
}

// parity: switch-5
#[tokio::test]
async fn olm_variables_have_the_version_of_the_olm_that_serves() {
    let shelf = shelf().await;
    let template =
        "example.com/catalog:v{olm_major_version}.{olm_minor_version}.{olm_patch_version}";
    shelf.declare_template("mine", template).await;
    // The tag of the image of its Deployment.
    shelf
        .write_image("mine", "example.com/catalog:v0.38.0")
        .await;

    let deployments: Api<Deployment> = Api::namespaced(shelf.cluster.client().unwrap(), "olm");
    let change = async |patch: Value| {
        deployments
            .patch(
                "catalog-operator",
                &PatchParams::default(),
                &Patch::Strategic(patch),
            )
            .await
            .unwrap();
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
    let source = shelf
        .becomes("mine", "unresolved", |source| has(source, &why))
        .await;
    assert_eq!(image(&source), "example.com/catalog:v0.38.0");

    // Of those called so, the one in the namespace of OLM.
    for object in [
        packageserver("elsewhere", "9.9.9"),
        packageserver("olm", "0.39.1"),
    ] {
        apply(&shelf.cluster, &object).await;
    }
    shelf
        .write_image("mine", "example.com/catalog:v0.39.1")
        .await;
    let (name, _) = CLUSTER_OPERATOR;
    apply(&shelf.cluster, &definition(CLUSTER_OPERATOR)).await;
    shelf.cluster.wait_established(name).await.unwrap();
    report_version(&shelf, "0.40.0").await;
    shelf
        .write_image("mine", "example.com/catalog:v0.40.0")
        .await;
    change(json!({"metadata": {"labels": {"olm.version": "0.41.0"}}})).await;
    shelf
        .write_image("mine", "example.com/catalog:v0.41.0")
        .await;
}

//! Images that follow the cluster, on a real one that becomes another.

mod beside_olm;

use k8s_openapi::{
    api::core::v1::{Node, Pod, Service},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::api::{DeleteParams, ListParams, PostParams};
use manifests::{api::labels::CATALOG_IMAGE_TEMPLATE, template::ANNOTATION};
use tests::Registry;

use super::{
    images::push_tide,
    status::{message, reason, status},
    *,
};
use crate::support::{apply, delete, merge, merge_status};
use crate::{
    aggregator::define,
    openshift::{CLUSTER_VERSION, definition},
};

/// Type, status and message of the conditions of a template.
fn conditions(source: &CatalogSource) -> Vec<String> {
    let all = status(source).conditions.into_iter();
    all.map(|it| format!("{} {} {}", it.type_, it.status, it.message))
        .collect()
}

fn has(source: &CatalogSource, condition: &str) -> bool {
    conditions(source).iter().any(|it| it == condition)
}

fn image(source: &CatalogSource) -> &str {
    source.spec.image.as_deref().unwrap_or_default()
}

/// Makes the cluster an OpenShift of these versions, the newest first.
async fn openshift(shelf: &Shelf, channel: &str, history: &[&str]) {
    let version = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "00000000-0000-0000-0000-000000000000", "channel": channel},
    });
    apply(&shelf.cluster, &version).await;
    crate::aggregator::history(&shelf.cluster, history).await;
}

/// The first user story of automatic catalog switching. Of two annotations, the next image is there only after the upgrade.
// parity: switch-1, switch-12, switch-14, switch-15, switch-16, complaint-20
#[tokio::test]
async fn as_a_cluster_admin_i_upgrade_my_cluster_and_its_catalogs_are_upgraded() {
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
        let spec = json!({"image": old});
        shelf
            .declare_with("catalogs", name, spec, annotations)
            .await;
    }
    shelf
        .tide(&["dynamic: 1.0.0", "olms: 1.0.0", "ours: 1.0.0"])
        .await;
    let resolved = |release: &str| {
        format!(
            "resolved_image True {}",
            registry.image(&format!("org/catalog:{release}"))
        )
    };
    let source = shelf
        .becomes("dynamic", "resolved", |it| has(it, &resolved("v1.36")))
        .await;
    assert!(has(
        &source,
        "TemplatesHaveResolved True catalog image reference was successfully resolved"
    ));
    // The template stays.
    assert_eq!(image(&source), template);

    shelf.cluster.upgrade_apiserver("v1.37.0").await.unwrap();
    let new = registry.image("org/catalog:v37");
    let missing = "org/catalog:v37 does not exist";
    for name in ["olms", "ours"] {
        let source = shelf
            .becomes(name, "told of what is missing", |it| {
                image(it) == new && message(it).contains(missing)
            })
            .await;
        assert_eq!(reason(&source), "RegistryServerError");
        shelf.trouble(name, missing).await;
    }
    // What was read stays.
    shelf
        .tide(&["dynamic: 1.0.0 1.1.0", "olms: 1.0.0", "ours: 1.0.0"])
        .await;
    push_tide(&registry, "org/catalog:v37", &versions);
    shelf
        .tide(&[
            "dynamic: 1.0.0 1.1.0",
            "olms: 1.0.0 1.1.0",
            "ours: 1.0.0 1.1.0",
        ])
        .await;
    let source = shelf
        .becomes("dynamic", "resolved again", |it| {
            has(it, &resolved("v1.37"))
        })
        .await;
    assert_eq!(
        (image(&source), reason(&source)),
        (template.as_str(), String::new())
    );
}

/// The images of the pods that stay in the namespace `elsewhere`, whose catalogs nobody chooses from.
async fn pods_become(shelf: &Shelf, registry: &Registry, releases: &[&str]) -> Vec<Pod> {
    let expected: Vec<String> = releases
        .iter()
        .map(|it| registry.image(&format!("openshift-v4/catalog:v{it}-fast")))
        .collect();
    let pods: Api<Pod> = Api::namespaced(shelf.cluster.client().unwrap(), "elsewhere");
    eventually(&format!("pods of {expected:?}"), async || {
        let mut here = pods.list(&ListParams::default()).await.unwrap().items;
        here.retain(|it| it.metadata.deletion_timestamp.is_none());
        let image = |pod: &Pod| {
            pod.spec
                .clone()
                .unwrap()
                .containers
                .remove(0)
                .image
                .unwrap()
        };
        here.sort_by_key(image);
        let images: Vec<String> = here.iter().map(image).collect();
        (images == expected)
            .then_some(here)
            .ok_or(format!("{images:?}"))
    })
    .await
}

/// The pod of before goes when the next one is ready. Its name.
async fn the_next_pod_serves(shelf: &Shelf, registry: &Registry) -> String {
    let both = pods_become(shelf, registry, &["4.8", "4.9"]).await;
    let next = both[1].metadata.name.as_deref().unwrap();
    let pods: Api<Pod> = Api::namespaced(shelf.cluster.client().unwrap(), "elsewhere");
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    merge_status(&pods, next, &ready).await;
    pods_become(shelf, registry, &["4.9"]).await;
    next.to_owned()
}

/// Nobody knows any more which image it would be.
async fn its_pod_is_kept_as_it_was(shelf: &Shelf, registry: &Registry, why: &str, next: &str) {
    let pods: Api<Pod> = Api::namespaced(shelf.cluster.client().unwrap(), "elsewhere");
    wait_for(
        shelf.sources("elsewhere"),
        "dynamic",
        "unresolved again",
        |it| (message(it) == why).then_some(()),
    )
    .await;
    let left = pods_become(shelf, registry, &["4.9"]).await;
    assert_eq!(left[0].metadata.name.as_deref(), Some(next));
    let services: Api<Service> = Api::namespaced(shelf.cluster.client().unwrap(), "elsewhere");
    let service = services.get("dynamic").await.unwrap();
    let selector = service.spec.unwrap().selector.unwrap();
    assert_eq!(selector["olm.catalogSource"], "dynamic");
    // It is kept as before, also by another spec.
    let priority = json!({"spec": {"priority": 5}});
    let sources = shelf.sources("elsewhere");
    let edited = merge(&sources, "dynamic", &priority).await;
    let kept = |it: &Condition| {
        it.reason == "LastResolved" && it.observed_generation == edited.metadata.generation
    };
    wait_for(sources, "dynamic", "unresolved as before", |it| {
        let is_kept = status(it).conditions.iter().any(kept);
        is_kept.then_some(())
    })
    .await;
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(next, &at_once).await.unwrap();
    eventually("another pod", async || {
        let pod = pods_become(shelf, registry, &["4.9"]).await.remove(0);
        let is_other = pod.metadata.name.as_deref() != Some(next);
        is_other.then_some(()).ok_or_else(|| "the same".to_owned())
    })
    .await;
}

// parity: switch-6
#[tokio::test]
async fn the_architecture_is_that_of_all_nodes() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    push_tide(&registry, "org/catalog:x86_64", &["1.0.0"]);
    for (name, architecture) in [("a", "amd64"), ("b", "arm64")] {
        let labels = json!({"kubernetes.io/arch": architecture});
        let metadata = json!({"name": name, "labels": labels});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        apply(&shelf.cluster, &node).await;
        if name == "a" {
            let template = registry.image("org/catalog:{platform_architecture}");
            shelf.image("mine", &template).await;
            shelf.tide(&["mine: 1.0.0"]).await;
        }
    }
    let why = "Cannot construct catalog image reference, variable \"platform_architecture\" couldn't be resolved";
    shelf
        .becomes("mine", "unresolved", |it| message(it) == why)
        .await;
    let more = format!("{why}; the nodes are amd64, arm64");
    shelf.trouble("mine", &more).await;
    assert_eq!(shelf.offers("tide"), ["catalogs/mine: tide.v1.0.0"]);
    let nodes: Api<Node> = Api::all(shelf.cluster.client().unwrap());
    delete(&nodes, "b").await;
    shelf
        .becomes("mine", "fine again", |it| reason(it).is_empty())
        .await;
}

/// The second one. A catalog that has a pod of its own follows in the same way.
// parity: switch-2, switch-7, switch-8, switch-9, switch-13, switch-16, pod-3
#[tokio::test]
async fn as_a_catalog_creator_i_provide_catalogs_for_each_release_of_openshift() {
    let shelf = Shelf::serving().await;
    let registry = Registry::plain();
    push_tide(&registry, "openshift-v4/catalog:v4.8-fast", &["1.0.0"]);
    push_tide(
        &registry,
        "openshift-v4/catalog:v4.9-fast",
        &["1.0.0", "1.1.0"],
    );
    let template = registry.image(
        "openshift-v{ocp_major_version}/catalog:v{ocp_major_version}.{ocp_minor_version}-{ocp_update_channels}",
    );
    shelf.image("dynamic", &template).await;
    let own = json!({"image": template, "grpcPodConfig": {"nodeSelector": {"a": "b"}}});
    shelf.declare("elsewhere", "dynamic", own).await;
    // This is no OpenShift so far.
    let why = "Cannot construct catalog image reference, variables \"ocp_major_version\", \"ocp_minor_version\", \
               \"ocp_update_channels\" couldn't be resolved";
    let source = shelf
        .becomes("dynamic", "unresolved", |it| message(it) == why)
        .await;
    assert_eq!(reason(&source), "RegistryServerError");
    shelf.trouble("dynamic", why).await;
    assert!(
        has(&source, &format!("ResolvedImage False {template}")),
        "{source:?}"
    );

    crate::support::define(&shelf.cluster, &definition(CLUSTER_VERSION)).await;
    openshift(&shelf, "fast-4.8", &["Completed 4.8.3", "Completed 4.7.9"]).await;
    shelf.tide(&["dynamic: 1.0.0"]).await;
    pods_become(&shelf, &registry, &["4.8"]).await;
    // Only what is complete counts.
    let moving = ["Partial 4.9.1", "Completed 4.8.3"];
    openshift(&shelf, "fast-4.9", &moving).await;
    let of = |release: &str| registry.image(&format!("openshift-v4/catalog:v{release}-fast"));
    let resolved = format!("resolved_image True {}", of("4.8"));
    shelf
        .becomes("dynamic", "as before", |it| has(it, &resolved))
        .await;
    pods_become(&shelf, &registry, &["4.8"]).await;
    let moved = ["Completed 4.9.1", "Completed 4.8.3"];
    openshift(&shelf, "fast-4.9", &moved).await;
    let newer = "catalogs/dynamic: tide.v1.0.0 tide.v1.1.0";
    shelf.offers_become("tide", &[newer]).await;
    let resolved = format!("resolved_image True {}", of("4.9"));
    shelf
        .becomes("dynamic", "resolved", |it| has(it, &resolved))
        .await;
    let pod = the_next_pod_serves(&shelf, &registry).await;

    // What has no value any more is told, and what was read stays.
    let versions: Api<manifests::api::config::ClusterVersion> =
        Api::all(shelf.cluster.client().unwrap());
    delete(&versions, "version").await;
    let source = shelf
        .becomes("dynamic", "unresolved again", |it| message(it) == why)
        .await;
    let kept = format!("resolved_image False {}", of("4.9"));
    assert!(has(&source, &kept), "{source:?}");
    assert_eq!(shelf.offers("tide"), [newer]);
    its_pod_is_kept_as_it_was(&shelf, &registry, why, &pod).await;
}

// parity: switch-18, switch-olm-1, switch-olm-3
#[tokio::test]
async fn a_template_in_an_annotation_is_written_into_the_image() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let wanted = push_tide(&registry, "org/catalog:v36", &["1.0.0"]);
    let any = registry.image("org/catalog:none");
    for (name, annotation) in [("ours", CATALOG_IMAGE_TEMPLATE), ("olms", ANNOTATION)] {
        let template = registry.image("org/catalog:v{kube_minor_version}");
        let annotations = json!({annotation: template});
        let spec = json!({"image": any});
        shelf
            .declare_with("catalogs", name, spec, annotations)
            .await;
        let source = shelf
            .becomes(name, "written", |it| {
                conditions(it).len() == 3 && reason(it).is_empty()
            })
            .await;
        assert_eq!(image(&source), wanted);
        assert!(
            has(&source, &format!("resolved_image True {wanted}")),
            "{source:?}"
        );
        // What comes to nothing leaves the image, and says so; of OLM's annotation only conditions do.
        let sources = shelf.sources("catalogs");
        for (text, expected) in [
            ("v{ocp_minor_version}", "RegistryServerError"),
            ("v{foobar}", "SpecInvalidError"),
        ] {
            let template = registry.image(&format!("org/catalog:{text}"));
            let patch = json!({"metadata": {"annotations": {annotation: template}}});
            merge(&sources, name, &patch).await;
            let expected = if annotation == ANNOTATION {
                ""
            } else {
                expected
            };
            let partial = format!("ResolvedImage False {template}");
            let source = shelf
                .becomes(name, text, |it| has(it, &partial) && reason(it) == expected)
                .await;
            assert_eq!(message(&source).is_empty(), expected.is_empty());
            assert_eq!(image(&source), wanted);
            let kept = format!("resolved_image False {wanted}");
            assert!(has(&source, &kept), "{source:?}");
        }
        // Without it, the image stays, and nothing is said of it.
        let none = json!({"metadata": {"annotations": {annotation: null}}});
        merge(&sources, name, &none).await;
        let source = shelf
            .becomes(name, "plain", |it| {
                conditions(it).is_empty() && reason(it).is_empty()
            })
            .await;
        assert_eq!(image(&source), wanted);
    }
    shelf.tide(&["olms: 1.0.0", "ours: 1.0.0"]).await;
}

// parity: switch-1, switch-olm-4, switch-olm-5
#[tokio::test]
async fn where_olm_runs_our_annotation_is_written_and_nothing_else() {
    let shelf = Shelf::bare().await;
    define(&shelf.cluster, "clusterserviceversions").await;
    shelf.olm(1).await;
    define(&shelf.cluster, "catalogsources").await;
    let annotation = |text: &str| json!({CATALOG_IMAGE_TEMPLATE: text});
    let spec = json!({"image": "example.com/catalog:any"});
    let template = "example.com/catalog:v{kube_minor_version}";
    shelf
        .declare_with("catalogs", "mine", spec.clone(), annotation(template))
        .await;
    let source = shelf
        .becomes("mine", "written", |it| {
            let resolved = "core.rukpak.io/TemplateResolved True catalog image reference was successfully resolved";
            conditions(it) == [resolved, "resolved_image True example.com/catalog:v36"]
        })
        .await;
    assert_eq!(image(&source), "example.com/catalog:v36");
    // What OLM says of it stays, and it may say it at any time.
    let olms = json!({"status": {"message": "OLM's", "connectionState": {"address": "a:1", "lastObservedState": "CONNECTING"}}});
    let sources = shelf.sources("catalogs");
    merge_status(&sources, "mine", &olms).await;
    let missing = json!({"metadata": {"annotations": {CATALOG_IMAGE_TEMPLATE: "example.com/catalog:v{ocp_minor_version}"}}});
    merge(&sources, "mine", &missing).await;
    let source = shelf
        .becomes("mine", "unresolved", |it| {
            let why = "core.rukpak.io/TemplateResolved False Cannot construct catalog image reference, variable \
                       \"ocp_minor_version\" couldn't be resolved";
            conditions(it) == [why, "resolved_image False example.com/catalog:v36"]
        })
        .await;
    assert_eq!(
        (image(&source), message(&source).as_str()),
        ("example.com/catalog:v36", "OLM's")
    );
    let none = json!({"metadata": {"annotations": {CATALOG_IMAGE_TEMPLATE: null}}});
    merge(&sources, "mine", &none).await;
    let source = shelf
        .becomes("mine", "plain", |it| conditions(it).is_empty())
        .await;
    assert_eq!(
        (image(&source), message(&source).as_str()),
        ("example.com/catalog:v36", "OLM's")
    );

    // A template where OLM cannot read it is told where it does no harm, and OLM's annotation is OLM's.
    shelf
        .declare_with("catalogs", "other", spec, json!({ANNOTATION: template}))
        .await;
    let in_place = json!({"image": template});
    shelf.declare("catalogs", "braces", in_place).await;
    let events: Api<k8s_openapi::api::events::v1::Event> =
        Api::namespaced(shelf.cluster.client().unwrap(), "catalogs");
    eventually("an event tells of the annotation", async || {
        let all = events
            .list(&kube::api::ListParams::default())
            .await
            .unwrap();
        let notes: Vec<String> = all.into_iter().filter_map(|it| it.note).collect();
        let is_told = notes.iter().any(|it| it.contains(CATALOG_IMAGE_TEMPLATE));
        is_told.then_some(()).ok_or(format!("{notes:?}"))
    })
    .await;
    let source = sources.get("other").await.unwrap();
    assert_eq!(
        (image(&source), &source.status),
        ("example.com/catalog:any", &None)
    );
    let unsupported = format!(
        "core.rukpak.io/TemplateResolved False OLM does not resolve a template in the image; move the template to the \
         annotation {CATALOG_IMAGE_TEMPLATE}, and set any image in its place"
    );
    let source = shelf
        .becomes("braces", "reported", |source| {
            conditions(source) == [&*unsupported]
        })
        .await;
    assert_eq!((image(&source), message(&source).as_str()), (template, ""));

    nothing_is_lost_while_both_write(&shelf, &sources).await;
}

/// How often a template changes while OLM writes.
const ROUNDS: u32 = 30;

/// OLM and we write the same status, and we the image, all the time.
async fn nothing_is_lost_while_both_write(shelf: &Shelf, sources: &Api<CatalogSource>) {
    let template = |round: u32| format!("example.com/catalog:v{{kube_minor_version}}-{round}");
    let spec = json!({"image": "example.com/catalog:any"});
    let first = json!({CATALOG_IMAGE_TEMPLATE: template(0)});
    shelf.declare_with("catalogs", "busy", spec, first).await;
    let enough = CancellationToken::new();
    let ours = async {
        for round in 0..ROUNDS {
            let patch =
                json!({"metadata": {"annotations": {CATALOG_IMAGE_TEMPLATE: template(round)}}});
            merge(sources, "busy", &patch).await;
            let expected = format!("example.com/catalog:v36-{round}");
            let resolved = format!("resolved_image True {expected}");
            shelf
                .becomes("busy", &expected, |it| {
                    has(it, &resolved) && image(it) == expected
                })
                .await;
        }
        enough.cancel();
    };
    let ((), written) = tokio::join!(ours, write_as_olm(sources, "busy", &enough));
    let source = sources.get("busy").await.unwrap();
    assert!(
        has(&source, &format!("OlmsOwn True {written}")),
        "{source:?}"
    );
    assert_eq!(message(&source), written.to_string());
    assert_eq!(conditions(&source).len(), 3, "{source:?}");
}

/// Writes a status as OLM does, whole and over what it has read, until it is enough; says how often. What it has written
/// has to be there each time that it comes back.
async fn write_as_olm(sources: &Api<CatalogSource>, name: &str, enough: &CancellationToken) -> u32 {
    let mut written = 0;
    let mut turn = tokio::time::interval(std::time::Duration::from_millis(5));
    while !enough.is_cancelled() {
        turn.tick().await;
        let mut source = sources.get(name).await.unwrap();
        let mut status = status(&source);
        let olms = |it: &&mut Condition| it.type_ == "OlmsOwn";
        let found = status.conditions.iter().find(|it| it.type_ == "OlmsOwn");
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

//! What is served after a restart while the registry is away.

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::*;
use crate::support::{apply, delete, merge, until};

/// Where the slice of a catalog leads.
async fn endpoints(slices: &Api<EndpointSlice>, name: &str) -> Vec<String> {
    let slice = slices.get(name).await.unwrap();
    let endpoints = slice.endpoints.unwrap_or_default();
    endpoints.into_iter().flat_map(|it| it.addresses).collect()
}

async fn is_node_of(shelf: &Shelf, name: &str, architecture: &str) {
    let labels = json!({"kubernetes.io/arch": architecture});
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    apply(&shelf.cluster, &node).await;
}

// parity: serve-5
#[tokio::test]
async fn what_was_read_before_a_restart_is_served_while_the_registry_is_away() {
    let shelf = stage().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let tide = ["tide.v1.0.0"];
    let first = Leader::start(&shelf.cluster, HERE);
    shelf.declare("catalogs", "mine", grpc(&image)).await;
    shelf.declare("served", "tenants", grpc(&image)).await;
    shelf.hands_out(HERE, "catalogs/mine", &tide).await;
    shelf.hands_out(HERE, "served/tenants", &tide).await;
    // One whose template names an image that is not there yet, once the provisioner has started anew.
    is_node_of(&shelf, "a", "amd64").await;
    push_tide(&registry, "org/catalog:x86_64", &["1.0.0"]);
    let template = registry.image("org/catalog:{platform_architecture}");
    shelf.declare("served", "dynamic", grpc(&template)).await;
    shelf.hands_out(HERE, "served/dynamic", &tide).await;
    let store = first.end().await;
    is_node_of(&shelf, "a", "arm64").await;
    let away = format!("failed to reach the registry {}", registry.host());
    drop(registry);

    let second = Leader::with(&shelf.cluster, THERE, store, Share::default());
    shelf.hands_out(THERE, "catalogs/mine", &tide).await;
    shelf.hands_out(THERE, "served/tenants", &tide).await;
    shelf.hands_out(THERE, "served/dynamic", &tide).await;
    shelf
        .status_in("served", "dynamic", |it| {
            let says = it.message.as_deref().unwrap_or_default();
            let mut conditions = it.conditions.iter();
            says.contains(&away)
                && conditions.any(|it| {
                    let message = it.message.as_str();
                    it.type_ == "resolved_image"
                        && it.status == "True"
                        && message.ends_with("org/catalog:aarch64")
                })
        })
        .await;
    assert_eq!(second.offers("tide"), ["catalogs/mine: tide.v1.0.0"]);
    for (namespace, name) in [("catalogs", "mine"), ("served", "tenants")] {
        shelf
            .status_in(namespace, name, |it| {
                let state = it.connection_state.clone().unwrap_or_default();
                let says = it.message.as_deref().unwrap_or_default();
                state.last_observed_state == "READY"
                    && it.reason.as_deref() == Some("RegistryServerError")
                    && says.contains("couldn't ensure registry server")
                    && says.contains(&away)
            })
            .await;
    }
    // Another CatalogSource was never allowed to pull it: not one with this image, and not one that has taken a name.
    shelf.declare("catalogs", "other", grpc(&image)).await;
    let sources = shelf.sources("served");
    delete(&sources, "tenants").await;
    shelf.declare("served", "tenants", grpc(&image)).await;
    for (namespace, name) in [("catalogs", "other"), ("served", "tenants")] {
        shelf
            .status_in(namespace, name, |it| {
                it.reason.as_deref() == Some("RegistryServerError") && it.registry_service.is_none()
            })
            .await;
    }
    assert!(
        second
            .offers("tide")
            .iter()
            .any(|it| it.starts_with("catalogs/other: unknown: "))
    );
    second.end().await;

    // Whose disk has nothing leads nobody to a pod that has ended.
    let slices = shelf.slices("catalogs");
    assert_eq!(endpoints(&slices, "mine-catalog").await, [THERE]);
    let third = Leader::start(&shelf.cluster, "192.0.2.3");
    until(
        "it leads nowhere",
        async || endpoints(&slices, "mine-catalog").await,
        Vec::is_empty,
    )
    .await;
    let service = shelf.services("catalogs").get_opt("mine").await.unwrap();
    assert!(service.is_some(), "its address stays");
    drop(third);
}

/// Gives a catalog another priority, and waits until its condition tells of that spec, with the image of before.
async fn is_kept_after_an_edit(
    shelf: &Shelf,
    priority: i64,
    edits: impl AsyncFnOnce(),
    image: &str,
) {
    let sources = shelf.sources("catalogs");
    let patch = json!({"spec": {"priority": priority}});
    let edited = merge(&sources, "mine", &patch).await;
    edits().await;
    shelf
        .status_is("mine", |it| {
            let mut conditions = it.conditions.iter();
            conditions.any(|it| {
                it.type_ == "resolved_image"
                    && (it.reason.as_str(), it.message.as_str()) == ("LastResolved", image)
                    && it.observed_generation == edited.metadata.generation
            })
        })
        .await;
}

// parity: switch-6, switch-13
#[tokio::test]
async fn what_a_template_was_last_is_known_after_edits_and_a_restart() {
    let shelf = stage().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:x86_64", &["1.0.0"]);
    is_node_of(&shelf, "a", "amd64").await;
    let first = Leader::start(&shelf.cluster, HERE);
    let template = registry.image("org/catalog:{platform_architecture}");
    shelf.declare("catalogs", "mine", grpc(&template)).await;
    let tide = ["tide.v1.0.0"];
    shelf.hands_out(HERE, "catalogs/mine", &tide).await;
    is_node_of(&shelf, "b", "arm64").await;
    is_kept_after_an_edit(&shelf, 5, async || {}, &image).await;
    let states = first.ctx.catalogs.states();
    let trouble = states[0].trouble.clone().unwrap_or_default();
    assert!(
        trouble.ends_with("; the nodes are amd64, arm64"),
        "{trouble}"
    );
    assert_eq!(first.offers("tide"), ["catalogs/mine: tide.v1.0.0"]);
    let store = first.end().await;
    drop(registry);

    // Nor does it matter who is there when it is edited.
    let mut second = None;
    let starts = async || {
        second = Some(Leader::with(&shelf.cluster, THERE, store, Share::default()));
    };
    is_kept_after_an_edit(&shelf, 6, starts, &image).await;
    shelf.hands_out(THERE, "catalogs/mine", &tide).await;
    let second = second.unwrap();
    assert_eq!(second.offers("tide"), ["catalogs/mine: tide.v1.0.0"]);

    // Another template was never anything.
    let other = template.replace("org/", "org/other-");
    shelf.declare("catalogs", "mine", grpc(&other)).await;
    shelf
        .status_is("mine", |it| {
            let mut conditions = it.conditions.iter();
            conditions.any(|it| it.reason == "UnableToResolve" && it.message == other)
        })
        .await;
}

// parity: serve-5
#[tokio::test]
async fn nobody_is_told_of_a_server_that_went_while_its_catalog_was_given_a_pod() {
    let shelf = stage().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let first = Leader::start(&shelf.cluster, HERE);
    shelf.declare("catalogs", "mine", grpc(&image)).await;
    shelf
        .status_is("mine", |it| {
            let state = it.connection_state.as_ref();
            state.is_some_and(|it| it.last_observed_state == "READY")
        })
        .await;
    let store = first.end().await;
    // Which image that pod would have, nobody knows.
    let mut spec = grpc(&registry.image("org/catalog:v{ocp_minor_version}"));
    spec["grpcPodConfig"] = json!({"nodeSelector": {"a": "b"}});
    shelf.declare("catalogs", "mine", spec).await;
    let _second = Leader::with(&shelf.cluster, THERE, store, Share::default());
    shelf
        .status_is("mine", |it| {
            let says = it.message.as_deref().unwrap_or_default();
            says.contains("ocp_minor_version")
                && it.connection_state.is_none()
                && it.registry_service.is_none()
        })
        .await;
}

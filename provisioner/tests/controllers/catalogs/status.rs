//! What the status of a CatalogSource says, in clusters without OLM.

use manifests::api::catalog_source::CatalogSourceStatus;

use super::{
    images::{Watched, push_tide},
    served::{Server, want},
    *,
};
use std::time::Duration;
use tests::Registry;
use tokio::time::timeout;

use crate::support::{PATIENCE, merge_status};

pub(super) fn status(source: &CatalogSource) -> CatalogSourceStatus {
    source.status.clone().unwrap_or_default()
}

pub(super) fn reason(source: &CatalogSource) -> String {
    status(source).reason.unwrap_or_default()
}

pub(super) fn message(source: &CatalogSource) -> String {
    status(source).message.unwrap_or_default()
}

fn state(source: &CatalogSource) -> String {
    let state = status(source).connection_state;
    state.map(|it| it.last_observed_state).unwrap_or_default()
}

// parity: serve-12
#[tokio::test]
async fn the_status_of_an_address_tells_whether_somebody_answers_there() {
    let shelf = Shelf::new().await;
    let server = Server::start(None, &["1.0.0"]).await;
    let address = server.address;
    want(&shelf, &["tide"]);
    shelf
        .declare("catalogs", "mine", json!({"address": address.to_string()}))
        .await;
    let ready = shelf
        .becomes("mine", "READY", |it| state(it) == "READY")
        .await;
    let (first, service) = (
        status(&ready).connection_state.unwrap(),
        status(&ready).registry_service.unwrap(),
    );
    assert_eq!(first.address, Some(address.to_string()));
    assert_eq!(
        (service.protocol.as_deref(), &service.service_name),
        (Some("grpc"), &None)
    );
    assert!(service.created_at.is_some());
    assert_eq!(
        (reason(&ready), message(&ready)),
        (String::new(), String::new())
    );

    server.stop().await;
    let failing = shelf
        .becomes("mine", "failing", |it| state(it) == "TRANSIENT_FAILURE")
        .await;
    assert_eq!(reason(&failing), "RegistryServerError");
    let said = message(&failing);
    assert!(
        said.starts_with("couldn't connect to registry - "),
        "{said}"
    );
    let server = Server::start(Some(address), &["1.0.0"]).await;
    let again = shelf
        .becomes("mine", "READY again", |it| state(it) == "READY")
        .await;
    let second = status(&again).connection_state.unwrap();
    assert!(
        second.last_connect > first.last_connect,
        "{second:?} {first:?}"
    );
    assert_eq!(
        (reason(&again), message(&again)),
        (String::new(), String::new())
    );
    assert_eq!(status(&again).registry_service.unwrap(), service);

    // Another address is another connection.
    let other = Server::start(None, &["1.0.0"]).await;
    let spec = json!({"address": other.address.to_string()});
    shelf.declare("catalogs", "mine", spec).await;
    let expected = other.address.to_string();
    shelf
        .becomes("mine", "connected elsewhere", |it| {
            let state = status(it).connection_state.unwrap_or_default();
            state.address.as_ref() == Some(&expected) && state.last_observed_state == "READY"
        })
        .await;
    server.stop().await;
    other.stop().await;
}

// parity: switch-11, switch-17, serve-11, serve-20
#[tokio::test]
async fn what_is_wrong_is_told_and_put_right_and_others_conditions_stay() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let poll = |interval: &str| json!({"image": image, "updateStrategy": {"registryPoll": {"interval": interval}}});
    shelf
        .image("mine", &registry.image("org/catalog:{foobar}"))
        .await;
    let invalid = shelf
        .becomes("mine", "invalid", |it| reason(it) == "SpecInvalidError")
        .await;
    let begin =
        "Cannot construct catalog image reference, variable \"foobar\" couldn't be resolved";
    assert!(message(&invalid).starts_with(begin), "{invalid:?}");
    let theirs = json!({"status": {"conditions": [{
        "type": "Theirs", "status": "True", "reason": "Said", "message": "so", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }], "latestImageRegistryPoll": "2026-01-01T00:00:00Z"}});
    let sources = shelf.sources("catalogs");
    merge_status(&sources, "mine", &theirs).await;

    shelf
        .declare("catalogs", "mine", poll("45mError.code"))
        .await;
    let told = shelf
        .becomes("mine", "told of its interval", |it| {
            reason(it) == "InvalidIntervalError"
        })
        .await;
    assert_eq!(
        message(&told),
        "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: time: unknown \
         unit \"mError\" in duration \"45mError.code\""
    );
    let types: Vec<String> = status(&told)
        .conditions
        .into_iter()
        .map(|it| it.type_)
        .collect();
    assert_eq!(types, ["Theirs"]);
    let polled = status(&told).latest_image_registry_poll.unwrap();
    assert!(polled.0.to_string().as_str() > "2026-01-02", "{polled:?}");

    shelf.declare("catalogs", "mine", poll("30s")).await;
    shelf
        .becomes("mine", "told of its short interval", |it| {
            message(it) == "spec.updateStrategy.registryPoll.interval \"30s\" is shorter than a minute. Using 1m0s instead"
        })
        .await;
    shelf.declare("catalogs", "mine", poll("45m")).await;
    shelf
        .becomes("mine", "fine", |it| {
            reason(it).is_empty() && message(it).is_empty()
        })
        .await;

    // The registry goes, and its last answer stays the last one.
    let gone = json!({"image": "127.0.0.1:1/org/catalog:v1"});
    shelf.declare("catalogs", "mine", gone).await;
    let failed = shelf
        .becomes("mine", "failed", |it| reason(it) == "RegistryServerError")
        .await;
    assert!(
        message(&failed).starts_with("couldn't ensure registry server - "),
        "{failed:?}"
    );
    assert!(status(&failed).latest_image_registry_poll.unwrap() >= polled);
    assert_eq!(status(&failed).conditions.len(), 1);
}

// parity: serve-23, complaint-5
#[tokio::test]
async fn a_poll_that_finds_the_same_image_costs_one_question() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let way = Watched::new(&registry).await;
    let image = format!("{}/org/catalog:v1", way.host);
    let spec = |priority: u32| json!({"image": image, "priority": priority, "updateStrategy": {"registryPoll": {"interval": "1h"}}});
    shelf.declare("catalogs", "mine", spec(0)).await;
    let first = shelf
        .becomes("mine", "read", |it| {
            status(it).latest_image_registry_poll.is_some()
        })
        .await;
    shelf.tide(&["mine: 1.0.0"]).await;
    let mut before = status(&first).latest_image_registry_poll.unwrap();
    for round in 1..=3 {
        let asked = way.asked();
        // Whatever has it looked for again. In a status, times are whole seconds.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        shelf.declare("catalogs", "mine", spec(round)).await;
        let polled = shelf
            .becomes("mine", "asked for again", |it| {
                status(it)
                    .latest_image_registry_poll
                    .is_some_and(|it| it > before)
            })
            .await;
        before = status(&polled).latest_image_registry_poll.unwrap();
        let mut questions = way.asked().split_off(asked.len());
        // Whoever need not prove who he is may also be one without https, which is asked for before.
        questions.retain(|it| !it.ends_with("GET /v2/ HTTP/1.1"));
        assert_eq!(
            questions,
            ["HEAD /v2/org/catalog/manifests/v1 HTTP/1.1"],
            "{round}"
        );
    }
    // And one that finds another costs what that has.
    push_tide(&registry, "org/catalog:v1", &["1.0.0", "1.1.0"]);
    shelf.declare("catalogs", "mine", spec(9)).await;
    shelf.tide(&["mine: 1.0.0 1.1.0"]).await;
    eventually("all of them are counted", async || {
        let metrics = shelf.ctx.metrics.render();
        let polls = |outcome: &str, count: u8| {
            let line = format!("rukpak_catalog_polls_total{{outcome=\"{outcome}\"}} {count}");
            metrics.lines().any(|it| it == line)
        };
        let are_counted = polls("same", 3) && polls("new", 2);
        are_counted.then_some(()).ok_or_else(|| metrics.clone())
    })
    .await;
}

// parity: serve-21
#[tokio::test]
async fn a_catalog_is_asked_for_as_often_as_it_says_and_at_most_once_a_minute() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
    let spec = json!({"image": image, "updateStrategy": {"registryPoll": {"interval": "1s"}}});
    shelf.declare("catalogs", "mine", spec).await;
    let first = shelf
        .becomes("mine", "read", |it| {
            status(it).latest_image_registry_poll.is_some()
        })
        .await;
    let first = status(&first).latest_image_registry_poll.unwrap();
    push_tide(&registry, "org/catalog:v1", &["1.0.0", "1.1.0"]);
    // A minute is as long as anything else is waited for.
    let again = async {
        let mut look = tokio::time::interval(Duration::from_secs(1));
        loop {
            look.tick().await;
            let source = shelf.sources("catalogs").get("mine").await.unwrap();
            let last = status(&source).latest_image_registry_poll.unwrap();
            if last > first {
                return last;
            }
        }
    };
    let again = timeout(2 * PATIENCE, again).await.unwrap();
    // In a status, times are whole seconds.
    let between = again.0.duration_since(first.0);
    assert!(between.as_secs() >= 59, "{between:?}");
    shelf.tide(&["mine: 1.0.0 1.1.0"]).await;
}

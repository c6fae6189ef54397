//! The status of a CatalogSource, in clusters without OLM.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    images::{Watched, push_tide},
    *,
};
use std::time::Duration;
use tests::Registry;
use tokio::time::timeout;

use crate::support::PATIENCE;

pub(super) fn status(source: &CatalogSource) -> CatalogSourceStatus {
    source.status.clone().unwrap_or_default()
}

pub(super) fn reason(source: &CatalogSource) -> String {
    status(source).reason.unwrap_or_default()
}

pub(super) fn message(source: &CatalogSource) -> String {
    status(source).message.unwrap_or_default()
}

// parity: serve-11, serve-20, serve-21, switch-11, switch-17
#[tokio::test]
async fn problems_are_reported_and_polls_are_a_minute_apart() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let first = a_short_interval_begins(&shelf, &registry).await;
    problems_are_reported_and_others_conditions_stay(&shelf, &registry).await;
    the_interval_is_at_least_a_minute(&shelf, first).await;
}

async fn problems_are_reported_and_others_conditions_stay(shelf: &Shelf, registry: &Registry) {
    let image = push_tide(registry, "org/catalog:v1", &["1.0.0"]);
    let poll = |interval: &str| json!({"image": image, "updateStrategy": {"registryPoll": {"interval": interval}}});
    let template = registry.image("org/catalog:{foobar}");
    shelf.image("mine", &template).await;
    let text =
        "Cannot construct catalog image reference, variable \"foobar\" couldn't be resolved*";
    let invalid = json!({"reason": "SpecInvalidError", "message": text});
    shelf.reports("mine", invalid).await;
    let theirs = json!({"status": {"conditions": [{
        "type": "Theirs", "status": "True", "reason": "Said", "message": "so", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }], "latestImageRegistryPoll": "2026-01-01T00:00:00Z"}});
    let sources = shelf.sources("catalogs");
    merge_status(&sources, "mine", &theirs).await;

    let odd = poll("45mError.code");
    shelf.declare("catalogs", "mine", odd).await;
    let text = "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. \
                 Error: time: unknown unit \"mError\" in duration \"45mError.code\"";
    let invalid = json!({"reason": "InvalidIntervalError", "message": text});
    let reported = shelf.reports("mine", invalid).await;
    let types: Vec<_> = reported
        .conditions
        .iter()
        .map(|condition| &*condition.type_)
        .collect();
    assert_eq!(types, ["Theirs"]);
    let polled = reported.latest_image_registry_poll.unwrap();
    assert!(polled.0.to_string().as_str() > "2026-01-02", "{polled:?}");

    shelf.declare("catalogs", "mine", poll("45m")).await;
    let fine = json!({"reason": null, "message": null});
    shelf.reports("mine", fine).await;

    // The registry ends, and its last answer stays.
    let gone = json!({"image": "127.0.0.1:1/org/catalog:v1"});
    shelf.declare("catalogs", "mine", gone).await;
    let text = "couldn't ensure registry server - *";
    let failed = json!({"reason": "RegistryServerError", "message": text});
    let failed = shelf.reports("mine", failed).await;
    assert!(failed.latest_image_registry_poll.unwrap() >= polled);
    assert_eq!(failed.conditions.len(), 1);
    delete(&sources, "mine").await;
}

/// Takes a provisioner that has not read an image yet, and leaves no catalogs.
pub(super) async fn a_poll_of_the_same_image_is_one_request(shelf: &Shelf, registry: &Registry) {
    push_tide(registry, "org/catalog:v1", &["1.0.0"]);
    let proxy = Watched::new(registry).await;
    let image = format!("{}/org/catalog:v1", proxy.host);
    let spec = |priority: u32| json!({"image": image, "priority": priority, "updateStrategy": {"registryPoll": {"interval": "1h"}}});
    shelf.declare("catalogs", "polled", spec(0)).await;
    let is_read = json!({"latestImageRegistryPoll": "*"});
    let first = shelf.reports("polled", is_read).await;
    shelf.tide(&["polled: 1.0.0"]).await;
    let mut before = first.latest_image_registry_poll.unwrap();
    for round in 1..=3 {
        let asked = proxy.asked();
        // A change causes a poll of the image. In a status, times are whole seconds.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        shelf.declare("catalogs", "polled", spec(round)).await;
        let is_later = |source: &CatalogSource| {
            let polled = status(source).latest_image_registry_poll;
            polled.is_some_and(|time| time > before)
        };
        let polled = shelf.becomes("polled", "asked for again", is_later).await;
        before = status(&polled).latest_image_registry_poll.unwrap();
        let mut questions = proxy.asked().split_off(asked.len());
        // A registry without authentication may also be one without HTTPS, which is tried first.
        questions.retain(|request| !request.ends_with("GET /v2/ HTTP/1.1"));
        let head = "HEAD /v2/org/catalog/manifests/v1 HTTP/1.1";
        assert_eq!(questions, [head], "{round}");
    }
    // A poll that finds another image costs the requests for that image.
    push_tide(registry, "org/catalog:v1", &["1.0.0", "1.1.0"]);
    shelf.declare("catalogs", "polled", spec(9)).await;
    shelf.tide(&["polled: 1.0.0 1.1.0"]).await;
    for (outcome, count) in [("same", "3"), ("new", "2")] {
        let line = format!("rukpak_catalog_polls_total{{outcome=\"{outcome}\"}} ");
        let polls = async || metric(&shelf.ctx, &line);
        until(outcome, polls, |polls| polls.as_deref() == Some(count)).await;
    }
    shelf.forget(&["polled"]).await;
}

/// Declares a catalog that asks for a poll each second, and returns the time of the first one. The tag moves
/// afterwards.
async fn a_short_interval_begins(shelf: &Shelf, registry: &Registry) -> Time {
    let image = push_tide(registry, "org/often:v1", &["1.0.0"]);
    let spec = json!({"image": image, "updateStrategy": {"registryPoll": {"interval": "1s"}}});
    shelf.declare("catalogs", "often", spec).await;
    let is_read = json!({"latestImageRegistryPoll": "*"});
    let first = shelf.reports("often", is_read).await;
    push_tide(registry, "org/often:v1", &["1.0.0", "1.1.0"]);
    first.latest_image_registry_poll.unwrap()
}

async fn the_interval_is_at_least_a_minute(shelf: &Shelf, first: Time) {
    let again = async {
        let mut look = tokio::time::interval(Duration::from_secs(1));
        loop {
            look.tick().await;
            let source = shelf.sources("catalogs").get("often").await.unwrap();
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
    shelf.tide(&["often: 1.0.0 1.1.0"]).await;
}

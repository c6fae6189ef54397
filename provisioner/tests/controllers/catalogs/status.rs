//! The status of a CatalogSource, in clusters without OLM.

use super::{images::push_tide, *};
use crate::support::{WAIT_TIMEOUT, until_within};

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
    let image = push_tide(&registry, "org/often:v1", &["1.0.0"]);
    let spec = json!({"image": image, "updateStrategy": {"registryPoll": {"interval": "1s"}}});
    shelf.declare("catalogs", "often", spec).await;
    let is_read = json!({"latestImageRegistryPoll": "*"});
    let first = shelf.reports("often", is_read).await;
    let first = first.latest_image_registry_poll.unwrap();
    push_tide(&registry, "org/often:v1", &["1.0.0", "1.1.0"]);

    let image = push_tide(&registry, "org/catalog:v1", &["1.0.0"]);
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
    assert_eq!(reported.conditions.len(), 1, "{reported:?}");
    assert_eq!(reported.conditions[0].type_, "Theirs");
    let polled = reported.latest_image_registry_poll.unwrap();
    assert!(polled.0.to_string().as_str() > "2026-01-02", "{polled:?}");

    shelf.declare("catalogs", "mine", poll("45m")).await;
    let fine = json!({"reason": null, "message": null});
    shelf.reports("mine", fine).await;
    delete(&sources, "mine").await;

    let last = async || {
        let source = shelf.sources("catalogs").get("often").await.unwrap();
        status(&source).latest_image_registry_poll.unwrap()
    };
    let again = until_within(2 * WAIT_TIMEOUT, "polled again", last, |last| *last > first).await;
    // In a status, times are whole seconds.
    tests::assert_rows!(again.0.duration_since(first.0).as_secs() >= 59 => true, "{first:?} {again:?}");
    shelf.tide(&["often: 1.0.0 1.1.0"]).await;
}

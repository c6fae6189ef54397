//! The rules of the CRDs on the API server: every row of the tables that the crate `manifests` also checks without one.

use manifests::api::bounds;

use self::rows::Offer;
use super::platform::{alter, put};

#[path = "../../../../manifests/src/validation/tests/rows.rs"]
mod rows;

/// Offers an object to the API server.
async fn outcome(offer: Offer) -> String {
    let message = match offer {
        Offer::Create(object) => put(&object, true).await.err(),
        Offer::Change { object, patch } => {
            put(&object, false).await.unwrap();
            alter(&object, patch).await.err()
        }
    };
    message.unwrap_or_else(|| "accepted".to_owned())
}

// parity: rukpak-21, v1, v3, v5, v7
#[tokio::test]
async fn sources_of_bundles_and_instances_follow_their_rules() {
    rows::sources(outcome).await;
}

// parity: rukpak-21, v2, v3
#[tokio::test]
async fn bundles_follow_their_rules() {
    rows::bundles(outcome).await;
}

// parity: max-3, v2
#[tokio::test]
async fn bundle_instances_follow_their_rules() {
    rows::bundle_instances(outcome).await;
}

// parity: rukpak-2, v9
#[tokio::test]
async fn class_name_with_a_slash_is_rejected_unless_the_class_is_ours() {
    rows::class_names(outcome).await;
}

// parity: openshift-17, openshift-26
#[tokio::test]
async fn platform_operators_follow_their_rules() {
    rows::platform_operators(outcome).await;
}

/// What is accepted is stored as it was declared.
// parity: source-1, source-2, source-3, source-4, source-6, source-8, source-9, source-13, source-18
#[tokio::test]
async fn catalog_sources_follow_their_rules() {
    rows::catalog_sources(async |offer| {
        let Offer::Create(object) = offer else {
            unreachable!("the rows create objects");
        };
        match put(&object, true).await {
            Ok(stored) if stored["spec"] == object["spec"] => "accepted".to_owned(),
            Ok(stored) => format!("stored as {}", stored["spec"]),
            Err(message) => message,
        }
    })
    .await;
}

// parity: source-6
#[tokio::test]
async fn options_of_a_pod_are_those_of_kubernetes() {
    rows::pod_options(outcome).await;
}

// parity: rukpak-6, b4
#[tokio::test]
async fn immutable_fields_keep_their_values() {
    rows::changes(outcome).await;
}

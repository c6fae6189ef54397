//! The rules of the CRDs on the API server: every row of the tables that the crate `manifests` also checks without one.

use manifests::api::limits;

use self::rows::Offer;
use super::platform::{alter, put};

#[path = "../../../../manifests/src/validation/tests/rows.rs"]
mod rows;

/// Sends an object to the API server. A CatalogSource that is accepted must be stored as declared.
async fn outcome(offer: Offer) -> String {
    let message = match offer {
        Offer::Create(object) => match put(&object, true).await {
            Ok(stored) if object["kind"] == "CatalogSource" && stored["spec"] != object["spec"] => {
                Some(format!("stored as {}", stored["spec"]))
            }
            other => other.err(),
        },
        Offer::Change { object, patch } => {
            put(&object, false).await.unwrap();
            alter(&object, patch).await.err()
        }
    };
    message.unwrap_or_else(|| "accepted".to_owned())
}

// parity: rukpak-2, rukpak-6, rukpak-21, b4, v1, v2, v3, v5, v7, v9, max-3, openshift-17, openshift-26, source-1, source-2, source-3, source-4, source-6, source-8, source-9, source-13, source-18
#[tokio::test]
async fn objects_follow_the_rules_of_their_crds() {
    rows::sources(outcome).await;
    rows::bundles(outcome).await;
    rows::bundle_instances(outcome).await;
    rows::class_names(outcome).await;
    rows::platform_operators(outcome).await;
    rows::catalog_sources(outcome).await;
    rows::catalog_fields(outcome).await;
    rows::pod_options(outcome).await;
    rows::changes(outcome).await;
}

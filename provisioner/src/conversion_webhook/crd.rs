//! Keeps the CA bundle of the webhook in the CRD of CatalogSources up to date.

use std::{pin::pin, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::{
    ByteString, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use apply::{api_error, backoff::WatchBackoff, ssa::MANAGER};

const CRD_NAME: &str = "catalogsources.operators.coreos.com";
/// Delay before a failed request is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Action on the CRD.
#[derive(Debug, PartialEq)]
enum CrdAction {
    /// The CA bundle is up to date.
    None,
    /// The CRD is not managed by rukpak or does not use this webhook, with the reason.
    Ignore(&'static str),
    Patch(Value),
}

/// Keeps the CA bundle of the CRD up to date, if rukpak manages the CRD and the CRD uses the webhook.
pub(super) async fn reconcile(
    client: &kube::Client,
    namespace: &str,
    mut ca_bundle: watch::Receiver<Option<String>>,
) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let config = watcher::Config::default().fields(&format!("metadata.name={CRD_NAME}"));
    let events = watcher(crds.clone(), config).backoff(WatchBackoff::default());
    let mut events = pin!(events);
    let (mut latest, mut reported_reason): (Option<CustomResourceDefinition>, _) = (None, None);
    let mut delay = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Apply(crd) | Event::InitApply(crd))) => latest = Some(crd),
                Some(Ok(Event::Delete(_) | Event::Init)) => latest = None,
                Some(Ok(Event::InitDone)) => {}
                Some(Err(error)) => {
                    let error = api_error::chain(&error);
                    warn!(error, "failed to watch the CRD of CatalogSources; retrying");
                    continue;
                }
                None => return,
            },
            changed = ca_bundle.changed() => if changed.is_err() {
                return;
            },
            () = async { match delay { Some(delay) => sleep(delay).await, None => std::future::pending().await } } => {}
        }
        delay = None;
        let ca_bundle_pem = ca_bundle.borrow_and_update().clone();
        let (Some(crd), Some(ca_bundle_pem)) = (&latest, ca_bundle_pem) else {
            continue;
        };
        match decide(crd, namespace, &ca_bundle_pem) {
            CrdAction::None => reported_reason = None,
            CrdAction::Ignore(reason) => {
                if reported_reason.replace(reason) != Some(reason) {
                    warn!(why = reason, "the CRD of CatalogSources is kept unchanged");
                }
            }
            CrdAction::Patch(patch) => {
                let params = PatchParams::apply(MANAGER);
                match crds.patch(CRD_NAME, &params, &Patch::Merge(&patch)).await {
                    Ok(patched) => {
                        info!(
                            "set the CA bundle of the conversion webhook in the CRD of CatalogSources"
                        );
                        latest = Some(patched);
                    }
                    // Another replica was faster. The watch reports its change.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(error) => {
                        warn!(
                            error = api_error::chain(&error),
                            "failed to set the CA bundle in the CRD of CatalogSources; retrying"
                        );
                        delay = Some(RETRY_DELAY);
                    }
                }
            }
        }
    }
}

/// Returns the action on the CRD. A CRD of OLM or of a release payload is never changed.
fn decide(crd: &CustomResourceDefinition, namespace: &str, ca_bundle_pem: &str) -> CrdAction {
    let part_of = crd.labels().get("app.kubernetes.io/part-of");
    if part_of.is_none_or(|part_of| part_of != "rukpak") {
        return CrdAction::Ignore(
            "not managed by rukpak: label app.kubernetes.io/part-of: rukpak is missing",
        );
    }
    let conversion = crd.spec.conversion.as_ref();
    let webhook = conversion
        .filter(|conversion| conversion.strategy == "Webhook")
        .and_then(|conversion| conversion.webhook.as_ref());
    let Some(config) = webhook.and_then(|webhook| webhook.client_config.as_ref()) else {
        return CrdAction::Ignore("it has no conversion webhook; apply the CRD with version v1");
    };
    let service = config.service.as_ref();
    if service.is_some_and(|reference| {
        (reference.namespace.as_str(), reference.name.as_str()) != (namespace, super::NAME)
    }) {
        return CrdAction::Ignore("it uses the conversion webhook of another Service");
    }
    let desired = ByteString(ca_bundle_pem.as_bytes().to_vec());
    if config.ca_bundle.as_ref() == Some(&desired) {
        return CrdAction::None;
    }
    CrdAction::Patch(json!({
        // Fails if another client has changed the CRD in the meantime.
        "metadata": {"resourceVersion": crd.resource_version()},
        "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": desired}}}},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: source-15
    #[test]
    fn only_own_crds_that_use_the_webhook_are_changed() {
        let own_labels = json!({"app.kubernetes.io/part-of": "rukpak"});
        let webhook = |bundle: Value| {
            json!({"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": super::super::NAME, "namespace": "rukpak-system"}, "caBundle": bundle},
            }})
        };
        // "abc" and "xyz" in base64.
        let (same, other) = (json!("YWJj"), json!("eHl6"));
        let action = |labels: &Value, conversion: &Value| {
            let crd = object!({
                "metadata": {"name": CRD_NAME, "labels": labels, "resourceVersion": "7"},
                "spec": {
                    "group": "operators.coreos.com", "scope": "Namespaced", "versions": [],
                    "names": {"kind": "CatalogSource", "plural": "catalogsources"}, "conversion": conversion,
                },
            });
            decide(&crd, "rukpak-system", "abc")
        };
        assert_rows!(action(&own_labels, &webhook(same.clone())) => CrdAction::None);
        for before in [other, Value::Null] {
            let CrdAction::Patch(patch) = action(&own_labels, &webhook(before)) else {
                panic!("not patched");
            };
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            let config = &patch["spec"]["conversion"]["webhook"]["clientConfig"];
            assert_eq!(*config, json!({"caBundle": "YWJj"}));
        }
        assert_each!(|labels, conversion, why|
            matches!(action(&labels, &conversion), CrdAction::Ignore(message) if message.contains(why)) => true;
            json!({}), webhook(same.clone()) => "not managed by rukpak";
            json!({"app.kubernetes.io/part-of": "olm"}), webhook(same) => "not managed by rukpak";
            own_labels.clone(),
              json!({"strategy": "Webhook", "webhook": {
                  "conversionReviewVersions": ["v1"],
                  "clientConfig": {"service": {"name": "other", "namespace": "rukpak-system"}},
              }})
              => "of another Service";
            own_labels.clone(), Value::Null => "has no conversion webhook";
            own_labels, json!({"strategy": "None"}) => "has no conversion webhook";
        );
    }
}

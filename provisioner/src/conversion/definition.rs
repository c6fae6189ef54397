//! What the API server has to believe, kept in the definition of CatalogSources.

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

use apply::{backoff::Pauses, ssa::MANAGER};

/// The definition.
const DEFINITION: &str = "catalogsources.operators.coreos.com";
/// How soon what has failed is tried again, without a change.
const RETRY: Duration = Duration::from_secs(5);

/// What is to be done about the definition.
#[derive(Debug, PartialEq)]
enum Step {
    /// It is as it has to be.
    Nothing,
    /// It is not ours, and why.
    Leave(&'static str),
    Patch(Value),
}

/// Keeps the definition believing what there is to believe, as long as it is ours and asks the webhook.
pub(super) async fn keep(
    client: &kube::Client,
    namespace: &str,
    mut believed: watch::Receiver<Option<String>>,
) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let config = watcher::Config::default().fields(&format!("metadata.name={DEFINITION}"));
    let events = watcher(definitions.clone(), config).backoff(Pauses::default());
    let mut events = pin!(events);
    let (mut latest, mut told): (Option<CustomResourceDefinition>, _) = (None, None);
    let mut pause = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Apply(found) | Event::InitApply(found))) => latest = Some(found),
                Some(Ok(Event::Delete(_) | Event::Init)) => latest = None,
                Some(Ok(Event::InitDone)) => {}
                Some(Err(error)) => {
                    warn!(%error, "the definition of CatalogSources cannot be watched");
                    continue;
                }
                None => return,
            },
            changed = believed.changed() => if changed.is_err() {
                return;
            },
            () = async { match pause { Some(pause) => sleep(pause).await, None => std::future::pending().await } } => {}
        }
        pause = None;
        let authority = believed.borrow_and_update().clone();
        let (Some(definition), Some(authority)) = (&latest, authority) else {
            continue;
        };
        match decide(definition, namespace, &authority) {
            Step::Nothing => told = None,
            Step::Leave(why) => {
                if told.replace(why) != Some(why) {
                    warn!(why, "the definition of CatalogSources is left as it is");
                }
            }
            Step::Patch(patch) => {
                let params = PatchParams {
                    field_manager: Some(MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                match definitions
                    .patch(DEFINITION, &params, &Patch::Merge(&patch))
                    .await
                {
                    Ok(patched) => {
                        info!("the definition of CatalogSources believes the conversion webhook");
                        latest = Some(patched);
                    }
                    // Another replica was faster, which the watch tells.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(error) => {
                        warn!(%error, "the definition of CatalogSources cannot be told what to believe");
                        pause = Some(RETRY);
                    }
                }
            }
        }
    }
}

/// Decides. What OLM or a release payload has brought is theirs.
fn decide(definition: &CustomResourceDefinition, namespace: &str, authority: &str) -> Step {
    let part_of = definition.labels().get("app.kubernetes.io/part-of");
    if part_of.is_none_or(|part_of| part_of != "rukpak") {
        return Step::Leave(
            "it is somebody else's: it has no label app.kubernetes.io/part-of: rukpak",
        );
    }
    let conversion = definition.spec.conversion.as_ref();
    let webhook = conversion
        .filter(|conversion| conversion.strategy == "Webhook")
        .and_then(|conversion| conversion.webhook.as_ref());
    let Some(config) = webhook.and_then(|webhook| webhook.client_config.as_ref()) else {
        return Step::Leave("it asks no webhook; apply the definition with the version v1");
    };
    let service = config.service.as_ref();
    if service
        .is_some_and(|it| (it.namespace.as_str(), it.name.as_str()) != (namespace, super::NAME))
    {
        return Step::Leave("it asks the webhook of another Service");
    }
    let wanted = ByteString(authority.as_bytes().to_vec());
    if config.ca_bundle.as_ref() == Some(&wanted) {
        return Step::Nothing;
    }
    Step::Patch(json!({
        // Nobody else may have decided otherwise in the meantime.
        "metadata": {"resourceVersion": definition.resource_version()},
        "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": wanted}}}},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(labels: &Value, conversion: &Value) -> CustomResourceDefinition {
        serde_json::from_value(json!({
            "metadata": {"name": DEFINITION, "labels": labels, "resourceVersion": "7"},
            "spec": {
                "group": "operators.coreos.com", "scope": "Namespaced", "versions": [],
                "names": {"kind": "CatalogSource", "plural": "catalogsources"}, "conversion": conversion,
            },
        }))
        .unwrap()
    }

    // parity: source-15
    #[test]
    fn only_a_definition_of_ours_that_asks_the_webhook_is_changed() {
        let ours = json!({"app.kubernetes.io/part-of": "rukpak"});
        let asks = |bundle: Value| {
            json!({"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": super::super::NAME, "namespace": "rukpak-system"}, "caBundle": bundle},
            }})
        };
        // "abc" and "xyz" in base64.
        let (same, other) = (json!("YWJj"), json!("eHl6"));
        assert_rows!(decide(&definition(&ours, &asks(same.clone())), "rukpak-system", "abc") => Step::Nothing);
        for before in [other, Value::Null] {
            let Step::Patch(patch) =
                decide(&definition(&ours, &asks(before)), "rukpak-system", "abc")
            else {
                panic!("not patched");
            };
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            let config = &patch["spec"]["conversion"]["webhook"]["clientConfig"];
            assert_eq!(*config, json!({"caBundle": "YWJj"}));
        }
        for (labels, conversion, why) in ::tests::rows![
            json!({}), asks(same.clone()) => "somebody else's";
            json!({"app.kubernetes.io/part-of": "olm"}), asks(same) => "somebody else's";
            ours.clone(),
              json!({"strategy": "Webhook", "webhook": {
                  "conversionReviewVersions": ["v1"],
                  "clientConfig": {"service": {"name": "other", "namespace": "rukpak-system"}},
              }})
              => "of another Service";
            ours.clone(), Value::Null => "asks no webhook";
            ours, json!({"strategy": "None"}) => "asks no webhook";
        ] {
            let step = decide(&definition(&labels, &conversion), "rukpak-system", "abc");
            assert_rows!(matches!(step, Step::Leave(said) if said.contains(why)) => true, "{step:?}");
        }
    }
}

//! An admission webhook for the ConfigMaps of one namespace.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hyper::{Request, Response};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration, core::v1::ConfigMap,
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use tests::Site;

use crate::support::{World, config_map, delete, until};

pub(crate) enum Say {
    /// Denies the request with this message.
    No(&'static str),
    /// Allows the request with this JSON Patch.
    Change(Value),
}

pub(crate) struct Hook {
    name: String,
    _site: Option<Site>,
}

impl Hook {
    pub(crate) async fn new(world: &World, namespace: &str, say: Say) -> Self {
        let ca = tests::TestCa::default();
        let site = Site::start(Some(&ca), move |request| {
            let answer = answer(&request, &say);
            async move { answer }
        });
        let client = json!({"url": site.url("/"), "caBundle": STANDARD.encode(ca.pem())});
        Self::register(world, namespace, client, Some(site)).await
    }

    pub(crate) async fn dead(world: &World, namespace: &str) -> Self {
        let client = json!({"url": "https://127.0.0.1:1/"});
        Self::register(world, namespace, client, None).await
    }

    async fn register(world: &World, name: &str, client: Value, site: Option<Site>) -> Self {
        let operations = ["CREATE", "UPDATE"];
        let webhook = json!({
            "name": "hook.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "clientConfig": client, "timeoutSeconds": 5,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": operations}],
        });
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name}, "webhooks": [webhook],
        });
        world.apply(&configuration).await;
        let hook = Self {
            name: name.to_owned(),
            _site: site,
        };
        // The webhook takes effect a moment later.
        let is_ignored = async || hook.is_ignored(world).await;
        until("the webhook is in force", is_ignored, |ignored| !*ignored).await;
        hook
    }

    /// Reports whether an object is stored as it was sent.
    async fn is_ignored(&self, world: &World) -> bool {
        let mut probe = config_map(&self.name, "probe", "probe");
        probe["metadata"]["labels"] = json!({"probe": "yes"});
        let probe = serde_json::from_value(probe).unwrap();
        let api: Api<ConfigMap> = Api::namespaced(world.client(), &self.name);
        let params = tests::with!(PostParams, dry_run: true);
        let is_as_sent =
            |map: ConfigMap| map.data.unwrap()["text"] == "probe" && map.metadata.labels.is_some();
        api.create(&params, &probe).await.is_ok_and(is_as_sent)
    }

    /// Removes the webhook, and waits until it has no effect.
    pub(crate) async fn remove(self, world: &World) {
        let api: Api<MutatingWebhookConfiguration> = world.api();
        delete(&api, &self.name).await;
        let is_ignored = async || self.is_ignored(world).await;
        until("the webhook has no effect", is_ignored, |ignored| *ignored).await;
    }
}

fn answer(request: &Request<Bytes>, say: &Say) -> Response<Bytes> {
    let review: Value = serde_json::from_slice(request.body()).unwrap();
    let uid = &review["request"]["uid"];
    let response = match say {
        Say::No(reason) => json!({"uid": uid, "allowed": false, "status": {"message": reason}}),
        Say::Change(patch) => json!({
            "uid": uid, "allowed": true, "patchType": "JSONPatch",
            "patch": STANDARD.encode(patch.to_string()),
        }),
    };
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let mut response = Response::new(Bytes::from(review.to_string()));
    let json = "application/json".parse().unwrap();
    response.headers_mut().insert("Content-Type", json);
    response
}

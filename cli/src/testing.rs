//! Objects and command lines of unit tests.

use std::collections::BTreeSet;

use clap::Args;
use http::{Request, Response};
use kube::{Client, Config, client::Body};
use manifests::{api::bundle_instance::BundleInstance, object::Identity};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::cluster::Cluster;

/// Returns the BundleInstance `tide`, with these fields added or replaced.
pub(crate) fn instance(more: &Value) -> BundleInstance {
    let mut value = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "metadata": {"name": "tide", "generation": 2},
        "spec": {
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"spec": {"source": {"type": "upload", "upload": {}}}},
        },
    });
    merge(&mut value, more);
    serde_json::from_value(value).unwrap()
}

pub(crate) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => from.clone_into(into),
    }
}

/// Returns a cluster whose API server answers this number of requests with [`instance`], and then fails.
pub(crate) fn cluster(answered: usize, more: &Value) -> Cluster {
    let instance = json!(instance(more));
    let mut requests = 0;
    let server = service_fn(move |_: Request<Body>| {
        requests += 1;
        let (code, body) = if requests <= answered {
            (200, instance.to_string())
        } else {
            (500, json!({"code": 500, "message": "no"}).to_string())
        };
        let response = Response::builder().status(code);
        let response = response.body(Body::from(body.into_bytes()));
        std::future::ready(response.map_err(BoxError::from))
    });
    Cluster {
        client: Client::new(server, "default"),
        config: Config::new("http://localhost".parse().unwrap()),
        system_namespace: String::new(),
    }
}

/// Returns the identity of an object in the namespace `tides`.
pub(crate) fn identity(group: &str, kind: &str, name: &str) -> Identity {
    let [group, kind, namespace, name] = [group, kind, "tides", name].map(str::to_owned);
    Identity {
        group,
        kind,
        namespace,
        name,
    }
}

pub(crate) fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A condition of generation 2.
pub(crate) fn condition((type_, status, reason, message): (&str, &str, &str, &str)) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Returns the error of a request that the API server answers with this status.
pub(crate) fn refused(status: Value) -> kube::Error {
    kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
}

pub(crate) fn parse<A: Args>(line: &[&str]) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("rukpak").no_binary_name(true));
    let command = crate::args::with_boolean_values(command);
    A::from_arg_matches(&command.try_get_matches_from(line)?)
}

//! `EndpointSlice`: v1 took the node and the zone out of the topology labels.

use serde_json::Value;

use super::json::{self, Object, objects_in, take};

/// Spreads the topology of each endpoint as the API server does.
pub(super) fn reshape(object: &mut Object) {
    for (_, endpoint) in objects_in(object, "endpoints") {
        let Some(Value::Object(mut topology)) = take(endpoint, "topology") else {
            continue;
        };
        for (label, field) in [
            ("kubernetes.io/hostname", "nodeName"),
            ("topology.kubernetes.io/zone", "zone"),
        ] {
            if let Some(value) = topology.remove(label) {
                json::default(endpoint, field, value);
            }
        }
        if !topology.is_empty() {
            endpoint.insert("deprecatedTopology".into(), topology.into());
        }
    }
}
